"""What a forked process of a gate does beside its work, as it was told: count the lines that it executes, take notes
of what it took, stay within its time, end where its trace or one of its cases first parts from what is expected.
"""

import ast
import builtins
import importlib.abc
import importlib.machinery
import json
import os
import resource
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tdmpc2_lean.parsing import parse
from tdmpc2_lean.validation.gates import cases, trace

LEAST, TIMES = 15.0, 5  # seconds of processor time that a case may take, and how many times what it took
COUNTED = "__tdmpc2_lean_counted__"  # the name of the function that counts, among the built-in ones
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
    with counting(Path(request["code_dir"]), request["shim"]) as lines:
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
def counting(code_dir: Path, shim: str | None = None) -> Iterator[dict[str, set[int]]]:
    """The first lines of the statements of a folder's files that are executed while the body runs: posix path -> lines.

    Modules that the body imports from there count each statement, which costs them little, where a tracing function
    would be called for every function of every library. shim: the module that reads them, which the body installs.
    """
    lines: dict[str, set[int]] = {}
    setattr(builtins, COUNTED, lambda name, line: lines.setdefault(name, set()).add(line))
    reader = importlib.import_module(shim) if shim else None
    finder = CountedFinder(code_dir, getattr(reader, "read", None))
    if reader is None:
        sys.meta_path.insert(0, finder)
    else:  # whose own finder would come before this one
        reader.install = lambda _: sys.meta_path.insert(0, finder)
    yield lines


class CountedFinder(importlib.abc.MetaPathFinder):
    """Finds the modules below a folder; read: what a shim does to a module's tree."""

    def __init__(self, code_dir: Path, read):
        self.code_dir, self.read = Path(code_dir).resolve(), read

    def find_spec(self, fullname, path=None, target=None):
        places = [str(self.code_dir)] if path is None else path
        spec = importlib.machinery.PathFinder.find_spec(fullname, places)
        if spec is None or not spec.origin or self.code_dir not in Path(spec.origin).resolve().parents:
            return None
        spec.loader = CountedLoader(fullname, spec.origin)
        spec.loader.code_dir, spec.loader.read = self.code_dir, self.read
        return spec


class CountedLoader(importlib.machinery.SourceFileLoader):
    """Compiles a module whose every statement is counted before it is executed; never uses a bytecode cache."""

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        tree = parse(self.get_data(path), path)
        tree = self.read(tree) if self.read else tree
        tree = Counted(Path(path).resolve().relative_to(self.code_dir).as_posix()).visit(tree)
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


class Counted(ast.NodeTransformer):
    """Puts a call before each statement of a file; `name` is the file's."""

    def __init__(self, name: str):
        self.name = name

    def visit(self, node: ast.AST) -> ast.AST:
        for part in ("body", "orelse", "finalbody"):
            body = getattr(node, part, None)
            if isinstance(body, list):
                setattr(node, part, self.with_calls(body))
        return self.generic_visit(node)

    def with_calls(self, body: list[ast.stmt]) -> list[ast.stmt]:
        found = []
        for number, statement in enumerate(body):
            is_first = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
            is_docstring = number == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not is_first and not is_docstring:
                arguments = [ast.Constant(self.name), ast.Constant(statement.lineno)]
                call = ast.Expr(ast.Call(ast.Name(COUNTED, ast.Load()), arguments, []))
                found.append(ast.copy_location(call, statement))
            found.append(statement)
        return found


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
