"""Whatever the upstream: a run begins, goes on, is extended, is finished or is refused, and nothing reached is lost."""

import json
import os
import signal
import time

import pytest

from tdmpc2_lean import versions
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import curve, folder, making, record
from tdmpc2_lean.runs.folder import Held
from tdmpc2_lean.runs.plan import EVALUATE
from tdmpc2_lean.runs.watching import RunFailed


def made(plan):
    return making.carry_out(plan, quiet=True)


def contents(path):
    """All that a run computed, but for the hash of what it ran with."""
    lines = [line.model_dump(exclude={"provenance"}) for line in curve.lines_of(path / "curve.jsonl")]
    files = ("eval.csv", "checkpoint.json", "models/final.json")
    return lines, *((path / name).read_text() for name in files)


def wait_for(condition, process=None, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, process.stdout.read()
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_finished_run_is_left_alone_by_the_same_command(counted):
    first = made(counted())
    before = {path: path.stat().st_mtime_ns for path in first.folder.rglob("*") if path.is_file()}
    again = made(counted())
    assert first.made and not again.made and again.record == first.record
    assert before == {path: path.stat().st_mtime_ns for path in first.folder.rglob("*") if path.is_file()}
    assert "finished already" in making.summary(again)[0] and "overwrite=true" in making.summary(again)[0]


def test_the_end_names_the_return_with_its_n_and_the_picture(counted):
    outcome = made(counted())
    (outcome.folder / making.FIGURE).write_bytes(b"png")
    said = "\n".join(making.summary(outcome))
    value = outcome.last_return
    assert f"return: {value:.1f} at agent step 40 (mean of 1 episode)" in said
    assert f"curve:  {outcome.folder / 'curve.png'}" in said and "n=1 run, seed 1" in said


def test_overwrite_makes_a_finished_run_anew(counted):
    path = made(counted()).folder
    (path / "models" / "older.json").write_text("{}")
    outcome = made(counted("overwrite=true", "lr=2"))
    assert outcome.made and len(outcome.record.starts) == 1
    assert not (path / "models" / "older.json").exists() and outcome.record.configured["lr"] == 2


def test_a_run_that_failed_goes_on_from_its_checkpoint_and_ends_as_an_uninterrupted_one(counted):
    whole = made(counted("exp_name=whole")).folder
    with pytest.raises(RunFailed, match="failed as it was told to"):
        made(counted("fails_at=23"))
    path = counted().folder
    kept = record.read(path)
    assert kept.state == "failed" and "as it was told to" in kept.error and kept.start.exit_code == 1
    assert [one.step for one in kept.evaluations] == [10, 20]
    outcome = made(counted())
    assert contents(path) == contents(whole)
    kept = outcome.record
    assert kept == record.read(path)
    assert (kept.state, kept.error, len(kept.starts)) == ("finished", None, 2)
    assert [start.state for start in kept.starts] == ["failed", "finished"]
    assert kept.start.resumed_at == 20 and [one.step for one in kept.evaluations] == [10, 20, 30, 40]
    # One log for all starts, each under its own command.
    log = (path / "train.log").read_text()
    assert "failed as it was told to" in log and "--- start 2" in log


def test_a_run_that_failed_before_it_came_to_resume_keeps_its_evaluations(counted):
    with pytest.raises(RunFailed):
        made(counted("fails_at=23"))
    with pytest.raises(RunFailed):
        made(counted("fails_at=-1"))
    assert [one.step for one in record.read(counted().folder).evaluations] == [10]
    assert [one.step for one in made(counted()).record.evaluations] == [10, 20, 30, 40]


def test_a_run_that_failed_before_its_first_step_does_not_block_its_folder(counted):
    with pytest.raises(RunFailed, match="before the first step"):
        made(counted("fails_at=-1", "lr=1"))
    outcome = made(counted("lr=2"))  # of another specification
    assert outcome.made and outcome.record.configured["lr"] == 2 and len(outcome.record.starts) == 1


def test_a_run_of_another_specification_is_refused_with_all_that_differs(counted):
    path = made(counted()).folder
    before = (path / "run.json").read_bytes()
    with pytest.raises(UserError) as told:
        made(counted("lr=2", "eval_freq=20"))
    assert "lr (0.5, now 2)" in told.value.message and "chunk (20, now 40)" in told.value.message
    assert "exp_name=" in told.value.next_step and "overwrite=true" in told.value.next_step
    assert (path / "run.json").read_bytes() == before


def test_other_code_is_refused_with_the_patches_that_differ(counted, monkeypatch):
    import counting

    made(counted())
    monkeypatch.setattr(counting.ADAPTER, "code", counting.Code(patches=(("count", "1" * 64),)), raising=False)
    with pytest.raises(UserError, match=r"code patches \(count\)"):
        made(counted("steps=60"))


def test_a_larger_budget_extends_a_finished_run_and_a_smaller_one_is_refused(counted):
    whole = made(counted("exp_name=whole", "steps=60")).folder
    path = made(counted()).folder
    outcome = made(counted("steps=60"))
    assert outcome.made and outcome.record.specification.agent_steps == 60
    assert [start.budget for start in outcome.record.starts] == [40, 60]
    assert contents(path) == contents(whole)
    with pytest.raises(UserError, match="60 agent steps, and 50"):
        made(counted("steps=50"))
    assert made(counted("steps=60")).made is False


def test_a_finished_run_without_a_checkpoint_cannot_be_extended_and_says_so(counted):
    made(counted("save_every=0"))
    with pytest.raises(UserError, match="without a checkpoint"):
        made(counted("save_every=0", "steps=60"))


def test_who_goes_on_with_other_versions_is_told_and_every_starts_versions_are_kept(counted, capsys, monkeypatch):
    installed = versions.versions()
    with monkeypatch.context() as patch, pytest.raises(RunFailed):
        patch.setattr(versions, "versions", lambda: {**installed, "mujoco": "3.2.3"})
        made(counted("fails_at=23"))
    making.carry_out(counted())
    told = capsys.readouterr().err
    assert f"mujoco 3.2.3, now {installed['mujoco']}" in told and "other versions" in told and "torch" not in told
    kept = record.read(counted().folder)
    mujoco = [kept.provenances[start.provenance].versions["mujoco"] for start in kept.starts]
    assert mujoco == ["3.2.3", installed["mujoco"]]


@pytest.mark.parametrize("words", [(), ("overwrite=true",)])
def test_a_folder_with_files_of_no_run_is_never_touched(counted, words):
    path = counted().folder
    path.mkdir(parents=True)
    (path / "thesis.tex").write_text("x")
    with pytest.raises(UserError, match="no run's"):
        made(counted(*words))
    assert [file.name for file in path.iterdir()] == ["thesis.tex"]


def test_a_folder_that_is_a_file_is_told(counted):
    path = counted().folder
    path.parent.mkdir(parents=True)
    path.write_text("x")
    with pytest.raises(UserError, match="is a file"):
        made(counted())
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("x")
    with pytest.raises(UserError, match="leads through a file"):
        made(counted())


def test_an_evaluations_name_is_free_again_unless_it_was_finished(counted):
    with pytest.raises(RunFailed):
        made(counted("fails_at=-1", kind=EVALUATE))
    assert made(counted(kind=EVALUATE)).made
    with pytest.raises(UserError, match="already holds a run .evaluate, finished"):
        made(counted(kind=EVALUATE))
    with pytest.raises(UserError, match="already holds a run .evaluate, finished"):
        made(counted())


def test_a_record_that_cannot_be_read_stops_the_run_in_words_and_overwrite_replaces_it(counted):
    path = made(counted()).folder
    (path / "run.json").write_text("{")
    with pytest.raises(UserError, match="run.json cannot be read"):
        made(counted())
    assert made(counted("overwrite=true")).made


def test_what_a_kill_left_of_replacing_a_run_blocks_nothing(counted):
    path = counted().folder
    (path / ".replaced-77").mkdir(parents=True)
    (path / ".replaced-77" / "run.json").write_text("{}")
    assert made(counted()).made and not (path / ".replaced-77").exists()


def test_replacing_a_run_takes_its_record_last(tmp_path, monkeypatch):
    for name in ("run.json", "train.log", "a.txt", "z.txt"):
        (tmp_path / name).write_text("x")
    order, replace = [], os.replace
    monkeypatch.setattr(os, "replace", lambda one, other: (order.append(os.path.basename(one)), replace(one, other)))
    folder.clear(tmp_path)
    assert order[-1] == "run.json" and len(order) == 4 and list(tmp_path.iterdir()) == []


# --------------------------------------------------------------------------------------------- as processes


def test_a_full_disk_is_told_and_the_same_command_goes_on_once_there_is_room(command, tmp_path):
    process = command("full_at=23")
    told, _ = process.communicate(timeout=60)
    assert process.returncode == 1 and "the disk is full" in told and "make room; the same command goes on" in told
    process = command()
    told, _ = process.communicate(timeout=60)
    assert process.returncode == 0, told
    assert [line.agent_steps for line in curve.lines_of(tmp_path / "logs/count/1/default/curve.jsonl")] == [
        10, 20, 30, 40,
    ]  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_saves_its_state_and_the_same_command_goes_on(number, command, tmp_path):
    path = tmp_path / "logs/count/1/default"
    process = command("pause=0.05", "save_every=1000")
    wait_for(lambda: (path / "curve.jsonl").exists(), process)
    process.send_signal(number)
    told, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in told and "the same command goes on" in told
    kept = record.read(path)
    assert kept.state == "interrupted" and kept.start.ended and kept.timing.steps >= 10
    saved = json.loads((path / "checkpoint.json").read_bytes())["step"]
    process = command()
    told, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and record.read(path).start.resumed_at == saved >= 10, told


def test_killed_at_any_moment_the_same_command_ends_with_the_uninterrupted_runs_bytes(command, counted, tmp_path):
    whole = made(counted("exp_name=whole", "steps=80")).folder
    path = tmp_path / "logs/count/1/default"
    words = ("steps=80", "pause=0.03")
    for lines in (0, 2, 5):
        process = command(*words)
        time.sleep(0.3)
        wait_for(lambda lines=lines: len(curve.lines_of(path / "curve.jsonl")) >= lines, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    process = command(*words)
    told, _ = process.communicate(timeout=60)
    assert process.returncode == 0, told
    assert contents(path) == contents(whole)
    kept = record.read(path)
    assert [one.step for one in kept.evaluations] == list(range(10, 81, 10))
    assert len(kept.starts) >= 2 and {start.state for start in kept.starts[:-1]} == {"interrupted"}
    assert {line.provenance for line in curve.lines_of(path / "curve.jsonl")} <= set(kept.provenances)


def test_of_two_starts_a_moment_apart_one_runs_and_the_other_says_who_does(command, tmp_path):
    first = command("pause=0.05")
    time.sleep(0.3)
    second = command("pause=0.05")
    told = [process.communicate(timeout=60)[0] for process in (first, second)]
    codes = (first.returncode, second.returncode)
    assert sorted(codes) == [0, 2], told
    assert "is being made by process" in told[codes.index(2)] and "no run's" not in told[codes.index(2)]
    kept = record.read(tmp_path / "logs/count/1/default")
    assert kept.state == "finished" and len(kept.starts) == 1 and len(kept.evaluations) == 4


def test_a_folder_in_which_a_run_is_just_beginning_is_held_and_not_strange(counted, monkeypatch):
    """Before the record of a run is written, other files of it may lie there."""
    plan = counted()
    with folder.held(plan.folder):
        (plan.folder / "config.yaml").write_text("")
        with pytest.raises(Held, match=f"process {os.getpid()} on"):
            made(plan)
