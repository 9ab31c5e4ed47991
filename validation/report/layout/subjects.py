"""What the rooms ask of runs and of their records. Only here is a record's form known to the layout."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tdmpc2_lean import references
from tdmpc2_lean.runs import chunks
from tdmpc2_lean.validation.judging import protocols
from tdmpc2_lean.validation.report import provenance
from tdmpc2_lean.validation.report.document import unmarked
from tdmpc2_lean.validation.report.findings import DEFAULT, Judgement, Report, Subject
from tdmpc2_lean.validation.report.texts import AGENTS, NONE, listed

Points = tuple[tuple[float, ...], tuple[float, ...]]  # env steps (T,), returns (T,)


def agent_of(one: Subject) -> str:
    return str(one.folder.record.get("agent", ""))


def protocol_of(one: Subject) -> str:
    return str(one.folder.record.get("protocol", NONE))


def state_of(one: Subject) -> str:
    return str(one.folder.record.get("state") or NONE)


def devices_of(one: Subject) -> str:
    """What hardware its provenances name."""
    named = {provenance.device(code) for code in provenance.described_by(one.folder.record).values()}
    return " and ".join(sorted(named))


def chunk_of(one: Subject) -> int:
    """Env steps from one point of a run to the next, by what its record says; 0 if it says nothing."""
    spec = one.folder.record.get("spec")
    if not isinstance(spec, Mapping):
        return 0
    chunk, repeat = spec.get("chunk"), spec.get("action_repeat", 2)
    return chunk * repeat if type(chunk) is type(repeat) is int and chunk > 0 < repeat else 0


def preset_settings(one: Subject) -> Mapping[str, Any]:
    """What its presets set."""
    found = one.folder.record.get("preset_settings")
    return found if isinstance(found, Mapping) else {}


def protocols_settings(one: Subject) -> Mapping[str, Any]:
    """What the protocol of a run sets, by default and by its entry."""
    entry = protocols.registry().get(protocol_of(one))
    return {**entry.defaults, **entry.settings} if entry else {}


def label(one: Subject) -> str:
    """For the reader: what ran, with which seed; whose agent, where the task's name does not tell."""
    if not one.criterion and agent_of(one) in AGENTS:
        variant = "" if one.variant == DEFAULT else f" ({one.variant})"
        return f"{AGENTS[agent_of(one)]} {one.run.task or 'unknown task'}{variant} seed {one.run.seed}"
    return one.label


def named(labels: Iterable[str], report: Report) -> str:
    """The runs of these labels in a line."""
    labels = list(labels)
    if len(labels) == len(report.subjects) > 1:
        return "all runs"
    return unmarked(listed(labels))


def by_task(subjects: Iterable[Subject]) -> dict[str, list[Subject]]:
    found: dict[str, list[Subject]] = {}
    for one in subjects:
        found.setdefault(one.run.task, []).append(one)
    return found


def points_by_seed(subjects: Iterable[Subject], every: int, by_episodes: bool) -> dict[int, Points]:
    """Seed -> where its points stand, and returns, rising; of a seed that several runs have, all points.

    every: env steps of a chunk.      by_episodes: whether a point is a chunk's mean, which stands at its middle.
    """
    found: dict[int, list[tuple[float, float]]] = {}
    for one in subjects:
        places = chunks.placed(np.asarray(one.run.steps), every, by_episodes)
        found.setdefault(one.run.seed, []).extend(
            (float(place), float(value)) for place, value in zip(places, one.run.values, strict=True)
        )
    curves = {}
    for seed, points in found.items():
        finite = sorted({point for point in points if math.isfinite(point[1])})
        curves[seed] = tuple(zip(*finite, strict=True)) if finite else ((), ())
    return curves


def whose(row: str, judgement: Judgement) -> str:
    """Whose a row of a comparison is."""
    if row == judgement.criterion.agent:
        return "ours" if judgement.variant == DEFAULT else unmarked(f"ours, {judgement.variant}")
    if row == DEFAULT:
        return "ours, default"
    reference = references.load(row)
    return f"{reference.agent}, {'the reference' if row == judgement.criterion.reference else 'baseline'}"
