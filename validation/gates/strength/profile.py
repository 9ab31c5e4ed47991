"""What each gate does on the code without a mutant: which lines it executes, what it takes, what it compares.

Measured once for a subject and kept beside the results; also the proof that the gates pass where nothing is wrong.
"""

import dataclasses
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.files import atomic_write
from tdmpc2_lean.validation.gates import trace, traced_runs
from tdmpc2_lean.validation.gates.results import FAIL
from tdmpc2_lean.validation.gates.strength import watching
from tdmpc2_lean.validation.gates.strength.forks import Forks, Instructions
from tdmpc2_lean.validation.gates.strength.mutants import Mutant
from tdmpc2_lean.validation.gates.subjects import GateSubject
from tdmpc2_lean.validation.gates.suites import Gate


@dataclass(frozen=True)
class GateProfile:
    """A gate on the code without a mutant.

    seconds: processor time of all its processes on the subject; longest: of the one that took most. lines: executed,
    by file; files that it reads otherwise, such as configurations, are not in it. expected: traces of the reference by
    `watching.asked`, if all that the gate does is to compare traces of the subject with them, else empty.
    by_case: of processes that run cases (`cases.recorded`), by `watching.asked`: a file with the answers, and the lines
    that each executes, in their order. case_seconds: what each of those cases took. applies: whether it ran the
    subject at all.
    """

    seconds: float
    longest: float
    lines: dict[str, list[int]]
    expected: dict[str, str]
    by_case: dict[str, tuple[str, dict[str, dict[str, list[int]]]]]
    case_seconds: dict[str, float]
    applies: bool

    def executes(self, mutant: Mutant) -> bool:
        """Whether it executes a line of the statement that a mutant changes; of a configuration: whether it runs."""
        return self.applies and (not mutant.file.endswith(".py") or are_executed(mutant, self.lines))

    def cases_for(self, mutant: Mutant) -> dict[str, tuple[str, list[str]]]:
        """As `Instructions.cases`: of each process the answers expected, and the cases that the mutant may change."""
        found = {}
        for asked, (file, cases) in self.by_case.items():
            inside = [name for name, lines in cases.items() if are_executed(mutant, lines)]
            # Of a configuration nobody knows who reads what.
            found[asked] = (file, inside if mutant.file.endswith(".py") else list(cases))
        return found

    def cost(self, mutant: Mutant) -> float:
        """What a verdict on a mutant is likely to take: comparisons that end early mostly take a part of the whole."""
        if self.by_case:
            names = {name for _, some in self.cases_for(mutant).values() for name in some}
            return sum(self.case_seconds[name] for name in names) / 3
        return self.seconds / 4 if self.expected else self.seconds


def are_executed(mutant: Mutant, lines: dict[str, list[int]]) -> bool:
    first, last = mutant.edit.lines
    return any(first <= line <= last for line in lines.get(mutant.file, ()))


class ComparedRuns(traced_runs.TracedRuns):
    """Traced runs that gates on mutants share: references are made once and kept in a folder, no value is looked up.

    store: that folder. compared: (reference, subject, arguments of both) of each comparison, since it was cleared.
    """

    def __init__(self, budget, tracing, folder: Path):
        super().__init__(budget, tracing)
        self.store = folder
        self.met = defaultdict(frozenset)  # of traces that were kept nothing is known but what they hold
        self.compared: list[tuple[Path, Path, dict, dict]] = []
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / "index.json").exists():
            for code_dir, dump_at, arguments, name, answer in json.loads((folder / "index.json").read_text()):
                path = folder / name
                if path.exists():
                    self.traces[Path(code_dir), dump_at, arguments] = path
                    self.answers[path] = answer

    def compare(self, reference: Path, subject: Path, of_reference=None, of_subject=None):
        self.compared.append((reference, subject, of_reference or {}, of_subject or {}))
        sides = ((reference, of_reference or {}), (subject, of_subject or {}))
        return trace.compare(*self._traces_of(sides))

    def keep(self, code_dirs: set[Path]) -> None:
        """Keep the traces of folders that are not mutants for later calls."""
        index = []
        for (code_dir, dump_at, arguments), path in self.traces.items():
            if code_dir in code_dirs and path.parent != self.store:
                kept = self.store / f"{len(list(self.store.glob('*.jsonl')))}.jsonl"
                kept.write_bytes(path.read_bytes())
                self.answers[kept] = self.answers[path]
                self.traces[code_dir, dump_at, arguments] = path = kept
            if path.parent == self.store:
                index.append([str(code_dir), dump_at, arguments, path.name, self.answers[path]])
        atomic_write(self.store / "index.json", json.dumps(index))

    def forget(self, code_dir: Path) -> None:
        """Remove the traces of a mutant."""
        for key in [key for key in self.traces if key[0] == code_dir]:
            path = self.traces.pop(key)
            self.answers.pop(path, None)
            path.unlink(missing_ok=True)

    def asked(self, arguments: dict) -> str:
        """What a run with these arguments is asked, as `watching.asked` has it."""
        budget = json.loads(json.dumps(dataclasses.asdict(self.budget)))
        return watching.asked({"function": self.tracing.function, "arguments": {"budget": budget, **arguments}})


