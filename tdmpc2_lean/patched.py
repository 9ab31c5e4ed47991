"""Patched checkouts in the cache: one upstream tree, one list of patches; made once, checked at every use.

    <cache>/patched/<upstream>-<tree12>-<patches12>/

Training, gates and benchmarks run on these copies, so that a user's own checkout stays as it is.
"""

import hashlib
import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tdmpc2_lean import places
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.upstreams import UPSTREAMS, Checkout, git, identity, origin, repository, tree
from tdmpc2_lean.upstreams.cache import built_beside, locked
from tdmpc2_lean.upstreams.export import export
from tdmpc2_lean.upstreams.known_issues import issues_of
from tdmpc2_lean.upstreams.registry import Release, is_left_out

# What a line of a supplied YAML file ends in that is there only with that patch.
WITH_PATCH = re.compile(rb"# with patch ([\w-]+)\s*$")


@dataclass(frozen=True)
class Patched:
    """A patched copy of a checkout.

    root: the copy's folder, in the cache.
    checkout: what it was made from.
    patches: (name, sha256) of each patch applied, in order.
    tree: git's id of the copy's files.
    supplied: (path, sha256) of files of ours that stand where a release leaves some out.
    skipped: (patch, path) of what was not edited because the release leaves the file out.
    already: names of patches that are used only by name whose effect the checkout's own code has.
    """

    root: Path
    checkout: Checkout
    patches: tuple[tuple[str, str], ...]
    tree: str
    supplied: tuple[tuple[str, str], ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    already: tuple[str, ...] = ()

    @property
    def code_dir(self) -> Path:
        """The folder from which the code is run and imported."""
        return replace(self.checkout, root=self.root).code_dir

    @property
    def known_issues(self) -> list[str]:
        """What upstream has mended since in code of this commit, and no patch applied here mends."""
        mended = [*(name for name, _ in self.patches), *self.already]
        return issues_of(self.checkout.upstream, self.checkout.commit, self.checkout.root, mended)

    def provenance(self) -> dict:
        """What a run's folder records about the code it used; holds nothing but JSON's own types."""
        found = self.checkout.provenance() | {
            "patches": [{"name": name, "sha256": sha256} for name, sha256 in self.patches],
            "patched_tree": self.tree,
            "known_issues": self.known_issues,
        }
        if self.checkout.release:
            found["supplied"] = [{"path": path, "sha256": sha256} for path, sha256 in self.supplied]
            found["skipped"] = [{"patch": name, "path": path} for name, path in self.skipped]
        return found


def materialise(checkout: Checkout, names: Sequence[str] | None = None, series=None) -> Patched:
    """A copy of the checkout with the named patches and those they need; an intact earlier one is used again.

    names: None, and the name `all`, for all default patches; an empty list for a copy without patches.
    series: a tdmpc2_lean.patching.Series; default: the one the package brings for the checkout's upstream.

    Raises what patching raises when a patch does not fit. What the checkout's own code has already is not applied.
    A checkout that has patches applied is copied as it was before them. A release lacks files without which it does
    not run: ours stand there, and patches do not edit them.
    """
    from tdmpc2_lean import patching
    from tdmpc2_lean.patching.render import already_there, without_already_there

    series = series if series is not None else patching.read_series(checkout.upstream)
    series = series.moved(checkout.layout.own)
    base = official_files(checkout)
    patches = without_already_there(series.closure(names), base)
    applied = tuple((patch.name, patch.sha256) for patch in patches)
    manifest = base.manifest()
    base_tree = tree.tree_of_manifest(manifest)
    release = UPSTREAMS[checkout.upstream].release if checkout.release else None
    ours = supplied_files(release, [patch.name for patch in patches]) if release else {}
    supplied = tuple((path, hashlib.sha256(content).hexdigest()) for path, content in sorted(ours.items()))
    left_out = release.left_out if release else ()
    skipped = dict.fromkeys(
        (patch.name, edit.file)
        for patch in patches
        for edit in patch.edits
        if is_left_out(edit.file, left_out) and edit.file not in base
    )
    facts = [applied, checkout.commit, checkout.local_changes, *([supplied] if release else [])]
    key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    name = f"{checkout.upstream}-{base_tree[:12]}-{key[:12]}"
    root = places.cache_dir() / "patched" / name
    tree_found = intact_tree(root)
    if tree_found is None:
        with locked(name):
            tree_found = intact_tree(root)
            if tree_found is None:
                if root.exists():
                    print(f"note: {root} was changed since it was made; it is made anew", file=sys.stderr)
                if skipped:
                    print(f"note: {skipped_words(checkout, skipped)}", file=sys.stderr)
                changed = patching.render_series(patches, base, left_out) | ours
                with built_beside(root) as building:
                    write(building, base, manifest, changed)
                    written = tree.manifest_of(building)
                    tree_found = tree.tree_of_manifest(written)
                    note = origin.OriginNote(
                        checkout.upstream,
                        checkout.commit,
                        checkout.tree,
                        written,
                        applied,
                        checkout.local_changes,
                        checkout.release,
                        supplied,
                    )
                    origin.write(building, note)
    already = tuple(patch.name for patch in series.optional if already_there(patch, base))
    return Patched(root, checkout, applied, tree_found, supplied, tuple(skipped), already)


def supplied_files(release: Release, patches: Sequence[str]) -> dict[str, bytes]:
    """{path in the checkout: bytes} of our files that stand in places which a release leaves out.

    patches: the names of the patches applied. Settings that come with another patch are not in the configuration,
        as they would not be in the official one.
    """
    # Found without being imported: that would need the package's own dependencies.
    (package,) = importlib.util.find_spec(release.supplied).submodule_search_locations
    folder = Path(package) / "supplied"
    files = {}
    for path in tree.manifest_of(folder):
        content = (folder / path).read_bytes()
        if path.endswith(".yaml"):
            needed = ((line, WITH_PATCH.search(line)) for line in content.splitlines(keepends=True))
            content = b"".join(line for line, with_ in needed if not with_ or with_[1].decode() in patches)
        files[path] = content
    return files


def skipped_words(checkout: Checkout, skipped: Iterable[tuple[str, str]]) -> str:
    """Which edits were not made, for people."""
    by_path: dict[str, list[str]] = {}
    for name, path in skipped:
        by_path.setdefault(path, []).append(name)
    edits = "; ".join(f"{path} ({', '.join(names)})" for path, names in by_path.items())
    return f"{checkout.label} leaves out files that patches edit, and the bridge's own stand there: {edits}"


class FolderFiles(Mapping[str, bytes]):
    """A folder's files as {posix path: bytes}, each read when it is asked for.

    originals: bytes that stand in place of some files', None for a file that is passed over.
    """

    def __init__(self, root: Path, paths: Iterable[str], originals: Mapping[str, bytes | None] | None = None):
        self.root = root
        self.originals = originals or {}
        self.paths = sorted(path for path in paths if self.originals.get(path, b"") is not None)
        self.known = set(self.paths)

    def __getitem__(self, path: str) -> bytes:
        if path not in self.known:
            raise KeyError(path)
        return self.originals[path] if path in self.originals else (self.root / path).read_bytes()

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)

    def manifest(self) -> tree.Manifest:
        """What git would record of the files."""
        found = {path: tree.entry_of(self.root / path) for path in self}
        return identity.without_patches(found, self.originals)


