"""run.json: what a run's folder says of the run. Written at the start, rewritten at the end, read by anybody.

The schema, version 1. Every key is there from the start; what is not known yet is null.

    schema                1
    kind                  "train" | "evaluate"
    state                 "running" | "finished" | "interrupted" | "failed"
    exit_code             the process's exit code; null while it runs
    error                 why it failed, in words; null otherwise
    command               the command line, quoted for a shell; with cwd it repeats the run
    cwd                   the folder it was called in
    started, ended        times with their zone, ISO 8601
    seconds               from started to ended
    pid, host             of the process that watches the run
    task, seed            as configured
    upstream              upstream, commit, tree, source, local_changes, verified, patches (name, sha256
                          each), patched_tree: see tdmpc2_lean.patched
    presets               list of name, file, sha256, overrides, times
    overrides             {setting: value} that presets and the command line give, before Hydra
    hydra                 the words that Hydra was given, in order
    config                the full configuration: as composed, and once the code has resolved it, as resolved
    device                kind (as configured), name (of the hardware)
    threads               number, why
    environment           variables that the launcher set for the run
    timing                train only: steps (agent steps), train_seconds, evaluation_seconds, cpu_seconds (the
                          process in all), steps_per_second (evaluations left out), learning_steps_per_second
                          (likewise, after seeding and pretraining)
    evaluations           train: list of step (agent steps), episode_reward (mean), episodes
                          evaluate: list of task, episode_reward, episode_success, episodes
    checkpoint            evaluate only: path, sha256, trusted
    python, platform      versions in words
    packages              {distribution: version} of all that is installed
    tdmpc2_lean           version, commit (null outside a git checkout), local_changes (true, false, null)

A run of DreamerV3 has these keys besides; `hydra` is null, and `timing` has updates:

    flags                 the official flags that main.py was given, in order
    arm                   name, rep ("keep" | "alike"), loss_scales: {loss: scale} of all losses
    chunk                 env steps from one line of curve.jsonl to the next
    action_repeat         env steps of an agent step
    updates_per_agent_step   train ratio / (batch size x batch length)
    compile_cache         folder, entries_before, entries_after: of JAX's persistent compilation cache
    attempts              how often the run was started; resumed_at: agent steps at which it went on, each time
"""

import importlib.metadata
import json
import os
import platform
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tdmpc2_lean
from tdmpc2_lean.errors import UserError

FILE = "run.json"
SCHEMA = 1
KINDS = ("train", "evaluate")
STATES = ("running", "finished", "interrupted", "failed")
FIELDS = (
    "schema kind state exit_code error command cwd started ended seconds pid host task seed upstream presets "
    "overrides hydra config device threads environment timing evaluations checkpoint python platform "
    "packages tdmpc2_lean"
).split()
FIELDS_OF_DREAMERV3 = (
    "flags arm chunk action_repeat updates_per_agent_step compile_cache attempts resumed_at"
).split()


def new(**known: Any) -> dict[str, Any]:
    """A record of a run that starts now, on this machine, by this process."""
    fields = FIELDS + (FIELDS_OF_DREAMERV3 if "flags" in known else [])
    unknown = set(known) - set(fields)
    assert not unknown, f"not in the schema of run.json: {sorted(unknown)}"
    now = {
        "schema": SCHEMA,
        "state": "running",
        "started": datetime.now(UTC).astimezone().isoformat(timespec="seconds"),
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "evaluations": [],
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "packages": packages(),
        "tdmpc2_lean": own_version(),
    }
    return {field: known.get(field, now.get(field)) for field in fields}


def ended(record: dict[str, Any], state: str, exit_code: int, error: str | None = None) -> dict[str, Any]:
    """The record of a run that ends now."""
    now = datetime.now(UTC).astimezone()
    seconds = (now - datetime.fromisoformat(record["started"])).total_seconds()
    return record | {
        "state": state,
        "exit_code": exit_code,
        "error": error,
        "ended": now.isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
    }


def write(folder: Path, record: dict[str, Any]) -> None:
    """Write run.json in one step: a reader sees the old or the new one, never half of one."""
    text = json.dumps(record, indent=2, ensure_ascii=False, default=plain) + "\n"
    beside = folder / f".{FILE}.{os.getpid()}"
    with open(beside, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, folder / FILE)


def plain(value: Any) -> Any:
    """JSON's nearest to a value that it does not know."""
    return list(value) if isinstance(value, set | tuple) else str(value)


def read(folder: Path) -> dict[str, Any]:
    """The record of a run's folder. UserError if there is none, or none of this schema."""
    path = folder / FILE
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{folder} holds no {FILE}.", "name the folder of a run") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}", "name the folder of another run") from None
    if not isinstance(record, dict) or record.get("schema") != SCHEMA or set(FIELDS) - set(record):
        raise UserError(
            f"{path} is no run record of schema {SCHEMA}.",
            "read it with the version of tdmpc2_lean that wrote it",
        )
    return record


def is_alive(record: dict[str, Any]) -> bool:
    """Whether the run still goes on, as far as can be told; a run on another machine is taken to."""
    if record["state"] != "running":
        return False
    if record["host"] != socket.gethostname():
        return True
    try:
        os.kill(record["pid"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def packages() -> dict[str, str]:
    """Every installed distribution and its version."""
    found = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            found.setdefault(name.lower(), distribution.version)
    return dict(sorted(found.items()))


def own_version() -> dict[str, Any]:
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
    return {"version": tdmpc2_lean.__version__, "commit": commit, "local_changes": changes}
