"""Many runs, one after another: one that fails ends none of the others, and the same command makes what is missing."""

import json

import pytest

from tdmpc2_lean.commands import making as commands
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import folder, jobs, making, record, sweeps
from tdmpc2_lean.runs.plan import Request
from tdmpc2_lean.runs.watching import RunFailed


def sweep(counted, *words, tell=lambda text: None):
    """The results of `train --multirun` with these words."""
    import counting

    folder_of_words = counted().cwd
    requests = sweeps.requests(Request(words, cwd=folder_of_words), ())
    plans = [counting.ADAPTER.plan(one) for one in requests]
    sweeps.check_folders(plans)
    todo = [jobs.Job(commands.label(plan), lambda plan=plan: plan) for plan in plans]
    return jobs.run_all(todo, quiet=True, tell=tell)


def became(results):
    return [result.became for result in results]


def test_one_failed_run_does_not_end_the_rest_and_the_same_sweep_makes_what_is_missing(counted):
    path = counted("seed=2").folder
    path.mkdir(parents=True)
    (path / "thesis.tex").write_text("x")
    said = []
    first = sweep(counted, "seed=1,2,3", tell=said.append)
    assert became(first) == [jobs.MADE, jobs.FAILED, jobs.MADE]
    assert any("no run's" in text for text in said) and jobs.counted(first) == "2 finished; 1 failed"
    (path / "thesis.tex").unlink()
    again = sweep(counted, "seed=1,2,3")
    assert became(again) == [jobs.SKIPPED, jobs.MADE, jobs.SKIPPED]


def test_adding_a_seed_to_a_finished_sweep_makes_that_one(counted):
    sweep(counted, "seed=1,2")
    assert became(sweep(counted, "seed=1,2,3")) == [jobs.SKIPPED, jobs.SKIPPED, jobs.MADE]


def test_a_run_that_somebody_else_makes_is_passed_over(counted):
    with folder.held(counted("seed=1").folder):
        results = sweep(counted, "seed=1,2")
    assert became(results) == [jobs.ELSEWHERE, jobs.MADE] and "is being made by" in results[0].told


def test_a_disk_that_is_full_for_one_run_does_not_end_the_rest(counted, monkeypatch):
    carry_out = making.carry_out

    def full_for_the_first(plan, quiet):
        if plan.specification.seed == 1:
            raise OSError(28, "No space left on device", "run.json")
        return carry_out(plan, quiet=quiet)

    monkeypatch.setattr(making, "carry_out", full_for_the_first)
    assert became(sweep(counted, "seed=1,2")) == [jobs.FAILED, jobs.MADE]


