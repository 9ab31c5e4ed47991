"""What a forked process of a gate does beside its work, as it was told: count the lines that it executes, take notes
of what it took, stay within its time, end where its trace or one of its cases first parts from what is expected.
"""

import json
import os
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tdmpc2_lean.validation.gates import cases, trace

NOT_ASKED = {"trace", "dump_at", "folder"}  # arguments that say where to write, not what to compute


def asked(request: dict) -> str:
    """What a request asks to be computed, of whatever code."""
    kept = {name: value for name, value in request["arguments"].items() if name not in NOT_ASKED}
    return json.dumps([request["function"], kept], sort_keys=True)


@contextmanager
def watched(
    request: dict,
    seconds: float | None,
    notes: str | None,
    expected: str | None,
    of_cases: list | None,
) -> Iterator[None]:
    """While the body serves the request, what this process was told is done; see `forks.Instructions`.

    expected: a trace. of_cases: a file of answers by case, and the names of those that may differ.
    """
    if seconds:
        limit = int(used() + seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    if expected and request["arguments"].get("dump_at") is None:
        end_at_first_difference(request, Path(expected))
    if of_cases:
        file, named = of_cases
        end_at_first_case_that_differs(json.loads(Path(file).read_text(encoding="utf-8")), named)
    if notes is None:
        yield
        return
    before = used()
    with counting(Path(request["code_dir"])) as lines:
        by_case, answers = note_cases(lines)
        yield
    note = {
        "asked": asked(request),
        "seconds": used() - before,
        "lines": {file: sorted(found) for file, found in lines.items()},
        "by_case": by_case,
        "answers": answers,
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


def note_cases(lines: dict[str, set[int]]) -> tuple[dict, dict]:
    """Dictionaries that hold, once cases were run, the lines that each executed and its answer, by case."""
    by_case: dict[str, dict[str, list[int]]] = {}
    answers: dict[str, dict] = {}
    recorded = cases.recorded

    def noted(table, names=None):
        for name in names or table:
            earlier = {file: set(found) for file, found in lines.items()}
            for found in lines.values():
                found.clear()
            answers.update(recorded(table, [name]))
            by_case[name] = {file: sorted(found) for file, found in lines.items() if found}
            for file, found in earlier.items():
                lines.setdefault(file, set()).update(found)
        return dict(answers)

    cases.recorded = noted
    return by_case, answers


def end_at_first_case_that_differs(expected: dict[str, dict], named: list[str]) -> None:
    """From now on no case is run after the first one that differs from what is expected, or after the last one named.

    Those left out answer as expected: the verdict is on those that ran. The cases named are tried first, alone, in a
    process forked for that; only where one differs there all are run in their order, so that a case that rests on what
    earlier ones left behind in the process is not taken for one that differs.
    """
    recorded = cases.recorded

    def first_that_differs(table, names: list[str], answers: dict[str, dict]) -> str | None:
        for name in names:
            answers |= recorded(table, [name])
            if any(answers[name][part] != expected[name][part] for part in ("events", "lacks", "raised")):
                return name
        return None

    def ended_early(table, names=None):
        order, answers = list(names or table), dict(expected)
        chosen = [name for name in order if name in named]
        if not tried_apart(lambda: first_that_differs(table, chosen, {})):
            return answers
        first_that_differs(table, order[: order.index(chosen[-1]) + 1], answers)
        return answers

    cases.recorded = ended_early


def tried_apart(differs) -> bool:
    """Whether `differs`, called in a process forked for it, returns anything, or ends that process."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = int(differs() is not None)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0
