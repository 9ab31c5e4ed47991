"""Outcomes in a file that grows by a line for each, the list of the harmless, shares with intervals, tables."""

import json
import math
import os
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.tables import table
from tdmpc2_lean.validation.gates.strength.mutants import Mutant
from tdmpc2_lean.validation.gates.strength.trials import KILLED, NOT_EXECUTED, SURVIVED, TrialOutcome

HARMLESS = Path(__file__).with_name("harmless.toml")
Z = 1.959963984540054  # the normal distribution's 97.5 % point


class Results:
    """Outcomes by mutant, kept in a file of one JSON object a line; a line cut short by a kill is left out."""

    def __init__(self, path: Path):
        self.path = path
        self.outcomes: dict[str, TrialOutcome] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        for line in whole.splitlines():
            found = json.loads(line)
            self.outcomes[found["id"]] = TrialOutcome(**{**found, "tried": tuple(found["tried"])})
        self.file = open(path, "ab")
        self.file.truncate(len(whole))

    def add(self, outcome: TrialOutcome) -> None:
        self.file.write(json.dumps(outcome.as_dict()).encode() + b"\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        self.outcomes[outcome.id] = outcome

    def of(self, mutant: Mutant, gates: Sequence[str]) -> TrialOutcome | None:
        """What is known of a mutant judged by these gates: None unless one of them rejected it, or all have had it."""
        found = self.outcomes.get(mutant.id)
        if found is None:
            return None
        if found.outcome == KILLED:
            return found if found.tried[-1] in gates else None
        return found if set(gates) <= set(found.tried) else None

    def close(self) -> None:
        self.file.close()


@dataclass(frozen=True)
class Harmless:
    """A mutant that changes nothing observable: found by these, whatever its line. reason: why nothing is changed."""

    file: str
    function: str
    operator: str
    structure: str
    reason: str


def read_harmless(upstream: str, path: Path = HARMLESS) -> dict[tuple[str, str, str, str], Harmless]:
    """The list of an upstream's harmless mutants, by file, function, operator and structure."""
    content = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    found = {}
    for entry in content.get(upstream, []):
        wrong = set(entry) ^ {"file", "function", "operator", "structure", "reason"}
        if wrong or not str(entry.get("reason", "")).strip():
            raise UserError(
                f"{path.name}, an entry of {upstream}: {', '.join(sorted(wrong)) or 'reason'} is missing or too much.",
                "each has file, function, operator, structure and a reason",
            )
        found[entry["file"], entry["function"], entry["operator"], entry["structure"]] = Harmless(**entry)
    return found


def harmless(mutant: Mutant, known: Mapping) -> Harmless | None:
    edit = mutant.edit
    return known.get((mutant.file, edit.function, edit.operator, mutant.structure))


def wilson(killed: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of n independent draws (Wilson 1927, doi 10.2307/2276774); 0 to 1 for none."""
    if n == 0:
        return 0.0, 1.0
    share = killed / n
    middle = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True)
class Tally:
    """Counts of one group of mutants.

    all: those there are; harmless, unreachable: of them, and counted apart. judged: outcomes known of the rest.
    """

    name: str
    all: int
    harmless: int
    unreachable: int
    judged: tuple[TrialOutcome, ...]

    @property
    def n(self) -> int:
        return sum(outcome.outcome in (KILLED, SURVIVED) for outcome in self.judged)

    @property
    def killed(self) -> int:
        return sum(outcome.outcome == KILLED for outcome in self.judged)

    @property
    def is_whole(self) -> bool:
        """Whether every mutant that counts was judged: then the share is no estimate."""
        return self.n == self.all - self.harmless - self.unreachable

    @property
    def share(self) -> float | None:
        """Killed of those judged; None where none was."""
        return self.killed / self.n if self.n else None

    def counted(self, how: str) -> int:
        return sum(outcome.how == how for outcome in self.judged)

    def as_dict(self) -> dict:
        counts = {"all": self.all, "harmless": self.harmless, "unreachable": self.unreachable, "n": self.n}
        hows = dict(sorted(Counter(outcome.how for outcome in self.judged).items()))
        interval = None if self.is_whole else wilson(self.killed, self.n)
        return counts | {"killed": self.killed, "share": self.share, "interval": interval, "how": hows}


def score_table(tallies: Iterable[Tally], width: int | None = None) -> str:
    """A row for each group: how many mutants, how many judged, killed, never executed, the share."""
    rows = []
    for tally in tallies:
        interval = ""
        if tally.n and not tally.is_whole:
            interval = "{:.0f}-{:.0f}".format(*(100 * end for end in wilson(tally.killed, tally.n)))
        share = "" if tally.share is None else f"{100 * tally.share:.1f}"
        counts = (tally.all, tally.harmless, tally.unreachable, tally.n, tally.killed, tally.counted(NOT_EXECUTED))
        rows.append((tally.name, *map(str, counts), share, interval))
    columns = ("", "mutants", "harmless", "not reachable", "n", "killed", "not executed", "%", "95 %")
    return table(columns, rows, right=columns[1:], width=width)
