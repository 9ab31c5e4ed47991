"""Time limit of the miniature's environments (not TD-MPC2's), in agent steps."""

import gymnasium as gym


class Timeout(gym.Wrapper):
	"""Ends an episode after so many steps; that is not a termination."""

	def __init__(self, env, max_episode_steps):
		super().__init__(env)
		self._max_episode_steps = max_episode_steps
		self._elapsed = 0

	@property
	def max_episode_steps(self):
		return self._max_episode_steps

	def step(self, action):
		obs, reward, done, info = self.env.step(action)
		self._elapsed += 1
		return obs, reward, done or self._elapsed >= self._max_episode_steps, info

	def reset(self, **kwargs):
		self._elapsed = 0
		return self.env.reset(**kwargs)
