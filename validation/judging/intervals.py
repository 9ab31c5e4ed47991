"""How sure a comparison is: interquartile mean and probability of improvement, with bootstrap intervals.

For the reader of a report, beside the verdict and never part of it. Scores are given task by task, because
tasks differ in their numbers of seeds. The bootstrap is stratified: seeds are drawn anew within each task,
so that every resample has every task. It is scipy's.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tdmpc2_lean.validation.judging import criteria, verdicts

Scores = Mapping[str, Sequence[float]]  # task -> (S,) one score a seed, in return units


class Interval(NamedTuple):
    """An estimate, its percentile interval, and what it stands on: tasks, and seeds over all of them."""

    value: float
    low: float
    high: float
    tasks: int
    seeds: int


class Row(NamedTuple):
    """One agent at one window. improvement: how probably a seed of ours beats one of its; None for ours."""

    name: str
    window: str
    iqm: Interval
    improvement: Interval | None


def interquartile_mean(scores: Scores, *, resamples: int = 2000, confidence: float = 0.95, seed: int = 0) -> Interval:
    """The mean of the middle half of all scores, tasks and seeds pooled, in return units.

    A quarter of the scores, rounded down, is cut at either end. seed: of the bootstrap's random draws.
    """
    from scipy.stats import trim_mean

    samples = _samples(scores)

    def statistic(*drawn: np.ndarray) -> np.ndarray:
        return trim_mean(np.concatenate(drawn, axis=-1), 0.25, axis=-1)

    return _bootstrap(samples, statistic, len(samples), resamples, confidence, seed)


def probability_of_improvement(
    ours: Scores, theirs: Scores, *, resamples: int = 2000, confidence: float = 0.95, seed: int = 0
) -> Interval:
    """How probably a seed of ours scores above one of theirs: the mean over the tasks that both have.

    On a task it is the share of all pairs (ours, theirs) in which ours is greater; an equal pair counts half.
    """
    shared = sorted(set(ours) & set(theirs))
    first = _samples({task: ours[task] for task in shared})
    second = _samples({task: theirs[task] for task in shared})

    def statistic(*drawn: np.ndarray) -> np.ndarray:
        shares = []
        for x, y in zip(drawn[: len(shared)], drawn[len(shared) :], strict=True):
            difference = x[..., :, None] - y[..., None, :]
            equal = np.abs(difference) <= criteria.ROUNDING
            shares.append(np.where(equal, 0.5, difference > 0).mean(axis=(-2, -1)))
        return np.mean(shares, axis=0)

    return _bootstrap(first + second, statistic, len(shared), resamples, confidence, seed)


def compare(criterion: criteria.Criterion, runs: Iterable[verdicts.ScoredRun], **options: int | float) -> list[Row]:
    """At each window: ours first, then the reference, then every baseline.

    Ours are the scores of the runs that are on protocol, sound and have one, on whichever tasks they are: a Row says
    how many. Where we have none, the row's numbers are NaN.
    """
    runs = [run for run in runs if run.counts and run.task in criterion.tasks]
    rows = []
    for index, window in enumerate(criterion.windows(criterion.tasks[0])):
        ours = scores_of_runs(criterion, runs, index)
        rows.append(Row(criterion.agent, window.name, interquartile_mean(ours, **options), None))
        for name in (criterion.reference, *criterion.baselines):
            theirs = {
                task: list(verdicts.reference_scores(name, task, criterion.windows(task)[index]).values())
                for task in criterion.tasks
            }
            theirs = {task: scores for task, scores in theirs.items() if scores}
            iqm = interquartile_mean(theirs, **options)
            rows.append(Row(name, window.name, iqm, probability_of_improvement(ours, theirs, **options)))
    return rows


def scores_of_runs(
    criterion: criteria.Criterion, runs: Iterable[verdicts.ScoredRun], index: int
) -> dict[str, list[float]]:
    """Task -> one score a seed at the window of that index, for the runs that have one."""
    scores: dict[str, list[float]] = {}
    for run in sorted(runs, key=lambda run: (run.task, run.seed, run.name)):
        value, fault = verdicts.seed_score(criterion, run, criterion.windows(run.task)[index])
        if not fault:
            scores.setdefault(run.task, []).append(value)
    return scores


def _samples(scores: Scores) -> list[np.ndarray]:
    """One array (S,) a task, tasks sorted."""
    samples = [np.asarray(scores[task], dtype=np.float64) for task in sorted(scores)]
    if any(sample.ndim != 1 or not sample.size or not np.isfinite(sample).all() for sample in samples):
        raise ValueError("each task needs a list of finite scores, one a seed")
    return samples


def _bootstrap(
    samples: list[np.ndarray],
    statistic: Callable[..., np.ndarray],
    of_tasks: int,
    resamples: int,
    confidence: float,
    seed: int,
) -> Interval:
    """The statistic of the samples with its percentile interval.

    A sample of one score is the same in every resample; scipy refuses those, so they are held fixed here.
    """
    from scipy.stats import bootstrap

    seeds = sum(sample.size for sample in samples)
    if not samples:
        return Interval(math.nan, math.nan, math.nan, 0, 0)
    value = float(statistic(*samples))
    drawn = [index for index, sample in enumerate(samples) if sample.size > 1]
    if not drawn:
        return Interval(value, value, value, of_tasks, seeds)

    def of_drawn(*parts: np.ndarray, axis: int = -1) -> np.ndarray:
        batch = parts[0].shape[:-1]
        full = [np.broadcast_to(sample, (*batch, sample.size)) for sample in samples]
        for index, part in zip(drawn, parts, strict=True):
            full[index] = part
        return statistic(*full)

    found = bootstrap(
        [samples[index] for index in drawn],
        of_drawn,
        vectorized=True,
        n_resamples=resamples,
        batch=200,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    low, high = (float(bound) for bound in found.confidence_interval)
    return Interval(value, low, high, of_tasks, seeds)
