"""Over all tasks: mean, median and interquartile mean along training, and performance profiles at the windows."""

from collections.abc import Mapping, Sequence

import numpy as np

from tdmpc2_lean import references
from tdmpc2_lean.runs import chunks
from tdmpc2_lean.validation.judging import bands, intervals, verdicts
from tdmpc2_lean.validation.judging.criteria import Criterion
from tdmpc2_lean.validation.judging.findings import Judgement
from tdmpc2_lean.validation.judging.verdicts import ScoredRun
from tdmpc2_lean.validation.report.document import Block, Gallery, Heading, Paragraph, Picture
from tdmpc2_lean.validation.report.drawing import OURS, Axis, Drawing, DrawnSeries, Look, keys_of
from tdmpc2_lean.validation.report.layout.curves import looks_of, return_axis, step_axis
from tdmpc2_lean.validation.report.layout.names import PictureNames
from tdmpc2_lean.validation.report.layout.subjects import whose
from tdmpc2_lean.validation.report.texts import count, number, span, steps

OUR_LOOK = Look("blue", OURS[0].colour, 1.4)
COUNT_LOOK = Look("black", "#1c2126")
THRESHOLDS = np.arange(0.0, 1001.0, 10.0)  # return units
# A published curve that lacks points on some tasks is drawn where it has at least this share of ours.
LEAST_SHARE = 0.9
SIZE = {"width": 4.2, "height": 2.7}


def blocks(judgement: Judgement, names: PictureNames, options: Mapping[str, int | float]) -> list[Block]:
    found = judgement.aggregate
    if not len(found.steps):
        return []
    criterion = judgement.criterion
    drawings = along_training(judgement, options)
    shown = [
        Picture(
            names(criterion.name, judgement.variant, "aggregate", kind), drawing, f"Over all tasks: {drawing.title}"
        )
        for kind, drawing in drawings.items()
    ]
    end = common_end(criterion)
    words = (
        f"Over tasks, up to {steps(end)} env steps, which every task's budget has. At each point all are over the "
        "tasks of which a run of ours has got there" + ("; the last panel counts them" if "tasks" in drawings else "")
        + ". The mean and the median are of the tasks' seed means; the interquartile mean (IQM) is of the middle half "
        "of all runs, with a 95 % band by a bootstrap that draws runs anew within each task. A published curve that "
        f"lacks points is drawn where it has {100 * LEAST_SHARE:.0f} % of those tasks."
    )  # fmt: skip
    last = (
        f"At {steps(int(found.steps[-1]))}, over {count(int(found.tasks[-1]), 'task')}: mean {number(found.mean[-1])} "
        f"(reference {number(found.reference_mean[-1])}), median {number(found.median[-1])} "
        f"(reference {number(found.reference_median[-1])})."
    )
    out: list[Block] = [
        Heading(3, "Aggregate curve"),
        Paragraph(words),
        Gallery(shown, keys_of(drawings.values()), wide=True),
        Paragraph(last),
    ]
    profiles = performance_profiles(judgement, options)
    if profiles:
        shown = [
            Picture(names(criterion.name, judgement.variant, "profile", window), drawing, drawing.title)
            for window, drawing in profiles.items()
        ]
        words = (
            "Share of runs that score above each return at a window, averaged over the tasks of which ours have a "
            "score, with a 95 % band by the same bootstrap: the higher, the better."
        )
        gallery = Gallery(shown, keys_of(profiles.values()), wide=True)
        out += [Heading(3, "Performance profiles"), Paragraph(words), gallery]
    return out


def common_end(criterion: Criterion) -> int:
    """Env steps that every task's budget has."""
    return min(criterion.budget(task) for task in criterion.tasks)


def along_training(judgement: Judgement, options: Mapping[str, int | float]) -> dict[str, Drawing]:
    """What is drawn over env steps: `mean`, `median`, `iqm`, and `tasks` where their number changes."""
    criterion, found = judgement.criterion, judgement.aggregate
    end = common_end(criterion)
    places = tuple(map(float, chunks.placed(found.steps, criterion.every, criterion.by_episodes)))
    look = looks_of(criterion)[criterion.reference]
    ours, theirs = (whose(name, judgement) for name in (criterion.agent, criterion.reference))
    drawings = {}
    for kind, ys, reference in (
        ("mean", found.mean, found.reference_mean),
        ("median", found.median, found.reference_median),
    ):
        series = (
            DrawnSeries(theirs, Look(look.said, look.colour, 3.5), places, tuple(map(float, reference))),
            DrawnSeries(ours, OUR_LOOK, places, tuple(map(float, ys))),
        )
        drawings[kind] = Drawing(f"{kind} over tasks", step_axis(end), return_axis(series), series, **SIZE)
    series = tuple(iqm_series(judgement, options))
    drawings["iqm"] = Drawing("interquartile mean over runs", step_axis(end), return_axis(series), series, **SIZE)
    if len(set(found.tasks)) > 1:
        counted = DrawnSeries("", COUNT_LOOK, places, tuple(map(float, found.tasks)), stepped=True)
        axis = Axis("number of tasks", "tasks", 0, 1.1 * max(found.tasks), whole=True)
        drawings["tasks"] = Drawing("tasks it is over", step_axis(end), axis, (counted,), **SIZE)
    return drawings


