"""A protocol's run is made, skipped or refused, and what ends it early is told in words; nothing reached is lost."""

import copy
import json
import os
import signal

import old_protocol
import pytest
import tiny_protocol as tiny

from tdmpc2_lean.campaigns import protocol_runs
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import curve, making, record
from tdmpc2_lean.runs import folder as folders
from tdmpc2_lean.runs.folder import Held, folder_of
from tdmpc2_lean.runs.plan import Conditions
from tdmpc2_lean.tdmpc2.adapter import ADAPTER, checkpoint_step
from tdmpc2_lean.validation.judging import protocols

WALKER = protocols.protocol("tdmpc2-walker-walk")
CPU = Conditions("cpu", False, 1, "miniature")


def planned(out, presets=(), protocol=WALKER):
    return protocol_runs.plan(protocol, 1, out, presets, CPU)


def finished(out, presets=(), protocol=WALKER):
    """The folder of a run that says it was made before, of the code that is here."""
    plan = planned(out, presets, protocol)
    provenance = record.provenance_of(plan.patched.provenance(), device=None, threads=None)
    start = record.this_start("", plan.cwd, provenance, "train.log", plan.specification.agent_steps)
    kept = making.new_record(plan, None, provenance, start).ended("finished", 0)
    plan.folder.mkdir(parents=True)
    record.write(plan.folder, kept)
    return plan.folder


def test_a_finished_run_is_skipped(tmp_path):
    finished(tmp_path)
    assert making.carry_out(planned(tmp_path)).made is False


def test_a_folder_of_another_specification_is_refused_with_the_keys_that_differ(tmp_path):
    import dataclasses

    other = dataclasses.replace(WALKER, settings={**WALKER.settings, "utd": 2, "eval_freq": 500})
    folder = finished(tmp_path, protocol=other)
    before = (folder / "run.json").read_text()
    with pytest.raises(UserError) as told:
        making.carry_out(planned(tmp_path))
    assert "utd (2, now 1)" in told.value.message and "chunk (1000, now " in told.value.message
    assert "tau" not in told.value.message and "--out" in told.value.next_step
    assert (folder / "run.json").read_text() == before


def test_an_earlier_versions_run_is_skipped_or_refused_by_its_entry(tmp_path):
    plan = planned(tmp_path)
    plan.folder.mkdir(parents=True)
    document = old_protocol.record(WALKER, plan)
    (plan.folder / "run.json").write_text(json.dumps(document))
    assert making.carry_out(plan).made is False
    other = copy.deepcopy(document)
    other["spec"]["settings"]["utd"] = 2
    del other["spec"]["defaults"]["tau"]
    other["preset_settings"] = {"iterations": 3}
    (plan.folder / "run.json").write_text(json.dumps(other))
    with pytest.raises(UserError) as told:
        making.carry_out(plan)
    for key in ("settings.utd", "defaults.tau", "preset_settings.iterations"):
        assert key in told.value.message
    assert "settings.steps" not in told.value.message


def test_a_run_that_somebody_makes_is_told(tmp_path):
    with folders.held(finished(tmp_path)), pytest.raises(Held, match=f"process {os.getpid()} on"):
        making.carry_out(planned(tmp_path))


def test_a_preset_may_not_touch_what_the_protocol_fixes(tmp_path):
    with pytest.raises(UserError, match="steps, eval_freq"):
        planned(tmp_path, ["smoke"])
    assert not any(tmp_path.iterdir())


def test_what_cannot_be_run_yet_is_refused_with_the_reason(tmp_path):
    for name in ("tdmpc2-playground-walker-walk", "dreamerv3-playground-dmc_walker_walk"):
        with pytest.raises(UserError, match="adapter"):
            planned(tmp_path, protocol=protocols.protocol(name))


def test_a_missing_gpu_is_told_and_nothing_is_used_in_its_place(tmp_path, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError) as told:
        protocol_runs.plan(WALKER, 1, tmp_path, (), Conditions(upstream="miniature"))
    assert "cuda:0" in told.value.message and "device=cpu" in told.value.next_step
    assert list(tmp_path.iterdir()) == []


