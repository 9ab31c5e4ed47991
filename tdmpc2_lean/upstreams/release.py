"""An upstream's release on package indexes, unpacked in the cache: official code without git hosting.

    <cache>/checkouts/<upstream>-release-<version>/   checked by their tree id at every use

What vouches for the files is the hash of the source distribution, written down in the registry. Nothing of it is
built or run in order to get at its files.
"""

import hashlib
import sys
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

from tdmpc2_lean import places
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.upstreams import git, index, origin, repository, tree
from tdmpc2_lean.upstreams.cache import built_beside, locked
from tdmpc2_lean.upstreams.registry import Release, Upstream, is_left_out

# The word that names it where a checkout is asked for.
WORD = "release"


def folder_of(known: Upstream) -> Path:
    """Where the upstream's unpacked release is, or would be."""
    return places.cache_dir() / "checkouts" / f"{known.name}-release-{known.release.version}"


def cached(known: Upstream) -> Path | None:
    """The folder with the upstream's release, if it is there and every file is as it was released."""
    folder = folder_of(known)
    note = origin.read(folder)
    if note is None or note.release != known.release.version or tree.tree_id(folder) != known.release.tree:
        return None
    return folder


def fetch(known: Upstream, sdist: Path | None = None, seconds: float | None = None) -> Path:
    """The folder with the upstream's release, unpacked from a file or from the user's package index if need be.

    sdist: a file that is said to be its source distribution.
    seconds: how long to wait for the indexes' answers (default: CONTACT_SECONDS).
    """
    release, folder = known.release, folder_of(known)
    with locked(folder.name):
        if cached(known) and sdist is None:
            return folder
        if folder.exists() and not cached(known):
            print(f"note: {folder} was changed since it was unpacked; it is unpacked anew", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="tdmpc2-lean-") as temporary:
            if sdist is None:
                sdist = index.download(release.project, release.version, release.sha256, Path(temporary), seconds)
            files = read(sdist, release)
        with built_beside(folder) as building:
            for path, (content, is_program) in files.items():
                file = building / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
                if is_program:
                    file.chmod(file.stat().st_mode | 0o111)
            manifest = tree.manifest_of(building, ignore=())
            found = tree.tree_of_manifest(manifest)
            if found != release.tree:
                raise UserError(
                    f"the files of {release.project} {release.version} were written with tree {found}, and "
                    f"{release.tree} was expected.",
                    "the cache's file system may ignore case or modes and so hold no checkout; mend it, or set "
                    "TDMPC2_LEAN_CACHE to another folder",
                )
            note = origin.OriginNote(known.name, release.commit, found, manifest, release=release.version)
            origin.write(building, note)
    return folder


def read(sdist: Path, release: Release) -> dict[str, tuple[bytes, bool]]:
    """{path below the archive's one folder: (bytes, whether it is a program)}, after the archive's hash is verified.

    UserError if it is another file, or if it holds anything but files and folders at plain relative paths.
    """
    found = hashlib.sha256(sdist.read_bytes()).hexdigest()
    if found != release.sha256:
        raise UserError(
            f"{sdist} is not the source distribution of {release.project} {release.version}: its sha256 is {found}, "
            f"and that of the release is {release.sha256}.",
            f"name the file {release.project}-{release.version}.tar.gz as its author published it",
        )
    files: dict[str, tuple[bytes, bool]] = {}
    with tarfile.open(sdist) as archive:
        for member in archive:
            top, *parts = PurePosixPath(member.name).parts or ("",)
            path = "/".join(parts)
            sound = top == f"{release.project}-{release.version}" and "\\" not in path and path not in files
            if not sound or {"..", ".", ".git", origin.FOLDER} & {part.lower() for part in parts}:
                raise UserError(f"{sdist} holds the path {member.name!r}, which no release may.", "use another file")
            if member.isfile() and parts:
                files[path] = (archive.extractfile(member).read(), bool(member.mode & 0o100))
            elif not member.isdir():
                raise UserError(f"{sdist} holds {member.name!r}, which is no file.", "use another file")
    return files


def compared_with_commit(known: Upstream, root: Path) -> dict | None:
    """How the files of a release relate to its commit's by git's hashes; None if the commit is not in the cache.

    equal: how many are the commit's, byte for byte. other: those that are not, such as metadata for packaging.
    missing: the commit's files that the release should hold and does not.
    """
    cached_repository = repository.repository(known)
    if cached_repository is None or not git.has_commit(cached_repository, known.release.commit):
        return None
    committed = repository.manifest_of_commit(cached_repository, known.release.commit)
    ours = tree.manifest_of(root)
    same = {path for path, entry in ours.items() if committed.get(path, ("", ""))[1] == entry[1]}
    expected = {path for path in committed if not is_left_out(path, known.release.left_out)}
    return {
        "commit": known.release.commit,
        "equal": len(same),
        "other": sorted(ours.keys() - same),
        "missing": sorted(expected - ours.keys()),
    }
