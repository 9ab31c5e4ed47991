"""What every trainer of the miniature (not TD-MPC2) has; `trainer.online_trainer` is the only one."""


class Trainer:
	"""Holds a run's parts: configuration, environment, agent, replay buffer and logger."""

	def __init__(self, cfg, env, agent, buffer, logger):
		self.cfg, self.env, self.agent, self.buffer, self.logger = cfg, env, agent, buffer, logger

	def eval(self):
		"""Metrics of the agent as it is, a dict of numbers."""
		raise NotImplementedError

	def train(self):
		"""The whole run."""
		raise NotImplementedError
