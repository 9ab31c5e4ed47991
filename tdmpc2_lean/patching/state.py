"""What is recorded of the patches on a checkout: read here, written by `disk`, which describes the store's files."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tdmpc2_lean.errors import UserError, quoted
from tdmpc2_lean.patching.checkout_files import CheckoutFiles, disk_problem, sha256
from tdmpc2_lean.patching.series import path_problem


@dataclass(frozen=True)
class FileRecord:
    """A file that patches changed.

    original, patched: sha256 of its bytes. mode: its permissions. original and mode None: it was created.
    """

    original: str | None
    mode: int | None
    patched: str


@dataclass(frozen=True)
class State:
    """What is applied to a checkout.

    applied: (name, sha256) of each patch, in series order.
    folders: those made for created files, outermost first.
    version: of this package; commit: HEAD when the first patch was applied (None without git).
    """

    upstream: str = "tdmpc2"
    applied: tuple[tuple[str, str], ...] = ()
    files: Mapping[str, FileRecord] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    version: str = ""
    commit: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.applied)


class StoredState:
    """A checkout's record of patches, for reading. root: the checkout. folder: its store, see `disk`."""

    def __init__(self, root: Path, folder: Path):
        self.root = root
        self.folder = folder
        self.tree = CheckoutFiles(root)

    def pending(self) -> bool:
        """A change under way was interrupted, or another process is at it."""
        return (self.folder / "journal.json").exists()

    def state(self) -> State:
        """What is applied. Raises UserError if the record is unreadable or names places it may not."""
        path = self.folder / "state.json"
        try:
            table = json.loads(path.read_bytes())
            state = State(
                upstream=table["upstream"],
                applied=tuple((name, sha) for name, sha in table["applied"]),
                files={name: FileRecord(**record) for name, record in table["files"].items()},
                folders=tuple(table["folders"]),
                version=table["version"],
                commit=table["commit"],
            )
        except (FileNotFoundError, NotADirectoryError):
            return State()
        except OSError as error:
            raise disk_problem(error) from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UserError(
                f"{path}, the record of applied patches, is damaged.",
                f"restore the checkout's files (`git checkout -- .`), then delete {quoted(self.folder)}",
            ) from None
        for name in (*state.files, *state.folders):
            if problem := path_problem(name):
                raise UserError(
                    f"{path} names {name!r}, which {problem}.", f"do not trust this folder: {self.root}"
                )
        return state

    def original(self, name: str, record: FileRecord) -> bytes | None:
        """A patched file's bytes before any patch; None if a patch created it."""
        if record.original is None:
            return None
        path = self.folder / "originals" / record.original
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            data = b""
        except OSError as error:
            raise disk_problem(error) from None
        if sha256(data) != record.original:
            raise UserError(
                f"{path}, the recorded original of {name}, is missing or damaged.",
                f"restore the file from git, then delete {quoted(self.folder)}",
            )
        return data
