"""What a checkout is in the midst of: a merge or rebase that was not ended, and the marks that it leaves in files."""

import os
from collections.abc import Iterable
from pathlib import Path

from tdmpc2_lean.errors import UserError, quoted
from tdmpc2_lean.upstreams import git
from tdmpc2_lean.upstreams.layout import PASSED_OVER, Layout

# What git keeps in its folder while it is at something: (name, in words, how it is ended).
UNDER_WAY = (
    ("rebase-merge", "a rebase", "rebase --continue"),
    ("rebase-apply", "a rebase or `git am`", "rebase --continue"),
    ("MERGE_HEAD", "a merge", "merge --continue"),
    ("CHERRY_PICK_HEAD", "a cherry-pick", "cherry-pick --continue"),
    ("REVERT_HEAD", "a revert", "revert --continue"),
)
MOST_FILES = 2000


def refuse_unfinished(root: Path) -> None:
    """UserError while git is in the midst of something in the working tree that the folder is, or lies in."""
    around = git.working_tree_around(root)
    if around is None:
        return
    folder = Path(git.text("rev-parse", "--absolute-git-dir", where=around))
    for name, what, end in UNDER_WAY:
        if (folder / name).exists():
            raise UserError(
                f"{around} is in the midst of {what}: its files are those of no commit.",
                f"end it (git -C {quoted(around)} {end}, or --abort), then repeat the command",
            )


def refuse_conflicts(root: Path, paths: Iterable[str]) -> None:
    """UserError if one of the files has the marks of a merge with conflicts."""
    found = {path: line for path in paths if (line := conflict_in(root / path))}
    if found:
        shown = "\n".join(f"    {path}, line {line}" for path, line in sorted(found.items())[:20])
        raise UserError(
            f"{root} has the marks of a merge with conflicts in {len(found)} file(s):\n{shown}",
            "decide there which side is meant, and take the marks out",
        )


def conflict_in(file: Path) -> int | None:
    """The first line (from 1) that a merge marked as a conflict; None where there is none, or no such file."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    if b"<<<<<<<" not in data:
        return None
    lines = data.splitlines()
    for number, line in enumerate(lines, start=1):
        if line.startswith(b"<<<<<<< ") and any(later.startswith(b">>>>>>> ") for later in lines[number:]):
            return number
    return None


def code_files(root: Path, layout: Layout) -> list[str]:
    """Paths of the Python and YAML files in the code folder, at most some thousand."""
    found: list[str] = []
    for folder, folders, names in os.walk(root / layout.code):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in PASSED_OVER)
        found += [
            (Path(folder) / name).relative_to(root).as_posix() for name in names if name.endswith((".py", ".yaml"))
        ]
        if len(found) > MOST_FILES:
            break
    return found
