"""`tdmpc2-lean references` says what the references hold, and a user's slip ends in a suggestion."""

from importlib import metadata

import pytest
from click.testing import CliRunner

from tdmpc2_lean import cli, references, tables
from tdmpc2_lean.commands.references import references as command
from tdmpc2_lean.references import tasks


def output_of(*arguments: str) -> str:
    result = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_list_names_every_reference_with_tasks_files_and_units():
    output = output_of("list")
    rows = {line.split()[0]: line for line in output.splitlines() if line}
    for name in references.names():
        assert name in rows
    assert " 39 " in rows["tdmpc2_dmc"] and "results/tdmpc2/ (39 files)" in rows["tdmpc2_dmc"]
    assert " 18 " in rows["dreamerv3_dmc_proprio"]
    assert "env steps" in rows["steps:"] and "episode" in rows["returns:"]


def test_list_of_a_name_shows_its_source_notes_and_the_whole_task_map():
    output = output_of("list", "tdmpc2_dmc")
    assert references.load("tdmpc2_dmc").copyright in output
    assert all(note in output for note in references.load("tdmpc2_dmc").notes)
    rows = {line.split()[0]: line for line in output.splitlines() if line}
    for name, task in tasks.TDMPC2.items():
        assert (task.playground or task.why_not) in rows[name]


def test_show_prints_the_points_of_a_curve():
    rows = [line.split() for line in output_of("show", "cheetah-run").splitlines() if line]
    steps, returns, _ = references.curve("tdmpc2_dmc", "cheetah-run")
    points = [row for row in rows if row[0].isdigit()]
    assert [int(row[0]) for row in points] == list(steps)
    assert [float(row[2]) for row in points] == list(returns[1])
    assert float(points[5][4]) == pytest.approx(returns[:, 5].mean(), abs=0.06)


def test_show_prints_a_dash_for_a_point_that_the_source_lacks():
    last = output_of("show", "dog-run").splitlines()[-1].split()
    assert last[0] == "14000000" and last[3] == "-" and last[1] != "-"


def test_show_finds_the_upstream_by_the_tasks_name_and_takes_another_reference():
    assert "DreamerV3 on 18" in output_of("show", "dmc_hopper_hop", "--every", "10")
    assert "SAC" in output_of("show", "cheetah-run", "--reference", "tdmpc2_dmc_vs_sac")


def test_with_what_a_reference_was_made_is_shown_beside_what_is_here(monkeypatch):
    monkeypatch.setattr(metadata, "version", {"mujoco": "3.17.0", "dm_control": "1.0.50"}.__getitem__)
    assert "mujoco 2.3.1" in next(line for line in output_of("list").splitlines() if line.startswith("tdmpc2_dmc "))
    for output in (output_of("show", "cheetah-run"), output_of("list", "tdmpc2_dmc")):
        assert "made with: gym 0.21.0, mujoco 2.3.1" in output and "docker/environment.yaml" in output
        assert "here: mujoco 2.3.1 then, 3.17.0 now: another physics; returns differ" in output
    assert "made with: not known" in output_of("show", "cheetah-run", "--reference", "tdmpc2_dmc_vs_sac")


def test_on_a_terminal_a_list_is_no_wider_than_it(monkeypatch):
    monkeypatch.setattr(tables, "terminal_width", lambda: 80)
    assert max(map(len, output_of("list").split("\n\n")[0].splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["references", "show", "cheeta-run"], "Did you mean 'cheetah-run'?"),
        (["references", "show", "cheetah-run", "--reference", "tdmpc_dmc"], "Did you mean 'tdmpc2_dmc'?"),
        (["references", "list", "tdmpc2"], "There is no reference 'tdmpc2'"),
        (["references", "extract", "nowhere", "--to", "x"], "There is no folder nowhere"),
    ],
)
def test_a_slip_ends_with_exit_code_2_and_a_next_step(arguments, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    error = capsys.readouterr().err
    assert ended.value.code == 2 and said in error and "next:" in error
    assert list(tmp_path.iterdir()) == []
