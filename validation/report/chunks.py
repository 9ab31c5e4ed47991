"""Where the points of a curve stand, and a published curve binned as ours are: what makes two curves comparable.

An evaluation (TD-MPC2) is of the agent as it is at that env step, and stands there. The mean of the training episodes
that ended in a chunk (DreamerV3) is of the agent over the whole chunk, and stands at its middle: drawn at its end, a
run would seem to learn later than it did. A published curve is meaned over the same chunks and stands at the same
places, so that a run of the same returns lies on it.
"""

from typing import NamedTuple

import numpy as np

from tdmpc2_lean.references import Curve
from tdmpc2_lean.validation.judging.criteria import Criterion


class Binned(NamedTuple):
    """A curve over chunks. ends, places: (C,) env steps.      returns: (S, C), NaN where a seed has no point."""

    ends: np.ndarray
    places: np.ndarray
    returns: np.ndarray


def placed(ends: np.ndarray, every: int, by_episodes: bool) -> np.ndarray:
    """(C,) env steps at which points stand that end there. every: length of a chunk, in env steps."""
    ends = np.asarray(ends, dtype=np.float64)
    return ends - every / 2 if by_episodes else ends


def binned(curve: Curve, criterion: Criterion, end: int) -> Binned:
    """A published curve as the criterion's runs are binned, up to an env step.

    A chunk is open below and closed above, as windows are. The point that an evaluation made before training gave
    is a chunk of its own, at 0; training episodes have none there.
    """
    every = criterion.every
    ends = np.arange(every if criterion.by_episodes else 0, end + 1, every)
    number = -(-curve.steps // every)  # of the chunk that a point lies in
    returns = np.full((len(curve.seeds), len(ends)), np.nan)
    for column, upto in enumerate(ends):
        inside = curve.returns[:, number == upto // every]
        some = ~np.isnan(inside).all(axis=1)
        if some.any():
            returns[some, column] = np.nanmean(inside[some], axis=1)
    return Binned(ends, placed(ends, every, criterion.by_episodes), returns)
