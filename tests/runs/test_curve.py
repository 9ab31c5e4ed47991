"""A curve's file says what is usable, and what is not and why; nothing that stands in it raises."""

import json

import pytest

from tdmpc2_lean.runs import curve


def line(step, **changed):
    return {
        "chunk": max(1, step // 500),
        "agent_steps": step,
        "env_steps": 2 * step,
        "value": 100.5,
        "episodes": 1,
        "updates": step,
        "replay_bytes": 1000,
        "seconds": 1.5,
        "provenance": "12345678",
        "time": "2026-01-01T00:00:00+00:00",
    } | changed


def write(folder, *texts):
    (folder / curve.FILE).write_text("".join(texts))
    return folder / curve.FILE


def whole(step, **changed):
    return json.dumps(line(step, **changed)) + "\n"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{\n", "is no JSON"),
        ("[]\n", "is no JSON object"),
        ("[" * 100_000 + "\n", "is no JSON"),
        (whole(1000, value=float("nan")), "value is nan"),
        (whole(1000, value="high"), "value is 'high'"),
        (whole(1000, agent_steps=1000.5), "agent_steps is 1000.5"),
        (whole(1000, episodes=True), "episodes is True"),
        (whole(500), "repeats line 1 (1000 env steps)"),
        (whole(1000, unheard_of=1), "unheard_of is unknown"),
    ],
)
def test_a_bad_line_is_named_with_its_number_and_the_rest_is_read(tmp_path, text, fault):
    path = write(tmp_path, whole(500), text, whole(1500))
    found, faults = curve.read(path)
    assert [each.line.agent_steps for each in found] == [500, 1500]
    (told,) = faults
    assert told.number == 2 and told.left_out and told.what.startswith(fault), told


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (whole(400), "is out of order: 800 env steps after 1000"),
        (whole(500, value=3.0), "contradicts line 1: 100.5 and 3.0 at 1000 env steps"),
    ],
)
def test_a_line_that_does_not_fit_is_named_and_kept(tmp_path, text, fault):
    found, faults = curve.read(write(tmp_path, whole(500), text))
    assert len(found) == 2 and [(one.number, one.what, one.left_out) for one in faults] == [(2, fault, False)]


@pytest.mark.parametrize("cut", [1, 10, len(whole(1000)) - 2])
def test_a_line_cut_short_is_dropped(tmp_path, cut):
    path = write(tmp_path, whole(500), whole(1000)[:cut])
    found, faults = curve.read(path)
    assert [each.line.agent_steps for each in found] == [500] and "cut short" in faults[0].what
    assert curve.keep_lines_before(path, 10_000) == 1
    assert len(path.read_text().splitlines()) == 1 and path.read_text().endswith("\n")


def test_lines_at_or_beyond_the_checkpoint_are_dropped(tmp_path):
    path = write(tmp_path, whole(500), whole(1000), whole(1500))
    # What is saved at step 1000 goes on with the evaluation of step 1000.
    assert curve.keep_lines_before(path, 1000) == 1
    assert curve.keep_lines_before(path, 0) == 0
    assert path.read_text() == ""


def test_a_curve_in_order_is_not_rewritten(tmp_path):
    path = write(tmp_path, whole(500), whole(1000))
    before = path.stat().st_ino
    assert curve.keep_lines_before(path, 1001) == 2
    assert path.stat().st_ino == before


def test_a_chunk_in_which_no_episode_ended_has_no_value(tmp_path):
    found, faults = curve.read(write(tmp_path, whole(500, value=None, episodes=0)))
    assert found[0].line.value is None and not faults


def test_a_long_curve_is_read_in_time_that_grows_with_its_length(tmp_path):
    """20 thousand lines, each repeated at the end: compared with each other they would be 400 million pairs."""
    import time

    texts = [whole(step) for step in range(1, 20_001)]
    path = write(tmp_path, *texts, *texts)
    began = time.process_time()
    found, faults = curve.read(path)
    assert len(found) == 20_000 == len(faults)
    assert time.process_time() - began < 15
