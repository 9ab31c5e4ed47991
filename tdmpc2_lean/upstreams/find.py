"""Finds the official code: named, in the environment, cached, or cloned. Nothing else is ever used in its place."""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from tdmpc2_lean import places
from tdmpc2_lean.errors import UserError, quoted
from tdmpc2_lean.upstreams import git, origin, release, remote, repository, tree
from tdmpc2_lean.upstreams.checkout import Checkout
from tdmpc2_lean.upstreams.export import export
from tdmpc2_lean.upstreams.identity import describe, released
from tdmpc2_lean.upstreams.registry import MINIATURE, Upstream, upstream_named
from tdmpc2_lean.upstreams.unfinished import code_files, refuse_conflicts, refuse_unfinished

# Where either will do: how long a git host may take to answer, and a git host and then a package index, in seconds.
GIT_SECONDS, EITHER_SECONDS = 6, 13


def find_checkout(
    upstream: str = "tdmpc2",
    where: str | Path | None = None,
    *,
    allow_local_changes: bool = False,
    may_clone: bool = True,
) -> Checkout:
    """The checkout that is meant: what `where` names, else the environment, the cached pin, a clone.

    where: a folder (clone, bare repository, downloaded archive), a commit, tag or branch of the upstream, the
        word 'release' (the upstream's own on package indexes) or the word 'miniature'. Either word comes before a
        folder of that name, which is written './release' or given as a Path. Without it and without the environment
        variable the pin is meant, or the release where that is the official code that can be had.
    may_clone: whether the network may be asked for what is not on this machine.

    UserError when nothing of that is there (naming the ways out), when a folder is not official code, or when
    it has local changes that were not allowed. Nothing is ever used in place of what was asked for.
    """
    if MINIATURE in (upstream, where):
        return miniature()
    known = upstream_named(upstream)
    if where is not None and str(where):
        return named(known, where, "argument", allow_local_changes, may_clone)
    variable = os.environ.get(known.environment_variable)
    if variable == MINIATURE:
        return miniature()
    if variable:
        try:
            return named(known, variable, "environment", allow_local_changes, may_clone)
        except UserError as error:
            raise UserError(
                f"{known.environment_variable}={variable}: {error.message}", error.next_step
            ) from None
    return pin_or_release(known, may_clone) if known.release else at_commit(known, known.pin, None, may_clone)


def pin_or_release(known: Upstream, may_clone: bool) -> Checkout:
    """The pin or else the release in the cache; else the pin from the network, or the release where git has no way.

    That it is the release is said on stderr.
    """
    try:
        return at_commit(known, known.pin, None, may_clone=False)
    except remote.NotHere as missing:
        root = release.cached(known)
        if root is None and not may_clone:
            raise missing from None
    if root is None:
        started = time.monotonic()
        try:
            return at_commit(known, known.pin, None, may_clone, GIT_SECONDS)
        except (remote.NoContact, git.NoGit) as unreachable:
            try:
                root = release.fetch(known, seconds=EITHER_SECONDS - (time.monotonic() - started))
            except UserError as error:
                raise UserError(f"{unreachable.message}\n{error.message}", remote.ways_out(known, "")) from None
    print(
        f"note: {known.name} release {known.release.version} is used; the pinned commit {known.pin[:7]} is not on this "
        f"machine (tdmpc2-lean upstream fetch --upstream {known.name})",
        file=sys.stderr,
    )
    return released(known, root)


def at_release(known: Upstream, may_clone: bool) -> Checkout:
    """The checkout that is the upstream's release: cached, or from the user's package index."""
    if known.release is None:
        raise UserError(f"{known.name} has no release on package indexes.", "tdmpc2-lean upstream list")
    root = release.cached(known)
    if root is None and not may_clone:
        raise remote.NotHere(
            f"release {known.release.version} of the official {known.name} is not on this machine.",
            f"tdmpc2-lean upstream fetch {release.WORD} --upstream {known.name}",
        )
    return released(known, root or release.fetch(known))


def miniature() -> Checkout:
    """The small checkout that the package carries. It is not TD-MPC2."""
    root = places.miniature_dir()
    if not root.is_dir():
        raise UserError("this installation carries no miniature checkout.", "install tdmpc2_lean again")
    return Checkout(MINIATURE, root, None, tree.tree_id(root), "package")


def named(
    known: Upstream, where: str | Path, source: str, allow_local_changes: bool, may_clone: bool
) -> Checkout:
    """The checkout that the user named by a path or a ref."""
    if where == release.WORD:
        return at_release(known, may_clone)
    words = str(where)
    folder = Path(where).expanduser()
    if folder.is_dir():
        return at_path(known, folder, source, allow_local_changes)
    if isinstance(where, Path) or words.startswith(("/", "~", ".")):
        raise UserError(
            f"there is no folder {folder}.",
            f"name a clone of {known.url}, a commit, tag or branch of it, or nothing",
        )
    return at_ref(known, words, source, may_clone)


