"""Writes runs as folders, the way `tdmpc2-lean validate run` leaves them: for the report to read."""

import json
import math
from pathlib import Path

from tdmpc2_lean.validation.criteria import Criterion, Run

PROVENANCE = {
    "upstream": "tdmpc2",
    "commit": "e9f59321933cbc8e11a002b842adc7d4ffae8ff1",
    "tree": "6c20d5b0327d939ce99561184b645d9ddfae1d9e",
    "local_changes": [],
    "patches": ["device", "seed", "checkpoint"],
    "packages": {"torch": "2.7.1", "mujoco": "3.1.2", "numpy": "1.26.4"},
    "device": "NVIDIA H100",
    "tdmpc2_lean": {"version": "0.1.0", "commit": "38fd515", "local_changes": False},
}


def entry(criterion: Criterion, task: str) -> dict:
    """A registry entry as JSON."""
    return {
        "name": f"{criterion.name}-{task}",
        "agent": criterion.agent,
        "physics": criterion.physics,
        "task": task,
        "budget": criterion.budget(task),
        "action_repeat": 2,
        "seeds": list(criterion.seeds),
        "utd": 1,
    }


def registry(criterion: Criterion) -> dict[str, dict]:
    return {f"{criterion.name}-{task}": entry(criterion, task) for task in criterion.tasks}


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
            "seconds": 1800.0,
            "provenance": provenance,
            "time": "2026-11-29T12:00:00+00:00",
        }
        for number, (step, value, episodes) in enumerate(zip(run.steps, run.values, run.episodes, strict=True))
    ]


def record(criterion: Criterion, run: Run, **changed) -> dict:
    """The run.json of a finished run."""
    said = entry(criterion, run.task)
    return {
        "protocol": said["name"],
        "agent": criterion.agent,
        "task": run.task,
        "physics": criterion.physics,
        "seed": run.seed,
        "settings": {"utd": 1, "horizon": 3},
        "spec": said,
        "presets": [],
        "provenance": PROVENANCE,
        "state": "finished",
        "started": "2026-11-28T12:00:00+00:00",
        "ended": "2026-11-29T12:00:00+00:00",
        **changed,
    }


def write(runs: Path, criterion: Criterion, run: Run, *, curve: list[dict] | None = None, **changed) -> Path:
    """Write a run's folder and return it. changed: keys of its run.json."""
    said = record(criterion, run, **changed)
    settings = "+".join(said["presets"]) or "default"
    folder = runs / said["protocol"] / settings / f"seed-{run.seed}"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(said, indent=1))
    curve = lines(run) if curve is None else curve
    (folder / "curve.jsonl").write_text("".join(json.dumps(line) + "\n" for line in curve))
    return folder
