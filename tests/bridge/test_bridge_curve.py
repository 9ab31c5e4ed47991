"""curve.jsonl: a line for every chunk of env steps, also over interruptions, and the figure of it."""

import json

import pytest

from dreamer_bridge import curve
from dreamer_bridge.curve import Recorder, keep_lines_until, read_lines
from tdmpc2_lean.runs import figure as figures
from tdmpc2_lean.runs import record

SCALES = {"dyn": 0.25, "rep": 0.1}


def recorder(path, chunk=100, repeat=2):
    return Recorder(path, chunk, repeat, SCALES, lambda: 7, lambda: 1.5)


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


def folder_of_a_run(folder, task="dmc_cartpole_balance", arm="full", release=None, lines=2):
    code = {"upstream": "dreamerv3", "commit": "e3f0224" + 33 * "0", "patches": [{}], "local_changes": []}
    kept = record.new(
        kind="train", task=task, seed=3, presets=[{"name": "smoke"}], flags=[], chunk=10_000, action_repeat=2,
        upstream=code | ({"release": release} if release else {}), arm={"name": arm, "rep": "keep", "loss_scales": {}},
    )  # fmt: skip
    record.write(folder, record.ended(kept, "finished", 0))
    made = recorder(folder / curve.FILE, 10_000)
    for number in range(lines):
        made.episode(10_000 * number + 1, 100.0 * number)
    made.end(10_000 * lines)
    return folder


def test_the_figure_says_n_seed_and_what_a_point_is_beside_the_published_curve(tmp_path):
    assert figures.draw_run(folder_of_a_run(tmp_path), curve.read_run) == tmp_path / "curve.png"
    image = (tmp_path / "curve.png").read_bytes()
    assert image.startswith(b"\x89PNG")
    for text in (b"n=1 (seed 3)", b"a single seed is a hypothesis", b"Published DreamerV3", b"training episodes"):
        assert text in image
    assert b"n=5 (seeds" in image and b"10,000 env steps" in image and b"eval.csv" not in image


def test_the_arm_and_the_release_are_named(tmp_path):
    run = curve.read_run(folder_of_a_run(tmp_path, arm="strip", release="3.3.1"))
    assert "arm strip" in run.settings and "release 3.3.1" in run.code
    assert run.task == "dmc_cartpole_balance" and run.reference == "dreamerv3_dmc_proprio"


def test_a_task_without_a_published_curve_says_so(tmp_path):
    run = curve.read_run(folder_of_a_run(tmp_path, task="dmc_dog_run"))
    assert "no published curve" in figures.caption([run], figures.published(run.task, run.reference))


def test_a_run_without_an_episode_gets_no_figure(tmp_path):
    assert figures.draw_run(folder_of_a_run(tmp_path, lines=0), curve.read_run) is None
