"""Judges one mutant: the gates that execute what it changes run on it, cheapest first, until one rejects."""

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.validation.gates.results import FAIL, Result
from tdmpc2_lean.validation.gates.strength.forks import Forks, Instructions
from tdmpc2_lean.validation.gates.strength.mutants import Mutant, made
from tdmpc2_lean.validation.gates.strength.profile import ComparedRuns, GateProfile
from tdmpc2_lean.validation.gates.subjects import GateSubject
from tdmpc2_lean.validation.gates.suites import Gate

KILLED, SURVIVED, NOT_JUDGED = "killed", "survived", "not judged"
# How a mutant was killed, or why it was not.
DIFFERENT, RAISED, NO_IMPORT, TIME = "a difference", "raised", "could not be imported", "took too long"
EQUAL, NOT_EXECUTED, GATE_FAILED = "equal", "not executed", "the gate itself failed"
TIMES, LEAST, LATE = 5, 20.0, 20  # a mutant may take so many times what the code takes, at least so many seconds


@dataclass(frozen=True)
class TrialOutcome:
    """What became of a mutant.

    outcome, how: see the constants here. gate: which gate rejected it; tried: those that judged it, in their order.
    detail: what the gate said.
    """

    id: str
    outcome: str
    how: str
    gate: str = ""
    detail: str = ""
    seconds: float = 0.0
    tried: tuple[str, ...] = field(default_factory=tuple)

    def as_dict(self) -> dict:
        return asdict(self)


def executing(mutant: Mutant, gates: Sequence[Gate], profiles: Mapping[str, GateProfile]) -> list[Gate]:
    """The gates that execute what the mutant changes, cheapest first."""
    found = [gate for gate in gates if profiles[gate.name].executes(mutant)]
    return sorted(found, key=lambda gate: profiles[gate.name].cost(mutant))


def judged(
    subject: GateSubject, mutant: Mutant, gates: Sequence[Gate], profiles: Mapping, runs: ComparedRuns, forks: Forks
) -> TrialOutcome:
    """The outcome of a mutant, judged by those gates in that order."""
    tried = []
    with made(subject, mutant) as subject_with_it:
        folder = str(subject_with_it.code_dir)
        try:
            for gate in gates:
                tried.append(gate.name)
                profile = profiles[gate.name]
                seconds = max(LEAST, TIMES * profile.longest)
                told = Instructions(seconds, LATE * seconds, None, profile.expected, profile.cases_for(mutant))
                forks.instructions[folder] = told
                try:
                    failure = first_failure(gate, subject_with_it, runs)
                except (OSError, KeyboardInterrupt, SystemExit):
                    raise
                except UserError as error:  # the code under test cannot be read, or not be run
                    failure = Result(gate.name, FAIL, str(error), {"output": str(error)})
                except Exception:
                    reason = traceback.format_exc().strip().splitlines()[-1]
                    return TrialOutcome(mutant.id, NOT_JUDGED, GATE_FAILED, gate.name, reason, 0.0, tuple(tried))
                if failure is not None:
                    how = how_it_failed(failure, told, subject_with_it.code_dir)
                    return TrialOutcome(mutant.id, KILLED, how, failure.gate, failure.detail[:400], 0.0, tuple(tried))
        finally:
            forks.instructions.pop(folder, None)
            runs.forget(subject_with_it.code_dir)
    return TrialOutcome(mutant.id, SURVIVED, EQUAL, tried=tuple(tried))


def first_failure(gate: Gate, subject: GateSubject, runs: ComparedRuns) -> Result | None:
    """The first result of a gate that rejects; the gate need not go on after it."""
    results = gate.run(subject, runs)
    try:
        return next((result for result in results if result.outcome == FAIL), None)
    finally:
        getattr(results, "close", lambda: None)()


def how_it_failed(failure: Result, told: Instructions, code_dir: Path) -> str:
    if told.ended:
        return TIME
    if "output" not in failure.figures:
        return DIFFERENT
    output = failure.figures["output"]
    frames = [line for line in output.splitlines() if f'File "{code_dir}' in line]
    importing = "SyntaxError" in output or bool(frames) and frames[-1].rstrip().endswith("in <module>")
    return NO_IMPORT if importing else RAISED
