"""`tdmpc2-lean bench`: speed as ratios, both sides measured in one process."""

import json
import statistics

import click

from tdmpc2_lean.errors import UserError


@click.group()
def bench():
    """Measure speed on this machine's CPU as ratios; both sides take turns within one process."""


def code_and_label(checkout):
    from tdmpc2_lean.validation.gates.subjects import find_subject

    subject = find_subject(checkout)
    return subject.code_dir, subject.name


@bench.command("plan-vec")
@click.option("--checkout", metavar="WHERE", help="As for `gate run`; default: the pinned official code, patched.")
@click.option("--envs", default="1,4,16,64", show_default=True, help="Numbers of environments.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1))
@click.option("--model-size", default=5, show_default=True, type=click.Choice(["1", "5", "19", "48", "317"]))
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True, help="Print every measured value.")
def plan_vec(checkout, envs, rounds, model_size, threads, as_json):
    """Actions per second of `act_vec` for N environments against `act` for one."""
    from tdmpc2_lean.validation.gates import process

    try:
        numbers = [int(n) for n in envs.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise UserError(f"--envs takes positive numbers with commas between them, found {envs!r}.", "--envs 1,4,16")
    code_dir, label = code_and_label(checkout)
    seen = process.call(
        "tdmpc2_lean.validation.benchmarks.tdmpc2:plan_vec",
        code_dir,
        overrides={"model_size": int(model_size)},
        num_envs=numbers,
        rounds=rounds,
        threads=threads,
    )
    if as_json:
        click.echo(json.dumps({"subject": label, "model_size": int(model_size)} | seen))
        return
    act = statistics.median(seen["act"])
    click.echo(
        f"{label}; model_size {model_size}, eager, CPU, {threads} thread(s), median of {rounds} rounds in one process"
    )
    click.echo(f"{'':>14}  {'s per call':>10}  {'actions/s':>9}  {'act_vec / act':>13}  lowest-highest")
    click.echo(f"{'act':>14}  {act:>10.3f}  {1 / act:>9.2f}  {1.0:>13.2f}")
    for n, seconds in seen["act_vec"].items():
        ratios = sorted(int(n) * a / v for a, v in zip(seen["act"], seconds, strict=True))
        call = statistics.median(seconds)
        click.echo(
            f"{f'act_vec N={n}':>14}  {call:>10.3f}  {int(n) / call:>9.2f}  {statistics.median(ratios):>13.2f}"
            f"  {ratios[0]:.2f}-{ratios[-1]:.2f}"
        )


@bench.command("presets")
@click.argument("first", default="default")
@click.argument("second", default="fast")
@click.option("--checkout", metavar="WHERE", help="As for `gate run`; default: the pinned official code, patched.")
@click.option("--task", default="cheetah-run", show_default=True)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1))
@click.option("--model-size", default=5, show_default=True, type=click.Choice(["1", "5", "19", "48", "317"]))
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True, help="Print every measured value.")
def presets(first, second, checkout, task, rounds, model_size, threads, as_json):
    """Training steps per second under lean preset SECOND against FIRST (fast against default).

    A step is one planned action, one environment step and the updates due, as in training after its seeding phase.
    """
    from tdmpc2_lean.runs import presets as lean
    from tdmpc2_lean.validation.gates import process
    from tdmpc2_lean.validation.gates.subjects import read_config

    code_dir, label = code_and_label(checkout)
    defaults = read_config(code_dir)
    sides = {}
    for name in (first, second):
        chosen = [lean.find(part) for part in name.split(",")]
        sides[name] = {"model_size": int(model_size)} | lean.compose(chosen, defaults)
    if len(sides) < 2:
        raise UserError(f"Both sides are {first!r}.", "name two presets: `tdmpc2-lean train --list-presets`")
    seen = process.call(
        "tdmpc2_lean.validation.benchmarks.tdmpc2:presets", code_dir,
        sides=sides, task=task, steps=rounds, threads=threads,
    )  # fmt: skip
    if as_json:
        click.echo(json.dumps({"subject": label, "model_size": int(model_size), "sides": sides} | seen))
        return
    click.echo(
        f"{label}; {task}, model_size {model_size}, eager, CPU, {threads} thread(s), "
        f"median of {rounds} rounds of two steps in one process"
    )
    for name in sides:
        middle = statistics.median(seen[name])
        click.echo(f"{name:>14}  {middle:.3f} s per step  {1 / middle:.2f} steps/s")
    ratios = sorted(a / b for a, b in zip(seen[first], seen[second], strict=True))
    middle = statistics.median(ratios)
    click.echo(f"{second} / {first}: {middle:.2f} (lowest {ratios[0]:.2f}, highest {ratios[-1]:.2f})")


@bench.command("dreamerv3")
@click.argument("what", nargs=-1, metavar="[render|compile|update]...")
@click.option("--checkout", metavar="WHERE", help="As for `gate run --upstream dreamerv3`; default: the pin, patched.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 90))
@click.option("--one-core", is_flag=True, help="Pin the process to one core; default: all cores.")
@click.option("--json", "as_json", is_flag=True, help="Print every measured value.")
def dreamerv3(what, checkout, rounds, one_core, as_json):
    """Ratios of DreamerV3: the hidden render, compiling cold and warm, updates at two batch sizes (size1m, float32).

    \b
    render   env steps per second with the hidden picture and without, on walker-walk and cartpole-balance
    compile  seconds until the agent is made, with no compiled code in JAX's folder and with all of it, at 4x16
    update   seconds of an update on 4 sequences of 16 steps and on 16 of 64
    """
    import os
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
    module = "tdmpc2_lean.validation.benchmarks.dreamerv3"

    def call(function, **arguments):
        return process.call(f"{module}:{function}", subject.code_dir, stack=stack, **arguments)

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
    if as_json:
        click.echo(json.dumps({"subject": subject.name, "cores": cores} | seen))
        return
    click.echo(f"{subject.name}; size1m, float32, CPU, {cores}, median of {rounds} rounds, both sides in one process")
    for task, sides in seen.get("render", {}).items():
        rates = {name: 1 / statistics.median(seconds) for name, seconds in sides.items()}
        ratios = sorted(a / b for a, b in zip(sides["with"], sides["without"], strict=True))
        click.echo(
            f"{task}: {rates['with']:.1f} env steps/s with the hidden render ({backend}), {rates['without']:.1f} "
            f"without: {statistics.median(ratios):.1f} times as many ({ratios[0]:.1f}-{ratios[-1]:.1f})"
        )
    if "compile" in seen:
        cold, warm = seen["compile"]["cold"], seen["compile"]["warm"]
        click.echo(f"agent made at 4x16: {cold:.1f} s cold, {warm:.1f} s warm: {cold / warm:.1f} times as long (n=1)")
    if "update" in seen:
        small, large = seen["update"].values()
        ratios = sorted(b / a for a, b in zip(small, large, strict=True))
        click.echo(
            f"update: {statistics.median(small):.3f} s at 4x16, {statistics.median(large):.3f} s at 16x64: "
            f"{statistics.median(ratios):.1f} times as long ({ratios[0]:.1f}-{ratios[-1]:.1f})"
        )
