"""Runs through the command line, on code that acts quickly: begun, resumed, extended, refused, swept, evaluated."""

import json
import os
import re
import resource
import signal
import statistics
import subprocess
import sys

import acting
import psutil
import pytest
from acting import until

from dreamer_bridge import checkpoints, cli, trust
from tdmpc2_lean import training, versions
from tdmpc2_lean.runs import curve, folder, record

WORDS = ["task=cheetah-run", "jax.platform=cpu", "threads=1", "chunk=100", "exp_name=x"]
PLACE = "logs/dmc_cheetah_run/0/x"


def train(*words):
    return ["train", *WORDS, *words]


@pytest.fixture
def started(code, tmp_path):
    """A function that starts a command in a process of its own; whatever of it is left is ended after the test.

    largest: bytes beyond which no file can grow.
    """
    acting.write(code)
    begun = []

    def start(*arguments, largest=None, **environment):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))

        process = subprocess.Popen(
            [sys.executable, acting.__file__, str(code), *arguments], cwd=tmp_path, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, env=acting.environment(**environment),
            preexec_fn=limit if largest else None,
        )  # fmt: skip
        begun.append(process)
        return process

    yield start
    for process in begun:
        process.kill()
        process.communicate()


def lines(place):
    """The curve, without what is of the clock. Nothing in it is unreadable."""
    assert not curve.read(place / curve.FILE)[1]
    found = curve.lines_of(place / curve.FILE)
    return [line.model_dump(exclude={"seconds", "time", "provenance"}) for line in found]


def test_a_run_is_made_recorded_and_the_same_command_says_that_it_is_finished(commanded, tmp_path):
    """A second start was refused once; now it says what there is, and its exit code is 0."""
    code, said = commanded(*train("run.steps=200"))
    assert code == 0 and "finished in" in said and "return: " in said, said
    kept = record.read(tmp_path / PLACE)
    assert kept.state == "finished" and kept.timing.steps == 200 and kept.timing.updates == 200
    assert [line.agent_steps for line in curve.lines_of(tmp_path / PLACE / curve.FILE)] == [100, 200]
    assert {line.provenance for line in curve.lines_of(tmp_path / PLACE / curve.FILE)} == set(kept.provenances)
    before = (tmp_path / PLACE / record.FILE).read_bytes()
    code, said = commanded(*train("run.steps=200"))
    assert code == 0 and "finished already" in said
    assert (tmp_path / PLACE / record.FILE).read_bytes() == before


def test_a_larger_budget_extends_a_finished_run_and_a_smaller_one_is_refused(commanded, tmp_path):
    assert commanded(*train("run.steps=130"))[0] == 0
    code, said = commanded(*train("run.steps=330"))
    assert code == 0 and "going on at agent step 130" in said, said
    assert commanded(*train("run.steps=330", "exp_name=at-once"))[0] == 0
    assert lines(tmp_path / PLACE) == lines(tmp_path / "logs/dmc_cheetah_run/0/at-once")
    scores = [(tmp_path / "logs/dmc_cheetah_run/0" / name / "scores.jsonl").read_bytes() for name in ("x", "at-once")]
    assert scores[0] == scores[1]
    kept = record.read(tmp_path / PLACE)
    assert [one.step for one in kept.evaluations] == [100, 200, 300, 330]
    assert kept.start.resumed_at == 130 and kept.specification.agent_steps == 330
    assert [one.budget for one in kept.starts] == [130, 330]
    code, said = commanded(*train("run.steps=200"))
    assert code == 2 and "a budget can only be raised" in said


@pytest.mark.parametrize(
    "said", ["resumes a run that was", "extends a finished one", "overwrite=true", "jax.platform=cpu"]
)
def test_the_help_says_that_the_same_command_resumes_and_extends(said):
    from click.testing import CliRunner

    assert said in " ".join(CliRunner().invoke(cli.dreamer_bridge, ["train", "--help"]).output.split())


def test_the_budget_does_not_name_a_run_so_that_it_can_be_raised(planned):
    names = {planned("task=cheetah-run", f"run.steps={steps}").folder for steps in (100, 200)}
    assert len(names) == 1


