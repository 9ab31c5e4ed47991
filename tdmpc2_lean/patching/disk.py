"""The one place that touches a checkout: carries a plan out all or nothing, and remembers what it replaced.

A checkout's store is `git rev-parse --git-path tdmpc2-lean` for a git working tree, else
`<root>/.tdmpc2-lean`:

    state.json      which patches are applied, and for each file its original and patched hash
    originals/      the bytes of files before any patch, named by their sha256
    lock, holder    one writer at a time, and who it is
    .gitignore      keeps the folder out of the commits of a repository in which the checkout lies
    stage/          new and old contents of a change under way
    journal.json    a change under way; its appearance, by one rename, is the point of no return

Before the journal appears nothing in the checkout was touched; from then on the change is finished or undone,
by this process or by the next that opens the store. Of a checkout on which nothing is applied nothing stays, whether
a call was refused or took the last patch off. Contents are written beside their target under a
temporary name that the journal records, and renamed over it, so the store may be on another file system.
"""

import errno
import fcntl
import json
import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tdmpc2_lean.errors import UserError, quoted
from tdmpc2_lean.files import atomic_write, sync_folder, write_new
from tdmpc2_lean.upstreams.applied import State, StoredState
from tdmpc2_lean.upstreams.checkout_files import AS_IT_WAS, disk_problem, sha256

LOCK_SECONDS = 5.0


@dataclass(frozen=True)
class Write:
    """One file's change. before, after: its bytes, None where it is absent. mode: permissions of what is put
    there; None means a new file's usual ones."""

    path: str
    before: bytes | None
    after: bytes | None
    mode: int | None


@dataclass(frozen=True)
class DiskPlan:
    """Everything one call will do to the disk; nothing of it done yet.

    originals: bytes that the new state refers to. state None: nothing is applied any more.
    """

    what: str
    writes: tuple[Write, ...]
    state: State | None
    originals: tuple[bytes, ...] = ()
    make_folders: tuple[str, ...] = ()
    remove_folders: tuple[str, ...] = ()


