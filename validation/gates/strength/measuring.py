"""The mutation score of a subject: which mutants, which are judged anew, what became of each."""

import dataclasses
import hashlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tdmpc2_lean import places
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.validation.gates import process
from tdmpc2_lean.validation.gates.strength import scope
from tdmpc2_lean.validation.gates.strength.forks import serving
from tdmpc2_lean.validation.gates.strength.mutants import OF_PATCHES, OFFICIAL, Mutant, in_order, mutants_of
from tdmpc2_lean.validation.gates.strength.profile import ComparedRuns, profiles_of
from tdmpc2_lean.validation.gates.strength.score import Results, Tally, harmless, read_harmless
from tdmpc2_lean.validation.gates.strength.trials import KILLED, NOT_EXECUTED, SURVIVED, TrialOutcome, executing, judged
from tdmpc2_lean.validation.gates.subjects import GateSubject
from tdmpc2_lean.validation.gates.suites import Gate, chosen, suite_of
from tdmpc2_lean.versions import versions

# Modules of this part that count and show outcomes; a change of any other one makes kept outcomes void.
SHOWING = ("command.py", "measuring.py", "scope.py", "score.py")


@dataclass(frozen=True)
class Strength:
    """What was measured. mutants: those that count, in their order, with what became of each that was judged.

    unreachable: reason -> how many. tallies: of each file, of official code, of the patches' code, of all.
    """

    subject: str
    gates: tuple[str, ...]
    folder: Path
    judged: tuple[tuple[Mutant, TrialOutcome], ...]
    unreachable: dict[str, int]
    tallies: tuple[Tally, ...]

    @property
    def total(self) -> Tally:
        return self.tallies[-1]

    @property
    def survivors(self) -> list[tuple[Mutant, TrialOutcome]]:
        found = [(mutant, outcome) for mutant, outcome in self.judged if outcome.outcome != KILLED]
        return sorted(found, key=lambda pair: (pair[0].file, pair[0].edit.line, pair[0].id))

    def as_json(self) -> str:
        survivors = [
            {"structure": m.structure, "function": m.edit.function, "what": m.what, "origin": m.origin} | o.as_dict()
            for m, o in self.survivors
        ]
        scores = {tally.name: tally.as_dict() for tally in self.tallies}
        head = {"subject": self.subject, "gates": self.gates, "unreachable": self.unreachable}
        return json.dumps(head | {"scores": scores, "survivors": survivors}, indent=2)


