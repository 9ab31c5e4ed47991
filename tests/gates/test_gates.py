"""The gates pass on patched code and fail on mutants: on the official code where it is here, on the miniature."""

import json
import shutil

import pytest
from click.testing import CliRunner

from tdmpc2_lean.commands.gate import gate as gate_command
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.validation.gates.results import FAIL, PASS
from tdmpc2_lean.validation.gates.run import rejected, run
from tdmpc2_lean.validation.gates.subjects import controls_of, find_subject
from tdmpc2_lean.validation.gates.suites import SUITES
from tdmpc2_lean.validation.gates.trace_tdmpc2 import TDMPC2Budget
from tdmpc2_lean.validation.gates.traced_runs import TracedRuns

pytestmark = pytest.mark.usefixtures("forked")
GATES = SUITES["tdmpc2"].gates
SHORT = TDMPC2Budget(steps=90)  # still an end of an episode, an evaluation and the buffer's wrap-around


@pytest.mark.parametrize("name", [name for name in GATES if name != "per-patch-identity"])
def test_gate_passes(official_or_miniature, name):
    judged(name, official_or_miniature.commit or "miniature", SHORT)


def test_each_patch_passes_on_the_miniature(miniature):
    judged("per-patch-identity", "miniature", SHORT)


@pytest.mark.slow
@pytest.mark.parametrize("name", GATES)
def test_gate_passes_on_the_official_code_with_all_of_its_steps(official, name):
    judged(name, official.commit, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", GATES)
def test_gate_passes_on_the_miniature(name):
    judged(name, "miniature", SHORT)


def judged(name, where, budget):
    report = run(find_subject(where), [name], budget)
    assert report.results and report.ok, [r for r in report.results if r.outcome == FAIL]
    assert any(result.outcome == PASS for result in report.results), "nothing was judged"


@pytest.mark.parametrize("name", GATES)
def test_every_gate_has_negative_controls(name):
    assert controls_of(name)


# Controls that take minutes: each trains, several times or on every prefix of the series, plans for many, or there are
# many of them.
MINUTES = {"resume", "per-patch-identity", "seed", "plan-vec-many", "defaults", "functions", "outputs", "promises"}


@pytest.mark.parametrize("name", ["defaults", "functions", "outputs", "promises"])
def test_gate_rejects_a_mutant(miniature, name):
    control = controls_of(name)[0]
    result = rejected(GATES[name], find_subject("miniature"), control, TracedRuns(SHORT, SUITES["tdmpc2"].tracing))
    told = "was promised" if name == "promises" else "divergence at"
    assert result.outcome == PASS and told in result.detail, result


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in MINUTES else name for name in GATES]
)
def test_gate_rejects_every_mutant(miniature, name):
    report = run(find_subject("miniature"), [name], SHORT, controls=True)
    assert len(report.results) == len(controls_of(name))
    assert report.ok, [r for r in report.results if r.outcome == FAIL]
    for result in report.results:
        assert (
            "divergence at" in result.detail
            or "depends on the others" in result.detail
            or "events equal" in result.detail
            or "was promised" in result.detail
        )
    by_name = {result.gate.rpartition("/")[2]: result for result in report.results}
    if "one-ulp" in by_name:
        for part in ("step", "largest difference", "reference", "subject"):
            assert part in by_name["one-ulp"].detail


@pytest.mark.slow
@pytest.mark.parametrize("name", GATES)
def test_gate_rejects_every_mutant_on_the_official_code(official, name):
    report = run(find_subject(official.commit), [name], controls=True)
    assert report.ok, [r for r in report.results if r.outcome == FAIL]


def test_an_unknown_gate_is_told_with_the_nearest(miniature):
    with pytest.raises(UserError, match="default-identity"):
        run(find_subject("miniature"), ["default-idenity"])


@pytest.mark.parametrize(
    "upstream, name, told",
    [
        ("tdmpc2", "cheeta-run", "Did you mean 'cheetah-run'"),
        ("tdmpc2", "dmc_walker_walk", "write task=walker-walk"),
        ("tdmpc2", "mw-assmbly", "none of dm_control"),
        ("dreamerv3", "walker-wlak", "Did you mean 'walker-walk'"),
        ("dreamerv3", "atari_pong", "a task of the official code's suite atari"),
    ],
)
def test_a_task_on_which_no_gate_can_train_is_an_error_and_no_verdict(official_or_miniature, upstream, name, told):
    with pytest.raises(UserError, match=told):
        SUITES[upstream].task(name, official_or_miniature.code_dir)


def test_a_name_of_many_tasks_is_none_on_which_a_gate_can_train(tmp_path):
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "__init__.py").write_text("TASK_SET = {'mt2': ['walker-walk', 'cheetah-run']}\n")
    with pytest.raises(UserError, match="none of dm_control"):
        SUITES["tdmpc2"].task("mt2", tmp_path)


def test_a_task_may_be_written_as_either_upstream_writes_it(miniature):
    assert SUITES["tdmpc2"].task("cup-catch", miniature.code_dir) == "cup-catch"
    assert {SUITES["dreamerv3"].task(name, miniature.code_dir) for name in ("dmc_cup_catch", "cup-catch")} == {
        "dmc_cup_catch"
    }


def test_the_command_judges_nothing_on_a_misspelt_task():
    done = CliRunner().invoke(gate_command, ["run", "seed", "--checkout", "miniature", "--task", "cheeta-run"])
    assert isinstance(done.exception, UserError) and "cheetah-run" in str(done.exception)


def test_a_fork_is_judged_as_it_is(official, tmp_path):
    """Someone changes their own clone: the gate says where it leaves the official code."""
    fork = tmp_path / "fork"
    shutil.copytree(official.root, fork, ignore=shutil.ignore_patterns(".tdmpc2-lean"))
    path = fork / "tdmpc2" / "common" / "world_model.py"
    path.write_text(path.read_text().replace("self.cfg.tau", "0.02"))
    with pytest.raises(UserError, match="world_model.py"):
        find_subject(str(fork))
    report = run(find_subject(str(fork), allow_local_changes=True), ["default-identity"])
    assert not report.ok and "first divergence" in report.results[0].detail


def test_the_report_is_json_with_provenance(miniature, tmp_path):
    file = tmp_path / "report.json"
    words = ["run", "utd-count", "--checkout", "miniature", "--json", str(file)]
    done = CliRunner().invoke(gate_command, words, standalone_mode=False)
    assert done.return_value == 0, done.output
    report = json.loads(file.read_text())
    assert report["ok"] and report["surroundings"]["reference"]["upstream"] == "miniature"
    assert {"torch", "tensordict", "dm_control"} <= set(report["surroundings"]["versions"])
    assert "miniature" in done.output


@pytest.mark.slow
@pytest.mark.parametrize("steps", [81, 120])
def test_resuming_is_judged_with_numbers_of_steps_that_end_between_phases(miniature, steps):
    report = run(find_subject("miniature"), ["resume"], TDMPC2Budget(steps=steps))
    assert report.ok and len(report.results) == 6, [r for r in report.results if r.outcome == FAIL]
