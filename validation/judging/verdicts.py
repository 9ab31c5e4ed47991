"""The verdict on runs, by what `criteria` says that they must reach.

Pure functions on arrays; nothing here touches the disk except to load the committed references.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tdmpc2_lean import references
from tdmpc2_lean.references import Reference
from tdmpc2_lean.validation.judging.criteria import (
    EXIT_CODES,
    FAIL,
    INCOMPLETE,
    LEAST_SEEDS,
    MARGIN,
    PASS,
    ROUNDING,
    UNJUDGED,
    Criterion,
)
from tdmpc2_lean.validation.judging.window import Window


@dataclass(frozen=True)
class ScoredRun:
    """One seed's run on one task. The order of the points is of no account.

    task, seed: which run.
    steps: (T,) env steps of the points.
    values: (T,) returns.
    episodes: (T,) episodes that each point averages; needed where a criterion weights by them.
    reached: env steps that the run got to; by default its last point's.
    off_protocol: in what the run deviates from its protocol (keys); such a run is never judged.
    unsound: what in its record or curve no run can have written; its task is then not judged.
    name: where it lies, for the reader.
    """

    task: str
    seed: int
    steps: Sequence[int] | np.ndarray
    values: Sequence[float] | np.ndarray
    episodes: Sequence[int] | np.ndarray | None = None
    reached: int | None = None
    off_protocol: tuple[str, ...] = ()
    unsound: tuple[str, ...] = ()
    name: str = ""

    @property
    def counts(self) -> bool:
        """Whether its numbers may stand beside others: on protocol, and sound."""
        return not self.off_protocol and not self.unsound

    @property
    def end(self) -> int:
        """Env steps that the run got to; 0 for a run that has not begun."""
        return self.reached if self.reached is not None else max((int(step) for step in self.steps), default=0)


@dataclass(frozen=True)
class TaskResult:
    """One task at one window.

    ours: seed -> score.               reference: seed -> score.
    bar: the reference's lowest seed - 50; one of 0 or less cannot be missed (`vacuous`).
    state: PASS, FAIL, or UNJUDGED with `why`.
    """

    task: str
    window: Window
    ours: Mapping[int, float]
    reference: Mapping[int, float]
    bar: float
    state: str
    why: str = ""

    @property
    def mean(self) -> float:
        """Our mean over seeds; NaN without any."""
        return _mean(self.ours.values())

    @property
    def reference_mean(self) -> float:
        return _mean(self.reference.values())

    @property
    def n(self) -> int:
        return len(self.ours)

    @property
    def vacuous(self) -> bool:
        """True if a return of 0 meets the bar, so that this task cannot fail."""
        return self.bar <= 0


@dataclass(frozen=True)
class WindowResult:
    """All tasks at one window. The four aggregates are over the judged tasks, NaN without any.

    passed, needed: how many tasks pass, and how many must.
    why: what failed, or what is missing; empty for PASS.
    """

    name: str
    tasks: tuple[TaskResult, ...]
    mean: float
    median: float
    reference_mean: float
    reference_median: float
    passed: int
    needed: int
    state: str
    why: tuple[str, ...] = ()

    @property
    def judged(self) -> int:
        return sum(result.state != UNJUDGED for result in self.tasks)


@dataclass(frozen=True)
class Verdict:
    """The answer: PASS, FAIL or INCOMPLETE, with the windows that led to it.

    off_protocol: the runs that were not judged for deviating from their protocol.
    other_tasks: the runs of tasks that the criterion does not have.
    """

    criterion: Criterion
    windows: tuple[WindowResult, ...]
    state: str
    off_protocol: tuple[ScoredRun, ...] = ()
    other_tasks: tuple[ScoredRun, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 PASS, 1 FAIL, 2 INCOMPLETE."""
        return EXIT_CODES[self.state]


def score(
    steps: Sequence[int] | np.ndarray,
    values: Sequence[float] | np.ndarray,
    window: Window,
    weights: Sequence[float] | np.ndarray | None = None,
) -> float:
    """The average over a window of one seed's points, in return units; NaN without a point in the window.

    steps: (T,) env steps.      values: (T,) returns.
    weights: (T,) the points' weights, such as their episodes; by default all the same. A point of weight 0 is
        left out, whatever its value.
    The result does not depend on the order of the points, to the last bit.
    """
    values = np.asarray(values, dtype=np.float64)
    weights = np.ones(values.shape) if weights is None else np.asarray(weights, dtype=np.float64)
    kept = window.holds(np.asarray(steps)) & (weights > 0)
    if not kept.any():
        return math.nan
    return math.fsum(values[kept] * weights[kept]) / math.fsum(weights[kept])


