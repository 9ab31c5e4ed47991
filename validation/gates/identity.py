"""Gates on training: does patched code, at default settings, compute bit for bit what official code computes?

TD-MPC2's arms train on a real dm_control task through the seeding phase, pretraining, updates, ends of episodes,
evaluations and the replay buffer's wrap-around (see `traced.Budget`). Compared are every action, transition, sampled
batch and loss, and after each update the bytes of parameters, targets, both optimisers, the running scale and the
random states. DreamerV3's arms do what `traced_dreamer.Budget` says.
"""

import dataclasses
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tdmpc2_lean.validation.gates import on_jax, process, trace
from tdmpc2_lean.validation.gates.results import FAIL, NOT_JUDGED, PASS, Result
from tdmpc2_lean.validation.gates.subjects import Subject, read_config


@dataclasses.dataclass(frozen=True)
class Training:
    """How an upstream's arms are trained.

    function: `module:function` that trains and writes a trace. stack: what its process sets up before.
    reader: a module to read official code with where it does not run here as it is written, `is_needed` says whether
    a code folder needs it, and `how` what tables say then.
    """

    function: str
    stack: process.Stack
    reader: str
    is_needed: Callable[[Path], bool]
    how: str

    def reader_for(self, code_dir: Path) -> str | None:
        return self.reader if self.is_needed(code_dir) else None


# A checkout of TD-MPC2 without the setting `device` names CUDA in its code.
TDMPC2 = Training(
    "tdmpc2_lean.validation.gates.trace_tdmpc2:train",
    process.TORCH,
    "tdmpc2_lean.validation.gates.on_cpu",
    lambda code_dir: "device" not in read_config(code_dir),
    "its 'cuda:0' read as 'cpu'",
)
DREAMERV3 = Training(
    "tdmpc2_lean.validation.gates.trace_dreamerv3:train",
    process.JAX,
    "tdmpc2_lean.validation.gates.on_jax",
    on_jax.is_needed,
    "jax.jit taking arguments by position as in JAX 0.5",
)