def test_a_preset_takes_the_place_of_the_protocols_setting(tmp_path):
    assert protocol_runs.settings_of(ADAPTER, ["ratio"], WALKER) == {"utd": 0.5, "batch_size": 512}
    plan = planned(tmp_path, ["ratio"])
    assert (plan.configured["utd"], plan.configured["batch_size"]) == (0.5, 512)
    expected = {**WALKER.defaults, **WALKER.settings, "utd": 0.5, "batch_size": 512, "seed": 1}
    for key in ("steps", "eval_freq", "eval_episodes", "model_size", "separate_eval", "iterations", "seed"):
        assert plan.configured[key] == expected.get(key, plan.configured[key]), key
    assert dict(plan.preset_settings) == {"utd": 0.5, "batch_size": 512}
    assert plan.folder == folder_of(tmp_path, WALKER.name, ["ratio"], 1)


def ended(process):
    output, _ = process.communicate(timeout=600)
    return process.returncode, output


@pytest.mark.slow
def test_a_full_disk_is_told_and_the_run_goes_on_once_there_is_room(miniature, tmp_path):
    code, output = ended(tiny.start(tmp_path, "miniature", largest=100_000))
    assert code == 1 and "the disk is full" in output, output
    folder = tiny.folder(tmp_path)
    kept = record.read(folder)
    assert kept.state == "failed" and "disk" in kept.error
    assert not tiny.checkpoint(folder).exists() and not list(folder.rglob("*.new"))
    code, output = ended(tiny.start(tmp_path, "miniature"))
    assert code == 0, output
    kept, (numbered, faults) = record.read(folder), curve.read(folder / curve.FILE)
    lines = [each.line for each in numbered]
    assert [line.agent_steps for line in lines] == [500, 1000] and not faults
    assert kept.state == "finished" and [start.state for start in kept.starts] == ["failed", "finished"]
    assert {line.provenance for line in lines} <= set(kept.provenances)
    assert kept.settings["seed_steps"] == 500 and kept.settings["episode_length"] == 500
    assert 0 <= lines[0].replay_bytes < lines[1].replay_bytes
    assert [line.updates for line in lines] == [0, 10 + 49]
    assert lines[0].returns == (pytest.approx(lines[0].value, rel=1e-5),)
    assert kept.specification.protocol == "tdmpc2-tiny" and kept.protocol_entry["env_steps"] == 2000
    log = (folder / "train.log").read_text()
    assert "--- start 2" in log  # one log for all starts


@pytest.mark.slow
def test_a_loss_that_is_not_finite_ends_the_run(miniature, tmp_path):
    code, output = ended(tiny.start(tmp_path, "miniature", minutes=15, lr=1e30))
    assert code == 1 and "training has diverged" in output and "agent step" in output, output
    folder = tiny.folder(tmp_path)
    kept = record.read(folder)
    assert kept.state == "failed" and "diverged" in kept.error
    assert [line.agent_steps for line in curve.lines_of(folder / curve.FILE)] == [500]


@pytest.mark.slow
def test_an_interrupted_run_saves_its_state_before_it_stops(miniature, tmp_path):
    import time

    process = tiny.start(tmp_path, "miniature", minutes=15)
    folder = tiny.folder(tmp_path)
    while process.poll() is None and not (folder / "curve.jsonl").exists():
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGTERM)
    ended(process)
    assert record.read(folder).state == "interrupted"
    assert checkpoint_step(tiny.checkpoint(folder)) % 500 == 0 < checkpoint_step(tiny.checkpoint(folder))
    code, output = ended(tiny.start(tmp_path, "miniature", minutes=15))
    assert code == 0, output
    assert len(curve.lines_of(folder / curve.FILE)) == 2


def test_a_checkpoint_that_cannot_be_read_is_told(tmp_path):
    path = tmp_path / "checkpoint.pt"
    assert checkpoint_step(path) is None
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(UserError, match="cannot be read"):
        checkpoint_step(path)
