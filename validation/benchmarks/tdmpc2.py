"""Speed of TD-MPC2 as ratios: both sides measured in turn within one process, on a checkout's own code.

Functions that run in a process of their own (see `gates.process`); `tdmpc2-lean bench` prints what they return.
"""

import dataclasses
from fractions import Fraction
from pathlib import Path

from tdmpc2_lean.validation.benchmarks.timing import in_turn
from tdmpc2_lean.validation.gates.planning import make_agent, observations

LONGEST_PERIOD = 100  # steps after which updates come round again, at most: a round is at least as long


def plan_vec(code_dir: Path, overrides: dict, num_envs: list[int], rounds: int, threads: int) -> dict:
    """Seconds of one call of `act` and of `act_vec` for each number of environments.

    Returns {"act": [s, ...], "act_vec": {N: [s, ...]}, "calls": {side: calls per round}, "threads"}: a value per round.
    """
    import torch

    torch.set_num_threads(threads)
    agent = make_agent(code_dir, overrides)
    obs = {n: observations(agent, n) for n in num_envs}
    sides = {"act": lambda: agent.act(obs[num_envs[0]][0], t0=True)}
    sides |= {str(n): lambda n=n: agent.act_vec(obs[n], t0=True) for n in num_envs}
    timings = in_turn(sides, rounds)
    return {
        "act": timings["act"].seconds,
        "act_vec": {n: timings[str(n)].seconds for n in num_envs},
        "calls": {name: timing.calls for name, timing in timings.items()},
        "threads": threads,
    }


@dataclasses.dataclass(frozen=True)
class Round:
    """What one round of `presets` times: a whole number of update periods, so that no side is short of an update."""

    steps: int
    updates: int


def round_of(utd: object, least_steps: int = 2) -> Round:
    """The round of a side with so many updates per step. ValueError if updates come round too rarely to be timed."""
    ratio = Fraction(str(utd)).limit_denominator(10**6)
    if ratio <= 0:
        raise ValueError(f"utd={utd} is no positive number of updates per step")
    period = ratio.denominator
    if period > LONGEST_PERIOD:
        raise ValueError(
            f"utd={utd} makes {ratio.numerator} updates every {period} steps, and a round has at most {LONGEST_PERIOD}"
        )
    steps = -(-least_steps // period) * period
    return Round(steps, int(steps * ratio))


def presets(code_dir: Path, sides: dict[str, dict], task: str, rounds: int, threads: int) -> dict:
    """Seconds of training per agent step under each side's settings, the sides taking turns.

    sides: name -> overrides. A step is what the official trainer does after its seeding phase: one planned action,
    one environment step on dm_control, `utd` updates on a replay buffer that holds random episodes.
    Returns {"seconds": {name: [s per step, ...]}, "steps": {name: n}, "updates": {name: n}, "threads"}: a value per
    round of seconds, and in all rounds together of the others, warming up left out.
    """
    import torch
    from common.buffer import Buffer
    from envs import make_env
    from tdmpc2 import TDMPC2
    from trainer.online_trainer import OnlineTrainer

    from tdmpc2_lean.validation.gates.trace_tdmpc2 import configuration

    torch.set_num_threads(threads)
    calls, lengths = {}, {}
    for name, overrides in sides.items():
        cfg = configuration(code_dir, Path.cwd(), {"task": task, "steps": 5000, "seed": 1} | overrides)
        env = make_env(cfg)
        logger = type("NoLogger", (), {"video": None})()
        trainer = OnlineTrainer(cfg=cfg, env=env, agent=TDMPC2(cfg), buffer=Buffer(cfg), logger=logger)
        fill(trainer, episodes=3)
        lengths[name] = round_of(cfg.get("utd", 1))
        calls[name] = TrainingRound(trainer, lengths[name])
    timings = in_turn(calls, rounds)
    made = {name: rounds * timing.calls for name, timing in timings.items()}
    return {
        "seconds": {name: [s / lengths[name].steps for s in timing.seconds] for name, timing in timings.items()},
        "steps": {name: made[name] * lengths[name].steps for name in sides},
        "updates": {name: made[name] * lengths[name].updates for name in sides},
        "threads": threads,
    }


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


class TrainingRound:
    """Called, it takes a round's agent steps, a new episode where one ends, and makes the updates due in them."""

    def __init__(self, trainer, length: Round):
        self.trainer, self.length = trainer, length
        self.obs, self.begins = trainer.env.reset(), True

    def __call__(self) -> None:
        agent, env, buffer = self.trainer.agent, self.trainer.env, self.trainer.buffer
        for _ in range(self.length.steps):
            self.obs, _, done, _ = env.step(agent.act(self.obs, t0=self.begins))
            self.begins = bool(done)
            if done:
                self.obs = env.reset()
        for _ in range(self.length.updates):
            agent.update(buffer)
