"""A protocol's run that is killed at random moments ends as the uninterrupted one, to the last bit."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import tiny_protocol as tiny
import torch
from tiny_protocol import checkpoint

from tdmpc2_lean.tdmpc2 import adapter

SEED = int(os.environ.get("KILLS_SEED", "1"))
PASSING = {"seconds", "time", "provenance"}  # of the clock, and of who works on this project meanwhile
OF_THE_CLOCK = {"elapsed_time", "steps_per_second"}


def checkpoint_step(path):
    return adapter.checkpoint_step(path) or 0


def made(process, patience=600):
    """Wait for a process that makes a run; its output if it got there."""
    output, _ = process.communicate(timeout=patience)
    assert process.returncode == 0, output
    return output


def kill(process):
    """As the out-of-memory killer or a lost machine would."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def wait_for_training(process, config, before):
    """Until the child has begun to train: it then writes its settings."""
    while process.poll() is None and (config.stat().st_mtime_ns if config.exists() else 0) == before:
        time.sleep(0.05)


def killed_until_made(start, folder, kills, steps, choose):
    """Start a run again and again, killing it at random moments; the agent steps that it had saved by then.

    The moments are spread over the run: some time after a random number of steps. One is while the run starts.
    """
    config, saved, moments = folder / "config.yaml", [], sorted(choose.uniform(0, steps) for _ in range(kills))
    for number, moment in enumerate(moments):
        before = config.stat().st_mtime_ns if config.exists() else 0
        process = start()
        if number == 1:
            time.sleep(choose.uniform(0, 8))
        else:
            wait_for_training(process, config, before)
            while process.poll() is None and checkpoint_step(checkpoint(folder)) < moment:
                time.sleep(0.2)
            time.sleep(choose.uniform(0, 2))
        if process.poll() is None:
            saved.append(checkpoint_step(checkpoint(folder)))
        kill(process)
    made(start())
    return saved


def lines(folder):
    text = (folder / "curve.jsonl").read_text()
    return [{k: v for k, v in json.loads(line).items() if k not in PASSING} for line in text.splitlines()]


def assert_same(one, other, where=""):
    """Nested states are equal, bit for bit, but for the clock's part."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one.keys() - OF_THE_CLOCK:
            assert_same(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for number, pair in enumerate(zip(one, other, strict=True)):
            assert_same(*pair, f"{where}[{number}]")
    elif torch.is_tensor(one):
        same = one.dtype == other.dtype and one.shape == other.shape
        assert same and torch.equal(one.nan_to_num(123.0), other.nan_to_num(123.0)), where
    else:
        assert one == other, where


def assert_same_runs(one, other, chunks):
    assert len(lines(one)) == chunks
    assert lines(one) == lines(other)
    assert_same(*(torch.load(tiny.checkpoint(folder), weights_only=True) for folder in (one, other)))
    models = (tiny.checkpoint(folder).parent / "models" / "final.pt" for folder in (one, other))
    assert_same(*(torch.load(path, weights_only=True) for path in models))
    evaluations = [(tiny.checkpoint(folder).parent / "eval.csv").read_text() for folder in (one, other)]
    assert evaluations[0] == evaluations[1]


@pytest.mark.slow
def test_a_killed_run_ends_as_the_uninterrupted_one(miniature, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    began = time.monotonic()
    made(tiny.start(whole, "miniature", minutes=15))
    seconds = time.monotonic() - began
    choose = random.Random(int(os.environ.get("KILLS_SEED", "1")))
    met = killed_until_made(lambda: tiny.start(killed, "miniature"), tiny.folder(killed), 2, 0.25 * seconds, choose)
    assert met, "the run was finished before it could be killed"
    assert_same_runs(tiny.folder(whole), tiny.folder(killed), chunks=2)


@pytest.mark.slow
def test_a_smoke_run_killed_at_five_random_moments_ends_as_the_uninterrupted_one(official, tmp_path):
    def start(out):
        command = [sys.executable, "-m", "tdmpc2_lean", "validate", "run", "tdmpc2-smoke", "--out", str(out), "--quiet"]
        command += ["--threads", "1", "--upstream", official.commit]
        return subprocess.Popen(
            command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    made(start(whole))
    folders = [tiny.folder(out, tiny.SMOKE) for out in (whole, killed)]
    saved = killed_until_made(lambda: start(killed), folders[1], 5, tiny.SMOKE.agent_steps, random.Random(SEED))
    print(f"killed {len(saved)} times, after it had saved steps {saved}")
    assert len(saved) >= 4, "the run was finished before it could be killed"
    assert_same_runs(*folders, chunks=tiny.SMOKE.chunks)
