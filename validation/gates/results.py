"""What a gate answers, and how answers are shown."""

import dataclasses
import json
import time
from collections.abc import Collection, Sequence

from tdmpc2_lean.tables import table
from tdmpc2_lean.validation.gates.process import ChildFailed

PASS, FAIL, NOT_JUDGED = "pass", "FAIL", "not judged"


@dataclasses.dataclass(frozen=True)
class Result:
    """One row of the gates' table.

    gate: the gate's name, with what it was run on after a slash where there are several.
    outcome: `pass`, `FAIL`, or `not judged` where the gate does not apply; the detail says why.
    detail: what was compared and how much of it, or the first divergence.
    figures: numbers behind the detail, such as counts and largest differences.
    """

    gate: str
    outcome: str
    detail: str
    figures: dict = dataclasses.field(default_factory=dict)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.outcome != FAIL


@dataclasses.dataclass(frozen=True)
class GateReport:
    """All results of one call. `surroundings`: subject, reference, versions and settings."""

    surroundings: dict
    results: tuple[Result, ...]

    @property
    def ok(self) -> bool:
        return all(result.ok for result in self.results)

    def as_json(self) -> str:
        """JSON with keys `surroundings`, `results` and `ok`."""
        return json.dumps(
            {
                "surroundings": self.surroundings,
                "results": [dataclasses.asdict(result) for result in self.results],
                "ok": self.ok,
            },
            indent=2,
        )


def failed_to_run(gate: str, failure: ChildFailed, started: float, why: str = "") -> Result:
    """The result of a gate whose code under test did not run to its end; the end of what it printed is kept.

    started: when the gate began, as time.time() has it. why: what that means, before the code's own reason.
    """
    printed = {"output": failure.output[-4000:]}
    return Result(gate, FAIL, why + failure.message, printed, time.time() - started)


def without_settings(gate: str, config: Collection[str], *settings: str) -> list[Result]:
    """A result that says which of the settings a gate is about the checkout does not have; none where it has all."""
    missing = [f"`{name}`" for name in settings if name not in config]
    return [Result(gate, NOT_JUDGED, f"the checkout has no setting {', '.join(missing)}")] if missing else []


def results_table(results: Sequence[Result], width: int | None = None) -> str:
    """The results as lines of text, one per gate. width: see `tables.table`."""
    if not results:
        return "no gates were run"
    rows = [(result.gate, result.outcome, f"{result.seconds:.0f}", result.detail) for result in results]
    return table(("gate", "outcome", "s", "what was seen"), rows, right=("s",), width=width)


def summary(results: Sequence[Result]) -> str:
    """How many passed, failed and were not judged."""
    counts = {outcome: sum(r.outcome == outcome for r in results) for outcome in (PASS, FAIL, NOT_JUDGED)}
    return f"{counts[PASS]} passed, {counts[FAIL]} failed, {counts[NOT_JUDGED]} not judged"
