"""The protocol's measure of a DreamerV3 run: what its training episodes returned, chunk by chunk of env steps.

The official code writes `scores.jsonl`: a line for each training episode that ended, with its return and the step at
which it ended. That step is in env steps: its logger multiplies the trainer's agent steps by the environment's action
repeat (make_logger in dreamerv3/main.py). A line for one environment counts the steps of all of them, as the published
curves do.
"""

import math
from dataclasses import dataclass
from pathlib import Path

from dreamer_bridge import curve
from tdmpc2_lean.errors import UserError

FILE = "scores.jsonl"
SCORE = "episode/score"


@dataclass(frozen=True)
class Returns:
    """A run's points: one for each chunk in which an episode ended.

    steps: (T,) env steps at which the chunks end. values: (T,) mean returns of their episodes.
    episodes: (T,) how many episodes each point averages: its weight.
    """

    steps: tuple[int, ...]
    values: tuple[float, ...]
    episodes: tuple[int, ...]

    def mean(self, above: int = 0, upto: float = math.inf) -> float:
        """The mean over all episodes of the chunks that end in (above, upto]; NaN if there are none."""
        held = [
            (value, n)
            for step, value, n in zip(self.steps, self.values, self.episodes, strict=True)
            if above < step <= upto
        ]
        total = sum(n for _, n in held)
        return sum(value * n for value, n in held) / total if total else math.nan


def read(folder: Path, chunk: int = curve.CHUNK) -> Returns:
    """The points of the run in an official log folder. chunk: env steps.

    A line that a kill cut short is passed over. Where the steps fall back, as after a kill, the run was resumed: of the
    episodes at or beyond that step, those of the resumed run count.
    """
    path = folder / FILE
    if not path.is_file():
        raise UserError(f"{folder} holds no {FILE}.", "name the log folder of a DreamerV3 run (its --logdir)")
    found: list[tuple[int, float]] = []
    for line in curve.read_lines(path):
        step, score = line.get("step"), line.get(SCORE)
        if not all(isinstance(x, int | float) and math.isfinite(x) for x in (step, score)):
            continue
        while found and found[-1][0] >= step:
            found.pop()
        found.append((int(step), float(score)))
    return chunked(found, chunk)


def chunked(scores: list[tuple[int, float]], chunk: int = curve.CHUNK) -> Returns:
    """The points of episodes: (env step, return) each, which belong to the chunk (a, b] in which they ended."""
    if chunk < 1:
        raise UserError(f"a chunk of {chunk} env steps.", "give a whole number from 1 on")
    groups: dict[int, list[float]] = {}
    for step, score in scores:
        groups.setdefault(-(-step // chunk) * chunk, []).append(score)
    ends = sorted(groups)
    return Returns(
        tuple(ends),
        tuple(sum(groups[end]) / len(groups[end]) for end in ends),
        tuple(len(groups[end]) for end in ends),
    )
