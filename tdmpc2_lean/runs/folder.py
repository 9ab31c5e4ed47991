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
CHILDS_END = 10.0  # seconds for which the child of a holder that was killed may still have the lock
REPLACED = ".replaced-"  # holds what is being removed of an earlier run


class Held(UserError):
    """Somebody else is making the run."""


def folder_of(runs: Path, protocol: str, presets: Sequence[str], seed: int) -> Path:
    """Where a protocol's run lies below a folder of runs."""
    return runs / protocol / ("+".join(presets) or DEFAULT) / f"seed-{seed}"


def is_empty(folder: Path) -> bool:
    """Whether nothing is in the folder but what holding it puts there; also if there is none."""
    try:
        return all(is_of_holding(path.name) for path in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return True


def is_of_holding(name: str) -> bool:
    return name in (LOCK, HOLDER) or name.startswith((f".{HOLDER}.", ".now.", REPLACED))


def is_run(folder: Path) -> bool:
    """Whether the folder holds a run: one of ours, or the official code's own files."""
    ours = (folder / record.FILE).is_file() or (folder / curve.FILE).is_file()
    return ours or (folder / "eval.csv").is_file() or (folder / "models").is_dir()


def clear(folder: Path) -> None:
    """Remove a run that is held, all but what holding it needs. It is moved aside first, in one step a file.

    The record goes last: until then, the folder of a process that was killed here still holds a run.
    """
    for left in folder.glob(f"{REPLACED}*"):
        shutil.rmtree(left, ignore_errors=True)
    aside = folder / f"{REPLACED}{os.getpid()}"
    aside.mkdir(exist_ok=True)
    for path in sorted(folder.iterdir(), key=lambda path: path.name == record.FILE):
        if not is_of_holding(path.name):
            os.replace(path, aside / path.name)
    shutil.rmtree(aside)


# ------------------------------------------------------------------------------------------------ who holds it


@contextlib.contextmanager
def held(folder: Path) -> Iterator[int]:
    """Hold a run while the context lasts; gives the lock's file descriptor, for the process that makes the run.

    The lock is free when the last process that has the descriptor is gone. Held if somebody else holds the run. A
    folder that was made for this and in which nothing came to lie is removed again.
    """
    lock = taken(folder)
    try:
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


def taken(folder: Path) -> int:
    """The descriptor of the folder's lock, taken; or Held. Makes the folder."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise UserError(f"{folder} is no folder, or leads through a file.", "choose another name") from None
        try:
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:
            continue  # its last holder has just removed the empty folder
        try:
            take(lock, folder)
            # Whoever held it last may have removed the file, so that a lock on it keeps nobody away.
            if os.path.samestat(os.fstat(lock), os.stat(folder / LOCK)):
                return lock
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)


def take(lock: int, folder: Path) -> None:
    """Take the lock, or Held. Waited for are who only asks who holds it, and the child of a holder that was killed."""
    since = time.monotonic()
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() - since > (CHILDS_END if is_dead_here(holder_record(folder)) else MOMENT):
                raise held_error(folder) from None
            time.sleep(0.05)


def held_error(folder: Path) -> Held:
    found = holder_record(folder)
    wait = "wait for it, or stop that process; the same command then goes on with the run"
    if found is not None and found["host"] != socket.gethostname():
        wait += f" (a process elsewhere that gives no heartbeat for {DEAD_AFTER:.0f} s no longer counts)"
    return Held(f"{folder} is being made by {holder(folder) or 'another process'}.", wait)


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
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if "process_started" in found:
            return abs(process.create_time() - float(found["process_started"])) < 1.0
        return process.create_time() <= datetime.fromisoformat(found["since"]).timestamp() + 1.0
    except (psutil.Error, ValueError, TypeError, OverflowError):
        return False


def is_dead_here(found: dict[str, Any] | None) -> bool:
    """Whether a holder was a process of this machine, and is gone."""
    return found is not None and found["host"] == socket.gethostname() and not is_alive_here(found)


def holder(folder: Path) -> str:
    """Who holds the run, in words; empty if nobody has written that down."""
    found = holder_record(folder)
    return f"process {found['pid']} on {found['host']} since {found['since']}" if found else ""


def holder_record(folder: Path) -> dict[str, Any] | None:
    """What holder.json says; None if there is none, or it says nothing of use."""
    try:
        found = json.loads((folder / HOLDER).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    told = isinstance(found, dict) and all(
        isinstance(found.get(key), of) for key, of in (("pid", int), ("host", str), ("since", str))
    )
    return found if told else None


def is_alive_elsewhere(folder: Path) -> bool:
    """Whether a process on another machine has given a heartbeat of late, by the file system's own clock.

    A time in the future, beyond what clocks differ by, is no heartbeat.
    """
    found = holder_record(folder)
    if found is None or found["host"] == socket.gethostname():
        return False
    try:
        age = now_of(folder) - (folder / HOLDER).stat().st_mtime
    except OSError:
        return False
    return -CLOCK_SKEW < age < DEAD_AFTER


def now_of(folder: Path) -> float:
    """The time by the clock of the folder's file system; this machine's where nothing can be written."""
    probe = folder / f".now.{socket.gethostname()}.{os.getpid()}"
    try:
        probe.write_bytes(b"")
        return probe.stat().st_mtime
    except OSError:
        return time.time()
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