def test_a_killed_run_goes_on_by_the_same_command_and_ends_as_the_uninterrupted_one(commanded, started, tmp_path):
    process = started(*train("run.steps=400"), STEP_SECONDS=0.01)
    until(lambda: (checkpoints.latest(tmp_path / PLACE) or tmp_path).name.endswith(("000150", "000200", "000250")))
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    assert children and not psutil.wait_procs(children, timeout=5)[1]
    code, said = commanded(*train("run.steps=400"))
    assert code == 0 and "going on at agent step" in said, said
    assert commanded(*train("run.steps=400", "exp_name=whole"))[0] == 0
    assert lines(tmp_path / PLACE) == lines(tmp_path / "logs/dmc_cheetah_run/0/whole")
    kept = record.read(tmp_path / PLACE)
    assert kept.start.resumed_at in (150, 200, 250)
    assert [one.state for one in kept.starts] == ["interrupted", "finished"]


def test_an_interrupted_run_says_how_to_go_on(started, tmp_path):
    process = started(*train("run.steps=4000"), STEP_SECONDS=0.01)
    until(lambda: (tmp_path / PLACE / curve.FILE).is_file())
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 130 and "the same command goes on with it" in said and "Traceback" not in said
    assert record.read(tmp_path / PLACE).state == "interrupted"


def test_a_child_that_compiles_ends_with_its_killed_parent_and_the_same_command_at_once_makes_the_run(
    commanded, started, tmp_path
):
    """It lived on for as long as it compiled; who came meanwhile was told that all is well."""
    process = started(*train("run.steps=100"), COMPILE_SECONDS=60)
    log = tmp_path / PLACE / "train.log"
    until(lambda: log.is_file() and "making the agent" in log.read_text())
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    code, said = commanded(*train("run.steps=100"))
    assert code == 0 and "finished in" in said, said
    assert children and not psutil.wait_procs(children, timeout=1)[1]


def test_a_resumed_run_is_as_quick_as_it_is(commanded, started, tmp_path):
    """The steps of the starts before were counted as if this one had made them."""
    assert commanded(*train("run.steps=2000"))[0] == 0
    process = started(*train("run.steps=2100"), STEP_SECONDS=0.01)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    timing = record.read(tmp_path / PLACE).timing
    # It makes 100 steps at 0.01 s each; 2,100 in little more than a second are no speed of it. Looks are half a second
    # apart, so that a step may fall on either side of one.
    assert 0 < timing.steps_per_second <= 110
    assert timing.learning_steps_per_second is None or timing.learning_steps_per_second <= 110
    assert timing.steps == 2100
    assert all(float(speed) <= 101 for speed in re.findall(r"([\d.]+) steps/s", said))


def test_overwriting_leaves_files_that_are_no_runs(commanded, tmp_path):
    """They were deleted."""
    place = tmp_path / PLACE
    place.mkdir(parents=True)
    (place / "thesis.tex").write_text("x")
    code, said = commanded(*train("run.steps=100", "overwrite=true"))
    assert code == 2 and "no run's" in said and [path.name for path in place.iterdir()] == ["thesis.tex"]


def test_overwriting_a_run_that_is_going_on_is_refused_and_does_it_no_harm(commanded, started, tmp_path):
    process = started(*train("run.steps=100000"), STEP_SECONDS=0.01)
    until(lambda: (tmp_path / PLACE / curve.FILE).is_file())
    for words in (["overwrite=true"], []):
        code, said = commanded(*train("run.steps=100000", *words))
        assert code == 2 and "is being made by process" in said, said
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    kept = record.read(tmp_path / PLACE)
    assert process.returncode == 130 and len(kept.starts) == 1 and kept.timing.steps >= 100, said
    assert lines(tmp_path / PLACE)


def test_overwriting_replaces_a_run_that_is_over(commanded, tmp_path):
    assert commanded(*train("run.steps=200"))[0] == 0
    code, said = commanded(*train("run.steps=100", "overwrite=true"))
    assert code == 0 and len(record.read(tmp_path / PLACE).starts) == 1, said
    assert len(curve.lines_of(tmp_path / PLACE / curve.FILE)) == 1


