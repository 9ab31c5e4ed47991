"""What a gate answers, and how answers are shown."""

import dataclasses
import json
from collections.abc import Sequence

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
class Report:
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


def table(results: Sequence[Result]) -> str:
    """The results as lines of text, one gate a line."""
    if not results:
        return "no gates were run"
    width = max(len(result.gate) for result in results)
    lines = [f"{'gate':<{width}}  {'outcome':<10}  {'s':>5}  what was seen"]
    for result in results:
        lines.append(f"{result.gate:<{width}}  {result.outcome:<10}  {result.seconds:5.0f}  {result.detail}")
    return "\n".join(lines)


def summary(results: Sequence[Result]) -> str:
    """How many passed, failed and were not judged."""
    counts = {outcome: sum(r.outcome == outcome for r in results) for outcome in (PASS, FAIL, NOT_JUDGED)}
    return f"{counts[PASS]} passed, {counts[FAIL]} failed, {counts[NOT_JUDGED]} not judged"
