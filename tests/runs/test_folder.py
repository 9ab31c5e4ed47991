"""Who holds a run's folder: one process at a time, and none that is gone, wherever it was and whatever it left."""

import json
import os
import socket
import subprocess
import sys
import time

import psutil
import pytest

from tdmpc2_lean.runs import folder as folders
from tdmpc2_lean.runs.folder import Held, folder_of

HERE = socket.gethostname()

HOLD = """
import sys, time
from pathlib import Path
from tdmpc2_lean.runs import folder
with folder.held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""
# Holds the folder, and has a child that keeps the lock for some seconds.
HOLD_WITH_CHILD = """
import subprocess, sys, time
from pathlib import Path
from tdmpc2_lean.runs import folder
with folder.held(Path(sys.argv[1])) as lock:
    subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({sys.argv[2]})"], pass_fds=[lock])
    print("held", flush=True)
    time.sleep(60)
"""


def holding(path, code=HOLD, *words):
    process = subprocess.Popen([sys.executable, "-c", code, str(path), *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def killed(process):
    process.kill()
    process.stdout.close()
    process.wait()


def wrote(path, seconds_ago=0.0, **changed):
    """holder.json, as somebody left it."""
    there = {"pid": 7, "host": "another-machine", "since": "2026-01-01T00:00:00+00:00"} | changed
    (path / folders.HOLDER).write_text(json.dumps(there))
    then = time.time() - seconds_ago
    os.utime(path / folders.HOLDER, (then, then))


def can_be_held(path):
    try:
        with folders.held(path):
            return json.loads((path / folders.HOLDER).read_text())["pid"] == os.getpid()
    except Held:
        return False


def test_presets_have_a_folder_of_their_own(tmp_path):
    assert folder_of(tmp_path, "p", (), 1) == tmp_path / "p" / "default" / "seed-1"
    assert folder_of(tmp_path, "p", ("fast", "depth"), 2) == tmp_path / "p" / "fast+depth" / "seed-2"


def test_the_second_process_is_told_who_holds_the_run_and_takes_over_when_it_is_killed(tmp_path):
    process = holding(tmp_path)
    try:
        assert folders.is_held(tmp_path)
        with pytest.raises(Held, match=f"process {process.pid} on "), folders.held(tmp_path):
            pass
    finally:
        killed(process)
    assert not folders.is_held(tmp_path)
    assert can_be_held(tmp_path)
    assert not (tmp_path / "holder.json").exists()


def test_who_asks_never_keeps_anybody_from_holding(tmp_path):
    (tmp_path / folders.LOCK).touch()
    wrote(tmp_path, host=HERE, pid=os.getpid())
    asking = subprocess.Popen(
        [sys.executable, "-c",
         "import sys; from pathlib import Path; from tdmpc2_lean.runs import folder; print('asks', flush=True)\n"
         "while True: folder.is_locked(Path(sys.argv[1])); folder.is_held(Path(sys.argv[1]))", str(tmp_path)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert asking.stdout.readline() == "asks\n"
        assert all(can_be_held(tmp_path) for _ in range(50))
    finally:
        killed(asking)


def test_asking_takes_no_exclusive_lock(tmp_path, monkeypatch):
    import fcntl

    asked = []
    lock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", lambda file, how: (asked.append(how), lock(file, how)))
    (tmp_path / folders.LOCK).touch()
    wrote(tmp_path, host=HERE, pid=2**22 + 1)
    assert not folders.is_held(tmp_path)
    assert asked and not any(how & fcntl.LOCK_EX for how in asked)


def test_the_child_of_a_killed_holder_is_waited_for(tmp_path):
    killed(holding(tmp_path, HOLD_WITH_CHILD, "2"))
    assert folders.is_held(tmp_path)
    began = time.monotonic()
    assert can_be_held(tmp_path)
    assert 0.5 < time.monotonic() - began < folders.CHILDS_END


def test_the_child_of_a_killed_holder_is_not_waited_for_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "CHILDS_END", 1.0)
    holder = holding(tmp_path, HOLD_WITH_CHILD, "20")
    children = psutil.Process(holder.pid).children()
    killed(holder)
    try:
        with pytest.raises(Held), folders.held(tmp_path):
            pass
    finally:
        for child in children:
            child.kill()


def test_where_locks_do_not_reach_a_heartbeat_from_another_machine_counts(tmp_path):
    wrote(tmp_path)
    assert folders.is_held(tmp_path)
    with pytest.raises(Held, match="process 7 on another-machine") as told, folders.held(tmp_path):
        pass
    assert "120 s" in told.value.next_step
    assert "another-machine" in (tmp_path / "holder.json").read_text()


@pytest.mark.parametrize("seconds_ago", [folders.DEAD_AFTER + 1, 1e6, -folders.CLOCK_SKEW - 60, -1e8])
def test_a_holder_elsewhere_that_is_gone_or_whose_time_is_in_the_future_blocks_nothing(tmp_path, seconds_ago):
    wrote(tmp_path, seconds_ago)
    assert not folders.is_held(tmp_path)
    assert can_be_held(tmp_path)


def test_clocks_that_differ_a_little_keep_a_holder_elsewhere(tmp_path):
    wrote(tmp_path, -folders.CLOCK_SKEW / 2)
    assert folders.is_held(tmp_path) and not can_be_held(tmp_path)


def test_a_container_that_is_gone_blocks_nothing_though_its_name_is_ours(tmp_path):
    wrote(tmp_path, host=HERE, pid=2**22 + 1)
    assert not folders.is_held(tmp_path) and can_be_held(tmp_path)


@pytest.mark.parametrize("more", [{"process_started": 1.0}, {"since": "2001-01-01T00:00:00+00:00"}])
def test_a_pid_that_another_process_has_got_holds_nothing(tmp_path, more):
    """As the record of today says it, and as earlier versions did."""
    wrote(tmp_path, host=HERE, pid=os.getpid(), **more)
    assert not folders.is_held(tmp_path) and can_be_held(tmp_path)


def test_the_holder_itself_is_seen_by_its_pid_and_the_time_of_its_start(tmp_path):
    with folders.held(tmp_path):
        assert folders.is_alive_here(folders.holder_record(tmp_path))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pid": "x", "host": 3, "since": null}', '{"pid": -1}'])
def test_a_holders_file_that_says_nothing_blocks_nothing(tmp_path, text):
    (tmp_path / folders.HOLDER).write_text(text)
    folders.is_held(tmp_path)
    assert can_be_held(tmp_path)


def test_a_folder_made_for_holding_it_is_gone_again_and_can_be_held_at_once(tmp_path):
    path = tmp_path / "a" / "b"
    for _ in range(3):
        with folders.held(path):
            assert path.is_dir()
        assert not path.exists() and path.parent.is_dir()


def test_a_lock_whose_file_was_removed_by_its_last_holder_is_taken_anew(tmp_path, monkeypatch):
    """Two processes that opened the lock's file before it was removed, and after, would both hold the run."""
    take, removed = folders.take, []

    def removed_first(lock, folder):
        take(lock, folder)
        if not removed:
            removed.append(True)
            (folder / folders.LOCK).unlink()

    monkeypatch.setattr(folders, "take", removed_first)
    with folders.held(tmp_path):
        monkeypatch.undo()
        assert not can_be_held(tmp_path)
