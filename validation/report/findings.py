"""What a folder of runs says: verdicts, what was not judged and why, comparisons. Pure functions on read data.

`contents.py` lays the findings out; `reading.py` reads the folder. What a run must reach is for `criteria.py` to say.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tdmpc2_lean import references
from tdmpc2_lean.validation.judging import criteria, intervals, protocols
from tdmpc2_lean.validation.judging.criteria import FAIL, INCOMPLETE, PASS, Criterion, Run, Verdict, Window
from tdmpc2_lean.validation.report import provenance
from tdmpc2_lean.validation.report.deviations import Departure, departures
from tdmpc2_lean.validation.report.reading import Complaint, Folder

DEFAULT = "default"


@dataclass(frozen=True)
class Subject:
    """A run as the report takes it. All of it comes from what the folder holds, nothing from where it lies.

    criterion: the name of what judges it, or "" where nothing does.      variant: `default`, or its presets' names.
    departures: in what it departs from its protocol; judged only without any.
    """

    folder: Folder
    criterion: str
    variant: str
    run: Run
    departures: tuple[Departure, ...]

    @property
    def label(self) -> str:
        """For the reader: what ran, with which seed."""
        variant = "" if self.variant == DEFAULT else f" ({self.variant})"
        return f"{self.run.task or 'unknown task'}{variant} seed {self.run.seed}"


@dataclass(frozen=True)
class Aggregate:
    """Over the tasks, at each chunk's end: our and the reference's mean and median of the tasks' seed means. All (T,).

    At each point both are over the same tasks: those of which a run of ours has got there; `tasks` counts them.
    """

    steps: np.ndarray
    mean: np.ndarray
    median: np.ndarray
    reference_mean: np.ndarray
    reference_median: np.ndarray
    tasks: np.ndarray


@dataclass(frozen=True)
class Judgement:
    """The verdict on all runs of one criterion and one variant, and what is shown beside it.

    rows: intervals.compare's, each over the tasks of which ours have a score.
    default: the default's runs, where a variant has them beside it.
    against_default: the comparison with them, a row a window.
    """

    criterion: Criterion
    variant: str
    verdict: Verdict
    subjects: tuple[Subject, ...]
    rows: tuple[intervals.Row, ...]
    aggregate: Aggregate
    default: tuple[Subject, ...] = ()
    against_default: tuple[intervals.Row, ...] = ()

    @property
    def on_protocol(self) -> list[Subject]:
        return [subject for subject in self.subjects if not subject.departures]


@dataclass(frozen=True)
class Report:
    """All findings.

    judgements: a criterion's default first, then its variants.
    deciding: those that the state comes from: of each criterion the default, a variant only where nothing ran by
        the default.
    """

    judgements: tuple[Judgement, ...]
    deciding: tuple[Judgement, ...]
    state: str
    off_protocol: tuple[Subject, ...]
    subjects: tuple[Subject, ...]
    complaints: tuple[Complaint, ...]
    origins: tuple[provenance.Origin, ...]
    flags: tuple[provenance.Flag, ...]

    @property
    def exit_code(self) -> int:
        """0 PASS, 1 FAIL, 2 INCOMPLETE."""
        return criteria.EXIT_CODES[self.state]


def report(
    folders: Iterable[Folder],
    known: Mapping[str, Criterion] | None = None,
    **options: int | float,
) -> Report:
    """The findings on the runs.

    known: the criteria by name; by default all there are.
    options: of the bootstrap (`resamples`, `confidence`, `seed`).
    """
    known = criteria.criteria() if known is None else known
    folders = sorted(folders, key=lambda folder: folder.name)
    subjects = sorted(subjects_of(folders, known), key=_order)
    groups: dict[tuple[str, str], list[Subject]] = {}
    for one in subjects:
        if one.criterion:
            groups.setdefault((one.criterion, one.variant), []).append(one)
    names = sorted(groups, key=lambda key: (list(known).index(key[0]), key[1] != DEFAULT, key[1]))
    judgements = [_judgement(known[name], variant, groups, options) for name, variant in names]
    deciding = _deciding(judgements)
    states = {judgement.verdict.state for judgement in deciding}
    origins, flags = provenance.origins([(one.label, one.folder) for one in subjects])
    return Report(
        tuple(judgements),
        tuple(deciding),
        next((state for state in (FAIL, INCOMPLETE, PASS) if state in states), INCOMPLETE),
        tuple(one for one in subjects if one.departures),
        tuple(subjects),
        tuple(complaint for folder in folders for complaint in folder.complaints),
        origins,
        flags,
    )


def subjects_of(folders: Sequence[Folder], known: Mapping[str, Criterion]) -> list[Subject]:
    """The folders as the runs that their run.json say they are, held against the registry."""
    found = [_subject(folder, known) for folder in folders]
    # Presets of one name that set different things are different variants.
    sets: dict[tuple[str, str], set[str]] = {}
    for one in found:
        sets.setdefault((one.criterion, one.variant), set()).add(lean_settings(one.folder.record))
    renamed = []
    for one in found:
        lean = lean_settings(one.folder.record)
        if len(sets[one.criterion, one.variant]) > 1 or (one.variant == DEFAULT and lean):
            one = dataclasses.replace(one, variant=f"{one.variant} ({lean})" if lean else one.variant)
        renamed.append(one)
    return renamed


def _subject(folder: Folder, known: Mapping[str, Criterion]) -> Subject:
    record = folder.record
    found = departures(record)
    agent, physics, task, seed = (record.get(key) for key in ("agent", "physics", "task", "seed"))
    name = f"{agent}-{physics}"
    listed = name in known and task in known[name].tasks
    if not listed and not found:
        found = (Departure("task", "one of a criterion's", f"{task} of {name}"),)
    unregistered = any(departure.key in ("protocol", "run.json", protocols.SMOKE) for departure in found)
    run = Run(
        task=task if isinstance(task, str) else "",
        seed=seed if type(seed) is int else -1,
        steps=[point.env_steps for point in folder.points],
        values=[point.value for point in folder.points],
        episodes=[point.episodes for point in folder.points],
        off_protocol=tuple(departure.key for departure in found),
        name=folder.name,
    )
    return Subject(folder, name if listed and not unregistered else "", variant(record), run, found)


def variant(record: Mapping[str, Any]) -> str:
    """`default`, or the names of the presets that a run was made under, joined by `+`."""
    presets = record.get("presets") or []
    presets = presets if isinstance(presets, list) else [presets]
    names = [str(preset.get("name") if isinstance(preset, Mapping) else preset) for preset in presets]
    return "+".join(names) or DEFAULT


def lean_settings(record: Mapping[str, Any]) -> str:
    """What a run's presets set, as a text; empty if nothing."""
    found = record.get("preset_settings") if record.get("presets") else None
    if not isinstance(found, Mapping):
        return ""
    return ", ".join(f"{key}={found[key]}" for key in sorted(found))


