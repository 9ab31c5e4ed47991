"""All or nothing: a call is killed, interrupted or refused by the disk at every single step, and the
checkout is always wholly as before or wholly as after, at the latest once the next call has looked at it.

The steps are found by running the call in a forked child under an audit hook, which sees each of Python's
calls into the file system; `os.write` and `os.fsync`, which it does not see, are wrapped.
"""

import errno
import json
import os
import shutil
import signal
import sys
import time

import pytest

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.patching import apply, disk, revert, status
from tests.patching.conftest import FILES, commit_all, snapshot, write_files

EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"}

# What is interrupted: names applied before, and the call.
CALLS = {
    "first apply": ([], lambda root, series: apply(root, ["place", "count"], series)),
    "another apply": (["place"], lambda root, series: apply(root, ["many"], series)),
    "part of it reverted": (["many", "count"], lambda root, series: revert(root, ["many"], series)),
    "all reverted": (["many"], lambda root, series: revert(root)),
}


def in_child(call) -> int:
    """Run in a forked process; its wait status. Exit codes: 0 done, 3 UserError, 4 interrupt, 5 other."""
    pid = os.fork()
    if pid == 0:
        code = 5
        try:
            call()
            code = 0
        except UserError:
            code = 3
        except KeyboardInterrupt:
            code = 4
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1]


