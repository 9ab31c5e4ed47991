"""What a gate answers, and how answers are shown."""

import dataclasses
import json
import time
from collections.abc import Collection, Sequence

from tdmpc2_lean.tables import table
from tdmpc2_lean.validation.gates.process import ChildFailed

PASS, FAIL, UNPROVED, NOT_JUDGED = "pass", "FAIL", "UNPROVED", "not judged"
EXIT_CODES = {PASS: 0, FAIL: 1, UNPROVED: 3}  # 2 is a user's mistake


@dataclasses.dataclass(frozen=True)
class Result:
    """One row of the gates' table.

    gate: the gate's name, with what it was run on after a slash where there are several.
    outcome: `pass`; `FAIL`; `UNPROVED` where nothing was seen that could have failed although the code under test says
    that it is the official one there; `not judged` where the gate does not apply. The detail says why.
    detail: what was compared and how much of it, or the first divergence.
    figures: numbers behind the detail, such as counts and largest differences.
    covers: changes (`accounting.CodeChange.id`, such as `config.yaml:discount_max`, with paths from the code folder, or
    patterns of them, such as `config.yaml:*`) whose effect the gate would have seen although no changed statement is
    executed: defaults that it resolved and compared.
    missing: what the gate is about and the checkout lacks: names of settings or functions.
    """

    gate: str
    outcome: str
    detail: str
    figures: dict = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    covers: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()

    def as_dict(self) -> dict:
        """As JSON has it."""
        return dataclasses.asdict(self) | {"covers": sorted(self.covers), "missing": sorted(self.missing)}

    @property
    def ok(self) -> bool:
        return self.outcome not in (FAIL, UNPROVED)


@dataclasses.dataclass(frozen=True)
class GateReport:
    """All results of one call.

    surroundings: subject, reference, versions and settings. accounting: what has the same text, and every change.
    recorded: when the results came about, of an earlier run whose record this is; empty where the gates ran now.
    executed: of code without a change, by gate: the functions that it executed, as `common/math.py:two_hot`.
    """

    surroundings: dict
    results: tuple[Result, ...]
    accounting: dict = dataclasses.field(default_factory=dict)
    recorded: str = ""
    executed: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """FAIL if a gate failed; else UNPROVED if something is, or if nothing was judged; else pass."""
        outcomes = {result.outcome for result in self.results}
        if FAIL in outcomes:
            return FAIL
        return UNPROVED if UNPROVED in outcomes or PASS not in outcomes else PASS

    @property
    def ok(self) -> bool:
        return self.outcome == PASS

    @property
    def exit_code(self) -> int:
        """0: everything was judged and passed; 1: a gate failed; 3: none failed, and something is unproved."""
        return EXIT_CODES[self.outcome]

    def as_json(self) -> str:
        """JSON with keys `surroundings`, `accounting`, `results`, `outcome`, `ok` and `recorded`."""
        return json.dumps(
            {
                "surroundings": self.surroundings,
                "accounting": self.accounting,
                "results": [result.as_dict() for result in self.results],
                "outcome": self.outcome,
                "ok": self.ok,
                "recorded": self.recorded,
            },
            indent=2,
        )


def report_of_json(text: str, recorded: str) -> GateReport:
    """A report that was kept, as of when it was; ValueError, KeyError or TypeError if it is none."""
    kept = json.loads(text)
    results = tuple(map(result_of_json, kept["results"]))
    return GateReport(kept["surroundings"], results, kept["accounting"], recorded)


def result_of_json(one: dict) -> Result:
    """A result as `Result.as_dict` gives it; KeyError or TypeError if it is none."""
    return Result(**{**one, "covers": frozenset(one["covers"]), "missing": frozenset(one["missing"])})


def failed_to_run(gate: str, failure: ChildFailed, started: float, why: str = "") -> Result:
    """The result of a gate whose code under test did not run to its end; the end of what it printed is kept.

    started: when the gate began, as time.time() has it. why: what that means, before the code's own reason.
    """
    printed = {"output": failure.output[-4000:]}
    return Result(gate, FAIL, why + failure.message, printed, time.time() - started)


def without_settings(gate: str, config: Collection[str], *settings: str) -> list[Result]:
    """A result that says which of the settings a gate is about the checkout does not have; none where it has all."""
    missing = [name for name in settings if name not in config]
    if not missing:
        return []
    told = ", ".join(f"`{name}`" for name in missing)
    return [Result(gate, NOT_JUDGED, f"the checkout has no setting {told}", missing=frozenset(missing))]


def results_table(results: Sequence[Result], width: int | None = None) -> str:
    """The results as lines of text, one per gate. width: see `tables.table`."""
    if not results:
        return "no gates were run"
    rows = [(result.gate, result.outcome, f"{result.seconds:.0f}", result.detail) for result in results]
    return table(("gate", "outcome", "s", "what was seen"), rows, right=("s",), width=width)


def summary(results: Sequence[Result]) -> str:
    """How many passed, failed, are unproved and were not judged."""
    counts = {outcome: sum(r.outcome == outcome for r in results) for outcome in (PASS, FAIL, UNPROVED, NOT_JUDGED)}
    words = f"{counts[PASS]} passed, {counts[FAIL]} failed, {counts[NOT_JUDGED]} not judged"
    return words + (f", {counts[UNPROVED]} UNPROVED" if counts[UNPROVED] else "")
