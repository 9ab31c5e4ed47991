"""The note .tdmpc2-lean/origin.json, which says from which official files a folder of our cache was made."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from tdmpc2_lean.upstreams.tree import Manifest

FOLDER = ".tdmpc2-lean"


@dataclass(frozen=True)
class Origin:
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


def write(root: Path, origin: Origin) -> None:
    """Write the note into a folder that is being built."""
    path = path_in(root)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(vars(origin), indent=1))


def read(root: Path) -> Origin | None:
    """The folder's note; None if there is none or it is not readable."""
    try:
        fields = json.loads(path_in(root).read_text())
        return Origin(
            upstream=fields["upstream"],
            commit=fields["commit"],
            tree=fields["tree"],
            files={path: tuple(entry) for path, entry in fields["files"].items()},
            patches=tuple((name, sha256) for name, sha256 in fields["patches"]),
            local_changes=tuple(fields["local_changes"]),
            release=fields.get("release"),
            supplied=tuple((path, sha256) for path, sha256 in fields.get("supplied", ())),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
