"""The same `train` command goes on after a kill, and ends with the uninterrupted run's bytes."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch

from tdmpc2_lean.runs import curve, record
from tdmpc2_lean.tdmpc2.adapter import checkpoint_step

# Of the clock, and of who works on this project meanwhile.
PASSING = {"seconds", "time", "provenance"}
OF_THE_CLOCK = {"elapsed_time", "steps_per_second"}


def start(words, cwd):
    return subprocess.Popen(
        [sys.executable, "-m", "tdmpc2_lean", "train", *words, "--quiet"],
        cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


def ended(process, code=0):
    told, _ = process.communicate(timeout=1500)
    assert process.returncode == code, told
    return told


def kill_once(process, condition):
    """SIGKILL to the command alone, as the out-of-memory killer would, once something is so. Its child is to follow."""
    while not condition():
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def saved_at(folder):
    return checkpoint_step(folder / "checkpoint.pt") or 0


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


def assert_same_runs(one, other):
    for name in ("checkpoint.pt", "models/final.pt"):
        assert_same(*(torch.load(folder / name, weights_only=True) for folder in (one, other)), name)
    assert (one / "eval.csv").read_bytes() == (other / "eval.csv").read_bytes()
    lines = [
        [line.model_dump(exclude=PASSING) for line in curve.lines_of(folder / "curve.jsonl")] for folder in (one, other)
    ]
    assert lines[0] == lines[1] and lines[0]
    evaluations = [record.read(folder).evaluations for folder in (one, other)]
    assert evaluations[0] == evaluations[1] and evaluations[0]


def made_whole_and_killed(words, workplace, task, moments, choose):
    """Two runs of one command: left alone, and killed when it has saved these agent steps, and interrupted last."""
    folders = [workplace / name / "logs" / task / "1" / "default" for name in ("whole", "killed")]
    for name in ("whole", "killed"):
        (workplace / name).mkdir()
    ended(start([*words, "checkpoint_minutes=100"], workplace / "whole"))
    often = [*words, "checkpoint_minutes=0.001", "checkpoint_mid_episode=true"]
    for moment in moments:
        process = start(often, workplace / "killed")
        kill_once(process, lambda moment=moment: saved_at(folders[1]) >= moment)
        time.sleep(choose.uniform(0, 0.5))
    process = start(often, workplace / "killed")
    before = len(record.read(folders[1]).starts)
    while len(record.read(folders[1]).starts) == before or not record.read(folders[1]).settings.get("work_dir"):
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGTERM)
    ended(process, 130)
    ended(start(often, workplace / "killed"))
    kept = record.read(folders[1])
    assert len(kept.starts) == len(moments) + 2
    assert [one.state for one in kept.starts] == ["interrupted"] * (len(moments) + 1) + ["finished"]
    return folders


def test_a_killed_run_ends_as_the_uninterrupted_one(tiny, workplace):
    words = [*tiny, "upstream=miniature", "num_samples=8", "eval_freq=500"]
    # The first while it seeds, within an episode; the second while it learns.
    folders = made_whole_and_killed(words, workplace, "cartpole-balance", (1, 600), random.Random(1))
    assert_same_runs(*folders)


@pytest.mark.slow
def test_a_smoke_run_killed_at_random_moments_ends_as_the_uninterrupted_one(official, workplace):
    choose = random.Random(int(os.environ.get("KILLS_SEED", "1")))
    words = ["task=cartpole-balance", "lean=smoke", "exp_name=default", "steps=2000", "eval_freq=500",
             "threads=1", f"upstream={official.root}"]  # fmt: skip
    moments = sorted(choose.randrange(0, 2000) for _ in range(4))
    assert_same_runs(*made_whole_and_killed(words, workplace, "cartpole-balance", moments, choose))
