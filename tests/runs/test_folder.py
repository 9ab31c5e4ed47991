"""A run's folder says what is usable, what is not and why, and who holds it."""

import json
import os
import subprocess
import sys
import time

import pytest

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import Held, folder_of, read_run
from tdmpc2_lean.runs import folder as folders


def line(step, **changed):
    return {
        "chunk": step // 500,
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
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_text("{}")
    (folder / "curve.jsonl").write_text("".join(texts))


def whole(step, **changed):
    return json.dumps(line(step, **changed)) + "\n"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{\n", "curve.jsonl:2: is no JSON"),
        ("[]\n", "curve.jsonl:2: is no JSON object"),
        (whole(1000, value=float("nan")), "curve.jsonl:2: value is nan"),
        (whole(1000, value=None), "curve.jsonl:2: value is None"),
        (whole(1000, agent_steps=1000.5), "curve.jsonl:2: agent_steps is 1000.5"),
        (whole(1000, episodes=True), "curve.jsonl:2: episodes is True"),
        (whole(500), "curve.jsonl:2: repeats 500 agent steps"),
        (whole(400), "curve.jsonl:2: is out of order: 400 agent steps after 500"),
    ],
)
def test_a_bad_line_is_named_with_file_and_line_and_the_rest_is_read(tmp_path, text, fault):
    write(tmp_path, whole(500), text, whole(1500))
    read = read_run(tmp_path)
    assert [one["agent_steps"] for one in read.lines] == [500, 1500]
    assert any(problem.endswith(fault) for problem in read.problems), read.problems


@pytest.mark.parametrize("cut", [1, 10, len(whole(1000)) - 1])
def test_a_line_cut_short_is_dropped(tmp_path, cut):
    write(tmp_path, whole(500), whole(1000)[:cut])
    assert [one["agent_steps"] for one in read_run(tmp_path).lines] == [500]
    assert folders.keep_lines_before(tmp_path, 10_000) == 1
    assert (tmp_path / "curve.jsonl").read_text() == whole(500)


def test_lines_at_or_beyond_the_checkpoint_are_dropped(tmp_path):
    write(tmp_path, whole(500), whole(1000), whole(1500))
    # What is saved at step 1000 goes on with the evaluation of step 1000.
    assert folders.keep_lines_before(tmp_path, 1000) == 1
    assert folders.keep_lines_before(tmp_path, 0) == 0
    assert (tmp_path / "curve.jsonl").read_text() == ""


def test_a_curve_in_order_is_not_rewritten(tmp_path):
    write(tmp_path, whole(500), whole(1000))
    before = (tmp_path / "curve.jsonl").stat().st_ino
    assert folders.keep_lines_before(tmp_path, 1001) == 2
    assert (tmp_path / "curve.jsonl").stat().st_ino == before


def test_a_failed_write_leaves_the_earlier_file(tmp_path, monkeypatch):
    folders.write_record(tmp_path, {"state": "running"})
    monkeypatch.setattr(os, "fsync", lambda file: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError):
        folders.write_record(tmp_path, {"state": "finished"})
    assert folders.read_record(tmp_path) == {"state": "running"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json"]


def test_a_record_that_is_no_json_is_told(tmp_path):
    write(tmp_path, whole(500))
    (tmp_path / "run.json").write_text('{"protocol": ')
    assert any("run.json" in problem for problem in read_run(tmp_path).problems)
    with pytest.raises(UserError, match="run.json"):
        folders.read_record(tmp_path)


def test_presets_have_a_folder_of_their_own(tmp_path):
    assert folder_of(tmp_path, "p", (), 1) == tmp_path / "p" / "default" / "seed-1"
    assert folder_of(tmp_path, "p", ("fast", "depth"), 2) == tmp_path / "p" / "fast+depth" / "seed-2"


HOLD = """
import sys, time
from pathlib import Path
from tdmpc2_lean.runs import folder
with folder.held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_second_process_is_told_who_holds_the_run_and_takes_over_when_it_is_killed(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "held\n"
        assert folders.is_held(tmp_path)
        with pytest.raises(Held, match=f"process {process.pid} on "), folders.held(tmp_path):
            pass
    finally:
        process.kill()
        process.communicate()
    assert not folders.is_held(tmp_path)
    with folders.held(tmp_path):
        pass
    assert not (tmp_path / "holder.json").exists()


def test_where_locks_do_not_reach_a_sign_of_life_from_another_machine_counts(tmp_path):
    there = {"pid": 7, "host": "another-machine", "since": "2026-01-01T00:00:00+00:00"}
    (tmp_path / "holder.json").write_text(json.dumps(there))
    assert folders.is_held(tmp_path) is False  # without a lock's file nobody has begun
    with pytest.raises(Held, match="process 7 on another-machine"), folders.held(tmp_path):
        pass
    assert folders.is_held(tmp_path)
    long_ago = time.time() - folders.DEAD_AFTER - 1
    os.utime(tmp_path / "holder.json", (long_ago, long_ago))
    assert not folders.is_held(tmp_path)
    with folders.held(tmp_path):
        assert "another-machine" not in (tmp_path / "holder.json").read_text()
