"""Runs git: never prompting, never waiting for a dead host, with its complaints turned into UserError."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import IO

from tdmpc2_lean.errors import UserError

# How long the first contact with a host may take, in seconds. A transfer that makes progress may take longer.
CONTACT_SECONDS = 12


class NoGit(UserError):
    """There is no git on this machine."""


class GitFailed(UserError):
    """git said no; its words are the message. Whoever knows what that means to a user says so instead."""


class GitTimeout(GitFailed):
    """git did not finish in the time it was given."""


def environment() -> dict[str, str]:
    """The user's environment without what would point git elsewhere or make it ask questions."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not (
            name.startswith("GIT_") and name.endswith(("_DIR", "_FILE", "_TREE", "_DIRECTORY", "_NAMESPACE"))
        )
        and name not in {"GIT_CONFIG_PARAMETERS", "GIT_ALTERNATE_OBJECT_DIRECTORIES"}
    }
    kept.update(LC_ALL="C", GIT_TERMINAL_PROMPT="0", GIT_OPTIONAL_LOCKS="0", GCM_INTERACTIVE="never")
    kept.setdefault("GIT_ASKPASS", "true")
    kept.setdefault("SSH_ASKPASS", "true")
    kept.setdefault("GIT_SSH_COMMAND", f"ssh -oBatchMode=yes -oConnectTimeout={CONTACT_SECONDS - 2}")
    return kept


def arguments(*words: str, where: Path | None = None) -> list[str]:
    """A git command line. `where` is a git directory or a folder that holds one."""
    place = []
    if where is not None:
        is_git_dir = (where / "HEAD").is_file() and (where / "objects").is_dir()
        place = ["--git-dir", str(where)] if is_git_dir else ["-C", str(where)]
    settings = ("gc.auto=0", "protocol.version=2", "http.lowSpeedLimit=1", "http.lowSpeedTime=60")
    return ["git", *place, *(word for setting in settings for word in ("-c", setting)), *words]


def run(
    *words: str,
    where: Path | None = None,
    timeout: float | None = None,
    stdin: bytes | IO[bytes] = b"",
    show_progress: bool = False,
    extra_environment: dict[str, str] | None = None,
) -> bytes:
    """What git printed; GitFailed with its complaint when it failed, GitTimeout after `timeout` seconds.

    git and the transport it starts are one process group, so that a timeout or Ctrl-C ends both.
    """
    try:
        process = subprocess.Popen(
            arguments(*words, where=where),
            stdin=subprocess.PIPE if isinstance(stdin, bytes) else stdin,
            stdout=subprocess.PIPE,
            stderr=None if show_progress else subprocess.PIPE,
            env=environment() | (extra_environment or {}),
            start_new_session=True,
        )
    except FileNotFoundError:
        raise NoGit(
            "the official code is fetched and verified with git, and no git was found on the PATH.",
            "install git (git-scm.com), then run the same command again",
        ) from None
    try:
        out, complaint = process.communicate(stdin if isinstance(stdin, bytes) else None, timeout=timeout)
    except BaseException as interruption:
        end(process)
        if isinstance(interruption, subprocess.TimeoutExpired):
            raise GitTimeout(f"no answer within {timeout:g} seconds") from None
        raise
    if process.returncode:
        words_of_git = (complaint or b"").decode("utf-8", "replace").strip()
        raise GitFailed(words_of_git or f"git {words[0]} ended with exit code {process.returncode}")
    return out


def end(process: subprocess.Popen) -> None:
    """End a git process and everything it started."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    process.wait()


def text(*words: str, where: Path | None = None, timeout: float | None = None) -> str:
    """What git printed, as text without the last newline."""
    return run(*words, where=where, timeout=timeout).decode("utf-8", "surrogateescape").rstrip("\n")


def require_readable(where: Path) -> None:
    """UserError with git's words if it does not read the repository, as when it belongs to another user."""
    try:
        run("rev-parse", "--git-dir", where=where)
    except GitFailed as failure:
        raise UserError(f"git does not read {where}: {failure}", "do what git says there") from None


def says_yes(*words: str, where: Path | None = None) -> bool:
    """Whether git's exit code was 0."""
    try:
        run(*words, where=where)
    except GitFailed:
        return False
    return True


def has_commit(where: Path, commit: str) -> bool:
    """Whether the repository holds the commit itself (its files may still be missing in a partial clone)."""
    return says_yes("cat-file", "-e", f"{commit}^{{commit}}", where=where)


def commit_named(where: Path, name: str) -> str | None:
    """The full hash of the commit that `name` means in this repository, or None."""
    try:
        return text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", where=where)
    except GitFailed:
        return None


def tree_of(where: Path, commit: str) -> str:
    """The hash of a commit's tree."""
    return text("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}", where=where)


def working_tree_around(folder: Path) -> Path | None:
    """The top of the git working tree that a folder lies in, or is; None outside of any, and where git is missing."""
    try:
        return Path(text("rev-parse", "--show-toplevel", where=folder)).resolve()
    except (GitFailed, NoGit):
        return None
