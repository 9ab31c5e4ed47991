"""`tdmpc2-lean validate` lists, refuses with the next step, and says how far runs are."""

import json

import pytest
from click.testing import CliRunner

from tdmpc2_lean.campaigns import protocol_runs
from tdmpc2_lean.commands.validate import validate
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import folder as folders
from tdmpc2_lean.runs import jobs, making, record
from tdmpc2_lean.runs.folder import folder_of
from tdmpc2_lean.runs.plan import Conditions
from tdmpc2_lean.validation.judging import protocols

SMOKE = protocols.protocol("tdmpc2-smoke")


def called(*words):
    return CliRunner().invoke(validate, list(map(str, words)), standalone_mode=False)


def told(*words):
    """The error that a call ends with."""
    error = called(*words).exception
    assert isinstance(error, UserError), error
    return str(error)


def test_list_shows_every_protocol_with_budget_and_seeds_or_why_not():
    output = called("list").output
    assert len(output.splitlines()) == len(protocols.registry())
    assert "tdmpc2-humanoid-run" in output
    row = next(line for line in output.splitlines() if line.startswith("tdmpc2-humanoid-run "))
    assert "14M" in row and "1,2,3" in row
    row = next(line for line in output.splitlines() if line.startswith("dreamerv3-dmc_walker_walk "))
    assert "500K" in row and "0,1,2,3,4" in row and "cannot be run" not in row
    assert called("list", "humanoid", "playground").output.count("\n") == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run"], "--smoke"),
        (["run", "tdmpc2-walker-wlak"], "tdmpc2-walker-walk"),
        (["run", "tdmpc2-playground-walker-walk"], "adapter"),
        (["run", "dreamerv3-playground"], "adapter"),
        (["run", "tdmpc2-walker-walk", "--seeds", "1,x"], "--seeds 1,2,3"),
        (["run", "tdmpc2-walker-walk", "--seeds", "7"], "never judged"),
        (["run", "tdmpc2-walker-walk", "--lean", "fsat"], "fast"),
        (["run", "--smoke", "tdmpc2-walker-walk"], "without names"),
        (["list", "nothing-like-it"], "validate list"),
    ],
)
def test_a_mistake_is_told_with_what_to_do(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert said in told(*words)


def test_a_criterions_name_stands_for_all_of_its_protocols(tmp_path):
    todo = protocol_runs.jobs(["tdmpc2-dm_control"], tmp_path, seeds=[1, 2])
    assert len(todo) == 39 * 2
    assert len(protocol_runs.jobs(["tdmpc2-dm_control", "tdmpc2-walker-walk"], tmp_path)) == 39 * 3


def test_a_campaign_passes_over_runs_that_are_finished_held_or_fail(tmp_path, monkeypatch):
    from tdmpc2_lean.runs.watching import RunFailed

    def carry_out(plan, quiet):
        seed = plan.specification.seed
        if seed == 1:
            raise folders.Held("held by process 7")
        if seed == 2:
            raise RunFailed("the disk is full")
        return making.Outcome(plan.folder, None, made=False)

    monkeypatch.setattr(making, "carry_out", carry_out)
    conditions = Conditions("cpu", False, 1, "miniature")
    todo = protocol_runs.jobs(["tdmpc2-walker-walk"], tmp_path, conditions=conditions)
    said = []
    results = jobs.run_all(todo, quiet=True, tell=said.append)
    assert [(result.became, result.job.label[-1]) for result in results] == [
        (jobs.ELSEWHERE, "1"), (jobs.FAILED, "2"), (jobs.SKIPPED, "3"),
    ]  # fmt: skip
    assert any("held by process 7" in line for line in said) and any("the disk is full" in line for line in said)
    with pytest.raises(folders.Held):
        jobs.run_all(todo[:1], quiet=True, tell=said.append)


def test_one_corrupt_record_does_not_stop_the_other_agents_smoke_run(tmp_path, monkeypatch):
    from tdmpc2_lean.commands import validate as module

    monkeypatch.setattr(module, "smokes", lambda upstream: ("tdmpc2-smoke", "dreamerv3-smoke"))
    made = []
    carry_out = making.carry_out

    def tdmpc2_alone(plan, quiet):
        if plan.specification.upstream == "dreamerv3":
            made.append(plan.folder)
            return making.Outcome(plan.folder, None)
        return carry_out(plan, quiet=quiet)

    folder = folder_of(tmp_path, "tdmpc2-smoke", (), 1)
    folder.mkdir(parents=True)
    (folder / "run.json").write_text('{"schema": 2, ')
    monkeypatch.setattr(making, "carry_out", tdmpc2_alone)
    monkeypatch.setattr(protocol_runs, "plan", plan_of_any(protocol_runs.plan))
    found = called("run", "--smoke", "--out", tmp_path)
    assert found.exception is None and found.return_value == 1, found.output
    assert "run.json cannot be read" in found.output and "1 finished; 1 failed" in found.output and len(made) == 1


def test_the_smoke_run_of_an_agent_whose_packages_are_absent_is_left_out_with_a_note(monkeypatch, capsys):
    from tdmpc2_lean.commands import validate as module
    from tdmpc2_lean.runs import adapter

    monkeypatch.setattr(adapter, "is_available", lambda upstream: upstream == "tdmpc2")
    assert module.smokes(None) == ("tdmpc2-smoke",)
    told = capsys.readouterr().err
    assert "dreamerv3-smoke is not run" in told and "pip install 'tdmpc2_lean[dreamer]'" in told
    assert module.smokes("miniature") == ("tdmpc2-smoke",)


def plan_of_any(plan):
    """As `protocol_runs.plan`, but that it needs neither the official code nor packages of DreamerV3's."""
    import dataclasses

    def planned(protocol, seed, out, presets, conditions):
        found = plan(SMOKE, seed, out, presets, dataclasses.replace(conditions, upstream="miniature"))
        what = found.specification.model_copy(update={"upstream": protocol.agent})
        folder = folder_of(out, protocol.name, presets, seed)
        return dataclasses.replace(found, specification=what, folder=folder, fixed=protocol)

    return planned


def written(folder, state="running"):
    """run.json of a smoke run."""
    plan = protocol_runs.plan(SMOKE, 1, folder.parent, (), Conditions(upstream="miniature", threads=1))
    provenance = record.provenance_of(plan.patched.provenance(), device=None, threads=None)
    start = record.this_start("", plan.cwd, provenance, "train.log")
    folder.mkdir(parents=True)
    record.write(folder, making.new_record(plan, None, provenance, start).changed(state=state))


def test_status_says_how_far_runs_are_and_names_bad_lines(tmp_path):
    folder = folder_of(tmp_path, SMOKE.name, (), 1)
    written(folder)
    line = {"chunk": 2, "agent_steps": 1000, "env_steps": 2000, "value": 12.25, "episodes": 1, "updates": 1,
            "replay_bytes": 1, "seconds": 1}  # fmt: skip
    (folder / "curve.jsonl").write_text("nonsense\n" + json.dumps(line) + "\n")
    output = called("status", tmp_path).output
    assert "killed" in output and "chunk 2/3" in output and "return 12.2" in output
    assert "curve.jsonl:1: is no JSON" in output
    with folders.held(folder):
        assert "running" in called("status", tmp_path).output


@pytest.mark.parametrize("content", ["", "{", "[]", "[" * 100_000, '{"schema": 2, "kind": 5}', '{"schema": 9}'])
def test_status_names_a_record_that_is_none_and_shows_the_others(tmp_path, content):
    written(folder_of(tmp_path, SMOKE.name, (), 1), "finished")
    (tmp_path / "corrupt").mkdir()
    (tmp_path / "corrupt" / "run.json").write_text(content)
    found = called("status", tmp_path)
    assert found.exception is None and "finished" in found.output
    assert "corrupt" in found.output and "unreadable" in found.output and "run.json" in found.output


def test_status_of_a_folder_without_runs_says_how_to_make_some(tmp_path):
    assert "validate run" in told("status", tmp_path / "nothing")
