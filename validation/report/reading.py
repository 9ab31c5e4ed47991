"""Reads a folder of runs for the report: every run's record and curve, and what is wrong with any line, by its number.

Nothing here raises for what stands in a file: what cannot be used is named, the rest is read. `runs.read_run` reads
a curve as a run that goes on must find it; this reads whatever lies there, under any folder's name and in any order,
so that neither changes a verdict.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tdmpc2_lean.errors import UserError

RECORD, CURVE = "run.json", "curve.jsonl"


@dataclass(frozen=True)
class Complaint:
    """What is wrong in a file. file: from the folder of the runs.      line: from 1; 0 for the whole file."""

    file: str
    line: int
    what: str


@dataclass(frozen=True)
class Point:
    """One line of a curve. value: NaN where it has none.      seconds: of wall time so far, None if not said.

    provenance: short hash; empty if not said.
    """

    line: int
    agent_steps: int
    env_steps: int
    value: float
    episodes: int
    seconds: float | None = None
    provenance: str = ""


@dataclass(frozen=True)
class Folder:
    """A run as it lies on the disk.

    name: the folder, from that of the runs.      record: run.json; empty if it cannot be read.
    points: the usable lines of the curve, in the file's order.
    """

    name: str
    record: Mapping[str, Any]
    points: tuple[Point, ...]
    complaints: tuple[Complaint, ...]


def read(runs: Path) -> list[Folder]:
    """Every folder below `runs` that holds a run.json or a curve.jsonl. UserError if there is no such folder."""
    if not runs.is_dir():
        raise UserError(f"There is no folder {runs}.", "name the folder that `tdmpc2-lean validate run` wrote")
    found = sorted({path.parent for name in (RECORD, CURVE) for path in runs.rglob(name)})
    if not found:
        raise UserError(
            f"{runs} holds no run: no folder in it has a {RECORD} or a {CURVE}.",
            "tdmpc2-lean validate run NAME --out " + str(runs),
        )
    return [_folder(path, path.relative_to(runs).as_posix()) for path in found]


def _folder(path: Path, name: str) -> Folder:
    record, complaints = _record(path / RECORD, f"{name}/{RECORD}")
    curve = path / CURVE
    try:
        text = curve.read_bytes()
    except FileNotFoundError:
        return Folder(name, record, (), (*complaints, Complaint(f"{name}/{CURVE}", 0, "is missing")))
    except OSError as error:
        fault = Complaint(f"{name}/{CURVE}", 0, f"cannot be read: {error.strerror}")
        return Folder(name, record, (), (*complaints, fault))
    points, faults = curve_points(text, f"{name}/{CURVE}")
    return Folder(name, record, tuple(points), (*complaints, *faults))


def _record(path: Path, name: str) -> tuple[dict[str, Any], list[Complaint]]:
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}, [Complaint(name, 0, "is missing")]
    except OSError as error:
        return {}, [Complaint(name, 0, f"cannot be read: {error.strerror}")]
    except ValueError as error:
        return {}, [Complaint(name, 0, f"is no JSON: {error}")]
    if not isinstance(record, dict):
        return {}, [Complaint(name, 0, "is no JSON object")]
    return record, []


def curve_points(text: bytes, file: str) -> tuple[list[Point], list[Complaint]]:
    """The usable points of a curve.jsonl, in its order, and what is wrong with its lines.

    A line is left out if it cannot be read or repeats an earlier one word for word in steps, value and episodes.
    A line without a finite value, out of order, or that contradicts an earlier one is named and kept: what it
    means for a verdict is for the criteria to say.
    """
    points: list[Point] = []
    faults: list[Complaint] = []
    lines = text.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            if number < len(lines):
                faults.append(Complaint(file, number, "is empty"))
            continue
        try:
            point = _point(json.loads(line), number)
        except (ValueError, RecursionError) as error:
            cut = number == len(lines) and not isinstance(error, Unusable)
            what = "is cut short" if cut else str(error) if isinstance(error, Unusable) else "is no JSON"
            faults.append(Complaint(file, number, f"{what}; left out"))
            continue
        about, kept = _about(point, points)
        faults.extend(Complaint(file, number, what) for what in about)
        if kept:
            points.append(point)
    return points, faults


class Unusable(ValueError):
    """A line that is JSON and no point."""


def _point(found: Any, number: int) -> Point:
    """The point that a line's JSON says; Unusable with the reason if it says none."""
    if not isinstance(found, dict):
        raise Unusable("is no JSON object")
    missing = [key for key in ("agent_steps", "env_steps", "value", "episodes") if key not in found]
    if missing:
        raise Unusable(f"has no {', no '.join(missing)}")
    for key in ("agent_steps", "env_steps", "episodes"):
        if type(found[key]) is not int or not (key != "episodes") <= found[key] < 2**53:
            raise Unusable(f"{key} is {_short(found[key])}, not a number of them")
    value = found["value"]
    if value is not None and type(value) not in (int, float):
        raise Unusable(f"value is {_short(value)}, not a number")
    try:
        value = math.nan if value is None else float(value)
    except OverflowError:
        value = math.inf
    seconds = found.get("seconds")
    return Point(
        number,
        found["agent_steps"],
        found["env_steps"],
        value,
        found["episodes"],
        float(seconds) if type(seconds) in (int, float) and math.isfinite(seconds) else None,
        found["provenance"] if isinstance(found.get("provenance"), str) else "",
    )


def _about(point: Point, before: Iterable[Point]) -> tuple[list[str], bool]:
    """(what is odd about a point, whether to keep it), given the points before it."""
    before = list(before)
    odd = []
    if not math.isfinite(point.value) and point.episodes:
        said = "no value" if math.isnan(point.value) else "an infinite value"
        odd.append(f"has {said} at {point.env_steps} env steps")
    same = [other for other in before if other.env_steps == point.env_steps]
    for other in same:
        if _content(other) == _content(point):
            return [*odd, f"repeats line {other.line} ({point.env_steps} env steps); counted once"], False
    if same:
        odd.append(f"contradicts line {same[0].line}: {point.value:g} and {same[0].value:g} at {point.env_steps}")
    elif before and point.env_steps < (furthest := max(other.env_steps for other in before)):
        odd.append(f"is out of order: {point.env_steps} env steps after {furthest}")
    return odd, True


def _content(point: Point) -> tuple:
    value = None if math.isnan(point.value) else point.value
    return point.agent_steps, point.env_steps, value, point.episodes


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 40 else text[:37] + "..."
