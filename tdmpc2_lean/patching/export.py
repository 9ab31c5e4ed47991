"""`export`: a series as mails for `git am`, built as real commits and proved by running `git am` on them.

The commits stand on the checkout's HEAD and are made without touching the checkout. A mail whose diff
contains
carriage returns is sent as base64: `git am` strips them from plain text, as mail programs do.
"""

import base64
import os
import re
import shutil
import tempfile
from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tdmpc2_lean.errors import CheckFailed, UserError, quoted
from tdmpc2_lean.patching.plumbing import CommitFiles, Plumbing, beside
from tdmpc2_lean.patching.record import store_of
from tdmpc2_lean.patching.refusals import refuse_outdated
from tdmpc2_lean.patching.render import render, without_already_there
from tdmpc2_lean.patching.series import Patch, Series
from tdmpc2_lean.patching.verbs import find_root, finish_pending, series_of
from tdmpc2_lean.upstreams import git
from tdmpc2_lean.upstreams.applied import is_git

# Whatever the user has set up for their own mails, these are for `git am`.
PLAIN = (
    "-c", "format.useAutoBase=false", "-c", "format.headers=", "-c", "diff.suppressBlankEmpty=false",
    "-c", "i18n.logOutputEncoding=UTF-8",
)  # fmt: skip
FORMAT = (
    "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--unified=3",
    "--src-prefix=a/", "--dst-prefix=b/", "--no-attach", "--no-thread", "--no-cover-letter", "--no-signoff",
    "--subject-prefix=PATCH", "--suffix=.patch", "--numbered", "--no-from", "--no-notes",
)  # fmt: skip


@dataclass(frozen=True)
class Exported:
    """What was written.

    files: the mails in order, one per patch. base: the commit they stand on. tree: git's id of the tree they lead to.
    patches: their names. chosen: how they came to be chosen, 'named', 'applied' (those on the checkout) or 'all' (the
        default ones, since none was named and none is on the checkout).
    """

    files: tuple[Path, ...]
    base: str
    tree: str
    patches: tuple[str, ...]
    chosen: str


def export(
    root: str | Path,
    to: str | Path,
    names: Sequence[str] | None = None,
    series: Series | None = None,
    force: bool = False,
) -> Exported:
    """Write one `git am`-able file per patch (with what they need) into the folder `to`.

    names: None for those that are applied to the checkout, or all default ones where none is.

    `git am` of all of them on a clean clone of HEAD gives exactly the tree that `apply` gives; this is
    tried here before anything is written. A folder of another repository is exported as a part of that: the mails
    stand on its HEAD. Raises LostAnchors if a patch does not fit HEAD, UserError
    without git, without an identity, or if `to` is in use; CheckFailed if `git am` gives anything else.
    """
    series = series or series_of(root)
    root = find_root(root)
    to = Path(to).expanduser()
    around = root if is_git(root) else git.working_tree_around(root)
    if around is None:
        raise UserError(
            f"{root} is not a git working tree, and mails for `git am` stand on a commit.",
            f"export from a clone, or make one of it: git -C {quoted(root)} init && git -C {quoted(root)} add -A && "
            f"git -C {quoted(root)} commit -m upstream",
        )
    if to.exists() and not to.is_dir():
        raise UserError(f"{to} is a file.", "name a folder with --to")
    if to.is_dir() and any(to.iterdir()) and not force:
        raise UserError(f"{to} is not empty.", "name another folder with --to, or add --force")
    names, chosen = (tuple(names), "named") if names is not None else _those_applied(root, series)
    if around != root:
        inside = root.relative_to(around).as_posix()
        series = series.moved(lambda name: f"{inside}/{name}")
    with beside(around) as plumbing:
        identity = _identity(plumbing)
        base = plumbing.commit("HEAD")
        committed = CommitFiles(plumbing, base)
        if around != root and not any(file in committed for patch in series for file in patch.files):
            raise UserError(
                f"{root} lies in the repository {around}, but in none of its commits.",
                f"commit it there first (git -C {quoted(around)} add {quoted(inside)}), or export from a clone of the "
                "official repository",
            )
        patches = without_already_there(series.closure(names), committed)
        if not patches:
            raise UserError(
                f"There is nothing to export: the code of {root} has {', '.join(names or ()) or 'all of it'} already.",
                f"tdmpc2-lean patch check {quoted(root)}",
            )
        commits = _commits(plumbing, base, patches)
        mails = _mails(plumbing, base, commits[-1])
        trees = [plumbing.text("rev-parse", f"{commit}^{{tree}}") for commit in commits]
        _try_am(plumbing, base, mails, trees, patches, identity)
        files = _put(mails, to)
    return Exported(files, base, trees[-1], tuple(patch.name for patch in patches), chosen)


def _those_applied(root: Path, series: Series) -> tuple[tuple[str, ...] | None, str]:
    """(names of the patches on the checkout, 'applied'); (None, 'all') where there are none.

    UserError if one of them was applied from another version of the series: its mail would hold other code.
    """
    store = store_of(root)
    finish_pending(store)
    state = store.state()
    if not state.applied:
        return None, "all"
    refuse_outdated(state, series, root, f"apply {quoted(root)}")
    return state.names, "applied"


