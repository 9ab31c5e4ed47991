"""An upstream's address on the network: what it is, how its commits are fetched, what to do without it."""

import contextlib
import os
import re
import sys
from pathlib import Path

from tdmpc2_lean.errors import UserError, quoted
from tdmpc2_lean.upstreams import git
from tdmpc2_lean.upstreams.registry import DEFAULT, Upstream
from tdmpc2_lean.upstreams.repository import FULL_HASH, last_line, namespace_of, resolve, writable_repository


class NoContact(UserError):
    """The address of the official repository did not answer."""


class NotHere(UserError):
    """What was asked for is not on this machine, and the network was not to be asked."""


def address(upstream: Upstream) -> str:
    """Where the upstream is fetched from: its own address, unless the user's environment names another."""
    return os.environ.get(upstream.url_variable) or upstream.url


def ways_out(upstream: Upstream, what: str) -> str:
    """What a user can do who has no official code."""
    which = "" if upstream.name == DEFAULT else f"--upstream {upstream.name}"
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
            if upstream.has_miniature
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
