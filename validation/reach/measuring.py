"""Which patches apply to each public derivative in a list, which it has already, and which places are gone."""

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.files import atomic_write
from tdmpc2_lean.patching import Fit, check, series_of
from tdmpc2_lean.upstreams import UPSTREAMS, ancestry, tree
from tdmpc2_lean.upstreams.layout import Layout, layout_of
from tdmpc2_lean.upstreams.repository import manifest_of_commit

HERE = Path(__file__).parent
LIST, RESULTS = HERE / "derivatives.txt", HERE / "results.json"
CODE = (".py", ".yaml", ".yml")


@dataclass(frozen=True)
class Derivative:
    """A line of the list: owner/name, full hash of the commit, and the checkout's folder in it, '' for its top."""

    repository: str
    commit: str
    folder: str = ""


def derivatives(path: Path = LIST) -> Iterator[Derivative]:
    """The lines of the list; what follows a # is a remark."""
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.partition("#")[0].split()
        if words:
            yield Derivative(*words)


def measure_all(repositories: Path, anew: bool = False) -> list[dict]:
    """The results on the whole list, kept after each: those on the same commit and patches are not made again."""
    kept = {} if anew or not RESULTS.is_file() else {row["repository"]: row for row in json.loads(RESULTS.read_bytes())}
    rows = []
    for one in derivatives():
        row = kept.get(one.repository)
        if row is None or (row["commit"], row["series"]) != (one.commit, hash_of_series(row.get("upstream"))):
            found = repository_in(repositories, one.repository)
            if found is None:
                print(f"{one.repository}: no repository in {repositories}", file=sys.stderr)
                row = kept.get(one.repository)
            else:
                row = measure(one, found)
        if row is not None:
            kept[one.repository] = row
            rows.append(row)
        atomic_write(RESULTS, json.dumps(list(kept.values()), indent=1) + "\n")
    atomic_write(RESULTS, json.dumps(rows, indent=1) + "\n")  # without those that are no longer in the list
    return rows


def hash_of_series(upstream: str | None) -> str:
    """A hash over all patches of an upstream; '' where none is meant."""
    from tdmpc2_lean.patching import read_series

    if upstream is None:
        return ""
    return tree.object_id("blob", " ".join(patch.sha256 for patch in read_series(upstream)).encode())[:12]


def repository_in(folder: Path, name: str) -> Path | None:
    """The git repository of a derivative in a folder of repositories."""
    owner, _, short = name.partition("/")
    places = (f"{owner}+{short}/repo", f"{owner}+{short}", f"{owner}/{short}")
    return next((folder / place for place in places if (folder / place).is_dir()), None)


def measure(one: Derivative, repository: Path) -> dict:
    """The result on a derivative, as `results.json` has it.

    outcomes: {patch: 'applies', 'already there' or 'lost'}. lost: {patch: places that are gone, `file, inside`, each
    once, or what it needs}. kept: whether the trainer of its upstream is there, so that it can take every patch.
    """
    row = {"repository": one.repository, "commit": one.commit, "folder": one.folder, "upstream": None, "series": ""}
    with tempfile.TemporaryDirectory(prefix="tdmpc2-lean-reach-") as temporary:
        root = Path(temporary) / "checkout"
        root.mkdir()
        write_code(repository, one.commit, one.folder, root)
        try:
            series = series_of(root)
            found = check(root, series)
        except UserError as error:
            return row | {"problem": error.message.splitlines()[0].replace(str(root), "the repository")}
        row |= {"upstream": series.upstream, "series": hash_of_series(series.upstream)}
        row["descends_from"] = descent(root, repository, one, series.upstream)
        row["outcomes"] = {fit.patch.name: outcome(fit) for fit in found.fits}
        row["lost"] = {fit.patch.name: places(fit) for fit in found.fits if not fit.ok}
    return row


def descent(root: Path, repository: Path, one: Derivative, upstream: str) -> dict | None:
    """The official commit that it comes from, by the repository's history, else by its files."""
    known = UPSTREAMS[upstream]
    commit = ancestry.official_ancestor(known, one.commit, [repository])
    if commit is not None:
        return {"commit": commit, "how": "history"}
    layout = layout_of(root, upstream) or Layout(known, known.code)
    near = ancestry.nearest(known, ancestry.reader(root, layout))
    return {"commit": near.commit, "how": "files", "near": round(near.near, 2)} if near else None


def write_code(repository: Path, commit: str, folder: str, to: Path) -> None:
    """Write a commit's Python and YAML files; those that the repository lacks, as partial ones do, are left out."""
    prefix = f"{folder}/" if folder else ""
    wanted = {
        path: identity
        for path, (mode, identity) in manifest_of_commit(repository, commit).items()
        if path.startswith(prefix) and path.endswith(CODE) and mode in (tree.FILE, tree.PROGRAM)
    }
    blobs = ancestry.bytes_of_blobs(repository, frozenset(wanted.values()))
    for path, identity in wanted.items():
        if identity in blobs:
            file = to / path.removeprefix(prefix)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(blobs[identity])


def outcome(fit: Fit) -> str:
    if fit.already:
        return "already there"
    return "applies" if fit.ok else "lost"


def places(fit: Fit) -> list[str]:
    """The places of a patch that are gone, in our words."""
    if fit.blocked_by:
        return [f"needs {name}" for name in fit.blocked_by]
    found = [f"{anchor.file}, {anchor.inside}" if anchor.inside else anchor.file for anchor in fit.lost]
    return list(dict.fromkeys(found)) or ["does not parse, or a name is there already"]
