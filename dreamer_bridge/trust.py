"""Checkpoints that this user made, told apart from others before anything in them is unpickled.

An official checkpoint is a folder of pickles, and unpickling executes what the file says. Each checkpoint that the
bridge writes therefore gets a file `bridge.sig`: the SHA-256 of every other file in the folder, and an HMAC-SHA256 of
that list with a key of the user's own, which never leaves the folder of the user's settings. A checkpoint whose
signature is absent or wrong is not loaded, unless the user says so (--trust-checkpoint).

Whoever can read the key can sign; whoever can write into the folder while it is being loaded can still deceive.
"""

import hashlib
import hmac
import json
import os
import secrets
from pathlib import Path

from tdmpc2_lean import places
from tdmpc2_lean.errors import UserError

SIGNATURE = "bridge.sig"
KEY = "checkpoint.key"
PURPOSE = b"tdmpc2_lean dreamer_bridge checkpoint 1\n"


class Untrusted(UserError):
    """A checkpoint that this user did not make, or that was changed since."""


def key() -> bytes:
    """The user's key: 32 random bytes, made at the first use, readable by the user alone."""
    path = places.config_dir() / KEY
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{KEY}.{os.getpid()}")
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
        try:
            os.link(beside, path)  # of two processes that make a key, one wins
        except FileExistsError:
            pass
        finally:
            beside.unlink()
    found = path.read_bytes()
    if len(found) != 32:
        raise UserError(f"{path} is no key of 32 bytes.", "remove it; checkpoints signed with it are then refused")
    return found


def sign(folder: Path) -> None:
    """Sign a checkpoint's folder as it is now."""
    files = digests(folder)
    document = {"files": files, "hmac": code(files)}
    beside = folder / f".{SIGNATURE}.{os.getpid()}"
    beside.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    os.replace(beside, folder / SIGNATURE)


def check(folder: Path) -> None:
    """Untrusted, unless the folder holds exactly the files that this user's signature names."""
    if not (folder / SIGNATURE).is_file():
        raise refused(folder, "it carries no signature of yours: you did not make it with this program")
    try:
        document = json.loads((folder / SIGNATURE).read_bytes())
        files, found = dict(document["files"]), str(document["hmac"])
    except (OSError, ValueError, KeyError, TypeError):
        raise refused(folder, "its signature cannot be read") from None
    if not hmac.compare_digest(code(files).encode(), found.encode()):
        raise refused(folder, "its signature is not yours")
    present = digests(folder)
    if present != files:
        other = sorted(name for name in {*present, *files} if present.get(name) != files.get(name))
        raise refused(folder, f"it was changed since it was signed: {', '.join(other)}")


def refused(folder: Path, why: str) -> Untrusted:
    return Untrusted(
        f"the checkpoint {folder} is not loaded: {why}. It holds pickles, and loading those executes what they say.",
        "--trust-checkpoint, only if you trust where it comes from",
    )


def digests(folder: Path) -> dict[str, str]:
    """{name: SHA-256} of the files in a folder, the signature aside."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.name == SIGNATURE or path.name.startswith(f".{SIGNATURE}."):
            continue
        if not path.is_file():
            raise refused(folder, f"{path.name} in it is no file")
        with open(path, "rb") as file:
            found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def code(files: dict[str, str]) -> str:
    """The HMAC of a list of files."""
    text = json.dumps(files, sort_keys=True).encode()
    return hmac.new(key(), PURPOSE + text, "sha256").hexdigest()
