"""Tensors in, tensors out: the miniature's outermost wrapper (not TD-MPC2's), which the trainer sees."""

from collections import defaultdict

import gymnasium as gym
import numpy as np
import torch


class TensorWrapper(gym.Wrapper):
	"""Old gym form on float32 CPU tensors: `reset() -> obs`, `step(action) -> obs, reward, done, info`."""

	def rand_act(self):
		"""Action (A,), uniform over the action space."""
		return self._tensor(self.action_space.sample())

	@staticmethod
	def _tensor(x):
		return torch.as_tensor(np.asarray(x), dtype=torch.float32)

	def reset(self, task_idx=None):
		"""First observation; `task_idx` is the official interface's and means nothing for one task."""
		return self._tensor(self.env.reset())

	def step(self, action):
		"""`info` holds success and, as a tensor, terminated."""
		obs, reward, done, info = self.env.step(action.numpy())
		info = defaultdict(float, info)
		info['success'] = float(info['success'])
		info['terminated'] = self._tensor(info['terminated'])
		return self._tensor(obs), self._tensor(reward), done, info