def at_step(number, root, happen, syncs):
    """Arrange in this (child) process that `happen()` is called instead of the number-th step below root.

    syncs: count syncing to the disk as steps. To a kill they are none: the page cache outlives the process.
    """
    seen = 0

    def step():
        nonlocal seen
        seen += 1
        if seen == number:
            happen()

    def hook(event, arguments):
        if event in EVENTS and arguments and str(root) in os.fsdecode(str(arguments[0])):
            step()

    write, fsync = os.write, os.fsync

    def writing(handle, data):
        nonlocal seen
        if seen + 1 == number:
            write(handle, data[: len(data) // 2])  # a write may get half its way
        step()
        return write(handle, data)

    def syncing(handle):
        step()
        return fsync(handle)

    sys.addaudithook(hook)
    os.write = writing
    if syncs:
        os.fsync = syncing
    return lambda: seen


class Scene:
    """A checkout on which a call is to be broken, again and again."""

    def __init__(self, tmp_path, series, call, with_git=False, syncs=False):
        self.series = series
        self.syncs = syncs
        before, self.call = CALLS[call]
        self.fresh = write_files(tmp_path / "fresh", FILES)
        if with_git:
            commit_all(self.fresh)
        if before:
            apply(self.fresh, before, series)
        self.root = tmp_path / "broken"
        self.again()
        self.before = snapshot(self.root), status(self.root, series).applied
        self.call(self.root, series)
        self.after = snapshot(self.root), status(self.root, series).applied
        assert self.before != self.after
        self.steps = self.count_steps(tmp_path)

    def again(self):
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.fresh, self.root)

    def count_steps(self, tmp_path) -> int:
        self.again()

        def counted():
            steps = at_step(0, self.root, None, self.syncs)
            self.call(self.root, self.series)
            (tmp_path / "steps").write_text(str(steps()))

        assert in_child(counted) == 0
        return int((tmp_path / "steps").read_text())

    def broken_at(self, number, happen) -> int:
        self.again()

        def broken():
            at_step(number, self.root, happen, self.syncs)
            self.call(self.root, self.series)

        return in_child(broken)

    def tear(self):
        """Kill the call where some of its files are written and some are not."""
        for number in range(1, self.steps + 1):
            self.broken_at(number, kill)
            if snapshot(self.root) not in (self.before[0], self.after[0]):
                return
        raise AssertionError("never torn")

    def now(self):
        """Files and applied patches, once a call has looked at the checkout."""
        applied = status(self.root, self.series).applied
        return snapshot(self.root), applied


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("call", CALLS)
def test_kill_9_at_any_step_leaves_all_or_nothing_after_the_next_call(tmp_path, series, call):
    scene = Scene(tmp_path, series, call)
    assert scene.steps > 40
    outcomes = set()
    for number in range(1, scene.steps + 1):
        assert os.WIFSIGNALED(scene.broken_at(number, kill))
        torn = snapshot(scene.root) not in (scene.before[0], scene.after[0])
        found = status(scene.root, series)
        assert found.recovered or not torn, f"step {number}: torn, and the next call did not say so"
        outcome = scene.now()
        assert outcome in (scene.before, scene.after), f"step {number}"
        outcomes.add((torn, outcome == scene.after))
        if number % 5:
            continue
        apply(scene.root, series=series)
        revert(scene.root)
        assert not (scene.root / ".tdmpc2-lean").exists(), f"step {number}"
    # The call was caught before, in the midst of, and after its writing.
    assert outcomes == {(False, False), (True, True), (False, True)}


def test_kill_9_in_a_git_checkout_leaves_all_or_nothing(tmp_path, series):
    scene = Scene(tmp_path, series, "another apply", with_git=True)
    for number in range(1, scene.steps + 1, 9):
        assert os.WIFSIGNALED(scene.broken_at(number, kill))
        assert scene.now() in (scene.before, scene.after), f"step {number}"


def test_a_recovery_that_is_killed_itself_is_recovered(tmp_path, series):
    scene = Scene(tmp_path, series, "another apply")

    scene.tear()
    scene.fresh = tmp_path / "torn"
    shutil.copytree(scene.root, scene.fresh)
    number = 0
    while True:
        number += 1
        scene.again()

        def recovery(number=number):
            at_step(number, scene.root, kill, syncs=False)
            status(scene.root, series)

        if os.WIFEXITED(in_child(recovery)):
            break
        assert scene.now() == scene.after, f"step {number}"
    assert number > 10


@pytest.mark.parametrize("call", ["another apply", "all reverted"])
@pytest.mark.parametrize("what", ["disk", "Ctrl-C"])
def test_an_error_at_any_step_is_undone_at_once(tmp_path, series, call, what):
    scene = Scene(tmp_path, series, call, syncs=True)
    codes = set()
    for number in range(1, scene.steps + 1):

        def happen(number=number):
            if what == "Ctrl-C":
                raise KeyboardInterrupt
            problem = errno.ENOSPC if number % 2 else errno.EACCES
            raise OSError(problem, os.strerror(problem), str(scene.root / "somewhere"))

        code = os.waitstatus_to_exitcode(scene.broken_at(number, happen))
        assert code in (0, 3, 4), f"step {number}"
        codes.add(code)
        assert not (scene.root / ".tdmpc2-lean" / "journal.json").exists(), f"step {number}"
        assert scene.now() in (scene.before, scene.after), f"step {number}"
        if code == 3:
            assert scene.now() == scene.before, f"step {number}"
        if code == 0:
            assert scene.now() == scene.after, f"step {number}"
    assert 4 in codes if what == "Ctrl-C" else 3 in codes


def test_a_full_disk_is_told_with_what_to_do(plain, series, monkeypatch):
    before = snapshot(plain)

    def full(handle, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(UserError, match="No space left.*as it was") as caught:
        apply(plain, series=series)
    assert "free some space" in caught.value.next_step
    monkeypatch.undo()
    assert snapshot(plain) == before


def test_contents_are_on_the_disk_before_they_are_renamed_into_place(plain, series, monkeypatch):
    synced, renamed, replace = set(), [], os.replace

    def renaming(source, target):
        assert os.stat(source).st_ino in synced, f"{target} was not synced"
        renamed.append(os.path.basename(target))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", lambda handle: synced.add(os.fstat(handle).st_ino))
    monkeypatch.setattr(os, "replace", renaming)
    apply(plain, series=series)
    assert {"journal.json", "state.json", "agent.py"} <= set(renamed)
    assert renamed.index("journal.json") < renamed.index("agent.py") < renamed.index("state.json")


def test_a_store_on_another_file_system_works(plain, series, monkeypatch):
    """rename(2) across file systems fails; the engine must only rename within a folder."""
    replace = os.replace

    def within_a_folder(source, target):
        if os.path.dirname(source) != os.path.dirname(target):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(source))
        replace(source, target)

    monkeypatch.setattr(os, "replace", within_a_folder)
    before = snapshot(plain)
    apply(plain, series=series)
    revert(plain)
    assert snapshot(plain) == before


def test_a_file_changed_between_crash_and_recovery_is_not_overwritten(tmp_path, series):
    scene = Scene(tmp_path, series, "another apply")
    scene.tear()
    agent = scene.root / "code" / "agent.py"
    torn = snapshot(scene.root)
    agent_was = agent.read_bytes()
    agent.write_text("mine = 1\n")
    for verb in (status, apply, revert):
        with pytest.raises(UserError, match="agent.py was changed while"):
            verb(scene.root, series=series)
    assert agent.read_text() == "mine = 1\n"
    agent.write_bytes(agent_was)
    assert snapshot(scene.root).keys() == torn.keys()
    assert status(scene.root, series).recovered
    assert scene.now() == scene.after


# ------------------------------------------------------------------------------------------------ two at once


def test_a_second_call_waits_a_little_and_then_names_who_holds_the_checkout(plain, series, monkeypatch):
    monkeypatch.setattr(disk, "LOCK_SECONDS", 0.2)
    ready, done = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        with disk.Store(plain, plain / ".tdmpc2-lean").opened():
            os.write(ready[1], b"x")
            os.read(done[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    try:
        with pytest.raises(UserError, match=f"Another tdmpc2-lean.*process {pid} on "):
            apply(plain, series=series)
        assert snapshot(plain) == snapshot(write_files(plain.parent / "same", FILES))
    finally:
        os.write(done[1], b"x")
        os.waitpid(pid, 0)
    apply(plain, series=series)


def test_calls_at_the_same_time_do_not_interleave(plain, series):
    start = time.monotonic() + 0.2
    jobs = [lambda: apply(plain, ["count"], series), lambda: apply(plain, ["many"], series)] * 2
    children = []
    for job in jobs:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                while time.monotonic() < start:
                    pass
                job()
                code = 0
            finally:
                os._exit(code)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
    other = write_files(plain.parent / "one_after_another", FILES)
    apply(other, series=series)
    assert snapshot(plain) == snapshot(other)
    records = [json.loads((root / ".tdmpc2-lean" / "state.json").read_text()) for root in (plain, other)]
    assert records[0] == records[1]