def test_a_run_of_another_specification_is_refused_and_what_differs_is_named(commanded, tmp_path):
    assert commanded(*train("run.steps=100"))[0] == 0
    code, said = commanded(*train("run.steps=100", "batch_size=8", "chunk=50"))
    assert code == 2 and "batch_size (16, now 8)" in said and "chunk (100, now 50)" in said and "overwrite=true" in said


@pytest.mark.parametrize("state", ["failed", "interrupted"])
def test_a_run_of_other_patches_or_by_another_seed_is_refused(commanded, code, tmp_path, state):
    assert commanded(*train("run.steps=100"))[0] == 0
    path = tmp_path / PLACE / record.FILE
    kept = json.loads(path.read_text()) | {"state": state}
    (provenance,) = kept["provenances"].values()
    provenance["code"]["patches"][0]["sha256"] = "other"
    path.write_text(json.dumps(kept))
    code, said = commanded(*train("run.steps=100"))
    assert code == 2 and "code patches" in said


def test_a_run_that_failed_before_its_first_step_blocks_nothing(commanded, tmp_path):
    """Nor does the checkpoint that the official code saves before that step."""
    code, said = commanded(*train("run.steps=100", "batch_size=666"))
    assert code == 1 and "no such batch can be made" in said and "train.log" in said
    assert checkpoints.latest(tmp_path / PLACE) is not None
    assert record.read(tmp_path / PLACE).state == "failed"
    code, said = commanded(*train("run.steps=100", "batch_size=8"))
    assert code == 0, said
    assert len(record.read(tmp_path / PLACE).starts) == 1


def test_a_changed_checkpoint_is_refused_before_anything_starts_unless_it_is_trusted(commanded, tmp_path):
    assert commanded(*train("run.steps=100"))[0] == 0
    agent = checkpoints.latest(tmp_path / PLACE) / "agent.pkl"
    agent.write_bytes(agent.read_bytes() + b"x")
    code, said = commanded(*train("run.steps=200"))
    assert code == 2 and "agent.pkl" in said and "--trust-checkpoint" in said
    code, said = commanded("train", "--trust-checkpoint", *WORDS, "run.steps=200")
    assert code == 0 and "going on at agent step 100" in said, said


def test_a_record_that_cannot_be_read_is_told_and_left(commanded, tmp_path):
    assert commanded(*train("run.steps=100"))[0] == 0
    (checkpoints.latest(tmp_path / PLACE) / checkpoints.STATE).write_text("[1")
    trust.sign(checkpoints.latest(tmp_path / PLACE))
    code, said = commanded(*train("run.steps=200"))
    assert code == 2 and "bridge.json cannot be read" in said and "Traceback" not in said


def test_a_full_disk_is_told_and_once_there_is_room_the_same_command_goes_on(commanded, started, tmp_path):
    """As on a full disk, no file of the run can grow beyond a size, which its curve is the first to reach."""
    words = train("run.steps=2000", "chunk=10")
    assert commanded(*train("run.steps=25", "chunk=10"))[0] == 0
    size = (tmp_path / PLACE / record.FILE).stat().st_size + 22_000
    said, _ = (process := started(*words, largest=size)).communicate(timeout=60)
    assert process.returncode == 1 and "the disk is full" in said and "make room; the same command goes on" in said
    assert "Traceback" not in said and record.read(tmp_path / PLACE).state == "failed"
    code, said = commanded(*words)
    assert code == 0 and "going on at agent step" in said, said
    assert commanded(*words, "exp_name=whole")[0] == 0
    assert lines(tmp_path / PLACE) == lines(tmp_path / "logs/dmc_cheetah_run/0/whole")


def test_from_python_a_run_is_made_as_by_the_command(code, tmp_path):
    acting.write(code)
    words = [*WORDS, "run.steps=100"]
    outcome = training.train(words, upstream="dreamerv3", flags=["--batch_size", "8"], cwd=tmp_path, quiet=True)
    assert outcome.made and outcome.folder == tmp_path / PLACE and outcome.record.configured["batch_size"] == 8
    assert outcome.last_return == curve.lines_of(outcome.folder / curve.FILE)[-1].value
    found = training.evaluate([f"checkpoint={outcome.folder}", "episodes=2"], upstream="dreamerv3", quiet=True)
    assert len(found.record.evaluations[0].returns) == 2


