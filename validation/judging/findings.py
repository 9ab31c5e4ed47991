"""What a folder of runs says: verdicts, what was not judged and why, comparisons. Pure functions on read data.

`reading` reads the folder, `deviations` and `soundness` say which runs count, `criteria` what they must reach; the
report lays the findings out.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tdmpc2_lean import references
from tdmpc2_lean.validation.judging import (
    criteria,
    intervals,
    official_code,
    protocols,
    provenance,
    soundness,
    variants,
)
from tdmpc2_lean.validation.judging import deviations as deviating
from tdmpc2_lean.validation.judging.criteria import FAIL, INCOMPLETE, PASS, Criterion, ScoredRun, Verdict, Window
from tdmpc2_lean.validation.judging.deviations import Deviation
from tdmpc2_lean.validation.judging.official_code import ExpectedCode
from tdmpc2_lean.validation.judging.reading import Complaint, Folder, FolderOfRuns
from tdmpc2_lean.validation.judging.soundness import CurveFault
from tdmpc2_lean.validation.judging.variants import DEFAULT, Change, Variant


@dataclass(frozen=True)
class Subject:
    """A run as it is judged and reported. All of it comes from what the folder holds, nothing from where it lies.

    criteria: the names of those that judge it; empty where nothing does.
    variant: `default`, or its presets' names.      changed: what the variant changed of its protocol's settings.
    deviations: in what it deviates from its protocol; judged only without any.
    faults: what in its curve no run can have written; its task is judged only without any.
    """

    folder: Folder
    criteria: tuple[str, ...]
    variant: str
    changed: tuple[Change, ...]
    run: ScoredRun
    deviations: tuple[Deviation, ...]
    faults: tuple[CurveFault, ...] = ()

    @property
    def label(self) -> str:
        """For the reader: what ran, with which seed; whose agent, where no criterion's task tells."""
        record = self.folder.record
        agent = f"{record.specification.upstream} " if record is not None and not self.criteria else ""
        variant = "" if self.variant == DEFAULT else f" ({self.variant})"
        return f"{agent}{self.run.task or 'unknown task'}{variant} seed {self.run.seed}"

    @property
    def protocol(self) -> str:
        """The protocol that the run says it is of; empty if it names none."""
        record = self.folder.record
        return deviating.shown(record.specification.protocol or "") if record is not None else ""

    @property
    def state(self) -> str:
        """What the record says of how far the run got; empty if it cannot be read."""
        return self.folder.record.state if self.folder.record is not None else ""

    @property
    def devices(self) -> list[str]:
        """The devices that it was made on, for the reader."""
        return provenance.devices(self.folder.record)


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
        tuple(sorted((*flags, *_not_checkable(subjects, code)), key=lambda flag: flag.what)),
        unread,
    )


def _complaints(subjects: Iterable[Subject]) -> list[Complaint]:
    """What is wrong in the runs' files, in the files' order."""
    found = []
    for one in sorted(subjects, key=lambda one: one.folder.name):
        of_curve = [Complaint(f"{one.folder.name}/curve.jsonl", fault.line, fault.what) for fault in one.faults]
        found += sorted([*one.folder.complaints, *of_curve], key=lambda fault: (fault.file, fault.line))
    return found


def subjects_of(
    folders: Sequence[Folder], known: Mapping[str, Criterion], code: Mapping[str, ExpectedCode] | None = None
) -> list[Subject]:
    """The folders as the runs that their run.json say they are, held against the registry and against one another."""
    found = [_subject(folder, known, code) for folder in folders]
    return _with_copies(_with_other_trees(found, code))


def _expected_code(agent: str, code: Mapping[str, ExpectedCode] | None) -> ExpectedCode:
    return code[agent] if code is not None and agent in code else official_code.expected(agent)


def _subject(folder: Folder, known: Mapping[str, Criterion], code: Mapping[str, ExpectedCode] | None) -> Subject:
    record = folder.record
    entry = deviating.entry_of(record)
    if record is None or entry is None:
        found = deviating.deviations(record)
        seed = record.specification.seed if record is not None else -1
        faults = tuple(soundness.faults_of_values(folder.points))
        return Subject(folder, (), DEFAULT, (), _scored(folder, "", seed, found, faults), found, faults)
    made = deviating.variant_of(record, entry)
    found = (*deviating.deviations(record, _expected_code(entry.agent, code)), *_undescribed(folder))
    judges = [
        name
        for name, one in known.items()
        if (one.agent, one.physics) == (entry.agent, entry.physics) and entry.task in one.tasks and entry.judged
    ]
    if not judges and not found:
        found = (Deviation("task", "one of a criterion's", entry.task),)
    differing = {one.key for one in found}
    if differing <= {protocols.SMOKE}:
        faults = soundness.faults(
            entry, deviating.expected_settings(record, entry, made), record, folder.points
        )
    else:  # of another run than the protocol's, only what no run at all can have written
        faults = list(soundness.faults_of_values(folder.points))
    task = "" if "task" in differing else entry.task
    run = _scored(folder, task, record.specification.seed, found, faults)
    # Who is no run of the task is no run of its criteria either.
    of = () if "task" in differing else tuple(judges)
    return Subject(folder, of, made.name, _changes(entry, made), run, found, tuple(faults))


