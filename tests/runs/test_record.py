"""run.json is written whole, read back as it was, and says when it cannot be."""

import json
import os
import subprocess
import sys

import pytest

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import record


def test_a_record_survives_the_disk(tmp_path):
    kept = record.new(kind="train", task="cheetah-run", seed=1, config={"lr": 3e-4, "name": "Ähre"})
    record.write(tmp_path, kept)
    assert record.read(tmp_path) == kept
    assert [path.name for path in tmp_path.iterdir()] == [record.FILE]


def test_every_key_of_the_schema_is_there_from_the_start_and_is_documented():
    kept = record.new(kind="train")
    assert list(kept) == record.FIELDS
    assert all(name in record.__doc__ for name in record.FIELDS)
    assert kept["state"] == "running" and kept["ended"] is None
    assert kept["packages"]["torch"] and kept["tdmpc2_lean"]["version"]


def test_a_key_outside_the_schema_is_refused():
    with pytest.raises(AssertionError, match="mistake"):
        record.new(mistake=1)


def test_the_end_adds_state_exit_code_and_duration():
    done = record.ended(record.new(kind="train"), "failed", 1, "why")
    assert (done["state"], done["exit_code"], done["error"]) == ("failed", 1, "why")
    assert done["seconds"] >= 0 and done["ended"] >= done["started"]


def test_a_failure_to_write_leaves_the_earlier_record(tmp_path, monkeypatch):
    record.write(tmp_path, record.new(kind="train", task="before"))
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError):
        record.write(tmp_path, record.new(kind="train", task="after"))
    assert record.read(tmp_path)["task"] == "before"


@pytest.mark.parametrize("content", [None, "{", "[]", json.dumps({"schema": 0})])
def test_what_is_no_record_is_told(tmp_path, content):
    if content is not None:
        (tmp_path / record.FILE).write_text(content)
    with pytest.raises(UserError):
        record.read(tmp_path)


def test_a_run_whose_process_is_gone_is_not_alive():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    kept = record.new(kind="train")
    assert record.is_alive(kept)
    assert not record.is_alive(kept | {"pid": gone.pid})
    assert not record.is_alive(kept | {"state": "finished"})
    assert record.is_alive(kept | {"pid": gone.pid, "host": "elsewhere"})
