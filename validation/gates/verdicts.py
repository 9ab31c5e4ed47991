"""What the gates' results say of every change: equal on what was tried, different, or unproved.

Pure functions of the accounting, of what was executed and of results. A change is judged by the gates that compare the
subject with its reference; the code of our own patches, which no reference has, also by those that hold the subject
to the patches' promises.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from tdmpc2_lean.validation.gates import accounting
from tdmpc2_lean.validation.gates.accounting import ADDED, REMOVED, CodeChange
from tdmpc2_lean.validation.gates.blind_spots import ADDED_BOUND, BlindSpot
from tdmpc2_lean.validation.gates.executed import Mark
from tdmpc2_lean.validation.gates.results import FAIL, NOT_JUDGED, PASS, UNPROVED, Result

# Keys of TD-MPC2's config.yaml that Hydra reads itself, so that no gate takes them from there.
READ_BY_HYDRA = ("defaults", "hydra")


def judged_changes(
    subject,
    results: Sequence[Result],
    comparing: Mapping[str, Sequence[BlindSpot]],
    marks: Sequence[Mark],
    executed: Mapping[str, Collection[int]],
) -> list[Result]:
    """One result for each change of a subject.

    results: of the gates, in their order. comparing: the blind spots of each gate that compares with the reference.
    executed: numbers of the marks that were met, by gate.
    """
    by_gate: dict[str, list[Result]] = {}
    for result in results:
        by_gate.setdefault(result.gate.partition("/")[0], []).append(result)
    evidence = Evidence(subject, by_gate, comparing, marks, executed)
    return [evidence.on(change) for change in subject.accounting.changes]


@dataclass(frozen=True)
class Evidence:
    """What gates saw of a subject; fields as the arguments of `judged_changes`, results by gate."""

    subject: object
    by_gate: Mapping[str, Sequence[Result]]
    comparing: Mapping[str, Sequence[BlindSpot]]
    marks: Sequence[Mark]
    executed: Mapping[str, Collection[int]]

    def passed(self, gate: str) -> bool:
        outcomes = [one.outcome for one in self.by_gate[gate]]
        return PASS in outcomes and FAIL not in outcomes and UNPROVED not in outcomes

    def met(self, gate: str, own: Sequence[Mark]) -> set[int]:
        return {mark.number for mark in own} & set(self.executed.get(gate, ()))

    def on(self, change: CodeChange) -> Result:
        """The result of one change."""
        name = f"change/{change.id}"
        told = f"{change.kind}{': ' + change.summary if change.summary else ''}"
        own = [mark for mark in self.marks if mark.change == change.id]
        ours = is_ours(change, self.subject)
        judges = [gate for gate in self.by_gate if self.passed(gate) and (ours or gate in self.comparing)]
        covering = [
            one.gate
            for gate in judges
            for one in self.by_gate[gate]
            if one.outcome == PASS and any(fnmatchcase(change.id, pattern) for pattern in one.covers)
        ]
        if covering:
            return Result(name, PASS, f"{told}; equal where it was compared: {', '.join(covering)}")
        if change.id in self.subject.accounting.unused:
            return Result(name, PASS, f"{told}; nothing that can run names it any more")
        spots = {gate: (*self.comparing.get(gate, ()), ADDED_BOUND) for gate in judges}
        blind = {gate: spot for gate in judges if (spot := blind_spot(change, spots[gate]))}
        seeing = [gate for gate in judges if gate not in blind]
        if is_taken(change) and (using := [gate for gate in seeing if gate in self.comparing]):
            return Result(name, PASS, f"{told}; equal on everything that was tried with it: {self.with_what(using)}")
        seen = set().union(*(self.met(gate, own) for gate in seeing))
        missed = [mark for mark in own if mark.number not in seen]
        if own and not missed:
            using = [gate for gate in seeing if self.met(gate, own)]
            return Result(name, PASS, f"{told}; executed, equal on everything that was tried: {self.with_what(using)}")
        failed = [gate for gate, found in self.by_gate.items() if any(one.outcome == FAIL for one in found)]
        if different := [gate for gate in failed if self.met(gate, own)]:
            return Result(name, NOT_JUDGED, f"{told}; executed by {', '.join(different)}, which found a difference")
        return Result(name, UNPROVED, f"{told}; {self.why_unproved(change, own, missed, blind)}")

    def with_what(self, gates: Iterable[str]) -> str:
        """The gates and what each compared."""
        parts = []
        for gate in gates:
            details = [one.detail for one in self.by_gate[gate] if one.outcome == PASS]
            more = f" and {len(details) - 1} more" if len(details) > 1 else ""
            parts.append(f"{gate} ({details[0]}{more})")
        return "; ".join(parts)

    def why_unproved(
        self, change: CodeChange, own: Sequence[Mark], missed: Sequence[Mark], blind: Mapping[str, BlindSpot]
    ) -> str:
        """Why no gate has judged a change, and what would exercise it as far as is known."""
        blinded = [f"{gate} executed it, but {spot.why}" for gate, spot in blind.items() if self.met(gate, own)]
        if blinded:
            return "; ".join(blinded)
        if not own:
            why = "gone, and something may still want it" if change.kind == REMOVED else "no gate can see it"
            if change.what in ("key", "table"):
                why = "no gate that ran compared what is made of it"
        else:
            elsewhere = [gate for gate in self.by_gate if self.met(gate, own)]
            places = list(dict.fromkeys(mark.words for mark in missed))
            shown = ", ".join(places[:4]) + (f" and {len(places) - 4} more" if len(places) > 4 else "")
            partly = len(missed) < len(own)
            why = f"not executed by any gate that could judge it{f': {shown}' if partly else ''}"
            if elsewhere and not partly:
                why += f" by the official code (only by {', '.join(elsewhere)})"
        return why + (f"; {change.exercised_by} would exercise it" if change.exercised_by else "")


def blind_spot(change: CodeChange, spots: Sequence[BlindSpot]) -> BlindSpot | None:
    """The first of a gate's blind spots in which a change lies."""
    return next((spot for spot in spots if spot.hides(change)), None)


def is_ours(change: CodeChange, subject) -> bool:
    """Whether it is a change of what only our patches bring, so that no unpatched reference can judge it."""
    if change.kind == ADDED or change.what == "file":
        return False
    data = subject.official.get(change.file)
    if data is None:
        return True
    if change.what == "key":
        return False
    return change.name not in accounting.forms_of(data)


def is_taken(change: CodeChange) -> bool:
    """Whether it is new data that every run has as it is: a setting, or a table, which only changed code asks for."""
    if change.kind != ADDED:
        return False
    if change.what == "key":
        first = change.name.partition(".")[0]
        if change.file == "config.yaml":
            return first not in READ_BY_HYDRA
        return change.file == "dreamerv3/configs.yaml" and first == "defaults"
    return change.what == "table"


def of_what_is_missing(result: Result, lacking: Collection[str]) -> Result:
    """A gate that could not judge what the reference with our patches has: unproved, not merely not judged."""
    gone = sorted(result.missing & set(lacking))
    if result.outcome != NOT_JUDGED or not gone:
        return result
    detail = f"{result.detail}; the official code with the same patches has it"
    return replace(result, outcome=UNPROVED, detail=detail)
