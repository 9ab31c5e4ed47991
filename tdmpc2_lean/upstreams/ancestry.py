"""Which official commit a checkout's code comes from: by its history, or by its files where that says nothing.

How near files come to a commit's is measured by their lines, without white space at both ends and without blank ones,
so that line ends, indentation and a moved function are no distance. A commit's code counts, not its papers.
"""

import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tdmpc2_lean.upstreams import git, repository, tree
from tdmpc2_lean.upstreams.applied import recorded
from tdmpc2_lean.upstreams.layout import Layout
from tdmpc2_lean.upstreams.registry import Upstream

# Files whose lines have less in common with a commit's than this come from no commit that is known.
LEAST = 0.3
# Of a larger file only so many bytes are looked at.
LARGEST = 1 << 20

Lines = frozenset[int]


@dataclass(frozen=True)
class Descent:
    """The official commit that code comes from.

    how: 'own', the checkout's own commit; 'history', an ancestor of it; 'files', the one to which the files come
    nearest; 'pin', for want of any of these. why: in words.
    near: share of the lines of the commit's code and of the checkout's, where both have the file, that both have.
    same, files: how many of the commit's code files are there byte for byte, and how many it has.
    """

    commit: str
    how: str
    why: str
    near: float | None = None
    same: int | None = None
    files: int | None = None

    def as_dict(self) -> dict:
        """For a run's record."""
        measured = {} if self.near is None else {"near": round(self.near, 4), "same": self.same, "files": self.files}
        return {"commit": self.commit, "how": self.how, "why": self.why} | measured


def official_commits(upstream: Upstream) -> set[str]:
    """All commits that the cache's history, or their hash, says to be official."""
    cached = repository.repository(upstream)
    known = set(upstream.trees)
    if cached is not None:
        tried = repository.known_commits(cached, upstream)
        known |= set(git.text("rev-list", "--branches", "--tags", *tried, "--", where=cached).split())
    return known


def official_ancestor(upstream: Upstream, commit: str, folders: Iterable[Path | None]) -> str | None:
    """The newest official commit that a commit is or comes after, by the first of the repositories that holds it."""
    official = official_commits(upstream)
    for folder in folders:
        if folder is not None and repository.is_repository(folder) and git.has_commit(folder, commit):
            commits = git.text("rev-list", "--date-order", commit, "--", where=folder).split()
            found = next((one for one in commits if one in official), None)
            if found is not None:
                return found
    return None


def descent_of(root: Path, commit: str, layout: Layout, near_to: str | None = None) -> Descent:
    """The official commit that a checkout's code, as it was before our recorded patches, comes from.

    commit: the checkout's own, official or not. near_to: the official one to which the files come nearest, where that
    is known already.
    """
    upstream = layout.upstream
    if near_to is None:
        if repository.is_official(upstream, commit):
            return Descent(commit, "own", "its own commit")
        ancestor = official_ancestor(upstream, commit, (root, repository.repository(upstream)))
        if ancestor is not None:
            return Descent(ancestor, "history", f"the newest official ancestor of {commit[:7]}")
    read = reader(root, layout)
    found = nearest(upstream, read, near_to)
    without = "" if near_to else no_ancestor(root, commit)
    if found is None:
        why = f"the pin, because {without}, and its files come near to none"
        return Descent(upstream.pin, "pin", why)
    same = sum(read(path) == found.code[path] for path in found.code)
    why = (
        f"the official commit to which its files come nearest: {found.near:.0%} of their lines, {same} of "
        f"{len(found.code)} files of its code byte for byte" + (f"; {without}" if without else "")
    )
    return Descent(found.commit, "files", why, found.near, same, len(found.code))


def no_ancestor(root: Path, commit: str) -> str:
    """That no history leads to an official commit, and why it may not."""
    words = f"no commit of the official history in the cache is among the ancestors of {commit[:7]}"
    shallow = (root / ".git").exists() and git.says_yes("rev-parse", "--git-dir", where=root)
    if shallow and git.text("rev-parse", "--is-shallow-repository", where=root) == "true":
        words += " in this shallow clone"
    return words


def reader(root: Path, layout: Layout) -> Callable[[str], bytes | None]:
    """Gives a checkout's file by the official repository's path, as it was before our recorded patches."""
    _, originals, _ = recorded(root)

    def read(path: str) -> bytes | None:
        own = layout.own(path)
        if own in originals:
            return originals[own]
        try:
            return (root / own).read_bytes()
        except (OSError, ValueError):
            return None

    return read


@dataclass(frozen=True)
class Near:
    """An official commit, its tree, the bytes of its code by path, and how near files come to it, from 0 to 1."""

    commit: str
    tree: str
    code: Mapping[str, bytes]
    near: float


def nearest(upstream: Upstream, read: Callable[[str], bytes | None], only: str | None = None) -> Near | None:
    """The official commit to whose code a checkout's files come nearest; None if they come near to none.

    read: gives the checkout's file by the official path. only: the one commit to measure, however far it is.
    Of commits that are as near as each other it is the newest, tried ones first.
    """
    folder = repository.repository(upstream)
    history = repository.official_history(folder, upstream) if folder else {}
    if only is not None:
        history = {tree_hash: commit for tree_hash, commit in history.items() if commit == only}
    prefix = f"{upstream.code}/" if upstream.code else ""
    code = {
        commit: {
            path: identity
            for path, (mode, identity) in repository.manifest_of_commit(folder, commit).items()
            if mode not in (tree.LINK, tree.SUBMODULE) and path.startswith(prefix) and path.endswith((".py", ".yaml"))
        }
        for commit in history.values()
    }
    blobs = bytes_of_blobs(folder, frozenset(one for paths in code.values() for one in paths.values()))
    theirs = {identity: lines_of(data) for identity, data in blobs.items()}
    ours = {path: lines_of(read(path) or b"") for paths in code.values() for path in paths}
    best = None
    for tree_hash, commit in history.items():
        common = every = 0
        for path, identity in code[commit].items():
            old, new = theirs.get(identity, frozenset()), ours[path]
            common += len(old & new)
            every += len(old | new)
        near = common / every if every else 0.0
        if (near >= LEAST or only) and (best is None or near > best[2]):
            best = (commit, tree_hash, near)
    if best is None:
        return None
    files = {path: blobs[identity] for path, identity in code[best[0]].items() if identity in blobs}
    return Near(best[0], best[1], files, best[2])


def lines_of(data: bytes) -> Lines:
    """The different lines of a file, by their hashes, blank ones left out."""
    return frozenset(hash(line) for one in data[:LARGEST].splitlines() if (line := one.strip()))


@lru_cache(maxsize=4)
def bytes_of_blobs(folder: Path | None, identities: frozenset[str]) -> Mapping[str, bytes]:
    """{blob: its bytes} of those that the repository has."""
    if folder is None or not identities:
        return {}
    process = subprocess.run(
        git.arguments("cat-file", "--batch", where=folder),
        input="".join(f"{one}\n" for one in sorted(identities)).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=git.environment() | {"GIT_NO_LAZY_FETCH": "1"},
        check=False,
    )
    found, at, out = {}, 0, process.stdout
    while at < len(out):
        end = out.index(b"\n", at)
        head = out[at:end].split()
        at = end + 1
        if len(head) == 3:
            size = int(head[2])
            found[head[0].decode()] = out[at : at + size]
            at += size + 1
    return found
