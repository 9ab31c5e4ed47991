"""Says what a folder is: which upstream's files, of which commit, and what differs from it."""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tdmpc2_lean import places
from tdmpc2_lean.errors import UserError, quoted
from tdmpc2_lean.upstreams import git, origin, release, repository, tree
from tdmpc2_lean.upstreams.applied import recorded
from tdmpc2_lean.upstreams.checkout import Checkout
from tdmpc2_lean.upstreams.registry import DEFAULT, MINIATURE, MINIATURE_OF, UPSTREAMS, Upstream, upstream_named

# What Python or Hydra could load from the code folder although git does not know it.
LOADABLE = (".py", ".so", ".pyd", ".yaml")

# More files than any commit of an upstream has: a folder with more is no commit's tree, and is not hashed as a whole.
MOST_FILES = 2000
# How many folders of a folder are looked into for a checkout to hint at.
MOST_FOLDERS = 200


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
    if not (root / ".git").exists() and is_code_dir(root):
        root = root.parent
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


def is_code_dir(folder: Path) -> bool:
    """Whether the folder is not a checkout but the code folder in one."""
    return any(
        upstream.code and folder.name == upstream.code and upstream_by_layout(folder.parent) is upstream
        for upstream in UPSTREAMS.values()
    )


def upstream_by_layout(root: Path) -> Upstream | None:
    """The upstream whose top-level modules lie where they should."""
    for upstream in UPSTREAMS.values():
        code_dir = root / upstream.code
        if all(
            (code_dir / name).is_dir() or (code_dir / f"{name}.py").is_file() for name in upstream.modules
        ):
            return upstream
    return None


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
    found = upstream_by_layout(folder.resolve())
    return found.name if found else DEFAULT


def released(known: Upstream, root: Path) -> Checkout:
    """The checkout that is the upstream's release, in a folder whose tree is known to be the release's."""
    it = known.release
    return Checkout(known.name, root, it.commit, it.tree, "release", release=it.version)


def described_by_note(root: Path, note: origin.OriginNote) -> Checkout:
    """A folder of our cache, or a copy of one."""
    applied, originals = recorded_patches(root)
    paths = tree.paths_below(root)
    extra = paths & loadable(paths, UPSTREAMS.get(note.upstream, UPSTREAMS[MINIATURE_OF]))
    now = without_patches(tree.manifest_of_paths(root, extra | note.files.keys()), originals)
    changed = tree.differences(note.files, now)
    patches = (*note.patches, *applied)
    local_changes = (*note.local_changes, *changed)
    return Checkout(note.upstream, root, note.commit, note.tree, "argument", local_changes, patches, note.release)


def described_by_git(root: Path, name: str | None) -> Checkout:
    """A git working tree: HEAD's commit, and every file compared with it by content."""
    git.require_readable(root)
    commit = git.commit_named(root, "HEAD")
    if commit is None:
        raise UserError(
            f"{root} is a git working tree without a commit.", "name a clone with the official code"
        )
    try:
        upstream = repository.recognise(root, None)
    except UserError:
        upstream = upstream_by_layout(root) or (upstream_named(name) if name else None)
        if upstream is None or upstream_by_layout(root) is not upstream:
            raise UserError(
                f"{root} is a git working tree, but not one of {' or '.join(UPSTREAMS)}.",
                "name a clone of an upstream; `tdmpc2-lean upstream list` shows them",
            ) from None
    applied, originals = recorded_patches(root)
    changed = tuple(changes_in_working_tree(root, commit, upstream, originals))
    return Checkout(upstream.name, root, commit, git.tree_of(root, commit), "argument", changed, applied)