def _changes(entry: protocols.Protocol, made: Variant) -> tuple[Change, ...]:
    return variants.changes(entry, made) if made.settings and not made.faults else ()


def _scored(
    folder: Folder, task: str, seed: int, found: Sequence[Deviation], faults: Sequence[CurveFault]
) -> ScoredRun:
    """The run for the criteria. A value that no episode can have is none."""
    return ScoredRun(
        task=task,
        seed=seed,
        steps=[point.env_steps for point in folder.points],
        values=[math.nan if soundness.impossible(point.value) else point.value for point in folder.points],
        episodes=[point.episodes for point in folder.points],
        off_protocol=tuple(deviation.key for deviation in found),
        unsound=tuple(str(fault) for fault in faults),
        name=folder.name,
    )


def _undescribed(folder: Folder) -> tuple[Deviation, ...]:
    """Lines whose provenance the record does not describe: nobody knows which code computed them."""
    described = set(folder.record.provenances)
    strange = sorted({point.provenance for point in folder.points} - described)
    # A record of one provenance, by a version that gave them no names, speaks of all lines.
    if not strange or described == {provenance.UNNAMED}:
        return ()
    said = ", ".join(deviating.shown(name) or "none" for name in strange)
    found = f"lines of {said}, which run.json does not describe"
    return (Deviation("provenances", "those that the lines name", found),)


def _with_other_trees(subjects: list[Subject], code: Mapping[str, ExpectedCode] | None) -> list[Subject]:
    """Where the patched tree cannot be checked here, runs that name several of one upstream all deviate."""
    named: dict[str, set[str]] = {}
    for one in subjects:
        if one.criteria and _expected_code(_agent(one), code).patched_tree is None:
            named.setdefault(_agent(one), set()).update(_patched_trees(one))
    several = {agent: trees for agent, trees in named.items() if len(trees) > 1}
    found = []
    for one in subjects:
        if one.criteria and _agent(one) in several:
            told = "one for all runs; which cannot be told here"
            deviation = Deviation("patched_tree", told, ", ".join(sorted(_patched_trees(one))))
            run = dataclasses.replace(one.run, off_protocol=(*one.run.off_protocol, deviation.key))
            one = dataclasses.replace(one, deviations=(*one.deviations, deviation), run=run)
        found.append(one)
    return found


def _agent(one: Subject) -> str:
    return one.folder.record.specification.upstream


def _patched_trees(one: Subject) -> set[str]:
    return {deviating.shown(made.code.get("patched_tree")) for made in one.folder.record.provenances.values()}


def _not_checkable(
    subjects: Iterable[Subject], code: Mapping[str, ExpectedCode] | None
) -> list[provenance.Flag]:
    """Says so where nobody here can tell whether a patched tree is what tree and patches make."""
    labels: dict[str, list[str]] = {}
    for one in subjects:
        if one.criteria and _expected_code(_agent(one), code).patched_tree is None:
            labels.setdefault(_agent(one), []).append(one.label)
    what = "code.patched_tree is not checkable here: the official code of {} is not in the cache"
    return [provenance.Flag(what.format(agent), tuple(runs)) for agent, runs in labels.items()]


def _with_copies(subjects: list[Subject]) -> list[Subject]:
    """Names runs whose values are those of another's: one curve that stands for several seeds, tasks or variants."""
    told: dict[int, list[CurveFault]] = {}
    of = [one.folder.points if one.criteria and not one.deviations else () for one in subjects]
    for (first, second), (equal, shared) in soundness.copies(of).items():
        for index, other in ((first, second), (second, first)):
            what = f"{equal} of {shared} different values are those of {subjects[other].folder.name}"
            told.setdefault(index, []).append(CurveFault(0, what))
    found = list(subjects)
    for index, faults in told.items():
        one = subjects[index]
        unsound = (*one.run.unsound, *map(str, faults))
        run = dataclasses.replace(one.run, unsound=unsound)
        found[index] = dataclasses.replace(one, faults=(*one.faults, *faults), run=run)
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
        criteria.judge(criterion, runs),
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
