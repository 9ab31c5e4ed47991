"""Cases: what a checkout's code answers to named inputs, recorded so that two checkouts can be compared bit by bit.

A gate of this kind has a table of cases, name -> function of a `Case`, which runs in a process of its own on one
checkout's code (`recorded`) and records events. `judged` runs them on the subject and on its reference and gives a
result per case. Nothing of the checkout is changed; what it calls is wrapped on modules and instances.

What the reference answers is computed once and kept (`kept`): its key is everything that it depends on.
"""

import dataclasses
import hashlib
import json
import platform
import random
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tdmpc2_lean import places
from tdmpc2_lean.files import atomic_write
from tdmpc2_lean.validation.gates import process
from tdmpc2_lean.validation.gates.identity import NO_REFERENCE, reference_name
from tdmpc2_lean.validation.gates.results import FAIL, NOT_JUDGED, PASS, Result, failed_to_run
from tdmpc2_lean.validation.gates.subjects import GateSubject
from tdmpc2_lean.validation.gates.trace import as_array, exact
from tdmpc2_lean.validation.gates.traced_runs import TDMPC2, Tracing
from tdmpc2_lean.versions import versions

SAMPLE = 48  # elements of an array that are written out beside its digest
MOST_KEPT = 60  # answers of references; the oldest go first
NAMED = 8  # differing names that a detail lists


class Lacking(Exception):
    """The checkout does not have what a case is about; the message says what."""


class Case:
    """Records the events of one case: named tensors, arrays, numbers and texts."""

    def __init__(self):
        self.events: list[dict] = []
        self.without: list[str] = []

    def record(self, what: str, values: Mapping | None = None, **more) -> None:
        """what: the quantity. values: name -> tensor, array or number; everything else counts by its `repr`."""
        named = {**(values or {}), **more}
        self.events.append({"what": what, "values": {str(name): written(value) for name, value in named.items()}})

    def lack(self, what: str) -> None:
        """The checkout has nothing for this part of the case; the rest of it goes on, and the result says so."""
        if what not in self.without:
            self.without.append(what)
        self.record(f"the checkout lacks {what}")

    def find(self, owner, *names: str) -> list:
        """The attributes of `owner`, None for one that is not there, which is recorded."""
        found = [getattr(owner, name, None) for name in names]
        there = {name: "missing" if value is None else "there" for name, value in zip(names, found, strict=True)}
        self.record(f"what {getattr(owner, '__name__', type(owner).__name__)} has", there)
        return found

    def random_states(self) -> None:
        """Records the states of Torch's, NumPy's and Python's global generators."""
        from tdmpc2_lean.validation.gates.trace_tdmpc2 import random_states

        self.record("random states", random_states())


