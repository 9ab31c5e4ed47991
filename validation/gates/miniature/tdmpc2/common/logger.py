"""What the miniature (not TD-MPC2) tells about a run: a line, eval.csv, the agent, and W&B if asked for."""

import csv
import os
from datetime import timedelta
from pathlib import Path

import numpy as np


class VideoRecorder:
	"""Collects the frames of one evaluation episode for W&B."""

	def __init__(self, cfg, wandb, fps=15):
		self.cfg, self._wandb, self.fps = cfg, wandb, fps
		self.enabled = False
		self.frames = []
		self._save_dir = Path(cfg.work_dir) / 'eval_video'
		self._save_dir.mkdir(parents=True, exist_ok=True)

	def init(self, env, enabled=True):
		"""Begins an episode; the first frame is taken at once."""
		self.frames = []
		self.enabled = bool(enabled and self._wandb)
		self.record(env)

	def record(self, env):
		"""Draws the environment as it is now."""
		if self.enabled:
			self.frames.append(env.render())

	def save(self, step, key='videos/eval_video'):
		"""Hands the episode over under the given step."""
		if self.enabled and self.frames:
			frames = np.stack(self.frames)
			video = self._wandb.Video(frames.transpose(0, 3, 1, 2), fps=self.fps, format='mp4')
			self._wandb.log({key: video}, step=step)


class Logger:
	"""Written to by the trainer during a run, and finished by it."""

	def __init__(self, cfg):
		self._log_dir = self._folder(cfg.work_dir)
		self._model_dir = self._folder(self._log_dir / 'models')
		# Asked before W&B has a say: the agent is kept on disk in any case.
		self._save_agent = cfg.save_agent
		self._save_csv = cfg.save_csv
		self._eval = []
		needed = ('wandb_project', 'wandb_entity')
		missing = [name for name in needed if cfg.get(name) in (None, 'none', '???')]
		if missing or not cfg.enable_wandb:
			print('W&B is off' + (f' (no {", ".join(missing)})' if cfg.enable_wandb else ''))
			self._wandb = None
			self._video = None
			# Others ask the configuration whether there is anything to film or to keep.
			cfg.save_video = False
			cfg.save_agent = False
			return
		os.environ['WANDB_SILENT'] = str(cfg.wandb_silent).lower()
		import wandb

		wandb.init(
			project=cfg.wandb_project,
			entity=cfg.wandb_entity,
			name=f'miniature-{cfg.task}-{cfg.seed}',
			tags=['miniature', cfg.task, f'seed:{cfg.seed}'],
			dir=self._log_dir,
			config={name: str(value) for name, value in vars(cfg).items()},
		)
		self._wandb = wandb
		self._video = VideoRecorder(cfg, wandb) if cfg.save_video else None

	@staticmethod
	def _folder(path):
		path = Path(path)
		path.mkdir(parents=True, exist_ok=True)
		return path

	@property
	def video(self):
		"""The recorder, or None where there are no videos."""
		return self._video

	def save_agent(self, agent=None, identifier='final'):
		"""Writes models/<identifier>.pt, if agents are to be saved."""
		if self._save_agent and agent is not None:
			agent.save(self._model_dir / f'{identifier}.pt')

	def finish(self, agent=None):
		"""Saves the agent and closes W&B."""
		self.save_agent(agent)
		if self._wandb:
			self._wandb.finish()

	def log(self, d, category='train'):
		"""Prints a line, and writes metrics to eval.csv (evaluations only) and to W&B."""
		if category not in ('train', 'eval', 'pretrain'):
			raise ValueError(f"category must be 'train', 'eval' or 'pretrain', not {category!r}")
		counter = 'iteration' if category == 'pretrain' else 'step'
		if self._wandb:
			metrics = {f'{category}/{name}': float(value) for name, value in d.items()}
			self._wandb.log(metrics, step=int(d[counter]))
		if category == 'eval' and self._save_csv:
			self._eval.append((d['step'], float(d['episode_reward'])))
			rows = [(int(step), episode_reward) for step, episode_reward in self._eval]
			with open(self._log_dir / 'eval.csv', 'w', newline='') as file:
				csv.writer(file).writerows([('step', 'episode_reward'), *rows])
		self._print(d, category, counter)

	def _print(self, d, category, counter):
		parts = [f'{category:<8}']
		if 'episode' in d:
			parts.append(f'E: {d["episode"]:<6,}')
		parts.append(f'I: {d[counter]:<10,}')
		if 'episode_reward' in d:
			parts.append(f'R: {float(d["episode_reward"]):<8.1f}')
		if 'elapsed_time' in d:
			parts.append(f'T: {timedelta(seconds=int(d["elapsed_time"]))}')
		print(' ' + ' '.join(parts), flush=True)
