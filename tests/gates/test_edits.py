"""Somebody's edits of official TD-MPC2: a wrong one is rejected or named, however small; a neutral one needs no run."""

import resource
import shutil
from contextlib import suppress

import pytest

from tdmpc2_lean.patching.anchors import LostAnchors
from tdmpc2_lean.upstreams import UPSTREAMS
from tdmpc2_lean.validation.gates.results import FAIL, NOT_JUDGED, PASS, UNPROVED
from tdmpc2_lean.validation.gates.run import run, same_text
from tdmpc2_lean.validation.gates.strength.forks import serving
from tdmpc2_lean.validation.gates.subjects import GateSubject, find_subject
from tdmpc2_lean.validation.gates.trace_tdmpc2 import TDMPC2Budget
from tests.gates import edits_dreamerv3
from tests.gates.edited_forks import EditedForks, edit, judged, make
from tests.gates.edits_tdmpc2 import AGENT, NEUTRAL, SLY, UNSEEN, WRONG
from tests.upstreams.conftest import git

pytestmark = pytest.mark.official
SHORT = TDMPC2Budget(steps=90)
BY_NAME = {one.name: one for one in WRONG}
# Of the edits that passed every gate once, those of most consequence that are judged in seconds.
FIRST = (
    "policy unclipped", "edge bin", "scale used before its update", "steps of eval.csv", "a default",
    "only the first evaluation episode begins with t0", "random actions of a constant seed",
)  # fmt: skip


@pytest.fixture(scope="module")
def forks(official, tmp_path_factory):
    """Where edited forks are made; while it is there, processes of gates are forked."""
    with serving() as processes:
        processes.prepare(torch=True)
        yield EditedForks(official, tmp_path_factory.mktemp("forks"))


def test_the_table_is_of_edits_with_names_of_their_own():
    assert len(BY_NAME) == len(WRONG) >= 43 and set(FIRST) <= set(BY_NAME)
    assert len({one.file for one in WRONG}) > 15


def is_rejected(forks, one, monkeypatch):
    with forks.with_edits([one]) as subject:
        assert [change.id for change in subject.accounting.changes] == [one.change]
        report = judged(subject, one.judge, SHORT, monkeypatch)
    failed = [row for row in report.results if row.outcome == FAIL]
    assert report.exit_code == 1 and failed[0].gate.partition("/")[0] == one.gate, report.results
    (row,) = (row for row in report.results if row.gate == f"change/{one.change}")
    assert row.outcome in (NOT_JUDGED, UNPROVED), row


@pytest.mark.parametrize("name", FIRST)
def test_a_wrong_edit_that_passed_once_is_rejected(forks, name, monkeypatch):
    is_rejected(forks, BY_NAME[name], monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in BY_NAME if name not in FIRST])
def test_a_wrong_edit_is_rejected(forks, name, monkeypatch):
    is_rejected(forks, BY_NAME[name], monkeypatch)


@pytest.mark.parametrize("one", SLY, ids=lambda one: one.name)
def test_what_inputs_cannot_show_is_unproved_although_it_was_executed(forks, one, monkeypatch):
    with forks.with_edits([one]) as subject:
        report = judged(subject, one.judge, SHORT, monkeypatch)
    *gates, row = report.results
    assert {result.outcome for result in gates} == {PASS} and report.exit_code == 3, report.results
    assert row.gate == f"change/{one.change}" and ("condition" in row.detail or "bound" in row.detail), row


def test_all_wrong_edits_at_once_are_named_and_rejected(forks, monkeypatch):
    """Together they do not hide each other, and the code runs far enough to be rejected by what it computes."""
    with forks.with_edits([]) as subject:
        made = []
        for one in WRONG:
            with suppress(LostAnchors):  # another edit of the same expression was made before
                make(subject.code_dir.parent, forks.code, [one])
                made.append(one)
        named = {change.id for change in subject.accounting.changes}
        assert named == {one.change for one in made} and len(made) >= 43
        report = judged(subject, "functions/bins", SHORT, monkeypatch)
    assert report.exit_code == 1
    rows = {row.gate.removeprefix("change/"): row for row in report.results if row.gate.startswith("change/")}
    assert named == set(rows) and PASS not in {row.outcome for row in rows.values()}


