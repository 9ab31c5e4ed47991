"""Each upstream's repository in the cache: filled from a folder or the network, asked for commits and their files.

    <cache>/upstreams/<upstream>.git             bare; written only under the lock

Branches and tags of the official address lie under refs/heads and refs/tags. Whatever came from elsewhere, or
from there by its hash (GitHub hands out the commits of every fork), lies under refs/added/<source>, because
nothing says that its commits are official.
"""

import contextlib
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tdmpc2_lean import places
from tdmpc2_lean.errors import UserError, quoted
from tdmpc2_lean.files import atomic_write
from tdmpc2_lean.upstreams import git, tree
from tdmpc2_lean.upstreams.cache import built_beside, locked
from tdmpc2_lean.upstreams.registry import UPSTREAMS, Upstream

FULL_HASH = re.compile(r"[0-9a-f]{40}")
SOME_HASH = re.compile(r"[0-9a-f]{7,40}")


def repository_dir(upstream: Upstream) -> Path:
    """Where the upstream's bare repository is, or would be."""
    return places.cache_dir() / "upstreams" / f"{upstream.name}.git"


def repository(upstream: Upstream) -> Path | None:
    """The upstream's bare repository in the cache, if there is one."""
    folder = repository_dir(upstream)
    return folder if (folder / "HEAD").is_file() else None


@contextlib.contextmanager
def writable_repository(upstream: Upstream) -> Iterator[Path]:
    """The upstream's bare repository, locked; a new one stays only if the block ends well."""
    with locked(upstream.name):
        folder = repository(upstream)
        if folder is not None:
            # Under our lock nobody else writes here: a lock file is what a killed git left behind.
            for stale in (*folder.glob("*.lock"), *folder.glob("refs/**/*.lock")):
                stale.unlink(missing_ok=True)
            yield folder
            return
        with built_beside(repository_dir(upstream)) as folder:
            git.run("init", "--bare", "--quiet", "--initial-branch=main", str(folder))
            yield folder


def objects_in(folder: Path) -> dict[str, str]:
    """{id: type} of all objects that a repository has, reachable or not."""
    rows = git.text(
        "cat-file",
        "--batch-all-objects",
        "--unordered",
        "--batch-check=%(objectname) %(objecttype)",
        where=folder,
    )
    return dict(row.split() for row in rows.splitlines())


def is_complete(folder: Path, commit: str) -> bool:
    """Whether all files of a commit are in the repository (they may not be in a partial or damaged clone)."""
    try:
        manifest = manifest_of_commit(folder, commit)
    except git.GitFailed:
        return False
    asked = "".join(f"{identity}\n" for mode, identity in manifest.values() if mode != tree.SUBMODULE)
    return b" missing" not in git.run("cat-file", "--batch-check", where=folder, stdin=asked.encode())


def known_commits(folder: Path, upstream: Upstream) -> list[str]:
    """Those of the upstream's tried commits (the pin first) that the repository holds."""
    return [commit for commit in upstream.trees if git.has_commit(folder, commit)]


def is_official(upstream: Upstream, commit: str) -> bool:
    """Whether hashes say that the commit is the upstream's own.

    It is when it is one of the tried commits, an ancestor of one, or reachable from what was fetched from
    the official address. A commit of a fork or of a pull request is not.
    """
    if commit in upstream.trees:
        return True
    folder = repository(upstream)
    if folder is None or not git.has_commit(folder, commit):
        return False
    official = git.text(
        "for-each-ref", "--contains", commit, "--count=1", "refs/heads", "refs/tags", where=folder
    )
    return bool(official) or any(
        git.says_yes("merge-base", "--is-ancestor", commit, known, where=folder)
        for known in known_commits(folder, upstream)
    )