def measure(
    subject: GateSubject,
    sample: int | None = None,
    seed: int = 0,
    files: Sequence[str] = (),
    names: Sequence[str] = (),
    budget=None,
    at_once: int = 1,
    folder: Path | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Strength:
    """Judges mutants of a subject, going on where an earlier call with the same code and gates ended.

    sample: how many of those that count to judge, drawn by the seed; None for all. files, names: of the files and
    gates, only these. folder: where outcomes are kept; default: in the package's cache.
    """
    suite = suite_of(subject.upstream)
    budget = budget or suite.budget()
    gates = [gate for gate in chosen(names, subject.upstream) if not gate.of_series]
    folder = folder or kept_in(subject, budget, suite.packages)
    mutants, known = mutants_of(subject, files), read_harmless(subject.upstream)
    runs = ComparedRuns(budget, suite.tracing, folder / "traces")
    results = Results(folder / "results.jsonl")
    try:
        with process.ended_by_signals(), serving(folder / "answers") as forks:
            profiles = profiles_of(subject, gates, runs, forks, folder / "profile.json", tell)
            reasons = {mutant.id: unreachable(mutant, gates, profiles) for mutant in mutants}
            of_harm = {mutant.id for mutant in mutants if harmless(mutant, known)}
            counting = [mutant for mutant in mutants if not reasons[mutant.id] and mutant.id not in of_harm]
            drawn = in_order(counting, seed)[:sample]
            found = Judging(subject, gates, profiles, runs, forks, results, tell).all(drawn, at_once)
    finally:
        results.close()
        runs.close()
    told = [reasons[mutant.id] for mutant in mutants if mutant.id not in of_harm]
    counts = {reason: told.count(reason) for reason in sorted(set(told) - {""})}
    outcomes = {mutant.id: outcome for mutant, outcome in found}

    def tally(name: str, some: Sequence[Mutant]) -> Tally:
        ids = [mutant.id for mutant in some]
        apart = [i for i in ids if reasons[i] and i not in of_harm]
        known_of = tuple(outcomes[i] for i in ids if i in outcomes)
        return Tally(name, len(ids), sum(i in of_harm for i in ids), len(apart), known_of)

    groups = {name: [m for m in mutants if m.file == name] for name in sorted({m.file for m in mutants})}
    groups |= {origin: [m for m in mutants if m.origin == origin] for origin in (OFFICIAL, OF_PATCHES)}
    tallies = (*(tally(name, some) for name, some in groups.items() if some), tally("all", mutants))
    return Strength(subject.name, tuple(gate.name for gate in gates), folder, tuple(found), counts, tallies)


def unreachable(mutant: Mutant, gates: Sequence[Gate], profiles) -> str:
    executed = any(profiles[gate.name].executes(mutant) for gate in gates)
    return scope.why_unreachable(mutant.edit, executed)


@dataclass
class Judging:
    """Judges many mutants, several at once, and keeps each outcome as it comes."""

    subject: GateSubject
    gates: list[Gate]
    profiles: dict
    runs: ComparedRuns
    forks: object
    results: Results
    tell: Callable[[str], None]
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def all(self, mutants: Sequence[Mutant], at_once: int) -> list[tuple[Mutant, TrialOutcome]]:
        if any(self.known(mutant) is None for mutant in mutants):
            self.forks.prepare(self.runs.tracing.stack.torch)
        with ThreadPoolExecutor(max(1, at_once)) as pool:
            try:
                return list(pool.map(lambda pair: (pair[1], self.one(pair[1], pair[0], len(mutants))),
                                     enumerate(mutants, 1)))  # fmt: skip
            except BaseException:
                process.interrupt()
                pool.shutdown(cancel_futures=True)
                raise

    def known(self, mutant: Mutant) -> TrialOutcome | None:
        """What is known of a mutant without running anything; None where a gate must have a say."""
        gates = executing(mutant, self.gates, self.profiles)
        if not gates:
            return TrialOutcome(mutant.id, SURVIVED, NOT_EXECUTED)
        with self.lock:
            return self.results.of(mutant, [gate.name for gate in gates])

    def one(self, mutant: Mutant, number: int, of: int) -> TrialOutcome:
        known = self.known(mutant)
        if known is not None:
            return known
        gates = executing(mutant, self.gates, self.profiles)
        with self.lock:
            earlier = self.results.outcomes.get(mutant.id)
        passed = earlier.tried if earlier is not None and earlier.outcome == SURVIVED else ()
        started = time.monotonic()
        left = [gate for gate in gates if gate.name not in passed]
        outcome = judged(self.subject, mutant, left, self.profiles, self.runs, self.forks)
        seconds = round(time.monotonic() - started, 1)
        outcome = dataclasses.replace(outcome, seconds=seconds, tried=(*passed, *outcome.tried))
        with self.lock:
            self.results.add(outcome)
            by = f" by {outcome.gate}: {outcome.how}" if outcome.gate else ""
            self.tell(f"{number}/{of}  {outcome.outcome:<8}  {mutant.id}  {mutant.what}  ({seconds:.0f} s){by}")
        return outcome


def kept_in(subject: GateSubject, budget, packages: Sequence[str]) -> Path:
    """The folder in the cache for outcomes of this code, judged by these gates, on these versions."""
    whole = hashlib.sha256()

    def add(name: str, content: bytes) -> None:
        whole.update(f"{name}:{len(content)};".encode())
        whole.update(content)

    for code_dir in (subject.code_dir, subject.reference.code_dir):
        for path in sorted(code_dir.rglob("*")):
            if path.suffix in (".py", ".yaml") and path.is_file():
                add(path.relative_to(code_dir).as_posix(), path.read_bytes())
    gates = places.validation_dir() / "gates"
    for path in sorted(gates.rglob("*.py")):
        if "miniature" not in path.parts and path.name not in SHOWING:
            add(path.relative_to(gates).as_posix(), path.read_bytes())
    add("budget", json.dumps(dataclasses.asdict(budget), sort_keys=True).encode())
    add("versions", json.dumps(versions(packages), sort_keys=True).encode())
    return places.cache_dir() / "strength" / f"{subject.reference.upstream}-{whole.hexdigest()[:16]}"


def mutant_named(subject: GateSubject, name: str) -> Mutant:
    """The mutant of that id; UserError where there is none."""
    file = name.split(":")[0]
    found = [mutant for mutant in mutants_of(subject, [file]) if mutant.id == name]
    if not found:
        raise UserError(f"There is no mutant {name!r} of {subject.name}.", "tdmpc2-lean gate strength --list")
    return found[0]
