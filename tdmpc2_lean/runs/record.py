"""run.json: what a run's folder says of the run. One schema for every run of either upstream, by whatever command.

It is written when a run starts, rewritten when something is known, and read by anybody. `read` takes the versions
that came before (see `migration`); a file that is none of them is a UserError that says what is wrong where.

Of one run there may be several starts. What each start ran with (code, versions, device) is a provenance, kept under
its short hash, by which the lines of curve.jsonl name it too.
"""

import hashlib
import importlib.metadata
import json
import os
import platform
import socket
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator

import tdmpc2_lean
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.files import atomic_write
from tdmpc2_lean.runs.specification import Described, Specification

FILE = "run.json"
SCHEMA = 2

RUNNING, FINISHED, INTERRUPTED, FAILED = "running", "finished", "interrupted", "failed"
State = Literal["running", "finished", "interrupted", "failed"]


class Threads(Described):
    """CPU threads of the run. why: how the number was chosen. cores: those that the run was bound to, if to any."""

    number: int | None = None
    why: str = ""
    cores: tuple[int, ...] = ()


class Device(Described):
    """kind: as configured, such as `cuda:0` or `cpu`. name: of the hardware, where known."""

    kind: str
    name: str | None = None


class OwnVersion(Described):
    """This package. commit, local_changes: null outside a git checkout of its own."""

    version: str
    commit: str | None = None
    local_changes: bool | None = None


class Provenance(Described):
    """What a start ran with.

    code: upstream, commit, tree, local_changes, verified, patches (name, sha256 each), patched_tree: see
        tdmpc2_lean.patched. source, where the code was found, is a start's and not here.
    versions: of the packages that decide what is computed, and of Python.
    environment: variables that the launcher set.
    """

    code: dict[str, Any]
    versions: dict[str, str] = Field(default_factory=dict)
    device: Device | None = None
    threads: Threads | None = None
    compile: bool | None = None
    environment: dict[str, str] = Field(default_factory=dict)
    platform: str | None = None
    tdmpc2_lean: OwnVersion | None = None

    @field_validator("code")
    @classmethod
    def code_is_described(cls, code: dict[str, Any]) -> dict[str, Any]:
        """What readers rely on has its type, where it is there."""
        if not isinstance(code.get("patches"), list | None):
            raise ValueError("patches are no list")
        for key in ("upstream", "commit", "tree", "patched_tree", "release"):
            if not isinstance(code.get(key), str | None):
                raise ValueError(f"{key} is no text")
        if not isinstance(code.get("local_changes", []), list | bool | None):
            raise ValueError("local_changes is no list")
        return code

    @property
    def short_hash(self) -> str:
        """What a line of the curve calls it by. On which of equal cores it ran is not part of it."""
        text = json.dumps(self.model_dump(mode="json", exclude={"threads": {"cores", "why"}}), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]


class Start(Described):
    """One start of the run. Times are ISO 8601 with their zone.

    command, cwd: repeat it. provenance: the short hash. pid, host: of the process that watched it.
    resumed_at: agent steps from which it went on; null for a start from nothing, and until that is known.
    state: how it ended; `running` until it has. log: the file in the folder with what the official code printed.
    """

    command: str
    cwd: str
    started: str
    ended: str | None = None
    state: State = RUNNING
    exit_code: int | None = None
    provenance: str
    pid: int | None = None
    host: str | None = None
    resumed_at: int | None = None
    budget: int | None = None
    log: str | None = None

    @field_validator("started", "ended")
    @classmethod
    def is_a_time(cls, text: str | None) -> str | None:
        """ISO 8601 with its zone."""
        if text is not None and datetime.fromisoformat(text).tzinfo is None:
            raise ValueError("a time without its zone")
        return text


class RunTiming(Described):
    """Over all starts: steps (agent steps), wall seconds; over the last start alone: the speeds.

    learning_steps_per_second: after seeding and pretraining, evaluations left out. updates: gradient updates so far.
    """

    steps: int | None = None
    train_seconds: float | None = None
    evaluation_seconds: float | None = None
    cpu_seconds: float | None = None
    compile_seconds: float | None = None
    steps_per_second: float | None = None
    learning_steps_per_second: float | None = None
    updates: int | None = None