def commit_with_tree(upstream: Upstream, tree_hash: str) -> str | None:
    """An official commit whose tree this is, the tried ones first, or None."""
    for commit, known_tree in upstream.trees.items():
        if known_tree == tree_hash:
            return commit
    folder = repository(upstream)
    if folder is None:
        return None
    rows = git.text("log", "--all", "--format=%T %H", where=folder).splitlines()
    commits = [row.split()[1] for row in rows if row.startswith(tree_hash)]
    return next((commit for commit in commits if is_official(upstream, commit)), None)


def official_history(folder: Path, upstream: Upstream) -> dict[str, str]:
    """{tree: an official commit with it} of all that a repository holds; tried commits first, then newest first."""
    tried = known_commits(folder, upstream)
    rows = git.text("log", "--format=%T %H", "--branches", "--tags", *tried, "--", where=folder).splitlines()
    found = {upstream.trees[commit]: commit for commit in tried}
    for tree_hash, commit in (row.split() for row in rows):
        found.setdefault(tree_hash, commit)
    return found


def resolve(folder: Path, ref: str) -> str | None:
    """The commit that a hash, tag or branch means in a cached repository; official refs before added ones."""
    if SOME_HASH.fullmatch(ref):
        commit = git.commit_named(folder, ref)
        if commit is not None:
            return commit
    if ref.startswith("-") or not git.says_yes("check-ref-format", "--allow-onelevel", ref):
        return None
    kinds = ("tags/", "heads/", "remotes/", "")
    patterns = [f"refs/{kind}{ref}" for kind in kinds[:2]] + [f"refs/added/*/{kind}{ref}" for kind in kinds]
    for pattern in patterns:
        # A pattern also matches what lies below it: only whole names count.
        rows = git.text("for-each-ref", "--format=%(refname)", pattern, where=folder).splitlines()
        for name in rows:
            if name.count("/") == pattern.count("/"):
                return git.commit_named(folder, name)
    return None


def names_of_refs(folder: Path) -> list[str]:
    """Short names of the branches and tags in a cached repository."""
    rows = git.text("for-each-ref", "--format=%(refname)", where=folder).splitlines()
    return sorted({re.sub(r"^refs/(added/\w+/)?(heads/|tags/|remotes/)?", "", row) for row in rows})


# ---------------------------------------------------------------------------------------------- filling


def recognise(folder: Path, name: str | None) -> Upstream:
    """The upstream whose commits the repository holds, or the one the user named."""
    if name is not None:
        from tdmpc2_lean.upstreams.registry import upstream_named

        return upstream_named(name)
    for upstream in UPSTREAMS.values():
        if known_commits(folder, upstream):
            return upstream
    for upstream in UPSTREAMS.values():
        cached = repository(upstream)
        head = git.commit_named(folder, "HEAD")
        if cached is not None and head is not None and git.has_commit(cached, head):
            return upstream
    raise UserError(
        f"{folder} holds none of the commits that tell one upstream from another.",
        f"tdmpc2-lean upstream add {quoted(folder)} --upstream NAME, where NAME is {' or '.join(UPSTREAMS)}",
    )


def is_repository(path: Path) -> bool:
    """Whether the path itself is a git working tree or a bare git directory (not merely inside one)."""
    return (path / ".git").exists() or is_bare(path)


