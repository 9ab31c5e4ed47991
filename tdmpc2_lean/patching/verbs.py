"""check, apply, revert, status: each reads the checkout, plans with `planning`, and hands the plan to `disk`.

`apply` and `revert` both compute what a set of patches makes of the recorded original files, in series
order, so the result depends on the set only, never on the history.
"""

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tdmpc2_lean.errors import UserError, quoted
from tdmpc2_lean.patching.anchors import LostAnchor, LostAnchors
from tdmpc2_lean.patching.disk import DiskPlan, Store
from tdmpc2_lean.patching.planning import plan_of
from tdmpc2_lean.patching.record import left_out, original_files, store_of
from tdmpc2_lean.patching.refusals import (
    local_changes,
    refuse_changed_files,
    refuse_local_changes,
    refuse_outdated,
    refuse_unknown_names,
    refuse_what_is_no_checkout,
    remaining,
)
from tdmpc2_lean.patching.render import (
    RenderError,
    already_there,
    render,
    without_already_there,
)
from tdmpc2_lean.patching.series import Patch, Series, read_series
from tdmpc2_lean.upstreams.applied import State, condition
from tdmpc2_lean.upstreams.layout import checkout_with, layout_of
from tdmpc2_lean.upstreams.registry import is_left_out
from tdmpc2_lean.upstreams.unfinished import refuse_conflicts, refuse_unfinished


@dataclass(frozen=True)
class PatchOutcome:
    """What an apply or a revert did, or, for a dry run, would do.

    applied: all patches on the checkout afterwards; added, removed: by this call.
    already: patches that were asked for, and are not put on because the checkout's own code has what they do.
    changes: path -> (bytes before, bytes after), None where there is no file.
    recovered: what was done about an interrupted earlier call, if there was one.
    """

    root: Path
    applied: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changes: Mapping[str, tuple[bytes | None, bytes | None]]
    dry_run: bool = False
    recovered: str | None = None
    already: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fit:
    """Whether one patch applies. lost: its lost anchors; blocked_by: needed patches that do not apply.

    already: the checkout's own code has what the patch does, so that there is nothing to do.

    passed_over: files of its edits that the checkout lacks because its upstream's release does.
    """

    patch: Patch
    applied: bool = False
    lost: tuple[LostAnchor, ...] = ()
    blocked_by: tuple[str, ...] = ()
    problem: str | None = None
    passed_over: tuple[str, ...] = ()
    already: bool = False

    @property
    def ok(self) -> bool:
        return not (self.lost or self.blocked_by or self.problem)


@dataclass(frozen=True)
class Check:
    """`check`'s answer, one Fit per patch in series order."""

    root: Path
    fits: tuple[Fit, ...]
    recovered: str | None = None

    @property
    def ok(self) -> bool:
        return all(fit.ok for fit in self.fits)


@dataclass(frozen=True)
class Status:
    """What is on a checkout.

    applied: (name, sha256) as recorded; available: names of the default patches that are not on it; optional: of
    those that are used only where they are named; outdated: names whose installed patch is another now, or gone.
    files: patched file -> 'patched', 'changed since', 'missing' or 'as upstream'.
    local_changes: the user's own changes to files of the git checkout.
    """

    root: Path
    upstream: str
    applied: tuple[tuple[str, str], ...]
    available: tuple[str, ...]
    optional: tuple[str, ...]
    outdated: tuple[str, ...]
    files: Mapping[str, str]
    local_changes: tuple[str, ...]
    commit: str | None
    version: str
    recovered: str | None = None


def find_root(root: str | Path) -> Path:
    """The checkout's real folder; of a checkout's code folder, the checkout. UserError if there is none."""
    path = Path(root).expanduser()
    if not path.is_dir():
        raise UserError(
            f"{path} is not a folder.", "name a checkout: the folder that holds an upstream's files"
        )
    return checkout_with(path.resolve())


def series_of(root: str | Path) -> Series:
    """The package's series for the upstream whose checkout the folder is, for where its code lies.

    UserError, with where was looked, for a folder that has not one of the files which the series is about.
    """
    from tdmpc2_lean.upstreams import upstream_of

    root = find_root(root)
    state = store_of(root).state()
    series = read_series(state.upstream if state.applied else upstream_of(root))
    layout = layout_of(root, series.upstream)
    if layout is not None and layout.upstream.name == series.upstream:
        series = series.moved(layout.own)
    refuse_what_is_no_checkout(root, state, series)
    return series


# ------------------------------------------------------------------------------------------------- the verbs


