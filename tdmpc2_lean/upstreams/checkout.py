"""Finds the official code (named, in the environment, cached, or cloned) and says what a folder is."""

import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from tdmpc2_lean import places
from tdmpc2_lean.errors import UserError, quoted
from tdmpc2_lean.upstreams import git, origin, release, repository, tree
from tdmpc2_lean.upstreams.registry import MINIATURE, UPSTREAMS, Upstream, upstream_named

# What Python or Hydra could load from the code folder although git does not know it.
LOADABLE = (".py", ".so", ".pyd", ".yaml")

# Where either will do: how long a git host may take to answer, and a git host and then a package index, in seconds.
GIT_SECONDS, EITHER_SECONDS = 6, 13


@dataclass(frozen=True)
class Checkout:
    """A folder with an upstream's files, and how much of it is proved by hashes.

    upstream: 'tdmpc2', 'dreamerv3' or 'miniature'.
    commit, tree: what git calls the files before patches and local changes; None where nothing vouches for
        them. The files of a release are some of the commit's, and its tree is that of what was released.
    source: 'argument', 'environment', 'cache', 'clone', 'release' or 'package'.
    local_changes: paths of files that differ from the commit and are no recorded patch of ours.
    patches: (name, sha256) of each patch that is applied in the folder, in order.
    release: the version of the upstream's release on package indexes, where the files are that release's.
    """

    upstream: str
    root: Path
    commit: str | None
    tree: str | None
    source: str
    local_changes: tuple[str, ...] = ()
    patches: tuple[tuple[str, str], ...] = ()
    release: str | None = None

    @property
    def code_dir(self) -> Path:
        """The folder from which the code is run and imported."""
        return self.root / ("tdmpc2" if self.upstream == MINIATURE else UPSTREAMS[self.upstream].code)

    @property
    def label(self) -> str:
        """For tables and captions: 'tdmpc2 e9f5932', 'dreamerv3 release 3.3.1' or 'miniature'.

        '+ local changes' stands after it where there are some.
        """
        which = f"release {self.release}" if self.release else (self.commit or "unknown")[:7]
        words = self.upstream if self.upstream == MINIATURE else f"{self.upstream} {which}"
        return words + (" + local changes" if self.local_changes else "")

    @property
    def verified(self) -> bool:
        """Whether these are an official commit's or release's files by their hashes, our recorded patches aside."""
        if self.commit is None or self.local_changes:
            return False
        known = UPSTREAMS[self.upstream]
        return self.tree == known.release.tree if self.release else repository.is_official(known, self.commit)

    def provenance(self) -> dict:
        """What a run's folder records about the code it used; holds nothing but JSON's own types."""
        released = {}
        if self.release:
            released = {"release": self.release, "sdist_sha256": UPSTREAMS[self.upstream].release.sha256}
        return {
            "upstream": self.upstream,
            "commit": self.commit,
            "tree": self.tree,
            "source": self.source,
            "local_changes": list(self.local_changes),
            "verified": self.verified,
            "patches": [{"name": name, "sha256": sha256} for name, sha256 in self.patches],
        } | released


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
    except repository.NotHere as missing:
        root = release.cached(known)
        if root is None and not may_clone:
            raise missing from None
    if root is None:
        started = time.monotonic()
        try:
            return at_commit(known, known.pin, None, may_clone, GIT_SECONDS)
        except (repository.NoContact, git.NoGit) as unreachable:
            try:
                root = release.fetch(known, seconds=EITHER_SECONDS - (time.monotonic() - started))
            except UserError as error:
                raise UserError(f"{unreachable.message}\n{error.message}", repository.ways_out(known, "")) from None
    print(
        f"note: {known.name} release {known.release.version} is used; the pinned commit {known.pin[:7]} is not on this "
        f"machine (tdmpc2-lean upstream fetch --upstream {known.name})",
        file=sys.stderr,
    )
    return released(known, root)


def released(known: Upstream, root: Path) -> Checkout:
    """The checkout that is the upstream's release, in a folder whose tree is known to be the release's."""
    it = known.release
    return Checkout(known.name, root, it.commit, it.tree, "release", release=it.version)