def is_bare(path: Path) -> bool:
    """Whether the path is a git directory: a bare repository, or some working tree's .git folder."""
    return (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()


def copy_in(path: Path, upstream: Upstream) -> int:
    """Copy all objects of a repository on this machine into the cache; how many commits are new there.

    Objects are copied as they are, not fetched by ref: a clone that is shallow, partial or lacks some old
    file is as good as a whole one for the commits whose files it has. `git index-pack` computes every
    object's hash anew.
    """
    path = path.resolve()
    theirs = objects_in(path)
    if "commit" not in theirs.values():
        raise UserError(f"{path} is a git repository without a commit.", "name a clone that has been fetched")
    with writable_repository(upstream) as folder:
        new = theirs.keys() - objects_in(folder).keys()
        if new:
            copy_objects(path, folder, sorted(new))
        keep_shallow(path, folder)
        added = namespace_of(str(path))
        rows = git.text("for-each-ref", "--format=%(objectname) %(refname)", where=path).splitlines()
        wanted = {
            added + name.removeprefix("refs/"): identity
            for identity, name in (row.split(" ", 1) for row in rows)
        }
        head = git.commit_named(path, "HEAD")
        wanted |= {f"{added}HEAD": head} if head else {}
        # Refs of an earlier addition of the same folder go first: a branch `a` may since have become `a/b`.
        earlier = git.text("for-each-ref", "--format=delete %(refname)", added, where=folder)
        git.run("update-ref", "--stdin", where=folder, stdin=(earlier + "\n").encode() if earlier else b"")
        changes = [f"update {name} {identity}\n" for name, identity in wanted.items() if identity in theirs]
        git.run("update-ref", "--stdin", where=folder, stdin="".join(changes).encode())
        return sum(theirs[identity] == "commit" for identity in new)


def copy_objects(path: Path, folder: Path, identities: list[str]) -> None:
    """Copy objects from one repository into another, as one pack."""
    with tempfile.TemporaryFile() as listed:
        listed.write("".join(f"{identity}\n" for identity in identities).encode())
        listed.seek(0)
        packing = subprocess.Popen(
            git.arguments("pack-objects", "--stdout", "-q", where=path),
            stdin=listed,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=git.environment() | {"GIT_NO_LAZY_FETCH": "1"},
            start_new_session=True,
        )
        try:
            git.run("index-pack", "--stdin", where=folder, stdin=packing.stdout)
            complaint = packing.stderr.read().decode("utf-8", "replace").strip()
            if packing.wait():
                raise git.GitFailed(complaint or "git pack-objects failed")
        except git.GitFailed as failure:
            raise UserError(
                f"git could not copy {path} into the cache: {last_line(failure)}",
                f"git -C {quoted(path)} fsck, or name another clone",
            ) from None
        finally:
            git.end(packing)


def keep_shallow(path: Path, folder: Path) -> None:
    """Tell the cached repository where a shallow clone's history ends, unless it knows more itself."""
    theirs = Path(git.text("rev-parse", "--path-format=absolute", "--git-path", "shallow", where=path))
    if not theirs.is_file():
        return
    ends = set(theirs.read_text().split())
    ours = folder / "shallow"
    ends |= set(ours.read_text().split()) if ours.is_file() else set()
    known = objects_in(folder)
    cut = []
    for commit in sorted(ends & known.keys()):
        raw = git.text("cat-file", "commit", commit, where=folder)
        parents = [
            line.split()[1] for line in raw.split("\n\n", 1)[0].splitlines() if line.startswith("parent ")
        ]
        if not all(parent in known for parent in parents):
            cut.append(commit)
    atomic_write(ours, "".join(f"{commit}\n" for commit in cut))


def namespace_of(source: str) -> str:
    """Where the refs of a folder or of an address other than the official one are kept."""
    return f"refs/added/{hashlib.sha256(os.fsencode(source)).hexdigest()[:8]}/"


def last_line(failure: Exception) -> str:
    """The line of git's complaint that says what went wrong."""
    lines = [line for line in str(failure).splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return (telling or lines or ["git gave no reason"])[0]


def manifest_of_commit(folder: Path, commit: str) -> tree.Manifest:
    """What a commit's tree holds."""
    rows = git.run("ls-tree", "-r", "-z", "--full-tree", commit, where=folder).split(b"\0")
    manifest: tree.Manifest = {}
    for row in filter(None, rows):
        facts, _, path = row.partition(b"\t")
        mode, _, identity = facts.decode().split(" ")
        manifest[os.fsdecode(path)] = (mode, identity)
    return manifest


def has_submodules(folder: Path, commit: str) -> bool:
    """Whether a commit holds other repositories' commits, which no export can have."""
    return any(mode == tree.SUBMODULE for mode, _ in manifest_of_commit(folder, commit).values())
