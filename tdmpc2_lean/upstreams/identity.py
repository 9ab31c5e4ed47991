"""Says what a folder is: which upstream's files, of which commit, and what differs from it."""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tdmpc2_lean import places
from tdmpc2_lean.errors import UserError, quoted
from tdmpc2_lean.upstreams import ancestry, git, origin, release, repository, tree
from tdmpc2_lean.upstreams.applied import recorded
from tdmpc2_lean.upstreams.checkout import Checkout
from tdmpc2_lean.upstreams.layout import Layout, checkout_with, layout_of, no_checkout
from tdmpc2_lean.upstreams.registry import DEFAULT, MINIATURE, MINIATURE_OF, UPSTREAMS, Upstream

# What Python or Hydra could load from the code folder although git does not know it.
LOADABLE = (".py", ".so", ".pyd", ".yaml")

# More files than any commit of an upstream has: a folder with more is no commit's tree, and is not hashed as a whole.
MOST_FILES = 2000


def describe(root: Path | str, upstream: str | None = None) -> Checkout:
    """What a folder is: a git working tree, an export or patched copy of ours, the miniature, or an archive.

    upstream: which upstream it is taken for where its commits do not tell.
    Files that differ from what their commit says are listed in local_changes; for a folder that nothing
    vouches for (commit None), that is every file of the code folder. UserError if it is no checkout at all.
    """
    root = Path(root).expanduser()
    if not root.is_dir():
        raise UserError(f"there is no folder {root}.", "name a checkout")
    root = root.resolve()
    root = checkout_with(root)
    note = origin.read_strictly(root)
    if note is not None:
        return described_by_note(root, note)
    if (root / ".git").exists():
        return described_by_git(root, upstream)
    if repository.is_bare(root):
        raise UserError(
            f"{root} is a git directory without files.",
            f"tdmpc2-lean upstream add {quoted(root)}, then name the commit you mean",
        )
    return described_by_tree(root, upstream)


def upstream_of(where: str | Path | None) -> str:
    """The upstream of a folder by its own content; the one that has a release for its word; else the default one."""
    if where == release.WORD:
        return next(known.name for known in UPSTREAMS.values() if known.release)
    folder = Path(where).expanduser() if where is not None else None
    if folder is None or not folder.is_dir():
        return DEFAULT
    if repository.is_repository(folder):
        try:
            return repository.recognise(folder, None).name
        except UserError:
            pass
    found = layout_of(checkout_with(folder.resolve()))
    return found.upstream.name if found else DEFAULT


def released(known: Upstream, root: Path) -> Checkout:
    """The checkout that is the upstream's release, in a folder whose tree is known to be the release's."""
    it = known.release
    return Checkout(known.name, root, it.commit, it.tree, "release", release=it.version)


def described_by_note(root: Path, note: origin.OriginNote) -> Checkout:
    """A folder of our cache, or a copy of one."""
    applied, originals = recorded_patches(root)
    paths = tree.paths_below(root)
    known = UPSTREAMS.get(note.upstream, UPSTREAMS[MINIATURE_OF])
    extra = paths & loadable(paths, Layout(known, known.code))
    now = without_patches(tree.manifest_of_paths(root, extra | note.files.keys()), originals)
    changed = tree.differences(note.files, now)
    patches = (*note.patches, *applied)
    local_changes = (*note.local_changes, *changed)
    layout = layout_of(root, note.upstream)
    code = layout.code if layout is not None and layout.code != known.code else None
    return Checkout(
        note.upstream, root, note.commit, note.tree, "argument", local_changes, patches, note.release, code=code
    )


def described_by_git(root: Path, name: str | None) -> Checkout:
    """A git working tree: HEAD's commit, and every file compared with it by content."""
    git.require_readable(root)
    commit = git.commit_named(root, "HEAD")
    if commit is None:
        raise UserError(
            f"{root} is a git working tree without a commit.", "name a clone with the official code"
        )
    layout = layout_of(root, name)
    try:
        upstream = repository.recognise(root, None)
    except UserError:
        upstream = None
    if layout is None or upstream not in (None, layout.upstream):
        if upstream is None:
            raise no_checkout(root, name)
        layout = Layout(upstream, upstream.code)
    applied, originals = recorded_patches(root)
    changed = tuple(changes_in_working_tree(root, commit, layout, originals))
    tree_hash = git.tree_of(root, commit)
    return Checkout(
        layout.upstream.name, root, commit, tree_hash, "argument", changed, applied, code=layout.code
    )


def described_by_tree(root: Path, name: str | None) -> Checkout:
    """A folder without git, such as an unpacked archive or a copy of the miniature: its tree id tells.

    Nothing is read in a folder that has not the layout of an upstream, or more files than any upstream.
    """
    layout = layout_of(root, name)
    if layout is None:
        raise no_checkout(root, name)
    upstream = layout.upstream
    applied, originals = recorded_patches(root)
    paths = tree.paths_below(root)
    identity = None
    if len(paths) <= MOST_FILES:
        identity = tree.tree_of_manifest(without_patches(tree.manifest_of_paths(root, paths), originals))
        if places.miniature_dir().is_dir() and identity == tree.tree_id(places.miniature_dir()):
            source = "package" if root == places.miniature_dir().resolve() else "argument"
            return Checkout(MINIATURE, root, None, identity, source, patches=applied)
        if upstream.release is not None and identity == upstream.release.tree:
            return replace(released(upstream, root), source="argument", patches=applied)
        commit = repository.commit_with_tree(upstream, identity)
        if commit:
            return Checkout(upstream.name, root, commit, identity, "argument", patches=applied)
    near = nearest_commit(layout, root, paths, originals)
    if near is not None:
        commit, identity, changed = near
        return Checkout(
            upstream.name, root, commit, identity, "argument", changed, applied, nearest=bool(changed), code=layout.code
        )
    created = {path for path, content in originals.items() if content is None}
    unproved = tuple(sorted(path for path in loadable(paths, layout) if path not in created))
    return Checkout(upstream.name, root, None, identity, "argument", unproved, applied, code=layout.code)


