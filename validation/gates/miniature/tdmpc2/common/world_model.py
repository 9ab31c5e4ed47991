"""The networks of the miniature (not TD-MPC2): what the agent knows about the world, and its two actors.

z = h(s), z' = d(z, a), reward R(z, a), values Q_i(z, a), policy p(z), and in episodic tasks the
probability that z' is an end. `task` is the official interface's; the miniature has one task and passes None.
"""

import torch
from tensordict.nn import TensorDictParams
from torch import nn

from common import init, layers, math


class WorldModel(nn.Module):
	"""Encoder, dynamics, reward, termination, policy and the Q-ensemble with its targets."""

	def __init__(self, cfg):
		super().__init__()
		if cfg.multitask:
			raise ValueError('The miniature trains one task at a time; use the official code for more.')
		self.cfg = cfg
		hidden = [cfg.mlp_dim, cfg.mlp_dim]
		joint = cfg.latent_dim + cfg.action_dim
		self._encoder = layers.enc(cfg)
		self._dynamics = layers.mlp(joint, hidden, cfg.latent_dim, act=layers.SimNorm(cfg))
		self._reward = layers.mlp(joint, hidden, cfg.num_bins)
		self._termination = layers.mlp(cfg.latent_dim, hidden, 1) if cfg.episodic else None
		self._pi = layers.mlp(cfg.latent_dim, hidden, 2 * cfg.action_dim)
		members = [layers.mlp(joint, hidden, cfg.num_bins, dropout=cfg.dropout) for _ in range(cfg.num_q)]
		self.apply(init.weight_init)
		for member in members:
			member.apply(init.weight_init)
		# Uniform over the bins is symlog 0: nothing is promised before anything has been seen.
		for head in [self._reward, *members]:
			nn.init.zeros_(head[-1].weight)
		self._Qs = layers.Ensemble(members)
		self._target_Qs_params = TensorDictParams(self._Qs.params.data.clone(), no_convert=True)
		self._tie_detached()
		self.register_buffer('log_std_min', torch.tensor(float(cfg.log_std_min)))
		self.register_buffer('log_std_dif', torch.tensor(float(cfg.log_std_max)) - self.log_std_min)

	def _tie_detached(self):
		"""The detached parameters are the live ones, in the same memory, without a gradient."""
		self._detach_Qs_params = TensorDictParams(self._Qs.params.data, no_convert=True)

	def to(self, *args, **kwargs):
		"""As any module's; moving copies every tensor, so what shared memory is tied again."""
		super().to(*args, **kwargs)
		self._tie_detached()
		return self

	@property
	def total_params(self):
		"""How many numbers are learned."""
		return sum(p.numel() for p in self.parameters() if p.requires_grad)

	@torch.no_grad()
	def soft_update_target_Q(self):
		"""Moves the targets by a share `tau` of the way to the live parameters."""
		self._target_Qs_params.lerp_(self._detach_Qs_params, self.cfg.tau)

	def encode(self, obs, task):
		"""Latents (…, L) of observations (…, obs_dim)."""
		return self._encoder[self.cfg.obs](obs)

	def next(self, z, a, task):
		"""Latents (…, L) that follow."""
		return self._dynamics(torch.cat([z, a], dim=-1))

	def reward(self, z, a, task):
		"""Logits (…, num_bins) of the reward."""
		return self._reward(torch.cat([z, a], dim=-1))

	def termination(self, z, task, unnormalized=False):
		"""Probability (…, 1) that z is the end of an episode, or its logit."""
		logit = self._termination(z)
		return logit if unnormalized else logit.sigmoid()

	def pi(self, z, task):
		"""Action (…, A) drawn from the policy, and a dict: mean, log_std, entropy, scaled_entropy."""
		mean, log_std = self._pi(z).chunk(2, dim=-1)
		log_std = math.log_std(log_std, self.log_std_min, self.log_std_dif)
		eps = torch.randn_like(mean)
		log_prob = math.gaussian_logprob(eps, log_std)
		mean, action, log_prob = math.squash(mean, mean + eps * log_std.exp(), log_prob)
		entropy = -log_prob
		# One entropy coefficient is to mean the same for actions of few and of many dimensions.
		scaled = entropy * self.cfg.action_dim
		return action, {'mean': mean, 'log_std': log_std, 'entropy': entropy, 'scaled_entropy': scaled}

	def Q(self, z, a, task, return_type='min', target=False, detach=False):
		"""Values (…, 1) as the min or avg of two random members, or all members' logits (n, …, num_bins).

		`target` asks the target networks; `detach` keeps the gradient out of the ensemble's parameters
		and lets it through to z and a.
		"""
		if return_type not in ('min', 'avg', 'all'):
			raise ValueError(f"return_type must be 'min', 'avg' or 'all', not {return_type!r}")
		params = self._target_Qs_params if target else self._detach_Qs_params if detach else None
		logits = self._Qs(torch.cat([z, a], dim=-1), params)
		if return_type == 'all':
			return logits
		pair = torch.randperm(self.cfg.num_q, device=logits.device)[:2]
		values = math.two_hot_inv(logits[pair], self.cfg)
		return values.amin(0) if return_type == 'min' else values.mean(0)
