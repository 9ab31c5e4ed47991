"""Evaluates a checkpoint of the miniature (not TD-MPC2): `python evaluate.py task=… checkpoint=PATH`."""

import os

# MuJoCo chooses how to draw when it is imported; EGL needs no display.
os.environ.setdefault('MUJOCO_GL', 'egl')

import hydra
import numpy as np
import torch

from common.parser import parse_cfg
from common.seed import set_seed
from envs import make_env
from tdmpc2 import TDMPC2


@hydra.main(config_name='config', config_path='.', version_base=None)
def evaluate(cfg):
	"""Runs `eval_episodes` episodes without exploration and prints their mean return."""
	assert torch.cuda.is_available()
	assert cfg.eval_episodes > 0, 'eval_episodes must be at least 1'
	cfg = parse_cfg(cfg)
	set_seed(cfg.seed)
	env = make_env(cfg)
	agent = TDMPC2(cfg)
	agent.load(hydra.utils.to_absolute_path(cfg.checkpoint))
	returns = []
	for _ in range(cfg.eval_episodes):
		obs, done, total, t = env.reset(), False, 0.0, 0
		while not done:
			obs, reward, done, _ = env.step(agent.act(obs, t0=t == 0, eval_mode=True))
			total += float(reward)
			t += 1
		returns.append(total)
	print(f'  {cfg.task:<24} R: {np.mean(returns):.2f}  (miniature, {len(returns)} episodes)')


if __name__ == '__main__':
	evaluate()
