"""What a checkout's own record says of the patches applied to it: read here, written by `patching.disk`.

A checkout is known by the files that it had before them; `patching.disk` describes the record's files.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tdmpc2_lean.errors import UserError, quoted
from tdmpc2_lean.upstreams import git
from tdmpc2_lean.upstreams.checkout_files import CheckoutFiles, disk_problem, path_problem, sha256


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
    """A checkout's record of patches, for reading. root: the checkout. folder: its store, see `patching.disk`."""

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


def is_git(root: Path) -> bool:
    """The folder is the top of a git working tree. A folder somewhere inside one is a plain folder to us."""
    return (root / ".git").exists()


def git_text(root: Path, *words: str) -> str:
    """What git prints in the checkout; its complaint becomes a UserError."""
    try:
        return git.text(*words, where=root)
    except git.GitFailed as error:
        raise UserError(
            f"git does not work in {root}: {error}", f"see what `git -C {quoted(root)} status` says"
        ) from None


def store_folder(root: Path) -> Path:
    """Where a checkout's record is kept."""
    if is_git(root):
        return root / git_text(root, "rev-parse", "--git-path", "tdmpc2-lean")
    return root / ".tdmpc2-lean"


def condition(store: StoredState, name: str, record: FileRecord) -> str:
    """Of a patched file: 'patched', 'as upstream', 'changed since' or 'missing'."""
    data = store.tree.get(name)
    now = None if data is None else sha256(data)
    if now == record.patched:
        return "patched"
    if now == record.original:
        return "as upstream"
    return "missing" if data is None else "changed since"


def recorded(
    root: str | Path,
) -> tuple[tuple[tuple[str, str], ...], dict[str, bytes | None], dict[str, bool]]:
    """What the record in a checkout's own folder says; changes nothing.

    Returns the applied (name, sha256); path -> bytes before the patches, for each patched file (None: it was
    created); path -> whether it still is as the patches left it.
    """
    store = StoredState(Path(root), store_folder(Path(root)))
    state = store.state()
    originals = {name: store.original(name, record) for name, record in state.files.items()}
    intact = {name: condition(store, name, record) == "patched" for name, record in state.files.items()}
    return state.applied, originals, intact
