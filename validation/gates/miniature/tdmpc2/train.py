"""Trains the miniature (not TD-MPC2): `python train.py task=cheetah-run model_size=1 …`, from this folder."""

import os

# MuJoCo chooses how to draw when it is imported; EGL needs no display.
os.environ.setdefault('MUJOCO_GL', 'egl')

import hydra
import torch

from common.buffer import Buffer
from common.logger import Logger
from common.parser import parse_cfg
from common.seed import set_seed
from envs import make_env
from tdmpc2 import TDMPC2
from trainer.online_trainer import OnlineTrainer


@hydra.main(config_name='config', config_path='.', version_base=None)
def train(cfg):
	"""One run: everything it needs is built here, in this order, and handed to the trainer."""
	assert torch.cuda.is_available()
	cfg = parse_cfg(cfg)
	set_seed(cfg.seed)
	print('Miniature of TD-MPC2; work dir:', cfg.work_dir)
	env = make_env(cfg)
	agent = TDMPC2(cfg)
	print(f'Learnable parameters: {agent.model.total_params:,}')
	buffer = Buffer(cfg)
	logger = Logger(cfg)
	trainer = OnlineTrainer(cfg=cfg, env=env, agent=agent, buffer=buffer, logger=logger)
	trainer.train()


if __name__ == '__main__':
	train()
