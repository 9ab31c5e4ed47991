"""The report's curves as SVG texts: one task's, the aggregate's, and the key. Only drawing; no number is made here.

The same data give the same bytes.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

# Okabe and Ito's colours, told apart by most colour-blind readers; ours by seed in this order.
OURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
REFERENCE = "#7b858e"
BAR = "#b3261e"
WINDOW = "#eef3f8"
INK = "#1c2126"
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tdmpc2_lean",
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica Neue", "Arial", "DejaVu Sans", "sans-serif"],
    "font.size": 8,
    "text.color": INK,
    "axes.edgecolor": "#9aa3ab",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.labelcolor": "#5c6670",
    "xtick.color": "#9aa3ab",
    "ytick.color": "#9aa3ab",
    "xtick.labelcolor": "#5c6670",
    "ytick.labelcolor": "#5c6670",
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
}

Points = tuple[Sequence[float] | np.ndarray, Sequence[float] | np.ndarray]  # env steps (T,), returns (T,)


@dataclass(frozen=True)
class Band:
    """A reference's curve over its seeds. All (T,): env steps, lowest seed, mean, highest seed."""

    steps: np.ndarray
    low: np.ndarray
    mean: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Bar:
    """A window (above, upto] of env steps and the return to reach in it; None where none is to be."""

    above: int
    upto: int
    value: float | None


def task_curve(
    title: str,
    ours: Mapping[int, Points],
    colours: Mapping[int, str],
    reference: Band | None,
    bars: Sequence[Bar],
    end: float,
    beside: Sequence[Points] = (),
    missed: str = "",
) -> str:
    """One task: our seeds over the reference's band, windows shaded, bars in them.

    end: env steps at the axis's end.      beside: a default's runs.      missed: said in red beside the title.
    """
    with _styled():
        figure = _with_margins(_empty(2.75, 1.75))
        axes = figure.add_subplot()
        _windows(axes, bars)
        if reference is not None:
            axes.fill_between(
                reference.steps, reference.low, reference.high, color=REFERENCE, alpha=0.28, linewidth=0, zorder=1
            )
            axes.plot(reference.steps, reference.mean, color=REFERENCE, linewidth=0.9, zorder=2)
        for steps, values in beside:
            axes.plot(steps, values, color=INK, linewidth=0.6, linestyle=(0, (2, 1.5)), zorder=3)
        for seed, (steps, values) in sorted(ours.items()):
            mark = "o" if np.isfinite(values).sum() < 8 else None
            look = {"marker": mark, "markersize": 2.2, "clip_on": mark is None}
            axes.plot(steps, values, color=colours[seed], linewidth=1.0, zorder=4, **look)
        _return_axis(axes, [values for _, values in [*ours.values(), *beside]])
        _step_axis(axes, end)
        axes.set_title(title, pad=4)
        if missed:
            axes.set_title(missed, pad=4, loc="right", color=BAR, fontsize=7.5)
        return _svg(figure)


def aggregate_curve(panels: Sequence[tuple[str, Points, Points]], tasks: Points, end: float) -> str:
    """Over the tasks: a panel each (title, ours, reference) of a statistic.

    tasks: env steps and the number of tasks there, which a further panel shows unless it is the same everywhere.
    end: env steps at the axis's end.
    """
    counted = len(set(tasks[1])) > 1
    with _styled():
        figure = _with_margins(_empty(3.6 * len(panels) + 2.2 * counted, 2.2))
        ratios = [*[1] * len(panels), *[0.6] * counted]
        row = figure.subplots(1, len(ratios), squeeze=False, gridspec_kw={"width_ratios": ratios})[0]
        for axes, (title, ours, reference) in zip(row, panels, strict=False):
            axes.plot(*reference, color=REFERENCE, linewidth=3, alpha=0.6, solid_capstyle="butt")
            mark = "o" if len(ours[0]) < 8 else None
            axes.plot(*ours, color=OURS[0], linewidth=1.2, marker=mark, markersize=2.5, clip_on=mark is None)
            _return_axis(axes, [ours[1], reference[1]])
            _step_axis(axes, end)
            axes.set_title(title, pad=4)
        if counted:
            row[-1].step(*tasks, where="mid", color=INK, linewidth=1)
            row[-1].set_ylim(0, max(tasks[1]) * 1.1)
            row[-1].yaxis.set_major_locator(_ticks(4, integer=True))
            _step_axis(row[-1], end)
            row[-1].set_title("tasks it is over", pad=4)
        return _svg(figure)


def key(entries: Sequence[tuple[str, str]]) -> str:
    """What the lines mean: (colour, or `band`, `bar`, `beside`; words) side by side."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    with _styled():
        handles = []
        for look, words in entries:
            if look == "band":
                handles.append(Patch(facecolor=REFERENCE, alpha=0.45, label=words))
            elif look == "window":
                handles.append(Patch(facecolor=WINDOW, edgecolor="#c9d5e0", linewidth=0.5, label=words))
            elif look == "bar":
                handles.append(Line2D([], [], color=BAR, linewidth=1.4, label=words))
            elif look == "beside":
                handles.append(Line2D([], [], color=INK, linewidth=0.8, linestyle=(0, (2, 1.5)), label=words))
            else:
                handles.append(Line2D([], [], color=look, linewidth=1.6, label=words))
        figure = _empty(10.6, 0.3)
        figure.legend(
            handles=handles,
            loc="center left",
            bbox_to_anchor=(0, 0.5),
            ncols=len(handles),
            frameon=False,
            handlelength=1.5,
            columnspacing=1.6,
            borderaxespad=0,
            borderpad=0,
        )
        return _svg(figure)


def _windows(axes: "Axes", bars: Sequence[Bar]) -> None:
    for bar in bars:
        axes.axvspan(bar.above, bar.upto, color=WINDOW, linewidth=0, zorder=0)
        if bar.value is not None:
            axes.plot([bar.above, bar.upto], [bar.value] * 2, color=BAR, linewidth=1.3, zorder=5)


def _return_axis(axes: "Axes", shown: Sequence[Sequence[float] | np.ndarray]) -> None:
    """From 0 to 1000, which a return of DMControl lies in, unless something shown does not."""
    finite = [float(value) for values in shown for value in values if np.isfinite(value)]
    low, high = min([-20, *finite]), max([1020, *finite])
    axes.set_ylim(low, high)
    if low > -250 and high < 1250:
        axes.set_yticks([0, 500, 1000])


def _step_axis(axes: "Axes", end: float) -> None:
    unit, name = (1e6, "M") if end >= 1_500_000 else (1e3, "K")
    axes.set_xlim(0, end)
    axes.xaxis.set_major_locator(_ticks(4))
    axes.xaxis.set_major_formatter(lambda step, _: f"{step / unit:g}{name if step else ''}")
    axes.tick_params(pad=2)


def _ticks(count: int, integer: bool = False) -> "MaxNLocator":
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(count, steps=[1, 2, 2.5, 5, 10], integer=integer)


def _empty(width: float, height: float) -> "Figure":
    """A figure of that size in inches, without pyplot and so without any window."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasSVG(figure)
    return figure


def _with_margins(figure: "Figure") -> "Figure":
    """Room for labels and titles, in inches; a layout that is computed takes as long again as the drawing."""
    width, height = figure.get_size_inches()
    figure.subplots_adjust(0.36 / width, 0.2 / height, 1 - 0.14 / width, 1 - 0.2 / height, wspace=0.16)
    return figure


def _styled() -> object:
    import matplotlib

    return matplotlib.rc_context(STYLE)


def _svg(figure: "Figure") -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return text.getvalue()