def described_by_tree(root: Path, name: str | None) -> Checkout:
    """A folder without git, such as an unpacked archive or a copy of the miniature: its tree id tells.

    Nothing is read in a folder that has not the layout of an upstream, or more files than any upstream.
    """
    upstream = upstream_by_layout(root)
    if upstream is None:
        raise no_checkout(root, name)
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
    near = nearest_commit(upstream, root, paths, originals)
    if near is not None:
        commit, identity, changed = near
        return Checkout(upstream.name, root, commit, identity, "argument", changed, applied, nearest=bool(changed))
    created = {path for path, content in originals.items() if content is None}
    unproved = tuple(sorted(path for path in loadable(paths, upstream) if path not in created))
    return Checkout(upstream.name, root, None, identity, "argument", unproved, applied)


def no_checkout(root: Path, name: str | None) -> UserError:
    """What was looked for in a folder that is no checkout, and where there is one in it."""
    looked = [upstream_named(name)] if name in UPSTREAMS else list(UPSTREAMS.values())
    lines = [
        f"    {one.name}: " + ", ".join(f"{one.code}/{module}" if one.code else module for module in one.modules)
        for one in looked
    ]
    with os.scandir(root) as entries:
        folders = sorted(entry.path for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    inside = [folder for folder in map(Path, folders[:MOST_FOLDERS]) if upstream_by_layout(folder)]
    return UserError(
        f"{root} is no checkout of {' or '.join(one.name for one in looked)}. Looked in it for these folders or "
        "modules, which are not all there:\n" + "\n".join(lines),
        f"name the checkout that is in it: {quoted(inside[0])}"
        if inside
        else "name a clone or an unpacked archive of an upstream; `tdmpc2-lean upstream list` shows them",
    )


def nearest_commit(
    upstream: Upstream, root: Path, paths: set[str], originals: dict[str, bytes | None]
) -> tuple[str, str, tuple[str, ...]] | None:
    """(official commit, its tree, what differs from it) for the commit of the history in the cache that differs least.

    None if the cache has no history, or if not half of the commit's code files are there as they are in it.
    As in a clone, of files that the commit does not have those count that the official code could load.
    """
    folder = repository.repository(upstream)
    history = repository.official_history(folder, upstream) if folder else {}
    manifests = {commit: repository.manifest_of_commit(folder, commit) for commit in history.values()}
    wanted = set().union(*manifests.values()) | loadable(paths, upstream)
    ours = without_patches(tree.manifest_of_paths(root, wanted & paths), originals)
    extra = {path for path in loadable(paths, upstream) if path in ours}
    best = None
    for tree_hash, commit in history.items():
        committed = manifests[commit]
        changed = {path for path, entry in committed.items() if ours.get(path) != entry} | (extra - committed.keys())
        code = loadable(committed, upstream)
        if 2 * len(code - changed) >= len(code) and (best is None or len(changed) < len(best[2])):
            best = (commit, tree_hash, tuple(sorted(changed)))
    return best


def loadable(paths: Iterable[str], upstream: Upstream) -> set[str]:
    """Those of the paths that the official code could load: code and configuration in its folder."""
    prefix = f"{upstream.code}/" if upstream.code else ""
    return {path for path in paths if path.startswith(prefix) and path.endswith(LOADABLE)}


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
    root: Path, commit: str, upstream: Upstream, originals: dict[str, bytes | None]
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
    inside = upstream.code or "."
    unknown = paths_of(git.run("ls-files", "-z", "--others", "--exclude-standard", "--", inside, where=root))
    changed |= {path for path in unknown if path.endswith(LOADABLE) and "__pycache__" not in path}
    ignored = git.run(
        "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--", inside, where=root
    )
    changed |= {path for path in paths_of(ignored) if shadows_a_module(path, upstream)}
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


def shadows_a_module(path: str, upstream: Upstream) -> bool:
    """Whether a file that git ignores would be imported as part of the official code."""
    parts = Path(path).relative_to(upstream.code).parts
    return (
        path.endswith((".py", ".so", ".pyd"))
        and "__pycache__" not in parts
        and all(part.isidentifier() for part in parts[:-1])
        and (len(parts) == 1 or parts[0] in upstream.modules)
    )
