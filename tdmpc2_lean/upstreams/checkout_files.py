"""A checkout's files, read when asked for; refuses paths that lead out of it. What a disk said, as users can use it."""

import errno
import hashlib
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from tdmpc2_lean.errors import UserError

AS_IT_WAS = "The checkout is as it was"
# Never written to, whatever a patch or a recorded state says. `git~1` is how NTFS may spell `.git`.
FORBIDDEN_FOLDERS = {".git", "git~1", ".tdmpc2-lean"}


def path_problem(path: str) -> str | None:
    """Why a posix path relative to a checkout's root may not be touched, or None if it may."""
    parts = path.split("/")
    if not path or "\0" in path or "\n" in path:
        return "is empty or not printable"
    if "\\" in path or re.match(r"[A-Za-z]:", path) or PurePosixPath(path).is_absolute():
        return "is not a path with / from the checkout's root"
    if any(part in ("", ".", "..") for part in parts):
        return "could leave the checkout (it has an empty, . or .. part)"
    if any(part.lower().rstrip(". ") in FORBIDDEN_FOLDERS for part in parts):
        return "lies in a folder that git or this program keeps for itself"
    return None


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class CheckoutFiles(Mapping[str, bytes]):
    """A checkout's files by posix path, read when asked for. Links, and files below links, are refused."""

    def __init__(self, root: Path):
        self.root = root

    def path(self, name: str) -> Path:
        """The file's place. UserError if writing there could leave the checkout."""
        if problem := path_problem(name):
            raise UserError(f"{name!r} {problem}.", "this is never done; correct the patch")
        place = self.root
        parts = name.split("/")
        for number, part in enumerate(parts, start=1):
            place = place / part
            try:
                mode = place.lstat().st_mode
            except FileNotFoundError:
                break
            except NotADirectoryError:
                break
            if stat.S_ISLNK(mode):
                raise UserError(
                    f"{place} is a symbolic link; patches are never written through links.",
                    "replace it by a real file or folder, or patch the checkout it points to",
                )
            if number == len(parts) and not stat.S_ISREG(mode):
                raise UserError(f"{place} is not a file.", "move it away")
            if number < len(parts) and not stat.S_ISDIR(mode):
                break
        return self.root.joinpath(*parts)

    def get(self, name, default=None):
        try:
            return self.path(name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return default
        except OSError as error:
            raise disk_problem(error) from None

    def __getitem__(self, name):
        data = self.get(name)
        if data is None:
            raise KeyError(name)
        return data

    def __contains__(self, name):
        return self.get(name) is not None

    def mode(self, name: str) -> int | None:
        """A file's permission bits; None if it is absent."""
        try:
            return stat.S_IMODE(self.path(name).lstat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def __iter__(self):
        raise TypeError("a checkout is asked for files by name")

    def __len__(self):
        raise TypeError("a checkout is asked for files by name")


def disk_problem(error: OSError, but: str = AS_IT_WAS) -> UserError:
    """What the disk said, as a user can use it; `but` says what state that leaves things in."""
    what = os.strerror(error.errno) if error.errno else str(error)
    where = f": {error.filename}" if error.filename else ""
    step = {
        errno.ENOSPC: "free some space, then repeat the command",
        errno.EDQUOT: "free some space, then repeat the command",
        errno.EROFS: "copy the checkout to where you may write",
        errno.EACCES: "get write permission there, or copy the checkout to a place of yours",
        errno.EPERM: "get write permission there, or copy the checkout to a place of yours",
    }.get(error.errno, "mend that, then repeat the command")
    return UserError(f"{what}{where}. {but}.", step)
