"""curve.png: runs' returns against the published curve of their task, with n and seeds in the caption.

`read_run` reads a run of either agent; `draw_run` is called when a run ends, `draw_together` when a sweep does. What
is drawn (`drawn_of`, `Published`) is numbers that a test can ask for; `panels` puts them on paper.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import chunks, curve, record
from tdmpc2_lean.runs.record import RunRecord
from tdmpc2_lean.upstreams.registry import UPSTREAMS

FILE = "curve.png"
MINIATURE = "the miniature (not TD-MPC2)"
# Of a run's overrides, those that the figure says otherwise: what, which seed, how far, where.
SAID_OTHERWISE = {"task", "seed", "steps", "run.steps", "exp_name", "logdir", "script"}


@dataclass(frozen=True)
class FigureRun:
    """What is drawn of a run.

    task: the published curves' name of it, where they have one. upstream: whose agent it is.
    steps: (n,) env steps at which the chunks end; for an evaluation, at which it was made.
    returns: (n,) mean returns. episodes: of an evaluation; 0 if its number is not known or varies.
    code: what was run, as a reader should call it. settings: its presets, its arm, the user's own overrides.
    chunk: env steps from a point to the next. repeat: env steps of an agent step.
    reference: the name of the published curves it may be compared with; empty if there are none.
    """

    task: str
    seed: int
    steps: tuple[int, ...]
    returns: tuple[float, ...]
    episodes: int
    code: str
    settings: tuple[str, ...]
    state: str
    upstream: str = "tdmpc2"
    chunk: int = 100_000
    repeat: int = 2
    reference: str = UPSTREAMS["tdmpc2"].reference

    @property
    def averaged(self) -> bool:
        return UPSTREAMS[self.upstream].averaged

    @property
    def places(self) -> tuple[float, ...]:
        """(n,) env steps at which the points stand."""
        return tuple(map(float, chunks.placed(self.steps, self.chunk, self.averaged)))

    def each_point(self) -> str:
        """What a point is."""
        if self.averaged:
            return f"the mean of the training episodes that ended in {self.chunk:,} env steps, at their middle"
        return f"the mean of {self.episodes} episode{'s' * (self.episodes != 1)}" if self.episodes else "an evaluation"


@dataclass(frozen=True)
class Published:
    """A published curve, as it is drawn beside runs. places: (T,) env steps. returns: (S, T), NaN where
    the source has no point."""

    title: str
    agent: str
    seeds: tuple[int, ...]
    places: tuple[float, ...]
    returns: tuple[tuple[float, ...], ...]

    def means(self) -> list[float]:
        """(T,) mean over the seeds that have the point; NaN where none has."""
        columns = ([value for value in column if not math.isnan(value)] for column in zip(*self.returns, strict=True))
        return [sum(column) / len(column) if column else math.nan for column in columns]

    def seen(self, upto: float) -> int:
        """How many of its points lie within a figure that ends there."""
        return sum(
            0 <= place <= upto and not math.isnan(mean) for place, mean in zip(self.places, self.means(), strict=True)
        )


# ------------------------------------------------------------------------------------------------------ reading


def read_run(folder: Path) -> FigureRun | None:
    """What is drawn of a training run of either agent; None if it is none, or has no point yet.

    The points are curve.jsonl's; of a run that was made before there was one, the evaluations in its record.
    UserError if its record cannot be read.
    """
    kept = record.read(folder)
    if kept.kind != "train":
        return None
    asked = kept.specification
    points = points_of(folder, kept)
    if not points:
        return None
    reference = UPSTREAMS[asked.upstream].reference
    numbers = {episodes for _, _, episodes in points}
    return FigureRun(
        task=published_name(asked.task, reference) or asked.task,
        seed=asked.seed,
        steps=tuple(step for step, _, _ in points),
        returns=tuple(value for _, value, _ in points),
        episodes=numbers.pop() if len(numbers) == 1 else 0,
        code=code_of(kept),
        settings=settings_of(kept),
        state=kept.state,
        upstream=asked.upstream,
        chunk=asked.chunk,
        repeat=asked.action_repeat,
        reference="" if is_miniature(kept) or asked.source != "dm_control" else reference,
    )


def points_of(folder: Path, kept: RunRecord) -> list[tuple[int, float, int]]:
    """(env steps, return, episodes) of each point, rising; of an env step that stands twice, the last line counts."""
    lines = curve.lines_of(folder / curve.FILE)
    if lines:
        # An evaluation before the first step ends no chunk, and stands in the record alone.
        first = next((one for one in kept.evaluations if one.step == 0), None)
        found = {} if first is None else {0: (first.episode_reward, first.episodes or 1)}
        found |= {line.env_steps: (line.value, line.episodes) for line in lines if line.episodes}
    else:
        repeat = kept.specification.action_repeat
        default = kept.settings.get("eval_episodes", 0)
        found = {
            one.step * repeat: (one.episode_reward, one.episodes or default)
            for one in kept.evaluations
            if one.step is not None
        }
    return [(step, value, int(n)) for step, (value, n) in sorted(found.items()) if value is not None]


def published_name(task: str, reference: str) -> str | None:
    """What published curves call a task, in whatever upstream's spelling it is given; None if they have none."""
    from tdmpc2_lean import references

    return {plain_spelling(name): name for name in references.load(reference).tasks}.get(plain_spelling(task))


