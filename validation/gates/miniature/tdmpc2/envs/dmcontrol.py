"""dm_control's suite for the miniature (not TD-MPC2); `envs.make_env` is the caller."""

from collections import defaultdict

import gymnasium as gym
import numpy as np
from dm_control import suite
from dm_control.suite.wrappers import action_scale

from envs.wrappers.timeout import Timeout

ACTION_REPEAT = 2
# Task names hold one word for the domain.
DOMAINS = {'cup': 'ball_in_cup', 'pointmass': 'point_mass'}


class DMControlWrapper:
	"""A suite task as an old gym environment: flat observations, actions in [-1, 1], each applied twice."""

	def __init__(self, env):
		self.env = action_scale.Wrapper(env, minimum=-1.0, maximum=1.0)
		action_shape = self.env.action_spec().shape
		obs_dim = sum(int(np.prod(spec.shape)) for spec in self.env.observation_spec().values())
		self.observation_space = gym.spaces.Box(-np.inf, np.inf, (obs_dim,), np.float32)
		self.action_space = gym.spaces.Box(-1.0, 1.0, action_shape, np.float32)

	@property
	def unwrapped(self):
		return self.env

	@staticmethod
	def _flat(time_step):
		"""Observation (obs_dim,), its parts in the task's own order."""
		return np.concatenate([np.ravel(part) for part in time_step.observation.values()]).astype(np.float32)

	def reset(self):
		return self._flat(self.env.reset())

	def step(self, action):
		"""Observation, reward summed over the repeats, done, info."""
		action = np.asarray(action, dtype=self.env.action_spec().dtype)
		reward = 0.0
		for _ in range(ACTION_REPEAT):
			time_step = self.env.step(action)
			reward += time_step.reward
			if time_step.last():
				break
		info = defaultdict(float)
		# The suite's time limit ends an episode with discount 1, a true end with 0.
		info['terminated'] = float(time_step.last() and time_step.discount == 0)
		return self._flat(time_step), reward, bool(info['terminated']), info

	def render(self, width=384, height=384, camera_id=0):
		"""A frame (height, width, 3) of bytes."""
		return self.env.physics.render(height, width, camera_id)


def make_env(cfg):
	"""The suite's task of that name, its randomness from `cfg.seed`, 500 agent steps an episode."""
	domain, _, task = cfg.task.partition('-')
	domain, task = DOMAINS.get(domain, domain), task.replace('-', '_')
	if (domain, task) not in suite.ALL_TASKS:
		raise ValueError(f'The dm_control suite has no task {cfg.task!r}; expected one like cheetah-run.')
	env = suite.load(domain, task, task_kwargs={'random': cfg.seed})
	env = DMControlWrapper(env)
	env = Timeout(env, max_episode_steps=500)
	return env
