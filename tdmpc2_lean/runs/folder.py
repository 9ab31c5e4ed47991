"""A run's folder: where it lies, what is in it, and who holds it.

    run.json        the record (`record`)
    curve.jsonl     the learning curve (`curve`)
    config.yaml     all settings, as the official code resolved them
    train.log       what the official code printed, of all starts (evaluate.log of an evaluation)
    request.json    what the child was told at the last start
    curve.png       the returns, against the published ones
    .lock, holder.json   who is making the run, while somebody is

Two processes on one folder are kept apart by a lock on a file. Where locks do not reach another machine, as on some
shared file systems, the holder's heartbeat does: a file that it touches while it works. Nobody holds a folder without
a heartbeat: a run that was killed on a machine that is gone blocks nothing for long.
"""

import contextlib
import fcntl
import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.files import atomic_write
from tdmpc2_lean.runs import curve, record

LOCK, HOLDER = ".lock", "holder.json"
DEFAULT = "default"
HEARTBEAT_EVERY = 20.0  # seconds
DEAD_AFTER = 120.0  # seconds without a heartbeat from another machine
CLOCK_SKEW = 120.0  # seconds that a file server's clock may be behind a holder's
MOMENT = 0.5  # seconds for which a lock is asked for again: somebody may only have looked


class Held(UserError):
    """Somebody else is making the run."""


def folder_of(runs: Path, protocol: str, presets: Sequence[str], seed: int) -> Path:
    """Where a protocol's run lies below a folder of runs."""
    return runs / protocol / ("+".join(presets) or DEFAULT) / f"seed-{seed}"


def is_empty(folder: Path) -> bool:
    """Whether nothing is in the folder but what holding it puts there; also if there is no folder."""
    try:
        return all(is_of_holding(path.name) for path in folder.iterdir())
    except FileNotFoundError:
        return True


def is_of_holding(name: str) -> bool:
    return name in (LOCK, HOLDER) or name.startswith((f".{HOLDER}.", ".now."))


def is_run(folder: Path) -> bool:
    """Whether the folder holds a run: one of ours, or the official code's own files."""
    ours = (folder / record.FILE).is_file() or (folder / curve.FILE).is_file()
    return ours or (folder / "eval.csv").is_file() or (folder / "models").is_dir()


def clear(folder: Path) -> None:
    """Remove a run that is held, all but what holding it needs. It is moved aside first, in one step a file."""
    aside = folder / f".replaced-{os.getpid()}"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    for path in list(folder.iterdir()):
        if path != aside and not is_of_holding(path.name):
            os.replace(path, aside / path.name)
    shutil.rmtree(aside)


# ------------------------------------------------------------------------------------------------ who holds it


@contextlib.contextmanager
def held(folder: Path) -> Iterator[int]:
    """Hold a run while the context lasts; gives the lock's file descriptor, for the process that makes the run.

    The lock is free when the last process that has the descriptor is gone. Held if somebody else holds the run. A
    folder that was made for this and in which nothing came to lie is removed again.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UserError(f"{folder} is no folder, or leads through a file.", "choose another name") from None
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        take(lock, folder)
        if is_alive_elsewhere(folder):
            raise held_error(folder)
        me = {
            "pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now(UTC).isoformat("T", "seconds"),
            "process_started": psutil.Process().create_time(),
        }  # fmt: skip
        atomic_write(folder / HOLDER, json.dumps(me) + "\n")
        over = threading.Event()

        def beat():
            while not over.wait(HEARTBEAT_EVERY):
                with contextlib.suppress(OSError):
                    os.utime(folder / HOLDER)

        threading.Thread(target=beat, daemon=True).start()
        try:
            yield lock
        finally:
            over.set()
            (folder / HOLDER).unlink(missing_ok=True)
            if is_empty(folder):
                with contextlib.suppress(OSError):
                    (folder / LOCK).unlink(missing_ok=True)
                    folder.rmdir()
    finally:
        os.close(lock)


def take(lock: int, folder: Path) -> None:
    """Take the lock, or Held. Somebody who only asks who holds it is waited for."""
    until = time.monotonic() + MOMENT
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise held_error(folder) from None
            time.sleep(0.05)
            continue
        # Whoever held it last may have removed the file, so that a lock on it keeps nobody away.
        try:
            same = os.path.samestat(os.fstat(lock), os.stat(folder / LOCK))
        except FileNotFoundError:
            same = False
        if not same:
            raise Held(f"{folder} has just been given up by another process.", "type the same command again")
        return


def held_error(folder: Path) -> Held:
    return Held(
        f"{folder} is being made by {holder(folder) or 'another process'}.",
        "wait for it, or stop that process; the same command then goes on with the run",
    )


def is_held(folder: Path) -> bool:
    """Whether somebody is making the run now. Takes no lock, so that asking keeps nobody from making it."""
    found = holder_record(folder)
    if found is None:
        return False
    if found["host"] == socket.gethostname():
        return is_alive_here(found) or is_locked(folder)
    return is_alive_elsewhere(folder)


def is_locked(folder: Path) -> bool:
    """Whether a process here has the lock: the child of a holder that was killed may, for a moment."""
    try:
        lock = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def is_alive_here(found: dict[str, Any]) -> bool:
    """Whether the holder's process still runs here, and is not another that got its number."""
    try:
        process = psutil.Process(int(found["pid"]))
        return abs(process.create_time() - float(found.get("process_started", process.create_time()))) < 1.0
    except (psutil.Error, ValueError, TypeError):
        return False


def holder(folder: Path) -> str:
    """Who holds the run, in words; empty if nobody has written that down."""
    found = holder_record(folder)
    return f"process {found['pid']} on {found['host']} since {found['since']}" if found else ""


def holder_record(folder: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((folder / HOLDER).read_bytes())
        return {**found, **{key: found[key] for key in ("pid", "host", "since")}}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_alive_elsewhere(folder: Path) -> bool:
    """Whether a process on another machine has given a heartbeat of late, by the file system's own clock.

    A time in the future, beyond what clocks differ by, is no heartbeat.
    """
    found = holder_record(folder)
    if found is None or found["host"] == socket.gethostname():
        return False
    probe = folder / f".now.{socket.gethostname()}.{os.getpid()}"
    try:
        probe.write_bytes(b"")
        age = probe.stat().st_mtime - (folder / HOLDER).stat().st_mtime
        return -CLOCK_SKEW < age < DEAD_AFTER
    except OSError:
        return False
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