def reference_scores(name: str | Reference, task: str, window: Window) -> dict[int, float]:
    """Seed -> score of a reference's curve at a window, without the seeds that have no point in it.

    All points weigh the same: references do not say how many episodes a point holds.
    """
    curve = (references.load(name) if isinstance(name, str) else name).curve(task)
    scores = {}
    for seed in curve.seeds:
        steps, values = curve.of_seed(seed)
        scores[seed] = score(steps, values, window)
    return {seed: value for seed, value in scores.items() if not math.isnan(value)}


def judge(criterion: Criterion, runs: Iterable[ScoredRun], reference: Reference | None = None) -> Verdict:
    """The verdict on the runs. Their order, their names and the order of their points never change it.

    reference: another than the criterion's committed one, for tests.
    """
    reference = reference or references.load(criterion.reference)
    ordered = sorted(runs, key=lambda run: (run.task, run.seed, run.name))
    other_tasks = tuple(run for run in ordered if run.task not in criterion.tasks)
    known = [run for run in ordered if run.task in criterion.tasks]
    judged: dict[str, list[ScoredRun]] = {task: [] for task in criterion.tasks}
    for run in known:
        if not run.off_protocol:
            judged[run.task].append(run)
    names = [window.name for window in criterion.windows(criterion.tasks[0])]
    left_out = {task: seeds_left_out(criterion, task, known) for task in criterion.tasks}
    results = []
    for index, name in enumerate(names):
        of_tasks = [
            judge_task(criterion, task, criterion.windows(task)[index], judged[task], reference, left_out[task])
            for task in criterion.tasks
        ]
        results.append(judge_window(name, of_tasks, criterion.needed))
    states = {result.state for result in results}
    state = next(state for state in (FAIL, INCOMPLETE, PASS) if state in states)
    return Verdict(criterion, tuple(results), state, tuple(r for r in known if r.off_protocol), other_tasks)


def seeds_left_out(criterion: Criterion, task: str, runs: Sequence[ScoredRun]) -> list[str]:
    """The protocol's seeds that were run on the task, and off protocol only: why the others may not speak for them."""
    of_task = [run for run in runs if run.task == task]
    sound = {run.seed for run in of_task if not run.off_protocol}
    return [
        f"seed {run.seed} was run off protocol ({run.off_protocol[0]})"
        for run in of_task
        if run.off_protocol and run.seed in criterion.seeds and run.seed not in sound
    ]


def judge_task(
    criterion: Criterion,
    task: str,
    window: Window,
    runs: Sequence[ScoredRun],
    reference: Reference,
    left_out: Sequence[str] = (),
) -> TaskResult:
    """One task at one window, from all its runs that are on protocol.

    left_out: why seeds that were run are not among them; with any, the task is not judged.

    UNJUDGED, with the reason, unless the runs' seeds are the protocol's or a prefix of them of at least 3,
    each once, and every run has reached the window's end with a finite value at each of the window's points
    (NaN may stand only where a point holds no episode).
    A seed that has begun and not arrived counts: without it, the finished ones would speak for it.
    """
    theirs = reference_scores(reference, task, window)
    bar = min(theirs.values()) - MARGIN
    ours, faults = {}, []
    for run in runs:
        value, fault = seed_score(criterion, run, window)
        if fault:
            faults.append(f"seed {run.seed} {fault}")
        else:
            ours[run.seed] = value
    faults += [*_faults_of_seeds(criterion, runs), *left_out]
    result = TaskResult(task, window, ours, theirs, bar, UNJUDGED, "; ".join(faults))
    if faults:
        return result
    state = PASS if reaches(result.mean, bar) else FAIL
    why = "" if state == PASS else f"{result.mean:.1f} is below {bar:.1f}"
    return TaskResult(task, window, ours, theirs, bar, state, why)