def at_release(known: Upstream, may_clone: bool) -> Checkout:
    """The checkout that is the upstream's release: cached, or from the user's package index."""
    if known.release is None:
        raise UserError(f"{known.name} has no release on package indexes.", "tdmpc2-lean upstream list")
    root = release.cached(known)
    if root is None and not may_clone:
        raise repository.NotHere(
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
    if found.local_changes and not allow_local_changes:
        raise refusal(found)
    return replace(found, source=source)


def refusal(found: Checkout) -> UserError:
    """Why a checkout with local changes is not used, with the changed files."""
    shown = [f"    {path}" for path in found.local_changes[:20]]
    if len(found.local_changes) > len(shown):
        shown.append(f"    and {len(found.local_changes) - len(shown)} more")
    what = f"differs from its commit {found.commit[:7]}" if found.commit else "is not an official tree"
    return UserError(
        f"{found.root} {what} in {len(found.local_changes)} file(s):\n" + "\n".join(shown),
        "commit or undo the changes, or allow them with --allow-local-changes (the results will say so)",
    )


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
            repository.ways_out(known, ref),
        )
    commit = repository.fetch(known, ref)
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
        raise repository.NotHere(
            f"commit {commit[:7]} of the official {known.name} is not on this machine.",
            repository.ways_out(known, "" if commit == known.pin else commit),
        )
    repository.fetch(known, commit, seconds)
    return exported(known, commit, repository.repository(known), source or "clone")


def exported(known: Upstream, commit: str, from_repository: Path | None, source: str) -> Checkout:
    """The checkout of a commit as plain files in the cache."""
    root = repository.export(known, commit, from_repository)
    return Checkout(known.name, root, commit, origin.read(root).tree, source)


# ------------------------------------------------------------------------------------ what a folder is


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
    note = origin.read(root)
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


def described_by_note(root: Path, note: origin.Origin) -> Checkout:
    """A folder of our cache, or a copy of one."""
    applied, originals = recorded_patches(root)
    changed = tree.differences(note.files, without_patches(tree.manifest_of(root), originals))
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
    """A folder without git, such as an unpacked archive or a copy of the miniature: its tree id tells."""
    applied, originals = recorded_patches(root)
    manifest = without_patches(tree.manifest_of(root), originals)
    identity = tree.tree_of_manifest(manifest)
    if places.miniature_dir().is_dir() and identity == tree.tree_id(places.miniature_dir()):
        source = "package" if root == places.miniature_dir().resolve() else "argument"
        return Checkout(MINIATURE, root, None, identity, source, patches=applied)
    upstream = upstream_by_layout(root)
    if upstream is None:
        raise UserError(
            f"{root} is no checkout of {' or '.join(UPSTREAMS)}"
            + (f": it has no {upstream_named(name).code or name} folder as {name} has." if name else "."),
            "name a clone or an unpacked archive of an upstream; `tdmpc2-lean upstream list` shows them",
        )
    if upstream.release is not None and identity == upstream.release.tree:
        return replace(released(upstream, root), source="argument", patches=applied)
    commit = repository.commit_with_tree(upstream, identity)
    prefix = f"{upstream.code}/" if upstream.code else ""
    unproved = () if commit else tuple(sorted(path for path in manifest if path.startswith(prefix)))
    return Checkout(upstream.name, root, commit, identity, "argument", unproved, applied)


def recorded_patches(root: Path) -> tuple[tuple[tuple[str, str], ...], dict[str, bytes | None]]:
    """The patches applied to a folder, and each patched file's bytes before them (None: they created it).

    A file that was changed since it was patched is left out: what it would be without the patches is not
    known.
    """
    from tdmpc2_lean.patching.record import recorded

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


# ------------------------------------------------------------------------------- commands on upstreams


def add(path: str | Path, upstream: str | None = None) -> dict:
    """Copy a clone's or bare repository's commits into the cache, without a network; or unpack a release's sdist.

    The clone may have local changes; only committed objects are taken. Returns upstream, path, pin (whether
    the pinned commit is there now), commits (how many there are now), new (how many were not there before),
    tried (which of the commits this project was tried on are there now). Of an sdist: upstream, path and release
    (its version).
    """
    folder = Path(path).expanduser()
    if folder.is_file():
        return add_release(folder, upstream)
    if not folder.is_dir():
        raise UserError(
            f"there is no folder {folder}.", "tdmpc2-lean upstream add PATH, with a clone you have"
        )
    if not repository.is_repository(folder):
        raise UserError(
            f"{folder} is no git repository.",
            "name a clone or a bare git directory; an unpacked archive needs no adding, just name it",
        )
    git.require_readable(folder)
    try:
        known = repository.recognise(folder, upstream)
        new = repository.copy_in(folder, known)
        cached = repository.repository(known)
        tried = [
            commit
            for commit in repository.known_commits(cached, known)
            if repository.is_complete(cached, commit)
        ]
        return {
            "upstream": known.name,
            "path": str(folder),
            "pin": known.pin in tried,
            "commits": list(repository.objects_in(cached).values()).count("commit"),
            "new": new,
            "tried": tried,
        }
    except git.GitFailed as failure:
        raise UserError(
            f"git cannot read {folder}: {repository.last_line(failure)}", f"git -C {quoted(folder)} fsck"
        ) from None


