"""Initial weights of the miniature's networks (not TD-MPC2's); used by `common.world_model`."""

from torch import nn


def weight_init(module):
	"""For `Module.apply`: small truncated-normal weights and zero biases in linear layers."""
	if isinstance(module, nn.Linear):
		nn.init.trunc_normal_(module.weight, std=0.02)
		if module.bias is not None:
			nn.init.zeros_(module.bias)