def seed_score(criterion: Criterion, run: ScoredRun, window: Window) -> tuple[float, str]:
    """(one run's score at a window, why it has none or empty).

    A point given twice with one value is one point (a run that was resumed may repeat itself); with two
    values it is a fault.
    """
    if run.unsound:
        more = f" and {len(run.unsound) - 1} more" if len(run.unsound) > 1 else ""
        return math.nan, f"is not sound: {run.unsound[0]}{more}"
    if run.end < window.upto:
        return math.nan, f"is at {run.end} of {window.upto} env steps"
    if criterion.by_episodes and run.episodes is None:
        return math.nan, "does not say how many episodes its points hold"
    episodes = run.episodes if criterion.by_episodes else [1] * len(run.steps)
    if not len(run.steps) == len(run.values) == len(episodes):
        return math.nan, "has points without a value"
    points: dict[int, set[tuple[float, float]]] = {}
    for step, value, count in zip(run.steps, run.values, episodes, strict=True):
        if window.above < step <= window.upto:
            points.setdefault(int(step), set()).add((float(value), float(count)))
    for step, said in sorted(points.items()):
        if any(not 0 <= count < math.inf for _, count in said):
            return math.nan, f"has no number of episodes at {step}"
        if any(count and not math.isfinite(value) for value, count in said):
            return math.nan, f"has no finite value at {step}"
        if len(said) > 1:
            return math.nan, f"has {len(said)} different values at {step}"
    filled = {-(-step // criterion.every) for step in points}
    expected = (window.upto - window.above) // criterion.every
    if len(filled) < expected:
        return math.nan, f"has {len(filled)} of {expected} points in {window}"
    steps = list(points)
    values, weights = zip(*(next(iter(points[step])) for step in steps), strict=True)
    value = score(steps, values, window, weights)
    return value, "has no episode in the window" if math.isnan(value) else ""


def _faults_of_seeds(criterion: Criterion, runs: Sequence[ScoredRun]) -> list[str]:
    """Why the runs' seeds may not stand for the protocol's; empty if they may."""
    seeds = [run.seed for run in runs]
    faults = []
    for seed in sorted({seed for seed in seeds if seeds.count(seed) > 1}):
        folders = ", ".join(sorted(run.name or "unnamed" for run in runs if run.seed == seed))
        faults.append(f"seed {seed} stands in {seeds.count(seed)} runs: {folders}")
    present = set(seeds)
    if len(present) < LEAST_SEEDS:
        faults.append(f"{len(present)} seed{'s' * (len(present) != 1)} of at least {LEAST_SEEDS}")
    if present != set(criterion.seeds[: len(present)]):
        listed = ", ".join(map(str, sorted(present)))
        faults.append(f"seeds {listed} are not the first of {', '.join(map(str, criterion.seeds))}")
    return faults


def judge_window(name: str, results: Sequence[TaskResult], needed: int) -> WindowResult:
    """All tasks at one window: INCOMPLETE with one unjudged, else FAIL if one of the conditions fails."""
    judged = [result for result in results if result.state != UNJUDGED]
    ours, theirs = [r.mean for r in judged], [r.reference_mean for r in judged]
    mean, median, reference_mean, reference_median = (
        _mean(ours),
        _median(ours),
        _mean(theirs),
        _median(theirs),
    )
    passed = sum(result.state == PASS for result in results)
    if len(judged) < len(results):
        state = INCOMPLETE
        why = [f"{len(results) - len(judged)} of {len(results)} tasks are not judged"]
    else:
        why = []
        if passed < needed:
            why.append(f"{passed} of {len(results)} tasks pass, {needed} are needed")
        if not reaches(mean, reference_mean - MARGIN):
            why.append(f"the mean {mean:.1f} is below {reference_mean - MARGIN:.1f}")
        if not reaches(median, reference_median - MARGIN):
            why.append(f"the median {median:.1f} is below {reference_median - MARGIN:.1f}")
        state = FAIL if why else PASS
    return WindowResult(
        name,
        tuple(results),
        mean,
        median,
        reference_mean,
        reference_median,
        passed,
        needed,
        state,
        tuple(why),
    )


def reaches(value: float, bar: float) -> bool:
    """value >= bar, where a difference of a millionth of a return unit is rounding. NaN reaches nothing."""
    return value >= bar - ROUNDING


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return math.fsum(values) / len(values) if values else math.nan


def _median(values: Sequence[float]) -> float:
    return float(np.median(values)) if len(values) else math.nan
