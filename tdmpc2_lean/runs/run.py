"""Carries a plan out: makes the run's folder, runs the official script, keeps the record."""

import collections
import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tdmpc2_lean.environments import rendering
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import record
from tdmpc2_lean.runs.progress import Display, Progress, duration
from tdmpc2_lean.tdmpc2 import child
from tdmpc2_lean.tdmpc2.plan import Plan, check_folder

LAST_LINES = 15  # of the log, shown when a run fails
PATIENCE = 20.0  # seconds an interrupted child gets to end by itself
INTERRUPTED = 130
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
RESULT = re.compile(r"^\s*(?P<task>\S+)\s.*R: *(?P<reward>-?[\d.]+|nan)(?:\s+S: *(?P<success>-?[\d.]+|nan))?")


class RunFailed(UserError):
    """The official script ended in an error; the message says where its log is."""

    exit_code = 1


@dataclass(frozen=True)
class Outcome:
    """A finished run: its folder and the record in it."""

    folder: Path
    record: dict[str, Any]


def carry_out(plan: Plan, *, quiet: bool = False) -> Outcome:
    """Run the plan to its end. RunFailed or KeyboardInterrupt if it does not get there; the folder tells."""
    check_folder(plan.folder, plan.overwrite)
    make_folder(plan.folder)
    kept = record.new(
        kind=plan.kind,
        command=plan.command,
        cwd=str(plan.cwd),
        task=str(plan.config["task"]),
        seed=plan.config["seed"],
        upstream=plan.patched.provenance(),
        presets=[preset_record(preset) for preset in plan.presets],
        overrides=dict(plan.overrides),
        hydra=list(plan.hydra),
        config=dict(plan.config),
        device={"kind": plan.device, "name": None},
        threads={"number": plan.threads[0], "why": plan.threads[1]},
        environment=dict(plan.environment),
        checkpoint=plan.checkpoint,
    )
    write_config(plan.folder / "config.yaml", plan.config)
    record.write(plan.folder, kept)
    log = Log(plan.folder / ("train.log" if plan.kind == "train" else "evaluate.log"))
    progress = Progress()
    display = Display(progress, quiet=quiet)
    try:
        exit_code, interrupted = watched(plan, log, progress, display)
    except KeyboardInterrupt:
        record.write(plan.folder, record.ended(kept, "interrupted", INTERRUPTED))
        raise
    except BaseException as error:
        record.write(plan.folder, record.ended(kept, "failed", 1, f"the watching process: {error!r}"))
        raise
    finally:
        display.close()
        log.close()
    kept |= what_happened(plan, progress, log)
    if interrupted:
        record.write(plan.folder, record.ended(kept, "interrupted", INTERRUPTED))
        draw(plan.folder)
        display.say(f"what there is stays in {plan.folder}")
        raise KeyboardInterrupt
    if exit_code != 0 or not progress.ended:
        failure = explained(plan, exit_code, progress, log)
        record.write(plan.folder, record.ended(kept, "failed", exit_code or 1, failure.message))
        draw(plan.folder)
        raise failure
    kept = record.ended(kept, "finished", 0)
    record.write(plan.folder, kept)
    draw(plan.folder)
    return Outcome(plan.folder, kept)


def make_folder(folder: Path) -> None:
    """Make a run's folder anew, alone: of two runs at once for one folder, one is refused."""
    if folder.exists() and any(folder.iterdir()):
        old = folder.with_name(f".{folder.name}.replaced-{os.getpid()}")
        os.replace(folder, old)
        shutil.rmtree(old)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()  # an empty one
    try:
        folder.mkdir()
    except FileExistsError:
        raise UserError(f"another run has just begun in {folder}.", "choose another exp_name=") from None


def preset_record(preset) -> dict[str, Any]:
    import hashlib

    return {
        "name": preset.name,
        "file": preset.path.name,
        "sha256": hashlib.sha256(preset.path.read_bytes()).hexdigest(),
        "overrides": dict(preset.overrides),
        "times": dict(preset.times),
    }


