"""curve.jsonl: a run's learning curve, a line for every chunk of env steps. One format for every run.

    chunk                    number of the chunk that ends here, from 1
    agent_steps, env_steps   of training when it ends
    value                    mean return of `episodes` episodes: of an evaluation (TD-MPC2), or of the training
                             episodes that ended in the chunk (DreamerV3); null if there was none
    episodes, returns        how many, and the return of each
    updates                  gradient updates so far; null of an agent that does not count them
    replay_bytes             bytes that the steps in the replay take
    losses                   {loss: mean, unscaled} over the chunk's updates, as far as the agent tells
    scales                   {loss: scale}
    complete                 false for what came after the last whole chunk when the run reached its end
    seconds                  wall time of the run so far; time that a kill has cost is not in it
    provenance               short hash of the start's provenance, in run.json
    time                     ISO 8601

A line is written, and on the disk, before any checkpoint that comes after it. When a run goes on, the lines at or
beyond its checkpoint are dropped and computed again.
"""

import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from tdmpc2_lean.files import atomic_write
from tdmpc2_lean.runs.record import faults_of
from tdmpc2_lean.runs.specification import Described

FILE = "curve.jsonl"


class Line(Described):
    """One line; see the module. Lines of earlier versions lack the keys that have a default."""

    chunk: int = Field(ge=1)
    agent_steps: int = Field(ge=1, lt=2**53)
    env_steps: int = Field(ge=1, lt=2**53)
    value: float | None
    episodes: int = Field(ge=0, lt=2**53)
    returns: tuple[float, ...] | None = None
    updates: int | None = None
    replay_bytes: int | None = None
    losses: dict[str, float | None] = Field(default_factory=dict)
    scales: dict[str, float] = Field(default_factory=dict)
    complete: bool = True
    seconds: float | None = None
    provenance: str = ""
    time: str = ""


@dataclass(frozen=True)
class NumberedLine:
    """A line and where it stands in the file, from 1."""

    number: int
    line: Line


@dataclass(frozen=True)
class Fault:
    """What is wrong with a line of a file. number: from 1; 0 for the whole file. left_out: it was not read."""

    number: int
    what: str
    left_out: bool = False


def read(path: Path) -> tuple[list[NumberedLine], list[Fault]]:
    """(the lines that can be read, in the file's order; what is wrong with any).

    Nothing that stands in the file raises. A line is left out if it cannot be read or repeats an earlier one in
    steps, value and episodes. One that is out of order, or contradicts an earlier one, is named and kept. Takes time
    that grows with the file's length.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], [Fault(0, "is missing")]
    except OSError as error:
        return [], [Fault(0, f"cannot be read: {error.strerror}")]
    return parsed(content)


def parsed(content: bytes) -> tuple[list[NumberedLine], list[Fault]]:
    """As `read`, of a file's bytes."""
    found: list[NumberedLine] = []
    faults: list[Fault] = []
    at_step: dict[int, NumberedLine] = {}
    furthest = 0
    texts = content.split(b"\n")
    for number, text in enumerate(texts, 1):
        if not text.strip():
            if number < len(texts):
                faults.append(Fault(number, "is empty", True))
            continue
        try:
            line = Line.model_validate_json(text)
        except ValidationError as error:
            faults.append(Fault(number, why_unreadable(error, cut_short=number == len(texts)), True))
            continue
        same = at_step.get(line.env_steps)
        if same is not None and content_of(same.line) == content_of(line):
            faults.append(Fault(number, f"repeats line {same.number} ({line.env_steps} env steps)", True))
            continue
        if same is not None:
            values = f"{same.line.value} and {line.value}"
            faults.append(Fault(number, f"contradicts line {same.number}: {values} at {line.env_steps} env steps"))
        elif line.env_steps < furthest:
            faults.append(Fault(number, f"is out of order: {line.env_steps} env steps after {furthest}"))
        furthest = max(furthest, line.env_steps)
        numbered = NumberedLine(number, line)
        at_step.setdefault(line.env_steps, numbered)
        found.append(numbered)
    return found, faults


def content_of(line: Line) -> tuple[Any, ...]:
    return line.agent_steps, line.env_steps, line.value, line.episodes


def why_unreadable(error: ValidationError, cut_short: bool) -> str:
    """In words; the last line of a file without a final newline was cut short by a kill."""
    kinds = {fault["type"] for fault in error.errors()}
    if "json_invalid" in kinds:
        return "is cut short" if cut_short else "is no JSON"
    if kinds & {"model_type", "model_attributes_type"}:
        return "is no JSON object"
    return faults_of(error)


def lines_of(path: Path) -> list[Line]:
    """The readable lines."""
    return [numbered.line for numbered in read(path)[0]]


def keep_lines(path: Path, kept: Iterable[Line]) -> None:
    """Replace the file by these lines, in one step."""
    atomic_write(path, "".join(line.model_dump_json() + "\n" for line in kept))


def keep_lines_before(path: Path, agent_step: int) -> int:
    """Drop the lines at or beyond an agent step, and all that cannot be used. Returns how many stay."""
    numbered, faults = read(path)
    if not path.exists():
        return 0
    kept: list[Line] = []
    for each in numbered:
        if each.line.agent_steps < agent_step and (not kept or each.line.agent_steps > kept[-1].agent_steps):
            kept.append(each.line)
    if faults or len(kept) < len(numbered):
        keep_lines(path, kept)
    return len(kept)


def append(path: str | Path, line: dict[str, Any]) -> None:
    """Add a line, on the disk when this returns. The child of a run calls it."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line, allow_nan=False) + "\n")
        file.flush()
        os.fsync(file.fileno())


def finite(value: float | None) -> float | None:
    """A number that JSON can hold; None for one that it cannot."""
    return None if value is None or not math.isfinite(value) else float(value)