def _order(one: Subject) -> tuple:
    return one.criterion, one.variant != DEFAULT, one.variant, one.run.task, one.run.seed, one.folder.name


def _deciding(judgements: Sequence[Judgement]) -> list[Judgement]:
    """Of each criterion: the default's, unless only variants have a run on protocol."""
    found = []
    for name in dict.fromkeys(judgement.criterion.name for judgement in judgements):
        of = [judgement for judgement in judgements if judgement.criterion.name == name]
        ran = [judgement for judgement in of if judgement.on_protocol] or of
        default = [judgement for judgement in ran if judgement.variant == DEFAULT]
        found += default or ran
    return found


def _judgement(
    criterion: Criterion,
    variant: str,
    groups: Mapping[tuple[str, str], Sequence[Subject]],
    options: Mapping[str, int | float],
) -> Judgement:
    subjects = groups[criterion.name, variant]
    runs = [one.run for one in subjects]
    beside: list[Subject] = []
    if variant != DEFAULT:
        beside = [one for one in groups.get((criterion.name, DEFAULT), []) if not one.departures]
    return Judgement(
        criterion,
        variant,
        criteria.judge(criterion, runs),
        tuple(subjects),
        tuple(compared(criterion, runs, options)),
        aggregate(criterion, [run for run in runs if not run.off_protocol]),
        tuple(beside),
        tuple(compared_with_default(criterion, runs, [one.run for one in beside], options) if beside else ()),
    )


