"""Puts runs and published curves on paper, a panel a task. `figure` says what; here is only where and how it looks.

The legend names what has a point within a panel, and nothing else.
"""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tdmpc2_lean.files import atomic_write
from tdmpc2_lean.runs import figure
from tdmpc2_lean.runs.figure import FigureRun, Published

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6a3d9a", "#8c4a2f")
GREYS = ("0.35", "#8c4a2f", "#6f7a1f", "#6a3d9a")
CAPTION = {"fontsize": 7, "linespacing": 1.3, "color": "0.25"}
LABEL = 70  # characters; the caption has all
INCH = 72  # points
DPI = 150


@dataclass(frozen=True)
class DrawnLine:
    """A line of a panel, (n,) each. label: for the legend; lines of one label have one entry. thick: a mean of runs."""

    label: str
    places: tuple[float, ...]
    returns: tuple[float, ...]
    colour: str
    thick: bool = False
    published: bool = False
    mean: bool = False
    joined: bool = True


@dataclass(frozen=True)
class TaskPanel:
    """One task. end: env steps at the axis's end."""

    task: str
    runs: tuple[FigureRun, ...]
    references: tuple[Published, ...]
    end: float

    @property
    def caption(self) -> str:
        return figure.caption(self.runs, self.references, self.end)


def panel(task: str, runs: Sequence[FigureRun], references: Sequence[Published]) -> TaskPanel:
    last = max(max(run.steps) for run in runs)
    return TaskPanel(task, tuple(runs), tuple(references), 1.03 * max(last, 1))


def lines_of(shown: TaskPanel, colours: dict[tuple, str], names: dict[tuple, str]) -> list[DrawnLine]:
    """Everything that is drawn in a panel, from the back to the front."""
    lines = []
    for number, one in enumerate(shown.references):
        # A line to a point far outside the figure would look like a slow start that nobody measured.
        joined = one.seen(shown.end) > 1
        if number == 0:
            label = f"published {one.agent}, each seed"
            lines += [DrawnLine(label, one.places, row, "0.72", published=True, joined=joined) for row in one.returns]
        label = f"published {one.agent}, mean"
        look = {"published": True, "mean": True, "joined": joined}
        lines.append(DrawnLine(label, one.places, tuple(one.means()), GREYS[number % len(GREYS)], **look))
    for key, group in figure.grouped(shown.runs).items():
        several = len(group) > 1
        label = names[key] + (", each seed" if several else "")
        lines += [DrawnLine(label, run.places, run.returns, colours[key], thick=not several) for run in group]
        if several:
            places, means = figure.mean_of(group)
            label = f"{names[key]}, mean"
            lines.append(DrawnLine(label, tuple(places), tuple(means), colours[key], thick=True, mean=True))
    return lines


def visible(line: DrawnLine, end: float) -> list[tuple[float, float]]:
    """The points of a line that lie within a panel."""
    points = zip(line.places, line.returns, strict=True)
    return [(place, value) for place, value in points if 0 <= place <= end and math.isfinite(value)]


def legend_of(lines: Sequence[DrawnLine], end: float) -> list[str]:
    """The labels of the lines of which a point can be seen, each once."""
    return list(dict.fromkeys(line.label for line in lines if visible(line, end)))


def names_of(runs: Sequence[FigureRun]) -> dict[tuple, str]:
    """(code, settings) -> a label that tells it from the others of the figure."""
    groups = figure.grouped(runs)
    codes = {code for code, _ in groups}
    common = set.intersection(*(set(settings) for _, settings in groups))
    found = {}
    for code, settings in groups:
        apart = [part for part in settings if part not in common] if len(groups) > 1 else list(settings)
        words = ", ".join([*([code] if len(codes) > 1 or len(groups) == 1 else []), *apart])
        text = words or ", ".join(settings)
        found[code, settings] = text if len(text) <= LABEL else text[: LABEL - 1] + "…"
    return found


