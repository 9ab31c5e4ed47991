"""`tdmpc2-lean validate` lists, refuses with the next step, and says how far runs are."""

import json

import pytest
from click.testing import CliRunner

from tdmpc2_lean.commands.validate import validate
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import folder as folders
from tdmpc2_lean.runs import folder_of, jobs
from tdmpc2_lean.runs.making import Surroundings
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


def test_a_criterions_name_stands_for_all_of_its_protocols():
    todo = jobs.jobs(["tdmpc2-dm_control"], [1, 2])
    assert len(todo) == 39 * 2
    assert len(jobs.jobs(["tdmpc2-dm_control", "tdmpc2-walker-walk"])) == 39 * 3


def test_a_campaign_passes_over_runs_that_are_finished_held_or_fail(tmp_path, monkeypatch):
    from tdmpc2_lean.runs.run import RunFailed

    def make(protocol, seed, out, *_):
        if seed == 1:
            raise folders.Held("held by process 7")
        if seed == 2:
            raise RunFailed("the disk is full")
        return False

    monkeypatch.setattr(jobs, "make", make)
    said = []
    became = jobs.run(jobs.jobs(["tdmpc2-walker-walk"]), tmp_path, (), Surroundings(), True, said.append)
    assert {outcome: [job.seed for job in those] for outcome, those in became.items()} == {
        jobs.MADE: [], jobs.SKIPPED: [3], jobs.ELSEWHERE: [1], jobs.FAILED: [2],
    }  # fmt: skip
    assert any("held by process 7" in line for line in said) and any("the disk is full" in line for line in said)
    with pytest.raises(folders.Held):
        jobs.run(jobs.jobs(["tdmpc2-walker-walk"], [1]), tmp_path, (), Surroundings(), True, said.append)


def test_status_says_how_far_runs_are_and_names_bad_lines(tmp_path):
    folder = folder_of(tmp_path, SMOKE.name, (), 1)
    folder.mkdir(parents=True)
    folders.write_record(folder, {"state": "running", "spec": SMOKE.as_json()})
    line = {"chunk": 2, "agent_steps": 1000, "env_steps": 2000, "value": 12.25, "episodes": 1, "updates": 1,
            "replay_bytes": 1, "seconds": 1}  # fmt: skip
    (folder / "curve.jsonl").write_text("nonsense\n" + json.dumps(line) + "\n")
    output = called("status", tmp_path).output
    assert "killed" in output and "chunk 2/3" in output and "return 12.2" in output
    assert "curve.jsonl:1: is no JSON" in output
    with folders.held(folder):
        assert "running" in called("status", tmp_path).output
    assert "validate run" in told("status", tmp_path / "nothing")