def add_release(sdist: Path, upstream: str | None) -> dict:
    """Unpack the source distribution of an upstream's release into the cache."""
    having = [known for known in UPSTREAMS.values() if known.release and upstream in (None, known.name)]
    known = next((one for one in having if sdist.name.startswith(f"{one.release.project}-")), None)
    if known is None:
        raise UserError(
            f"{sdist} is neither a git repository nor the source distribution of an upstream's release.",
            "tdmpc2-lean upstream add PATH, with a clone you have",
        )
    release.fetch(known, sdist)
    return {"upstream": known.name, "path": str(sdist), "release": known.release.version}


def fetch(upstream: str | None = None, ref: str | None = None) -> Checkout:
    """Fetch the upstream's branches and tags, and the commit that `ref` (default: the pin) means.

    ref 'release': fetch the upstream's release from the user's package index instead.
    """
    known = upstream_named(upstream or upstream_of(ref))
    if ref == release.WORD:
        return at_release(known, may_clone=True)
    return exported(known, repository.fetch(known, ref), repository.repository(known), "clone")


def verify(where: str | Path | None = None, upstream: str | None = None) -> dict:
    """Compare a checkout (default: the one that would be used) with git's hashes, without a network.

    Returns the checkout's provenance with `root` and `reason`: '' when it verifies, else why not; of a release whose
    commit is in the cache also `compared`: how its files relate to that commit's.
    """
    found = find_checkout(upstream or upstream_of(where), where, allow_local_changes=True, may_clone=False)
    reason = ""
    if found.local_changes:
        reason = "local changes" if found.commit else "not the tree of a known commit"
    elif found.upstream == MINIATURE:
        reason = "the miniature is not official code"
    elif not found.verified:
        reason = "not an official commit as far as the repositories on this machine tell"
    result = found.provenance() | {"root": str(found.root), "reason": reason}
    if found.release and found.verified:
        result["compared"] = release.compared_with_commit(UPSTREAMS[found.upstream], found.root)
    return result


def upstream_of(where: str | Path | None) -> str:
    """The upstream of a folder by its own content; the one that has a release for its word; else 'tdmpc2'."""
    if where == release.WORD:
        return next(known.name for known in UPSTREAMS.values() if known.release)
    folder = Path(where).expanduser() if where is not None else None
    if folder is None or not folder.is_dir():
        return "tdmpc2"
    if repository.is_repository(folder):
        try:
            return repository.recognise(folder, None).name
        except UserError:
            pass
    found = upstream_by_layout(folder.resolve())
    return found.name if found else "tdmpc2"


def listing() -> list[dict]:
    """Each upstream, and the miniature, with what is on this machine; asks no network."""
    rows = []
    for known in UPSTREAMS.values():
        cached = repository.repository(known)
        row = {
            "upstream": known.name,
            "url": known.url,
            "pin": known.pin,
            "tree": known.pin_tree,
            "licence": known.licence,
            "copyright": known.copyright,
            "repository": str(cached) if cached else None,
            "tried": repository.known_commits(cached, known) if cached else [],
            "available": False,
            "source": None,
            "root": None,
            "commit": None,
            "label": None,
            "problem": "",
            "release": None,
        }
        if known.release:
            unpacked = release.cached(known)
            row["release"] = {
                "project": known.release.project,
                "version": known.release.version,
                "commit": known.release.commit,
                "sdist_sha256": known.release.sha256,
                "root": str(unpacked) if unpacked else None,
            }
        try:
            found = find_checkout(known.name, allow_local_changes=True, may_clone=False)
            row |= {
                "available": True,
                "source": found.source,
                "root": str(found.root),
                "commit": found.commit,
                "label": found.label,
                "problem": "has local changes" if found.local_changes else "",
            }
        except UserError as error:
            row["problem"] = error.message
        rows.append(row)
    return rows
