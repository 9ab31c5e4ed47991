"""Each upstream's repository in the cache: filled from a folder or the network, exported as plain files.

    <cache>/upstreams/<upstream>.git             bare; written only under the lock
    <cache>/checkouts/<upstream>-<commit12>/     one commit's files, checked by their tree id at every use
    <cache>/locks/

Branches and tags of the official address lie under refs/heads and refs/tags. Whatever came from elsewhere, or
from there by its hash (GitHub hands out the commits of every fork), lies under refs/added/<source>, because
nothing says that its commits are official.
"""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tdmpc2_lean import places
from tdmpc2_lean.errors import UserError, quoted
from tdmpc2_lean.upstreams import git, origin, tree
from tdmpc2_lean.upstreams.registry import UPSTREAMS, Upstream


class NoContact(UserError):
    """The address of the official repository did not answer."""


class NotHere(UserError):
    """What was asked for is not on this machine, and the network was not to be asked."""


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
def locked(name: str, seconds: float = 900) -> Iterator[None]:
    """Hold the cache's lock of that name; it goes with the process, however that ends."""
    import filelock

    folder = places.cache_dir() / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / f"{name}.lock")
        try:
            lock.acquire(timeout=2)
        except filelock.Timeout:
            print(f"waiting for another tdmpc2-lean that works on {name} in the cache", file=sys.stderr)
            lock.acquire(timeout=seconds)
    except filelock.Timeout:
        raise UserError(
            f"another tdmpc2-lean has worked on {name} in the cache for {seconds:g} seconds.",
            f"see what holds {lock.lock_file}, or set TDMPC2_LEAN_CACHE to another folder",
        ) from None
    except OSError as error:
        raise UserError(
            f"the cache {places.cache_dir()} cannot be written: {error}.",
            "set TDMPC2_LEAN_CACHE to a folder that can be written",
        ) from None
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def built_beside(final: Path) -> Iterator[Path]:
    """A new folder that becomes `final` in one step if the block ends well, and vanishes if it does not.

    Call it under the lock of `final`: folders that an earlier, killed call left there are removed.
    """
    prefix = f".{final.name}."
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        for leftover in final.parent.glob(prefix + "*"):
            shutil.rmtree(leftover, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=final.parent))
        os.chmod(folder, 0o777 & ~current_umask())
        try:
            yield folder
            if final.exists():
                os.rename(final, folder.with_name(folder.name + ".old"))
            os.rename(folder, final)
        finally:
            for leftover in final.parent.glob(prefix + "*"):
                shutil.rmtree(leftover, ignore_errors=True)
    except OSError as error:
        raise UserError(
            f"{final} could not be written: {error}.",
            "make room or set TDMPC2_LEAN_CACHE to a folder that can be written",
        ) from None


def current_umask() -> int:
    """The process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


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
    ours.write_text("".join(f"{commit}\n" for commit in cut))


def namespace_of(source: str) -> str:
    """Where the refs of a folder or of an address other than the official one are kept."""
    return f"refs/added/{hashlib.sha256(os.fsencode(source)).hexdigest()[:8]}/"


def address(upstream: Upstream) -> str:
    """Where the upstream is fetched from: its own address, unless the user's environment names another."""
    return os.environ.get(upstream.url_variable) or upstream.url


def ways_out(upstream: Upstream, what: str) -> str:
    """What a user can do who has no official code."""
    which = "" if upstream.name == "tdmpc2" else f"--upstream {upstream.name}"
    fetching = " ".join(("tdmpc2-lean upstream fetch", *filter(None, (what and quoted(what), which))))
    return (
        "one of these:\n"
        f"    tdmpc2-lean upstream add PATH    with a clone of {upstream.url} you have; no network\n"
        f"    {upstream.environment_variable}=PATH    set in the environment, to use a clone where it is\n"
        f"    {fetching}    where the network reaches {address(upstream)}"
        + (
            f"\n    tdmpc2-lean upstream fetch release --upstream {upstream.name}    where pip reaches a package index"
            if upstream.release
            else ""
        )
        + (
            "\n  or, to try the tools without the official code, name `miniature` instead"
            if upstream.name == "tdmpc2"
            else ""
        )
    )


def fetch(upstream: Upstream, ref: str | None = None, seconds: float | None = None) -> str:
    """Fetch the official branches and tags, and `ref` where it is none of them; the commit that `ref` means.

    seconds: how long to wait for the address's first answer (default: CONTACT_SECONDS); NoContact then.
    """
    ref = ref or upstream.pin
    if ref.startswith("-") or not ref.isprintable():
        raise UserError(
            f"{ref!r} is not a commit, tag or branch.", f"tdmpc2-lean upstream fetch {upstream.pin[:7]}"
        )
    url = address(upstream)
    try:
        rows = git.text("ls-remote", "--", url, timeout=seconds or git.CONTACT_SECONDS).splitlines()
    except git.GitFailed as failure:
        raise NoContact(
            f"{ref[:12]} of {upstream.name} cannot be fetched: no contact with {url} ({last_line(failure)}).",
            ways_out(upstream, ref if ref != upstream.pin else ""),
        ) from None
    remote = {name: commit for commit, name in (row.split("\t", 1) for row in rows)}
    added = namespace_of(url)
    namespace = "refs/" if url == upstream.url else added
    with writable_repository(upstream) as folder:
        transfer(
            folder, upstream, url, [f"+refs/heads/*:{namespace}heads/*", f"+refs/tags/*:{namespace}tags/*"]
        )
        if resolve(folder, ref) is None:
            # The host may hold a commit or a pull request that no branch leads to, and sends it when asked
            # for it.
            single = (
                f"+{ref}:{added}commits/{ref}" if FULL_HASH.fullmatch(ref) else f"+refs/{ref}:{added}{ref}"
            )
            with contextlib.suppress(git.GitFailed):
                git.run(
                    "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", url, single, where=folder
                )
        commit = resolve(folder, ref)
    if commit is None:
        from tdmpc2_lean.nearest import did_you_mean

        known = [re.sub(r"^refs/(heads/|tags/)?", "", name) for name in remote]
        raise UserError(
            f"{url} has no commit, tag or branch {ref!r}." + did_you_mean(ref, known),
            f"tdmpc2-lean upstream fetch    (the pin, {upstream.pin[:7]})",
        )
    return commit


