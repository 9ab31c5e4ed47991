"""A run is made, skipped or refused, and what ends it early is told in words; nothing that was reached is lost."""

import copy
import json
import os
import signal

import pytest
import tiny

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import Held, Surroundings, folder_of, making, read_run
from tdmpc2_lean.runs import folder as folders
from tdmpc2_lean.validation.judging import protocols

WALKER = protocols.protocol("tdmpc2-walker-walk")


def earlier(out, entry=WALKER, presets=(), **changed):
    """The folder of a run that was made before."""
    folder = folder_of(out, entry.name, presets, 1)
    folder.mkdir(parents=True)
    record = {
        "protocol": entry.name,
        "seed": 1,
        "presets": list(presets),
        "preset_settings": {},
        "spec": entry.as_json(),
        "state": "finished",
    }
    folders.write_record(folder, copy.deepcopy(record) | changed)
    return folder


def test_a_finished_run_is_skipped(tmp_path):
    earlier(tmp_path)
    assert making.make(WALKER, 1, tmp_path) is False


def test_a_folder_of_another_specification_is_refused_with_the_keys_that_differ(tmp_path):
    spec = WALKER.as_json()
    spec["env_steps"] = 2
    spec["settings"]["utd"] = 2
    del spec["defaults"]["tau"]
    folder = earlier(tmp_path, spec=spec, preset_settings={"iterations": 3})
    before = (folder / "run.json").read_text()
    with pytest.raises(UserError) as told:
        making.make(WALKER, 1, tmp_path)
    for key in ("spec.env_steps", "settings.utd", "defaults.tau", "preset_settings"):
        assert key in told.value.message
    assert "settings.steps" not in told.value.message
    assert (folder / "run.json").read_text() == before


def test_a_run_that_somebody_makes_is_told(tmp_path):
    with folders.held(earlier(tmp_path)), pytest.raises(Held, match=f"process {os.getpid()} on"):
        making.make(WALKER, 1, tmp_path)


def test_a_preset_may_not_touch_what_the_protocol_fixes(tmp_path):
    with pytest.raises(UserError, match="steps, eval_freq"):
        making.make(WALKER, 1, tmp_path, ["smoke"])
    assert not any(tmp_path.iterdir())


def test_what_cannot_be_run_yet_is_refused_with_the_reason(tmp_path):
    for name in ("tdmpc2-playground-walker-walk", "dreamerv3-playground-dmc_walker_walk"):
        with pytest.raises(UserError, match="adapter"):
            making.make(protocols.protocol(name), 1, tmp_path)


def test_a_missing_gpu_is_told_and_nothing_is_used_in_its_place(tmp_path, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError) as told:
        making.make(WALKER, 1, tmp_path)
    assert "cuda:0" in told.value.message and "--smoke" in told.value.next_step
    assert folders.run_folders(tmp_path) == []


def test_a_preset_takes_the_place_of_the_protocols_setting(miniature, tmp_path):
    settings = making.settings_of(["ratio"], WALKER)
    assert settings == {"utd": 0.5, "batch_size": 512}
    cpu = Surroundings("cpu", False, 1, "miniature")
    plan = making.planned(WALKER, 1, tmp_path, ["ratio"], settings, cpu)
    expected = protocols.expected_settings(WALKER, {"presets": ["ratio"], "preset_settings": settings, "seed": 1})
    assert (plan.config["utd"], plan.config["batch_size"]) == (0.5, 512)
    for key in ("steps", "eval_freq", "eval_episodes", "model_size", "separate_eval", "iterations", "seed"):
        assert protocols.same(plan.config[key], expected[key]), key


def ended(process):
    output, _ = process.communicate(timeout=600)
    return process.returncode, output


def test_a_full_disk_is_told_and_the_run_goes_on_once_there_is_room(miniature, tmp_path):
    code, output = ended(tiny.start(tmp_path, "miniature", largest=100_000))
    assert code == 1 and "the disk is full" in output, output
    folder = tiny.folder(tmp_path)
    record = folders.read_record(folder)
    assert record["state"] == "failed" and "disk" in record["error"]
    assert not tiny.checkpoint(folder).exists() and not list(folder.rglob("*.new"))
    code, output = ended(tiny.start(tmp_path, "miniature"))
    assert code == 0, output
    run = read_run(folder)
    assert [line["agent_steps"] for line in run.lines] == [500, 1000] and not run.problems
    assert run.record["state"] == "finished" and run.record["attempts"] == 2
    assert {line["provenance"] for line in run.lines} <= set(run.record["provenances"])
    assert run.record["settings"]["seed_steps"] == 500 and run.record["settings"]["episode_length"] == 500
    assert 0 <= run.lines[0]["replay_bytes"] < run.lines[1]["replay_bytes"]
    assert [line["updates"] for line in run.lines] == [0, 10 + 49]
    assert run.lines[0]["returns"] == [pytest.approx(run.lines[0]["value"], rel=1e-5)]
    assert protocols.departures(run.record) != ()


def test_a_loss_that_is_not_finite_ends_the_run(miniature, tmp_path):
    code, output = ended(tiny.start(tmp_path, "miniature", minutes=15, lr=1e30))
    assert code == 1 and "training has diverged" in output and "agent step" in output, output
    run = read_run(tiny.folder(tmp_path))
    assert run.record["state"] == "failed" and "diverged" in run.record["error"]
    assert [line["agent_steps"] for line in run.lines] == [500]


@pytest.mark.slow
def test_an_interrupted_run_saves_its_state_before_it_stops(miniature, tmp_path):
    import time

    process = tiny.start(tmp_path, "miniature", minutes=15)
    folder = tiny.folder(tmp_path)
    while process.poll() is None and not (folder / "curve.jsonl").exists():
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGTERM)
    ended(process)
    assert folders.read_record(folder)["state"] == "interrupted"
    assert making.checkpoint_step(tiny.checkpoint(folder)) % 500 == 0 < making.checkpoint_step(tiny.checkpoint(folder))
    code, output = ended(tiny.start(tmp_path, "miniature", minutes=15))
    assert code == 0, output
    assert len(read_run(folder).lines) == 2


def test_a_checkpoint_that_cannot_be_read_is_told(tmp_path):
    path = tmp_path / "checkpoint.pt"
    assert making.checkpoint_step(path) == 0
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(UserError, match="cannot be read"):
        making.checkpoint_step(path)


def test_the_short_hash_names_a_provenance_whatever_the_order_of_its_keys():
    one = {"a": 1, "b": {"c": 2, "d": 3}}
    other = json.loads('{"b": {"d": 3, "c": 2}, "a": 1}')
    assert making.short_hash(one) == making.short_hash(other) != making.short_hash({"a": 1})
