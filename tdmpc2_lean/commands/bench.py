"""`tdmpc2-lean bench`: speed as ratios, both sides measured in one process."""

import json
import os
import statistics
from collections.abc import Sequence
from pathlib import Path

import click

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.files import atomic_write, check_writable
from tdmpc2_lean.tables import table, terminal_width


@click.group()
def bench():
    """Measure speed on this machine's CPU as ratios; both sides take turns within one process."""


JSON = click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path),
    callback=lambda context, parameter, path: path and (check_writable(path, "--json") or path),
    help="Also write every measured value to this file.",
)
MODEL_SIZE = click.option(
    "--model-size", default=5, show_default=True, type=click.Choice(["1", "5", "19", "48", "317"])
)


def measured(function: str, code_dir: Path, **how) -> dict:
    """What a function of `validation.benchmarks` returns, run in a process that signals end in order."""
    from tdmpc2_lean.validation.gates import process

    with process.ended_by_signals():
        return process.call(f"tdmpc2_lean.validation.benchmarks.{function}", code_dir, **how)


def keep(json_file: Path | None, seen: dict) -> None:
    if json_file:
        atomic_write(json_file, json.dumps(seen, indent=2) + "\n")


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> tuple[float, float, float]:
    """Median, lowest and highest ratio of values that were measured in turn."""
    found = sorted(a / b for a, b in zip(numerators, denominators, strict=True))
    return statistics.median(found), found[0], found[-1]


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Figures: all columns but the first stand at the right."""
    click.echo(table(columns, rows, right=columns[1:], width=terminal_width()))


@bench.command("plan-vec")
@click.option("--checkout", metavar="WHERE", help="As for `gate run`; default: the pinned official code, patched.")
@click.option("--envs", default="1,4,16,64", show_default=True, help="Numbers of environments.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1))
@MODEL_SIZE
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1))
@JSON
def plan_vec(checkout, envs, rounds, model_size, threads, json_file):
    """Actions per second of `act_vec` for N environments against `act` for one."""
    from tdmpc2_lean.validation.gates.subjects import find_subject

    try:
        numbers = [int(n) for n in envs.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise UserError(f"--envs takes positive numbers with commas between them, found {envs!r}.", "--envs 1,4,16")
    subject = find_subject(checkout)
    if not subject.can_plan_vec:
        raise UserError(f"{subject.name} has no method `plan_vec`.", "apply the patch plan-vec to it")
    seen = measured(
        "tdmpc2:plan_vec",
        subject.code_dir,
        overrides={"model_size": int(model_size)},
        num_envs=numbers,
        rounds=rounds,
        threads=threads,
    )
    keep(json_file, {"subject": subject.name, "model_size": int(model_size)} | seen)
    click.echo(
        f"{subject.name}; model_size {model_size}, eager, CPU, {threads} thread(s), "
        f"median of {rounds} rounds in one process"
    )
    act = statistics.median(seen["act"])
    rows = [("act", f"{act:.3f}", f"{1 / act:.2f}", "1.00", "")]
    for n, seconds in seen["act_vec"].items():
        call = statistics.median(seconds)
        middle, lowest, highest = ratios([int(n) * a for a in seen["act"]], seconds)
        both = f"{middle:.2f}", f"{lowest:.2f}-{highest:.2f}"
        rows.append((f"act_vec N={n}", f"{call:.3f}", f"{int(n) / call:.2f}", *both))
    print_table(("", "s per call", "actions/s", "act_vec / act", "lowest-highest"), rows)


@bench.command("presets")
@click.argument("first", default="default")
@click.argument("second", default="fast")
@click.option("--checkout", metavar="WHERE", help="As for `gate run`; default: the pinned official code, patched.")
@click.option("--task", default="cheetah-run", show_default=True)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1))
@MODEL_SIZE
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1))
@JSON
def presets(first, second, checkout, task, rounds, model_size, threads, json_file):
    """Training steps per second under lean preset SECOND against FIRST (fast against default).

    A step is one planned action, one environment step and the updates due, as in training after its seeding phase. A
    round has as many steps as it takes until updates are due in the same way again, so at `utd=1/4` four.
    """
    from tdmpc2_lean.runs import presets as lean
    from tdmpc2_lean.runs.adapter import adapter_of
    from tdmpc2_lean.validation.benchmarks.tdmpc2 import round_of
    from tdmpc2_lean.validation.gates.subjects import find_subject

    subject, shelf = find_subject(checkout), adapter_of("tdmpc2").shelf
    sides = {}
    for name in (first, second):
        chosen = [shelf.find(part) for part in name.split(",")]
        sides[name] = {"model_size": int(model_size)} | lean.compose(chosen, subject.config)
        try:
            round_of(sides[name].get("utd", subject.config.get("utd", 1)))
        except ValueError as error:
            raise UserError(f"{name} cannot be timed: {error}.", "name a preset with another utd") from error
    if len(sides) < 2:
        raise UserError(f"Both sides are {first!r}.", f"name two presets: `{shelf.listing}`")
    seen = measured("tdmpc2:presets", subject.code_dir, sides=sides, task=task, rounds=rounds, threads=threads)
    keep(json_file, {"subject": subject.name, "model_size": int(model_size), "sides": sides} | seen)
    click.echo(
        f"{subject.name}; {task}, model_size {model_size}, eager, CPU, {threads} thread(s), "
        f"median of {rounds} rounds in one process"
    )
    rows = []
    for name, seconds in seen["seconds"].items():
        per_step = statistics.median(seconds)
        timed = f"{seen['steps'][name]}", f"{seen['updates'][name]}"
        rows.append((name, f"{per_step:.3f}", f"{1 / per_step:.2f}", *timed))
    print_table(("", "s per step", "steps/s", "steps timed", "updates timed"), rows)
    middle, lowest, highest = ratios(seen["seconds"][first], seen["seconds"][second])
    click.echo(f"{second} / {first}: {middle:.2f} (lowest {lowest:.2f}, highest {highest:.2f})")


@bench.command("dreamerv3")
@click.argument("what", nargs=-1, metavar="[render|compile|update]...")
@click.option("--checkout", metavar="WHERE", help="As for `gate run --upstream dreamerv3`; default: the pin, patched.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 90))
@click.option("--one-core", is_flag=True, help="Pin the process to one core; default: all cores.")
@JSON
def dreamerv3(what, checkout, rounds, one_core, json_file):
    """Ratios of DreamerV3: the hidden render, compiling cold and warm, updates at two batch sizes (size1m, float32).

    \b
    render   env steps per second with the hidden picture and without, on walker-walk and cartpole-balance
    compile  seconds until the agent is made, with no compiled code in JAX's folder and with all of it, at 4x16
    update   seconds of an update on 4 sequences of 16 steps and on 16 of 64
    """
    from dataclasses import replace

    from tdmpc2_lean.validation.benchmarks.dreamerv3 import SIZES
    from tdmpc2_lean.validation.gates import process
    from tdmpc2_lean.validation.gates.subjects import find_subject

    parts = ("render", "compile", "update")
    for word in what:
        if word not in parts:
            raise UserError(f"{word!r} is no part of this benchmark.", f"name some of {', '.join(parts)}, or none")
    subject = find_subject(checkout, upstream="dreamerv3")
    cores = "one core" if one_core else "all cores"
    stack = replace(process.JAX, one_core=one_core, compiled="jax-one-core" if one_core else "jax-all-cores")

    def call(function, **arguments):
        return measured(f"dreamerv3:{function}", subject.code_dir, stack=stack, **arguments)

    seen = {}
    backend = os.environ.get("MUJOCO_GL", "egl")
    for part in parts:
        if what and part not in what:
            continue
        if part == "render":
            tasks = ["dmc_walker_walk", "dmc_cartpole_balance"]
            seen[part] = call("render", tasks=tasks, steps=50, rounds=rounds, backend=backend)
        elif part == "compile":
            seen[part] = call("compiling", batch_size=SIZES[0][0], batch_length=SIZES[0][1])
        else:
            seen[part] = call("updates", rounds=rounds)
    keep(json_file, {"subject": subject.name, "cores": cores} | seen)
    click.echo(f"{subject.name}; size1m, float32, CPU, {cores}, median of {rounds} rounds, both sides in one process")
    for task, sides in seen.get("render", {}).items():
        rates = {name: 1 / statistics.median(seconds) for name, seconds in sides.items()}
        middle, lowest, highest = ratios(sides["with"], sides["without"])
        click.echo(
            f"{task}: {rates['with']:.1f} env steps/s with the hidden render ({backend}), {rates['without']:.1f} "
            f"without: {middle:.1f} times as many ({lowest:.1f}-{highest:.1f})"
        )
    if "compile" in seen:
        cold, warm = seen["compile"]["cold"], seen["compile"]["warm"]
        click.echo(f"agent made at 4x16: {cold:.1f} s cold, {warm:.1f} s warm: {cold / warm:.1f} times as long (n=1)")
    if "update" in seen:
        small, large = seen["update"].values()
        middle, lowest, highest = ratios(large, small)
        click.echo(
            f"update: {statistics.median(small):.3f} s at 4x16, {statistics.median(large):.3f} s at 16x64: "
            f"{middle:.1f} times as long ({lowest:.1f}-{highest:.1f})"
        )
