"""A commit's files as plain files in the cache, written from git's objects and checked by their tree id at every use.

    <cache>/checkouts/<upstream>-<commit12>/
"""

import os
import subprocess
import sys
from pathlib import Path

from tdmpc2_lean import places
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.upstreams import git, origin, tree
from tdmpc2_lean.upstreams.cache import built_beside, locked
from tdmpc2_lean.upstreams.registry import Upstream
from tdmpc2_lean.upstreams.repository import last_line, manifest_of_commit


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
                origin.write(building, origin.OriginNote(upstream.name, commit, expected, manifest))
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
