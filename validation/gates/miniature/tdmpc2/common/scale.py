"""Running scale of the miniature's values (not TD-MPC2's); the agent's policy loss divides by it."""

import torch
from torch.nn import Buffer


class RunningScale(torch.nn.Module):
	"""Slow average of how far the 5th and 95th percentile of the values lie apart, at least 1."""

	def __init__(self, cfg):
		super().__init__()
		self.cfg = cfg
		self.value = Buffer(torch.ones(1, device=torch.device('cuda:0')))
		self._percentiles = Buffer(torch.tensor([0.05, 0.95], device=torch.device('cuda:0')))

	def update(self, x):
		"""Takes values (B, 1) into the average."""
		low, high = torch.quantile(x.detach().flatten(), self._percentiles)
		spread = torch.clamp(high - low, min=1.0)
		self.value.lerp_(spread.reshape(1), self.cfg.tau)

	def forward(self, x):
		"""Values of any shape, divided by the scale."""
		return x / self.value
