"""A picture for each task: our seeds over the reference's band, the baselines, the windows and their bars."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tdmpc2_lean import references
from tdmpc2_lean.runs import chunks
from tdmpc2_lean.validation.judging.criteria import FAIL, Criterion
from tdmpc2_lean.validation.judging.findings import Judgement
from tdmpc2_lean.validation.report.document import Block, Gallery, Heading, Paragraph, Picture, unmarked
from tdmpc2_lean.validation.report.drawing import (
    BASELINES,
    DEFAULT_RUNS,
    OURS,
    REFERENCE,
    Axis,
    Drawing,
    DrawnSeries,
    Look,
    Target,
    keys_of,
)
from tdmpc2_lean.validation.report.layout.names import PictureNames
from tdmpc2_lean.validation.report.layout.subjects import Points, by_task, points_by_seed
from tdmpc2_lean.validation.report.texts import count, steps


def blocks(judgement: Judgement, names: PictureNames) -> list[Block]:
    criterion = judgement.criterion
    begun = by_task(judgement.on_protocol)
    shown = []
    for task in criterion.tasks:
        if task not in begun:
            continue
        states = states_of(judgement, task)
        told = ", ".join(f"{window} {state}" for window, state in states.items())
        alt = f"{task}: returns of our seeds over env steps, over the reference's band; {told}"
        shown.append(Picture(names(criterion.name, judgement.variant, task), drawn(judgement, task), alt))
    if not shown:
        return []
    gallery = Gallery(shown, keys_of(picture.drawing for picture in shown))
    return [Heading(3, "Curves"), Paragraph(words(criterion, len(shown))), gallery]


def words(criterion: Criterion, tasks: int) -> str:
    """What a point is and where it stands."""
    told = f"Return over env steps, {count(tasks, 'task')}. "
    if criterion.by_episodes:
        told += (
            f"A point is the mean return of the training episodes that ended in {steps(criterion.every)} env steps, "
            "and stands at their middle; the published points are averaged over the same steps."
        )
    else:
        told += f"A point is an evaluation, every {steps(criterion.every)} env steps, and stands where it was made."
    return told


def states_of(judgement: Judgement, task: str) -> dict[str, str]:
    """Window -> the task's state there."""
    return {w.name: r.state for w in judgement.verdict.windows for r in w.tasks if r.task == task}


def drawn(judgement: Judgement, task: str) -> Drawing:
    """What is drawn of a task."""
    criterion = judgement.criterion
    end = criterion.budget(task)
    placing = (criterion.every, criterion.by_episodes)
    series = [published(criterion, name, task, end, look) for name, look in looks_of(criterion).items()]
    default = points_by_seed([one for one in judgement.default if one.run.task == task], *placing)
    series += [DrawnSeries("ours, default settings", DEFAULT_RUNS, *points) for points in default.values()]
    ours = points_by_seed([one for one in judgement.on_protocol if one.run.task == task], *placing)
    series += seeds_drawn(ours, seed_looks([*criterion.seeds, *sorted(ours)]))
    targets = tuple(
        Target(window.name, result.window.above, result.window.upto, result.bar)
        for window in judgement.verdict.windows
        for result in window.tasks
        if result.task == task
    )
    missed = mark(states_of(judgement, task))
    series = tuple(one for one in series if one is not None)
    return Drawing(task, step_axis(end), return_axis(series), series, targets, missed)


def published(criterion: Criterion, name: str, task: str, end: int, look: Look) -> DrawnSeries | None:
    """A reference's curve of a task, binned and placed as ours are: its mean, and its seeds' range if it judges."""
    reference = references.load(name)
    if task not in reference.tasks:
        return None
    found = chunks.binned(reference.curve(task), criterion.every, end, criterion.by_episodes)
    some = ~np.isnan(found.returns).all(axis=0)
    returns = found.returns[:, some]
    places, mean = tuple(map(float, found.places[some])), np.nanmean(returns, axis=0)
    if name != criterion.reference:
        return DrawnSeries(f"{reference.agent}, baseline, mean of seeds", look, places, tuple(map(float, mean)))
    low, high = np.nanmin(returns, axis=0), np.nanmax(returns, axis=0)
    told = f"{reference.agent}, the reference: mean, and lowest to highest seed"
    return DrawnSeries(told, look, places, *(tuple(map(float, side)) for side in (mean, low, high)))


def looks_of(criterion: Criterion) -> dict[str, Look]:
    """The name of each published curve -> its look, the baselines first, so that they lie below."""
    found = {name: BASELINES[index % len(BASELINES)] for index, name in enumerate(criterion.baselines)}
    return {**found, criterion.reference: REFERENCE}


def seeds_drawn(curves: Mapping[int, Points], looks: Mapping[int, Look]) -> list[DrawnSeries]:
    return [DrawnSeries(f"ours, seed {seed}", looks[seed], *points) for seed, points in sorted(curves.items())]


def seed_looks(seeds: Iterable[int]) -> dict[int, Look]:
    return {seed: OURS[index % len(OURS)] for index, seed in enumerate(dict.fromkeys(seeds))}


def mark(states: Mapping[str, str]) -> str:
    """What stands beside a task's curve: FAIL with the window, if not at all of them."""
    failed = [window for window, state in states.items() if state == FAIL]
    return " ".join([FAIL, *(failed if len(failed) < len(states) else [])]) if failed else ""


def step_axis(end: float) -> Axis:
    return Axis("env steps", "env_steps", 0, max(1, end), steps=True)


def return_axis(series: Sequence[DrawnSeries]) -> Axis:
    """From 0 to 1000, which a return of DMControl lies in, unless something shown does not."""
    finite = [y for one in series for y in (*one.ys, *one.low, *one.high) if math.isfinite(y)]
    return Axis("return", "return", min([-20.0, *finite]), max([1020.0, *finite]))


def off_protocol(title: str, curves: Mapping[int, Points], looks: Mapping[int, Look]) -> Drawing:
    """Runs that are not judged, a seed a line, with nothing to hold them against."""
    end = max(x for xs, _ in curves.values() for x in xs)
    series = tuple(seeds_drawn(curves, looks))
    return Drawing(unmarked(title), step_axis(1.03 * end), return_axis(series), series)