def compared(criterion: Criterion, runs: Sequence[Run], options: Mapping[str, int | float]) -> list[intervals.Row]:
    """At each window ours, the reference and the baselines, all over the tasks of which ours have a score."""
    runs = [run for run in runs if not run.off_protocol]
    rows: list[intervals.Row] = []
    done: dict[tuple[str, ...], list[intervals.Row]] = {}
    for index, window in enumerate(criterion.windows(criterion.tasks[0])):
        scored = intervals.scores_of_runs(criterion, runs, index)
        tasks = tuple(task for task in criterion.tasks if task in scored)
        if not tasks:
            continue
        if tasks not in done:
            done[tasks] = intervals.compare(dataclasses.replace(criterion, tasks=tasks), runs, **options)
        rows += [row for row in done[tasks] if row.window == window.name]
    return rows


def compared_with_default(
    criterion: Criterion, runs: Sequence[Run], beside: Sequence[Run], options: Mapping[str, int | float]
) -> list[intervals.Row]:
    """At each window the default's runs, over the tasks that both have a score of, and ours against them."""
    rows = []
    for index, window in enumerate(criterion.windows(criterion.tasks[0])):
        ours, theirs = (
            intervals.scores_of_runs(criterion, [run for run in some if not run.off_protocol], index)
            for some in (runs, beside)
        )
        theirs = {task: scores for task, scores in theirs.items() if task in ours}
        if theirs:
            better = intervals.probability_of_improvement(ours, theirs, **options)
            rows.append(intervals.Row(DEFAULT, window.name, intervals.interquartile_mean(theirs, **options), better))
    return rows


def aggregate(criterion: Criterion, runs: Sequence[Run]) -> Aggregate:
    """The aggregate curve, up to the budget that all tasks have."""
    reference = references.load(criterion.reference)
    curves = {task: reference.curve(task) for task in {run.task for run in runs}}
    end = min(criterion.budget(task) for task in criterion.tasks)
    ours: dict[int, dict[str, list[float]]] = {}
    for run in runs:
        for step, value in dict(zip(run.steps, run.values, strict=True)).items():
            if step <= end and math.isfinite(value):
                ours.setdefault(int(step), {}).setdefault(run.task, []).append(float(value))
    rows = []
    for step in sorted(ours):
        chunk = Window("", step - criterion.every, step)
        pairs = []
        for task, values in sorted(ours[step].items()):
            theirs = _seed_mean(curves[task], chunk)
            if not math.isnan(theirs):
                pairs.append((math.fsum(values) / len(values), theirs))
        if pairs:
            mean, reference_mean = np.mean(pairs, axis=0)
            median, reference_median = np.median(pairs, axis=0)
            rows.append((step, mean, median, reference_mean, reference_median, len(pairs)))
    return Aggregate(*np.array(rows, dtype=np.float64).reshape(-1, 6).T)


def _seed_mean(curve: references.Curve, window: Window) -> float:
    """The mean over a reference's seeds of their means in a window, of the seeds that have a point there."""
    inside = curve.returns[:, window.holds(curve.steps)]
    some = ~np.isnan(inside).all(axis=1)
    return float(np.nanmean(inside[some], axis=1).mean()) if some.any() else math.nan
