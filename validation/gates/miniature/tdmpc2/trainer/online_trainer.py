"""The miniature's training loop (not TD-MPC2's): one environment, one agent step at a time."""

from time import time

import numpy as np
import torch
from tensordict import TensorDict

from trainer.base import Trainer


class OnlineTrainer(Trainer):
	"""Random actions up to `seed_steps`; that many updates at once; then an update every agent step."""

	def __init__(self, *args, **kwargs):
		super().__init__(*args, **kwargs)
		self._start_time = time()
		self._step = 0
		self._ep_idx = 0

	def common_metrics(self):
		"""Where the run stands: step, episode, seconds since its start, agent steps per second."""
		elapsed = time() - self._start_time
		return {
			'step': self._step,
			'episode': self._ep_idx,
			'elapsed_time': elapsed,
			'steps_per_second': self._step / elapsed,
		}

	def eval(self):
		"""Means over `eval_episodes` episodes without exploration; the first one is filmed."""
		rewards, successes, lengths = [], [], []
		for i in range(self.cfg.eval_episodes):
			obs, done, episode_reward, length = self.env.reset(), False, 0.0, 0
			if self.cfg.save_video:
				self.logger.video.init(self.env, enabled=(i == 0))
			while not done:
				action = self.agent.act(obs, t0=length == 0, eval_mode=True)
				obs, reward, done, info = self.env.step(action)
				episode_reward += float(reward)
				length += 1
				if self.cfg.save_video:
					self.logger.video.record(self.env)
			if self.cfg.save_video:
				self.logger.video.save(self._step)
			rewards.append(episode_reward)
			successes.append(info['success'])
			lengths.append(length)
		return {
			'episode_reward': np.mean(rewards),
			'episode_success': np.mean(successes),
			'episode_length': np.mean(lengths),
		}

	def to_td(self, obs, action=None, reward=None, terminated=None):
		"""One row of an episode, batch size (1,): an observation and what led to it, NaN at the start."""
		unknown = torch.tensor(torch.nan)
		row = {
			'obs': obs,
			'action': torch.full_like(self.env.rand_act(), torch.nan) if action is None else action,
			'reward': unknown if reward is None else reward,
			'terminated': unknown if terminated is None else terminated,
		}
		return TensorDict({name: value.unsqueeze(0).cpu() for name, value in row.items()}, batch_size=(1,))

	def _episode_metrics(self, info):
		"""Return, success and length of the episode that just ended, which also goes into the buffer."""
		episode = torch.cat(self._tds)
		self._ep_idx = self.buffer.add(episode)
		return {
			'episode_reward': episode['reward'].nansum().item(),
			'episode_success': info['success'],
			'episode_length': len(episode) - 1,
			'episode_terminated': float(info['terminated']),
		}

	def train(self):
		"""From nothing to a saved agent, in `cfg.steps` agent steps."""
		train_metrics, done, info, eval_next = {}, True, None, False
		while self._step <= self.cfg.steps:
			# An evaluation borrows the environment, so it waits until the episode has ended.
			eval_next = eval_next or self._step % self.cfg.eval_freq == 0
			if done:
				if self._step > 0:
					train_metrics.update(self._episode_metrics(info), **self.common_metrics())
					self.logger.log(train_metrics, 'train')
				if eval_next:
					eval_next = False
					eval_metrics = self.eval()
					eval_metrics |= self.common_metrics()
					self.logger.log(eval_metrics, 'eval')
				obs = self.env.reset()
				self._tds = [self.to_td(obs)]

			if self._step <= self.cfg.seed_steps:
				action = self.env.rand_act()
			else:
				action = self.agent.act(obs, t0=len(self._tds) == 1)
			obs, reward, done, info = self.env.step(action)
			if info['terminated'] and not self.cfg.episodic:
				raise ValueError('The task terminated an episode: it needs episodic=true.')
			self._tds.append(self.to_td(obs, action, reward, info['terminated']))

			if self._step >= self.cfg.seed_steps:
				if self._step == self.cfg.seed_steps:
					num_updates = self.cfg.seed_steps
					print(f'Seed phase over: {num_updates} updates on what was collected')
				else:
					num_updates = 1
				for _ in range(num_updates):
					_train_metrics = self.agent.update(self.buffer)
				# Logged when the episode ends, and by then only the last.
				train_metrics.update(_train_metrics)
			self._step += 1

		self.logger.finish(self.agent)
