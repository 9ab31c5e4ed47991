"""Training whose traces gates compare: once per code folder and arguments, in a process of its own each."""

import contextvars
import dataclasses
import itertools
import json
import shutil
import tempfile
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tdmpc2_lean.validation.gates import accounting, cpu_shim, executed, jax_shim, process, trace
from tdmpc2_lean.validation.gates import kept as keeping


@dataclasses.dataclass(frozen=True)
class Tracing:
    """How training on an upstream's code is traced.

    function: `module:function` that trains and writes a trace. stack: what its process sets up before.
    shim: a module whose `install` makes official code run that does not run here as it is written; `is_needed` says
    whether a code folder needs it, and `how` what tables say of the folder then.
    """

    function: str
    stack: process.Stack
    shim: str
    is_needed: Callable[[Path], bool]
    how: Callable[[Path], str]

    def shim_for(self, code_dir: Path) -> str | None:
        return self.shim if self.is_needed(code_dir) else None


TDMPC2 = Tracing(
    "tdmpc2_lean.validation.gates.trace_tdmpc2:train",
    process.TORCH,
    "tdmpc2_lean.validation.gates.cpu_shim",
    lambda code_dir: bool(cpu_shim.needs(code_dir)),
    lambda code_dir: ", ".join(cpu_shim.needs(code_dir).values()),
)
DREAMERV3 = Tracing(
    "tdmpc2_lean.validation.gates.trace_dreamerv3:train",
    process.JAX,
    "tdmpc2_lean.validation.gates.jax_shim",
    jax_shim.is_needed,
    lambda code_dir: "jax.jit taking arguments by position as in JAX 0.5",
)


# Whether all that is asked of comparisons is the first divergence, as of mutants: the subject's run then ends there.
early: contextvars.ContextVar[bool] = contextvars.ContextVar("early", default=False)


class TracedRuns:
    """Trains at most once per code folder and arguments, and keeps the traces in a folder until it is closed.

    kept: code folders whose traces are also kept in the cache, by all that they depend on, and taken from there: those
    of references. packages: whose versions count then.
    """

    def __init__(self, budget, tracing: Tracing = TDMPC2, kept: Collection[Path] = (), packages: Sequence[str] = ()):
        self.kept, self.packages = frozenset(kept), tuple(packages)
        self.budget = budget
        self.tracing = tracing
        self.folder = tempfile.TemporaryDirectory(prefix="tdmpc2-lean-traces-")
        self.traces: dict = {}
        self.answers: dict = {}
        self.met: dict = {}  # marks of the subject (see `executed`) that were met, by trace
        self.numbers = itertools.count()
        self.lock, self.locks = threading.Lock(), {}

    def close(self) -> None:
        self.folder.cleanup()

    def trace_of(self, code_dir: Path, dump_at: int | None = None, expected: Path | None = None, **arguments) -> Path:
        """The trace of training `code_dir`'s code; raises process.ChildFailed where it cannot run.

        expected: a trace; the run, and its trace, may end with the first event that is another there.
        """
        key = (code_dir, dump_at, repr(sorted(arguments.items())))
        if key not in self.traces and expected is not None:
            key = (*key, expected)
        with self.lock:
            of_key = self.locks.setdefault(key, threading.Lock())
        with of_key:
            return self._trace_of(key, code_dir, dump_at, expected, arguments)

    def _trace_of(self, key, code_dir: Path, dump_at: int | None, expected: Path | None, arguments: dict) -> Path:
        if key not in self.traces:
            path = Path(self.folder.name) / f"{next(self.numbers)}.jsonl"
            tracing, shim = self.tracing, self.tracing.shim_for(code_dir)
            budget = dataclasses.asdict(self.budget)
            keepable = code_dir in self.kept and dump_at is None and expected is None
            facts = self.facts_of(code_dir, shim, arguments) if keepable else None
            with executed.collected() as met:
                if facts is None or not self.recalled(facts, path):
                    self.answers[path] = process.call(
                        tracing.function,
                        code_dir,
                        shim,
                        tracing.stack,
                        expected=expected,
                        trace=str(path),
                        budget=budget,
                        dump_at=dump_at,
                        **arguments,
                    )
                    if facts is not None:
                        keeping.keep("traces", facts, lambda folder: self.write(folder, path))
            self.traces[key], self.met[path] = path, frozenset(met)
        executed.met_again(self.met[self.traces[key]])
        return self.traces[key]

    def facts_of(self, code_dir: Path, shim: str | None, arguments: dict) -> dict:
        """What a trace depends on."""
        return keeping.surroundings(self.packages) | {
            "function": self.tracing.function,
            "shim": shim,
            "code": keeping.hash_of_files(accounting.read_code(code_dir, accounting.data_in(code_dir))),
            "budget": dataclasses.asdict(self.budget),
            "arguments": repr(sorted(arguments.items())),
        }

    def recalled(self, facts: dict, path: Path) -> bool:
        """Takes a trace and its answer from the cache; False where it is not there."""
        found = keeping.recall("traces", facts)
        if found is None:
            return False
        shutil.copyfile(found[0] / "trace.jsonl", path)
        self.answers[path] = json.loads((found[0] / "answer.json").read_text(encoding="utf-8"))
        return True

    def write(self, folder: Path, path: Path) -> None:
        """Puts a trace and its answer into a folder."""
        shutil.copyfile(path, folder / "trace.jsonl")
        (folder / "answer.json").write_text(json.dumps(self.answers[path]), encoding="utf-8")

    def answer_of(self, code_dir: Path, **arguments) -> dict:
        """What training `code_dir`'s code returned."""
        return self.answers[self.trace_of(code_dir, **arguments)]

    def compare(
        self,
        reference: Path,
        subject: Path,
        of_reference: dict | None = None,
        of_subject: dict | None = None,
        to_first: bool = False,
        more_may_be_logged: bool = False,
    ) -> tuple[int, trace.Divergence | None]:
        """Events compared and the first divergence of reference and subject, with its size and both values.

        reference, subject: code folders. of_reference, of_subject: the arguments of their training. to_first: only
        where the first divergence is; the subject's run ends there. more_may_be_logged: as of `trace.compare`.
        """
        sides = ((reference, of_reference or {}), (subject, of_subject or {}))
        if to_first or early.get():
            assert sides[0] != sides[1], "a gate that compares a thing with itself proves nothing"
            first = self.trace_of(reference, **sides[0][1])
            events, here = trace.compare(first, self.trace_of(subject, None, first, **sides[1][1]), more_may_be_logged)
        else:
            events, here = trace.compare(*self._traces_of(sides), more_may_be_logged)
        if here is not None and not to_first and here.largest is None and not here.reference:
            dumps = (path.with_suffix(".dump") for path in self._traces_of(sides, here.event))
            here = trace.compare_dumps(here, *dumps)
        return events, here

    def _traces_of(self, sides, dump_at: int | None = None) -> list[Path]:
        """The traces of both sides, run at the same time: each is a process with one thread."""
        assert sides[0] != sides[1], "a gate that compares a thing with itself proves nothing"
        with ThreadPoolExecutor(len(sides)) as pool:
            return list(pool.map(executed.in_context(lambda side: self.trace_of(side[0], dump_at, **side[1])), sides))
