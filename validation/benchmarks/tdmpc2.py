"""Speed as ratios: both sides measured in turn within one process, on one thread count, on a checkout's own code.

Functions that run in a process of their own (see `child`); `tdmpc2-lean bench` prints what they return.
"""

import statistics
import time
from pathlib import Path

from tdmpc2_lean.validation.gates.planning import make_agent, observations


def plan_vec(code_dir: Path, overrides: dict, num_envs: list[int], rounds: int, threads: int) -> dict:
    """Actions per second of `act` and of `act_vec` for each number of environments.

    Returns {"act": [s, ...], "act_vec": {N: [s, ...]}, "threads"}: seconds of one call, a value a round.
    """
    import torch

    torch.set_num_threads(threads)
    agent = make_agent(code_dir, overrides)
    obs = {n: observations(agent, n) for n in num_envs}
    seconds = {"act": [], "act_vec": {n: [] for n in num_envs}, "threads": threads}
    for n in num_envs:  # warm up
        agent.act_vec(obs[n], t0=True)
    agent.act(obs[num_envs[0]][0], t0=True)
    for _ in range(rounds):
        seconds["act"].append(timed(lambda: agent.act(obs[num_envs[0]][0], t0=True)))
        for n in num_envs:
            seconds["act_vec"][n].append(timed(lambda n=n: agent.act_vec(obs[n], t0=True)))
    return seconds


def presets(code_dir: Path, sides: dict[str, dict], task: str, steps: int, threads: int) -> dict:
    """Seconds of training per agent step under each side's settings, the sides taking turns.

    sides: name -> overrides. A step is what the official trainer does after its seeding phase: one planned action,
    one environment step on dm_control, `utd` updates on a replay buffer that holds random episodes. Counted over a
    whole number of updates. Returns {name: [seconds per step, ...], "threads"}, a value a round.
    """
    import torch
    from common.buffer import Buffer
    from envs import make_env
    from tdmpc2 import TDMPC2
    from trainer.online_trainer import OnlineTrainer

    from tdmpc2_lean.validation.gates.trace_tdmpc2 import configuration

    torch.set_num_threads(threads)
    runs = {}
    for name, overrides in sides.items():
        cfg = configuration(code_dir, Path.cwd(), {"task": task, "steps": 5000, "seed": 1} | overrides)
        env = make_env(cfg)
        logger = type("NoLogger", (), {"video": None})()
        runs[name] = OnlineTrainer(cfg=cfg, env=env, agent=TDMPC2(cfg), buffer=Buffer(cfg), logger=logger)
        fill(runs[name], episodes=3)
    seconds = {name: [] for name in sides}
    for trainer in runs.values():  # warm up
        trainer.agent.act(trainer.env.reset(), t0=True)
        trainer.agent.update(trainer.buffer)
    for _ in range(steps):
        for name, trainer in runs.items():
            seconds[name].append(timed(lambda trainer=trainer: two_steps(trainer)) / 2)
    return seconds | {"threads": threads}


def fill(trainer, episodes: int) -> None:
    """Random episodes into the trainer's replay buffer."""
    import torch

    for _ in range(episodes):
        rows, done = [trainer.to_td(trainer.env.reset())], False
        while not done:
            action = trainer.env.rand_act()
            obs, reward, done, info = trainer.env.step(action)
            rows.append(trainer.to_td(obs, action, reward, info["terminated"]))
        trainer.buffer.add(torch.cat(rows))


def two_steps(trainer) -> None:
    """Two agent steps of training with the updates that are due in them."""
    from fractions import Fraction

    obs = trainer.env.reset()
    for t in range(2):
        obs, *_ = trainer.env.step(trainer.agent.act(obs, t0=t == 0))
    for _ in range(int(2 * Fraction(str(trainer.cfg.get("utd", 1))))):
        trainer.agent.update(trainer.buffer)


def timed(call) -> float:
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def spread(values: list[float]) -> tuple[float, float, float]:
    """Median, lowest and highest."""
    return statistics.median(values), min(values), max(values)
