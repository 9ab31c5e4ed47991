"""What was computed before and cannot come out otherwise: kept in the cache by a hash of all that it depends on.

    <cache>/gates/<kind>/<sha256>/      the files that were kept, and key.json: what they depend on, and when

`surroundings` is what everything depends on: the code of the gates and of this package, the versions of packages, the
processor. Whoever keeps something adds what is its own: the code under test, by content, and its arguments. Something
that is changed, incomplete or unreadable is made anew.
"""

import hashlib
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

from tdmpc2_lean import places
from tdmpc2_lean.versions import versions

MOST = 200  # of a kind are kept; the oldest go first
KEY = "key.json"


def folder_of(kind: str) -> Path:
    return places.cache_dir() / "gates" / kind


def hash_of(facts) -> str:
    """sha256 of what JSON can write."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def hash_of_files(files: Mapping[str, bytes]) -> str:
    return hash_of({path: hashlib.sha256(data).hexdigest() for path, data in files.items()})


@cache
def hash_of_our_code() -> str:
    """Over all Python and configuration of this project that could decide what a gate answers."""
    package = Path(places.__file__).parent
    found = {}
    for root in (package, places.bridge_dir(), places.validation_dir()):
        for folder, folders, names in os.walk(root):  # links are not followed: the parts are named
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                path = Path(folder) / name
                if path.suffix in (".py", ".toml", ".yaml") or name == "series":
                    found[f"{root.name}/{path.relative_to(root).as_posix()}"] = path.read_bytes()
    return hash_of_files(found)


@cache
def processor() -> str:
    """The processor's name: another may round otherwise, and has other vector instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def surroundings(packages: Iterable[str]) -> dict:
    """What every gate's answer depends on, beside the code under test."""
    return {"gates": hash_of_our_code(), "versions": versions(tuple(packages)), "processor": processor()}


def recall(kind: str, facts: Mapping) -> tuple[Path, str] | None:
    """(folder, when it was kept as 2026-07-13 10:00) of what depends on these facts; None where nothing is whole."""
    folder = folder_of(kind) / hash_of(facts)
    try:
        key = json.loads((folder / KEY).read_text(encoding="utf-8"))
        whole = all(
            hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha256 for name, sha256 in key["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return (folder, key["when"]) if whole and key["facts"] == json.loads(json.dumps(facts)) else None


def keep(kind: str, facts: Mapping, write: Callable[[Path], None]) -> None:
    """Keeps what `write` puts into a folder, as depending on these facts; what was kept before of the same goes."""
    parent = folder_of(kind)
    parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=".building-", dir=parent))
    try:
        write(building)
        hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(building.iterdir())}
        when = time.strftime("%Y-%m-%d %H:%M")
        key = {"facts": facts, "files": hashes, "when": when}
        (building / KEY).write_text(json.dumps(key, indent=1), encoding="utf-8")
        target = parent / hash_of(facts)
        shutil.rmtree(target, ignore_errors=True)
        try:
            building.rename(target)
        except OSError:
            if not target.exists():  # else another process kept the same meanwhile
                raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
    for old in sorted(parent.glob("[0-9a-f]*"), key=lambda path: path.stat().st_mtime, reverse=True)[MOST:]:
        shutil.rmtree(old, ignore_errors=True)
