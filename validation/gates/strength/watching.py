"""What a forked process of a gate does beside its work, as it was told: count the lines that it executes, take notes
of what it took, stay within its time, end where its trace first parts from the one expected."""

import json
import os
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tdmpc2_lean.validation.gates import trace

NOT_ASKED = {"trace", "dump_at", "folder"}  # arguments that say where to write, not what to compute


def asked(request: dict) -> str:
    """What a request asks to be computed, of whatever code."""
    kept = {name: value for name, value in request["arguments"].items() if name not in NOT_ASKED}
    return json.dumps([request["function"], kept], sort_keys=True)


@contextmanager
def watched(request: dict, seconds: float | None, notes: str | None, expected: str | None) -> Iterator[None]:
    """While the body serves the request, what this process was told is done; see `forks.Instructions`."""
    if seconds:
        spent = used()
        limit = int(spent + seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    if expected and request["arguments"].get("dump_at") is None:
        end_at_first_difference(request, Path(expected))
    if notes is None:
        yield
        return
    before = used()
    with counting(Path(request["code_dir"])) as lines:
        yield
    note = {
        "asked": asked(request),
        "seconds": used() - before,
        "lines": {file: sorted(found) for file, found in lines.items()},
    }
    Path(notes, f"{os.getpid()}.json").write_text(json.dumps(note), encoding="utf-8")


def used() -> float:
    """Seconds of processor time that this process and the children that it waited for took."""
    return sum(
        resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )


@contextmanager
def counting(code_dir: Path) -> Iterator[dict[str, set[int]]]:
    """The lines of a folder's files that are executed while the body runs: posix path below it -> line numbers."""
    lines: dict[str, set[int]] = {}
    root, names = f"{code_dir}{os.sep}", {}

    def name_of(filename: str) -> str | None:
        if filename not in names:
            inside = filename.startswith(root) and filename.endswith(".py")
            names[filename] = Path(filename).relative_to(code_dir).as_posix() if inside else None
        return names[filename]

    def enter(frame, event, _):
        name = name_of(frame.f_code.co_filename)
        if name is None:
            return None
        found = lines.setdefault(name, set())

        def step(frame, event, _):
            if event == "line":
                found.add(frame.f_lineno)
            return step

        return step

    threading.settrace(enter)
    sys.settrace(enter)
    try:
        yield lines
    finally:
        sys.settrace(None)
        threading.settrace(None)


def end_at_first_difference(request: dict, expected: Path) -> None:
    """From now on this process ends, with an answer, once the trace that it is asked for is another than expected."""
    this, answer = Path(request["arguments"]["trace"]), Path(request["answer"])
    lines = expected.open(encoding="utf-8")
    next(lines, None)
    record = trace.TraceRecorder.record

    class Tee:
        """The recorder's file, which also compares what is written to it with the lines expected."""

        def __init__(self, file):
            self.file = file

        def write(self, text: str) -> None:
            self.file.write(text)
            if same(text, next(lines, "")):
                return
            self.file.close()
            answer.write_text(json.dumps({"ended": "at the first difference"}), encoding="utf-8")
            sys.stdout.flush()
            os._exit(0)

        def close(self) -> None:
            self.file.close()

    def recorded(self, step, what, tensors):
        if not isinstance(self.file, Tee) and Path(self.file.name) == this:
            self.file = Tee(self.file)
        return record(self, step, what, tensors)

    trace.TraceRecorder.record = recorded


def same(found: str, expected: str) -> bool:
    """Whether two lines of traces are the same event by what `trace.compare` compares."""
    if found == expected:
        return True
    if not expected.strip():
        return False
    ours, theirs = json.loads(found), json.loads(expected)
    return all(ours[name] == theirs[name] for name in ("step", "what", "digest"))
