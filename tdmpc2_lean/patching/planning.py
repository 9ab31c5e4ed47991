"""What to write to a checkout so that exactly the wanted patches are on it: computed here, carried out by `disk`."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePosixPath

import tdmpc2_lean
from tdmpc2_lean.patching.disk import DiskPlan, Store, Write
from tdmpc2_lean.patching.record import left_out, original_files
from tdmpc2_lean.patching.render import render_series
from tdmpc2_lean.patching.series import Patch, Series
from tdmpc2_lean.upstreams.applied import FileRecord, State, git_text, is_git
from tdmpc2_lean.upstreams.checkout_files import sha256


def plan_of(store: Store, state: State, wanted: tuple[Patch, ...], series: Series | None, verb: str) -> DiskPlan:
    """What to write so that exactly `wanted` is on the checkout. Reads, and changes nothing."""
    base = original_files(store, state)
    result = render_series(wanted, base, left_out(store.root, series.upstream)) if wanted else {}
    writes, files, originals = [], {}, []
    for name in sorted({*result, *state.files}):
        store.tree.path(name)
        record = state.files.get(name)
        original = base.get(name)
        mode = store.tree.mode(name) if record is None else record.mode
        after = result.get(name, original)
        before = store.tree.get(name)
        if before != after:
            writes.append(Write(name, before, after, mode))
        if name in result:
            files[name] = FileRecord(None if original is None else sha256(original), mode, sha256(after))
            if original is not None:
                originals.append(original)
    needed = _folders(name for name, record in files.items() if record.original is None)
    make = tuple(name for name in needed if not (store.root / name).exists())
    folders = tuple(sorted({*(name for name in state.folders if name in needed), *make}))
    remove = tuple(name for name in state.folders if name not in needed)
    new_state = None
    if wanted:
        new_state = replace(
            state,
            upstream=series.upstream,
            applied=tuple((patch.name, patch.sha256) for patch in wanted),
            files=files,
            folders=folders,
        )
        if not state.applied:
            commit = git_text(store.root, "rev-parse", "HEAD") if is_git(store.root) else None
            new_state = replace(new_state, version=tdmpc2_lean.__version__, commit=commit)
    return DiskPlan(
        what=f"{verb} {' '.join(patch.name for patch in wanted)}".strip(),
        writes=tuple(writes),
        state=new_state,
        originals=tuple(originals),
        make_folders=make,
        remove_folders=remove,
    )



def _folders(names: Iterable[str]) -> list[str]:
    """All folders that the files lie in, outermost first."""
    found = {str(parent) for name in names for parent in PurePosixPath(name).parents if str(parent) != "."}
    return sorted(found)
