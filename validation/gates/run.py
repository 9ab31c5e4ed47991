"""Runs gates, and the negative controls that they must reject; `tdmpc2-lean gate` is its face."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean
from tdmpc2_lean.patching import Patch
from tdmpc2_lean.validation import child
from tdmpc2_lean.validation.gates import identity, planning, resuming, updates
from tdmpc2_lean.validation.gates.results import FAIL, PASS, Report, Result
from tdmpc2_lean.validation.gates.subjects import Subject, controls_of, wrong
from tdmpc2_lean.validation.traced import Budget
from tdmpc2_lean.validation.versions import versions


@dataclass(frozen=True)
class Gate:
    """A gate: what it proves, and the function that tries."""

    name: str
    proves: str
    run: Callable[[Subject, identity.Arms], Iterator[Result]]


GATES = {
    gate.name: gate
    for gate in (
        Gate(
            "default-identity",
            "patched code at default settings trains as the unpatched does, bit for bit",
            identity.default_identity,
        ),
        Gate(
            "per-patch-identity",
            "so does each patch alone, against the patches before it",
            identity.per_patch_identity,
        ),
        Gate(
            "seed",
            "one seed determines a run, and evaluation apart leaves training alone",
            identity.seed,
        ),
        Gate(
            "utd-count",
            "the trainer makes exactly the updates that `utd` asks for",
            lambda subject, arms: updates.utd_count(subject),
        ),
        Gate(
            "plan-vec-one",
            "planning for one environment in a batch is `_plan`, bit for bit",
            lambda subject, arms: planning.plan_vec_one(subject),
        ),
        Gate(
            "plan-vec-many",
            "planning for 16 environments is 16 single plans, up to rounding",
            lambda subject, arms: planning.plan_vec_many(subject),
        ),
        Gate(
            "resume",
            "a run that was killed and resumed goes on as the uninterrupted one, bit for bit",
            lambda subject, arms: resuming.resume(subject, arms.budget),
        ),
    )
}


def chosen(names: Sequence[str]) -> list[Gate]:
    """The named gates in their order, or all. UserError for a name that is none."""
    for name in names:
        if name not in GATES:
            raise UserError(f"There is no gate {name!r}.{did_you_mean(name, GATES)}", "tdmpc2-lean gate list")
    return [gate for name, gate in GATES.items() if not names or name in names]


def run(
    subject: Subject,
    names: Sequence[str] = (),
    budget: Budget | None = None,
    controls: bool = False,
    tell: Callable[[Result], None] = lambda result: None,
    at_once: int = 1,
) -> Report:
    """Runs gates on a subject, or the controls of these gates; `tell` hears of each result as it comes.

    at_once: how many gates run at the same time, for machines with cores to spare.
    """
    budget = budget or Budget()
    arms, results = identity.Arms(budget), []

    def results_of(gate: Gate) -> list[Result]:
        found = []
        tried = (rejected(gate, subject, control, arms) for control in controls_of(gate.name))
        for result in tried if controls else gate.run(subject, arms):
            found.append(result)
            tell(result)
        return found

    child.interrupted.clear()
    try:
        with ThreadPoolExecutor(at_once) as pool:
            try:
                for found in pool.map(results_of, chosen(names)):
                    results.extend(found)
            except BaseException:
                child.interrupt()
                raise
    finally:
        arms.close()
    surroundings = {
        "subject": subject.name,
        "reference": subject.reference.provenance(),
        "patches": [[p.name, p.sha256] for p in subject.series.patches] if subject.series else None,
        "budget": dataclasses.asdict(budget),
        "versions": versions(),
        "device": "cpu",
    }
    return Report(surroundings, tuple(results))


def rejected(gate: Gate, subject: Subject, control: Patch, arms: identity.Arms) -> Result:
    """A control passes when the gate, run on the subject with this wrong patch on top, fails."""
    started, name = time.time(), f"{gate.name}/control/{control.name}"
    with wrong(subject, control) as spoilt:
        # One failure is a rejection; the gate need not go on.
        failure = next((result for result in gate.run(spoilt, arms) if result.outcome == FAIL), None)
    seconds = time.time() - started
    if failure is None:
        return Result(name, FAIL, f"NOT rejected: {control.title}", {}, seconds)
    if "output" in failure.figures:
        detail = f"the wrong patch does not even run: {failure.detail}"
        return Result(name, FAIL, detail, failure.figures, seconds)
    return Result(name, PASS, f"rejected ({control.title}): {failure.detail}", failure.figures, seconds)
