"""Gates on training: does patched code, at default settings, compute bit for bit what official code computes?

Subject and reference train on a real dm_control task. TD-MPC2 goes through the seeding phase, pretraining, updates,
ends of episodes, evaluations and the replay buffer's wrap-around (see `trace_tdmpc2.TDMPC2Budget`). Compared are every
action, transition, sampled batch and loss, and after each update the bytes of parameters, targets, both optimisers,
the running scale and the random states. What DreamerV3 goes through, `trace_dreamerv3.DreamerV3Budget` says.
"""

import dataclasses
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tdmpc2_lean.validation.gates import executed, process, traced_runs
from tdmpc2_lean.validation.gates.results import FAIL, NOT_JUDGED, PASS, Result, failed_to_run, without_settings
from tdmpc2_lean.validation.gates.subjects import GateSubject
from tdmpc2_lean.validation.gates.trace import added_metrics
from tdmpc2_lean.validation.gates.traced_runs import TDMPC2, TracedRuns, Tracing

# Neither the official code nor a part of the series runs here: nothing is proved.
NO_REFERENCE = "there is no reference here: "


def runnable_prefix(subject: GateSubject, runs: TracedRuns) -> tuple[int, str]:
    """Length of the smallest prefix of the series that runs on this machine, and what keeps shorter ones from it.

    Never the whole series, which would be compared with itself: raises process.ChildFailed if nothing shorter runs.
    """
    why = ""
    longest = len(subject.series.patches) - 1 if subject.series else 0
    for length in range(longest + 1):
        try:
            runs.trace_of(subject.prefix(length))
            return length, why
        except process.ChildFailed as failure:
            why = why or failure.reason
            last = failure
    raise last


def reference_name(subject: GateSubject, length: int, why: str, tracing: Tracing = TDMPC2) -> str:
    """How tables name the reference."""
    if length == 0:
        read = f", {tracing.how(subject.reference.code_dir)}" if tracing.is_needed(subject.reference.code_dir) else ""
        ours = ", the bridge's files in place of those it lacks" if subject.reference.release else ""
        return f"unpatched {subject.reference.label}{read}{ours}"
    names = ", ".join(patch.name for patch in subject.series.patches[:length])
    return f"{subject.reference.label} + {names}, the smallest prefix that runs here ({why})"


def default_identity(subject: GateSubject, runs: TracedRuns) -> Iterator[Result]:
    """Fully patched (or the user's own) code against the reference."""
    started = time.time()
    with ThreadPoolExecutor(1) as pool:
        if not traced_runs.early.get():  # meanwhile; if it fails, it is told below
            pool.submit(executed.in_context(runs.trace_of), subject.code_dir)
        try:
            length, why = runnable_prefix(subject, runs)
        except process.ChildFailed as failure:
            yield failed_to_run("default-identity", failure, started, NO_REFERENCE)
            return
    name = reference_name(subject, length, why, runs.tracing)
    of_a_fork = subject.series is None
    yield judged("default-identity", runs, subject.prefix(length), subject.code_dir, name, started, of_a_fork)


def per_patch_identity(subject: GateSubject, runs: TracedRuns) -> Iterator[Result]:
    """Each patch on its prefix of the series against the prefix without it."""
    if subject.series is None:
        yield Result("per-patch-identity", NOT_JUDGED, "the checkout is a fork, not a series of patches")
        return
    started = time.time()
    try:
        length, why = runnable_prefix(subject, runs)
    except process.ChildFailed as failure:
        yield failed_to_run("per-patch-identity", failure, started, NO_REFERENCE)
        return
    whole = len(subject.series.patches)
    # All that may run at once; what fails is told below. A mutant, last of all, may end before its time.
    prefixes = [subject.prefix(index) for index in range(length, whole + (not traced_runs.early.get()))]
    with ThreadPoolExecutor(max(1, len(prefixes))) as pool:
        for prefix in prefixes:
            pool.submit(executed.in_context(runs.trace_of), prefix)
    for index, patch in enumerate(subject.series.patches):
        gate = f"per-patch-identity/{patch.name}"
        if index < length:
            yield Result(gate, NOT_JUDGED, f"the code before it does not run here: {why}")
            continue
        before = f"the {index} before it" if index else reference_name(subject, 0, "", runs.tracing)
        started = time.time()
        yield judged(gate, runs, subject.prefix(index), subject.prefix(index + 1), before, started)


def judged(
    gate: str,
    runs: TracedRuns,
    reference: Path,
    subject: Path,
    name: str,
    started: float,
    more_may_be_logged: bool = False,
) -> Result:
    """The result of comparing the traces of two code folders.

    more_may_be_logged: metrics that a fork logs beside the official ones are named, and are no difference.
    """
    try:
        events, here = runs.compare(reference, subject, more_may_be_logged=more_may_be_logged)
    except process.ChildFailed as failure:
        return failed_to_run(gate, failure, started)
    figures = {"events": events} | (dataclasses.asdict(here) if here else {})
    if here is None:
        detail = f"{events} events equal, bit for bit, to {name}"
        more = added_metrics(runs.trace_of(reference), runs.trace_of(subject)) if more_may_be_logged else []
        if more:
            detail += f"; note: {', '.join(more)} logged besides"
            figures["more metrics"] = more
        return Result(gate, PASS, detail, figures, time.time() - started)
    return Result(gate, FAIL, f"{here}; reference: {name}", figures, time.time() - started)


def seed(subject: GateSubject, runs: TracedRuns) -> Iterator[Result]:
    """One seed determines a run, another seed gives another, and an evaluation apart does not touch training."""
    if missing := without_settings("seed", subject.config, "separate_eval"):
        yield from missing
        return

    def case(name: str, first: dict, second: dict, equal: bool) -> Result:
        started, gate, code = time.time(), f"seed/{name}", subject.code_dir
        try:
            # Where a difference is expected the first one is enough, and its size says nothing.
            events, here = runs.compare(code, code, first, second, to_first=not equal)
        except process.ChildFailed as failure:
            return failed_to_run(gate, failure, started)
        found = f"{events} events equal" if here is None else str(here)
        outcome = PASS if (here is None) == equal else FAIL
        detail = f"{found} ({'equality' if equal else 'a difference'} expected)"
        return Result(gate, outcome, detail, {"events": events}, time.time() - started)

    # The first run is the one that other gates compare. There the space of actions is seeded from outside if the code
    # has left it unseeded; in the second nothing is, so that a code that leaves it to chance repeats neither.
    unaided = {"seed_actions": False}
    yield case("same-seed-twice", {}, unaided, True)
    yield case("other-seed", unaided, unaided | {"overrides": {"seed": runs.budget.seed + 1}}, False)
    apart = unaided | {"record_evaluations": False}
    often = {"separate_eval": True, "eval_freq": 40}
    rarely = {"separate_eval": True, "eval_freq": 10 * runs.budget.steps}
    yield case("evaluation-apart", apart | {"overrides": often}, apart | {"overrides": rarely}, True)
