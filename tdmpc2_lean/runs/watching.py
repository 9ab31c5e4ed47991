"""A run's child process, followed to its end: its events, its log, and interruptions handed on to it."""

import collections
import contextlib
import json
import os
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs.progress import Display, Progress

LAST_LINES = 15  # of the log, shown when a run fails
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class RunFailed(UserError):
    """The official script ended in an error; the message says where its log is."""

    exit_code = 1


class Log:
    """The log of a run: all that the script prints, without colours, a line at a time.

    append: go on in the file, after a line that says which start begins.
    """

    def __init__(self, path: Path, append: bool = False, heading: str = ""):
        self.path = path
        self.file = open(path, "a" if append else "w", encoding="utf-8", buffering=1)
        self.last: collections.deque[str] = collections.deque(maxlen=400)
        if append and heading:
            with contextlib.suppress(OSError):
                self.file.write(heading + "\n")

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

    @property
    def text(self) -> str:
        """What was printed last."""
        return "\n".join(self.last)

    def tail(self, lines: int = LAST_LINES) -> list[str]:
        """The last lines that say something."""
        return [line for line in self.last if line.strip()][-lines:]

    def shown(self, exit_code: int) -> str:
        """The last lines as a message shows them, and the signal that ended the process if one did."""
        lines = self.tail()
        if exit_code < 0:
            lines.append(f"(ended by signal {signal.Signals(-exit_code).name})")
        return "\n".join(f"    {line}" for line in lines)


def child_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment in which an official script runs: ours, and the variables that its plan gives."""
    environment = os.environ | given | {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment.setdefault("HYDRA_FULL_ERROR", "1")
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "HYDRA_MAIN_MODULE"):
        environment.pop(name, None)
    return environment


def watch(
    command: Callable[[int], list[str]],
    cwd: Path,
    environment: Mapping[str, str],
    log: Log,
    progress: Progress,
    display: Display,
    descriptors: Sequence[int],
    patience: float,
    interrupts: list[float],
) -> tuple[int, bool]:
    """Run a child and follow it to its end: (exit code, whether it was interrupted).

    command: makes the command line, given the file descriptor that the child writes its events to.
    descriptors: of further open files that the child keeps open, such as the run's lock.
    patience: seconds that an interrupted child gets to end by itself.
    interrupts: of `interruptions`, which begin before the run's record says that it runs.
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
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    pump = threading.Thread(target=log.follow, args=(child.stdout,), daemon=True)
    pump.start()
    with os.fdopen(reading, "rb", buffering=0) as channel:
        try:
            follow(child, channel, progress, display, interrupts, patience)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # workers that outlive the script, or the script itself
            exit_code = child.wait()
            pump.join(timeout=10)
    return exit_code, bool(interrupts)


def follow(
    child: subprocess.Popen, channel, progress: Progress, display: Display, interrupts: list[float], patience: float
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
                display.say("interrupting the run; its state is saved first, its folder stays (again: harder)")
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
