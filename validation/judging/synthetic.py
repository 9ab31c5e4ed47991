"""Runs made of a reference's own curves: what the judge is tested on, and what a report can be shown with.

They are what a run would have to look like to score exactly what the reference scored. Not training runs.
"""

import math
from collections.abc import Sequence

from tdmpc2_lean import references
from tdmpc2_lean.validation.judging import soundness
from tdmpc2_lean.validation.judging.criteria import Criterion
from tdmpc2_lean.validation.judging.verdicts import ScoredRun, score
from tdmpc2_lean.validation.judging.window import Window

EPISODES_A_BIN = 10  # all of the reference's bins weigh the same; so many, too, has an evaluation of TD-MPC2


def runs(
    criterion: Criterion,
    *,
    shift: float = 0.0,
    tasks: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    name: str | None = None,
) -> list[ScoredRun]:
    """One run for each task and seed, at the criterion's points, finished, `shift` added to every value.

    A value stays between 0 and 1000, where returns lie.

    tasks: by default all of the criterion's.      seeds: by default the protocol's first ones, as many as the
        reference has.      name: of the reference to make them of; by default the criterion's.
    """
    name = name or criterion.reference
    return [
        run(criterion, task, seed, shift=shift, name=name)
        for task in tasks or criterion.tasks
        for seed in seeds or criterion.seeds
    ]


def run(criterion: Criterion, task: str, seed: int, *, shift: float = 0.0, name: str | None = None) -> ScoredRun:
    """The run of one seed: each point is the mean of the reference's points since the point before.

    Where the reference has none (a curve that ends one point early), the point is the seed's mean over the
    window it lies in, which leaves that window's score as it is.
    """
    steps, values = references.curve(name or criterion.reference, task).of_seed(seed)
    points, episodes = [], []
    chunks = range(criterion.every, criterion.budget(task) + 1, criterion.every)
    for upto in chunks:
        chunk = Window("", upto - criterion.every, upto)
        value = score(steps, values, chunk)
        if math.isnan(value):
            around = [window for window in criterion.windows(task) if window.above < upto <= window.upto]
            value = score(steps, values, around[0]) if around else math.nan
        points.append(min(max(value + shift, soundness.LOWEST), soundness.HIGHEST) if shift else value)
        episodes.append(EPISODES_A_BIN * max(1, int(chunk.holds(steps).sum())))
    return ScoredRun(task, seed, list(chunks), points, episodes, name=f"{task}/{seed}")
