"""What a folder of runs says: verdicts, what was not judged and why, comparisons. Pure functions on read data.

`reading` reads the folder, `subjects` says which runs count, `criteria` what they must reach; the report lays the
findings out.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tdmpc2_lean import references
from tdmpc2_lean.validation.judging import criteria, intervals, provenance, verdicts
from tdmpc2_lean.validation.judging.criteria import FAIL, INCOMPLETE, PASS, Criterion
from tdmpc2_lean.validation.judging.official_code import ExpectedCode
from tdmpc2_lean.validation.judging.reading import Complaint, FolderOfRuns
from tdmpc2_lean.validation.judging.subjects import Subject, not_checkable, subjects_of
from tdmpc2_lean.validation.judging.variants import DEFAULT, Change
from tdmpc2_lean.validation.judging.verdicts import ScoredRun, Verdict
from tdmpc2_lean.validation.judging.window import Window


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
    changed: what the variant changed of the protocol's settings; empty for the default.
    default: the default's runs, where a variant has them beside it.
    against_default: the comparison with them, a row a window.
    """

    criterion: Criterion
    variant: str
    verdict: Verdict
    subjects: tuple[Subject, ...]
    rows: tuple[intervals.Row, ...]
    aggregate: Aggregate
    changed: tuple[Change, ...] = ()
    default: tuple[Subject, ...] = ()
    against_default: tuple[intervals.Row, ...] = ()

    @property
    def on_protocol(self) -> list[Subject]:
        return [subject for subject in self.subjects if not subject.deviations]


@dataclass(frozen=True)
class Report:
    """All findings.

    judgements: a criterion's default first, then its variants.
    deciding: those that the state comes from: of each criterion that decides the default, a variant only where
        nothing ran by the default.
    unread: folders with a curve whose record cannot be read. With any there is no PASS: which runs they are, and what
        they would change, nobody knows.
    """

    judgements: tuple[Judgement, ...]
    deciding: tuple[Judgement, ...]
    state: str
    off_protocol: tuple[Subject, ...]
    subjects: tuple[Subject, ...]
    complaints: tuple[Complaint, ...]
    origins: tuple[provenance.Origin, ...]
    flags: tuple[provenance.Flag, ...]
    unread: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 PASS, 1 FAIL, 2 INCOMPLETE."""
        return criteria.EXIT_CODES[self.state]


def report(
    runs: FolderOfRuns,
    known: Mapping[str, Criterion] | None = None,
    code: Mapping[str, ExpectedCode] | None = None,
    **options: int | float,
) -> Report:
    """The findings on the runs.

    known: the criteria by name; by default all there are.
    code: agent -> what its runs have to be made with; by default the package's own.
    options: of the bootstrap (`resamples`, `confidence`, `seed`).
    """
    known = criteria.criteria() if known is None else known
    folders = sorted(runs.folders, key=lambda folder: folder.name)
    subjects = sorted(subjects_of(folders, known, code), key=_order)
    groups: dict[tuple[str, str], list[Subject]] = {}
    for one in subjects:
        for name in one.criteria:
            groups.setdefault((name, one.variant), []).append(one)
    names = sorted(groups, key=lambda key: (list(known).index(key[0]), key[1] != DEFAULT, key[1]))
    judgements = [_judgement(known[name], variant, groups, options) for name, variant in names]
    deciding = _deciding(judgements)
    states = {judgement.verdict.state for judgement in deciding}
    unread = tuple(folder.name for folder in folders if folder.record is None and folder.points)
    if unread:
        states.add(INCOMPLETE)
    origins, flags = provenance.origins([(one.label, one.folder) for one in subjects])
    return Report(
        tuple(judgements),
        tuple(deciding),
        next((state for state in (FAIL, INCOMPLETE, PASS) if state in states), INCOMPLETE),
        tuple(one for one in subjects if one.deviations),
        tuple(subjects),
        (*runs.complaints, *_complaints(subjects)),
        origins,
        tuple(sorted((*flags, *not_checkable(subjects, code)), key=lambda flag: flag.what)),
        unread,
    )


def _complaints(subjects: Iterable[Subject]) -> list[Complaint]:
    """What is wrong in the runs' files, in the files' order."""
    found = []
    for one in sorted(subjects, key=lambda one: one.folder.name):
        of_curve = [Complaint(f"{one.folder.name}/curve.jsonl", fault.line, fault.what) for fault in one.faults]
        found += sorted([*one.folder.complaints, *of_curve], key=lambda fault: (fault.file, fault.line))
    return found


def _order(one: Subject) -> tuple:
    return one.criteria, one.variant != DEFAULT, one.variant, one.run.task, one.run.seed, one.folder.name


def _deciding(judgements: Sequence[Judgement]) -> list[Judgement]:
    """Of each criterion: the default's, unless only variants have a run on protocol.

    Criteria that are shown beside others decide where there are no others.
    """
    found = []
    some = [judgement for judgement in judgements if judgement.criterion.decides] or judgements
    for name in dict.fromkeys(judgement.criterion.name for judgement in some):
        of = [judgement for judgement in some if judgement.criterion.name == name]
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
        beside = [one for one in groups.get((criterion.name, DEFAULT), []) if not one.deviations]
    changed = {change.setting: change for one in subjects if not one.deviations for change in one.changed}
    return Judgement(
        criterion,
        variant,
        verdicts.judge(criterion, runs),
        tuple(subjects),
        tuple(compared(criterion, runs, options)),
        aggregate(criterion, [run for run in runs if run.counts]),
        tuple(changed[name] for name in sorted(changed)),
        tuple(beside),
        tuple(compared_with_default(criterion, runs, [one.run for one in beside], options) if beside else ()),
    )


def compared(
    criterion: Criterion, runs: Sequence[ScoredRun], options: Mapping[str, int | float]
) -> list[intervals.Row]:
    """At each window ours, the reference and the baselines, all over the tasks of which ours have a score."""
    runs = [run for run in runs if run.counts]
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
    criterion: Criterion, runs: Sequence[ScoredRun], beside: Sequence[ScoredRun], options: Mapping[str, int | float]
) -> list[intervals.Row]:
    """At each window the default's runs, over the tasks that both have a score of, and ours against them."""
    rows = []
    for index, window in enumerate(criterion.windows(criterion.tasks[0])):
        ours, theirs = (
            intervals.scores_of_runs(criterion, [run for run in some if run.counts], index)
            for some in (runs, beside)
        )
        theirs = {task: scores for task, scores in theirs.items() if task in ours}
        if theirs:
            better = intervals.probability_of_improvement(ours, theirs, **options)
            rows.append(intervals.Row(DEFAULT, window.name, intervals.interquartile_mean(theirs, **options), better))
    return rows


def aggregate(criterion: Criterion, runs: Sequence[ScoredRun]) -> Aggregate:
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
