"""`tdmpc2-lean demo`: obtain official code, patch it, prove the patches, train two settings side by side.

Each stage is the same function that the command of its own calls; the demo adds only the order and a table.
"""

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tdmpc2_lean import upstreams
from tdmpc2_lean.errors import CheckFailed, UserError
from tdmpc2_lean.runs import figure, record, threads
from tdmpc2_lean.validation.gates import results as gate_results
from tdmpc2_lean.validation.gates import run as gates
from tdmpc2_lean.validation.gates.subjects import GateSubject, find_subject
from tdmpc2_lean.validation.gates.trace_tdmpc2 import TDMPC2Budget

SIDES = ("smoke", "smoke,fast")
TASK, SEED = "cartpole-balance", 1
STEPS = 3500  # fewer than the preset's, for five minutes in all
# The quick ones; `tdmpc2-lean gate run` runs all.
GATES = ("default-identity", "utd-count", "plan-vec-one")
BUDGET = TDMPC2Budget(steps=90)  # still an end of an episode, an evaluation and the buffer's wrap-around


@dataclass(frozen=True)
class Side:
    """One of the two trained runs. preset: its lean presets; folder: the run's; seconds: of the whole run."""

    preset: str
    folder: Path
    kept: record.RunRecord

    @property
    def first_return(self) -> float:
        return self.kept.evaluations[0].episode_reward

    @property
    def last_return(self) -> float:
        return self.kept.evaluations[-1].episode_reward

    @property
    def speed(self) -> float:
        """Steps per second while learning, seeding and evaluations left out."""
        return self.kept.timing.learning_steps_per_second


def demo(out: Path, where: str | None, say: Callable[[str], None]) -> int:
    """Runs every stage below `out`; returns the exit code, 1 if a gate failed."""
    started = time.time()
    out.mkdir(parents=True, exist_ok=True)
    say("1. Official code")
    where = obtained(where, say)
    subject = find_subject(where)
    if subject.series is None:
        raise UserError(
            f"The demo shows official code without patches, and this is {subject.name}.",
            "tdmpc2-lean demo --checkout COMMIT, or `gate run` to compare yours with the official code",
        )
    say(f"   {subject.reference.label} in {subject.reference.root}")
    say("2. Patches, applied to a copy of it")
    for patch in subject.series.patches:
        say(f"   {patch.name:<14} {patch.title}" + (" (fix)" if patch.fix else ""))
    say("3. Gates: is it still the official agent? (CPU, eager, one thread; about a minute)")
    report = gates.run(subject, GATES, BUDGET, tell=lambda result: say(f"   {told(result)}"))
    say(f"   {gate_results.summary(report.results)}")
    (out / "gates.json").write_text(report.as_json() + "\n", encoding="utf-8")
    say(f"4. Training on {TASK}: {' and '.join(SIDES)} side by side (two to three minutes)")
    sides = trained(out, subject, say)
    picture = out / "curve.png"
    figure.draw([figure.read_run(side.folder) for side in sides], picture)
    say("")
    for line in table(sides, subject):
        say(line)
    say(f"plot: {picture}")
    say(f"all of it took {time.time() - started:.0f} s, on {subject.reference.label}")
    say("")
    say("Try next:")
    for command in next_commands(subject):
        say(f"  {command}")
    return 0 if report.ok else CheckFailed.exit_code


def told(result: gate_results.Result) -> str:
    """A gate's result in a line; all of the detail where it failed, and in gates.json."""
    line = f"{result.outcome:<10} {result.gate}: {result.detail}"
    return textwrap.shorten(line, 150, placeholder=" ...") if result.ok else line


def obtained(where: str | None, say: Callable[[str], None]) -> str | None:
    """What to run on: what was asked for, else the official code, else, said plainly, the miniature."""
    if where is not None:
        return where
    try:
        upstreams.find_checkout("tdmpc2")
        return None
    except UserError as error:
        say(f"   The official code could not be had: {error.message}")
        say("   The demo continues on `miniature`, a small checkout of our own with the same interfaces.")
        say("   Nothing below is about TD-MPC2 itself. To have the official code: tdmpc2-lean upstream add PATH")
        return upstreams.MINIATURE


