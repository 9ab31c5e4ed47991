"""What the rooms ask of runs and of their records. Only here is a record's form known to the layout."""

import math
from collections.abc import Iterable

import numpy as np

from tdmpc2_lean import references
from tdmpc2_lean.runs import chunks
from tdmpc2_lean.validation.judging.findings import DEFAULT, Judgement, Report
from tdmpc2_lean.validation.judging.subjects import Subject
from tdmpc2_lean.validation.report.document import unmarked
from tdmpc2_lean.validation.report.texts import listed

Points = tuple[tuple[float, ...], tuple[float, ...]]  # env steps (T,), returns (T,)


def agent_of(one: Subject) -> str:
    """Whose agent its record names; empty if it cannot be read."""
    record = one.folder.record
    return record.specification.upstream if record is not None else ""


def chunk_of(one: Subject) -> int:
    """Env steps from one point of a run to the next, by its record; 0 if it cannot be read."""
    record = one.folder.record
    return record.specification.chunk if record is not None else 0


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