def plain_spelling(task: str) -> str:
    """A task without what the upstreams spell differently."""
    return task.removeprefix("dmc_").replace("_", "-").replace("ball-in-cup-", "cup-")


def is_miniature(kept: RunRecord) -> bool:
    return kept.code.get("upstream") == "miniature"


def code_of(kept: RunRecord) -> str:
    """What ran, as a reader should call it: official only where the provenance says so."""
    if is_miniature(kept):
        return MINIATURE
    code = kept.code
    commit = code.get("commit")
    which = f"release {code['release']}" if code.get("release") else str(commit or "")[:7]
    number = len(code.get("patches") or ())
    patches = f"{number or 'no'} patch{'es' * (number != 1)}"
    agent = UPSTREAMS[kept.specification.upstream].title
    others = any(is_other_code(one.code, code) for one in kept.provenances.values())
    before = ", begun with other code" if others else ""
    if is_official(code, kept.specification.upstream):
        return f"official {agent} {which}, {patches}{before}"
    fork = "a fork" if not which else f"fork at {which}"
    changes = " + local changes" if code.get("local_changes") else ""
    return f"not official {agent} ({fork}{changes}), {patches}{before}"


def is_official(code: Mapping[str, Any], upstream: str) -> bool:
    """Whether a provenance says that the code was the authors' own, our recorded patches aside.

    Where it does not say whether it was verified, only the commit that this project pins is known to be.
    """
    if code.get("local_changes") or not code.get("commit"):
        return False
    return bool(code.get("verified", code["commit"] == UPSTREAMS[upstream].pin))