def trained(out: Path, subject: GateSubject, say: Callable[[str], None]) -> list[Side]:
    """Trains both sides, at the same time where there are two cores, with one thread each."""
    where = upstreams.MINIATURE if subject.reference.upstream == upstreams.MINIATURE else str(subject.reference.root)
    commands = {
        preset: [
            sys.executable, "-m", "tdmpc2_lean", "train", f"task={TASK}", f"lean={preset}", f"seed={SEED}",
            f"upstream={where}", "threads=1", f"steps={STEPS}", f"eval_freq={STEPS}", "eval_episodes=1",
            "overwrite=true",
        ]
        for preset in SIDES
    }  # fmt: skip
    if threads.usable_cores() >= len(SIDES):
        running = [start(preset, command, out, say) for preset, command in commands.items()]
        finish(running)
    else:
        for preset, command in commands.items():
            finish([start(preset, command, out, say)])
    return [read_side(out, preset) for preset in SIDES]


def start(preset: str, command: Sequence[str], out: Path, say: Callable[[str], None]):
    """A training process whose lines are said with the preset before them."""
    process = subprocess.Popen(
        command,
        cwd=out,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    said = []

    def relay():
        for line in process.stdout:
            said.append(line.rstrip())
            if "step" in line:
                say(f"   [{preset}] {line.strip()}")

    reader = threading.Thread(target=relay, daemon=True)
    reader.start()
    return preset, process, reader, said


def finish(running: Sequence) -> None:
    """Waits for training processes; ends the others when one fails or the user interrupts."""
    try:
        for preset, process, reader, said in running:
            code = process.wait()
            reader.join()
            if code != 0:
                raise UserError(f"Training with lean={preset} failed:\n" + "\n".join(said[-15:]), "see its train.log")
    finally:
        for _, process, _, _ in running:
            if process.poll() is None:
                process.terminate()
                process.wait()


def read_side(out: Path, preset: str) -> Side:
    """The finished run of a preset."""
    folder = out / "logs" / TASK / str(SEED) / preset.replace(",", "+")
    return Side(preset, folder, record.read(folder))


def table(sides: Sequence[Side], subject: GateSubject) -> list[str]:
    """Return, speed and ratio of both sides, labelled with their n."""
    first = sides[0]
    lines = [
        f"{TASK} on {subject.reference.label}, {first.kept.evaluations[-1].step} agent steps, "
        f"n=1 (seed {SEED}): a single seed is a hypothesis, not a result",
        f"{'lean':<12} {'return at step 0':>17} {'at the end':>11} {'steps/s':>8} {'ratio':>6}",
    ]
    for side in sides:
        ratio = side.speed / first.speed
        lines.append(
            f"{side.preset:<12} {side.first_return:>17.1f} {side.last_return:>11.1f} {side.speed:>8.1f} {ratio:>6.2f}"
        )
    lines.append("steps/s while learning, both runs at the same time on one machine with one thread each")
    return lines


def next_commands(subject: GateSubject) -> list[str]:
    """Three commands that a newcomer may want now."""
    if subject.reference.upstream == upstreams.MINIATURE:
        return [
            "tdmpc2-lean upstream fetch                      the official code, when there is a network",
            "tdmpc2-lean patch show plan-vec --checkout DIR  what a patch changes in your own clone",
            "tdmpc2-lean gate run --checkout miniature --controls",
        ]
    return [
        "tdmpc2-lean train task=walker-walk lean=fast seed=1          (a CUDA device; else add device=cpu)",
        "tdmpc2-lean patch show plan-vec                              what a patch changes",
        "tdmpc2-lean gate run --controls                              can the gates fail at all?",
    ]
