"""The one place that touches a checkout: carries a plan out all or nothing, and remembers what it replaced.

A checkout's store is `git rev-parse --git-path tdmpc2-lean` for a git working tree, else
`<root>/.tdmpc2-lean`:

    state.json      which patches are applied, and for each file its original and patched hash
    originals/      the bytes of files before any patch, named by their sha256
    lock, holder    one writer at a time, and who it is
    stage/          new and old contents of a change under way
    journal.json    a change under way; its appearance, by one rename, is the point of no return

Before the journal appears nothing in the checkout was touched; from then on the change is finished or undone,
by this process or by the next that opens the store. Contents are written beside their target under a
temporary name that the journal records, and renamed over it, so the store may be on another file system.
"""

import errno
import hashlib
import json
import os
import secrets
import shutil
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.patching.series import path_problem

LOCK_SECONDS = 5.0
AS_IT_WAS = "The checkout is as it was"


@dataclass(frozen=True)
class FileRecord:
    """A file that patches changed.

    original, patched: sha256 of its bytes. mode: its permissions. original and mode None: it was created.
    """

    original: str | None
    mode: int | None
    patched: str


@dataclass(frozen=True)
class State:
    """What is applied to a checkout.

    applied: (name, sha256) of each patch, in series order.
    folders: those made for created files, outermost first.
    version: of this package; commit: HEAD when the first patch was applied (None without git).
    """

    upstream: str = "tdmpc2"
    applied: tuple[tuple[str, str], ...] = ()
    files: Mapping[str, FileRecord] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    version: str = ""
    commit: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.applied)


@dataclass(frozen=True)
class Write:
    """One file's change. before, after: its bytes, None where it is absent. mode: permissions of what is put
    there; None means a new file's usual ones."""

    path: str
    before: bytes | None
    after: bytes | None
    mode: int | None


