"""A file that cannot be written is told before anything runs; tables are the same text wherever they are read."""

import os
import stat

import pytest
from click.testing import CliRunner

from tdmpc2_lean.commands.bench import bench
from tdmpc2_lean.commands.gate import gate
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.files import check_writable
from tdmpc2_lean.tables import table
from tdmpc2_lean.validation.gates import process, subjects

COMMANDS = {
    "gate run": (gate, ["run", "utd-count"]),
    "bench plan-vec": (bench, ["plan-vec"]),
    "bench presets": (bench, ["presets"]),
    "bench dreamerv3": (bench, ["dreamerv3"]),
}


@pytest.fixture
def places(tmp_path):
    """{what is wrong: (a path, what is told of it)}."""
    (tmp_path / "file").touch()
    return {
        "folder": (tmp_path, "is a folder"),
        "no parent": (tmp_path / "no" / "report.json", "does not exist"),
        "below a file": (tmp_path / "file" / "report.json", "which is a file"),
        "refused": ("/proc/report.json", "cannot be written"),
    }


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("wrong", ["folder", "no parent", "below a file", "refused"])
def test_an_output_that_cannot_be_written_is_told_before_anything_runs(places, monkeypatch, command, wrong):
    path, told = places[wrong]
    if wrong == "refused" and not os.path.isdir("/proc"):
        pytest.skip("this system has no folder in which nobody can put a file")
    for owner, name in ((subjects, "find_subject"), (process, "output_of"), (process, "start")):
        monkeypatch.setattr(owner, name, lambda *_, **__: pytest.fail("something ran"))
    group, words = COMMANDS[command]
    done = CliRunner().invoke(group, [*words, "--json", str(path)])
    assert isinstance(done.exception, UserError), done.exception
    assert told in done.exception.message and str(path) in done.exception.message and done.exception.next_step


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden to this user")
def test_a_folder_in_which_one_may_not_write_is_told(tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(UserError, match="cannot be written"):
        check_writable(tmp_path / "report.json", "--json")


def test_asking_leaves_nothing_behind_and_what_is_there_alone(tmp_path):
    (tmp_path / "old.json").write_text("old")
    for name in ("old.json", "new.json"):
        check_writable(tmp_path / name, "--json")
    check_writable("/dev/null", "--json")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"old.json": "old"}


def test_a_table_has_one_line_per_row_without_markup_or_spaces_at_the_end():
    rows = [("a", "1", "[bold]x[/] " + 300 * "y"), ("longer", "100", "")]
    assert table(("name", "n", "what"), rows, right=("n",)).splitlines() == [
        "name      n  what",
        "a         1  [bold]x[/] " + 300 * "y",
        "longer  100",
    ]


def test_a_table_is_fitted_to_a_terminal_by_its_last_column_and_loses_no_text():
    lines = table(("name", "what"), [("a gate", "one two three four five six")], width=20).splitlines()
    assert max(map(len, lines)) <= 20 and len(lines) > 2
    assert " ".join(line[8:].strip() for line in lines[1:]) == "one two three four five six"
