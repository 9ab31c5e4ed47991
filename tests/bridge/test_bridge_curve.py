"""curve.jsonl: a line for every chunk of env steps, also over interruptions, and the figure of it."""

import json

import pytest

from dreamer_bridge.curve import ChunkRecorder, keep_lines_until, read_lines
from tdmpc2_lean.runs import curve as curves
from tdmpc2_lean.runs import figure, record
from tdmpc2_lean.runs.specification import PresetUse, Specification

SCALES = {"dyn": 0.25, "rep": 0.1}


def recorder(path, chunk=100, repeat=2):
    return ChunkRecorder(path, chunk, repeat, SCALES, lambda: 7, lambda: 1.5)


def test_returns_and_unscaled_losses_of_a_chunk_stand_in_its_line_with_the_scales(tmp_path):
    made = recorder(tmp_path / "c")
    made.update(50, {"loss/dyn": 4.0, "loss/rep": 1.0, "opt/lr": 9.0})
    made.episode(60, 10.0)
    made.episode(100, 20.0)
    made.update(100, {"loss/dyn": 2.0, "loss/rep": 1.0})
    assert read_lines(tmp_path / "c") == []
    made.episode(102, 99.0)
    (line,) = read_lines(tmp_path / "c")
    assert (line["chunk"], line["env_steps"], line["agent_steps"]) == (1, 100, 50)
    assert (line["value"], line["episodes"], line["returns"]) == (15.0, 2, [10.0, 20.0])
    assert line["losses"] == {"dyn": 3.0, "rep": 1.0} and line["scales"] == SCALES
    assert line["updates"] == 7 and line["complete"] is True


def test_a_chunk_without_an_episode_says_so(tmp_path):
    made = recorder(tmp_path / "c")
    made.episode(250, 5.0)
    first, second = read_lines(tmp_path / "c")
    assert first["value"] is second["value"] is None and first["episodes"] == 0
    assert (first["env_steps"], second["env_steps"]) == (100, 200)


@pytest.mark.parametrize("end, complete", [(200, [True, True]), (170, [True, False]), (202, [True, True])])
def test_the_end_of_a_run_writes_what_there_is(tmp_path, end, complete):
    made = recorder(tmp_path / "c")
    made.episode(90, 1.0)
    made.episode(150, 2.0)
    made.end(end)
    lines = read_lines(tmp_path / "c")
    assert [line["complete"] for line in lines] == complete
    assert lines[-1]["env_steps"] == min(end, 200) and lines[-1]["returns"] == [2.0]


def test_a_run_that_goes_on_in_the_middle_of_a_chunk_writes_what_an_uninterrupted_one_does(tmp_path):
    events = [(10 * n, float(n)) for n in range(1, 40)]

    def play(made, part):
        for step, value in part:
            made.update(step, {"loss/dyn": value})
            made.episode(step, value)

    whole = recorder(tmp_path / "whole")
    play(whole, events)
    whole.end(400)
    first = recorder(tmp_path / "parts")
    play(first, events[:13])
    saved = json.loads(json.dumps(first.save()))
    play(first, events[13:26])  # lost: after the checkpoint
    keep_lines_until(tmp_path / "parts", "chunk", saved["number"] - 1)
    second = recorder(tmp_path / "parts")
    second.load(saved)
    play(second, events[13:])
    second.end(400)

    def timeless(lines):
        return [{key: value for key, value in line.items() if key != "time"} for line in lines]

    assert timeless(read_lines(tmp_path / "parts")) == timeless(read_lines(tmp_path / "whole"))


def test_lines_beyond_a_step_and_broken_ones_are_dropped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 3}\nnonsense\n{"other": 1}\n{"step": 2}\n{"step": 2')
    keep_lines_until(path, "step", 2)
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'
    keep_lines_until(tmp_path / "absent", "step", 2)
    assert not (tmp_path / "absent").exists()


def test_every_line_is_one_of_the_projects_format(tmp_path):
    made = recorder(tmp_path / "c")
    made.update(50, {"loss/dyn": float("inf")})
    made.episode(60, 10.0)
    made.episode(105, 20.0)
    made.end(110)
    lines, faults = curves.read(tmp_path / "c")
    assert len(lines) == 2 and not faults
    assert lines[0].line.losses == {"dyn": None}


def test_lines_that_stay_keep_their_bytes(tmp_path):
    """The official code cuts the file back to the size that it had: other bytes would make a line of zeros of it."""
    path = tmp_path / "c"
    first, second = b'{"chunk":1,  "value": 1.50}\n', b'{"chunk": 2}\n'
    path.write_bytes(first + second)
    keep_lines_until(path, "chunk", 1)
    assert path.read_bytes() == first


def folder_of_a_run(folder, task="dmc_cartpole_balance", arm="full", release=None, lines=2):
    code = {
        "upstream": "dreamerv3", "commit": "e3f0224" + 33 * "0", "patches": [{"name": "seeding", "sha256": "0"}],
        "local_changes": [], "verified": True,
    }  # fmt: skip
    provenance = record.Provenance(code=code | ({"release": release} if release else {}))
    start = record.this_start("dreamer-bridge train", folder, provenance, "train.log")
    kept = record.RunRecord(
        kind="train",
        specification=Specification(
            upstream="dreamerv3", tasks=(task,), seed=3, presets=(PresetUse(name="smoke"),), arm=arm, chunk=10_000,
            action_repeat=2, agent_steps=10_000,
        ),
        starts=(start,),
        provenances={start.provenance: provenance},
    )  # fmt: skip
    record.write(folder, kept.ended("finished", 0))
    made = recorder(folder / curves.FILE, 10_000)
    for number in range(lines):
        made.episode(10_000 * number + 1, 100.0 * number)
    made.end(10_000 * lines)
    return folder


def test_the_figure_says_n_seed_and_what_a_point_is_beside_the_published_curve(tmp_path):
    assert figure.draw_run(folder_of_a_run(tmp_path)) == tmp_path / "curve.png"
    image = (tmp_path / "curve.png").read_bytes()
    assert image.startswith(b"\x89PNG")
    for text in (b"n=1 (seed 3)", b"a single seed is a hypothesis", b"Published DreamerV3", b"training episodes"):
        assert text in image
    assert b"n=5 (seeds" in image and b"10,000 env steps" in image and b"eval.csv" not in image


def test_the_arm_and_the_release_are_named(tmp_path):
    figure.draw_run(folder_of_a_run(tmp_path, arm="strip", release="3.3.1"))
    image = (tmp_path / "curve.png").read_bytes()
    assert b"arm strip" in image and b"release 3.3.1" in image and b"DreamerV3" in image


def test_a_task_without_a_published_curve_says_so(tmp_path):
    figure.draw_run(folder_of_a_run(tmp_path, task="dmc_dog_run"))
    assert b"no published curve" in (tmp_path / "curve.png").read_bytes()


def test_a_run_without_an_episode_gets_no_figure(tmp_path):
    assert figure.draw_run(folder_of_a_run(tmp_path, lines=0)) is None