def is_other_code(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return any(one.get(key) != other.get(key) for key in ("commit", "tree", "local_changes", "patches", "patched_tree"))


def settings_of(kept: RunRecord) -> tuple[str, ...]:
    """The presets, the arm, and what the user set beyond them: ('smoke', 'arm strip', 'lr=0.001')."""
    asked = kept.specification
    preset: dict[str, Any] = {}
    for use in asked.presets:
        preset |= use.overrides
    own = {
        key: value
        for key, value in asked.overrides.items()
        if key not in SAID_OTHERWISE and not (key in preset and alike(preset[key], value))
    }
    arm = [] if asked.arm == "full" else [f"arm {asked.arm}"]
    return (asked.variant, *arm, *(f"{key}={written(value)}" for key, value in sorted(own.items())))


def alike(one: Any, other: Any) -> bool:
    """Whether two settings say the same: 0.001 and '1e-3'."""
    if one == other or str(one) == str(other):
        return True
    try:
        return float(one) == float(other)
    except (TypeError, ValueError):
        return False


def written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


# -------------------------------------------------------------------------------------- what stands beside the runs


def published(task: str, name: str, chunk: int, averaged: bool) -> Published | None:
    """A published curve of the task, or None if there is none of that task.

    chunk, averaged: of the runs; where their points are means over chunks, so are the published ones.
    """
    from tdmpc2_lean import references

    if not name:
        return None
    reference = references.load(name)
    if task not in reference.tasks:
        return None
    found = reference.curve(task)
    places, returns = found.steps, found.returns
    if averaged:
        # Finer chunks than the source's would leave gaps that nobody made.
        length = max(chunk, int(found.steps[1] - found.steps[0]))
        _, places, returns = chunks.binned(found, length, int(found.steps[-1]) + length - 1, averaged)
    return Published(
        reference.title,
        reference.agent,
        tuple(found.seeds),
        tuple(map(float, places)),
        tuple(tuple(map(float, row)) for row in returns),
    )


def beside(runs: Sequence[FigureRun], baselines: bool = False) -> list[Published]:
    """The published curves for runs of one task: their agent's own first; with baselines, those that came with it."""
    from tdmpc2_lean import references

    found = []
    for run in {run.reference: run for run in runs if run.reference}.values():
        others = [name for name in references.names() if name.startswith(f"{run.reference}_vs_")] if baselines else []
        for name in (run.reference, *others):
            one = published(run.task, name, run.chunk, run.averaged)
            found += [one] if one else []
    return found


def grouped(runs: Iterable[FigureRun]) -> dict[tuple[str, tuple[str, ...]], list[FigureRun]]:
    """Runs of one code and settings belong together."""
    groups: dict[tuple[str, tuple[str, ...]], list[FigureRun]] = {}
    for run in sorted(runs, key=lambda run: (run.code, run.settings, run.task, run.seed)):
        groups.setdefault((run.code, run.settings), []).append(run)
    return groups


def mean_of(runs: Sequence[FigureRun]) -> tuple[list[float], list[float]]:
    """(places, mean returns) of one task's runs, where all of them have a point."""
    tables = [dict(zip(run.places, run.returns, strict=True)) for run in runs]
    places = [place for place in sorted(tables[0]) if all(place in table for table in tables)]
    return places, [math.fsum(table[place] for table in tables) / len(tables) for place in places]


def caption(runs: Sequence[FigureRun], references: Sequence[Published], upto: float = math.inf) -> str:
    """What the figure is made of: code, settings, n and seeds of each side, and the unit of the step axis.

    upto: env steps at which the figure ends.
    """
    several = len({run.task for run in runs}) > 1
    said = []
    for (code, settings), group in grouped(runs).items():
        seeds = sorted({run.seed for run in group})
        tasks = len({run.task for run in group})
        n = max(sum(run.task == task for run in group) for task in {run.task for run in group})
        single = "; a single seed is a hypothesis" if n == 1 else ""
        on = f" on each of {tasks} tasks" if several and tasks > 1 else f" on {group[0].task}" if several else ""
        most = "up to " if several and n * tasks != len(group) else ""
        said.append(
            f"{code}, settings {', '.join(settings)}: {most}n={n}{on} (seed{'s' * (len(seeds) > 1)} "
            f"{', '.join(map(str, seeds))}), each point {group[0].each_point()}{single}."
        )
        states = sorted({run.state for run in group} - {"finished"})
        if states:
            said.append(f"Not run to the end: {', '.join(states)}.")
    for one in {reference.title: reference for reference in references}.values():
        said.append(
            f"Published {one.agent} ({one.title}): n={len(one.seeds)} (seeds {', '.join(map(str, one.seeds))})."
        )
        if not several and one.seen(upto) < 2 and len(one.places) > 1:
            later = one.places[one.seen(upto)]
            said.append(
                f"The runs end before its {'first' if one.seen(upto) == 0 else 'second'} point, which is at "
                f"{later:,.0f} env steps: mean {one.means()[one.seen(upto)]:.0f}."
            )
    if not references:
        if any(run.code == MINIATURE for run in runs):
            said.append("No published curve is drawn: none is of the miniature.")
        elif not several:
            said.append("The project has no published curve of this task.")
    repeats = " or ".join(str(repeat) for repeat in sorted({run.repeat for run in runs}))
    said.append(f"Steps are env steps, {repeats} per agent step.")
    text = " ".join(said)
    return text[0].upper() + text[1:]


# ------------------------------------------------------------------------------------------------------ drawing


def draw(runs: Sequence[FigureRun], path: Path, baselines: bool = False) -> None:
    """Draw runs of one task, every seed a line of its own, and the published curve behind them."""
    if len({run.task for run in runs}) != 1:
        raise UserError("a figure shows runs of one task.", "draw one figure a task")
    draw_all(runs, path, baselines)


def draw_run(folder: Path, baselines: bool = False) -> Path | None:
    """curve.png in a run's folder; None if there is nothing to draw."""
    run = read_run(folder)
    if run is None:
        return None
    draw([run], folder / FILE, baselines)
    return folder / FILE


def draw_together(folders: Iterable[Path], path: Path, baselines: bool = False) -> Path | None:
    """One figure of a sweep's runs, a panel a task; None if none of the folders has anything to draw.

    In a panel, the runs of one code and settings have one colour: a thin line a seed, and a thick one for their mean.
    """
    runs = [run for folder in folders if (run := read_run(folder)) is not None]
    if not runs:
        return None
    draw_all(runs, path, baselines)
    return path


def draw_all(runs: Sequence[FigureRun], path: Path, baselines: bool) -> None:
    from tdmpc2_lean.runs import panels

    tasks = sorted({run.task for run in runs})
    of = {task: [run for run in runs if run.task == task] for task in tasks}
    panels.save([panels.panel(task, some, beside(some, baselines)) for task, some in of.items()], path)