def write_config(path: Path, config: dict[str, Any]) -> None:
    """The configuration as composed; the child replaces it by the one that the code resolved."""
    import yaml

    path.write_text(yaml.safe_dump(dict(config), sort_keys=False), encoding="utf-8")


def child_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment in which an official script runs: ours, and the variables that its plan gives."""
    environment = os.environ | given | {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment.setdefault("HYDRA_FULL_ERROR", "1")
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "HYDRA_MAIN_MODULE"):
        environment.pop(name, None)
    return environment


def watched(plan: Plan, log: "Log", progress: Progress, display: Display) -> tuple[int, bool]:
    """Run the plan's child and follow it to its end: (exit code, whether it was interrupted)."""

    def command(channel: int) -> list[str]:
        request = {
            "script": str(plan.script),
            "words": list(plan.hydra),
            "channel": channel,
            "config": str(plan.folder / "config.yaml"),
            "probe": plan.probe,
        }
        return [sys.executable, "-P", child.__file__, json.dumps(request)]

    return watch(command, plan.cwd, plan.environment, log, progress, display)


def watch(
    command: Callable[[int], list[str]],
    cwd: Path,
    environment: Mapping[str, str],
    log: "Log",
    progress: Progress,
    display: Display,
    descriptors: Sequence[int] = (),
    patience: float = PATIENCE,
) -> tuple[int, bool]:
    """Run a child and follow it to its end: (exit code, whether it was interrupted).

    command: makes the command line of the file descriptor that the child writes its events to.
    descriptors: of further open files that the child keeps open.
    patience: seconds that an interrupted child gets to end by itself.
    """
    reading, writing = os.pipe()
    try:
        child = subprocess.Popen(
            command(writing),
            cwd=cwd,
            env=child_environment(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[writing, *descriptors],
            start_new_session=True,  # a terminal's Ctrl-C reaches this process alone, which hands it on once
        )
    finally:
        os.close(writing)
    pump = threading.Thread(target=log.follow, args=(child.stdout,), daemon=True)
    pump.start()
    with interruptions() as interrupts, os.fdopen(reading, "rb", buffering=0) as channel:
        try:
            follow(child, channel, progress, display, interrupts, patience)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # workers that outlive the script, or the script itself
            exit_code = child.wait()
            pump.join(timeout=10)
    return exit_code, bool(interrupts)


def follow(
    child: subprocess.Popen,
    channel,
    progress: Progress,
    display: Display,
    interrupts: list[float],
    patience: float,
) -> None:
    """Take events until the child has ended; hand interruptions on, more and more firmly."""
    left, handed_on, open_ = b"", 0, True
    while True:
        if open_ and select.select([channel], [], [], 0.2)[0]:
            part = channel.read(1 << 16)
            open_ = bool(part)
            *lines, left = (left + part).split(b"\n")
            for line in lines:
                with contextlib.suppress(ValueError):
                    progress.take(json.loads(line))
        elif child.poll() is not None:
            return
        elif not open_:
            time.sleep(0.1)
        display.update()
        wanted = len(interrupts)
        if interrupts and time.monotonic() - interrupts[0] > patience:
            wanted = max(wanted, 3)
        if wanted > handed_on:
            handed_on = wanted
            if wanted == 1:
                display.say("interrupting the run; its folder stays (again: harder)")
                child.send_signal(signal.SIGINT)
            else:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGTERM if wanted == 2 else signal.SIGKILL)


@contextlib.contextmanager
def interruptions() -> Iterator[list[float]]:
    """A list that gets the time of every Ctrl-C, termination or hang-up while the context lasts."""
    times: list[float] = []
    if threading.current_thread() is not threading.main_thread():
        yield times
        return
    earlier = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        handler = signal.getsignal(number)
        if handler is not signal.SIG_IGN:  # as under nohup
            earlier[number] = signal.signal(number, lambda *_: times.append(time.monotonic()))
    try:
        yield times
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


