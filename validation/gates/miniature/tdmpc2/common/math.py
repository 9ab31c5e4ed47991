"""The formulas of the miniature (not TD-MPC2): two-hot regression and the squashed Gaussian.

Pure functions on tensors. `cfg` gives num_bins, vmin, vmax and bin_size where bins are meant.
"""

import torch
import torch.nn.functional as F


def symlog(x):
	"""Compresses large magnitudes and keeps the sign: sign(x) log(1 + |x|)."""
	return x.sign() * x.abs().log1p()


def symexp(x):
	"""Inverse of `symlog`."""
	return x.sign() * x.abs().expm1()


def two_hot(x, cfg):
	"""Scalars (…, 1) to weights (…, num_bins) on the two bins next to each one's symlog."""
	position = (symlog(x).clamp(cfg.vmin, cfg.vmax) - cfg.vmin) / cfg.bin_size
	bins = torch.arange(cfg.num_bins, device=x.device, dtype=x.dtype)
	# A triangle as wide as two bins gives both neighbours their share, and every other bin nothing.
	return (1 - (position - bins).abs()).clamp(min=0)


def two_hot_inv(x, cfg):
	"""Logits (…, num_bins) to the scalars (…, 1) that they stand for."""
	centres = torch.linspace(cfg.vmin, cfg.vmax, cfg.num_bins, device=x.device, dtype=x.dtype)
	return symexp((x.softmax(-1) * centres).sum(-1, keepdim=True))


def soft_ce(pred, target, cfg):
	"""Cross-entropy (…, 1) of logits (…, num_bins) against scalars (…, 1) made two-hot."""
	return -(two_hot(target, cfg) * F.log_softmax(pred, dim=-1)).sum(-1, keepdim=True)


def log_std(x, low, dif):
	"""Any number to a log standard deviation within [low, low + dif], smoothly."""
	return low + dif * torch.sigmoid(2 * x)


def gaussian_logprob(eps, log_std):
	"""Log-density (…, 1) of mean + eps * std under that Gaussian, for eps (…, A)."""
	normal = torch.distributions.Normal(0.0, 1.0, validate_args=False)
	return (normal.log_prob(eps) - log_std).sum(-1, keepdim=True)


def squash(mu, pi, log_pi):
	"""Mean and sample through tanh, and the log-density (…, 1) of the squashed sample."""
	mu, pi = mu.tanh(), pi.tanh()
	# The change of variables divides the density by tanh's slope, which may round to 0.
	return mu, pi, log_pi - (1 - pi.square()).clamp(min=1e-6).log().sum(-1, keepdim=True)


def gumbel_softmax_sample(p, temperature=1.0, dim=0):
	"""Index along `dim`, drawn with probabilities proportional to p^(1 / temperature)."""
	gumbel = -torch.empty_like(p).exponential_().log()
	return (p.log() / temperature + gumbel).argmax(dim)