def profiles_of(
    subject: GateSubject,
    gates: Sequence[Gate],
    runs: ComparedRuns,
    forks: Forks,
    file: Path,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, GateProfile]:
    """A profile for each gate, those in `file` as they are there. UserError where a gate fails without a mutant."""
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for gate in gates:
        if gate.name not in known:
            forks.prepare(runs.tracing.stack.torch)
            tell(f"{gate.name} on the code without a mutant: which lines it executes")
            known[gate.name] = dataclasses.asdict(profile_of(subject, gate, runs, forks))
            atomic_write(file, json.dumps(known))
    return {gate.name: GateProfile(**known[gate.name]) for gate in gates}


def profile_of(subject: GateSubject, gate: Gate, runs: ComparedRuns, forks: Forks) -> GateProfile:
    runs.forget(subject.code_dir)  # its runs are to be made, and noted, once more
    runs.compared.clear()
    with tempfile.TemporaryDirectory(prefix="tdmpc2-lean-profile-") as folder:
        forks.instructions[str(subject.code_dir.resolve())] = Instructions(notes=Path(folder))
        started = time.monotonic()
        try:
            failure = next((result for result in gate.run(subject, runs) if result.outcome == FAIL), None)
        finally:
            del forks.instructions[str(subject.code_dir.resolve())]
        notes = [json.loads(path.read_text(encoding="utf-8")) for path in Path(folder).iterdir()]
    if failure is not None:
        raise UserError(
            f"{gate.name} fails on the code without a mutant: {failure.detail}",
            f"mend that first: tdmpc2-lean gate run {gate.name}",
        )
    lines: dict[str, set[int]] = {}
    for note in notes:
        for name, found in note["lines"].items():
            lines.setdefault(name, set()).update(found)
    compared = list(runs.compared)
    only_traces = bool(compared) and all(
        subject.code_dir == of_subject and reference != of_subject and first == second
        for reference, of_subject, first, second in compared
    )
    runs.keep({reference for reference, *_ in compared if reference != subject.code_dir})
    expected: dict[str, str] = {}
    if only_traces:
        expected = {asked: str(runs.trace_of(r, **a)) for r, _, a, _ in compared for asked in [runs.asked(a)]}
        only_traces = {note["asked"] for note in notes} <= set(expected)
    by_case = {note["asked"]: (note["answers"], note["by_case"]) for note in notes if note["answers"]}
    kept, case_seconds = {}, {}
    for number, (asked, (answers, of_cases)) in enumerate(by_case.items()):
        file = runs.store / f"cases-{gate.name}-{number}.json"
        atomic_write(file, json.dumps(answers))
        kept[asked] = (str(file), of_cases)
        case_seconds |= {name: answer["seconds"] for name, answer in answers.items()}
    seconds = sum(note["seconds"] for note in notes) or time.monotonic() - started
    return GateProfile(
        seconds,
        max((note["seconds"] for note in notes), default=0.0),
        {name: sorted(found) for name, found in lines.items()},
        expected if only_traces else {},
        kept,
        case_seconds,
        bool(notes),
    )
