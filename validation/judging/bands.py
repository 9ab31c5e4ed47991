"""Curves and profiles over all tasks, with bootstrap bands: for the reader, beside the verdict and never part of it.

As Agarwal et al. define them (arXiv 2108.13264), but in return units. The bootstrap is stratified: whole runs are
drawn anew within each task, so that every resample has every task, and a run's points stay together.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

BATCH = 100  # resamples at a time, to bound the memory


class Banded(NamedTuple):
    """A statistic at each of X places, with its percentile band. All (X,); NaN where nothing has a score.

    tasks, runs: over how many it is.
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    tasks: np.ndarray
    runs: np.ndarray


def iqm_curve(
    curves: Mapping[str, np.ndarray], *, resamples: int = 1000, confidence: float = 0.95, seed: int = 0
) -> Banded:
    """The interquartile mean over all runs of all tasks, at each point of training.

    curves: task -> (S, X) returns of its S runs, NaN where a run has no point. All of one X.
    """
    samples = _stacked(curves)
    everything = np.concatenate(samples)
    drawn = [
        interquartile_means(np.concatenate([sample[rows] for sample, rows in zip(samples, draw, strict=True)], axis=1))
        for draw in _draws([len(sample) for sample in samples], resamples, seed)
    ]
    return _banded(interquartile_means(everything[None])[0], np.concatenate(drawn), samples, confidence)


def performance_profile(
    scores: Mapping[str, Sequence[float]],
    thresholds: np.ndarray,
    *,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Banded:
    """The share of runs that score above each threshold: the mean over tasks of each task's share.

    scores: task -> (S,) one score a run, in return units.      thresholds: (X,).
    """
    above = {task: np.asarray(some, dtype=float)[:, None] > thresholds for task, some in scores.items()}
    samples = _stacked({task: some.astype(float) for task, some in above.items()})
    drawn = [
        np.mean([sample[rows].mean(axis=1) for sample, rows in zip(samples, draw, strict=True)], axis=0)
        for draw in _draws([len(sample) for sample in samples], resamples, seed)
    ]
    share = np.mean([sample.mean(axis=0) for sample in samples], axis=0)
    return _banded(share, np.concatenate(drawn), samples, confidence)


def interquartile_means(values: np.ndarray) -> np.ndarray:
    """(R, N, X) -> (R, X): the mean of the middle half of the N that are no NaN; a quarter, rounded down, is cut at
    either end. NaN where all are."""
    ordered = np.sort(values, axis=1)  # NaN last
    there = (~np.isnan(ordered)).sum(axis=1)
    sums = np.cumsum(np.nan_to_num(ordered), axis=1)
    sums = np.concatenate([np.zeros_like(sums[:, :1]), sums], axis=1)
    cut = there // 4
    middle = np.take_along_axis(sums, (there - cut)[:, None], 1) - np.take_along_axis(sums, cut[:, None], 1)
    left = there - 2 * cut
    return np.where(left > 0, middle[:, 0] / np.maximum(left, 1), np.nan)


def _stacked(curves: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """One array (S, X) a task, tasks sorted."""
    samples = [np.atleast_2d(np.asarray(curves[task], dtype=np.float64)) for task in sorted(curves)]
    if not samples or any(not len(sample) or sample.shape[1] != samples[0].shape[1] for sample in samples):
        raise ValueError("at least one task, and each with runs of one length, are needed")
    return samples


def _draws(sizes: Sequence[int], resamples: int, seed: int) -> Iterator[list[np.ndarray]]:
    """Batches of resamples: for each task (R, S) rows, drawn with replacement."""
    random = np.random.default_rng(seed)
    for start in range(0, resamples, BATCH):
        batch = min(BATCH, resamples - start)
        yield [random.integers(0, size, (batch, size)) for size in sizes]


def _banded(value: np.ndarray, drawn: np.ndarray, samples: Sequence[np.ndarray], confidence: float) -> Banded:
    """drawn: (R, X). Where a resample happens to have no value, it says nothing of the band."""
    tail = (1 - confidence) / 2
    low, high = np.full_like(value, np.nan), np.full_like(value, np.nan)
    some = ~np.isnan(drawn).all(axis=0)
    if some.any():
        low[some], high[some] = np.nanquantile(drawn[:, some], [tail, 1 - tail], axis=0)
    present = [~np.isnan(sample) for sample in samples]
    tasks = np.sum([some.any(axis=0) for some in present], axis=0)
    runs = np.sum([some.sum(axis=0) for some in present], axis=0)
    return Banded(value, low, high, tasks, runs)