def written(value) -> list:
    """[kind, shape, sha256, sample] of an array, ["text", text] of anything else."""
    if isinstance(value, (bool, int, float)) or hasattr(value, "dtype"):
        array = as_array(value)
        if array.dtype.kind in "biuf":
            flat = array.ravel()
            sample = flat if flat.size <= SAMPLE else flat[:: -(-flat.size // SAMPLE)]
            return [array.dtype.str, list(array.shape), hashlib.sha256(array.tobytes()).hexdigest(), exact(sample)]
    return ["text", value if isinstance(value, str) else repr(value)]


def seeded(seed: int = 0) -> None:
    """Seeds Torch, NumPy and Python; the checkout's own seeding is under test."""
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def recorded(cases: Mapping[str, Callable[[Case], None]], names: list[str] | None = None) -> dict:
    """Runs cases; name -> {"events", "lacks": what is missing or None, "raised": the error or None, "seconds"}.

    Runs in a process of its own. What was recorded before an error counts.
    """
    answers = {}
    for name in names or cases:
        case, started, lacks, raised = Case(), time.time(), None, None
        seeded()
        try:
            cases[name](case)
        except Lacking as error:
            lacks = str(error)
        except (Exception, SystemExit) as error:  # of the code under test
            traceback.print_exc()
            raised = f"{type(error).__name__}: {error}"
        seconds = round(time.time() - started, 2)
        answers[name] = {"events": case.events, "lacks": lacks, "raised": raised, "seconds": seconds}
        answers[name]["without"] = case.without
    return answers


def judged(
    gate: str,
    function: str,
    subject: GateSubject,
    tracing: Tracing = TDMPC2,
    names: list[str] | None = None,
    own_settings: Mapping[str, list[str]] | None = None,
    covers: Mapping[str, frozenset[str]] | None = None,
) -> Iterator[Result]:
    """A result per case of subject against reference, the smallest prefix of the series that runs.

    function: `module:function` that returns what `recorded` does. names: the cases; default all.
    own_settings: keys that the subject's configuration may have beyond the reference's, with the values (as text) that
    they may have.
    covers: {case: the changes that it would have seen}, for those of values that no statement executes.
    """
    started = time.time()
    lengths = range(len(subject.series.patches) if subject.series else 1)
    why = ""
    for length in lengths:
        try:
            reference = kept(function, subject.prefix(length), tracing, names)
            break
        except process.ChildFailed as failure:
            why, last = why or failure.reason, failure
    else:
        yield failed_to_run(gate, last, started, NO_REFERENCE)
        return
    against = reference_name(subject, length, why, tracing)
    started = time.time()
    try:
        shim = tracing.shim_for(subject.code_dir)
        found = process.call(function, subject.code_dir, shim, tracing.stack, names=names)
    except process.ChildFailed as failure:
        yield failed_to_run(gate, failure, started)
        return
    for name, expected in reference.items():
        without_own_settings(expected, found[name], own_settings or {})
        result = verdict(f"{gate}/{name}", expected, found[name], against)
        yield dataclasses.replace(result, covers=(covers or {}).get(name, frozenset()))


def without_own_settings(expected: Mapping, found: Mapping, own: Mapping[str, list[str]]) -> None:
    """Takes out of the subject's configurations what our patches add to them, where it has the value that it may."""
    for was, now in zip(expected["events"], found["events"], strict=False):
        if "configuration" in now["what"]:
            for name in own.keys() & now["values"].keys() - was["values"].keys():
                if now["values"][name][1] in own[name]:
                    del now["values"][name]


def verdict(gate: str, expected: Mapping, found: Mapping, against: str) -> Result:
    """The result of one case."""
    seconds = found["seconds"]
    if expected["lacks"] is not None and found["lacks"] is not None:
        return Result(gate, NOT_JUDGED, f"the checkout lacks {found['lacks']}", {}, seconds)
    if expected["raised"] is not None:
        # Nothing is proved by two errors, however equal.
        reason = f"cannot run on this stack: the reference raises {expected['raised']}"
        return Result(gate, NOT_JUDGED, reason, {"events": len(expected["events"])}, seconds)
    events, here = first_difference(expected, found)
    if here is None:
        count = sum(len(event["values"]) for event in expected["events"])
        figures = {"events": events, "values": count}
        without = f"; without {', '.join(expected['without'])}, which the checkout lacks" if expected.get("without") else ""
        told = f"{count} values of {events} events equal, bit for bit{without}"
        return Result(gate, PASS, told, figures, seconds)
    figures = {"event": events, "differing": here[1]}
    return Result(gate, FAIL, f"first divergence at {here[0]}; reference: {against}", figures, seconds)


def first_difference(expected: Mapping, found: Mapping) -> tuple[int, tuple[str, list[str]] | None]:
    """Events that are equal, and what differs in the next one, as a sentence and as names; None: nothing."""
    pairs = zip(expected["events"], found["events"], strict=False)
    for number, (was, now) in enumerate(pairs):
        if was == now:
            continue
        if was["what"] != now["what"]:
            said = f"event {number}: reference {was['what']}, subject {now['what']}"
            return number, (said, [was["what"]])
        names = [name for name in {**was["values"], **now["values"]} if differ(was, now, name)]
        if not names:
            return number, (f"event {number}, {was['what']}: the order of its values", [was["what"]])
        told = f"{names[0]}: {both(was['values'].get(names[0]), now['values'].get(names[0]))}"
        if names[1:]:
            more = len(names) - 1 - NAMED
            told += f"; also {', '.join(names[1 : NAMED + 1])}" + (f" and {more} more" if more > 0 else "")
        return number, (f"event {number}, {was['what']}, {told}", names)
    count = min(len(expected["events"]), len(found["events"]))
    ends = [end(side, count) for side in (expected, found)]
    if ends[0] != ends[1]:
        return count, (f"event {count}: reference {ends[0]}, subject {ends[1]}", ["end"])
    return count, None


def end(side: Mapping, count: int) -> str:
    """What comes after the events that both sides have."""
    if len(side["events"]) > count:
        return side["events"][count]["what"]
    if side["raised"] is not None:
        return f"raised {side['raised']}"
    return "lacks " + side["lacks"] if side["lacks"] is not None else "ended"


def differ(was: Mapping, now: Mapping, name: str) -> bool:
    return was["values"].get(name) != now["values"].get(name)


def both(was: list | None, now: list | None) -> str:
    """Two written values as text: for arrays the largest difference among the elements written out."""
    if was is None or now is None:
        return f"reference {shown(was)}, subject {shown(now)}"
    if "text" in (was[0], now[0]) or was[:2] != now[:2]:
        return f"reference {shown(was)}, subject {shown(now)}"
    pairs = [(number(a), number(b)) for a, b in zip(was[3], now[3], strict=True)]
    unequal = [(a, b) for a, b in pairs if a != b and not (a != a and b != b)]
    if not unequal:
        return "elements differ that are not written out"
    a, b = max(unequal, key=lambda pair: gap(*pair))
    return f"largest difference {gap(a, b):.3g}: reference {a!r}, subject {b!r}"


def gap(a: float, b: float) -> float:
    size = abs(a - b)
    return size if size == size else float("inf")


def number(x) -> float:
    return float.fromhex(x) if isinstance(x, str) else x


def shown(value: list | None) -> str:
    """A written value as text."""
    if value is None:
        return "has none"
    if value[0] == "text":
        return value[1] if len(value[1]) <= 120 else value[1][:117] + "..."
    values = [number(x) for x in value[3]]
    return repr(values[0]) if len(values) == 1 and not value[1] else f"{value[0]} of shape {tuple(value[1])}"


def kept(function: str, code_dir: Path, tracing: Tracing, names: list[str] | None) -> dict:
    """What `function` answers on a code folder, computed unless the cache has it.

    The key is a hash of all that an answer depends on: the checkout's files, the gates' own code, the versions of
    what computes, and the processor, whose instructions decide how sums are rounded.
    """
    key = hashlib.sha256()
    told = [function, names, versions(), platform.machine(), processor()]
    key.update(json.dumps(told, sort_keys=True).encode())
    for folder, pattern in ((code_dir, "*"), (Path(__file__).parent, "*.py")):
        files = folder.rglob(pattern) if folder == code_dir else folder.glob(pattern)
        for path in sorted(path for path in files if path.suffix in {".py", ".yaml", ".xml"}):
            key.update(path.relative_to(folder).as_posix().encode() + b"\0")
            key.update(hashlib.sha256(path.read_bytes()).digest())
    path = places.cache_dir() / "gates" / "cases" / f"{key.hexdigest()[:32]}.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        pass
    answer = process.call(function, code_dir, tracing.shim_for(code_dir), tracing.stack, names=names)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, json.dumps(answer))
    for old in sorted(path.parent.glob("*.json"), key=lambda one: one.stat().st_mtime, reverse=True)[MOST_KEPT:]:
        old.unlink(missing_ok=True)
    return answer


def processor() -> str:
    """The processor's name and instructions, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