class Store(StoredState):
    """A checkout's record and journal. Open it with `opened` to write, or read `state` at any time."""

    @contextmanager
    def opened(self) -> Iterator[str | None]:
        """Hold the store alone. Yields what was done about a change that was found interrupted, or None."""
        if self.folder.is_symlink():
            raise UserError(f"{self.folder} is a symbolic link.", "remove it")
        try:
            lock = self._locked()
        except TimeoutError:
            raise UserError(
                f"Another tdmpc2-lean is changing {self.root} ({self._holder()}).",
                "try again when it is done",
            ) from None
        except OSError as error:
            raise disk_problem(error) from None
        try:
            holder = {"pid": os.getpid(), "host": socket.gethostname()}
            (self.folder / "holder").write_text(json.dumps(holder))
            if not self.in_git_dir and not (self.folder / ".gitignore").exists():
                self._keep(self.folder / ".gitignore", b"*\n")
            yield self._recover()
        except OSError as error:
            raise disk_problem(
                error, "An interrupted change is still to be finished" if self.pending() else AS_IT_WAS
            ) from None
        finally:
            try:
                _quietly(os.unlink, self.folder / "holder")
                self._remove_what_nothing_needs()
            finally:
                os.close(lock)

    @property
    def in_git_dir(self) -> bool:
        """Whether the record lies in git's own folder, where no commit can take it."""
        return self.folder.name != ".tdmpc2-lean"

    def _locked(self) -> int:
        """The open lock file, which this process alone holds. TimeoutError after LOCK_SECONDS.

        Whoever is done with a checkout on which nothing is applied removes the file: one that was opened before that
        is no lock any more, and another is made.
        """
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except FileNotFoundError:  # the folder was removed in between
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_nlink:
                    return lock
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(lock)
                    raise TimeoutError from None
                time.sleep(0.05)
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)

    def _remove_what_nothing_needs(self) -> None:
        """Where nothing is applied and nothing pends, the lock and the folder go too, unless another note is in it."""
        if self.pending() or (self.folder / "state.json").exists():
            return
        for name in (".gitignore.new", "journal.json.new", "state.json.new", ".gitignore", "lock"):
            _quietly(os.unlink, self.folder / name)
        _quietly(os.rmdir, self.folder)

    def _holder(self) -> str:
        try:
            holder = json.loads((self.folder / "holder").read_text())
            return f"process {holder['pid']} on {holder['host']}"
        except (OSError, ValueError, KeyError, TypeError):
            return "it did not say who it is"

    def carry_out(self, plan: DiskPlan) -> None:
        """Do all of a plan or nothing. Call with the store opened.

        Raises UserError if the disk refuses, after undoing what was done; re-raises an interrupt likewise.
        """
        journal_path = self.folder / "journal.json"
        try:
            journal = self._staged(plan)
            self._keep(journal_path, _json(journal))
            self._follow(journal)
        except BaseException as error:
            if journal_path.exists():
                self._undo(error)
            self._clean()
            if isinstance(error, OSError):
                raise disk_problem(error) from None
            raise
        self._clean()

    def _keep(self, path: Path, data: bytes) -> None:
        """Write one of the store's own files, in one step, over what a kill may have left of an earlier try."""
        atomic_write(path, data, temporary=path.with_name(path.name + ".new"))

    def _staged(self, plan: DiskPlan) -> dict:
        """Write all contents into the store, and return the journal that says what to do with them."""
        stage = self.folder / "stage"
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir()
        (self.folder / "originals").mkdir(exist_ok=True)
        for data in plan.originals:
            path = self.folder / "originals" / sha256(data)
            if not path.exists():
                self._keep(path, data)
        suffix = f".tdmpc2-lean-{secrets.token_hex(4)}"
        steps = []
        for number, write in enumerate(plan.writes):
            place = self.tree.path(write.path)
            step = {"path": write.path, "temporary": f".{place.name}{suffix}"}
            for side, data in (("before", write.before), ("after", write.after)):
                step[side] = None if data is None else sha256(data)
                if data is not None:
                    write_new(stage / f"{number}.{side}", data)
            step["mode_after"] = write.mode
            step["mode_before"] = self.tree.mode(write.path)
            steps.append(step)
        old = self.folder / "state.json"
        if old.exists():
            write_new(stage / "state.before", old.read_bytes())
        if plan.state is not None:
            write_new(stage / "state.after", _json(asdict(plan.state)))
        sync_folder(stage)
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
                sync_folder(target.parent)
            else:
                content = (self.folder / "stage" / f"{number}.{side}").read_bytes()
                atomic_write(target, content, mode=step[f"mode_{side}"], temporary=target.parent / step["temporary"])
        for name in reversed(remove):
            _remove_if_empty(self.root / name)
        staged_state = self.folder / "stage" / f"state.{side}"
        if staged_state.exists():
            self._keep(self.folder / "state.json", staged_state.read_bytes())
        else:
            _remove(self.folder / "state.json")
        os.unlink(self.folder / "journal.json")
        sync_folder(self.folder)

    def _refuse_third_version(self, step: dict, number: int, side: str, what: str) -> None:
        """A file that is neither as before nor as after holds something of the user's: not overwritten."""
        data = self.tree.get(step["path"])
        if (None if data is None else sha256(data)) not in (step["before"], step["after"]):
            place = self.root / step["path"]
            staged = self.folder / "stage" / f"{number}.{side}"
            wanted = f"put {quoted(staged)} there" if step[side] else "leave nothing there"
            raise UserError(
                f"{place} was changed while `{what}` was under way: it is neither as before nor as intended.",
                f"move your version away, {wanted}, and repeat the command",
            )

    def _undo(self, error: BaseException) -> None:
        """Turn the journal round and follow it back. If that fails too, the next call will do it."""
        try:
            journal = json.loads((self.folder / "journal.json").read_bytes())
            self._keep(self.folder / "journal.json", _json(journal | {"direction": "before"}))
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


def _quietly(call, *arguments) -> None:
    try:
        call(*arguments)
    except OSError:
        pass
