"""Draws a `Drawing` as SVG, for the page, and as PNG, to stand alone. No number is made here.

The same data give the same bytes.
"""

import io
import math
import unicodedata
from typing import TYPE_CHECKING

from tdmpc2_lean.validation.report.drawing import BAR, WINDOW, Axis, Drawing, DrawnSeries, Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

INK = "#1c2126"
SOFT = "#5c6670"
FEW = 8  # points; a line of fewer is drawn with marks
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tdmpc2_lean",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "sans-serif"],
    "font.size": 8,
    "text.color": INK,
    "axes.edgecolor": "#9aa3ab",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.labelcolor": SOFT,
    "axes.labelsize": 7.5,
    "xtick.color": "#9aa3ab",
    "ytick.color": "#9aa3ab",
    "xtick.labelcolor": SOFT,
    "ytick.labelcolor": SOFT,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
}
# Inches; a layout that is computed takes as long again as the drawing.
LEFT, RIGHT, BOTTOM, TOP = 0.46, 0.14, 0.4, 0.22
KEY_ROW = 0.17  # inches


def svg(drawing: Drawing) -> str:
    """Without a key, which stands once over many of them."""
    with styled():
        text = io.StringIO()
        figure(drawing).savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return text.getvalue()


def png(drawing: Drawing) -> bytes:
    """With its key below, on white."""
    with styled():
        content = io.BytesIO()
        drawn = figure(drawing, key=True)
        drawn.savefig(content, format="png", dpi=160, facecolor="white", metadata={"Software": None})
    return content.getvalue()


def figure(drawing: Drawing, key: bool = False) -> "Figure":
    entries = drawing.key() if key else []
    below = KEY_ROW * len(entries) + (0.06 if entries else 0)
    width, height = drawing.width, drawing.height + below
    drawn = empty(width, height)
    drawn.subplots_adjust(LEFT / width, (BOTTOM + below) / height, 1 - RIGHT / width, 1 - TOP / height)
    axes = drawn.add_subplot()
    for target in drawing.targets:
        axes.axvspan(target.above, target.upto, color=WINDOW.colour, linewidth=0, zorder=0)
        if target.value is not None:
            ends = [target.above, target.upto]
            axes.plot(ends, [target.value] * 2, color=BAR.colour, linewidth=BAR.width, zorder=5)
    for order, one in enumerate(drawing.series):
        draw_series(axes, one, 1 + order / (1 + len(drawing.series)))
    lay_axis(axes, "x", drawing.x)
    lay_axis(axes, "y", drawing.y)
    axes.tick_params(pad=2)
    axes.set_title(drawable(drawing.title), pad=4, parse_math=False)
    if drawing.missed:
        axes.set_title(drawing.missed, pad=4, loc="right", color=BAR.colour, fontsize=7.5, parse_math=False)
    if entries:
        add_key(drawn, entries, LEFT / width, below / height)
    return drawn


def draw_series(axes: "Axes", one: DrawnSeries, order: float) -> None:
    colour, width = one.look.colour, one.look.width
    if one.low:
        axes.fill_between(one.xs, one.low, one.high, color=colour, alpha=0.24, linewidth=0, zorder=order)
    if one.stepped:
        axes.step(one.xs, one.ys, where="mid", color=colour, linewidth=width, zorder=order)
        return
    line = (0, one.look.dashes) if one.look.dashes else "-"
    marked = "o" if len(one.finite()) < FEW or lone_points(one) else None
    axes.plot(
        one.xs, one.ys, color=colour, linewidth=width, linestyle=line, zorder=order,
        marker=marked, markersize=2.2, clip_on=marked is None,
    )  # fmt: skip


def lone_points(one: DrawnSeries) -> bool:
    """Whether a point has no neighbour, so that no line leads to it."""
    there = [math.isfinite(y) for y in one.ys]
    return any(
        here and not before and not after
        for before, here, after in zip([False, *there], there, [*there[1:], False], strict=False)
    )


def lay_axis(axes: "Axes", side: str, laid: Axis) -> None:
    getattr(axes, f"set_{side}lim")(laid.lower, laid.upper)
    getattr(axes, f"set_{side}label")(laid.label, labelpad=2)
    axis = getattr(axes, f"{side}axis")
    axis.set_major_locator(ticks(4, integer=laid.whole))
    if laid.steps:
        unit, name = (1e6, "M") if laid.upper >= 1_500_000 else (1e3, "K") if laid.upper >= 2000 else (1, "")
        axis.set_major_formatter(lambda step, _: f"{step / unit:g}{name if step else ''}")


def add_key(drawn: "Figure", entries: list[tuple[Look, str]], left: float, top: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = []
    for look, words in entries:
        words = drawable(words)
        if look is WINDOW:
            handles.append(Patch(facecolor=look.colour, label=words))
        else:
            line = (0, look.dashes) if look.dashes else "-"
            handles.append(Line2D([], [], color=look.colour, linewidth=1.6, linestyle=line, label=words))
    legend = drawn.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(left, top), ncols=1, frameon=False, fontsize=7,
        handlelength=1.8, borderaxespad=0, borderpad=0, labelspacing=0.35,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_parse_math(False)


def drawable(text: str) -> str:
    """A text from elsewhere without what no picture can hold, such as control characters and lone surrogates."""
    return "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(sign)[0] == "C" else sign for sign in text)


def ticks(number: int, integer: bool = False) -> "MaxNLocator":
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(number, steps=[1, 2, 2.5, 5, 10], integer=integer)


def empty(width: float, height: float) -> "Figure":
    """A figure of that size in inches, without pyplot and so without any window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(width, height))
    FigureCanvasAgg(drawn)
    return drawn


def styled() -> object:
    import matplotlib

    return matplotlib.rc_context(STYLE)
