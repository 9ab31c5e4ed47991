"""Building blocks of the miniature's networks (not TD-MPC2's); put together in `common.world_model`."""

from copy import deepcopy

import torch
from tensordict import from_modules
from torch import nn


class Ensemble(nn.Module):
	"""Networks of one architecture, evaluated at once: their parameters are stacked and vmapped over."""

	def __init__(self, modules, **kwargs):
		super().__init__()
		self.params = from_modules(*modules, as_module=True)
		# Only the architecture is kept of the first member: on the meta device it weighs nothing.
		with self.params.data[0].to('meta').to_module(modules[0]):
			self.module = deepcopy(modules[0])
		# Every member drops units of its own.
		self._vmap_options = {'randomness': 'different', **kwargs}

	def _member(self, params, x):
		with params.to_module(self.module):
			return self.module(x)

	def forward(self, x, params=None):
		"""Outputs (n, …, out) of all n members for one input (…, in), by default with the live parameters."""
		members = self.params if params is None else params
		return torch.vmap(self._member, in_dims=(0, None), **self._vmap_options)(members, x)


class SimNorm(nn.Module):
	"""Softmax within groups of `simnorm_dim` numbers, so that a latent is a row of small simplices."""

	def __init__(self, cfg):
		super().__init__()
		self._group = cfg.simnorm_dim

	def forward(self, x):
		return x.unflatten(-1, (-1, self._group)).softmax(-1).flatten(-2)


class NormedLinear(nn.Linear):
	"""Linear layer, then dropout, layer norm and an activation (Mish unless another is given)."""

	def __init__(self, in_features, out_features, act=None, dropout=0.0):
		super().__init__(in_features, out_features)
		self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
		self.norm = nn.LayerNorm(out_features)
		self.act = nn.Mish() if act is None else act

	def forward(self, x):
		return self.act(self.norm(self.dropout(super().forward(x))))


def mlp(in_dim, mlp_dims, out_dim, act=None, dropout=0.0):
	"""Normed hidden layers, the first with dropout, and a last layer that is plain unless `act` is given."""
	widths = [in_dim, *([mlp_dims] if isinstance(mlp_dims, int) else mlp_dims)]
	hidden = [
		NormedLinear(wide, narrow, dropout=0.0 if i else dropout)
		for i, (wide, narrow) in enumerate(zip(widths[:-1], widths[1:], strict=True))
	]
	last = nn.Linear(widths[-1], out_dim) if act is None else NormedLinear(widths[-1], out_dim, act=act)
	return nn.Sequential(*hidden, last)


def enc(cfg):
	"""Encoders by kind of observation; the miniature knows states."""
	hidden = [cfg.enc_dim] * max(cfg.num_enc_layers - 1, 1)
	encoders = {kind: mlp(n, hidden, cfg.latent_dim, act=SimNorm(cfg)) for kind, (n,) in cfg.obs_shape.items()}
	return nn.ModuleDict(encoders)