def nearest_commit(
    layout: Layout, root: Path, paths: set[str], originals: dict[str, bytes | None]
) -> tuple[str, str, tuple[str, ...]] | None:
    """(official commit, its tree, what differs from it) for the commit in the cache to which the code comes nearest.

    None if the cache has no history, or if the code comes near to no commit's. As in a clone, of files that the commit
    does not have those count that the official code could load. Where nothing of the commit but its code is there, as
    in a copy of the code folder, nothing else is missed.
    """
    upstream = layout.upstream
    found = ancestry.nearest(upstream, ancestry.reader(root, layout))
    if found is None:
        return None
    official = repository.manifest_of_commit(repository.repository(upstream), found.commit)
    committed = {layout.own(path): entry for path, entry in official.items()}
    beside = {layout.own(path) for path in official if not path.startswith(layout.official_prefix)}
    if layout.code != upstream.code or not beside & paths:
        committed = {path: entry for path, entry in committed.items() if path not in beside}
    counting = (committed.keys() | loadable(paths, layout)) & paths
    ours = without_patches(tree.manifest_of_paths(root, counting), originals)
    changed = {path for path, entry in committed.items() if ours.get(path) != entry}
    changed |= {path for path in loadable(paths, layout) if path in ours} - committed.keys()
    return found.commit, found.tree, tuple(sorted(changed))


def loadable(paths: Iterable[str], layout: Layout) -> set[str]:
    """Those of the paths that the official code could load: code and configuration in its folder."""
    return {path for path in paths if path.startswith(layout.prefix) and path.endswith(LOADABLE)}


def recorded_patches(root: Path) -> tuple[tuple[tuple[str, str], ...], dict[str, bytes | None]]:
    """The patches applied to a folder, and each patched file's bytes before them (None: they created it).

    A file that was changed since it was patched is left out: what it would be without the patches is not
    known.
    """
    applied, originals, as_patched = recorded(root)
    return applied, {path: content for path, content in originals.items() if as_patched[path]}


def without_patches(manifest: tree.Manifest, originals: dict[str, bytes | None]) -> tree.Manifest:
    """What a folder's manifest was before patches were applied."""
    before = dict(manifest)
    for path, content in originals.items():
        if content is None:
            before.pop(path, None)
        elif path in before:
            before[path] = (before[path][0], tree.object_id("blob", content))
    return before


def changes_in_working_tree(
    root: Path, commit: str, layout: Layout, originals: dict[str, bytes | None]
) -> list[str]:
    """Paths that differ between a working tree, without its recorded patches, and its commit, by content.

    git's own list of changes is not asked, because flags in its index (assume-unchanged, skip-worktree) hide
    files from it. Of files that git does not know, those count that the official code could load.
    """
    committed = {
        path: entry
        for path, entry in repository.manifest_of_commit(root, commit).items()
        if entry[0] != tree.SUBMODULE
    }
    modes_count = (
        git.text("config", "--type=bool", "--default=true", "--get", "core.fileMode", where=root) == "true"
    )
    changed = set()
    for path, (mode, identity) in committed.items():
        now = tree.entry_of(root / path)
        if now is None or (now[0] == tree.LINK) != (mode == tree.LINK) or (modes_count and now[0] != mode):
            changed.add(path)
        elif now[1] != identity and (
            mode == tree.LINK or identity_for_git(root, path, (root / path).read_bytes()) != identity
        ):
            changed.add(path)
    staged = git.run("diff", "--cached", "--name-only", "--no-renames", "-z", commit, where=root)
    changed |= paths_of(staged)
    inside = layout.code or "."
    unknown = paths_of(git.run("ls-files", "-z", "--others", "--exclude-standard", "--", inside, where=root))
    changed |= {path for path in unknown if path.endswith(LOADABLE) and "__pycache__" not in path}
    ignored = git.run(
        "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--", inside, where=root
    )
    changed |= {path for path in paths_of(ignored) if shadows_a_module(path, layout)}
    for path, content in originals.items():
        if content is None:
            as_committed = path not in committed
        else:
            as_committed = path in committed and identity_for_git(root, path, content) == committed[path][1]
        if as_committed:
            changed.discard(path)
    return sorted(changed)


def paths_of(listing: bytes) -> set[str]:
    """git's zero-terminated paths."""
    return {os.fsdecode(path) for path in listing.split(b"\0") if path}


def identity_for_git(root: Path, path: str, content: bytes) -> str:
    """The blob id git gives this content at this path after its filters, such as the one for line ends."""
    return git.run("hash-object", "--stdin", "--path", path, where=root, stdin=content).decode().strip()


def shadows_a_module(path: str, layout: Layout) -> bool:
    """Whether a file that git ignores would be imported as part of the official code."""
    parts = Path(path).relative_to(layout.code).parts
    return (
        path.endswith((".py", ".so", ".pyd"))
        and "__pycache__" not in parts
        and all(part.isidentifier() for part in parts[:-1])
        and (len(parts) == 1 or parts[0] in layout.upstream.modules)
    )
