"""Folders as the runs that are judged: which count, held against the registry and against one another.

`deviations` and `soundness` say what is wrong with one; `findings` judges those that count.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tdmpc2_lean.validation.judging import deviations as deviating
from tdmpc2_lean.validation.judging import official_code, protocols, provenance, soundness, variants
from tdmpc2_lean.validation.judging.criteria import Criterion
from tdmpc2_lean.validation.judging.deviations import Deviation
from tdmpc2_lean.validation.judging.official_code import ExpectedCode
from tdmpc2_lean.validation.judging.reading import Folder
from tdmpc2_lean.validation.judging.soundness import CurveFault
from tdmpc2_lean.validation.judging.variants import DEFAULT, Change, Variant
from tdmpc2_lean.validation.judging.verdicts import ScoredRun


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


def not_checkable(
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