def test_what_a_single_run_ends_with_is_raised_and_an_interruption_always_is(counted, monkeypatch):
    with pytest.raises(RunFailed):
        sweep(counted, "fails_at=-1")
    monkeypatch.setattr(making, "carry_out", lambda plan, quiet: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        sweep(counted, "seed=1,2")


def test_the_table_of_a_sweep_has_a_line_for_each_run_with_its_return_or_what_it_failed_of(counted):
    with folder.held(counted("seed=2").folder):
        lines = jobs.table(sweep(counted, "seed=1,2"))
    kept = record.read(counted("seed=1").folder)
    assert f"return {kept.evaluations[-1].episode_reward:.1f}" in lines[0] and "steps/s" in lines[0]
    assert "is being made by process" in lines[1] and len(lines) == 2


def test_a_sweeps_runs_lie_in_folders_of_their_own_named_after_what_varies(counted):
    import counting

    requests = sweeps.requests(Request(("seed=1,2", "lr=0.5,0.25", "steps=20"), cwd=counted().cwd), ())
    folders = [counting.ADAPTER.plan(one).folder.relative_to(counted().cwd).as_posix() for one in requests]
    assert folders == [f"logs/count/{seed}/default,lr={lr}" for seed in (1, 2) for lr in (0.5, 0.25)]
    with pytest.raises(UserError, match="same folder"):
        sweep(counted, "lr=0.5,0.25", 'exp_name="x"')


def test_commas_of_our_own_words_are_no_sweep_and_repeated_values_are_one_run():
    found = sweeps.requests(Request(("lean=a,b", "seed=1,1,2", "lr=[1,2]")), ("lean", "threads"))
    assert [one.words for one in found] == [("lean=a,b", f"seed={seed}", "lr=[1,2]") for seed in (1, 2)]
    assert all(one.name_suffix == "" for one in found)
    with pytest.raises(UserError, match="Hydra"):
        sweeps.requests(Request(("lr=1,(2",)), ())


# ------------------------------------------------------------------------------------- the command around them


def test_the_command_of_a_sweep_ends_with_its_table_and_one_figure_of_what_is_finished(command, tmp_path):
    process = command("--multirun", "--quiet", "seed=1,2,3")
    told, _ = process.communicate(timeout=100)
    assert process.returncode == 0, told
    assert "3 finished" in told.splitlines()
    assert sum("  return " in line for line in told.splitlines()) == 3


def test_a_picture_that_cannot_be_drawn_fails_no_sweep(tmp_path, monkeypatch, capsys):
    def broken(folders, path):
        raise ValueError("no display")

    monkeypatch.setattr(commands.figure, "draw_together", broken, raising=False)
    commands.joint_figure([tmp_path / "a", tmp_path / "b"], tmp_path)
    assert "curves.png could not be drawn: no display" in capsys.readouterr().err
    drawn = []
    monkeypatch.setattr(commands.figure, "draw_together", lambda *given: drawn.append(given), raising=False)
    commands.joint_figure([tmp_path / "a", tmp_path / "b"], tmp_path)
    assert drawn == [([tmp_path / "a", tmp_path / "b"], tmp_path / "curves.png")]
    commands.joint_figure([tmp_path / "a"], tmp_path)
    assert len(drawn) == 1


def test_a_run_that_failed_in_a_sweep_gives_exit_code_1(counted, tmp_path, monkeypatch):
    import counting

    path = counted("seed=2").folder
    path.mkdir(parents=True)
    (path / "thesis.tex").write_text("x")
    monkeypatch.setattr(commands, "joint_figure", lambda folders, where: None)
    request = Request(("seed=1,2",), cwd=counted().cwd)
    options = {"multirun": True, "dry_run": False, "quiet": True}
    assert commands.train(counting.ADAPTER, request, (), **options) == 1
    (path / "thesis.tex").unlink()
    assert commands.train(counting.ADAPTER, request, (), **options) == 0


def test_a_dry_run_of_a_sweep_shows_every_plan_and_makes_nothing(counted, capsys):
    import counting

    request = Request(("seed=1,2",), cwd=counted().cwd)
    assert commands.train(counting.ADAPTER, request, (), multirun=True, dry_run=True, quiet=False) == 0
    assert capsys.readouterr().out.count("folder") == 2 and not counted().folder.exists()


def test_a_dry_run_says_what_the_command_would_do_with_the_folder(counted, capsys):
    import counting

    def told(*words):
        request = Request(words, cwd=counted().cwd)
        code = commands.train(counting.ADAPTER, request, (), multirun=False, dry_run=True, quiet=False)
        return code, capsys.readouterr().out.splitlines()[-2:]

    assert told() == (0, [f"folder        {counted().folder}", "run           begins"])
    with pytest.raises(RunFailed):
        making.carry_out(counted("fails_at=23"), quiet=True)
    assert told()[1][-1] == "run           goes on at agent step 20"
    with folder.held(counted().folder):
        assert "is being made by process" in told()[1][-1]
    code, lines = told("lr=2")
    assert code == 2 and "another specification" in lines[0] and lines[1].startswith("  next: ")
    making.carry_out(counted(), quiet=True)
    assert told()[1][-1] == "run           is finished"
    assert told("steps=60")[1][-1] == "run           goes on at agent step 40"


def test_one_corrupt_record_stops_no_other_run(counted):
    path = sweep(counted, "seed=1")[0].outcome.folder
    (path / record.FILE).write_text(json.dumps({"schema": 2, "kind": []}))
    results = sweep(counted, "seed=1,2")
    assert became(results) == [jobs.FAILED, jobs.MADE] and "run.json is no run record" in results[0].told
