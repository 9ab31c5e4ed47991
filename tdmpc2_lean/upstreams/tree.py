"""git's object ids computed from files, so that what is run is what a commit says, whoever wrote the files.

A manifest is {path: (mode, blob id)}: posix paths from a folder's root, modes as git writes them
('100644', '100755', '120000', '160000'), blob ids as 40 hex digits.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

FILE, PROGRAM, LINK, SUBMODULE = "100644", "100755", "120000", "160000"

IGNORED = (".git", ".tdmpc2-lean", "__pycache__")

Manifest = dict[str, tuple[str, str]]


def object_id(kind: str, content: bytes) -> str:
    """git's id of a blob or tree with this content."""
    return hashlib.sha1(b"%s %d\0" % (kind.encode(), len(content)) + content).hexdigest()


def paths_below(folder: Path, ignore: Iterable[str] = IGNORED) -> set[str]:
    """The paths that `manifest_of` would have, found without reading a file."""
    return set(walk(str(folder), "", set(ignore)))


def walk(place: str, prefix: str, ignored: set[str]) -> Iterator[str]:
    """Paths of all files and links below a folder, none of which is opened."""
    with os.scandir(place) as entries:
        for entry in entries:
            if entry.name in ignored:
                continue
            if entry.is_symlink() or entry.is_file():
                yield prefix + entry.name
            elif entry.is_dir():
                yield from walk(entry.path, prefix + entry.name + "/", ignored)


def manifest_of(folder: Path, ignore: Iterable[str] = IGNORED) -> Manifest:
    """What git would record of the files in a folder, except those whose name or folder's name is ignored.

    Names that git cannot hold (.git) should stay ignored. A symbolic link counts as itself, never as its
    target.
    """
    return manifest_of_paths(folder, paths_below(folder, ignore))


def manifest_of_paths(folder: Path, paths: Iterable[str]) -> Manifest:
    """What git would record of those of the files that are there."""
    entries = ((path, entry_of(folder / path)) for path in paths)
    return {path: entry for path, entry in entries if entry is not None}


def entry_of(file: Path) -> tuple[str, str] | None:
    """A file's (mode, blob id); None if it is not there."""
    if file.is_symlink():
        return LINK, object_id("blob", os.fsencode(os.readlink(file)))
    if file.is_file():
        return mode_of(file.stat()), object_id("blob", file.read_bytes())
    return None


def mode_of(status: os.stat_result) -> str:
    """git's mode of a regular file."""
    return PROGRAM if status.st_mode & stat.S_IXUSR else FILE


def tree_of_manifest(manifest: Mapping[str, tuple[str, str]]) -> str:
    """git's id of the tree with these files."""
    nested: dict = {}
    for path, entry in manifest.items():
        *folders, name = path.split("/")
        place = nested
        for folder in folders:
            place = place.setdefault(folder, {})
        place[name] = entry

    def write(place: dict) -> str:
        rows = []
        for name, entry in place.items():
            mode, identity = ("40000", write(entry)) if isinstance(entry, dict) else entry
            raw = os.fsencode(name)
            # git sorts a folder as if its name ended in a slash.
            rows.append((raw + b"/" if mode == "40000" else raw, mode.encode(), raw, bytes.fromhex(identity)))
        return object_id("tree", b"".join(b"%s %s\0%s" % (m, n, i) for _, m, n, i in sorted(rows)))

    return write(nested)


def tree_id(folder: Path | str, ignore: Iterable[str] = IGNORED) -> str:
    """git's tree id of a folder's files: a commit's tree id exactly when they are that commit's files."""
    return tree_of_manifest(manifest_of(Path(folder), ignore))


def differences(was: Mapping[str, tuple[str, str]], now: Mapping[str, tuple[str, str]]) -> list[str]:
    """The paths that were added, removed or changed between two manifests, sorted."""
    return sorted(path for path in was.keys() | now.keys() if was.get(path) != now.get(path))
