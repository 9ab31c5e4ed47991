"""A protocol of seconds, and processes that make its runs: what the tests of campaigns share.

python tiny_protocol.py OUT WHERE MINUTES [KEY=VALUE]...     makes the run of seed 1 on the checkout WHERE
"""

import dataclasses
import os
import resource
import subprocess
import sys
from pathlib import Path

from tdmpc2_lean.runs.folder import folder_of
from tdmpc2_lean.validation.judging import protocols

SMOKE = protocols.protocol("tdmpc2-smoke")
FEW = {"steps": 1000, "iterations": 1, "num_samples": 8, "num_elites": 4, "num_pi_trajs": 2, "utd": 0.1}
TINY = dataclasses.replace(
    SMOKE, name="tdmpc2-tiny", env_steps=2000, settings={**SMOKE.settings, **FEW, "pretrain_updates": 10}
)


def folder(out: Path, protocol=TINY) -> Path:
    return folder_of(out, protocol.name, (), 1)


def checkpoint(folder: Path, task: str = "cartpole-balance") -> Path:
    """Where the official code saves the state of a run."""
    return folder / "logs" / task / "1" / "run" / "checkpoint.pt"


def start(out: Path, where: str, minutes: float = 0.005, largest=None, **settings) -> subprocess.Popen:
    """Begin to make the run in a process of its own, which leads a process group.

    largest: bytes beyond which no file can grow, as on a full disk.
    """

    def limit():
        if largest is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))

    words = [f"{key}={value}" for key, value in settings.items()]
    command = [sys.executable, __file__, str(out), where, str(minutes), *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command,
        env=environment,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=limit,
    )


def main(out: str, where: str, minutes: str, *words: str) -> None:
    from omegaconf import OmegaConf

    from tdmpc2_lean.campaigns import protocol_runs
    from tdmpc2_lean.errors import UserError
    from tdmpc2_lean.runs import making
    from tdmpc2_lean.runs.plan import Conditions

    settings = {**TINY.settings, **OmegaConf.from_dotlist(list(words))}
    protocol = dataclasses.replace(TINY, settings=settings)
    conditions = Conditions(upstream=where, checkpoint_minutes=float(minutes))
    try:
        outcome = making.carry_out(protocol_runs.plan(protocol, 1, Path(out), (), conditions), quiet=True)
    except UserError as error:
        print(f"error: {error}")
        sys.exit(error.exit_code)
    print("made" if outcome.made else "was finished")


if __name__ == "__main__":
    main(*sys.argv[1:])
