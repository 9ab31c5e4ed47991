"""Environments of the miniature (not TD-MPC2): dm_control's suite, in the old gym form."""

import gymnasium as gym

from envs import dmcontrol
from envs.wrappers.tensor import TensorWrapper


def make_env(cfg):
	"""The environment of `cfg.task`; writes onto `cfg` what only the environment knows."""
	# Wrappers pass attributes on, and warn about it each time.
	gym.logger.set_level(40)
	env = dmcontrol.make_env(cfg)
	env = TensorWrapper(env)
	cfg.obs_shape = {'state': env.observation_space.shape}
	cfg.action_dim = env.action_space.shape[0]
	cfg.episode_length = env.max_episode_steps
	cfg.seed_steps = max(1000, 5 * cfg.episode_length)
	return env
