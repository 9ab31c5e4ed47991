"""The agent of the miniature: a stand-in with TD-MPC2's interfaces, not TD-MPC2.

`TDMPC2` plans with MPPI in the latent space of its world model, and learns that model, a policy prior
and an ensemble of value functions from slices of replayed episodes. `trainer.online_trainer` drives it.

Letters in shapes: B batch, H horizon, N sampled trajectories, L latent_dim, A action_dim.
"""

import torch
import torch.nn.functional as F

from common import math
from common.scale import RunningScale
from common.world_model import WorldModel


class TDMPC2(torch.nn.Module):
	"""World model, planner and learner in one; one environment, state observations."""

	def __init__(self, cfg):
		super().__init__()
		self.device = torch.device('cuda:0')
		self.cfg = cfg
		# Many-dimensional actions need a longer search.
		self.cfg.iterations += 2 if cfg.action_dim >= 20 else 0
		self.model = WorldModel(cfg).to(self.device)
		self.model.eval()
		heads = [self.model._dynamics, self.model._reward, self.model._Qs]
		if cfg.episodic:
			heads.append(self.model._termination)
		groups = [{'params': self.model._encoder.parameters(), 'lr': cfg.lr * cfg.enc_lr_scale}]
		groups += [{'params': head.parameters()} for head in heads]
		self.optim = torch.optim.Adam(groups, lr=cfg.lr, capturable=True)
		self.pi_optim = torch.optim.Adam(self.model._pi.parameters(), lr=cfg.lr, eps=1e-5, capturable=True)
		self.scale = RunningScale(cfg)
		self.discount = self._discount_for(cfg.episode_length)
		self._prev_mean = torch.nn.Buffer(torch.zeros(cfg.horizon, cfg.action_dim, device=self.device))
		self._plan_val = None
		if cfg.compile:
			self._update = torch.compile(self._update)

	def _discount_for(self, episode_length):
		"""A discount whose reach is a fixed share of an episode of so many agent steps."""
		reach = episode_length / self.cfg.discount_denom
		return min(max((reach - 1) / reach, self.cfg.discount_min), self.cfg.discount_max)

	@property
	def plan(self):
		"""The planner, compiled on first use where the configuration asks for it."""
		if self._plan_val is None:
			self._plan_val = torch.compile(self._plan) if self.cfg.compile else self._plan
		return self._plan_val

	def save(self, fp):
		"""Writes the world model's state to a path."""
		torch.save({'model': self.model.state_dict()}, fp)

	def load(self, fp):
		"""Takes a path that `save` wrote, or its content, or the model's state alone."""
		if isinstance(fp, dict):
			state_dict = fp
		else:
			state_dict = torch.load(fp, map_location=self.device, weights_only=False)
		state_dict = state_dict.get('model', state_dict)
		self.model.load_state_dict(state_dict)

	@torch.no_grad()
	def act(self, obs, t0=False, eval_mode=False, task=None):
		"""Action (A,) on the CPU for one observation (obs_dim,); t0 says that an episode begins."""
		obs = obs.to(self.device).unsqueeze(0)
		if self.cfg.mpc:
			action = self.plan(obs, t0=t0, eval_mode=eval_mode, task=task)
		else:
			sampled, info = self.model.pi(self.model.encode(obs, task), task)
			action = (info['mean'] if eval_mode else sampled)[0]
		return action.cpu()

	@torch.no_grad()
	def _estimate_value(self, z, actions, task):
		"""Values (N, 1) of following actions (H, N, A) from latents (N, L) and the policy afterwards."""
		value, weight = 0, 1
		ended = torch.zeros(self.cfg.num_samples, 1, dtype=torch.bool, device=z.device)
		for action in actions:
			reward = math.two_hot_inv(self.model.reward(z, action, task), self.cfg)
			value = value + weight * reward.masked_fill(ended, 0)
			weight = weight * self.discount
			z = self.model.next(z, action, task)
			if self.cfg.episodic:
				ended = ended | (self.model.termination(z, task) > 0.5)
		last_action, _ = self.model.pi(z, task)
		beyond = self.model.Q(z, last_action, task, return_type='avg')
		return value + weight * beyond.masked_fill(ended, 0)

	@torch.no_grad()
	def _plan(self, obs, t0=False, eval_mode=False, task=None):
		"""MPPI: action (A,) for one observation (1, obs_dim). Leaves the mean found for the next call.

		Random numbers are drawn in this order: the policy's trajectories; then, in every iteration, the
		sampled trajectories and what their valuation draws; the elite to follow; the action's noise.
		"""
		cfg = self.cfg
		z = self.model.encode(obs, task)
		actions = torch.empty(cfg.horizon, cfg.num_samples, cfg.action_dim, device=self.device)
		if cfg.num_pi_trajs > 0:
			z_pi = z.repeat(cfg.num_pi_trajs, 1)
			for t in range(cfg.horizon):
				actions[t, : cfg.num_pi_trajs], _ = self.model.pi(z_pi, task)
				if t + 1 < cfg.horizon:
					z_pi = self.model.next(z_pi, actions[t, : cfg.num_pi_trajs], task)

		z = z.repeat(cfg.num_samples, 1)
		mean = torch.zeros(cfg.horizon, cfg.action_dim, device=self.device)
		std = torch.full_like(mean, cfg.max_std)
		if not t0:
			mean[:-1] = self._prev_mean[1:]

		sampled = (cfg.horizon, cfg.num_samples - cfg.num_pi_trajs, cfg.action_dim)
		for _ in range(cfg.iterations):
			noise = torch.randn(sampled, device=self.device)
			actions[:, cfg.num_pi_trajs :] = (mean.unsqueeze(1) + std.unsqueeze(1) * noise).clamp(-1, 1)
			# A diverged model must not turn the whole plan into NaN.
			value = self._estimate_value(z, actions, task).nan_to_num(0)
			best = torch.topk(value.squeeze(1), cfg.num_elites, dim=0).indices
			elite_value, elite_actions = value[best], actions[:, best]
			score = torch.exp(cfg.temperature * (elite_value - elite_value.max(0).values))
			score = score / score.sum(0)
			# 1 but for rounding, which the mean is freed of.
			total = score.sum(0) + 1e-9
			mean = (score * elite_actions).sum(1) / total
			variance = (score * (elite_actions - mean.unsqueeze(1)) ** 2).sum(1) / total
			std = variance.sqrt().clamp(cfg.min_std, cfg.max_std)

		follow = math.gumbel_softmax_sample(score.squeeze(1))
		action = elite_actions[0].index_select(0, follow.reshape(1)).squeeze(0)
		if not eval_mode:
			action = action + std[0] * torch.randn(cfg.action_dim, device=self.device)
		self._prev_mean.copy_(mean)
		return action.clamp(-1, 1)

	def _step_weights(self, steps):
		"""rho^t for t = 0 ... steps-1: what the model predicts far ahead counts less."""
		return self.cfg.rho ** torch.arange(steps, device=self.device)

	@torch.no_grad()
	def _td_target(self, next_z, reward, terminated, task):
		"""One-step TD-targets (H, B, 1) from next latents (H, B, L), rewards and ends (H, B, 1)."""
		next_action, _ = self.model.pi(next_z, task)
		next_value = self.model.Q(next_z, next_action, task, return_type='min', target=True)
		return reward + self.discount * (1 - terminated) * next_value

	def update_pi(self, zs, task):
		"""One step of the policy prior on latents (H+1, B, L), which it does not change."""
		action, info = self.model.pi(zs, task)
		qs = self.model.Q(zs, action, task, return_type='avg', detach=True)
		self.scale.update(qs[0])
		objective = self.scale(qs) + self.cfg.entropy_coef * info['scaled_entropy']
		pi_loss = -(self._step_weights(len(zs)) * objective.mean((1, 2))).mean()
		pi_loss.backward()
		grad_norm = torch.nn.utils.clip_grad_norm_(self.model._pi.parameters(), self.cfg.grad_clip_norm)
		self.pi_optim.step()
		self.pi_optim.zero_grad(set_to_none=True)
		return {
			'pi_loss': pi_loss.detach(),
			'pi_grad_norm': grad_norm,
			'pi_entropy': info['entropy'].detach().mean(),
			'pi_scaled_entropy': info['scaled_entropy'].detach().mean(),
			'pi_scale': self.scale.value.mean(),
		}

	def _update(self, obs, action, reward, terminated, task=None):
		"""One step of everything that learns, on a batch of slices; returns losses as scalar tensors."""
		self.model.train()
		with torch.no_grad():
			next_z = self.model.encode(obs[1:], task)
			td_target = self._td_target(next_z, reward, terminated, task)

		# The model is unrolled from the first observation of each slice and never sees another.
		zs = [self.model.encode(obs[0], task)]
		for a in action:
			zs.append(self.model.next(zs[-1], a, task))
		zs = torch.stack(zs)

		per_step = {
			'consistency': F.mse_loss(zs[1:], next_z, reduction='none').mean((1, 2)),
			'reward': math.soft_ce(self.model.reward(zs[:-1], action, task), reward, self.cfg).mean((1, 2)),
			'value': math.soft_ce(self.model.Q(zs[:-1], action, task, return_type='all'), td_target, self.cfg).mean(
				(0, 2, 3)
			),
		}
		if self.cfg.episodic:
			logits = self.model.termination(zs[1:], task, unnormalized=True)
			end_loss = F.binary_cross_entropy_with_logits(logits, terminated, reduction='none')
			per_step['termination'] = end_loss.mean((1, 2))

		weights = self._step_weights(len(action))
		losses = {name: (weights * loss).mean() for name, loss in per_step.items()}
		total = sum(getattr(self.cfg, f'{name}_coef') * loss for name, loss in losses.items())
		total.backward()
		grad_norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.grad_clip_norm)
		self.optim.step()
		self.optim.zero_grad(set_to_none=True)

		pi_info = self.update_pi(zs.detach(), task)
		self.model.soft_update_target_Q()
		self.model.eval()

		info = {f'{name}_loss': loss.detach() for name, loss in losses.items()}
		info.setdefault('termination_loss', torch.zeros_like(grad_norm))
		return info | {'total_loss': total.detach(), 'grad_norm': grad_norm} | pi_info

	def update(self, buffer):
		"""Samples one batch from the buffer and learns from it."""
		obs, action, reward, terminated, task = buffer.sample()
		return self._update(obs, action, reward, terminated, task)
