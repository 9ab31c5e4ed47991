"""Writes runs as folders, the way `tdmpc2-lean validate run` leaves them: for the report to read."""

import json
import math
from pathlib import Path

from tdmpc2_lean.upstreams import UPSTREAMS
from tdmpc2_lean.validation.judging import protocols
from tdmpc2_lean.validation.judging.criteria import Criterion, Run

PROVENANCE = {
    "upstream": "tdmpc2",
    "commit": UPSTREAMS["tdmpc2"].pin,
    "tree": UPSTREAMS["tdmpc2"].pin_tree,
    "local_changes": [],
    "patches": ["device", "seed", "checkpoint"],
    "packages": {"torch": "2.7.1", "mujoco": "3.1.2", "numpy": "1.26.4"},
    "device": "NVIDIA H100",
    "tdmpc2_lean": {"version": "0.1.0", "commit": "38fd515", "local_changes": False},
}
DREAMERS = PROVENANCE | {
    "upstream": "dreamerv3",
    "commit": UPSTREAMS["dreamerv3"].pin,
    "tree": UPSTREAMS["dreamerv3"].pin_tree,
    "patches": [],
}


def entry(criterion: Criterion, task: str) -> protocols.Protocol:
    return protocols.protocol(protocols.name_of(criterion.agent, task, criterion.physics))


def lines(run: Run, *, provenance: str = "a1b2c3d4") -> list[dict]:
    """The lines of a run's curve."""
    return [
        {
            "chunk": number,
            "agent_steps": step // 2,
            "env_steps": step,
            "value": None if math.isnan(value) else value,
            "episodes": episodes,
            "updates": step // 2,
            "replay_bytes": 1_000_000,
            "seconds": 1800.0 * (number + 1),
            "provenance": provenance,
            "time": "2026-11-29T12:00:00+00:00",
        }
        for number, (step, value, episodes) in enumerate(zip(run.steps, run.values, run.episodes, strict=True))
    ]


def record(criterion: Criterion, run: Run, **changed) -> dict:
    """The run.json of a finished run."""
    said = entry(criterion, run.task)
    return {
        "protocol": said.name,
        "agent": criterion.agent,
        "task": run.task,
        "physics": criterion.physics,
        "seed": run.seed,
        "settings": protocols.expected_settings(said, changed | {"seed": run.seed}),
        "spec": said.as_json(),
        "presets": [],
        "preset_settings": {},
        "provenance": PROVENANCE if criterion.agent == "tdmpc2" else DREAMERS,
        "state": "finished",
        "started": "2026-11-28T12:00:00+00:00",
        "ended": "2026-11-29T12:00:00+00:00",
        **changed,
    }


def write(runs: Path, criterion: Criterion, run: Run, *, curve: list[dict] | None = None, **changed) -> Path:
    """Write a run's folder and return it. changed: keys of its run.json."""
    said = record(criterion, run, **changed)
    variant = "+".join(map(str, said["presets"])) or "default"
    return write_as(runs / said["protocol"] / variant / f"seed-{run.seed}", run, said, curve)


def write_as(folder: Path, run: Run, said: dict, curve: list[dict] | None = None) -> Path:
    """Write a run into a folder, with that run.json."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(said, indent=1))
    curve = lines(run) if curve is None else curve
    (folder / "curve.jsonl").write_text("".join(json.dumps(line) + "\n" for line in curve))
    return folder