def iqm_series(judgement: Judgement, options: Mapping[str, int | float]) -> list[DrawnSeries]:
    """The interquartile mean with its band of the baselines, the reference and ours, where each stands."""
    criterion = judgement.criterion
    end = common_end(criterion)
    ends = np.arange(criterion.every, end + 1, criterion.every)
    places = tuple(map(float, chunks.placed(ends, criterion.every, criterion.by_episodes)))
    ours = in_chunks([one.run for one in judgement.on_protocol if one.run.counts], criterion, ends)
    if not ours:
        return []
    there = {task: ~np.isnan(values).all(axis=0) for task, values in ours.items()}
    found = []
    for name, look in looks_of(criterion).items():
        theirs = published_in_chunks(name, criterion, there, ends)
        if theirs:
            banded = bands.iqm_curve(theirs, **options)
            enough = banded.tasks >= LEAST_SHARE * np.sum(list(there.values()), axis=0)
            found.append(series_of(whose(name, judgement), look, places, banded, enough))
    banded = bands.iqm_curve(ours, **options)
    return [*found, series_of(whose(criterion.agent, judgement), OUR_LOOK, places, banded)]


def in_chunks(runs: Sequence[ScoredRun], criterion: Criterion, ends: np.ndarray) -> dict[str, np.ndarray]:
    """Task -> (S, T) returns of our runs at the chunks' ends, NaN where a run has no point; tasks with any."""
    found: dict[str, list[np.ndarray]] = {}
    column = {int(end): index for index, end in enumerate(ends)}
    for run in runs:
        row = np.full(len(ends), np.nan)
        for step, value in zip(run.steps, run.values, strict=True):
            if int(step) in column and np.isfinite(value):
                row[column[int(step)]] = value
        if not np.isnan(row).all():
            found.setdefault(run.task, []).append(row)
    return {task: np.array(rows) for task, rows in found.items()}


def published_in_chunks(
    name: str, criterion: Criterion, there: Mapping[str, np.ndarray], ends: np.ndarray
) -> dict[str, np.ndarray]:
    """Task -> (S, T) of a published curve, only where a run of ours has got.      there: task -> (T,) bool."""
    reference = references.load(name)
    found = {}
    for task, ours in there.items():
        if task in reference.tasks:
            curve = chunks.binned(reference.curve(task), criterion.every, int(ends[-1]), criterion.by_episodes)
            returns = curve.returns[:, np.isin(curve.ends, ends)]
            found[task] = np.where(ours, returns, np.nan)
    return {task: rows for task, rows in found.items() if not np.isnan(rows).all()}


def performance_profiles(judgement: Judgement, options: Mapping[str, int | float]) -> dict[str, Drawing]:
    """Window -> what is drawn of the scores there, of windows at which ours have any."""
    criterion = judgement.criterion
    runs = [one.run for one in judgement.on_protocol if one.run.counts]
    drawings = {}
    for index, window in enumerate(criterion.windows(criterion.tasks[0])):
        ours = intervals.scores_of_runs(criterion, runs, index)
        if not ours:
            continue
        scores = {
            name: {
                task: list(verdicts.reference_scores(name, task, criterion.windows(task)[index]).values())
                for task in ours
                if task in references.load(name).tasks
            }
            for name in looks_of(criterion)
        }
        looks = looks_of(criterion) | {criterion.agent: OUR_LOOK}
        series = []
        for name, look in looks.items():
            some = {task: values for task, values in ({**scores, criterion.agent: ours})[name].items() if values}
            if len(some) >= LEAST_SHARE * len(ours):
                banded = bands.performance_profile(some, THRESHOLDS, **options)
                series.append(series_of(whose(name, judgement), look, tuple(map(float, THRESHOLDS)), banded))
        across = Axis("return τ", "return", 0, 1000)
        up = Axis("share of runs above τ", "share", 0, 1.02)
        title = f"{window.name} window, env steps {span(window)}, {count(len(ours), 'task')}"
        drawings[window.name] = Drawing(title, across, up, tuple(series), **SIZE)
    return drawings


def series_of(
    name: str, look: Look, xs: tuple[float, ...], banded: bands.Banded, kept: np.ndarray | None = None
) -> DrawnSeries:
    """A statistic with its band. kept: (X,) where it is drawn; everywhere by default."""
    kept = np.ones(len(xs), dtype=bool) if kept is None else kept
    sides = (np.where(kept, side, np.nan) for side in (banded.value, banded.low, banded.high))
    return DrawnSeries(name, look, xs, *(tuple(map(float, side)) for side in sides))
