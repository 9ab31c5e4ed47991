"""What a verb refuses before it plans anything: lost work of the user's, patches of another version, needed patches."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from tdmpc2_lean.errors import UserError, quoted
from tdmpc2_lean.nearest import did_you_mean
from tdmpc2_lean.patching.disk import Store
from tdmpc2_lean.patching.series import Patch, Series
from tdmpc2_lean.upstreams import git
from tdmpc2_lean.upstreams.applied import State, condition, git_text, is_git
from tdmpc2_lean.upstreams.layout import layout_of, no_checkout


def refuse_what_is_no_checkout(root: Path, state: State, series: Series) -> None:
    """A folder that has not one of the files that the series is about: one answer, instead of all its anchors."""
    edited = {edit.file for patch in series for edit in patch.edits if edit.do != "create"}
    if not state.applied and not any((root / file).is_file() for file in edited):
        raise no_checkout(root)



def refuse_changed_files(store: Store, state: State) -> None:
    """A file that is neither as patched nor as upstream holds work of the user's."""
    wrong = {name: condition(store, name, record) for name, record in state.files.items()}
    wrong = {name: what for name, what in wrong.items() if what in ("changed since", "missing")}
    if wrong:
        one, root = next(iter(wrong)), quoted(store.root)
        raise UserError(
            "Patched files were changed since, and would lose that:\n  "
            + "\n  ".join(f"{name} ({what})" for name, what in wrong.items()),
            f"keep your change elsewhere (git -C {root} diff -- {quoted(one)}), restore the file, and repeat; "
            f"or, if the checkout moved to another commit, `tdmpc2-lean patch revert {root} --forget`",
        )



def local_changes(store: Store, state: State) -> tuple[str, ...]:
    """Tracked files that the user changed, deleted or staged, our own changes not counted; () outside of git.

    Of a folder in another repository those of its code.
    """
    root = store.root
    around = root if is_git(root) else git.working_tree_around(root)
    if around is None:
        return ()
    layout = None if around == root else layout_of(root)
    inside = root / layout.code if layout else root
    words = ("status", "--porcelain", "-z", "--untracked-files=no", "--no-renames", "--", str(inside))
    top = root.relative_to(around)
    paths = [Path(row[3:]) for row in git_text(around, *words).split("\0") if row]
    changed = [path.relative_to(top).as_posix() for path in paths]
    ours = {name for name, record in state.files.items() if condition(store, name, record) == "patched"}
    return tuple(name for name in changed if name not in ours)



def refuse_local_changes(store: Store, state: State) -> None:
    """Files that the user changed are not patched, unless that was allowed."""
    changed = local_changes(store, state)
    if changed:
        shown = "\n  ".join(changed[:10]) + (f"\n  and {len(changed) - 10} more" if len(changed) > 10 else "")
        raise UserError(
            f"{store.root} has local changes:\n  {shown}",
            "commit or stash them, or add --allow-local-changes to patch the files as they are",
        )



def refuse_outdated(state: State, series: Series, root: Path, command: str) -> None:
    """A patch that is applied must be the one that is installed, else the rest cannot be computed."""
    now = {patch.name: patch.sha256 for patch in series}
    other = [name for name, sha in state.applied if now.get(name) != sha]
    if other:
        raise UserError(
            f"{', '.join(other)}: applied from another version of the series (tdmpc2_lean {state.version}).",
            f"take all off first: `tdmpc2-lean patch revert {quoted(root)}`, then `tdmpc2-lean patch {command}`",
        )



def refuse_unknown_names(names: Sequence[str] | None, series: Series, applied: Iterable[str]) -> None:
    """Names that are neither in the series nor among those applied."""
    for name in names or ():
        if name not in applied:
            series[name]



def remaining(state: State, series: Series, names: Sequence[str], root: Path) -> tuple[Patch, ...]:
    """The applied patches without the named ones. Raises UserError if they need one of those."""
    for name in names:
        if name not in state.names and name not in series.names:
            known = series.names
            raise UserError(
                f"There is no patch {name!r}.{did_you_mean(name, known)}", "`tdmpc2-lean patch list`"
            )
    kept = [patch for patch in series if patch.name in state.names and patch.name not in names]
    stuck = {patch.name: [need for need in patch.needs if need in names] for patch in kept}
    stuck = {name: needs for name, needs in stuck.items() if needs}
    if stuck:
        going = set(names)
        while True:
            more = {patch.name for patch in kept if going & set(patch.needs)} - going
            if not more:
                break
            going |= more
        all_names = " ".join(name for name in state.names if name in going)
        raise UserError(
            "; ".join(f"{name} needs {', '.join(needs)}" for name, needs in stuck.items()) + ".",
            f"revert them together: `tdmpc2-lean patch revert {quoted(root)} {all_names}`",
        )
    return tuple(kept)
