"""What the tests of `runs` share: an upstream whose agent counts, in this process and as a command."""

import os
import subprocess
import sys
from pathlib import Path

import counting
import pytest

from tdmpc2_lean.runs import adapter, making
from tdmpc2_lean.runs.plan import Request


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """A function from words to the plan of a counting run below the test's folder."""
    monkeypatch.setitem(adapter.ADAPTERS, "tdmpc2", "counting")
    monkeypatch.setattr(making, "draw", lambda plan: None)  # nobody publishes curves of counting
    return lambda *words, **options: counting.ADAPTER.plan(Request(words, cwd=tmp_path, **options))


@pytest.fixture
def command(tmp_path):
    """A function from words to a process of the counting `train` command, which leads a process group."""
    started = []

    def start(*words, **options):
        process = subprocess.Popen(
            [sys.executable, counting.__file__, *words],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(Path(counting.__file__).parent)])},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            **options,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()
