"""Traces: a run's record, event by event, precise enough to compare two runs bit by bit.

A trace is a JSONL file. Its first line is a header, such as {"versions": ...}. Every further line is an event:

    step      agent steps taken so far
    what      the quantity, such as `action`, `batch`, `losses`, `parameters`
    digest    sha256 over names, dtypes, shapes and bytes of the event's tensors
    values    the tensors themselves as nested lists, where they are small; floats as hexadecimal, so exact
    digests   of metrics alone: the digest of each by its name, because a fork may log one more

Large quantities (parameters, optimiser states) are kept as digests only. When two traces part at such an event the
run is repeated with `dump_at`, which writes the event's tensors to a file and ends the run there.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SMALL = 128  # elements of an event that are written out
METRICS = ("losses", "evaluation", "logged")  # what the quantities that are only reported begin with


class Dumped(Exception):
    """The event asked for by `dump_at` was written; the run need not go on."""


class TraceRecorder:
    """Writes a trace. `record` takes named arrays or tensors; numbers count as arrays of no dimension."""

    def __init__(self, path: Path, header: Mapping, dump_at: int | None = None):
        self.file = open(path, "w", encoding="utf-8")
        self.dump_path = Path(path).with_suffix(".dump")
        self.dump_at = dump_at
        self.events = 0
        self.file.write(json.dumps(dict(header)) + "\n")

    def record(self, step: int, what: str, tensors: Mapping) -> None:
        arrays = {name: as_array(value) for name, value in tensors.items()}
        if self.events == self.dump_at:
            import numpy as np

            with open(self.dump_path, "wb") as dump:
                np.savez(dump, **arrays)
            self.close()
            raise Dumped
        event = {"step": step, "what": what, "digest": digest(arrays)}
        if sum(array.size for array in arrays.values()) <= SMALL:
            event["values"] = {name: exact(array) for name, array in arrays.items()}
        if what.startswith(METRICS):
            event["digests"] = {name: digest({name: array}) for name, array in arrays.items()}
        self.file.write(json.dumps(event) + "\n")
        self.events += 1

    def close(self) -> None:
        self.file.close()


class SwitchedRecorder(TraceRecorder):
    """Records only while it is `on`: bringing a resumed run back is no part of the run."""

    def __init__(self, path: Path, header: Mapping, dump_at: int | None = None, on: bool = True):
        super().__init__(path, header, dump_at)
        self.on = on

    def record(self, step: int, what: str, tensors: Mapping) -> None:
        if self.on:
            super().record(step, what, tensors)


def as_array(value):
    """A NumPy array of what may be a tensor, an array or a number."""
    import numpy as np

    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value)


def digest(arrays: Mapping) -> str:
    """sha256 over names, dtypes, shapes and bytes, in the order given."""
    whole = hashlib.sha256()
    for name, array in arrays.items():
        whole.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
        whole.update(array.tobytes())
    return whole.hexdigest()


def exact(array):
    """Nested lists of a small array, floats written in hexadecimal."""
    if array.dtype.kind == "f":
        return [float(x).hex() for x in array.ravel()]
    return [x.item() for x in array.ravel()]


@dataclass(frozen=True)
class Divergence:
    """The first place at which two traces part.

    event: number of the event, from 0; step: agent steps taken; what: the quantity that differs.
    name: the tensor within the quantity, where known; largest: largest absolute difference, NaN where undefined;
    reference, subject: the values there, as text.
    """

    event: int
    step: int
    what: str
    name: str = ""
    largest: float | None = None
    reference: str = ""
    subject: str = ""

    def __str__(self) -> str:
        where = f"step {self.step}, {self.what}" + (f" {self.name}" if self.name else "")
        size = "" if self.largest is None else f", largest difference {self.largest:.3g}"
        both = f": reference {self.reference}, subject {self.subject}" if self.reference or self.subject else ""
        return f"first divergence at {where} (event {self.event}){size}{both}"


def read_events(path: Path) -> Iterator[dict]:
    """The events of a trace, without its header."""
    with open(path, encoding="utf-8") as lines:
        next(lines, None)
        for line in lines:
            yield json.loads(line)


def more_metrics(expected: dict, found: dict) -> set[str]:
    """Names of the metrics that an event of a subject has beside those of its reference, all of which are equal.

    Empty for any other event: one that lacks a metric, or has another value, differs.
    """
    was, now = expected.get("digests"), found.get("digests")
    if not was or not now or any(now.get(name) != one for name, one in was.items()):
        return set()
    return now.keys() - was.keys()


def added_metrics(reference: Path, subject: Path) -> list[str]:
    """What a subject logs beside the metrics of its reference, in traces that do not part otherwise: sorted names."""
    pairs = zip(read_events(reference), read_events(subject), strict=False)
    return sorted(set().union(*(more_metrics(expected, found) for expected, found in pairs)))


def compare(reference: Path, subject: Path, more_may_be_logged: bool = False) -> tuple[int, Divergence | None]:
    """Events compared, and where the two traces first part (None: nowhere, bit for bit).

    A trace that ends before the other parts there. more_may_be_logged: further metrics of the subject do not count, if
    those that the reference has are there and equal.
    """
    count = 0
    ours, theirs = read_events(subject), read_events(reference)
    while True:
        expected, found = next(theirs, None), next(ours, None)
        if expected is None and found is None:
            return count, None
        if expected is None or found is None:
            event = expected or found
            names = ("ended", event["what"]) if expected is None else (event["what"], "ended")
            return count, Divergence(count, event["step"], "length of the trace", "", None, *names)
        if (expected["step"], expected["what"]) != (found["step"], found["what"]):
            names = (f"{e['what']} at step {e['step']}" for e in (expected, found))
            return count, Divergence(count, expected["step"], "order of events", "", None, *names)
        if expected["digest"] != found["digest"] and not (more_may_be_logged and more_metrics(expected, found)):
            return count, _from_values(count, expected, found)
        count += 1


def _from_values(count: int, expected: dict, found: dict) -> Divergence:
    here = Divergence(count, expected["step"], expected["what"])
    if "values" not in expected or "values" not in found:
        return here
    was = {name: [_number(x) for x in values] for name, values in expected["values"].items()}
    now = {name: [_number(x) for x in values] for name, values in found["values"].items()}
    return largest_difference(here, was, now)


def _number(x):
    return float.fromhex(x) if isinstance(x, str) else x


def largest_difference(here: Divergence, reference: Mapping, subject: Mapping) -> Divergence:
    """`here` with the name, the size and both values of the largest difference between named arrays."""
    import numpy as np

    if list(reference) != list(subject):
        missing = sorted(set(reference) ^ set(subject)) or ["order of tensors"]
        both = (_there(arrays, missing[0]) for arrays in (reference, subject))
        return Divergence(here.event, here.step, here.what, missing[0], None, *both)
    worst = here
    for name in reference:
        was, now = np.atleast_1d(np.asarray(reference[name])), np.atleast_1d(np.asarray(subject[name]))
        if was.shape != now.shape:
            shapes = (f"shape {was.shape}", f"shape {now.shape}")
            return Divergence(here.event, here.step, here.what, name, None, *shapes)
        if was.tobytes() == now.tobytes():
            continue
        gap = np.abs(was.astype(np.float64) - now.astype(np.float64))
        gap = np.where(was == now, 0.0, gap)  # also equal infinities
        place = np.unravel_index(int(np.nanargmax(np.where(np.isnan(gap), np.inf, gap))), gap.shape)
        if worst.largest is None or not gap[place] <= worst.largest:
            index = f"{name}[{','.join(map(str, place))}]"
            values = (repr(was[place].item()), repr(now[place].item()))
            worst = Divergence(here.event, here.step, here.what, index, float(gap[place]), *values)
    return worst


def _there(arrays: Mapping, name: str) -> str:
    return "there" if name in arrays else "missing"


def compare_dumps(here: Divergence, reference: Path, subject: Path) -> Divergence:
    """`here` with name, size and values, read from two dumps of the event."""
    import numpy as np

    with np.load(reference) as was, np.load(subject) as now:
        return largest_difference(here, dict(was), dict(now))
