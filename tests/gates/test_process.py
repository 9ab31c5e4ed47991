"""Processes of gates: what fails there is told apart, code under test from the machine it runs on."""

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tdmpc2_lean import cli
from tdmpc2_lean.validation.gates import process
from tdmpc2_lean.validation.gates.strength.forks import Forks

PROBE = """
import errno, os, sys

def full_disk(code_dir):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

def wrong(code_dir):
    raise ValueError("wrong code")

def cores(code_dir):
    return {"cores": sorted(os.sched_getaffinity(0)), "torch": "torch" in sys.modules}

def variables(code_dir):
    return dict(os.environ)

def names(code_dir):
    return {"first": sys.path[0]}
"""


@pytest.fixture
def call(tmp_path, monkeypatch):
    (tmp_path / "on_path").mkdir()
    (tmp_path / "on_path" / "child_probe.py").write_text(PROBE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "on_path"), prepend=os.pathsep)
    return lambda name, **how: process.call(f"child_probe:{name}", tmp_path, **how)


def test_code_that_fails_is_a_failure_with_its_reason(call):
    with pytest.raises(process.ChildFailed) as failure:
        call("wrong")
    assert failure.value.reason == "ValueError: wrong code" and "Traceback" in failure.value.output


def test_a_full_disk_is_no_failure_of_the_code(call):
    with pytest.raises(OSError) as failure:
        call("full_disk")
    assert failure.value.errno == errno.ENOSPC and not isinstance(failure.value, process.ChildFailed)


def test_what_whoever_runs_gates_has_set_for_libraries_decides_nothing_in_them(call, monkeypatch):
    given = {"XLA_FLAGS": "--xla_cpu_enable_fast_math=true", "TORCH_LOGS": "+dynamo", "WANDB_MODE": "offline"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MUJOCO_GL", "egl")
    found = call("variables", stack=process.Stack(torch=False))
    assert not given.keys() & found.keys() and found["MUJOCO_GL"] == "disable"
    assert call("variables", stack=process.JAX)["JAX_PLATFORMS"] == "cpu"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to cores")
def test_what_xla_compiles_runs_on_one_core(call):
    seen = call("cores", stack=process.JAX)
    assert len(seen["cores"]) == 1 and seen["cores"][0] in os.sched_getaffinity(0) and not seen["torch"]
    assert call("cores") == {"cores": sorted(os.sched_getaffinity(0)), "torch": True}


def test_no_more_processes_run_at_once_than_are_allowed(tmp_path, monkeypatch):
    running, most, lock = [0], [0], threading.Lock()

    def start(request, *_):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.05)
        with lock:
            running[0] -= 1
        Path(json.loads(request.read_text())["answer"]).write_text("{}")
        return "", 0

    monkeypatch.setattr(process, "start", start)
    for count in (1, 2, 5):
        most[0] = 0
        with process.at_once(count), ThreadPoolExecutor(5) as pool:
            assert list(pool.map(lambda n: process.call("a:b", tmp_path, number=n), range(10))) == [{}] * 10
        assert most[0] == count
    assert process.slots is None


def test_only_the_code_under_test_is_first_on_the_path(call, tmp_path):
    assert call("names") == {"first": str(tmp_path)}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_the_command_line_tells_a_full_or_forbidden_disk_without_a_traceback(code, monkeypatch, capsys):
    def refuse(*_, **__):
        raise OSError(code, "refused", "some/file")

    monkeypatch.setattr(cli.tdmpc2_lean_command, "main", refuse)
    with pytest.raises(SystemExit) as ended:
        cli.main(["demo"])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and "some/file" in said and "next:" in said and "Traceback" not in said


def test_ctrl_c_ends_a_gate_at_once_and_is_never_an_outcome(tmp_path):
    """As on a terminal: the signal goes to the whole process group."""
    command = [sys.executable, "-m", "tdmpc2_lean", "gate", "run", "default-identity", "--checkout", "miniature"]
    process = subprocess.Popen(
        command,
        env=os.environ | {"TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("tdmpc2-lean-traces-*/*.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert list(tmp_path.glob("tdmpc2-lean-traces-*/*.jsonl")), "no training began"
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in said and "pass" not in said and "FAIL" not in said
    assert not list(tmp_path.glob("tdmpc2-lean-*"))  # torch keeps a cache of its own there


def test_forks_begin_in_a_deep_temporary_folder_and_again_after_an_interruption(tmp_path, monkeypatch):
    deep = tmp_path / ("a" * 60) / ("b" * 60)
    deep.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    code = tmp_path / "code"
    code.mkdir()
    (code / "answering.py").write_text("def answer(code_dir):\n    return {'seen': True}\n")
    forks = Forks()
    monkeypatch.setattr(process, "start", forks.start)
    stack = dataclasses.replace(process.JAX, one_core=False)
    try:
        for _ in range(2):
            assert process.call("answering:answer", code, None, stack) == {"seen": True}
            for parent, _ in forks.parents.values():
                parent.kill()
                parent.wait()
    finally:
        forks.close()
