"""A checkout's record of patches, as it is opened to be changed, and the files as they were before them."""

from collections.abc import Mapping
from pathlib import Path

from tdmpc2_lean.patching.disk import Store
from tdmpc2_lean.upstreams.applied import State, is_git, store_folder
from tdmpc2_lean.upstreams.checkout_files import CheckoutFiles


def store_of(root: Path) -> Store:
    """Where the checkout's record is kept."""
    return Store(root, store_folder(root))


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


def left_out(root: Path, upstream: str) -> tuple[str, ...]:
    """What the checkout lacks by being an unpacked release of its upstream's; () for any other checkout.

    It is one if it has nothing of what the release leaves out.
    """
    from tdmpc2_lean.upstreams import UPSTREAMS

    release = UPSTREAMS[upstream].release if upstream in UPSTREAMS else None
    if release is None or is_git(root) or any((root / path).exists() for path in release.left_out):
        return ()
    return release.left_out
