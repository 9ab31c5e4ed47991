"""The note .tdmpc2-lean/origin.json, which says from which official files a folder of our cache was made."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from tdmpc2_lean.errors import UserError, quoted
from tdmpc2_lean.files import atomic_write
from tdmpc2_lean.upstreams.registry import MINIATURE, UPSTREAMS
from tdmpc2_lean.upstreams.tree import FILE, LINK, PROGRAM, Manifest, tree_of_manifest

FOLDER = ".tdmpc2-lean"
HASH = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class OriginNote:
    """Where a folder's files come from.

    upstream, commit, tree: as in Checkout; commit is None for the miniature.
    files: the folder's files as they were written (with patches, where there are some).
    patches: (name, sha256) of the patches applied to them, in order.
    local_changes: the files of the user's that differed from the commit when the folder was made.
    release: the version of the release on package indexes whose files they are, instead of the whole commit's.
    supplied: (path, sha256) of files of ours that stand where the release leaves some out.
    """

    upstream: str
    commit: str | None
    tree: str | None
    files: Manifest = field(repr=False)
    patches: tuple[tuple[str, str], ...] = ()
    local_changes: tuple[str, ...] = ()
    release: str | None = None
    supplied: tuple[tuple[str, str], ...] = ()


def path_in(root: Path) -> Path:
    """Where the note lies in a folder."""
    return root / FOLDER / "origin.json"


def write(root: Path, origin: OriginNote) -> None:
    """Write the note into a folder that is being built."""
    path = path_in(root)
    path.parent.mkdir(exist_ok=True)
    atomic_write(path, json.dumps(vars(origin), indent=1))


def read(root: Path) -> OriginNote | None:
    """The folder's note; None if there is none, or none that can be trusted to say what it should."""
    try:
        return read_strictly(root)
    except UserError:
        return None


def read_strictly(root: Path) -> OriginNote | None:
    """The folder's note; None if there is none. UserError if it is damaged: what it says must hold together."""
    path = path_in(root)
    try:
        fields = json.loads(path.read_bytes())
        note = OriginNote(
            upstream=fields["upstream"],
            commit=fields["commit"],
            tree=fields["tree"],
            files={path: (mode, identity) for path, (mode, identity) in fields["files"].items()},
            patches=tuple((name, sha256) for name, sha256 in fields["patches"]),
            local_changes=tuple(fields["local_changes"]),
            release=fields.get("release"),
            supplied=tuple((path, sha256) for path, sha256 in fields.get("supplied", ())),
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise damaged(root, error.strerror or str(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise damaged(root, "it is not readable") from None
    if problem := contradiction(note):
        raise damaged(root, problem)
    return note


def damaged(root: Path, problem: str) -> UserError:
    """What to do with a folder whose note says what cannot be."""
    return UserError(
        f"{path_in(root)}, the note on where the files of {root} come from, is damaged: {problem}.",
        f"delete {quoted(root)} if it is in the cache, where it is made anew; of a copy of your own delete only "
        f"{quoted(root / FOLDER)}, and it is known by its files",
    )


def contradiction(note: OriginNote) -> str | None:
    """What in a note cannot be, by its form and by the hashes that this project knows; None if all can."""
    if note.upstream not in (*UPSTREAMS, MINIATURE):
        return f"there is no upstream {note.upstream!r}"
    known = UPSTREAMS.get(note.upstream)
    if note.release and (known is None or known.release is None or known.release.version != note.release):
        return f"there is no release {note.release!r}"
    for what, value in (("commit", note.commit), ("tree", note.tree)):
        if value is not None and not (isinstance(value, str) and HASH.fullmatch(value)):
            return f"its {what} is no hash"
    texts = [*note.local_changes, *(word for pair in (*note.patches, *note.supplied) for word in pair)]
    if not all(isinstance(text, str) for text in texts):
        return "it names what are no texts"
    for path, (mode, identity) in note.files.items():
        if mode not in (FILE, PROGRAM, LINK) or not isinstance(identity, str) or not HASH.fullmatch(identity):
            return f"what it says of {path!r} is no file's mode and hash"
    if known is None:
        return None
    expected = known.release.tree if note.release else known.trees.get(note.commit, note.tree)
    if note.tree != expected:
        return f"the tree of {'the release' if note.release else 'commit ' + note.commit[:7]} is another"
    as_released = not (note.patches or note.local_changes or note.supplied)
    if as_released and note.tree is not None and tree_of_manifest(note.files) != note.tree:
        return "its files do not make its tree"
    return None
