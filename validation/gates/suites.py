"""The gates of each upstream: what each proves, which function tries, and how many steps it needs."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tdmpc2_lean.environments import dm_control
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean
from tdmpc2_lean.upstreams.registry import upstream_named
from tdmpc2_lean.validation.gates import (
    blind_spots,
    defaults_dreamerv3,
    defaults_tdmpc2,
    dreamerv3,
    functions_dreamerv3,
    functions_tdmpc2,
    identity,
    outputs_dreamerv3,
    outputs_tdmpc2,
    planning,
    promises_tdmpc2,
    resuming_dreamerv3,
    resuming_tdmpc2,
    trace_dreamerv3,
    trace_tdmpc2,
    traced_runs,
    updates,
)
from tdmpc2_lean.validation.gates.blind_spots import BlindSpot
from tdmpc2_lean.validation.gates.results import Result
from tdmpc2_lean.validation.gates.subjects import GateSubject
from tdmpc2_lean.versions import DREAMERV3, PACKAGES


@dataclass(frozen=True)
class Gate:
    """A gate.

    name, proves: for tables. run: the function that tries; it yields results as they come.
    lacks: says of a budget what of the gate's promise a run of so few steps would not reach; empty where it reaches
    all. None for a gate that trains nothing, to which the number of steps is nothing.
    with_reference: whether it compares the subject with its reference, and so can judge a change of official code; not
    so a gate that compares one run of the subject with another.
    blind: changes that it could not see although it executes them, so that another gate has to.
    of_series: whether it is about the series of patches, and never runs the subject's folder.
    """

    name: str
    proves: str
    run: Callable[[GateSubject, traced_runs.TracedRuns], Iterator[Result]]
    lacks: Callable[[object], list[str]] | None = None
    with_reference: bool = False
    blind: tuple[BlindSpot, ...] = ()
    of_series: bool = False


def by_name(*gates: Gate) -> dict[str, Gate]:
    return {gate.name: gate for gate in gates}


TDMPC2_GATES = by_name(
    Gate(
        "defaults",
        "a run starts with what the official scripts resolve: settings, sizes, initial values",
        lambda subject, runs: defaults_tdmpc2.defaults(subject),
        with_reference=True,
    ),
    Gate(
        "functions",
        "functions, plans and updates are the official ones on inputs that short runs never meet",
        lambda subject, runs: functions_tdmpc2.functions(subject),
        with_reference=True,
    ),
    Gate(
        "outputs",
        "files, prints, films and saved agents of the scripts are those of the official ones",
        lambda subject, runs: outputs_tdmpc2.outputs(subject),
        with_reference=True,
    ),
    Gate(
        "default-identity",
        "patched code at default settings trains as the unpatched does, bit for bit",
        identity.default_identity,
        trace_tdmpc2.TDMPC2Budget.lacks,
        with_reference=True,
        blind=blind_spots.TRAINING_TDMPC2,
    ),
    Gate(
        "per-patch-identity",
        "so does each patch alone, against the patches before it",
        identity.per_patch_identity,
        trace_tdmpc2.TDMPC2Budget.lacks,
        of_series=True,
    ),
    Gate(
        "promises",
        "our patches do what they say: refusals, files, films, devices, clocks, what is saved and what comes back",
        lambda subject, runs: promises_tdmpc2.promises(subject),
    ),
    Gate(
        "seed",
        "one seed determines a run, and evaluation apart leaves training alone",
        identity.seed,
        trace_tdmpc2.TDMPC2Budget.lacks,
    ),
    Gate(
        "utd-count",
        "the trainer makes exactly the updates that `utd` asks for",
        lambda subject, runs: updates.utd_count(subject),
    ),
    Gate(
        "plan-vec-one",
        "planning for one environment in a batch is `_plan`, bit for bit",
        lambda subject, runs: planning.plan_vec_one(subject),
    ),
    Gate(
        "plan-vec-many",
        "planning for 16 environments is 16 single plans, up to rounding",
        lambda subject, runs: planning.plan_vec_many(subject),
    ),
    Gate(
        "resume",
        "a run that was killed and resumed goes on as the uninterrupted one, bit for bit",
        lambda subject, runs: resuming_tdmpc2.resume(subject, runs.budget),
        lambda budget: resuming_tdmpc2.planned(budget)[1],
    ),
)

DREAMERV3_GATES = by_name(
    Gate(
        "defaults",
        "a run starts with what the official `main` resolves: settings, scripts, sizes, initial values",
        lambda subject, runs: defaults_dreamerv3.defaults(subject),
        with_reference=True,
        blind=blind_spots.DEFAULTS_DREAMERV3,
    ),
    Gate(
        "functions",
        "functions, losses and updates are the official ones on inputs that short runs never meet",
        lambda subject, runs: functions_dreamerv3.functions(subject),
        with_reference=True,
    ),
    Gate(
        "outputs",
        "logs, checkpoints and evaluations of the official `main` are those of the official code",
        lambda subject, runs: outputs_dreamerv3.outputs(subject),
        with_reference=True,
        blind=blind_spots.OUTPUTS_DREAMERV3,
    ),
    Gate(
        "default-identity",
        "patched code at default settings trains as the unpatched does, bit for bit",
        identity.default_identity,
        trace_dreamerv3.DreamerV3Budget.lacks,
        with_reference=True,
        blind=blind_spots.TRAINING_DREAMERV3,
    ),
    Gate(
        "per-patch-identity",
        "so does each patch alone, against the patches before it",
        identity.per_patch_identity,
        trace_dreamerv3.DreamerV3Budget.lacks,
        of_series=True,
    ),
    Gate(
        "no-hidden-render",
        "without the hidden picture training is the same, and no picture is asked for",
        dreamerv3.no_hidden_render,
        trace_dreamerv3.DreamerV3Budget.lacks,
    ),
    Gate(
        "seed",
        "one seed determines a run, and reports leave training alone",
        dreamerv3.seed,
        trace_dreamerv3.DreamerV3Budget.lacks,
    ),
    Gate(
        "resume",
        "a run that was killed three times and resumed goes on as the uninterrupted one, bit for bit",
        resuming_dreamerv3.resume,
        lambda budget: resuming_dreamerv3.planned(budget)[1],
    ),
    Gate(
        "strip",
        "with loss_scales.dyn 0 no parameter of the dynamics' prior moves, with 1 all do",
        dreamerv3.strip,
        trace_dreamerv3.DreamerV3Budget.lacks,
    ),
)


@dataclass(frozen=True)
class Suite:
    """The gates of an upstream.

    gates: by name. budget: what of a training run they compare, with its defaults. tracing: how training is traced.
    packages: those whose versions a report names. where: on what the comparison is made, for tables.
    task: makes of the user's name of a task and the subject's code folder the official name; UserError, with the
    nearest, where there is none on which the gates can train.
    """

    gates: Mapping[str, Gate]
    budget: type
    tracing: traced_runs.Tracing
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
        TDMPC2_GATES,
        trace_tdmpc2.TDMPC2Budget,
        traced_runs.TDMPC2,
        PACKAGES,
        "on this machine's CPU, eager, one thread",
        task_of_tdmpc2,
    ),
    "dreamerv3": Suite(
        DREAMERV3_GATES,
        trace_dreamerv3.DreamerV3Budget,
        traced_runs.DREAMERV3,
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


def check_steps(gates: Sequence[Gate], budget) -> None:
    """UserError, with the least number, unless a run of so many steps reaches all that the gates promise to compare."""
    lacking: dict[tuple[str, ...], list[Gate]] = {}
    for gate in gates:
        if gate.lacks and (found := tuple(gate.lacks(budget))):
            lacking.setdefault(found, []).append(gate)
    if not lacking:
        return
    told = "; ".join(
        f"{', '.join(gate.name for gate in some)} would not see {', '.join(found)}" for found, some in lacking.items()
    )
    least = max(least_steps(gate, budget) for some in lacking.values() for gate in some)
    raise UserError(f"{budget.steps} steps are too few: {told}.", f"--steps {least} is the least for these gates")


def least_steps(gate: Gate, budget) -> int:
    """The least number of steps with which, the rest of the budget as it is, a gate reaches all that it promises."""
    return next(n for n in itertools.count(1) if not gate.lacks(dataclasses.replace(budget, steps=n)))
