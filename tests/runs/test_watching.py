"""A child is followed to its end: what it prints is kept, what it needs is given, and it ends with its parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from tdmpc2_lean.runs.watching import Log, child_environment


def test_a_script_is_read_to_its_end_on_a_full_disk():
    log = Log(Path("/dev/full"))
    log.follow(b"line %d\n" % number for number in range(1000))
    log.close()
    assert log.tail(1) == ["line 999"]


def test_a_log_has_no_colours_and_of_a_line_that_overwrites_itself_the_end(tmp_path):
    log = Log(tmp_path / "train.log")
    log.follow([b"\x1b[31mred\x1b[0m\n", b"1%\r2%\r3%\n", b"\xff\n"])
    log.close()
    assert (tmp_path / "train.log").read_text() == "red\n3%\n\ufffd\n"


def test_starts_are_told_apart_in_one_log(tmp_path):
    for number in (1, 2):
        log = Log(tmp_path / "train.log", append=number > 1, heading=f"--- start {number}")
        log.follow([b"said %d\n" % number])
        log.close()
    assert (tmp_path / "train.log").read_text() == "said 1\n--- start 2\nsaid 2\n"


def test_a_signal_that_ended_the_script_is_named():
    log = Log(Path("/dev/null"))
    log.follow([b"last words\n"])
    assert "last words" in log.shown(-signal.SIGSEGV) and "SIGSEGV" in log.shown(-signal.SIGSEGV)


def test_a_child_gets_the_environment_and_what_its_plan_gives(monkeypatch):
    monkeypatch.setenv("SOMETHING", "kept")
    monkeypatch.setenv("FORCE_COLOR", "1")
    found = child_environment({"MUJOCO_GL": "disable"})
    assert found["SOMETHING"] == "kept" and found["MUJOCO_GL"] == "disable" and "FORCE_COLOR" not in found


# Says its pid, and then computes in native code, which lets no handler of Python's in.
CHILD = """
import hashlib, json, os, sys
from tdmpc2_lean.runs.channel import read_request
request, channel = read_request()
print(os.getpid(), flush=True)
hashlib.pbkdf2_hmac("sha256", b"x", b"y", 2**30)
"""
PARENT = """
import json, os, subprocess, sys, time
reading, writing = os.pipe()
with open("request.json", "w") as file:
    json.dump({"channel": writing, "parent": os.getpid()}, file)
subprocess.Popen([sys.executable, "-c", sys.argv[1], "request.json"], pass_fds=[writing])
time.sleep(60)
"""


def test_the_child_of_a_killed_parent_ends_at_once_even_in_native_code(tmp_path):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD], cwd=tmp_path, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    child = psutil.Process(int(parent.stdout.readline()))
    time.sleep(0.2)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    try:
        child.wait(timeout=10)
    except psutil.NoSuchProcess:
        pass
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
