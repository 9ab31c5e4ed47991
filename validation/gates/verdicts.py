"""What the gates' results say of every change: equal on what was tried, different, or unproved.

Pure functions of the accounting, of what was executed and of results. A change is judged by the gates that compare the
subject with its reference; the code of our own patches, which no reference has, also by those that hold the subject
to the patches' promises.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from tdmpc2_lean.validation.gates import accounting
from tdmpc2_lean.validation.gates.accounting import ADDED, REMOVED, Change
from tdmpc2_lean.validation.gates.executed import Mark
from tdmpc2_lean.validation.gates.results import FAIL, NOT_JUDGED, PASS, UNPROVED, Result

# Keys of TD-MPC2's config.yaml that Hydra reads itself, so that no gate takes them from there.
READ_BY_HYDRA = ("defaults", "hydra")


def judged_changes(
    subject,
    results: Sequence[Result],
    comparing: Collection[str],
    marks: Sequence[Mark],
    executed: Mapping[str, Collection[int]],
) -> list[Result]:
    """One result for each change of a subject.

    results: of the gates, in their order. comparing: names of the gates that compare with the reference. executed:
    numbers of the marks that were met, by gate.
    """
    by_gate: dict[str, list[Result]] = {}
    for result in results:
        by_gate.setdefault(result.gate.partition("/")[0], []).append(result)
    passed = [
        name
        for name, found in by_gate.items()
        if not any(one.outcome in (FAIL, UNPROVED) for one in found) and any(one.outcome == PASS for one in found)
    ]
    failed = [name for name in comparing if any(one.outcome == FAIL for one in by_gate.get(name, ()))]
    return [
        judged_change(change, subject, by_gate, passed, failed, comparing, marks, executed)
        for change in subject.accounting.changes
    ]


def judged_change(change: Change, subject, by_gate, passed, failed, comparing, marks, executed) -> Result:
    """The result of one change; arguments as in `judged_changes`."""
    name = f"change/{change.id}"
    told = f"{change.kind}{': ' + change.summary if change.summary else ''}"
    own = [mark for mark in marks if mark.change == change.id]
    judges = [gate for gate in passed if gate in comparing or is_ours(change, subject)]
    covering = [one.gate for gate in judges for one in by_gate[gate] if one.outcome == PASS and change.id in one.covers]
    if covering:
        return Result(name, PASS, f"{told}; equal where it was compared: {', '.join(covering)}")
    if change.id in subject.accounting.unused:
        return Result(name, PASS, f"{told}; nothing that can run names it any more")
    if is_taken(change) and (using := [gate for gate in judges if gate in comparing]):
        return Result(name, PASS, f"{told}; equal on everything that was tried with it: {with_what(using, by_gate)}")
    met = {gate: {mark.number for mark in own} & set(executed.get(gate, ())) for gate in judges}
    seen = set().union(*met.values()) if met else set()
    missed = [mark for mark in own if mark.number not in seen]
    if own and not missed:
        using = [gate for gate, numbers in met.items() if numbers]
        return Result(
            name, PASS, f"{told}; executed and equal on everything that was tried: {with_what(using, by_gate)}"
        )
    different = [gate for gate in failed if {mark.number for mark in own} & set(executed.get(gate, ()))]
    if different:
        return Result(name, NOT_JUDGED, f"{told}; executed by {', '.join(different)}, which found a difference")
    return Result(name, UNPROVED, f"{told}; {why_unproved(change, own, missed, by_gate, executed)}")


def is_ours(change: Change, subject) -> bool:
    """Whether it is a change of what only our patches bring, so that no unpatched reference can judge it."""
    if change.kind == ADDED or change.what == "file":
        return False
    data = subject.official.get(change.file)
    if data is None:
        return True
    if change.what == "key":
        return False
    return change.name not in accounting.forms_of(data)


def is_taken(change: Change) -> bool:
    """Whether it is new data that every run takes as it is: a setting, or a table of a module that is imported."""
    if change.kind != ADDED:
        return False
    if change.what == "key":
        first = change.name.partition(".")[0]
        if change.file == "config.yaml":
            return first not in READ_BY_HYDRA
        return change.file == "dreamerv3/configs.yaml" and first == "defaults"
    return False


def with_what(gates: Iterable[str], by_gate: Mapping[str, Sequence[Result]]) -> str:
    """The gates and what each compared."""
    parts = []
    for gate in gates:
        details = [one.detail for one in by_gate[gate] if one.outcome == PASS]
        more = f" and {len(details) - 1} more" if len(details) > 1 else ""
        parts.append(f"{gate} ({details[0]}{more})")
    return "; ".join(parts)


def why_unproved(change: Change, own: Sequence[Mark], missed: Sequence[Mark], by_gate, executed) -> str:
    """Why no gate has judged a change, and what would exercise it as far as is known."""
    if not own:
        why = {"key": "no gate that ran resolved it", "table": "no gate that ran compared what is made of it"}.get(
            change.what, "gone, and something may still want it" if change.kind == REMOVED else "no gate can see it"
        )
    else:
        elsewhere = [gate for gate in by_gate if {mark.number for mark in own} & set(executed.get(gate, ()))]
        places = list(dict.fromkeys(mark.words for mark in missed))
        shown = ", ".join(places[:4]) + (f" and {len(places) - 4} more" if len(places) > 4 else "")
        why = "not executed by any gate that compares it" + (f": {shown}" if len(missed) < len(own) else "")
        if elsewhere and len(missed) == len(own):
            why += f" with the official code (only by {', '.join(elsewhere)})"
    return why + (f"; {change.exercised_by} would exercise it" if change.exercised_by else "")


def of_what_is_missing(result: Result, lacking: Collection[str]) -> Result:
    """A gate that could not judge what the reference with our patches has: unproved, not merely not judged."""
    gone = sorted(result.missing & set(lacking))
    if result.outcome != NOT_JUDGED or not gone:
        return result
    detail = f"{result.detail}; the official code with the same patches has it"
    return dataclasses.replace(result, outcome=UNPROVED, detail=detail)
