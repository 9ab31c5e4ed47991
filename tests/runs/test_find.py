"""Folders of runs are found one way, links followed, and what cannot be looked into is named."""

import os

import pytest

from tdmpc2_lean.runs import find
from tdmpc2_lean.runs.find import run_folders


def made(folder, name="run.json"):
    folder.mkdir(parents=True)
    (folder / name).write_text("{}")
    return folder


def test_a_folder_with_a_record_or_a_curve_is_a_runs_at_whatever_depth(tmp_path):
    deep = made(tmp_path / "p" / "default" / "seed-1")
    curve = made(tmp_path / "stray", "curve.jsonl")
    (tmp_path / "other").mkdir()
    assert run_folders(tmp_path).folders == (deep, curve)
    assert run_folders(deep).folders == (deep,)
    assert run_folders(tmp_path / "nowhere") == find.FoundRuns((), ())


def test_a_link_to_a_run_is_a_run_and_each_run_is_found_once(tmp_path):
    runs, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    here = made(runs / "z" / "seed-1")
    made(elsewhere / "seed-2")
    (runs / "linked").symlink_to(elsewhere / "seed-2")
    (runs / "again").symlink_to(elsewhere / "seed-2")
    (runs / "a").symlink_to(here)
    assert run_folders(runs).folders == (runs / "again", here)
    (tmp_path / "to-all").symlink_to(runs)
    assert len(run_folders(tmp_path / "to-all").folders) == 2


def test_a_loop_of_links_ends(tmp_path):
    run = made(tmp_path / "seed-1")
    (run / "up").symlink_to(tmp_path)
    (tmp_path / "here").symlink_to(".")
    assert run_folders(tmp_path).folders == (run,)


def test_what_cannot_be_looked_into_is_named(tmp_path, monkeypatch):
    run = made(tmp_path / "seed-1")
    made(tmp_path / "locked" / "seed-2")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("gone")
    scandir = os.scandir

    def refusing(place):
        if str(place).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(place))
        return scandir(place)

    monkeypatch.setattr(os, "scandir", refusing)
    found = run_folders(tmp_path)
    assert found.folders == (run,)
    assert [(one.path.name, one.why) for one in found.unreadable] == [
        ("locked", "Permission denied"),
        ("loop", "Too many levels of symbolic links"),
        ("nowhere", "No such file or directory"),
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission_is_named(tmp_path):
    locked = made(tmp_path / "locked")
    locked.chmod(0)
    try:
        assert [one.path for one in run_folders(tmp_path).unreadable] == [locked]
    finally:
        locked.chmod(0o700)


def test_what_a_kill_left_of_a_run_that_was_being_replaced_is_none(tmp_path):
    for path in (tmp_path / "run", tmp_path / "run" / ".replaced-77"):
        path.mkdir()
        (path / "run.json").write_text("{}")
    assert find.run_folders(tmp_path).folders == (tmp_path / "run",)
