"""curve.png: a run's returns against the published curve of its task, with n and seeds in the caption."""

import csv
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tdmpc2_lean.environments.dm_control import ACTION_REPEAT_OF_DMCONTROL
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import record

REFERENCE = "tdmpc2_dmc"
UNIT = "Env steps; eval.csv counts agent steps, 2 env steps each."
MINIATURE = "the miniature (not TD-MPC2)"


@dataclass(frozen=True)
class Run:
    """What is drawn of a run.

    steps: (n,) env steps. returns: (n,) mean returns of `episodes` episodes each, or what `points` says.
    code: what was run, as a reader should call it. settings: the presets' names.
    reference: the name of the published curves it is compared with. unit: what its steps are.
    """

    task: str
    seed: int
    steps: tuple[int, ...]
    returns: tuple[float, ...]
    episodes: int
    code: str
    settings: str
    state: str
    reference: str = REFERENCE
    points: str = ""
    unit: str = UNIT

    @property
    def is_miniature(self) -> bool:
        return self.code == MINIATURE

    def each_point(self) -> str:
        """What a point is."""
        return self.points or f"the mean of {self.episodes} episode{'s' * (self.episodes != 1)}"


@dataclass(frozen=True)
class Published:
    """The published curve. steps: (T,) env steps. returns: (S, T), NaN where the source has no point."""

    title: str
    agent: str
    seeds: tuple[int, ...]
    steps: tuple[int, ...]
    returns: tuple[tuple[float, ...], ...]

    def means(self) -> list[float]:
        """(T,) mean over the seeds that have the point; NaN where none has."""
        columns = (
            [value for value in column if not math.isnan(value)] for column in zip(*self.returns, strict=True)
        )
        return [sum(column) / len(column) if column else math.nan for column in columns]


def read_run(folder: Path) -> Run | None:
    """A training run's evaluations, from its eval.csv; None if it made none."""
    kept = record.read(folder)
    path = folder / "eval.csv"
    if kept["kind"] != "train" or not path.is_file():
        return None
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows:
        return None
    return Run(
        task=kept["task"],
        seed=kept["seed"],
        steps=tuple(int(float(row["step"])) * ACTION_REPEAT_OF_DMCONTROL for row in rows),
        returns=tuple(float(row["episode_reward"]) for row in rows),
        episodes=int(kept["config"].get("eval_episodes", 0)),
        code=code_of(kept),
        settings="+".join(preset["name"] for preset in kept["presets"]) or "default",
        state=kept["state"],
    )


def code_of(kept: Mapping[str, Any]) -> str:
    """What ran, as a reader should call it, of a run's record."""
    code = kept["upstream"]
    if code["upstream"] == "miniature":
        return MINIATURE
    which = f"release {code['release']}" if code.get("release") else (code["commit"] or "unknown")[:7]
    changes = " + local changes" if code["local_changes"] else ""
    # Records of runs before `verified` was kept say of local changes alone.
    official = code.get("verified", not code["local_changes"])
    kind = "official code" if official else "code that is not official,"
    return f"{kind} {which}, {len(code['patches'])} patches{changes}"


def published(task: str, name: str = REFERENCE) -> Published | None:
    """The authors' curve of the task, or None if the project has none."""
    from tdmpc2_lean import references

    reference = references.load(name)
    if task not in reference.tasks:
        return None
    steps, returns, seeds = reference.curve(task)
    return Published(
        reference.title,
        reference.agent,
        tuple(seeds),
        tuple(int(step) for step in steps),
        tuple(tuple(float(value) for value in row) for row in returns),
    )


