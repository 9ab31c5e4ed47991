"""What is written into the user's cache: under a lock, and whole or not at all.

    <cache>/locks/
"""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tdmpc2_lean import places
from tdmpc2_lean.errors import UserError


@contextlib.contextmanager
def locked(name: str, seconds: float = 900) -> Iterator[None]:
    """Hold the cache's lock of that name; it goes with the process, however that ends."""
    import filelock

    folder = places.cache_dir() / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / f"{name}.lock")
        try:
            lock.acquire(timeout=2)
        except filelock.Timeout:
            print(f"waiting for another tdmpc2-lean that works on {name} in the cache", file=sys.stderr)
            lock.acquire(timeout=seconds)
    except filelock.Timeout:
        raise UserError(
            f"another tdmpc2-lean has worked on {name} in the cache for {seconds:g} seconds.",
            f"see what holds {lock.lock_file}, or set TDMPC2_LEAN_CACHE to another folder",
        ) from None
    except OSError as error:
        raise UserError(
            f"the cache {places.cache_dir()} cannot be written: {error}.",
            "set TDMPC2_LEAN_CACHE to a folder that can be written",
        ) from None
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def built_beside(final: Path) -> Iterator[Path]:
    """A new folder that becomes `final` in one step if the block ends well, and vanishes if it does not.

    Call it under the lock of `final`: folders that an earlier, killed call left there are removed.
    """
    prefix = f".{final.name}."
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        for leftover in final.parent.glob(prefix + "*"):
            shutil.rmtree(leftover, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=final.parent))
        os.chmod(folder, 0o777 & ~current_umask())
        try:
            yield folder
            if final.exists():
                os.rename(final, folder.with_name(folder.name + ".old"))
            os.rename(folder, final)
        finally:
            for leftover in final.parent.glob(prefix + "*"):
                shutil.rmtree(leftover, ignore_errors=True)
    except OSError as error:
        raise UserError(
            f"{final} could not be written: {error}.",
            "make room or set TDMPC2_LEAN_CACHE to a folder that can be written",
        ) from None


def current_umask() -> int:
    """The process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