def check(root: str | Path, series: Series | None = None, names: Sequence[str] | None = None) -> Check:
    """What applies to a checkout (to its original files, where patches are on it), and every lost anchor.

    Touches nothing, unless an interrupted call has to be finished first. A patch is tried on top of those
    before it that apply, so one lost patch does not hide how the others fare.
    """
    series = series or series_of(root)
    root = find_root(root)
    store = store_of(root)
    recovered = finish_pending(store)
    state = store.state()
    base = original_files(store, state)
    refuse_conflicts(root, [edit.file for patch in series for edit in patch.edits])
    lacking = left_out(root, series.upstream)
    changed: dict[str, bytes] = {}
    fits: dict[str, Fit] = {}
    for patch in series.closure(names):
        on = patch.name in state.names
        passed = tuple(file for file in patch.files if is_left_out(file, lacking) and file not in base)
        if already_there(patch, base):
            fits[patch.name] = Fit(patch, on, already=True)
            continue
        blocked = tuple(need for need in patch.needs if not fits[need].ok)
        if blocked:
            fits[patch.name] = Fit(patch, on, blocked_by=blocked)
            continue
        try:
            changed |= render(patch, ChainMap(changed, base), lacking)
            fits[patch.name] = Fit(patch, on, passed_over=passed)
        except LostAnchors as error:
            fits[patch.name] = Fit(patch, on, lost=error.anchors)
        except RenderError as error:
            fits[patch.name] = Fit(patch, on, problem=error.message)
    return Check(root, tuple(fits.values()), recovered)


def apply(
    root: str | Path,
    names: Sequence[str] | None = None,
    series: Series | None = None,
    dry_run: bool = False,
    allow_local_changes: bool = False,
) -> PatchOutcome:
    """Put the named patches (None: all default ones), and those they need, on a checkout. All or nothing.

    What the checkout's own code has already is not put on, and named in the outcome.
    Raises LostAnchors or RenderError if one does not fit, UserError where the checkout has local changes, a
    patched file was changed since, or the disk refuses. Nothing is changed then.
    """
    series = series or series_of(root)
    root = find_root(root)
    store = store_of(root)
    asked = series.closure(names)
    refuse_unfinished(root)
    refuse_conflicts(root, [edit.file for patch in asked for edit in patch.edits])
    with store.opened() as recovered:
        state = store.state()
        refuse_outdated(state, series, root, f"apply {quoted(root)}")
        base = original_files(store, state)
        wanted = without_already_there(series.closure([*state.names, *(patch.name for patch in asked)]), base)
        already = tuple(patch.name for patch in asked if patch not in wanted)
        refuse_changed_files(store, state)
        if not allow_local_changes:
            refuse_local_changes(store, state)
        plan = plan_of(store, state, wanted, series, "apply")
        if not dry_run and (plan.writes or plan.state not in (None, state)):
            store.carry_out(plan)
        return replace(outcome_of(root, state, plan, dry_run, recovered), already=already)


def revert(
    root: str | Path,
    names: Sequence[str] | None = None,
    series: Series | None = None,
    dry_run: bool = False,
    forget: bool = False,
) -> PatchOutcome:
    """Take the named patches off again; without names all, which restores every byte, with or without the
    series.

    Refuses if a patch that stays needs one that goes, or if a patched file was changed since.
    forget: leave the files alone and only delete the record (for a checkout that git has moved on meanwhile).
    """
    root = find_root(root)
    store = store_of(root)
    if forget and names:
        raise UserError("--forget forgets all patches; it takes no names.", "leave the names out")
    if not store.pending() and not store.state().applied:
        if names:
            refuse_unknown_names(names, series or series_of(root), ())
        return PatchOutcome(root, (), (), (), {}, dry_run)
    if not forget:
        refuse_unfinished(root)
    with store.opened() as recovered:
        state = store.state()
        if forget:
            plan = DiskPlan(f"revert {root} --forget", (), None)
        else:
            wanted: tuple[Patch, ...] = ()
            if names:
                series = series or read_series(state.upstream)
                refuse_outdated(state, series, root, f"revert {quoted(root)} {' '.join(names)}")
                wanted = remaining(state, series, names, root)
            refuse_changed_files(store, state)
            plan = plan_of(store, state, wanted, series, "revert")
        if not dry_run and (plan.writes or plan.state != state):
            store.carry_out(plan)
        return outcome_of(root, state, plan, dry_run, recovered)


def status(root: str | Path, series: Series | None = None) -> Status:
    """What is on a checkout and whether its patched files are still as they were left."""
    root = find_root(root)
    store = store_of(root)
    recovered = finish_pending(store)
    state = store.state()
    series = series or series_of(root)
    now = {patch.name: patch.sha256 for patch in series}
    return Status(
        root=root,
        upstream=state.upstream,
        applied=state.applied,
        available=tuple(patch.name for patch in series.patches if patch.name not in state.names),
        optional=tuple(patch.name for patch in series.optional if patch.name not in state.names),
        outdated=tuple(name for name, sha in state.applied if now.get(name) != sha),
        files={name: condition(store, name, record) for name, record in state.files.items()},
        local_changes=local_changes(store, state),
        commit=state.commit,
        version=state.version,
        recovered=recovered,
    )


def finish_pending(store: Store) -> str | None:
    """Finish what an interrupted call left behind, if there is any; what was done about it."""
    if not store.pending():
        return None
    with store.opened() as recovered:
        return recovered


def outcome_of(root: Path, state: State, plan: DiskPlan, dry_run: bool, recovered: str | None) -> PatchOutcome:
    after = plan.state.names if plan.state else ()
    return PatchOutcome(
        root=root,
        applied=after,
        added=tuple(name for name in after if name not in state.names),
        removed=tuple(name for name in state.names if name not in after),
        changes={write.path: (write.before, write.after) for write in plan.writes},
        dry_run=dry_run,
        recovered=recovered,
    )