# ------------------------------------------------------------------------------------------------------- sweeps


def test_a_sweep_skips_what_is_finished_carries_on_after_a_failure_and_ends_with_a_table(commanded, tmp_path):
    words = ["train", "task=cheetah-run", "jax.platform=cpu", "threads=1", "chunk=100", "run.steps=100"]
    assert commanded(*words, "batch_size=16", "seed=1")[0] == 0
    code, said = commanded(*words, "batch_size=16,666", "seed=1,2", "--multirun")
    assert code == 1
    table = said[said.rindex("\n\n") :].splitlines()
    assert sum("  was finished  " in line and "return" in line for line in table) == 1
    assert sum("  finished  " in line and "return" in line for line in table) == 1
    assert sum("  failed  " in line for line in table) == 2 and "1 finished; 1 was finished; 2 failed" in said
    code, said = commanded(*words, "batch_size=16", "seed=1,2,3", "-m")  # a seed more
    assert code == 0 and "1 finished; 2 was finished" in said, said
    assert {path.parent.parent.name for path in tmp_path.glob("logs/*/*/default,*/run.json")} >= {"1", "2", "3"}


def test_what_a_sweep_varies_names_its_runs_the_budget_too(commanded):
    words = ["train", "task=cheetah-run", "jax.platform=cpu", "threads=1", "chunk=100"]
    code, said = commanded(*words, "run.steps=100,200", "arm=full,dyn=0.25", "--multirun", "--dry-run")
    names = re.findall(r"^folder +(.*)$", said, re.MULTILINE)
    assert code == 0 and len(set(names)) == 4, said
    code, said = commanded(*words, "exp_name=x", "run.steps=100,200", "--multirun")
    assert code == 2 and "the same folder" in said


# --------------------------------------------------------------------------------------------------- evaluation


@pytest.fixture
def trained(commanded, tmp_path):
    """A finished run with settings of its own."""
    code, said = commanded(*train("run.steps=100", "seed=4", "batch_size=8", "size=size12m", "env.dmc.repeat=2"))
    assert code == 0, said
    return tmp_path / "logs/dmc_cheetah_run/4/x"


def test_an_evaluation_tells_mean_spread_and_number_and_keeps_each_return(commanded, trained):
    total = int(re.search(rb'"episode/score": (\d+)}\n$', (trained / "scores.jsonl").read_bytes())[1])
    code, said = commanded("evaluate", f"checkpoint={trained}", "episodes=3")
    returns = [total + 25, total + 50, total + 75]
    mean, spread = statistics.fmean(returns), statistics.stdev(returns)
    assert code == 0 and f"return {mean:.1f} (mean of 3 episodes, standard deviation {spread:.1f}, seed 4)" in said
    kept = record.read(trained.with_name("evaluation-1"))
    assert kept.kind == "evaluate" and kept.state == "finished"
    (found,) = kept.evaluations
    assert found.returns == tuple(returns) and found.episodes == 3 and found.step == 100
    assert found.episode_reward == mean and kept.checkpoint.path == str(checkpoints.latest(trained))
    # The official code's own files hold the same.
    own = (trained.with_name("evaluation-1") / "scores.jsonl").read_text().splitlines()
    assert [json.loads(line)["episode/score"] for line in own] == returns
    code, said = commanded("evaluate", f"checkpoint={checkpoints.latest(trained)}", "episodes=1", "--quiet")
    assert code == 0 and "(mean of 1 episode, seed 4)" in said and trained.with_name("evaluation-2").is_dir()


def test_an_evaluation_takes_task_seed_code_and_settings_of_the_run_unless_they_are_given(planned, trained):
    def plan(*words, **named):
        return planned(f"checkpoint={trained}", *words, kind="evaluate", **named)

    found = plan()
    assert found.specification.tasks == ("dmc_cheetah_run",) and found.specification.seed == 4
    assert found.configured["batch_size"] == 8 and found.configured["env.dmc.repeat"] == 2
    assert found.configured["agent.enc.simple.units"] == 256 and found.configured["jax.platform"] == "cpu"
    assert found.configured["script"] == "eval_only" and found.configured["run.envs"] == 1
    assert found.configured["run.from_checkpoint"] == str(checkpoints.latest(trained))
    found = plan("batch_size=3", "seed=9", "size=size1m", flags=["--agent.dyn.rssm.deter", "5"])
    assert found.configured["batch_size"] == 3 and found.specification.seed == 9
    assert found.configured["agent.enc.simple.units"] == 64 and found.configured["agent.dyn.rssm.deter"] == 5


