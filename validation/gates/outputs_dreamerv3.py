"""The gate `outputs` of DreamerV3: what a user of `main` reads and keeps is part of the comparison.

`main` itself is called as users call it, with the smallest networks and short episodes, on dm_control physics: a
training with two checkpoints, one that goes on from the last of them, and an evaluation of the agent saved. Compared
are every line of metrics.jsonl and scores.jsonl, every file's name, the keys and bytes of checkpoints and of the
replay's files; times and the machine's load are left out. What threads and wall clocks decide in official code is
decided from outside, as in traces of training (`dreamerv3_determinism`).
"""

import json
import os
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path

from tdmpc2_lean.validation.gates import cases, stand_ins
from tdmpc2_lean.validation.gates.cases import Case, Lacking
from tdmpc2_lean.validation.gates.functions_dreamerv3 import UNOPTIMISED, leaves
from tdmpc2_lean.validation.gates.results import Result
from tdmpc2_lean.validation.gates.subjects import GateSubject
from tdmpc2_lean.validation.gates.trace_dreamerv3 import TIMED
from tdmpc2_lean.validation.gates.traced_runs import DREAMERV3

FUNCTION = "tdmpc2_lean.validation.gates.outputs_dreamerv3:answers"
SMALL = {
    "task": "dmc_walker_walk", "env.dmc.image": False, "batch_size": 2, "batch_length": 4, "report_length": 2,
    "replay.size": 60, "replay.chunksize": 16, "run.steps": 70, "run.envs": 2, "run.train_ratio": 4,
    "run.log_every": 20, "run.report_every": 40, "run.save_every": 30, "run.debug": True, "agent.imag_length": 2,
    "jax.compute_dtype": "float32", "logger.outputs": "jsonl", "logdir": "logdir", "errfile": False,
}  # fmt: skip
RUNS = {
    "train": {},
    "goes-on": {"run.steps": 90},
    "evaluates": {"script": "eval_only", "logdir": "evaluated", "run.steps": 45, "run.log_every": -1, "run.envs": 1},
}
EPISODE = 12  # env steps
LEFT_OUT = (*TIMED, "timer/")


def outputs(subject: GateSubject) -> Iterator[Result]:
    """One result per run."""
    yield from cases.judged("outputs", FUNCTION, subject, DREAMERV3)


# What follows runs in a process of its own, on the checkout's code.


def answers(code_dir: Path, names: list[str] | None = None) -> dict:
    """What `cases.recorded` returns of this gate's cases; later ones need what the first has saved."""
    os.environ["XLA_FLAGS"] = UNOPTIMISED
    table = {name: lambda case, given=given: run(case, given | unsaved(code_dir)) for name, given in RUNS.items()}
    return cases.recorded(table, names)


def unsaved(code_dir: Path) -> dict:
    """The setting with which our patch `save-on-exit` saves when official code does."""
    return {"run.save_on_exit": False} if b"save_on_exit" in (code_dir / "dreamerv3/configs.yaml").read_bytes() else {}


def determined() -> None:
    """Decides from outside what official code leaves to threads, clocks, unseeded generators and OpenGL."""
    import elements
    import embodied

    from tdmpc2_lean.validation.gates.dreamerv3_determinism import deterministic, limit_episodes

    stand_ins.draw_from_physics()
    limit_episodes(EPISODE, 0)
    deterministic(elements, embodied)
    elements.when.Clock = embodied.LocalClock
    elements.timestamp = elements.utils.timestamp = lambda *_, **__: f"20260101T{next(TIMES):06}F000"


TIMES = iter(range(10**6))


def run(case: Case, given: Mapping) -> None:
    """Calls `main` with the smallest networks, and records every file that it leaves."""
    import elements
    from dreamerv3 import main

    if not hasattr(elements, "told_by_gates"):
        determined()
        elements.told_by_gates = True
    flags = SMALL | dict(given)
    if flags.get("script") == "eval_only":
        flags["run.from_checkpoint"] = str(latest(Path(SMALL["logdir"])).resolve())
    words = ["--configs", "dmc_proprio", "debug"]
    for name, value in flags.items():
        words += [f"--{name}", str(value)]
    main.main(words)
    record_files(case, Path(flags["logdir"]))


def latest(logdir: Path) -> Path:
    """The folder of the checkpoint saved last."""
    found = sorted(path.parent for path in logdir.glob("ckpt/*/agent.pkl"))
    if not found:
        raise Lacking("a checkpoint of the run before")
    return found[-1]


def record_files(case: Case, folder: Path) -> None:
    """Every file of a run by what is in it."""
    import numpy as np

    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = [path.relative_to(folder).as_posix() for path in files]
    case.record("files", {name: "there" for name in names if not name.endswith(("done", "latest"))})
    for path, name in zip(files, names, strict=True):
        if name.endswith(".jsonl"):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
                told = {k: repr(v) for k, v in json.loads(line).items() if not k.startswith(LEFT_OUT)}
                case.record(f"{name}, line {number}", told)
        elif name.endswith(("agent.pkl", "step.pkl", "replay.pkl")):
            case.record(name, leaves(pickle.loads(path.read_bytes())))
        elif name.endswith(".npz"):
            with np.load(path) as arrays:
                case.record(name, dict(arrays))