@pytest.mark.slow
def test_what_no_gate_executes_is_unproved_by_name(forks):
    with forks.with_edits([*UNSEEN, *SLY]) as subject:
        report = run(subject, budget=SHORT)
    rows = {row.gate.removeprefix("change/"): row.outcome for row in report.results if row.gate.startswith("change/")}
    assert rows == dict.fromkeys((one.change for one in (*UNSEEN, *SLY)), UNPROVED)
    assert report.exit_code == 3, [row for row in report.results if row.outcome == FAIL]


def test_a_planner_of_another_name_is_unproved_and_no_pass(forks):
    renamed = edit("renamed", f"{AGENT}.plan_vec", "plan_vec", "plan_many", judge=UNPROVED)
    with forks.with_edits([]) as subject:
        path = subject.code_dir / "tdmpc2.py"
        path.write_text(path.read_text().replace("def plan_vec(", "def plan_many("))
        report = run(subject, ["plan-vec-one", "plan-vec-many"], SHORT)
    assert report.exit_code == 3, report.results
    assert {row.outcome for row in report.results if row.gate.startswith("plan-vec")} == {UNPROVED}
    assert any(row.gate == f"change/{renamed.change}" and row.outcome == UNPROVED for row in report.results)


def test_a_patched_clone_with_an_edit_as_its_own_commit_is_judged_by_the_official_one(forks, tmp_path, monkeypatch):
    """Committed, clean, named by the environment: the fork's own commit is no reference."""
    root = tmp_path / "clone"
    shutil.copytree(forks.patched, root, ignore=shutil.ignore_patterns("__pycache__", ".git", ".tdmpc2-lean"))
    make(root, forks.code, [BY_NAME["reward doubled"]])
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=mine")
    monkeypatch.setenv(UPSTREAMS["tdmpc2"].environment_variable, str(root))
    subject = find_subject()
    assert "not official" in subject.name and subject.reference.commit == UPSTREAMS["tdmpc2"].pin
    assert [change.id for change in subject.accounting.changes] == [BY_NAME["reward doubled"].change]
    assert judged(subject, "functions/td-targets", SHORT, monkeypatch).exit_code == 1


@pytest.mark.parametrize("name", NEUTRAL)
def test_a_neutral_edit_passes_without_a_run_in_a_moment(official, tmp_path, name):
    root = tmp_path / "fork"
    shutil.copytree(official.root, root, ignore=shutil.ignore_patterns("__pycache__", ".git", ".tdmpc2-lean"))
    code_dir = root / UPSTREAMS["tdmpc2"].code
    file, edited = NEUTRAL[name]
    path = code_dir / file
    before = path.read_bytes().decode() if path.exists() else ""
    path.write_bytes(edited(before).encode())
    assert path.read_bytes().decode() != before
    began = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    report = same_text(GateSubject("fork", code_dir, official, None), SHORT)
    assert report is not None and report.exit_code == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - began < 30


def test_all_neutral_edits_of_a_patched_clone_are_no_change(forks):
    with forks.with_edits([]) as subject:
        for file, edited in NEUTRAL.values():
            path = subject.code_dir / file
            path.write_text(edited(path.read_text() if path.exists() else ""))
        assert subject.accounting.changes == () and len(subject.accounting.patches) == 10


# ------------------------------------------------------------------------------------------------------- of DreamerV3


@pytest.fixture(scope="module")
def forks_of_dreamerv3(official_dreamerv3, tmp_path_factory):
    return EditedForks(official_dreamerv3, tmp_path_factory.mktemp("forks-of-dreamerv3"))


def test_each_wrong_edit_of_dreamerv3_is_named(forks_of_dreamerv3):
    with forks_of_dreamerv3.with_edits(edits_dreamerv3.WRONG) as subject:
        named = {change.id for change in subject.accounting.changes}
    assert named == {one.change for one in edits_dreamerv3.WRONG} and len(edits_dreamerv3.WRONG) >= 15


@pytest.mark.slow
@pytest.mark.parametrize("one", edits_dreamerv3.WRONG, ids=lambda one: one.name)
def test_a_wrong_edit_of_dreamerv3_is_rejected_or_unproved_by_name(forks_of_dreamerv3, one, monkeypatch):
    with forks_of_dreamerv3.with_edits([one]) as subject:
        assert [change.id for change in subject.accounting.changes] == [one.change]
        report = judged(subject, one.judge, None, monkeypatch)
    assert report.exit_code in (1, 3), report.results
    (row,) = (row for row in report.results if row.gate == f"change/{one.change}")
    assert row.outcome in (NOT_JUDGED, UNPROVED), row