class Log:
    """The log of a run: all that the script prints, without colours, a line at a time."""

    def __init__(self, path: Path, append: bool = False):
        self.path = path
        self.file = open(path, "a" if append else "w", encoding="utf-8", buffering=1)
        self.last: collections.deque[str] = collections.deque(maxlen=400)

    def follow(self, stream) -> None:
        """Copy the stream into the file until it ends. Of a line that overwrites itself, the end stays.

        On a full disk lines are lost and the stream is read on: a script that waits for its reader would hang.
        """
        for raw in stream:
            text = COLOURS.sub("", raw.decode("utf-8", "replace")).rstrip("\r\n").rpartition("\r")[2].rstrip()
            self.last.append(text)
            with contextlib.suppress(OSError):
                self.file.write(text + "\n")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.file.close()

    def tail(self, lines: int = LAST_LINES) -> list[str]:
        """The last lines that say something."""
        return [line for line in self.last if line.strip()][-lines:]


def what_happened(plan: Plan, progress: Progress, log: Log) -> dict[str, Any]:
    """The fields of the record that are known only after the run."""
    from omegaconf import OmegaConf

    happened: dict[str, Any] = {"config": OmegaConf.to_container(OmegaConf.load(plan.folder / "config.yaml"))}
    if plan.kind == "train":
        happened["evaluations"] = progress.evaluations
        happened["timing"] = progress.timing()
    else:
        happened["evaluations"] = results(log, plan)
    if progress.device:
        happened["device"] = {"kind": progress.device, "name": progress.device_name}
    return happened


def results(log: Log, plan: Plan) -> list[dict[str, Any]]:
    """What the official evaluation printed: a line for each task."""
    found = []
    for line in log.last:
        match = RESULT.match(line)
        if match:
            success = match["success"]
            found.append(
                {
                    "task": match["task"],
                    "episode_reward": float(match["reward"]),
                    "episode_success": None if success is None else float(success),
                    "episodes": plan.config.get("eval_episodes"),
                }
            )
    return found


def explained(plan: Plan, exit_code: int, progress: Progress, log: Log) -> RunFailed:
    """Why a run failed, as far as its events and its log tell."""
    if progress.broken is not None:
        told = rendering.explained(progress.broken["module"], progress.broken["why"], plan.draws)
        return RunFailed(f"{told.message}\n  log: {log.path}", told.next_step)
    lines = log.tail()
    text = "\n".join(log.last)
    next_step = "read the log; the run's folder stays as it is"
    if "Weights only load failed" in text:
        path = plan.checkpoint["path"] if plan.checkpoint else "the checkpoint"
        return RunFailed(
            f"{path} holds more than tensors; loading it would execute code from it.\n  log: {log.path}",
            "only if you trust where the file comes from: tdmpc2-lean evaluate --trust-checkpoint …",
        )
    if plan.kind == "evaluate" and "Error(s) in loading state_dict" in text:
        next_step = (
            "give the network settings the checkpoint was trained with, such as model_size=5 or lean=smoke"
        )
    elif "Failed to make environment" in text or "Missing dependencies" in text:
        next_step = "install what the task's suite needs; the official docker/environment.yaml lists it"
    elif "out of memory" in text:
        next_step = "smaller batch_size=, num_samples= or model_size=, or another device="
    elif exit_code < 0:
        lines = [*lines, f"(ended by signal {signal.Signals(-exit_code).name})"]
    shown = "\n".join(f"    {line}" for line in lines)
    return RunFailed(f"the run failed. The end of its log:\n{shown}\n  log: {log.path}", next_step)


def draw(folder: Path, read: Callable | None = None) -> None:
    """curve.png of a training run with at least one point. A run does not fail for want of a picture."""
    from tdmpc2_lean.runs import figure

    try:
        figure.draw_run(folder, read or figure.read_run)
    except Exception as error:
        click.echo(f"note: figure.png could not be drawn: {error}", err=True)


def summary(outcome: Outcome) -> list[str]:
    """What is said at the end."""
    kept = outcome.record
    lines = []
    if kept["kind"] == "train":
        timing = kept["timing"] or {}
        speed = timing.get("learning_steps_per_second") or timing.get("steps_per_second")
        pace = f", {speed:.1f} steps/s while learning" if speed else ""
        lines.append(f"finished in {duration(kept['seconds'])}{pace} (n=1 run, seed {kept['seed']})")
    lines.append(f"folder: {outcome.folder}")
    return lines