class Arms:
    """Runs arms of training at most once each and keeps their traces in a folder for the length of a call."""

    def __init__(self, budget, training: Training = TDMPC2):
        self.budget = budget
        self.training = training
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
            training, reader = self.training, self.training.reader_for(code_dir)
            budget = dataclasses.asdict(self.budget)
            self.answers[path] = process.call(
                training.function,
                code_dir,
                reader,
                training.stack,
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
        """Events compared and the first divergence of two arms, with its size and both values.

        An arm is a code folder and the arguments of its training.
        """
        arms = ((reference, of_reference or {}), (subject, of_subject or {}))
        events, here = trace.compare(*self._traces_of(arms))
        if here is not None and here.largest is None and not here.reference:
            dumps = (path.with_suffix(".dump") for path in self._traces_of(arms, here.event))
            here = trace.compare_dumps(here, *dumps)
        return events, here

    def _traces_of(self, arms, dump_at: int | None = None) -> list[Path]:
        """The traces of two arms, run at the same time: each is a process with one thread."""
        assert arms[0] != arms[1], "a gate that compares a thing with itself proves nothing"
        with ThreadPoolExecutor(len(arms)) as pool:
            return list(pool.map(lambda arm: self.trace_of(arm[0], dump_at, **arm[1]), arms))


def runnable_prefix(subject: Subject, arms: Arms) -> tuple[int, str]:
    """Length of the smallest prefix of the series that runs on this machine, and what keeps shorter ones from it.

    Never the whole series, which would be compared with itself: raises process.ChildFailed if nothing shorter runs.
    """
    why = ""
    longest = len(subject.series.patches) - 1 if subject.series else 0
    for length in range(longest + 1):
        try:
            arms.trace_of(subject.prefix(length))
            return length, why
        except process.ChildFailed as failure:
            why = why or failure.reason
            last = failure
    raise last


def reference_name(subject: Subject, length: int, why: str, training: Training = TDMPC2) -> str:
    """How tables name the reference."""
    if length == 0:
        read = f", {training.how}" if training.is_needed(subject.reference.code_dir) else ""
        ours = ", the bridge's files in place of those it lacks" if subject.reference.release else ""
        return f"unpatched {subject.reference.label}{read}{ours}"
    names = ", ".join(patch.name for patch in subject.series.patches[:length])
    return f"{subject.reference.label} + {names}, the smallest prefix that runs here ({why})"


def default_identity(subject: Subject, arms: Arms) -> Iterator[Result]:
    """Fully patched (or the user's own) code against the reference."""
    started = time.time()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(arms.trace_of, subject.code_dir)  # meanwhile; if it fails, it is told below
        try:
            length, why = runnable_prefix(subject, arms)
        except process.ChildFailed as failure:
            yield no_reference("default-identity", failure)
            return
    name = reference_name(subject, length, why, arms.training)
    yield judged("default-identity", arms, subject.prefix(length), subject.code_dir, name, started)


def per_patch_identity(subject: Subject, arms: Arms) -> Iterator[Result]:
    """Each patch on its prefix of the series against the prefix without it."""
    if subject.series is None:
        yield Result("per-patch-identity", NOT_JUDGED, "the checkout is a fork, not a series of patches")
        return
    try:
        length, why = runnable_prefix(subject, arms)
    except process.ChildFailed as failure:
        yield no_reference("per-patch-identity", failure)
        return
    for index, patch in enumerate(subject.series.patches):
        gate = f"per-patch-identity/{patch.name}"
        if index < length:
            yield Result(gate, NOT_JUDGED, f"the code before it does not run here: {why}")
            continue
        before = f"the {index} before it" if index else reference_name(subject, 0, "", arms.training)
        started = time.time()
        yield judged(gate, arms, subject.prefix(index), subject.prefix(index + 1), before, started)


def no_reference(gate: str, failure: process.ChildFailed) -> Result:
    """The result where neither the official code nor a part of the series runs here: nothing is proved."""
    return Result(gate, FAIL, f"there is no reference here: {failure.message}", {"output": failure.output[-4000:]})


def judged(gate: str, arms: Arms, reference: Path, subject: Path, name: str, started: float) -> Result:
    """The result of comparing the traces of two code folders."""
    try:
        events, here = arms.compare(reference, subject)
    except process.ChildFailed as failure:
        return Result(gate, FAIL, failure.message, {"output": failure.output[-4000:]}, time.time() - started)
    figures = {"events": events} | (dataclasses.asdict(here) if here else {})
    if here is None:
        detail = f"{events} events equal, bit for bit, to {name}"
        return Result(gate, PASS, detail, figures, time.time() - started)
    return Result(gate, FAIL, f"{here}; reference: {name}", figures, time.time() - started)


def seed(subject: Subject, arms: Arms) -> Iterator[Result]:
    """One seed determines a run, another seed gives another, and an evaluation apart does not touch training."""
    if "separate_eval" not in subject.config:
        yield Result("seed", NOT_JUDGED, "the checkout has no setting `separate_eval`")
        return

    def case(name: str, first: dict, second: dict, equal: bool, **arguments) -> Result:
        started, gate, code = time.time(), f"seed/{name}", subject.code_dir
        sides = [{"seed_actions": False, "overrides": overrides} | arguments for overrides in (first, second)]
        try:
            events, here = arms.compare(code, code, *sides)
        except process.ChildFailed as failure:
            return Result(gate, FAIL, failure.message, {"output": failure.output[-4000:]}, time.time() - started)
        found = f"{events} events equal" if here is None else str(here)
        outcome = PASS if (here is None) == equal else FAIL
        detail = f"{found} ({'equality' if equal else 'a difference'} expected)"
        return Result(gate, outcome, detail, {"events": events}, time.time() - started)

    # `exp_name` only makes the second run a run of its own, not the first one's trace.
    yield case("same-seed-twice", {}, {"exp_name": "again"}, True)
    yield case("other-seed", {}, {"seed": arms.budget.seed + 1}, False)
    often = {"separate_eval": True, "eval_freq": 40}
    rarely = {"separate_eval": True, "eval_freq": 10 * arms.budget.steps}
    yield case("evaluation-apart", often, rarely, True, record_evaluations=False)