def test_other_versions_than_the_runs_are_said(planned, trained, monkeypatch):
    now = versions.versions()
    monkeypatch.setattr(versions, "versions", lambda *_: now | {"mujoco": "9.9.9", "torch": "9.9.9"})
    (note,) = planned(f"checkpoint={trained}", kind="evaluate").notes
    assert f"mujoco {now['mujoco']}, now 9.9.9" in note and "torch" not in note
    monkeypatch.undo()


def test_other_code_than_the_runs_is_said_and_nothing_where_nothing_has_changed(planned, trained):
    assert not planned(f"checkpoint={trained}", kind="evaluate").notes
    kept = (trained / record.FILE).read_text()
    (trained / record.FILE).write_text(kept.replace(40 * "2", 40 * "3"))
    (note,) = planned(f"checkpoint={trained}", kind="evaluate").notes
    assert "the code with its patches is another than the run's" in note


def test_a_checkpoint_of_somebody_else_is_not_evaluated_unless_it_is_trusted(commanded, trained, tmp_path):
    theirs = tmp_path / "theirs"
    checkpoints.latest(trained).rename(theirs)
    (theirs / trust.SIGNATURE).unlink()
    words = ["evaluate", f"checkpoint={theirs}", "task=cheetah-run", "jax.platform=cpu", "threads=1", "episodes=2"]
    code, said = commanded(*words)
    assert code == 2 and "no signature of yours" in said and not list(tmp_path.glob("logs/*/0/evaluation-*"))
    code, said = commanded(*words, "--trust-checkpoint")
    assert code == 0 and "mean of 2 episodes" in said, said
    assert record.read(tmp_path / "logs/dmc_cheetah_run/0/evaluation-1").checkpoint.trusted


@pytest.mark.parametrize(
    "words, told",
    [
        ([], "which checkpoint?"),
        (["checkpoint=nowhere"], "there is no checkpoint"),
        (["checkpoint=code"], "no whole checkpoint"),
        (["checkpoint=RUN", "episodes=0"], "episodes=0 is no whole number from 1 on"),
        (["checkpoint=RUN", "run.envs=4"], "an evaluation has one environment"),
        (["checkpoint=RUN", "arm=strip"], "there is no setting 'arm'"),
        (["checkpoint=RUN", "script=train"], "script is decided by the bridge"),
        (["checkpoint=RUN", "run.from_checkpoint=x"], "run.from_checkpoint is decided by the bridge"),
        (["checkpoint=RUN", "exp_name=x"], "already holds a run"),
    ],
)
def test_mistakes_about_an_evaluation_are_told(commanded, trained, words, told):
    code, said = commanded("evaluate", *[word.replace("RUN", str(trained)) for word in words])
    assert code == 2 and told in said and "next:" in said and "Traceback" not in said


def test_a_checkpoint_in_no_runs_folder_needs_a_task(commanded, trained, tmp_path):
    checkpoints.latest(trained).rename(tmp_path / "alone")
    code, said = commanded("evaluate", "checkpoint=alone", "jax.platform=cpu")
    assert code == 2 and "add task=" in said


def test_an_evaluation_whose_episodes_do_not_end_says_so(commanded, trained):
    code, said = commanded("evaluate", f"checkpoint={trained}", "episodes=1", "run.steps=20")
    assert code == 1 and "0 of 1 episodes ended within 20 agent steps" in said and "Traceback" not in said
    assert record.read(trained.with_name("evaluation-1")).state == "failed"


# ---------------------------------------------------------------------------------------------- who holds a run


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_no_process_of_a_killed_run_holds_its_folder(started, tmp_path):
    process = started(*train("run.steps=4000"), STEP_SECONDS=0.01)
    until(lambda: (tmp_path / PLACE / curve.FILE).is_file())
    assert folder.is_held(tmp_path / PLACE)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    until(lambda: not folder.is_held(tmp_path / PLACE), 5)
