"""Training whose traces gates compare: once per code folder and arguments, in a process of its own each."""

import dataclasses
import itertools
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tdmpc2_lean.validation.gates import jax_shim, process, trace
from tdmpc2_lean.validation.gates.subjects import read_config


@dataclasses.dataclass(frozen=True)
class Tracing:
    """How training on an upstream's code is traced.

    function: `module:function` that trains and writes a trace. stack: what its process sets up before.
    shim: a module whose `install` makes official code run that does not run here as it is written; `is_needed` says
    whether a code folder needs it, and `how` what tables say then.
    """

    function: str
    stack: process.Stack
    shim: str
    is_needed: Callable[[Path], bool]
    how: str

    def shim_for(self, code_dir: Path) -> str | None:
        return self.shim if self.is_needed(code_dir) else None


# A checkout of TD-MPC2 without the setting `device` names CUDA in its code.
TDMPC2 = Tracing(
    "tdmpc2_lean.validation.gates.trace_tdmpc2:train",
    process.TORCH,
    "tdmpc2_lean.validation.gates.cpu_shim",
    lambda code_dir: "device" not in read_config(code_dir),
    "its 'cuda:0' read as 'cpu'",
)
DREAMERV3 = Tracing(
    "tdmpc2_lean.validation.gates.trace_dreamerv3:train",
    process.JAX,
    "tdmpc2_lean.validation.gates.jax_shim",
    jax_shim.is_needed,
    "jax.jit taking arguments by position as in JAX 0.5",
)


class TracedRuns:
    """Trains at most once per code folder and arguments, and keeps the traces in a folder until it is closed."""

    def __init__(self, budget, tracing: Tracing = TDMPC2):
        self.budget = budget
        self.tracing = tracing
        self.folder = tempfile.TemporaryDirectory(prefix="tdmpc2-lean-traces-")
        self.traces: dict = {}
        self.answers: dict = {}
        self.numbers = itertools.count()

    def close(self) -> None:
        self.folder.cleanup()

    def trace_of(self, code_dir: Path, dump_at: int | None = None, **arguments) -> Path:
        """The trace of training `code_dir`'s code; raises process.ChildFailed where it cannot run."""
        key = (code_dir, dump_at, repr(sorted(arguments.items())))
        if key not in self.traces:
            path = Path(self.folder.name) / f"{next(self.numbers)}.jsonl"
            tracing, shim = self.tracing, self.tracing.shim_for(code_dir)
            budget = dataclasses.asdict(self.budget)
            self.answers[path] = process.call(
                tracing.function,
                code_dir,
                shim,
                tracing.stack,
                trace=str(path),
                budget=budget,
                dump_at=dump_at,
                **arguments,
            )
            self.traces[key] = path
        return self.traces[key]

    def answer_of(self, code_dir: Path, **arguments) -> dict:
        """What training `code_dir`'s code returned."""
        return self.answers[self.trace_of(code_dir, **arguments)]

    def compare(
        self, reference: Path, subject: Path, of_reference: dict | None = None, of_subject: dict | None = None
    ) -> tuple[int, trace.Divergence | None]:
        """Events compared and the first divergence of reference and subject, with its size and both values.

        reference, subject: code folders. of_reference, of_subject: the arguments of their training.
        """
        sides = ((reference, of_reference or {}), (subject, of_subject or {}))
        events, here = trace.compare(*self._traces_of(sides))
        if here is not None and here.largest is None and not here.reference:
            dumps = (path.with_suffix(".dump") for path in self._traces_of(sides, here.event))
            here = trace.compare_dumps(here, *dumps)
        return events, here

    def _traces_of(self, sides, dump_at: int | None = None) -> list[Path]:
        """The traces of both sides, run at the same time: each is a process with one thread."""
        assert sides[0] != sides[1], "a gate that compares a thing with itself proves nothing"
        with ThreadPoolExecutor(len(sides)) as pool:
            return list(pool.map(lambda side: self.trace_of(side[0], dump_at, **side[1]), sides))