class Evaluation(Described):
    """A mean return. step: agent steps. episode_success: mean, where the task has one.

    returns: of each episode, where they are known and no curve has them.
    """

    task: str | None = None
    step: int | None = None
    episode_reward: float | None
    episode_success: float | None = None
    episodes: int | None = None
    returns: tuple[float, ...] | None = None


class LoadedCheckpoint(Described):
    """A checkpoint that was given to the run by name. trusted: whether it was loaded though it might execute code."""

    path: str
    sha256: str | None = None
    trusted: bool = False


class RunRecord(Described):
    """run.json.

    configured: every setting, flat, as configured before the code resolved it. settings: as it resolved them.
    protocol_entry: the protocol's registry entry, of a protocol's run. preset_settings: what presets made of it.
    error: why it failed, or null. details: what the upstream's adapter keeps of its own (see there).
    packages: {distribution: version} of all that was installed at the last start.
    """

    schema_: Literal[2] = Field(SCHEMA, alias="schema")
    kind: Literal["train", "evaluate"]
    specification: Specification
    state: State = RUNNING
    error: str | None = None
    configured: dict[str, Any] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)
    protocol_entry: dict[str, Any] | None = None
    preset_settings: dict[str, Any] = Field(default_factory=dict)
    starts: tuple[Start, ...] = Field(min_length=1)
    provenances: dict[str, Provenance]
    checkpoint: LoadedCheckpoint | None = None
    timing: RunTiming = Field(default_factory=RunTiming)
    evaluations: tuple[Evaluation, ...] = ()
    details: dict[str, Any] = Field(default_factory=dict)
    packages: dict[str, str] = Field(default_factory=dict)

    @property
    def start(self) -> Start:
        """The last start."""
        return self.starts[-1]

    @property
    def provenance(self) -> Provenance:
        """Of the last start; one that says nothing if the record does not describe it, which is a deviation."""
        return self.provenances.get(self.start.provenance) or Provenance(code={})

    @property
    def code(self) -> Mapping[str, Any]:
        """Of the last start."""
        return self.provenance.code

    @property
    def seconds(self) -> float | None:
        """Wall time of all starts that have ended, without the time between them; None if one has no end."""
        spans = [span_of(start) for start in self.starts if start.ended or start is self.start]
        return None if not spans or None in spans else round(sum(spans), 1)

    def changed(self, **fields: Any) -> "RunRecord":
        """The record with some fields replaced."""
        return self.model_copy(update=fields)

    def ended(self, state: State, exit_code: int, error: str | None = None) -> "RunRecord":
        """The record of a run whose last start ends now."""
        last = self.start.model_copy(update={"state": state, "exit_code": exit_code, "ended": now()})
        return self.changed(state=state, error=error, starts=(*self.starts[:-1], last))


def span_of(start: Start) -> float | None:
    """Seconds from a start to its end; None while it has none."""
    if start.ended is None:
        return None
    return (datetime.fromisoformat(start.ended) - datetime.fromisoformat(start.started)).total_seconds()


def now() -> str:
    return datetime.now(UTC).astimezone().isoformat(timespec="seconds")


def write(folder: Path, record: RunRecord) -> None:
    """Write run.json in one step."""
    atomic_write(folder / FILE, record.model_dump_json(indent=2, by_alias=True) + "\n")


def read(folder: Path) -> RunRecord:
    """The record of a run's folder, of whatever version. UserError if there is none, or none that can be read."""
    path = folder / FILE
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{folder} holds no {FILE}.", "name the folder of a run") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.", "name the folder of another run") from None
    return parsed(content, path)


