"""`validate report` exits with a verdict, or with a code that is no verdict's."""

import dataclasses
import subprocess
import sys

import pytest
import written_runs

from tdmpc2_lean import cli
from tdmpc2_lean.validation import report
from tdmpc2_lean.validation.judging import criteria, findings, reading, synthetic

SHARED = criteria.criterion("tdmpc2-dm_control-shared")
ONE = dataclasses.replace(criteria.criterion("tdmpc2-dm_control"), tasks=("cheetah-run",))


def exit_code(*arguments):
    with pytest.raises(SystemExit) as ended:
        cli.main(["validate", "report", *map(str, arguments)])
    return ended.value.code


@pytest.fixture
def some_runs(tmp_path):
    for run in synthetic.runs(ONE):
        written_runs.write(tmp_path / "runs", ONE, run)
    return tmp_path / "runs"


@pytest.mark.parametrize(
    "arguments",
    [(), ("nowhere",), ("empty",), ("empty", "--out"), ("empty", "--nonsense"), ("file",),
     ("empty", "--criterion", "nonsense")],
)  # fmt: skip
def test_what_keeps_from_a_verdict_exits_with_3_which_is_no_verdicts(tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    assert exit_code(*arguments) == 3
    assert "Traceback" not in capsys.readouterr().err
    assert 3 not in criteria.EXIT_CODES.values()


def test_a_report_that_cannot_be_written_exits_with_3(some_runs, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert exit_code(some_runs, "--out", tmp_path / "file" / "out") == 3
    assert "cannot be written" in capsys.readouterr().err


def test_a_fault_of_ours_exits_with_3_and_not_as_a_fail(some_runs, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(findings, "report", broken)
    assert exit_code(some_runs, "--out", tmp_path / "out") == 3


def test_runs_of_which_nothing_is_judged_are_incomplete(some_runs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(report, "save", lambda *_: None)
    assert exit_code(some_runs, "--out", tmp_path / "out") == 2
    assert "INCOMPLETE" in capsys.readouterr().out


def test_the_exit_code_reaches_the_shell(tmp_path):
    command = [sys.executable, "-m", "tdmpc2_lean", "validate", "report", str(tmp_path / "nowhere")]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 3
    assert ended.stderr.startswith(f"error: There is no folder {tmp_path / 'nowhere'}")


def test_a_folder_of_linked_runs_is_judged_as_the_runs_are(some_runs, tmp_path):
    (tmp_path / "links").mkdir()
    for number, path in enumerate(sorted(some_runs.rglob("seed-*"))):
        (tmp_path / "links" / f"{number}").symlink_to(path)
    found = findings.report(reading.read(tmp_path / "links"), {ONE.name: ONE}, resamples=2)
    assert (found.state, len(found.subjects)) == ("PASS", 3)


def test_a_folder_that_cannot_be_looked_into_is_named(some_runs):
    (some_runs / "loop").symlink_to("loop")
    found = findings.report(reading.read(some_runs), {ONE.name: ONE}, resamples=2)
    assert [(fault.file, fault.what) for fault in found.complaints] == [
        ("loop", "cannot be read: Too many levels of symbolic links")
    ]


def test_status_finds_the_runs_that_the_report_judges_and_names_what_it_cannot_look_into(some_runs, tmp_path, capsys):
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "linked").symlink_to(next(some_runs.rglob("seed-1")))
    (tmp_path / "links" / "loop").symlink_to("loop")
    with pytest.raises(SystemExit) as ended:
        cli.main(["validate", "status", str(tmp_path / "links")])
    said = capsys.readouterr()
    assert ended.value.code == 0 and said.out.startswith("linked  ")
    assert "loop cannot be read: Too many levels of symbolic links" in said.err
    assert [one.name for one in reading.read(tmp_path / "links").folders] == ["linked"]


# Like for like


def test_the_shared_criterion_judges_dm_control_on_playgrounds_tasks():
    playground = criteria.criterion("tdmpc2-playground")
    assert (SHARED.tasks, SHARED.physics, len(SHARED.tasks)) == (playground.tasks, "dm_control", 22)
    assert (SHARED.reference, SHARED.seeds, SHARED.every) == (playground.reference, playground.seeds, playground.every)
    assert not SHARED.decides and SHARED.name in playground.caveat and "dm_control" in playground.caveat
    assert not criteria.criterion("tdmpc2-dm_control").caveat


def test_the_shared_verdict_stands_beside_the_one_on_all_tasks_and_decides_only_where_it_is_asked_for(tmp_path):
    tasks = ("cheetah-run", "dog-run")
    whole = dataclasses.replace(criteria.criterion("tdmpc2-dm_control"), tasks=tasks)
    shared = dataclasses.replace(SHARED, tasks=tasks[:1])
    for run in synthetic.runs(whole, tasks=tasks[:1]):
        written_runs.write(tmp_path, whole, run)
    read = reading.read(tmp_path)
    both = findings.report(read, {whole.name: whole, shared.name: shared}, resamples=2)
    assert [(one.criterion.name, one.verdict.state) for one in both.judgements] == [
        (whole.name, "INCOMPLETE"), (shared.name, "PASS"),
    ]  # fmt: skip
    assert (both.state, [one.criterion.name for one in both.deciding]) == ("INCOMPLETE", [whole.name])
    assert findings.report(read, {shared.name: shared}, resamples=2).state == "PASS"


def test_seeds_that_stand_in_several_runs_are_told_with_their_folders(some_runs, tmp_path):
    (first,) = some_runs.rglob("seed-1")
    first.rename(some_runs / "one")
    written_runs.write(some_runs / "more", ONE, synthetic.run(ONE, "cheetah-run", 1, shift=-1))
    found = findings.report(reading.read(some_runs), {ONE.name: ONE}, resamples=2)
    why = found.judgements[0].verdict.windows[0].tasks[0].why
    assert why == "seed 1 stands in 2 runs: more/tdmpc2-cheetah-run/default/seed-1, one"


# Where the official code is not here


def test_without_the_official_code_patched_trees_are_said_to_be_unchecked_and_must_agree(tmp_path):
    from tdmpc2_lean.validation.judging import official_code

    unknown = {"tdmpc2": dataclasses.replace(official_code.expected("tdmpc2"), patched_tree=None)}
    runs = synthetic.runs(ONE)
    for run in runs[1:]:
        written_runs.write(tmp_path, ONE, run)
    written_runs.write(tmp_path, ONE, runs[0])
    alike = findings.report(reading.read(tmp_path), {ONE.name: ONE}, unknown, resamples=2)
    assert alike.state == "PASS"
    assert any("not checkable here" in flag.what and len(flag.runs) == 3 for flag in alike.flags)
    other = written_runs.provenance(code={"patched_tree": "b" * 40})
    written_runs.write(tmp_path / "more", ONE, dataclasses.replace(runs[0], values=[500.0] * 40), provenance=other)
    differ = findings.report(reading.read(tmp_path), {ONE.name: ONE}, unknown, resamples=2)
    assert differ.state == "INCOMPLETE"
    assert {deviation.key for one in differ.off_protocol for deviation in one.deviations} == {"patched_tree"}
    assert len(differ.off_protocol) == 4
