"""Whole runs of real code on real physics, on budgets of seconds."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tdmpc2_lean import training
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import record
from tdmpc2_lean.runs.run import Log
from tdmpc2_lean.tdmpc2 import plan
from tdmpc2_lean.training import RunFailed

COMMAND = [sys.executable, "-m", "tdmpc2_lean", "train"]


def where(checkout):
    """The word that names a checkout."""
    return "upstream=miniature" if checkout.upstream == "miniature" else f"upstream={checkout.root}"


def started(words, cwd):
    """A run in a process of its own, without a terminal."""
    return subprocess.Popen(
        [*COMMAND, *words], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def wait_for(path, process, text=""):
    """Until a file is there and has the text."""
    while not (path.is_file() and text in path.read_text()):
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.1)


def test_a_run_leaves_all_that_is_needed_to_know_and_repeat_it(any_checkout, tiny, workplace):
    outcome = training.train([*tiny, where(any_checkout), "seed=3", "threads=1"], quiet=True)
    folder, kept = outcome.folder, outcome.record
    assert folder == workplace / "logs/cartpole-balance/3/default"
    assert kept == record.read(folder)
    assert (kept["state"], kept["exit_code"], kept["seed"], kept["threads"]["number"]) == (
        "finished",
        0,
        3,
        1,
    )
    assert kept["upstream"]["upstream"] == any_checkout.upstream
    assert kept["upstream"]["commit"] == any_checkout.commit
    assert [patch["name"] for patch in kept["upstream"]["patches"]][0] == "device"
    assert kept["device"] == {"kind": "cpu", "name": None}
    # The configuration is the one that the code resolved, not only the one that was asked for.
    assert kept["config"]["seed_steps"] == 500 and kept["config"]["action_dim"] == 1
    assert kept["config"]["work_dir"] == str(folder)
    assert kept["overrides"]["latent_dim"] == 16 and kept["overrides"]["seed"] == 3
    with open(folder / "eval.csv", newline="") as file:
        rows = [(float(row["step"]), float(row["episode_reward"])) for row in csv.DictReader(file)]
    assert [step for step, _ in rows] == [0, 1000]
    assert [(e["step"], e["episode_reward"]) for e in kept["evaluations"]] == [
        (step, pytest.approx(reward)) for step, reward in rows
    ]
    assert kept["timing"]["steps"] == 1001 and kept["timing"]["evaluation_seconds"] > 0
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "models/final.pt").is_file() and (folder / "config.yaml").is_file()
    assert (folder / "hydra/.hydra/overrides.yaml").is_file()
    log = (folder / "train.log").read_text()
    assert "\x1b" not in log and "Traceback" not in log
    # Nothing is written outside the run's folder.
    assert [path.name for path in workplace.iterdir()] == ["logs"]
    checks_on_the_folder_of_a_finished_run([*tiny, where(any_checkout), "seed=3"], folder)


def checks_on_the_folder_of_a_finished_run(words, folder):
    """A second run is refused and touches nothing; overwrite=true would replace the first."""
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    with pytest.raises(UserError, match="already holds a run") as told:
        training.train(words, quiet=True)
    assert "exp_name=" in told.value.next_step and "overwrite=true" in told.value.next_step
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert plan.training([*words, "overwrite=true"], cwd=folder.parents[3]).overwrite


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_a_readable_folder_and_exit_code_130(number, tiny, workplace):
    process = started([*tiny, "upstream=miniature", "steps=100000", "mpc=false"], workplace)
    folder = workplace / "logs/cartpole-balance/1/default"
    wait_for(folder / "eval.csv", process, "0")
    assert record.read(folder)["state"] == "running"
    process.send_signal(number)
    told, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in told
    kept = record.read(folder)
    assert kept["state"] == "interrupted" and kept["ended"] and kept["timing"]["steps"] is not None
    assert len(kept["evaluations"]) == 1 and (folder / "curve.png").is_file()


def test_a_run_that_loses_its_watcher_stops(tiny, workplace):
    process = started([*tiny, "upstream=miniature", "steps=100000", "mpc=false"], workplace)
    folder = workplace / "logs/cartpole-balance/1/default"
    wait_for(folder / "eval.csv", process, "0")
    children = subprocess.run(
        ["pgrep", "-P", str(process.pid)], capture_output=True, text=True
    ).stdout.split()
    assert len(children) == 1
    process.kill()
    process.wait()
    for _ in range(300):
        if not os.path.exists(f"/proc/{children[0]}"):
            break
        time.sleep(0.1)
    else:
        pytest.fail("the child went on without its parent")
    assert not record.is_alive(record.read(folder))


def test_a_failing_run_shows_the_end_of_its_log_and_exits_with_1(tiny, workplace):
    process = started([*tiny, "upstream=miniature", "latent_dim=15"], workplace)
    told, _ = process.communicate(timeout=120)
    folder = workplace / "logs/cartpole-balance/1/default"
    assert process.returncode == 1
    assert str(folder / "train.log") in told and "Error" in told
    assert len(told.splitlines()) < 60
    kept = record.read(folder)
    assert kept["state"] == "failed" and kept["exit_code"] == 1 and "Error" in kept["error"]


def test_a_script_is_read_to_its_end_on_a_full_disk():
    log = Log(Path("/dev/full"))
    log.follow(b"line %d\n" % number for number in range(1000))
    log.close()
    assert log.tail(1) == ["line 999"]


def test_a_simulator_that_cannot_draw_is_told_with_the_real_reason(tiny, workplace, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "no-such-backend")
    with pytest.raises(RunFailed, match="no-such-backend") as told:
        training.train([*tiny, "upstream=miniature"], quiet=True)
    assert "unset MUJOCO_GL" in told.value.next_step


def test_a_sweep_runs_every_combination_in_a_folder_of_its_own(workplace, miniature, tiny):
    plans = plan.training_sweep(
        [*tiny, "upstream=miniature", "seed=1,2", "lr=1e-3,1e-4", "lean=depth"], cwd=workplace
    )
    assert [p.folder.relative_to(workplace / "logs/cartpole-balance").as_posix() for p in plans] == [
        "1/depth,lr=0.001",
        "1/depth,lr=0.0001",
        "2/depth,lr=0.001",
        "2/depth,lr=0.0001",
    ]
    assert [(p.config["seed"], p.config["lr"]) for p in plans] == [(1, 1e-3), (1, 1e-4), (2, 1e-3), (2, 1e-4)]


def test_a_sweep_over_one_folder_is_refused(workplace, tiny):
    with pytest.raises(UserError, match="same folder"):
        plan.training_sweep([*tiny, "upstream=miniature", "lr=1e-3,1e-4", "exp_name=x"], cwd=workplace)


@pytest.mark.slow
def test_smoke_learns_cartpole_balance_visibly_above_random(official, workplace):
    outcome = training.train(["task=cartpole-balance", "lean=smoke", where(official)], quiet=True)
    # A random policy: mean 338, standard deviation 57, best of 30 seeds 483.
    assert outcome.record["evaluations"][-1]["episode_reward"] > 500
    assert json.loads((outcome.folder / "run.json").read_text())["presets"][0]["name"] == "smoke"