@dataclass(frozen=True)
class Plan:
    """Everything one call will do to the disk; nothing of it done yet.

    originals: bytes that the new state refers to. state None: nothing is applied any more.
    """

    what: str
    writes: tuple[Write, ...]
    state: State | None
    originals: tuple[bytes, ...] = ()
    make_folders: tuple[str, ...] = ()
    remove_folders: tuple[str, ...] = ()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Tree(Mapping[str, bytes]):
    """A checkout's files by posix path, read when asked for. Links, and files below links, are refused."""

    def __init__(self, root: Path):
        self.root = root

    def path(self, name: str) -> Path:
        """The file's place. UserError if writing there could leave the checkout."""
        if problem := path_problem(name):
            raise UserError(f"{name!r} {problem}.", "this is never done; correct the patch")
        place = self.root
        parts = name.split("/")
        for number, part in enumerate(parts, start=1):
            place = place / part
            try:
                mode = place.lstat().st_mode
            except FileNotFoundError:
                break
            except NotADirectoryError:
                break
            if stat.S_ISLNK(mode):
                raise UserError(
                    f"{place} is a symbolic link; patches are never written through links.",
                    "replace it by a real file or folder, or patch the checkout it points to",
                )
            if number == len(parts) and not stat.S_ISREG(mode):
                raise UserError(f"{place} is not a file.", "move it away")
            if number < len(parts) and not stat.S_ISDIR(mode):
                break
        return self.root.joinpath(*parts)

    def get(self, name, default=None):
        try:
            return self.path(name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return default
        except OSError as error:
            raise _os_problem(error) from None

    def __getitem__(self, name):
        data = self.get(name)
        if data is None:
            raise KeyError(name)
        return data

    def __contains__(self, name):
        return self.get(name) is not None

    def mode(self, name: str) -> int | None:
        """A file's permission bits; None if it is absent."""
        try:
            return stat.S_IMODE(self.path(name).lstat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def __iter__(self):
        raise TypeError("a checkout is asked for files by name")

    def __len__(self):
        raise TypeError("a checkout is asked for files by name")


class Store:
    """A checkout's record and journal. Open it with `opened` to write, or read `state` at any time."""

    def __init__(self, root: Path, folder: Path):
        self.root = root
        self.folder = folder
        self.tree = Tree(root)

    # ---------------------------------------------------------------------------------------------- reading

    def pending(self) -> bool:
        """A change under way was interrupted, or another process is at it."""
        return (self.folder / "journal.json").exists()

    def state(self) -> State:
        """What is applied. Raises UserError if the record is unreadable or names places it may not."""
        path = self.folder / "state.json"
        try:
            table = json.loads(path.read_bytes())
            state = State(
                upstream=table["upstream"],
                applied=tuple((name, sha) for name, sha in table["applied"]),
                files={name: FileRecord(**record) for name, record in table["files"].items()},
                folders=tuple(table["folders"]),
                version=table["version"],
                commit=table["commit"],
            )
        except (FileNotFoundError, NotADirectoryError):
            return State()
        except OSError as error:
            raise _os_problem(error) from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UserError(
                f"{path}, the record of applied patches, is damaged.",
                f"restore the checkout's files (`git checkout -- .`), then delete {self.folder}",
            ) from None
        for name in (*state.files, *state.folders):
            if problem := path_problem(name):
                raise UserError(
                    f"{path} names {name!r}, which {problem}.", f"do not trust this folder: {self.root}"
                )
        return state

    def original(self, name: str, record: FileRecord) -> bytes | None:
        """A patched file's bytes before any patch; None if a patch created it."""
        if record.original is None:
            return None
        path = self.folder / "originals" / record.original
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            data = b""
        except OSError as error:
            raise _os_problem(error) from None
        if sha256(data) != record.original:
            raise UserError(
                f"{path}, the recorded original of {name}, is missing or damaged.",
                f"restore the file from git, then delete {self.folder}",
            )
        return data

    # ---------------------------------------------------------------------------------------------- writing

    @contextmanager
    def opened(self) -> Iterator[str | None]:
        """Hold the store alone. Yields what was done about a change that was found interrupted, or None."""
        from filelock import FileLock, Timeout

        if self.folder.is_symlink():
            raise UserError(f"{self.folder} is a symbolic link.", "remove it")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.folder / "lock", timeout=LOCK_SECONDS)
            lock.acquire()
        except Timeout:
            raise UserError(
                f"Another tdmpc2-lean is changing {self.root} ({self._holder()}).",
                "try again when it is done",
            ) from None
        except OSError as error:
            raise _os_problem(error) from None
        try:
            holder = {"pid": os.getpid(), "host": socket.gethostname()}
            (self.folder / "holder").write_text(json.dumps(holder))
            yield self._recover()
        except OSError as error:
            raise _os_problem(
                error, "An interrupted change is still to be finished" if self.pending() else AS_IT_WAS
            ) from None
        finally:
            _quietly(os.unlink, self.folder / "holder")
            lock.release()

    def _holder(self) -> str:
        try:
            holder = json.loads((self.folder / "holder").read_text())
            return f"process {holder['pid']} on {holder['host']}"
        except (OSError, ValueError, KeyError, TypeError):
            return "it did not say who it is"

    def carry_out(self, plan: Plan) -> None:
        """Do all of a plan or nothing. Call with the store opened.

        Raises UserError if the disk refuses, after undoing what was done; re-raises an interrupt likewise.
        """
        journal_path = self.folder / "journal.json"
        try:
            journal = self._staged(plan)
            _write_atomically(journal_path, _json(journal))
            self._follow(journal)
        except BaseException as error:
            if journal_path.exists():
                self._undo(error)
            self._clean()
            if isinstance(error, OSError):
                raise _os_problem(error) from None
            raise
        self._clean()

    def _staged(self, plan: Plan) -> dict:
        """Write all contents into the store, and return the journal that says what to do with them."""
        stage = self.folder / "stage"
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir()
        (self.folder / "originals").mkdir(exist_ok=True)
        for data in plan.originals:
            path = self.folder / "originals" / sha256(data)
            if not path.exists():
                _write_atomically(path, data)
        suffix = f".tdmpc2-lean-{secrets.token_hex(4)}"
        steps = []
        for number, write in enumerate(plan.writes):
            place = self.tree.path(write.path)
            step = {"path": write.path, "temporary": f".{place.name}{suffix}"}
            for side, data in (("before", write.before), ("after", write.after)):
                step[side] = None if data is None else sha256(data)
                if data is not None:
                    _write(stage / f"{number}.{side}", data)
            step["mode_after"] = write.mode
            step["mode_before"] = self.tree.mode(write.path)
            steps.append(step)
        old = self.folder / "state.json"
        if old.exists():
            _write(stage / "state.before", old.read_bytes())
        if plan.state is not None:
            _write(stage / "state.after", _json(asdict(plan.state)))
        _sync_folder(stage)
        return {
            "what": plan.what,
            "direction": "after",
            "steps": steps,
            "make": list(plan.make_folders),
            "remove": list(plan.remove_folders),
        }

    def _follow(self, journal: dict) -> None:
        """Bring every file to the journal's side, `after` or, when undoing, `before`. May be repeated."""
        side = journal["direction"]
        make, remove = journal["make"], journal["remove"]
        if side == "before":
            make, remove = remove, make
        for number, step in enumerate(journal["steps"]):
            self._refuse_third_version(step, number, side, journal["what"])
        for name in make:
            self.tree.path(name + "/_")
            (self.root / name).mkdir(exist_ok=True)
        for number, step in enumerate(journal["steps"]):
            target = self.tree.path(step["path"])
            _remove(target.parent / step["temporary"])
            data = self.tree.get(step["path"])
            now = None if data is None else sha256(data)
            if now == step[side]:
                continue
            if step[side] is None:
                os.unlink(target)
                _sync_folder(target.parent)
            else:
                _install(
                    self.folder / "stage" / f"{number}.{side}",
                    target,
                    target.parent / step["temporary"],
                    step[f"mode_{side}"],
                )
        for name in reversed(remove):
            _remove_if_empty(self.root / name)
        staged_state = self.folder / "stage" / f"state.{side}"
        if staged_state.exists():
            _write_atomically(self.folder / "state.json", staged_state.read_bytes())
        else:
            _remove(self.folder / "state.json")
        os.unlink(self.folder / "journal.json")
        _sync_folder(self.folder)

    def _refuse_third_version(self, step: dict, number: int, side: str, what: str) -> None:
        """A file that is neither as before nor as after holds something of the user's: not overwritten."""
        data = self.tree.get(step["path"])
        if (None if data is None else sha256(data)) not in (step["before"], step["after"]):
            place = self.root / step["path"]
            staged = self.folder / "stage" / f"{number}.{side}"
            wanted = f"put {staged} there" if step[side] else "leave nothing there"
            raise UserError(
                f"{place} was changed while `{what}` was under way: it is neither as before nor as intended.",
                f"move your version away, {wanted}, and repeat the command",
            )

    def _undo(self, error: BaseException) -> None:
        """Turn the journal round and follow it back. If that fails too, the next call will do it."""
        try:
            journal = json.loads((self.folder / "journal.json").read_bytes())
            _write_atomically(self.folder / "journal.json", _json(journal | {"direction": "before"}))
            self._follow(journal | {"direction": "before"})
        except (OSError, UserError) as second:
            if isinstance(error, UserError):
                raise error from second
            raise UserError(
                f"Interrupted ({error or type(error).__name__}), and the undoing failed too ({second}).",
                "mend that, then call `tdmpc2-lean patch status` on the checkout: it finishes the job",
            ) from None

    def _recover(self) -> str | None:
        """Finish or undo what an earlier call left behind."""
        path = self.folder / "journal.json"
        try:
            journal = json.loads(path.read_bytes())
        except FileNotFoundError:
            self._clean()
            return None
        self._follow(journal)
        self._clean()
        done = "finished" if journal["direction"] == "after" else "undone"
        return f"An interrupted `{journal['what']}` was found and {done}."

    def _clean(self) -> None:
        """Remove what no state and no journal refers to. Failing to is no failure."""
        if self.pending():
            return
        shutil.rmtree(self.folder / "stage", ignore_errors=True)
        originals = self.folder / "originals"
        try:
            kept = {record.original for record in self.state().files.values()}
            for path in originals.iterdir():
                if path.name not in kept:
                    _quietly(os.unlink, path)
        except (OSError, UserError):
            return
        if not kept:
            _quietly(os.rmdir, originals)


def _json(table: dict) -> bytes:
    return json.dumps(table, indent=1, sort_keys=True).encode()


def _install(source: Path, target: Path, temporary: Path, mode: int | None) -> None:
    """Put a copy of `source` at `target` in one step. mode: its permissions; None: any new file's."""
    _write(temporary, source.read_bytes(), mode)
    os.replace(temporary, target)
    _sync_folder(target.parent)


def _write(path: Path, data: bytes, mode: int | None = None) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
        if mode is not None:
            os.chmod(path, mode)
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_atomically(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".new")
    _remove(temporary)
    _write(temporary, data)
    os.replace(temporary, path)
    _sync_folder(path.parent)


def _remove(path: Path) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _remove_if_empty(folder: Path) -> None:
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise


def _sync_folder(folder: Path) -> None:
    """Make renames in a folder last through a power cut, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def _quietly(call, *arguments) -> None:
    try:
        call(*arguments)
    except OSError:
        pass


def _os_problem(error: OSError, but: str = AS_IT_WAS) -> UserError:
    """What the disk said, as a user can use it; `but` says what state that leaves things in."""
    what = os.strerror(error.errno) if error.errno else str(error)
    where = f": {error.filename}" if error.filename else ""
    step = {
        errno.ENOSPC: "free some space, then repeat the command",
        errno.EDQUOT: "free some space, then repeat the command",
        errno.EROFS: "copy the checkout to where you may write",
        errno.EACCES: "get write permission there, or copy the checkout to a place of yours",
        errno.EPERM: "get write permission there, or copy the checkout to a place of yours",
    }.get(error.errno, "mend that, then repeat the command")
    return UserError(f"{what}{where}. {but}.", step)
