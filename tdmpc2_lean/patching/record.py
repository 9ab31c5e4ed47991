"""What is recorded of the patches on a checkout, and the files as they were before them. Changes nothing."""

from collections.abc import Mapping
from pathlib import Path

from tdmpc2_lean.errors import UserError, quoted
from tdmpc2_lean.patching.checkout_files import CheckoutFiles, sha256
from tdmpc2_lean.patching.disk import Store
from tdmpc2_lean.patching.state import FileRecord, State
from tdmpc2_lean.upstreams import git


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


def store_of(root: Path) -> Store:
    """Where the checkout's record is kept."""
    if is_git(root):
        return Store(root, root / git_text(root, "rev-parse", "--git-path", "tdmpc2-lean"))
    return Store(root, root / ".tdmpc2-lean")


def original_files(store: Store, state: State) -> Mapping[str, bytes]:
    """The checkout's files without any patch, read when asked for."""
    return _Originals(store, state)


class _Originals(CheckoutFiles):
    def __init__(self, store: Store, state: State):
        super().__init__(store.root)
        self.store, self.state = store, state

    def get(self, name, default=None):
        if name in self.state.files:
            data = self.store.original(name, self.state.files[name])
            return default if data is None else data
        return super().get(name, default)


def condition(store: Store, name: str, record: FileRecord) -> str:
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
    store = store_of(Path(root))
    state = store.state()
    originals = {name: store.original(name, record) for name, record in state.files.items()}
    intact = {name: condition(store, name, record) == "patched" for name, record in state.files.items()}
    return state.applied, originals, intact


def left_out(root: Path, upstream: str) -> tuple[str, ...]:
    """What the checkout lacks by being an unpacked release of its upstream's; () for any other checkout.

    It is one if it has nothing of what the release leaves out.
    """
    from tdmpc2_lean.upstreams import UPSTREAMS

    release = UPSTREAMS[upstream].release if upstream in UPSTREAMS else None
    if release is None or is_git(root) or any((root / path).exists() for path in release.left_out):
        return ()
    return release.left_out
