"""A task may be written in any upstream's spelling, and each upstream is handed its own."""

import re
import subprocess
import sys

import pytest

from tdmpc2_lean import environments
from tdmpc2_lean.environments import TaskName, names, tdmpc2_tasks
from tdmpc2_lean.environments.source import EnvironmentSource
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.references import tasks as references

SUITE = frozenset(TaskName(*pair.split()) for pair in ("cheetah run", "toy spin_fast", "point_mass easy", "a_b c"))


@pytest.fixture(autouse=True)
def a_suite(monkeypatch):
    """A suite with tasks that no reference has, so that no simulator is asked."""
    monkeypatch.setattr(EnvironmentSource, "tasks", lambda source: SUITE)


@pytest.fixture
def code(tmp_path):
    """A checkout with a task of its own, tables of another suite, and two sets."""
    (tmp_path / "envs" / "tasks").mkdir(parents=True)
    (tmp_path / "common").mkdir()
    (tmp_path / "envs" / "tasks" / "cheetah.py").write_text(
        "@SUITE.add('custom')\ndef run_back():\n    pass\n\n\ndef not_added():\n    pass\n"
    )
    (tmp_path / "envs" / "maniskill.py").write_text("MANISKILL_TASKS = {'pick-ycb': {'env': 'PickYCB'}}\n")
    (tmp_path / "common" / "__init__.py").write_text(
        "MODEL_SIZE = {1: {}}\n"
        "TASK_SET = {'two': ['cheetah-run', 'cheetah-run-back'], 'mixed': ['cheetah-run', 'mw-x']}\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("written", "tdmpc2", "dreamerv3"),
    [
        ("cheetah-run", "cheetah-run", "dmc_cheetah_run"),
        ("cheetah_run", "cheetah-run", "dmc_cheetah_run"),
        ("dmc_cheetah_run", "cheetah-run", "dmc_cheetah_run"),
        ("cup-catch", "cup-catch", "dmc_cup_catch"),
        ("dmc_cup_catch", "cup-catch", "dmc_cup_catch"),
        ("ball_in_cup-catch", "cup-catch", "dmc_cup_catch"),
        ("dmc_ball_in_cup_catch", "cup-catch", "dmc_cup_catch"),
        ("cartpole-balance-sparse", "cartpole-balance-sparse", "dmc_cartpole_balance_sparse"),
        ("toy-spin-fast", "toy-spin-fast", "dmc_toy_spin_fast"),
    ],
)
def test_any_spelling_becomes_the_upstreams_own(code, written, tdmpc2, dreamerv3):
    assert environments.find("tdmpc2", written, code).task == tdmpc2
    assert environments.find("dreamerv3", written, None).task == dreamerv3


def test_every_task_of_the_references_is_spelled_as_its_upstream_spells_it():
    for task in references.TDMPC2.values():
        assert TaskName(task.domain, task.task).spelled("tdmpc2") == task.name
    for task in references.DREAMERV3.values():
        assert names.plain(TaskName(task.domain, task.task).spelled("dreamerv3")) == names.plain(task.name)


@pytest.mark.parametrize("upstream", ["tdmpc2", "dreamerv3"])
@pytest.mark.parametrize("written", ["a_b-c", "no-such-task", "cheeta-run"])
def test_what_an_upstream_cannot_reach_or_does_not_have_is_told(code, upstream, written):
    with pytest.raises(UserError, match=f"no task '{written}'") as told:
        environments.find(upstream, written, code)
    assert "task=cheetah-run" in told.value.next_step
    assert ("Did you mean 'cheetah-run'" in told.value.message) is (written == "cheeta-run")


def test_a_domain_that_only_tdmpc2_can_reach(code):
    assert environments.find("tdmpc2", "point_mass-easy", code).task == "pointmass-easy"
    with pytest.raises(UserError, match="no task"):
        environments.find("dreamerv3", "pointmass-easy", None)


def test_what_a_task_is(code):
    found = environments.find("tdmpc2", "cheetah-run-back", code)
    assert (found.suite, found.name) == ("dm_control", TaskName("cheetah", "run_back"))
    assert found.source is environments.source_named("dm_control")
    assert (found.action_repeat, found.agent_steps) == (2, 500)
    with pytest.raises(UserError):
        environments.find("tdmpc2", "cheetah-not-added", code)


def test_other_suites_that_the_official_code_knows_stay_allowed(code):
    found = environments.find("tdmpc2", "pick-ycb", code)
    assert (found.task, found.suite, found.source, found.action_repeat) == ("pick-ycb", "maniskill", None, 2)
    assert found.modules == ("envs.maniskill",)
    for task, suite in (("mw-newer-than-this", "metaworld"), ("myo-key-turn", "myosuite"), ("mujoco-ant", "mujoco")):
        assert environments.find("tdmpc2", task, code).suite == suite


def test_sets_of_tasks_are_of_dm_control_or_of_several_suites(code):
    two, mixed = (environments.find("tdmpc2", name, code) for name in ("two", "mixed"))
    assert (two.members, two.suite) == (("cheetah-run", "cheetah-run-back"), "dm_control")
    assert (mixed.suite, mixed.agent_steps) == ("multi-task", None)


