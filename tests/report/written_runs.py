"""Writes runs as folders, the way `tdmpc2-lean validate run` leaves them: for the judge and the report to read."""

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tdmpc2_lean.runs.record import Provenance
from tdmpc2_lean.runs.specification import PresetUse
from tdmpc2_lean.validation.judging import official_code, protocols, variants
from tdmpc2_lean.validation.judging.agents import agent_named
from tdmpc2_lean.validation.judging.criteria import Criterion
from tdmpc2_lean.validation.judging.verdicts import ScoredRun

UNKNOWN_TREE = "0" * 40  # stands where the official code is not on this machine, so that nobody can tell


def code_of(agent: str, **changed: Any) -> dict[str, Any]:
    """What a start on protocol records of its code."""
    due = official_code.expected(agent)
    return {
        "upstream": agent,
        "commit": due.commit,
        "tree": due.tree,
        "local_changes": [],
        "verified": True,
        "patches": [{"name": name, "sha256": sha256} for name, sha256 in due.patches],
        "patched_tree": due.patched_tree or UNKNOWN_TREE,
    } | changed


def provenance(agent: str = "tdmpc2", code: dict[str, Any] | None = None, **changed: Any) -> dict[str, Any]:
    """The provenance of a start on protocol. code: keys of its code that are others."""
    return {
        "code": code_of(agent, **(code or {})),
        "versions": {"torch": "2.7.1", "mujoco": "3.1.2", "numpy": "1.26.4"},
        "device": {"kind": "cuda:0", "name": "NVIDIA H100"},
        "tdmpc2_lean": {"version": "0.1.0", "commit": "38fd515", "local_changes": False},
    } | changed


def name_of(described: dict[str, Any]) -> str:
    """The short hash of a provenance."""
    return Provenance.model_validate_json(json.dumps(described)).short_hash


def entry(criterion: Criterion, task: str) -> protocols.Protocol:
    return protocols.protocol(protocols.name_of(criterion.agent, task, criterion.physics))


def preset(name: str, agent: str = "tdmpc2") -> dict[str, Any]:
    """A preset of ours as a run records it."""
    from tdmpc2_lean.runs import presets

    path = variants.ours(agent)[name]
    found = presets.read(path, path.parent)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {
        "name": name, "file": str(path), "sha256": digest, "overrides": found.overrides, "times": found.times,
    }  # fmt: skip


def settings_of(said: protocols.Protocol, seed: int, presets: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Every setting that a run of a protocol resolves, with some that do not decide."""
    made = variants.of_presets(said, [PresetUse(**one) for one in presets])
    return protocols.expected_settings(said, seed, made.settings) | (
        {"work_dir": "/somewhere", "compile": True, "checkpoint": "???"} if said.agent == "tdmpc2" else {"logdir": "/x"}
    )


def lines(run: ScoredRun, said: protocols.Protocol, *, of: str = "", settings: dict | None = None) -> list[dict]:
    """The lines of a run's curve. of: the short hash of its provenance; by default of one on protocol."""
    of = of or name_of(provenance(said.agent))
    settings = settings or settings_of(said, run.seed)
    agent = agent_named(said.agent)
    found = []
    for step, value in zip(run.steps, run.values, strict=True):
        agent_steps = step // said.action_repeat
        episodes = said.episodes or (
            agent.episodes_by(settings, agent_steps, said.action_repeat)
            - agent.episodes_by(settings, agent_steps - said.chunk, said.action_repeat)
        )
        found.append(
            {
                "chunk": agent_steps // said.chunk,
                "agent_steps": agent_steps,
                "env_steps": step,
                "value": None if math.isnan(value) else value,
                "episodes": episodes,
                "returns": None if math.isnan(value) else [value] * episodes,
                "updates": sum(agent.updates_by(settings, agent_steps)) // 2,
                "replay_bytes": 1_000_000,
                "seconds": 1800.0 * (agent_steps // said.chunk),
                "provenance": of,
                "time": "2026-11-29T12:00:00+00:00",
            }
        )
    return found


def record(criterion: Criterion, run: ScoredRun, *, presets: Sequence[Any] = (), **changed: Any) -> dict:
    """The run.json of a finished run. presets: names of ours, or what is recorded of them.

    changed: keys of run.json, or of its specification.
    """
    return record_of(entry(criterion, run.task), changed.pop("seed", run.seed), presets=presets, **changed)


def record_of(said: protocols.Protocol, seed: int, *, presets: Sequence[Any] = (), **changed: Any) -> dict:
    uses = [preset(one, said.agent) if isinstance(one, str) else one for one in presets]
    described = changed.pop("provenance", None) or provenance(said.agent)
    provenances = changed.pop("provenances", {name_of(described): described})
    specification = {
        "upstream": said.agent,
        "source": said.physics,
        "tasks": [said.task],
        "presets": uses,
        "seed": seed,
        "agent_steps": said.agent_steps,
        "action_repeat": said.action_repeat,
        "chunk": said.chunk * said.action_repeat,
        "protocol": said.name,
    }
    ours = {"arm", "regime", "overrides"} | set(specification)
    specification |= {key: value for key, value in changed.items() if key in ours}
    start = {
        "command": "tdmpc2-lean validate run", "cwd": "/", "started": "2026-11-28T12:00:00+00:00",
        "ended": "2026-11-29T12:00:00+00:00", "state": "finished", "exit_code": 0, "provenance": list(provenances)[-1],
    }  # fmt: skip
    whole = {
        "schema": 2,
        "kind": "train",
        "specification": specification,
        "state": "finished",
        "settings": settings_of(said, specification["seed"], uses if all("name" in one for one in uses) else ()),
        "protocol_entry": said.as_json(),
        "preset_settings": {},
        "starts": [start],
        "provenances": provenances,
    }
    return whole | {key: value for key, value in changed.items() if key not in ours}


def write(runs: Path, criterion: Criterion, run: ScoredRun, *, curve: list[dict] | None = None, **changed: Any) -> Path:
    """Write a run's folder and return it. changed: as `record` takes it."""
    said = record(criterion, run, **changed)
    names = "+".join(one["name"] for one in said["specification"]["presets"]) or "default"
    if curve is None:
        of = list(said["provenances"])[-1]
        curve = lines(run, entry(criterion, run.task), of=of, settings=said["settings"])
    seed = said["specification"]["seed"]
    return write_as(runs / said["specification"]["protocol"] / names / f"seed-{seed}", said, curve)


def write_as(folder: Path, said: dict, curve: list[dict]) -> Path:
    """Write a run into a folder, with that run.json."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(said, indent=1))
    (folder / "curve.jsonl").write_text("".join(json.dumps(line) + "\n" for line in curve))
    return folder
