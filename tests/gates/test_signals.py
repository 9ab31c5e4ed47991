"""Whatever ends a gate's run ends its processes too and leaves no folder behind, and is never taken for an outcome."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tdmpc2_lean.validation.gates import process

# The side of a gate that takes its time. It says who it is, and lets no signal but SIGKILL end it.
SLOW_SIDE = """
import os, signal, time
from pathlib import Path

def take_long(code_dir, mark):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    Path(mark + ".part").write_text(str(os.getpid()))
    os.replace(mark + ".part", mark)
    time.sleep(600)
"""

# The command line as it is, with one gate more, on two sides at once, and many files to be removed at the end.
COMMAND = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tdmpc2_lean import cli
from tdmpc2_lean.validation.gates import process, suites

def slow(subject, runs):
    for number in range(3000):
        (Path(runs.folder.name) / str(number)).touch()
    def side(number):
        stack = process.Stack(torch=False)
        return process.call("slow_side:take_long", subject.code_dir, None, stack, mark=f"{sys.argv[1]}/{number}")
    with ThreadPoolExecutor(2) as pool:
        yield from pool.map(side, range(2))

suites.TDMPC2_GATES["slow"] = suites.Gate("slow", "nothing", slow)
cli.main(["gate", "run", "slow", "--checkout", "miniature"])
"""


def is_alive(pid: int) -> bool:
    """Whether a process still runs; one that is dead but not yet waited for does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def slow_run(tmp_path, own_cache):
    """A run of the slow gate whose two sides have begun: (its process, the pids of its sides, its temporary folder)."""
    on_path, marks, temporary = (tmp_path / name for name in ("on_path", "marks", "temporary"))
    for folder in (on_path, marks, temporary):
        folder.mkdir()
    (on_path / "slow_side.py").write_text(SLOW_SIDE)
    paths = [str(on_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "TMPDIR": str(temporary)}
    started = subprocess.Popen(
        [sys.executable, "-c", COMMAND, str(marks)],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    sides = []
    try:
        assert until(lambda: len(list(marks.glob("[01]"))) == 2), started.communicate(timeout=1)
        sides = [int(path.read_text()) for path in marks.glob("[01]")]
        assert list(temporary.glob("tdmpc2-lean-*")) and all(map(is_alive, sides))
        yield started, sides, temporary
    finally:
        started.kill()
        started.communicate()
        for pid in filter(is_alive, sides):
            os.kill(pid, signal.SIGKILL)


pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are looked up in /proc")


@pytest.mark.parametrize(
    ("number", "code", "told"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "SIGTERM"), (signal.SIGHUP, 129, "SIGHUP")],
)
def test_a_signal_ends_a_gate_with_its_processes_and_folders(slow_run, number, code, told):
    run, sides, temporary = slow_run
    run.send_signal(number)
    said, _ = run.communicate(timeout=30)
    assert run.returncode == code and told in said
    assert "Traceback" not in said and "pass" not in said and "FAIL" not in said
    assert not any(map(is_alive, sides))
    assert not list(temporary.glob("tdmpc2-lean-*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_that_come_again_while_it_ends_leave_no_folder(slow_run, number):
    run, sides, temporary = slow_run
    while run.poll() is None:
        run.send_signal(number)
        time.sleep(0.002)
        # What comes when the command is over is Python's own end, which nobody can mend.
        if not list(temporary.glob("tdmpc2-lean-*")):
            break
    run.communicate(timeout=30)
    assert not any(map(is_alive, sides))
    assert not list(temporary.glob("tdmpc2-lean-*"))


def test_a_signal_that_comes_while_the_last_is_obeyed_is_not_obeyed_within_it(monkeypatch):
    kills = []

    class Side:
        def kill(self):
            kills.append(1)
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(process, "running", {Side()})
    earlier = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with pytest.raises(SystemExit) as ended, process.ended_by_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)
    finally:
        signal.signal(signal.SIGTERM, earlier)
    assert ended.value.code == 128 + signal.SIGTERM
    assert len(kills) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends the children of a process that was killed")
def test_processes_of_a_gate_end_with_the_one_that_started_them_even_when_it_is_killed(slow_run):
    run, sides, _ = slow_run
    run.kill()
    run.wait()
    assert until(lambda: not any(map(is_alive, sides)), 10)


def test_a_process_whose_parent_was_gone_before_it_could_listen_ends_at_once(tmp_path):
    request = {"parent": os.getppid(), "code_dir": str(tmp_path), "answer": str(tmp_path / "answer")}
    (tmp_path / "request.json").write_text(json.dumps(request))
    command = [sys.executable, "-m", "tdmpc2_lean.validation.gates.process", str(tmp_path / "request.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr == "" and not (tmp_path / "answer").exists()


def test_a_process_that_is_started_while_the_run_is_interrupted_ends_too(monkeypatch):
    popen = subprocess.Popen

    def interrupted_meanwhile(*args, **kwargs):
        started = popen(*args, **kwargs)
        process.interrupt()  # knows nothing yet of the process that is being started
        return started

    monkeypatch.setattr(subprocess, "Popen", interrupted_meanwhile)
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            process.output_of([sys.executable, "-c", "import time; time.sleep(600)"], ".")
    finally:
        process.interrupted.clear()
    assert time.monotonic() - began < 60


def test_signals_that_are_ignored_stay_ignored_and_all_are_as_before_at_the_end(monkeypatch):
    before = {number: signal.getsignal(number) for number in process.SIGNALS}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with process.ended_by_signals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not before[signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) == before[signal.SIGTERM]
    finally:
        signal.signal(signal.SIGHUP, before[signal.SIGHUP])


def test_an_error_of_the_body_is_told_unless_a_signal_came():
    with pytest.raises(ValueError), process.ended_by_signals():
        raise ValueError
    before = signal.signal(signal.SIGTERM, lambda *_: None)  # should it not be heard, the tests go on
    try:
        with pytest.raises(SystemExit) as ended, process.ended_by_signals():
            signal.raise_signal(signal.SIGTERM)
            raise ValueError
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == 143 and not process.interrupted.is_set()