@pytest.mark.parametrize("task", ["atari_pong", "atari100k_pong", "crafter_reward", "dmlab_rooms", "minecraft_diamond"])
def test_a_suite_of_dreamerv3_that_cannot_be_run_here_is_told_up_front(monkeypatch, task):
    from tdmpc2_lean.environments import dreamerv3_tasks

    monkeypatch.setattr(dreamerv3_tasks, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="trains on state observations of dm_control") as told:
        environments.find("dreamerv3", task, None)
    assert "not installed here" in told.value.message and "task=cheetah-run" in told.value.next_step


def test_a_suite_of_dreamerv3_that_can_be_run_is_let_through_unless_the_checkout_lacks_it(tmp_path):
    assert environments.find("dreamerv3", "dummy_disc", None).suite == "dummy"
    with pytest.raises(UserError, match="this checkout lacks"):
        environments.find("dreamerv3", "dummy_disc", tmp_path)


def test_a_task_of_tdmpc2s_own_code_is_told_as_such():
    with pytest.raises(UserError, match="TD-MPC2's own code"):
        environments.find("dreamerv3", "cheetah-run-backwards", None)


def test_an_unknown_source_is_told_with_the_nearest():
    with pytest.raises(UserError, match="Did you mean 'dm_control'"):
        environments.source_named("dm-control")


def test_every_source_says_all_that_is_asked_of_it():
    for name, source in environments.all_sources().items():
        assert source.name == name and source.physics in source.packages and source.modules and source.install
        assert set(source.uses) <= {"tdmpc2", "dreamerv3"} and source.uses
        for upstream, use in source.uses.items():
            assert source.agent_steps(upstream) * use.action_repeat == source.episode


NEW_SOURCE = """
from tdmpc2_lean.environments.source import EnvironmentSource, Use

SOURCE = EnvironmentSource(
    name="toys", title="Toys", packages=("pytest",), physics="pytest", modules=("json.decoder",),
    lists="[('cheetah', 'run'), ('ball_in_cup', 'catch'), ('toy', 'jump')]", install="pip install toys", episode=300,
    uses={"tdmpc2": Use(3, ("json.decoder",)), "dreamerv3": Use(1, ("json.decoder", "no_such_part"))}, renderer=None,
)
"""


def test_a_new_source_is_one_new_module(code, tmp_path, monkeypatch):
    from tdmpc2_lean.environments import sources

    monkeypatch.undo()  # the suite of this module's fixture: this source is asked itself
    monkeypatch.setenv("TDMPC2_LEAN_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "toys.py").write_text(NEW_SOURCE)
    monkeypatch.setattr(sources, "__path__", [*sources.__path__, str(folder)])
    sources.all_sources.cache_clear()
    try:
        found = environments.find("tdmpc2", "dmc_ball_in_cup_catch", code, "toys")
        assert (found.task, found.suite, found.action_repeat, found.agent_steps) == ("cup-catch", "toys", 3, 100)
        assert environments.find("tdmpc2", "toy-jump", code, "toys").probe({}) is None
        theirs = environments.find("dreamerv3", "toy-jump", None, "toys")
        assert theirs.task == "dmc_toy_jump" and "no_such_part" in theirs.probe({}).message
        assert environments.backend(found.source, True, {}).variables == {}
        assert environments.drift({"pytest": "1"}, environments.versions_that_matter(found.source))
        for absent in ("cheetah-run-back", "pick-ycb", "two"):  # of dm_control as the code knows it
            with pytest.raises(UserError, match="no task"):
                environments.find("tdmpc2", absent, code, "toys")
        with pytest.raises(UserError, match="no task"):
            environments.find("tdmpc2", "toy-jump", code)
    finally:
        sys.modules.pop("tdmpc2_lean.environments.sources.toys", None)
        sources.all_sources.cache_clear()


def test_importing_the_package_imports_no_simulator():
    code = (
        "import sys, tdmpc2_lean.environments as e; e.all_sources();"
        "print(sorted({'numpy', 'torch', 'jax', 'dm_control', 'mujoco'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("upstream", ["tdmpc2", "dreamerv3"])
def test_the_action_repeat_is_the_official_codes_own(upstream, request):
    said = environments.source_named("dm_control").uses[upstream].action_repeat
    if upstream == "tdmpc2":
        code = request.getfixturevalue("official").code_dir / "envs" / "dmcontrol.py"
        assert f"for _ in range({said}):" in code.read_text()
        assert environments.find(upstream, "cheetah-run", code.parents[1]).agent_steps == 500
    else:
        code = request.getfixturevalue("official_dreamerv3").root / "dreamerv3" / "configs.yaml"
        assert re.search(rf"^    dmc: .*repeat: {said},", code.read_text(), re.MULTILINE)
        assert environments.find(upstream, "cheetah-run", None).agent_steps == 1000


def test_the_suites_of_dreamerv3_are_the_official_ones(official_dreamerv3):
    from tdmpc2_lean.environments import dreamerv3_tasks

    text = (official_dreamerv3.root / "dreamerv3" / "main.py").read_text()
    theirs = set(re.findall(r"^      '(\w+)': (?:'embodied|lambda)", text, re.MULTILINE))
    assert theirs == {"dmc", *dreamerv3_tasks.SUITES}


def test_the_suites_of_the_official_code_are_as_described(official):
    for name in tdmpc2_tasks.SUITES:
        assert (official.code_dir / "envs" / f"{name}.py").is_file()
    assert len(tdmpc2_tasks.sets(official.code_dir)["mt80"]) == 80
    assert {str(task) for task in tdmpc2_tasks.custom(official.code_dir)} >= {"ball_in_cup-spin", "cheetah-jump"}