def save(shown: Sequence[TaskPanel], path: Path) -> None:
    """Draw the panels into a PNG, in one step. Its caption is in its metadata too."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    runs = [run for one in shown for run in one.runs]
    references = [reference for one in shown for reference in one.references]
    words = shown[0].caption if len(shown) == 1 else figure.caption(runs, references)
    groups = list(figure.grouped(runs))
    colours = {key: COLOURS[number % len(COLOURS)] for number, key in enumerate(groups)}
    names = names_of(runs)
    columns = min(len(shown), 3 if len(shown) <= 9 else 4)
    rows = -(-len(shown) // columns)
    width = 8.0 if columns == 1 else 3.6 * columns
    drawn = Figure(figsize=(width, 1), dpi=DPI)
    FigureCanvasAgg(drawn)
    caption = wrapped(drawn, words, (width - 0.3) * drawn.dpi)
    lines = {one.task: lines_of(one, colours, names) for one in shown}
    labels = dict.fromkeys(label for one in shown for label in legend_of(lines[one.task], one.end))
    below = (CAPTION["fontsize"] * CAPTION["linespacing"] * 1.06 * (caption.count("\n") + 1)) / INCH + 0.1
    beside = 2 if max(map(len, labels), default=0) < 0.7 * LABEL * width / 8 else 1
    key = 0.16 * -(-len(labels) // beside) + 0.12
    each = 3.9 if columns == 1 else 2.5
    height = rows * each + below + key
    drawn.set_size_inches(width, height)
    grid = drawn.subplots(rows, columns, squeeze=False)
    drawn.subplots_adjust(
        0.62 / width, (below + key + 0.45) / height, 1 - 0.18 / width, 1 - 0.3 / height,
        wspace=0.62 / (width / columns - 0.62), hspace=0.75 / (each - 0.75),
    )  # fmt: skip
    handles: dict[str, object] = {}
    for number, axes in enumerate(grid.flat):
        if number >= len(shown):
            axes.set_visible(False)
            continue
        one = shown[number]
        draw_panel(axes, one, lines[one.task], handles)
    handles = {label: handles[label] for label in labels}
    legend = drawn.legend(
        handles.values(), handles, loc="upper left", bbox_to_anchor=(0.15 / width, (below + key) / height),
        ncols=beside, borderaxespad=0, borderpad=0, frameon=False, fontsize=7.5, labelspacing=0.35,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_parse_math(False)
    drawn.text(0.15 / width, (below - 0.03) / height, caption, ha="left", va="top", parse_math=False, **CAPTION)
    content = io.BytesIO()
    drawn.savefig(content, format="png", dpi=DPI, metadata={"Description": words})
    atomic_write(path, content.getvalue())


def draw_panel(axes: "Axes", one: TaskPanel, lines: Sequence[DrawnLine], handles: dict[str, object]) -> None:
    """handles: is given the artist of each label."""
    from matplotlib.ticker import MaxNLocator

    seen = [value for line in lines for _, value in visible(line, one.end)]
    low, high = min([0.0, *seen]), max([1.0, *seen])
    for line in lines:
        many = len(line.places) > 60
        if line.published:
            mark, size, wide = ("d", 3, 1.2) if line.mean else (".", 4, 0.9)
        else:
            mark, size, wide = "o", 3.5 if line.thick else 2, 1.6 if line.thick else 0.8
        (artist,) = axes.plot(
            line.places, line.returns, color=line.colour, linewidth=wide, marker=None if many else mark,
            markersize=size, linestyle="-" if line.joined else "none", alpha=1 if line.thick or line.mean else 0.75,
            zorder=2 if line.published else 3,
        )  # fmt: skip
        if visible(line, one.end):
            handles.setdefault(line.label, artist)
    axes.set_xlim(-0.02 * one.end, one.end)
    axes.set_ylim(low - 0.03 * (high - low), high + 0.05 * (high - low))
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(lambda step, _: steps_written(step))
    axes.set_xlabel("env steps", fontsize=8, labelpad=2)
    axes.set_ylabel("return of an episode", fontsize=8, labelpad=2)
    axes.set_title(one.task, fontsize=10, pad=5, parse_math=False)
    axes.tick_params(labelsize=7.5)
    axes.grid(alpha=0.3)


def steps_written(step: float) -> str:
    """Env steps at an axis: 0, 500, 50K, 1.5M."""
    unit, name = (1e6, "M") if abs(step) >= 1e6 else (1e3, "K") if abs(step) >= 1e3 else (1, "")
    return f"{step / unit:g}{name}"


def wrapped(drawn: "Figure", words: str, width: float) -> str:
    """The words in lines as long as that many pixels have room for, by the font's own widths."""
    from matplotlib.font_manager import FontProperties

    renderer = drawn.canvas.get_renderer()
    font = FontProperties(size=CAPTION["fontsize"])
    lines: list[str] = []
    for word in words.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and renderer.get_text_width_height_descent(longer, font, ismath=False)[0] <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(lines)
