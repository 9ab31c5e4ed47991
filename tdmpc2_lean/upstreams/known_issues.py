"""Which known issues the official code of a commit has, for lists, verification and the records of runs."""

from collections.abc import Iterable
from pathlib import Path

from tdmpc2_lean.upstreams import git, repository
from tdmpc2_lean.upstreams.registry import UPSTREAMS, KnownIssue, Upstream


def issues_of(upstream: str, commit: str | None, root: Path | None = None, mended: Iterable[str] = ()) -> list[str]:
    """The texts of a commit's issues, each with the patch that mends it; [] where no history tells.

    root: the checkout, whose own history is asked where the cache lacks the commit, as for a fork's.
    mended: names of patches whose effect the code has.
    """
    known = UPSTREAMS.get(upstream)
    if known is None or commit is None:
        return []
    return [
        f"{issue.text} (patch {issue.patch})"
        for issue in known.issues
        if issue.patch not in set(mended) and has_issue(known, commit, issue, root)
    ]


def has_issue(known: Upstream, commit: str, issue: KnownIssue, root: Path | None) -> bool:
    """Whether a commit is one of the issue's, or comes after what brought it and not after what mended it."""
    if commit in known.trees:
        return commit in issue.commits
    for folder in (repository.repository(known), root):
        if folder is not None and repository.is_repository(folder) and git.has_commit(folder, commit):

            def comes_after(other: str, folder=folder) -> bool:
                return git.says_yes("merge-base", "--is-ancestor", other, commit, where=folder)

            return comes_after(issue.since) and not comes_after(issue.mended)
    return False
