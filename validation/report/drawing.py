"""What is drawn, as data: series of points with their looks, two axes, bars to reach. `pictures.py` renders it.

A picture's CSV is written from the same numbers, so that what is seen can be had.
"""

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """How a series is drawn. said: its colour and line in words, for a key that is read and not seen.

    dashes: (on, off, …) in points; empty for a line without gaps.
    """

    said: str
    colour: str
    width: float = 1.0
    dashes: tuple[float, ...] = ()


# Okabe and Ito's colours, told apart by most colour-blind readers; ours by seed in this order.
OURS = (
    Look("blue", "#0072B2"),
    Look("vermilion", "#D55E00"),
    Look("green", "#009E73"),
    Look("pink", "#CC79A7"),
    Look("orange", "#E69F00"),
)
REFERENCE = Look("grey", "#7b858e", 0.9)
DEFAULT_RUNS = Look("black, dashed", "#1c2126", 0.6, (2, 1.5))
BASELINES = (
    Look("purple, dotted", "#6a3d9a", 0.9, (1, 1.4)),
    Look("brown, dash-dotted", "#8c4a2f", 0.9, (5, 1.4, 1, 1.4)),
    Look("olive, dashed", "#6f7a1f", 0.9, (4, 2)),
)
BAR = Look("red", "#b3261e", 1.3)
WINDOW = Look("pale blue ground", "#e8eff6", 6.0)


@dataclass(frozen=True)
class DrawnSeries:
    """Points joined by a line. All of length T, NaN where there is none.

    name: for the key; several series of one name have one entry.      low, high: of its band, empty without one.
    """

    name: str
    look: Look
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    stepped: bool = False

    def finite(self) -> list[tuple[float, float]]:
        return [(x, y) for x, y in zip(self.xs, self.ys, strict=True) if math.isfinite(x) and math.isfinite(y)]


@dataclass(frozen=True)
class Axis:
    """label: with the unit.      column: its name in the CSV.      lower, upper: its ends.

    steps: whether it counts env steps, which are written as K or M.      whole: whether only whole numbers are ticked.
    """

    label: str
    column: str
    lower: float
    upper: float
    steps: bool = False
    whole: bool = False

    def holds(self, value: float) -> bool:
        return self.lower <= value <= self.upper


@dataclass(frozen=True)
class Target:
    """A window (above, upto] on the x axis and the value to reach in it; None where none is to be."""

    name: str
    above: float
    upto: float
    value: float | None


@dataclass(frozen=True)
class Drawing:
    """One picture. missed: said in red beside the title.      width, height: in inches."""

    title: str
    x: Axis
    y: Axis
    series: tuple[DrawnSeries, ...]
    targets: tuple[Target, ...] = ()
    missed: str = ""
    width: float = 2.9
    height: float = 2.0

    def visible(self) -> list[DrawnSeries]:
        """The series of which a point lies within the axes."""
        return [one for one in self.series if any(self.x.holds(x) and self.y.holds(y) for x, y in one.finite())]

    def key(self) -> list[tuple[Look, str]]:
        """(look, words) of what can be seen, each once, in the order in which it is given."""
        found = {one.name: one.look for one in self.visible() if one.name}
        keys = [(look, name) for name, look in found.items()]
        if any(target.value is not None and self.y.holds(target.value) for target in self.targets):
            keys.append((BAR, "bar"))
        if self.targets:
            keys.append((WINDOW, "window"))
        return keys

    def csv(self) -> str:
        """The numbers drawn: a row a point, `series, x, y, low, high`; bars as two points each."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["series", self.x.column, self.y.column, "low", "high"])
        for one in self.series:
            for index, (x, y) in enumerate(zip(one.xs, one.ys, strict=True)):
                if math.isfinite(y):
                    edges = [_written(side[index]) if side else "" for side in (one.low, one.high)]
                    writer.writerow([one.name, _written(x), _written(y), *edges])
        for target in self.targets:
            if target.value is not None:
                for x in (target.above, target.upto):
                    writer.writerow([f"bar, {target.name} window", _written(x), _written(target.value), "", ""])
        return text.getvalue()


def keys_of(drawings: Iterable[Drawing]) -> list[tuple[Look, str]]:
    """The key of several pictures: what can be seen in any of them. Bars and windows come last."""
    found: dict[str, Look] = {}
    for drawing in drawings:
        for look, name in drawing.key():
            found.setdefault(name, look)
    pairs = [(look, name) for name, look in found.items()]
    return sorted(pairs, key=lambda pair: pair[0] in (BAR, WINDOW))


def _written(value: float) -> str:
    return "" if not math.isfinite(value) else f"{value:.10g}"