def message(patch: Patch) -> str:
    """A patch as a commit message: title, why, what it fixes, the upstream issue."""
    parts = [patch.title, patch.why]
    if patch.fix:
        parts.append(f"Changes the default behaviour: {patch.fix}")
    if patch.issue:
        parts.append(f"Issue: {patch.issue}")
    lines = [line.rstrip() for line in "\n\n".join(parts).splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def _identity(plumbing: Plumbing) -> dict[str, str]:
    """Who the commits are by, as environment for git. UserError if the user never told git."""
    try:
        line = git.text("-c", "user.useConfigOnly=true", "var", "GIT_AUTHOR_IDENT", where=plumbing.root)
    except git.GitFailed:
        raise UserError(
            "git does not know who you are, and the mails carry your name.",
            'git config --global user.name "Your Name" && git config --global user.email you@example.org',
        ) from None
    name, mail = re.fullmatch(r"(.*) <(.*)> \d+ [+-]\d+", line).groups()
    return {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": mail,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": mail,
    }


def _commits(plumbing: Plumbing, base: str, patches: Sequence[Patch]) -> list[str]:
    files = CommitFiles(plumbing, base)
    changed: dict[str, bytes] = {}
    commits, parent = [], base
    for patch in patches:
        new = render(patch, ChainMap(changed, files))
        tree = plumbing.tree_with(parent, new)
        words = ("-c", "i18n.commitEncoding=UTF-8", "commit-tree", tree, "-p", parent)
        parent = plumbing.text(*words, stdin=message(patch).encode("utf-8"))
        commits.append(parent)
        changed |= new
    return commits


def _mails(plumbing: Plumbing, base: str, last: str) -> dict[str, bytes]:
    """File name -> mail, in order."""
    out = plumbing.folder / "mails"
    plumbing.run(*PLAIN, "format-patch", *FORMAT, "-o", str(out), f"{base}..{last}")
    return {path.name: _armoured(path.read_bytes()) for path in sorted(out.iterdir())}


def _armoured(mail: bytes) -> bytes:
    """The mail, with its body in base64 if plain text would not survive."""
    head, _, body = mail.partition(b"\n\n")
    if b"\r" not in body:
        return mail
    dropped = (b"mime-version:", b"content-type:", b"content-transfer-encoding:")
    kept = [line for line in head.split(b"\n") if not line.lower().startswith(dropped)]
    kept += [
        b"MIME-Version: 1.0",
        b"Content-Type: text/plain; charset=UTF-8",
        b"Content-Transfer-Encoding: base64",
    ]
    return b"\n".join(kept) + b"\n\n" + base64.encodebytes(body)


def _try_am(
    plumbing: Plumbing,
    base: str,
    mails: dict[str, bytes],
    trees: list[str],
    patches: Sequence[Patch],
    identity: dict[str, str],
) -> None:
    """Run `git am` on a clean clone of `base`, without the user's settings, and compare every commit."""
    clone = plumbing.folder / "clone"
    folder = plumbing.folder / "to_try"
    folder.mkdir()
    for name, mail in mails.items():
        (folder / name).write_bytes(mail)
    settings_of_nobody = {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_LFS_SKIP_SMUDGE": "1",
        **identity,
    }

    def run(*words: str) -> str:
        return git.run(*words, where=clone, extra_environment=settings_of_nobody).decode("utf-8", "surrogateescape")

    try:
        git.run("init", "--quiet", "--template=", str(clone), extra_environment=settings_of_nobody)
        (clone / ".git" / "objects" / "info").mkdir(exist_ok=True)
        (clone / ".git" / "objects" / "info" / "alternates").write_text(f"{plumbing.objects.resolve()}\n")
        run("reset", "--quiet", "--hard", base)
        run("am", "--quiet", *(str(folder / name) for name in mails))
        got = run("log", "--reverse", f"-{len(patches)}", "--format=%T").split()
        said = run("log", "--reverse", f"-{len(patches)}", "--format=%B%x00").split("\0")
        rest = run("status", "--porcelain").strip()
    except git.GitFailed as error:
        raise CheckFailed(
            f"`git am` does not take the exported series: {error}",
            "this is a fault of tdmpc2_lean: report it",
        ) from None
    for number, patch in enumerate(patches):
        if got[number : number + 1] != [trees[number]] or rest:
            raise CheckFailed(
                f"`git am` of {patch.name} does not give the tree that apply gives.",
                "this is a fault of tdmpc2_lean: report it, with the checkout's commit",
            )
        if said[number].strip() != message(patch).strip():
            raise CheckFailed(
                f"`git am` does not keep the message of {patch.name}; it has {said[number].strip()[:200]!r}.",
                f"write title and why in {patch.folder} without mail syntax ([tags], ---, diff lines)",
            )


def _put(mails: dict[str, bytes], to: Path) -> tuple[Path, ...]:
    """Write the mails into `to`: all, or, into a new folder, none. Old numbered mails there make room."""
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{to.name}-", dir=to.parent))
        try:
            for name, mail in mails.items():
                (staging / name).write_bytes(mail)
            if not to.exists():
                os.chmod(staging, 0o777 & ~_umask())
                os.replace(staging, to)
            else:
                for old in to.glob("[0-9][0-9][0-9][0-9]-*.patch"):
                    old.unlink()
                for name in mails:
                    os.replace(staging / name, to / name)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise UserError(f"{error.strerror}: {error.filename}.", "name another folder with --to") from None
    return tuple(to / name for name in mails)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
