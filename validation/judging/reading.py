"""Reads a folder of runs to be judged: every run's record and curve, and what is wrong with any line, by its number.

Nothing here raises for what stands in a file: what cannot be used is named, the rest is read. Records and lines have
one schema (tdmpc2_lean.runs: record, curve); the folder's name and the order of the lines change no verdict.
"""

import math
from dataclasses import dataclass
from pathlib import Path

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import curve, record
from tdmpc2_lean.runs.find import run_folders
from tdmpc2_lean.runs.record import RunRecord


class CannotJudge(UserError):
    """There is nothing that a verdict could be on. Its exit code is no verdict's."""

    exit_code = 3


@dataclass(frozen=True)
class Complaint:
    """What is wrong in a file. file: from the folder of the runs.      line: from 1; 0 for the whole file."""

    file: str
    line: int
    what: str


@dataclass(frozen=True)
class Point:
    """One line of a curve; see tdmpc2_lean.runs.curve. value: NaN where it has none, or an impossible one.

    returns: of each episode; None if not said.      updates: None if not said.
    seconds: of wall time so far, None if not said.      provenance: short hash; empty if not said.
    """

    line: int
    agent_steps: int
    env_steps: int
    value: float
    episodes: int
    seconds: float | None = None
    provenance: str = ""
    chunk: int = 0
    returns: tuple[float, ...] | None = None
    updates: int | None = None
    complete: bool = True


@dataclass(frozen=True)
class Folder:
    """A run as it lies on the disk.

    name: the folder, from that of the runs.      record: None if it cannot be read.
    points: the usable lines of the curve, in the file's order.
    """

    name: str
    record: RunRecord | None
    points: tuple[Point, ...]
    complaints: tuple[Complaint, ...] = ()


@dataclass(frozen=True)
class FolderOfRuns:
    """folders: of the runs.      complaints: about what could not be looked into."""

    folders: tuple[Folder, ...]
    complaints: tuple[Complaint, ...] = ()


def read(runs: Path) -> FolderOfRuns:
    """Every run below `runs`, links followed. CannotJudge if there is no such folder, or no run in it."""
    if not runs.is_dir():
        raise CannotJudge(f"There is no folder {runs}.", "name the folder that `tdmpc2-lean validate run` wrote")
    found = run_folders(runs)
    unreadable = tuple(Complaint(_name(one.path, runs), 0, f"cannot be read: {one.why}") for one in found.unreadable)
    if not found.folders:
        told = "".join(f"\n  {one.file} {one.what}" for one in unreadable)
        raise CannotJudge(
            f"{runs} holds no run: no folder in it has a {record.FILE} or a {curve.FILE}.{told}",
            "tdmpc2-lean validate run NAME --out " + str(runs),
        )
    return FolderOfRuns(tuple(_folder(path, _name(path, runs)) for path in found.folders), unreadable)


def _name(path: Path, runs: Path) -> str:
    """A path from the folder of the runs, in characters that can be written."""
    return path.relative_to(runs).as_posix().encode("utf-8", "backslashreplace").decode()


def _folder(path: Path, name: str) -> Folder:
    complaints = []
    kept = None
    try:
        kept = record.read(path)
    except UserError as error:
        complaints.append(Complaint(f"{name}/{record.FILE}", 0, _about_record(error.message, path)))
    lines, faults = curve.read(path / curve.FILE)
    points = []
    for numbered in lines:
        point, odd = point_of(numbered)
        points.append(point)
        complaints += [Complaint(f"{name}/{curve.FILE}", point.line, what) for what in odd]
    for fault in faults:
        what = f"{fault.what}; left out" if fault.left_out else fault.what
        complaints.append(Complaint(f"{name}/{curve.FILE}", fault.number, what))
    return Folder(name, kept, tuple(points), tuple(sorted(complaints, key=lambda one: (one.file, one.line))))


def _about_record(message: str, path: Path) -> str:
    """What is wrong with a record, without where it lies."""
    if not (path / record.FILE).exists():
        return "is missing"
    said = message.removeprefix(f"{path / record.FILE} ").removeprefix(f"{path} ")
    return said.encode("utf-8", "backslashreplace").decode()


def point_of(numbered: curve.NumberedLine) -> tuple[Point, list[str]]:
    """(the point that a line gives, what in it no run can have written)."""
    line, odd = numbered.line, []
    value = math.nan if line.value is None else line.value
    if math.isnan(value) and line.episodes:
        odd.append(f"has no value at {line.env_steps} env steps")
    seconds = line.seconds
    if seconds is not None and not 0 <= seconds < MOST_SECONDS:
        odd.append(f"{seconds:g} seconds of wall time")
        seconds = None
    point = Point(
        numbered.number, line.agent_steps, line.env_steps, value, line.episodes, seconds, line.provenance, line.chunk,
        line.returns, line.updates, line.complete,
    )  # fmt: skip
    return point, odd


MOST_SECONDS = 1e10  # three centuries
