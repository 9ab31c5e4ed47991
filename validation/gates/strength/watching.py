"""What a forked process of a gate does beside its work, as it was told: count the lines that it executes, take notes
of what it took, stay within its time, end where its trace or one of its cases first parts from what is expected.
"""

import json
import os
import resource
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tdmpc2_lean.validation.gates import cases, trace

LEAST, TIMES = 15.0, 5  # seconds of processor time that a case may take, and how many times what it took
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
    """Dictionaries that hold, once cases were run, the lines that each executed and its answer, by case.

    Each is run alone, as it is when mutants are judged: a case that rested on what others leave behind in the process
    would answer otherwise than the reference, which runs all in one, and the gate would fail.
    """
    by_case: dict[str, dict[str, list[int]]] = {}
    answers: dict[str, dict] = {}
    recorded = cases.recorded

    def noted(table, names=None):
        before = {file: set(found) for file, found in lines.items()}  # such as of modules imported for all

        def made(name):
            for found in lines.values():
                found.clear()
            answer = recorded(table, [name])[name]
            return {"answer": answer, "lines": {file: sorted(found) for file, found in lines.items()}}

        for name in names or table:
            answer = alone(lambda name=name: made(name))
            answers[name] = answer.get("answer", answer)
            found = answer.get("lines", {})
            by_case[name] = {f: sorted(before.get(f, set()) | set(found.get(f, ()))) for f in {**before, **found}}
            for file, some in by_case[name].items():
                lines.setdefault(file, set()).update(some)
        return dict(answers)

    cases.recorded = noted
    return by_case, answers


def end_at_first_case_that_differs(expected: dict[str, dict], named: list[str]) -> None:
    """From now on only the cases named are run, cheapest first, each alone, and none after the first that differs.

    Those left out answer as expected: the verdict is on those that ran.
    """
    recorded = cases.recorded

    def ended_early(table, names=None):
        answers = dict(expected)
        chosen = [name for name in names or table if name in named]
        for name in sorted(chosen, key=lambda name: expected[name]["seconds"]):
            seconds = LEAST + TIMES * expected[name]["seconds"]
            answers[name] = alone(lambda name=name: recorded(table, [name])[name], seconds)
            if any(answers[name][part] != expected[name][part] for part in ("events", "lacks", "raised")):
                return answers
        return answers

    cases.recorded = ended_early


def alone(make, seconds: float | None = None) -> dict:
    """What `make` returns in a process forked for it; seconds: of processor time that it may take, None for no end.

    Where that process ends without an answer, the answer of a case that raised.
    """
    sys.stdout.flush()
    with tempfile.NamedTemporaryFile(prefix="answer-", suffix=".json", dir=os.getcwd()) as file:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                if seconds:
                    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 6))
                Path(file.name).write_text(json.dumps(make()), encoding="utf-8")
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                with suppress(Exception):
                    sys.stdout.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        answer = Path(file.name).read_text(encoding="utf-8")
    if code == 0 and answer:
        return json.loads(answer)
    return {"events": [], "lacks": None, "raised": f"its process ended with {code}", "seconds": 0.0}
