"""What `tdmpc2-lean upstream` does: add, fetch, verify, and list what is on this machine."""

from pathlib import Path

from tdmpc2_lean.errors import UserError, quoted
from tdmpc2_lean.upstreams import git, release, remote, repository
from tdmpc2_lean.upstreams.checkout import Checkout
from tdmpc2_lean.upstreams.find import at_release, exported, find_checkout
from tdmpc2_lean.upstreams.identity import upstream_of
from tdmpc2_lean.upstreams.registry import MINIATURE, UPSTREAMS, upstream_named


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
    return exported(known, remote.fetch(known, ref), repository.repository(known), "clone")


def verify(where: str | Path | None = None, upstream: str | None = None) -> dict:
    """Compare a checkout (default: the one that would be used) with git's hashes, without a network.

    Returns the checkout's provenance with `root` and `reason`: '' when it verifies, else why not; of a release whose
    commit is in the cache also `compared`: how its files relate to that commit's.
    """
    found = find_checkout(upstream or upstream_of(where), where, allow_local_changes=True, may_clone=False)
    reason = ""
    if found.local_changes:
        reason = "local changes" if found.commit else "not the tree of a known commit"
        if found.nearest:
            reason = f"not an official commit's tree; the nearest is {found.commit[:7]}"
    elif found.upstream == MINIATURE:
        reason = "the miniature is not official code"
    elif not found.verified:
        reason = "not an official commit as far as the repositories on this machine tell"
    result = found.provenance() | {"root": str(found.root), "reason": reason}
    if found.release and found.verified:
        result["compared"] = release.compared_with_commit(UPSTREAMS[found.upstream], found.root)
    return result


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
            "issues": [
                {"text": issue.text, "patch": issue.patch, "commits": list(issue.commits)} for issue in known.issues
            ],
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