def official_files(checkout: Checkout) -> FolderFiles:
    """The checkout's files without our patches; with the user's local changes, where those were allowed."""
    root = checkout.root
    note = origin.read(root)
    if note is not None and note.patches:
        raise UserError(f"{root} is a patched copy already.", "name the checkout it was made from")
    is_working_tree = (root / ".git").exists()
    if is_working_tree and not checkout.local_changes and not repository.has_submodules(root, checkout.commit):
        root = export(UPSTREAMS[checkout.upstream], checkout.commit, root)
        return FolderFiles(root, tree.manifest_of(root))
    _, originals = identity.recorded_patches(root)
    if is_working_tree:
        listed = git.run("ls-files", "-z", "--cached", "--others", "--exclude-standard", where=root)
        paths = identity.paths_of(listed) | set(checkout.local_changes)
        return FolderFiles(root, [path for path in paths if tree.entry_of(root / path)], originals)
    known = UPSTREAMS.get(checkout.upstream)
    cached = repository.repository(known) if known and checkout.commit and not checkout.release else None
    if note is None and cached is not None and git.has_commit(cached, checkout.commit):
        official = map(checkout.layout.own, repository.manifest_of_commit(cached, checkout.commit))
        paths = {*official, *checkout.local_changes}
        return FolderFiles(root, [path for path in paths if tree.entry_of(root / path)], originals)
    return FolderFiles(root, tree.paths_below(root), originals)


def intact_tree(root: Path) -> str | None:
    """The tree id of a patched copy that is as it was written; None if it is not there or was changed."""
    note = origin.read(root)
    if note is None or tree.manifest_of(root) != note.files:
        return None
    return tree.tree_of_manifest(note.files)


def write(to: Path, base: FolderFiles, manifest: tree.Manifest, changed: Mapping[str, bytes]) -> None:
    """Write the base files, and in place of some of them or beside them the changed ones."""
    for path, (mode, _) in manifest.items():
        file = to / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if mode == tree.LINK:
            os.symlink(os.readlink(base.root / path), file)
        else:
            file.write_bytes(base[path])
            if mode == tree.PROGRAM:
                file.chmod(file.stat().st_mode | 0o111)
    for path, content in changed.items():
        file = to / path
        if not file.resolve().is_relative_to(to.resolve()) or file.is_symlink():
            raise UserError(f"a patch would write {path}, which leads out of the checkout.", "mend the patch")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