def at_path(known: Upstream, folder: Path, source: str, allow_local_changes: bool) -> Checkout:
    """The checkout in a folder of the user's."""
    folder = folder.resolve()
    if repository.is_bare(folder):
        git.require_readable(folder)
        if not git.has_commit(folder, known.pin):
            raise UserError(
                f"the git directory {folder} lacks the pinned commit {known.pin[:7]} of {known.name}.",
                f"tdmpc2-lean upstream add {quoted(folder)} --upstream {known.name}, then name the commit you mean",
            )
        return exported(known, known.pin, folder, source)
    found = describe(folder, known.name)
    if found.upstream not in (known.name, MINIATURE):
        raise UserError(
            f"{folder} is a checkout of {found.upstream}, and one of {known.name} was asked for.",
            f"name a checkout of {known.name}",
        )
    if found.local_changes:
        refuse_conflicts(found.root, code_files(found.root, found.layout))
        if not allow_local_changes:
            refuse_unfinished(found.root)
            raise refusal(found)
    return replace(found, source=source)


def refusal(found: Checkout) -> UserError:
    """Why a checkout with local changes is not used, with the changed files."""
    shown = [f"    {path}" for path in found.local_changes[:20]]
    if len(found.local_changes) > len(shown):
        shown.append(f"    and {len(found.local_changes) - len(shown)} more")
    count = f"{len(found.local_changes)} file(s)"
    step = "undo the changes, or allow them with --allow-local-changes: committed or not, results say `not official`"
    if found.nearest:
        what = f"is not an official commit's tree. The nearest is {found.commit[:7]}, from which it differs in {count}"
        step = (
            f"name an unchanged archive or a clone; or allow it with --allow-local-changes: it is then compared with "
            f"{found.commit[:7]}, and the results will say so"
        )
    elif found.commit:
        what = f"differs from its commit {found.commit[:7]} in {count}"
    else:
        what = f"is not an official tree as far as the history in the cache tells; nothing vouches for its {count}"
        step = (
            f"`tdmpc2-lean upstream fetch --upstream {found.upstream}`, or `upstream add` with a clone, brings the "
            "history by which an archive is known; or allow it with --allow-local-changes (the results will say so)"
        )
    return UserError(f"{found.root} {what}:\n" + "\n".join(shown), step)


def at_ref(known: Upstream, ref: str, source: str, may_clone: bool) -> Checkout:
    """The checkout of a commit, tag or branch: cached, or a commit of the environment's clone, or fetched."""
    cached = repository.repository(known)
    commit = repository.resolve(cached, ref) if cached else None
    if commit is not None:
        return exported(known, commit, cached, source)
    own = os.environ.get(known.environment_variable)
    if (
        own
        and Path(own).is_dir()
        and repository.is_repository(Path(own))
        and repository.SOME_HASH.fullmatch(ref)
    ):
        commit = git.commit_named(Path(own), ref)
        if commit is not None:
            return exported(known, commit, Path(own), source)
    for tried in known.trees:
        if len(ref) >= 7 and tried.startswith(ref):
            return at_commit(known, tried, source, may_clone)
    if not may_clone:
        from tdmpc2_lean.nearest import did_you_mean

        hint = did_you_mean(ref, repository.names_of_refs(cached)) if cached else ""
        raise UserError(
            f"{ref!r} is no folder, and no commit, tag or branch of {known.name} on this machine.{hint}",
            remote.ways_out(known, ref),
        )
    commit = remote.fetch(known, ref)
    return exported(known, commit, repository.repository(known), source)


def at_commit(
    known: Upstream, commit: str, source: str | None, may_clone: bool, seconds: float | None = None
) -> Checkout:
    """The checkout of a commit, exported in the cache.

    source None: 'cache', or 'clone' if it is fetched. seconds: how long to wait for the network's first answer.
    """
    cached = repository.repository(known)
    if cached is not None and not git.has_commit(cached, commit):
        cached = None
    try:
        return exported(known, commit, cached, source or "cache")
    except LookupError:
        pass
    if not may_clone:
        raise remote.NotHere(
            f"commit {commit[:7]} of the official {known.name} is not on this machine.",
            remote.ways_out(known, "" if commit == known.pin else commit),
        )
    remote.fetch(known, commit, seconds)
    return exported(known, commit, repository.repository(known), source or "clone")


def exported(known: Upstream, commit: str, from_repository: Path | None, source: str) -> Checkout:
    """The checkout of a commit as plain files in the cache."""
    root = export(known, commit, from_repository)
    return Checkout(known.name, root, commit, origin.read(root).tree, source)
