"""Whole runs of real code on real physics, on budgets of seconds."""

import csv
import json
import subprocess
import sys

import pytest

from tdmpc2_lean import training
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import curve, making, record
from tdmpc2_lean.training import RunFailed

COMMAND = [sys.executable, "-m", "tdmpc2_lean", "train"]


def where(checkout):
    """The word that names a checkout."""
    return "upstream=miniature" if checkout.upstream == "miniature" else f"upstream={checkout.root}"


def called(words, cwd):
    """The command in a process of its own, without a terminal: (exit code, what it said)."""
    done = subprocess.run(
        [*COMMAND, *words], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500
    )
    return done.returncode, done.stdout


def test_a_run_leaves_all_that_is_needed_to_know_and_repeat_it(any_checkout, tiny, workplace):
    words = [*tiny, where(any_checkout), "seed=3", "threads=1"]
    outcome = training.train(words, quiet=True)
    folder, kept = outcome.folder, outcome.record
    assert folder == workplace / "logs/cartpole-balance/3/default"
    assert kept == record.read(folder)
    assert (kept.state, kept.start.exit_code, kept.specification.seed) == ("finished", 0, 3)
    assert kept.provenance.threads.number == 1 and kept.provenance.versions["mujoco"]
    assert kept.code["upstream"] == any_checkout.upstream
    assert kept.code["commit"] == any_checkout.commit
    assert [patch["name"] for patch in kept.code["patches"]][0] == "device"
    assert kept.provenance.device == record.Device(kind="cpu", name=None)
    # The settings are those that the code resolved, beside those that were asked for.
    assert kept.settings["seed_steps"] == 500 and kept.settings["action_dim"] == 1
    assert kept.settings["work_dir"] == str(folder) and kept.configured["action_dim"] == "???"
    assert kept.specification.overrides["latent_dim"] == 16 and kept.specification.overrides["seed"] == 3
    with open(folder / "eval.csv", newline="") as file:
        rows = [(float(row["step"]), float(row["episode_reward"])) for row in csv.DictReader(file)]
    assert [step for step, _ in rows] == [0, 1000]
    assert [(one.step, one.episode_reward) for one in kept.evaluations] == [
        (step, pytest.approx(reward)) for step, reward in rows
    ]
    (line,) = curve.lines_of(folder / "curve.jsonl")
    assert (line.agent_steps, line.env_steps, line.episodes) == (1000, 2000, 1)
    assert line.value == pytest.approx(rows[1][1]) and line.returns == (pytest.approx(line.value, rel=1e-5),)
    assert line.provenance in kept.provenances and line.updates == 20 + 24
    # The official loop evaluates before it logs the episode, so that these losses stand in the next line.
    assert all(value > 0 for name, value in line.losses.items() if name in ("consistency", "reward", "value"))
    assert kept.timing.steps == 1000 and kept.timing.evaluation_seconds > 0
    assert (folder / "models/final.pt").is_file() and (folder / "config.yaml").is_file()
    assert (folder / "checkpoint.pt").is_file() and (folder / "hydra/.hydra/overrides.yaml").is_file()
    log = (folder / "train.log").read_text()
    assert "\x1b" not in log and "Traceback" not in log
    # Nothing is written outside the run's folder.
    assert [path.name for path in workplace.iterdir()] == ["logs"]
    checks_on_the_folder_of_a_finished_run(words, outcome)
    if any_checkout.upstream == "miniature":
        extends(words, outcome)


def checks_on_the_folder_of_a_finished_run(words, outcome):
    """The same again says that it is finished and touches nothing, another run is refused; the end is told whole."""
    folder = outcome.folder
    said = "\n".join(making.summary(outcome))
    assert f"return: {outcome.last_return:.1f} at agent step 1000" in said
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG") and str(folder / "curve.png") in said
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    again = training.train(words, quiet=True)
    assert not again.made and again.record == outcome.record
    with pytest.raises(UserError, match="another specification.*lr .0.0003, now 0.001") as told:
        training.train([*words, "lr=1e-3"], quiet=True)
    assert "exp_name=" in told.value.next_step and "overwrite=true" in told.value.next_step
    with pytest.raises(UserError, match="1,000 agent steps, and 900"):
        training.train([*words, "steps=900"], quiet=True)
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def extends(words, outcome):
    """A larger budget goes on from where the run ended."""
    more = training.train([*words, "steps=1500", "eval_freq=1000"], quiet=True)
    assert more.record.start.resumed_at == 1001 and more.record.timing.steps == 1500
    assert [start.budget for start in more.record.starts] == [1000, 1500]
    assert more.record.evaluations == outcome.record.evaluations


def test_a_failing_run_shows_the_end_of_its_log_exits_with_1_and_does_not_block_its_folder(tiny, workplace):
    nowhere = "hydra.run.dir=/proc/nowhere"  # where the script cannot make its folder
    code, told = called([*tiny, "upstream=miniature", nowhere], workplace)
    folder = workplace / "logs/cartpole-balance/1/default"
    assert code == 1
    assert str(folder / "train.log") in told and "Error" in told
    assert len(told.splitlines()) < 60
    kept = record.read(folder)
    assert kept.state == "failed" and kept.start.exit_code == 1 and "Error" in kept.error
    # Its first step was never made, so that another specification finds the folder free.
    code, told = called([*tiny, "upstream=miniature", "latent_dim=24", "--dry-run"], workplace)
    assert code == 0 and told.splitlines()[-1].split() == ["run", "begins"]


def test_a_diverged_run_says_which_loss_is_not_finite_at_which_step(tiny, workplace):
    words = [*tiny, "upstream=miniature", "lr=1e30", "mpc=false", "seed_steps=500", "pretrain_updates=5"]
    with pytest.raises(RunFailed, match=r"diverged: \w*(_loss|grad_norm) is (nan|inf) at agent step \d+") as told:
        training.train(words, quiet=True)
    assert "the same settings diverge again" in told.value.next_step
    kept = record.read(workplace / "logs/cartpole-balance/1/default")
    assert kept.state == "failed" and "agent step" in kept.error


def test_a_simulator_that_cannot_draw_is_told_with_the_real_reason(tiny, workplace, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "no-such-backend")
    with pytest.raises(UserError, match="no-such-backend") as told:
        training.train([*tiny, "upstream=miniature"], quiet=True)
    assert "unset MUJOCO_GL" in told.value.next_step


def test_a_text_in_place_of_words_is_refused_with_the_list_that_was_meant(workplace):
    for call in (training.train, training.evaluate):
        with pytest.raises(UserError, match="one text, 'task=cartpole-balance lean=smoke'") as told:
            call("task=cartpole-balance lean=smoke")
        assert "['task=cartpole-balance', 'lean=smoke']" in told.value.next_step
    assert list(workplace.iterdir()) == []


@pytest.mark.slow
def test_smoke_learns_cartpole_balance_visibly_above_random(official, workplace):
    outcome = training.train(["task=cartpole-balance", "lean=smoke", where(official)], quiet=True)
    # A random policy: mean 338, standard deviation 57, best of 30 seeds 483.
    assert outcome.last_return > 500
    stored = json.loads((outcome.folder / "run.json").read_text())
    assert stored["specification"]["presets"][0]["name"] == "smoke"
