"""Files that are replaced in one step: whoever reads one sees the old content or the new, never a part of either.

Everything here that must survive a kill, a full disk or a power cut is written by `atomic_write`.
"""

import os
import secrets
import shlex
import stat
import tempfile
from pathlib import Path

from tdmpc2_lean.errors import UserError


def atomic_write(
    path: str | Path, content: bytes | str, *, mode: int | None = None, temporary: str | Path | None = None
) -> None:
    """Put `content` at `path` in one step, on the disk before it is there; any failure leaves the old file.

    content: bytes, or text, which is written as UTF-8 with the line ends that it has.
    mode: permissions of the file; None: those of the file that is replaced, else any new file's.
    temporary: where to write it first, in the same folder, for callers that must find what a kill left behind;
        something that lies there is removed. None: a hidden name of its own, which is gone unless it was killed.

    A symbolic link is followed: the file it leads to is replaced. What is no regular file, such as /dev/stdout, is
    written to as it is. OSError, with `path` as its filename, when the disk refuses; the temporary file is removed.
    """
    content = content.encode("utf-8") if isinstance(content, str) else content
    found = status_of(path)
    if found is not None and not stat.S_ISREG(found.st_mode):
        with open(path, "wb") as file:
            file.write(content)
        return
    target = Path(os.path.realpath(path))
    if mode is None and found is not None:
        mode = stat.S_IMODE(found.st_mode)
    if temporary is None:
        temporary = target.with_name(f".{target.name[:60]}.{secrets.token_hex(4)}.tmp")
    temporary = Path(temporary)
    try:
        temporary.unlink(missing_ok=True)
        try:
            write_new(temporary, content, mode)
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    sync_folder(target.parent)


def write_new(path: Path, content: bytes, mode: int | None = None) -> None:
    """Create a file and wait until it is on the disk; FileExistsError if it is there. mode None: a new file's."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(handle, rest) :]
        if mode is not None:
            os.chmod(path, mode)
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder last through a power cut, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def status_of(path: str | Path) -> os.stat_result | None:
    """What the system says of a path; None if nothing is there."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def check_writable(path: str | Path, option: str) -> None:
    """UserError unless a file can be put at `path`; asked before work whose result is to go there.

    option: what named it, for the message, such as --json.
    """
    found, folder = status_of(path), Path(os.path.realpath(path)).parent
    if found is not None and stat.S_ISDIR(found.st_mode):
        raise UserError(f"{option} {path} is a folder, a file was expected.", f"{option} {Path(path) / 'report.json'}")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{option} {path} lies below {folder}, which is a file.", "name a file in a folder")
    if not folder.is_dir():
        raise UserError(f"The folder of {option} {path} does not exist.", f"mkdir -p {shlex.quote(str(folder))}")
    try:
        if found is not None and not stat.S_ISREG(found.st_mode):
            os.close(os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0)))
            return
        # As atomic_write will: beside the file, which it then replaces.
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".writable-"):
            pass
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"{option} {path} cannot be written: {why}.", "name a file in another folder") from error
