"""Seeding of a run of the miniature (not TD-MPC2); called once by the scripts."""

import random

import numpy as np
import torch


def set_seed(seed):
	"""Seeds the global generators of Python, NumPy and every torch device."""
	for start in (random.seed, np.random.seed, torch.manual_seed):
		start(seed)
