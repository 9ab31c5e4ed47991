"""Where the points of a curve stand, and a published curve binned as a run's: what makes two curves comparable.

An evaluation (TD-MPC2) is of the agent as it is at that env step, and stands there. The mean of the training episodes
that ended in a chunk (DreamerV3) is of the agent over the whole chunk, and stands at its middle: drawn at its end, a
run would seem to learn later than it did. A published curve is averaged over the same chunks and stands at the same
places, so that a run of the same returns lies on it.
"""

from typing import TYPE_CHECKING, NamedTuple

from tdmpc2_lean.references import Curve

if TYPE_CHECKING:
    import numpy


class Binned(NamedTuple):
    """A curve over chunks. ends, places: (C,) env steps.      returns: (S, C), NaN where a seed has no point."""

    ends: "numpy.ndarray"
    places: "numpy.ndarray"
    returns: "numpy.ndarray"


def placed(ends, every: int, averaged: bool) -> "numpy.ndarray":
    """(C,) env steps at which the points of chunks stand. ends: (C,) of the chunks, the last perhaps of a part of one.

    every: length of a chunk, in env steps; 0 if it is not known.      averaged: whether a point is a mean over a chunk.
    """
    import numpy

    ends = numpy.asarray(ends, dtype=numpy.float64)
    if not averaged or not every:
        return ends
    return (ends + (numpy.ceil(ends / every) - 1) * every) / 2


def binned(curve: Curve, every: int, end: int, averaged: bool) -> Binned:
    """A published curve in chunks of that many env steps, up to an env step.

    A chunk is open below and closed above, as windows are. An evaluation made before training is a chunk of its own,
    at 0; training episodes have none there.
    """
    import numpy

    ends = numpy.arange(every if averaged else 0, end + 1, every)
    number = -(-curve.steps // every)  # of the chunk that a point lies in
    returns = numpy.full((len(curve.seeds), len(ends)), numpy.nan)
    for column, upto in enumerate(ends):
        inside = curve.returns[:, number == upto // every]
        some = ~numpy.isnan(inside).all(axis=1)
        if some.any():
            returns[some, column] = numpy.nanmean(inside[some], axis=1)
    return Binned(ends, placed(ends, every, averaged), returns)
