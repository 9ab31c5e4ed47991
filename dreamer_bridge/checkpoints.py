"""Where the official checkpoints of a run lie, and which one a word of the user's names.

A checkpoint is a folder that holds agent.pkl and `done`. Those of a run are in its folder ckpt, where the file
`latest` names the last whole one; the bridge keeps its own state beside the official files of each.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from dreamer_bridge import trust
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs.record import LoadedCheckpoint

# The folder of a run's checkpoints: of the pinned code, and of release 3.3.1.
FOLDERS = ("ckpt", "checkpoint.pkl")
STATE = "bridge.json"  # beside the official files of a checkpoint
LATEST, WHOLE, AGENT = "latest", "done", "agent.pkl"


def latest(folder: Path) -> Path | None:
    """The checkpoint at which the run in an official log folder would go on; None if it has none."""
    for name in FOLDERS:
        found = named_latest(folder / name)
        if found is not None:
            return found if (found / WHOLE).is_file() else None
    return None


def named_latest(folder: Path) -> Path | None:
    """The checkpoint that a folder of checkpoints calls its latest; None if it calls none so."""
    file = folder / LATEST
    return folder / file.read_text(encoding="utf-8").strip() if file.is_file() else None


def state_of(checkpoint: Path) -> dict[str, Any]:
    """What the bridge keeps beside a checkpoint's official files; empty for one that it did not write.

    UserError if it cannot be read.
    """
    path = checkpoint / STATE
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}", "move the run's folder away to start anew") from None
    if not isinstance(found, dict):
        raise UserError(f"{path} is no JSON object.", "move the run's folder away to start anew")
    return found


def find(written: str, cwd: Path) -> Path:
    """The checkpoint that a user means: its folder, a folder of checkpoints, or a run's folder for its latest."""
    folder = (cwd / Path(written).expanduser()).resolve()
    if (folder / WHOLE).is_file():
        return folder
    found = named_latest(folder) or latest(folder) or latest(folder / "logs")
    if found is not None and (found / WHOLE).is_file():
        return found.resolve()
    if not folder.exists():
        raise UserError(f"there is no checkpoint {folder}.", "name a run's folder, or a checkpoint in its ckpt/")
    raise UserError(f"{folder} is no whole checkpoint.", f"name a folder that holds {AGENT} and {WHOLE}")


def starting_point(written: str, cwd: Path, trusted: bool) -> LoadedCheckpoint:
    """The checkpoint that run.from_checkpoint names, which is that of the official code: one checkpoint's folder.

    Untrusted, before anything starts, if the user did not make it and does not say that it may be loaded.
    """
    folder = (cwd / Path(written).expanduser()).resolve()
    if not (folder / WHOLE).is_file():
        found = named_latest(folder)
        hint = f" Its latest is {found}." if found is not None else ""
        raise UserError(f"{folder} is no whole checkpoint.{hint}", f"name a folder that holds {AGENT} and {WHOLE}")
    return loaded(folder, trusted)


def loaded(folder: Path, trusted: bool) -> LoadedCheckpoint:
    """What a run's record says of a checkpoint that it loads. Untrusted as above."""
    if not trusted:
        trust.check(folder)
    agent = folder / AGENT
    digest = None
    if agent.is_file():
        with open(agent, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    return LoadedCheckpoint(path=str(folder), sha256=digest, trusted=trusted)
