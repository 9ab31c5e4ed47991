"""Runs gates, and the negative controls that they must reject; `tdmpc2-lean gate` is its face."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tdmpc2_lean.environments import dm_control
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean
from tdmpc2_lean.patching import Patch
from tdmpc2_lean.upstreams.registry import upstream_named
from tdmpc2_lean.validation.gates import (
    dreamerv3,
    identity,
    planning,
    process,
    resuming,
    trace_dreamerv3,
    trace_tdmpc2,
    updates,
)
from tdmpc2_lean.validation.gates.results import FAIL, PASS, Report, Result
from tdmpc2_lean.validation.gates.subjects import Subject, controls_of, wrong
from tdmpc2_lean.versions import DREAMERV3, PACKAGES, versions


@dataclass(frozen=True)
class Gate:
    """A gate: what it proves, and the function that tries."""

    name: str
    proves: str
    run: Callable[[Subject, identity.Arms], Iterator[Result]]


# TD-MPC2's.
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


@dataclass(frozen=True)
class Suite:
    """The gates of an upstream.

    gates: by name. budget: what of a training run they compare, with its defaults. training: how arms are trained.
    packages: those whose versions a report names. where: on what the comparison is made, for tables.
    task: makes of the user's name of a task and the subject's code folder the official name; UserError, with the
    nearest, where there is none on which the gates can train.
    """

    gates: Mapping[str, Gate]
    budget: type
    training: identity.Training
    packages: Sequence[str]
    where: str
    task: Callable[[str, Path], str]


def task_of_tdmpc2(name: str, code_dir: Path) -> str:
    """A task that dm_control simulates."""
    dm_control.check(name, code_dir)
    if not dm_control.is_dmcontrol(name, code_dir):
        raise UserError(f"{name} is none of dm_control; the gates train on its dm_control.", "such as cheetah-run")
    return name


def task_of_dreamerv3(name: str, code_dir: Path) -> str:
    """A task of dm_control's suite, in either upstream's spelling."""
    from dreamer_bridge import tasks as of_dreamer

    found = of_dreamer.official(name)
    if not found.startswith(f"{of_dreamer.DMC}_"):
        raise UserError(f"{found} is none of dm_control; the gates train on its dm_control.", "such as dmc_walker_walk")
    return found


SUITES = {
    "tdmpc2": Suite(
        GATES,
        trace_tdmpc2.Budget,
        identity.TDMPC2,
        PACKAGES,
        "on this machine's CPU, eager, one thread",
        task_of_tdmpc2,
    ),
    "dreamerv3": Suite(
        {name: Gate(name, proves, run) for name, (proves, run) in dreamerv3.GATES.items()},
        trace_dreamerv3.Budget,
        identity.DREAMERV3,
        DREAMERV3,
        "on this machine's CPU, float32, one core (XLA gives other bits with another number of cores)",
        task_of_dreamerv3,
    ),
}


def suite_of(upstream: str) -> Suite:
    """The gates of an upstream; UserError names the nearest one where there is none of that name."""
    return SUITES[upstream_named(upstream).name]


def chosen(names: Sequence[str], upstream: str = "tdmpc2") -> list[Gate]:
    """The named gates in their order, or all. UserError for a name that is none."""
    gates = suite_of(upstream).gates
    for name in names:
        if name not in gates:
            listing = "tdmpc2-lean gate list" + ("" if upstream == "tdmpc2" else f" --upstream {upstream}")
            raise UserError(f"There is no gate {name!r}.{did_you_mean(name, gates)}", listing)
    return [gate for name, gate in gates.items() if not names or name in names]


def run(
    subject: Subject,
    names: Sequence[str] = (),
    budget=None,
    controls: bool = False,
    tell: Callable[[Result], None] = lambda result: None,
    at_once: int = 1,
) -> Report:
    """Runs gates on a subject, or the controls of these gates; `tell` hears of each result as it comes.

    budget: of its upstream's kind; default: that kind's defaults.
    at_once: how many gates run at the same time, for machines with cores to spare.
    """
    suite = suite_of(subject.upstream)
    budget = budget or suite.budget()
    arms, results = identity.Arms(budget, suite.training), []

    def results_of(gate: Gate) -> list[Result]:
        found = []
        tried = (rejected(gate, subject, control, arms) for control in controls_of(gate.name, subject.upstream))
        for result in tried if controls else gate.run(subject, arms):
            found.append(result)
            tell(result)
        return found

    process.interrupted.clear()
    try:
        with ThreadPoolExecutor(at_once) as pool:
            try:
                for found in pool.map(results_of, chosen(names, subject.upstream)):
                    results.extend(found)
            except BaseException:
                process.interrupt()
                raise
    finally:
        arms.close()
    surroundings = {
        "subject": subject.name,
        "reference": subject.reference.provenance(),
        "patches": [[p.name, p.sha256] for p in subject.series.patches] if subject.series else None,
        "budget": dataclasses.asdict(budget),
        "versions": versions(suite.packages),
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
