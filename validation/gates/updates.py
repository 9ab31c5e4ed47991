"""The gate `utd-count`: does the trainer make exactly as many updates as its setting `utd` says, for ever?

After n steps beyond the seeding phase exactly floor(n * utd) updates were made beyond pretraining. The official
trainer runs for thousands of steps with a stand-in for environment, agent and buffer, so that only the count is left.
"""

import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from tdmpc2_lean.validation.gates import process, stand_ins
from tdmpc2_lean.validation.gates.results import FAIL, PASS, Result, failed_to_run, without_settings
from tdmpc2_lean.validation.gates.subjects import GateSubject

RATIOS = ("1", "0.5", "0.25", "2", "1/3", "0.1", "7/5", "3")
STEPS, SEED_STEPS, EPISODE = 1500, 50, 25


def utd_count(subject: GateSubject) -> Iterator[Result]:
    """One result per ratio, and one for a pretraining count of its own."""
    if missing := without_settings("utd-count", subject.config, "utd"):
        yield from missing
        return
    started = time.time()
    try:
        counted = process.call(
            "tdmpc2_lean.validation.gates.updates:count",
            subject.code_dir,
            ratios=list(RATIOS),
            steps=STEPS,
            seed_steps=SEED_STEPS,
            episode=EPISODE,
        )
    except process.ChildFailed as failure:
        yield failed_to_run("utd-count", failure, started)
        return
    for ratio, by_step in counted["by_ratio"].items():
        yield judged_count(ratio, by_step, SEED_STEPS, time.time() - started)
        started = time.time()
    made = counted["with_pretrain_updates_7"][SEED_STEPS]
    outcome = PASS if made == 7 else FAIL
    yield Result("utd-count/pretrain_updates=7", outcome, f"{made} updates at the end of seeding, 7 asked for")


def judged_count(ratio: str, by_step: list[int], seed_steps: int, seconds: float) -> Result:
    """by_step: updates made at each step, from step 0."""
    gate, beyond = f"utd-count/{ratio}", 0
    if by_step[seed_steps] != seed_steps or any(by_step[:seed_steps]):
        found = f"{sum(by_step[:seed_steps])} before and {by_step[seed_steps]} at the end of seeding"
        return Result(gate, FAIL, f"pretraining: {found}, 0 and {seed_steps} expected", {}, seconds)
    for n, made in enumerate(by_step[seed_steps + 1 :], 1):
        beyond += made
        due = int(n * Fraction(ratio))
        if beyond != due:
            detail = f"first divergence at step {seed_steps + n}: {beyond} updates after {n} steps, {due} due"
            return Result(gate, FAIL, detail, {"step": seed_steps + n, "updates": beyond, "due": due}, seconds)
    steps = len(by_step) - seed_steps - 1
    return Result(gate, PASS, f"{beyond} updates in {steps} steps, exact at each", {"updates": beyond}, seconds)


def count(code_dir: Path, ratios: list[str], steps: int, seed_steps: int, episode: int) -> dict:
    """Runs in a process of its own: updates made at each step by the checkout's trainer, for each ratio."""

    def by_step(**overrides) -> list[int]:
        return updates_at_each_step(code_dir, steps, seed_steps, episode, overrides)

    return {
        "by_ratio": {ratio: by_step(utd=ratio) for ratio in ratios},
        "with_pretrain_updates_7": by_step(utd=1, pretrain_updates=7),
    }


def updates_at_each_step(code_dir: Path, steps: int, seed_steps: int, episode: int, overrides: dict) -> list[int]:
    """Updates made at steps 0..steps by the checkout's own trainer, everything around it a stand-in."""
    import torch
    from trainer.online_trainer import OnlineTrainer

    from tdmpc2_lean.validation.gates.trace_tdmpc2 import configuration

    settings = {"task": "cheetah-run", "steps": steps, "eval_freq": 10 * steps, "eval_episodes": 1} | overrides
    cfg = configuration(code_dir, Path.cwd(), settings)
    cfg.seed_steps, cfg.episode_length = seed_steps, episode
    made = [0] * (steps + 1)
    obs, action, info = torch.zeros(3), torch.zeros(2), {"success": 0.0, "terminated": torch.tensor(0.0)}

    class SteppedEnv:
        t = 0

        def reset(self, **_):
            self.t = 0
            return obs

        def rand_act(self):
            return action

        def step(self, _):
            self.t += 1
            return obs, torch.tensor(0.0), self.t >= episode, info

    class Agent:
        model = stand_ins.StandInModel("stand-in")

        def act(self, *_, **__):
            return action

        def update(self, _):
            made[trainer._step] += 1
            return {"total_loss": torch.tensor(0.0)}

    class Buffer:
        def add(self, _):
            return 0

    class Logger:
        video = None

        def log(self, *_):
            pass

        def save_agent(self, *_, **__):
            pass

        def finish(self, _):
            pass

    trainer = OnlineTrainer(cfg=cfg, env=SteppedEnv(), agent=Agent(), buffer=Buffer(), logger=Logger())
    trainer.train()
    return made
