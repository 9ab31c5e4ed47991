"""A run's folder: its record and curve, read and written in one place, and who holds it.

Two processes on one folder are kept apart by a lock on a file. Where locks do not reach another machine, as on some
shared file systems, the holder's sign of life does: a file that it touches while it works.
"""

import contextlib
import fcntl
import json
import math
import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tdmpc2_lean.errors import UserError

RECORD, CURVE, LOCK, HOLDER = "run.json", "curve.jsonl", ".lock", "holder.json"
DEFAULT = "default"
NUMBERS = {
    "chunk": int, "agent_steps": int, "env_steps": int, "value": float, "episodes": int, "updates": int,
    "replay_bytes": int, "seconds": float,
}  # fmt: skip
SIGN_OF_LIFE_EVERY = 20.0  # seconds
DEAD_AFTER = 120.0  # seconds without a sign of life from another machine


class Held(UserError):
    """Somebody else is making the run."""


@dataclass(frozen=True)
class RunFolder:
    """A run as it lies on the disk.

    record: run.json; empty if it cannot be read.
    lines: the usable lines of the curve, in order.
    problems: what is wrong, each with file and line.
    """

    path: Path
    record: Mapping[str, Any]
    lines: tuple[Mapping[str, Any], ...]
    problems: tuple[str, ...]


def folder_of(runs: Path, protocol: str, presets: Sequence[str], seed: int) -> Path:
    """Where a run lies."""
    return runs / protocol / ("+".join(presets) or DEFAULT) / f"seed-{seed}"


def run_folders(runs: Path) -> list[Path]:
    """All folders of runs below a folder, sorted."""
    return sorted(path.parent for path in runs.glob(f"*/*/seed-*/{RECORD}"))


def read_run(folder: Path) -> RunFolder:
    """Read a run's folder. What cannot be used is left out and named among the problems; nothing raises."""
    record, problems = {}, []
    try:
        record = read_record(folder) or {}
        if not record:
            problems.append(f"{folder / RECORD}: is missing")
    except UserError as error:
        problems.append(error.message)
    lines, faults = read_curve(folder / CURVE)
    return RunFolder(folder, record, tuple(lines), (*problems, *faults))


def read_record(folder: Path) -> dict[str, Any] | None:
    """run.json, or None if there is none. UserError if it cannot be read."""
    path = folder / RECORD
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}", "move the folder away to start anew") from None
    if not isinstance(record, dict):
        raise UserError(f"{path} is no JSON object.", "move the folder away to start anew")
    return record


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Write run.json in one step."""
    replace(folder / RECORD, json.dumps(dict(record), indent=2, ensure_ascii=False, default=str) + "\n")


def read_curve(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """(usable lines, what is wrong with the others): malformed, cut short, repeated, out of order, without a value."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"{path}: cannot be read: {error.strerror}"]
    *whole, rest = content.split(b"\n")
    lines: list[dict[str, Any]] = []
    problems = [f"{path}:{len(whole) + 1}: is cut short"] if rest else []
    for number, text in enumerate(whole, 1):
        fault, line = "", None
        try:
            line = json.loads(text)
        except ValueError:
            fault = "is no JSON"
        if not fault:
            fault = fault_of(line, lines)
        if fault:
            problems.append(f"{path}:{number}: {fault}")
        else:
            lines.append(line)
    return lines, problems


def fault_of(line: Any, before: Sequence[Mapping[str, Any]]) -> str:
    """What keeps a line from being used; empty if nothing does."""
    if not isinstance(line, dict):
        return "is no JSON object"
    for key, kind in NUMBERS.items():
        value = line.get(key)
        if isinstance(value, bool) or not isinstance(value, int if kind is int else int | float):
            return f"{key} is {value!r}"
        if not math.isfinite(value):
            return f"{key} is {value}"
    if before and line["agent_steps"] == before[-1]["agent_steps"]:
        return f"repeats {line['agent_steps']} agent steps"
    if before and line["agent_steps"] < before[-1]["agent_steps"]:
        return f"is out of order: {line['agent_steps']} agent steps after {before[-1]['agent_steps']}"
    return ""


def keep_lines_before(folder: Path, step: int) -> int:
    """Drop the lines at or beyond an agent step, and all that cannot be used. Returns how many stay."""
    lines, problems = read_curve(folder / CURVE)
    kept = [line for line in lines if line["agent_steps"] < step]
    if problems or len(kept) < len(lines):
        replace(folder / CURVE, "".join(json.dumps(line) + "\n" for line in kept))
    return len(kept)


def replace(path: Path, text: str) -> None:
    """Write a file in one step: a reader sees the old or the new one, and a full disk leaves the old one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


# ------------------------------------------------------------------------------------------------ who holds it


@contextlib.contextmanager
def held(folder: Path) -> Iterator[int]:
    """Hold a run while the context lasts; gives the lock's file descriptor, for the process that makes the run.

    The lock is free when the last process that has the descriptor is gone. Held if somebody else holds the run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise held_error(folder) from None
        if is_alive_elsewhere(folder):
            raise held_error(folder)
        me = {"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now(UTC).isoformat("T", "seconds")}
        replace(folder / HOLDER, json.dumps(me) + "\n")
        over = threading.Event()

        def live():
            while not over.wait(SIGN_OF_LIFE_EVERY):
                with contextlib.suppress(OSError):
                    os.utime(folder / HOLDER)

        threading.Thread(target=live, daemon=True).start()
        try:
            yield lock
        finally:
            over.set()
            (folder / HOLDER).unlink(missing_ok=True)
    finally:
        os.close(lock)


def held_error(folder: Path) -> Held:
    return Held(
        f"{folder} is being made by {holder(folder) or 'another process'}.",
        "wait for it, or stop that process; the same command then goes on with the run",
    )


def is_held(folder: Path) -> bool:
    """Whether somebody is making the run now."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return is_alive_elsewhere(folder)


def holder(folder: Path) -> str:
    """Who holds the run, in words; empty if nobody has written that down."""
    found = holder_record(folder)
    return f"process {found['pid']} on {found['host']} since {found['since']}" if found else ""


def holder_record(folder: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((folder / HOLDER).read_bytes())
        return {key: found[key] for key in ("pid", "host", "since")}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_alive_elsewhere(folder: Path) -> bool:
    """Whether a process on another machine has given a sign of life of late, by the file system's own clock."""
    found = holder_record(folder)
    if found is None or found["host"] == socket.gethostname():
        return False
    probe = folder / f".now.{socket.gethostname()}.{os.getpid()}"
    try:
        probe.write_bytes(b"")
        return probe.stat().st_mtime - (folder / HOLDER).stat().st_mtime < DEAD_AFTER
    except FileNotFoundError:
        return False
    finally:
        probe.unlink(missing_ok=True)
