"""Turns Hydra's configuration into the miniature's (not TD-MPC2's); called first by both scripts."""

import dataclasses
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from common import MODEL_SIZE, TASK_SET

MISSING = '???'


def _as_dataclass(settings):
	"""A mutable dataclass with the given settings, and `get` for those that may not exist."""

	def get(self, key, default=None):
		return getattr(self, key, default)

	fields = [(name, type(value), dataclasses.field(default=None)) for name, value in settings.items()]
	return dataclasses.make_dataclass('Config', fields, namespace={'get': get})(**settings)


def parse_cfg(cfg):
	"""All settings as a dataclass, the derived ones filled in; what nobody gave stays '???'."""
	settings = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=False)
	size = settings['model_size']
	if size != MISSING:
		if size not in MODEL_SIZE:
			raise ValueError(f'The miniature has model sizes {sorted(MODEL_SIZE)}, not {size}.')
		settings.update(MODEL_SIZE[size])
	if settings['task'] in TASK_SET or settings['obs'] != 'state':
		raise ValueError('The miniature trains one task from states; use the official code for more.')
	# A run that Hydra did not start is where it was started.
	start = hydra.utils.get_original_cwd() if HydraConfig.initialized() else Path.cwd()
	run = (settings['task'], str(settings['seed']), settings['exp_name'])
	settings['work_dir'] = Path(start).joinpath('logs', *run)
	settings['task_title'] = settings['task'].replace('-', ' ').title()
	settings['bin_size'] = (settings['vmax'] - settings['vmin']) / (settings['num_bins'] - 1)
	settings.update(multitask=False, tasks=[settings['task']], task_dim=0)
	return _as_dataclass(settings)