def transfer(folder: Path, upstream: Upstream, url: str, refspecs: list[str]) -> None:
    """Fetch the refspecs, with git's own progress on a terminal."""
    visible = sys.stderr.isatty()
    try:
        git.run("fetch", "--no-tags", "--no-write-fetch-head", "--no-auto-gc",
                "--progress" if visible else "--quiet", "--", url, *refspecs,
                where=folder, show_progress=visible)  # fmt: skip
    except git.GitFailed as failure:
        raise UserError(
            f"fetching {url} broke off: {last_line(failure)}",
            f"tdmpc2-lean upstream fetch --upstream {upstream.name}",
        ) from None


def last_line(failure: Exception) -> str:
    """The line of git's complaint that says what went wrong."""
    lines = [line for line in str(failure).splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return (telling or lines or ["git gave no reason"])[0]


# -------------------------------------------------------------------------------------------- exporting


def manifest_of_commit(folder: Path, commit: str) -> tree.Manifest:
    """What a commit's tree holds."""
    rows = git.run("ls-tree", "-r", "-z", "--full-tree", commit, where=folder).split(b"\0")
    manifest: tree.Manifest = {}
    for row in filter(None, rows):
        facts, _, path = row.partition(b"\t")
        mode, _, identity = facts.decode().split(" ")
        manifest[os.fsdecode(path)] = (mode, identity)
    return manifest


def export(upstream: Upstream, commit: str, from_repository: Path | None) -> Path:
    """The folder in the cache that holds a commit's files, byte for byte; written anew when it is not intact.

    from_repository: where the commit's objects are. None: only an export that is already there can be used.
    The files are written from git's objects and not by `git archive`, because attributes (export-ignore, eol)
    would change them.
    """
    folder = places.cache_dir() / "checkouts" / f"{upstream.name}-{commit[:12]}"
    if intact(folder, commit):
        return folder
    if from_repository is None:
        raise LookupError(commit)
    with locked(f"{upstream.name}-{commit[:12]}"):
        if intact(folder, commit):
            return folder
        if folder.exists():
            print(f"note: {folder} was changed since it was exported; it is exported anew", file=sys.stderr)
        try:
            expected = git.tree_of(from_repository, commit)
            with built_beside(folder) as building:
                write_files(from_repository, commit, building)
                manifest = tree.manifest_of(building, ignore=())
                found = tree.tree_of_manifest(manifest)
                if found != expected or upstream.trees.get(commit, expected) != expected:
                    raise UserError(
                        f"the files of {commit} were written with tree {found}, but git says {expected}.",
                        "the cache's file system may ignore case or modes and so hold no checkout; mend it, "
                        "or set TDMPC2_LEAN_CACHE to another folder",
                    )
                origin.write(building, origin.Origin(upstream.name, commit, expected, manifest))
        except git.GitFailed as failure:
            raise UserError(
                f"the files of {commit} cannot be read from {from_repository}: {last_line(failure)}",
                f"tdmpc2-lean upstream fetch {commit[:12]} --upstream {upstream.name}",
            ) from None
    return folder


def intact(folder: Path, commit: str) -> bool:
    """Whether the folder is an export of the commit and every file is as it was exported."""
    recorded = origin.read(folder)
    return recorded is not None and recorded.commit == commit and tree.tree_id(folder) == recorded.tree


def write_files(from_repository: Path, commit: str, to: Path) -> None:
    """Write a commit's files as the plain bytes of its blobs."""
    manifest = manifest_of_commit(from_repository, commit)
    for path, (mode, _) in manifest.items():
        parts = path.split("/")
        if path.startswith("/") or {"", ".", "..", ".git"} & {part.lower() for part in parts}:
            raise UserError(
                f"commit {commit} holds the path {path!r}, which no checkout may.", "use another commit"
            )
        if mode == tree.SUBMODULE:
            raise UserError(
                f"commit {commit} holds a submodule ({path}); those are not supported.", "name a PATH"
            )
    process = subprocess.Popen(
        git.arguments("cat-file", "--batch", where=from_repository),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=git.environment() | {"GIT_NO_LAZY_FETCH": "1"},
        start_new_session=True,
    )
    try:
        for path, (mode, identity) in manifest.items():
            process.stdin.write(identity.encode() + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline().split()
            if len(answer) != 3 or answer[1] != b"blob":
                raise git.GitFailed(f"fatal: the content of {path} ({identity}) is missing")
            content = process.stdout.read(int(answer[2]))
            process.stdout.read(1)
            file = to / path
            file.parent.mkdir(parents=True, exist_ok=True)
            if mode == tree.LINK:
                os.symlink(os.fsdecode(content), file)
            else:
                file.write_bytes(content)
                if mode == tree.PROGRAM:
                    file.chmod(file.stat().st_mode | 0o111)
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()