def caption(runs: Sequence[Run], reference: Published | None) -> str:
    """What the figure is made of: code, settings, n and seeds of each side, and the unit of the step axis."""
    said = []
    for (code, settings), group in grouped(runs).items():
        n, seeds = len(group), ", ".join(str(run.seed) for run in group)
        single = "; a single seed is a hypothesis" if n == 1 else ""
        said.append(
            f"{code}, settings {settings}: n={n} (seed{'s' * (n > 1)} {seeds}), each point "
            f"{group[0].each_point()}{single}."
        )
        states = sorted({run.state for run in group} - {"finished"})
        if states:
            said.append(f"Not run to the end: {', '.join(states)}.")
    if reference is not None:
        seeds = ", ".join(map(str, reference.seeds))
        said.append(
            f"Published {reference.agent} ({reference.title}): n={len(reference.seeds)} (seeds {seeds}), "
            f"a point every {reference.steps[1] - reference.steps[0]:,} env steps."
        )
        if ends_before(runs, reference):
            said.append(
                f"The runs end before its second point, which is at {reference.steps[1]:,} env steps: "
                f"mean {reference.means()[1]:.0f}."
            )
    elif any(run.is_miniature for run in runs):
        said.append("No published curve is drawn: none is of the miniature.")
    else:
        said.append("The project has no published curve of this task.")
    said.append(runs[0].unit)
    return " ".join(said)


def ends_before(runs: Sequence[Run], reference: Published) -> bool:
    """Whether the published curve has but its first point where the runs are."""
    return max(max(run.steps) for run in runs) < reference.steps[1]


def grouped(runs: Sequence[Run]) -> dict[tuple[str, str], list[Run]]:
    """Runs of one code and settings belong together."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in sorted(runs, key=lambda run: str(run.seed)):
        groups.setdefault((run.code, run.settings), []).append(run)
    return groups


def draw(runs: Sequence[Run], path: Path) -> None:
    """Draw runs of one task, every seed a line of its own, and the published curve behind them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if len({run.task for run in runs}) != 1:
        raise UserError("a figure shows runs of one task.", "draw one figure a task")
    task, name = runs[0].task, runs[0].reference
    task = task.replace("_", "-") if name == REFERENCE else task
    reference = None if any(run.is_miniature for run in runs) else published(task, name)
    words = textwrap.fill(caption(runs, reference), 100)
    figure = Figure(figsize=(8, 4.4 + 0.17 * words.count("\n")), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    last = max(max(run.steps) for run in runs)
    if reference is not None:
        # A line to a point far outside the figure would look like a slow start that nobody measured.
        line = "none" if ends_before(runs, reference) else "-"
        for number, row in enumerate(reference.returns):
            label = f"published {reference.agent}, each seed" if number == 0 else None
            axes.plot(
                reference.steps, row, linestyle=line, color="0.7", linewidth=0.9, marker=".", label=label
            )
        label = f"published {reference.agent}, mean"
        axes.plot(
            reference.steps,
            reference.means(),
            linestyle=line,
            color="0.35",
            marker="d",
            markersize=3,
            label=label,
        )
    for number, ((code, settings), group) in enumerate(grouped(runs).items()):
        for place, run in enumerate(group):
            label = f"{code}, {settings} (n={len(group)})" if place == 0 else None
            axes.plot(run.steps, run.returns, color=f"C{number}", marker="o", markersize=4, label=label)
    axes.set_xlim(-0.02 * max(last, 1), 1.05 * max(last, 1))
    axes.set_ylim(bottom=min(0.0, *(value for run in runs for value in run.returns)))
    axes.set_xlabel("env steps")
    axes.set_ylabel("return of an episode")
    axes.set_title(task)
    axes.grid(alpha=0.3)
    axes.legend(loc="best", fontsize=8)
    figure.supxlabel(words, fontsize=7, x=0.01, ha="left")
    figure.savefig(path, dpi=150, metadata={"Description": caption(runs, reference)})


def draw_run(folder: Path, read: Callable[[Path], Run | None] = read_run) -> Path | None:
    """curve.png in a run's folder; None if there is nothing to draw. read: reads what is drawn of the run."""
    run = read(folder)
    if run is None:
        return None
    draw([run], folder / "curve.png")
    return folder / "curve.png"