def parsed(content: bytes, path: Path) -> RunRecord:
    """The record that a file's bytes hold. path: for messages. UserError, naming each fault, if they hold none."""
    from tdmpc2_lean.runs import migration

    move = "move the folder away to start anew, or name another"
    try:
        document = json.loads(content)
    except RecursionError:
        raise UserError(f"{path} is no run record: it is nested too deeply.", move) from None
    except ValueError as error:
        raise UserError(f"{path} cannot be read: {error}", move) from None
    if not isinstance(document, dict):
        raise UserError(f"{path} is no JSON object.", move)
    version = document.get("schema", 1)
    if isinstance(version, int) and version > SCHEMA:
        raise UserError(
            f"{path} is of schema {version}, and this version of tdmpc2_lean knows {SCHEMA}.",
            "read it with the version of tdmpc2_lean that wrote it",
        )
    try:
        document = migration.to_current(document)
        return RunRecord.model_validate_json(json.dumps(document))
    except migration.NoRecord as error:
        raise UserError(f"{path} is no run record: {error}", move) from None
    except ValidationError as error:
        raise UserError(f"{path} is no run record of schema {SCHEMA}: {faults_of(error)}.", move) from None
    except (UnicodeEncodeError, RecursionError, OverflowError):
        raise UserError(f"{path} is no run record: it holds what no text or number can be.", move) from None


def faults_of(error: ValidationError, most: int = 3) -> str:
    """What is wrong, in words: 'specification.seed is 1.0, not a whole number'."""
    told = []
    for fault in error.errors()[:most]:
        where = ".".join(map(str, fault["loc"])) or "it"
        if fault["type"] == "missing":
            told.append(f"{where} is missing")
        elif fault["type"] == "extra_forbidden":
            told.append(f"{where} is unknown")
        elif fault["type"] == "value_error":
            told.append(f"{where}: {fault['ctx']['error']}")
        else:
            told.append(f"{where} is {shortened(fault['input'])} ({fault['msg'].lower()})")
    more = error.error_count() - most
    return "; ".join(told) + (f"; and {more} more" if more > 0 else "")


def shortened(value: Any, most: int = 60) -> str:
    text = ascii(value)
    return text if len(text) <= most else text[: most - 3] + "..."


# ------------------------------------------------------------------------------------------- what a start ran with


def provenance_of(
    code: Mapping[str, Any],
    *,
    device: Device | None,
    threads: Threads | None,
    compile: bool | None = None,
    environment: Mapping[str, str] | None = None,
) -> Provenance:
    """The provenance of a start on this machine, now. code: of `Patched.provenance`."""
    from tdmpc2_lean.versions import versions

    return Provenance(
        code={key: value for key, value in json.loads(json.dumps(code, default=str)).items() if key != "source"},
        versions=versions(),
        device=device,
        threads=threads,
        compile=compile,
        environment=dict(environment or {}),
        platform=platform.platform(),
        tdmpc2_lean=own_version(),
    )


def this_start(command: str, cwd: Path, provenance: Provenance, log: str, budget: int | None = None) -> Start:
    """A start of a run by this process, now. budget: agent steps that it is to reach."""
    return Start(
        command=command,
        cwd=str(cwd),
        started=now(),
        provenance=provenance.short_hash,
        pid=os.getpid(),
        host=socket.gethostname(),
        log=log,
        budget=budget,
    )


def packages() -> dict[str, str]:
    """Every installed distribution and its version."""
    found = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            found.setdefault(name.lower(), distribution.version)
    return dict(sorted(found.items()))


def own_version() -> OwnVersion:
    """This package's version and, when it is run from a git checkout of its own, the commit."""
    root = Path(tdmpc2_lean.__file__).parent.parent

    def git(*arguments: str) -> str | None:
        try:
            answer = subprocess.run(
                ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return answer.stdout.strip() if answer.returncode == 0 else None

    commit = git("rev-parse", "HEAD") if (root / ".git").exists() else None
    changes = None if commit is None else bool(git("status", "--porcelain", "--untracked-files=no"))
    return OwnVersion(version=tdmpc2_lean.__version__, commit=commit, local_changes=changes)


