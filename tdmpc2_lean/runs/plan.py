"""A run as it is decided before it starts: what an upstream's adapter makes of a request, and `making` carries out.

Making a plan changes nothing in the run's folder.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tdmpc2_lean.patched import Patched
from tdmpc2_lean.runs.presets import Preset
from tdmpc2_lean.runs.record import Device, LoadedCheckpoint, Threads
from tdmpc2_lean.runs.specification import Specification
from tdmpc2_lean.upstreams import Checkout

TRAIN, EVALUATE = "train", "evaluate"


class FixedRun(Protocol):
    """A run that a protocol fixes but for its seed; validation's registry has them."""

    name: str
    agent: str
    task: str
    environment: str
    settings: Mapping[str, Any]
    defaults: Mapping[str, Any]
    chunk: int
    action_repeat: int
    judged: bool

    @property
    def agent_steps(self) -> int: ...

    @property
    def chunks(self) -> int: ...

    def as_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Conditions:
    """How and where the runs of a protocol are made, which it does not fix: recorded, and compared with nothing.

    device, compile: the code's settings; None for its own defaults.
    threads: CPU threads; None as the training commands choose them.
    upstream: a checkout other than the pinned code; its runs are never judged.
    checkpoint_minutes: None for 15, and for about a second in a smoke run.
    """

    device: str | None = None
    compile: bool | None = None
    threads: int | None = None
    upstream: str | None = None
    allow_local_changes: bool = False
    checkpoint_minutes: float | None = None


@dataclass(frozen=True)
class Request:
    """What somebody asks an adapter for.

    words: KEY=VALUE. flags: official flags, as they are, of an upstream that has them.
    cwd: the folder in which relative paths mean something, and `logs/` is.
    folder: the run's; None for logs/TASK/SEED/NAME.
    fixed: the protocol's run that it is, or None.        preset_settings: what presets make of the protocol.
    name_suffix: appended to the run's default name, such as what tells one run of a sweep from another.
    """

    words: tuple[str, ...]
    flags: tuple[str, ...] = ()
    kind: str = TRAIN
    cwd: Path = field(default_factory=Path.cwd)
    folder: Path | None = None
    allow_local_changes: bool = False
    trust_checkpoint: bool = False
    fixed: FixedRun | None = None
    preset_settings: Mapping[str, Any] = field(default_factory=dict)
    name_suffix: str = ""


@dataclass(frozen=True)
class Plan:
    """All that is decided about a run.

    specification: what the run is. configured: every setting, flat, as configured before the code resolves it.
    folder: the run's own. code_folder: where the official code writes; the same, but for a protocol's run.
    overwrite: an earlier run in the folder is to be replaced.
    launch: what the adapter needs to start the official code, such as the words that it is given.
    environment: variables that the child gets from us.
    rows: the plan, to be read, as (name, text). notes: what the user should be told before the run.
    details: kept in the record, see there.
    """

    kind: str
    specification: Specification
    command: str
    cwd: Path
    checkout: Checkout
    patched: Patched
    presets: tuple[Preset, ...]
    configured: Mapping[str, Any]
    folder: Path
    code_folder: Path
    overwrite: bool
    threads: Threads
    device: Device
    compile: bool | None
    environment: Mapping[str, str]
    launch: Mapping[str, Any]
    rows: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: LoadedCheckpoint | None = None
    fixed: FixedRun | None = None
    preset_settings: Mapping[str, Any] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """The plan, to be read."""
        return [f"{name:<13} {text}" for name, text in self.rows] + [f"note: {note}" for note in self.notes]
