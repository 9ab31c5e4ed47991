"""The committed references say what their sources say, and the loader refuses what they do not have."""

import subprocess
import sys

import numpy as np
import pytest

from tdmpc2_lean import references
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.references import tasks

TDMPC2_FAMILY = (
    "tdmpc2_dmc",
    "tdmpc2_dmc_vs_dreamerv3",
    "tdmpc2_dmc_vs_sac",
    "tdmpc2_dmc_vs_tdmpc",
)
DREAMERV3_FAMILY = ("dreamerv3_dmc_proprio", "dreamerv3_dmc_proprio_vs_ppo")

# Of MuJoCo Playground 0.2.0's registry of control suite environments.
PLAYGROUND = """
AcrobotSwingup AcrobotSwingupSparse BallInCup CartpoleBalance CartpoleBalanceSparse CartpoleSwingup
CartpoleSwingupSparse CheetahRun FingerSpin FingerTurnEasy FingerTurnHard FishSwim HopperHop HopperStand
HumanoidRun HumanoidStand HumanoidWalk PendulumSwingup PointMass ReacherEasy ReacherHard SwimmerSwimmer6
WalkerRun WalkerStand WalkerWalk
""".split()


def seed_means_at(step: int) -> list[float]:
    """One mean over seeds a task of DreamerV3's reference."""
    found = []
    for task in references.load("dreamerv3_dmc_proprio").tasks:
        steps, returns, _ = references.curve("dreamerv3_dmc_proprio", task)
        found.append(returns[:, list(steps).index(step)].mean())
    return found


@pytest.mark.parametrize(("step", "mean", "median"), [(250_000, 675.4, 790.4), (490_000, 757.8, 868.5)])
def test_dreamerv3_has_the_independently_computed_means_and_medians(step, mean, median):
    means = seed_means_at(step)
    assert round(np.mean(means), 1) == mean
    assert round(np.median(means), 1) == median


def test_dreamerv3_has_18_tasks_5_seeds_and_49_points():
    reference = references.load("dreamerv3_dmc_proprio")
    assert len(reference.tasks) == 18
    for task in reference.tasks:
        steps, returns, seeds = reference.curve(task)
        assert seeds == (0, 1, 2, 3, 4)
        assert list(steps) == list(range(10_000, 490_001, 10_000))
        assert returns.shape == (5, 49) and np.isfinite(returns).all()
        assert np.array_equal(returns, returns.round(2))


def test_tdmpc2_has_39_tasks_3_seeds_and_its_budgets():
    reference = references.load("tdmpc2_dmc")
    assert len(reference.tasks) == 39
    for task in reference.tasks:
        steps, returns, seeds = reference.curve(task)
        long = task.startswith(("humanoid", "dog"))
        assert seeds == (1, 2, 3)
        assert list(steps) == list(range(0, (14 if long else 4) * 10**6 + 1, 100_000))
        assert returns.shape == (3, len(steps))


def test_tdmpc2_lacks_only_the_last_point_of_the_five_seeds_that_its_notes_name():
    reference = references.load("tdmpc2_dmc")
    missing = []
    for task in reference.tasks:
        steps, returns, seeds = reference.curve(task)
        for seed, row in zip(seeds, returns, strict=True):
            assert np.isfinite(row[:-1]).all()
            if np.isnan(row[-1]):
                missing.append(f"{task} seed {seed}")
    assert len(missing) == 5
    note = next(note for note in reference.notes if "ends early" in note)
    assert all(case in note for case in missing) and "5 cases" in note


@pytest.mark.parametrize("name", references.names())
def test_every_return_is_one_that_an_episode_can_have(name):
    reference = references.load(name)
    for task in reference.tasks:
        returns = reference.curve(task).returns
        present = returns[np.isfinite(returns)]
        assert present.size and present.min() >= 0 and present.max() <= 1000


@pytest.mark.parametrize("name", references.names())
def test_every_reference_says_where_it_comes_from_and_in_which_units(name):
    reference = references.load(name)
    assert reference.name == name
    assert len(reference.commit) == 40 and reference.repository.startswith("https://github.com/")
    assert reference.licence == "MIT" and reference.copyright.startswith("Copyright (c)")
    assert all(len(blob) == 40 for blob in reference.files.values())
    assert set(reference.units) == {"returns", "steps"} and "env steps" in reference.units["steps"]
    assert reference.binning and reference.protocol["seeds"]


@pytest.mark.parametrize("name", references.names())
def test_every_reference_says_with_which_versions_it_was_made_or_that_it_is_not_known(name):
    reference = references.load(name)
    packages, source = reference.versions["packages"], reference.versions["source"]
    assert source and all(version is None or version[0].isdigit() for version in packages.values())
    if not packages:
        assert source.startswith("Not known") and reference.made_with == "not known"
    for package, version in packages.items():
        assert (f"{package} {version}" if version else package) in reference.made_with


def test_of_the_simulators_versions_only_tdmpc2s_own_is_known():
    versions = {name: references.load(name).versions["packages"].get("mujoco") for name in references.names()}
    assert {name: version for name, version in versions.items() if version} == {"tdmpc2_dmc": "2.3.1"}
    said = references.load("dreamerv3_dmc_proprio").made_with
    assert said == "python 3.11; no version known of dm_control, jax, mujoco, numpy"


@pytest.mark.official
def test_the_versions_of_tdmpc2s_reference_stand_where_it_says():
    """In the official repository's own history, where a clone of it with that history is on this machine."""
    from tdmpc2_lean.upstreams import find_checkout

    try:
        found = find_checkout("tdmpc2", "b67b21c", may_clone=False)
    except UserError:
        pytest.skip("the commit that added the curves is not on this machine")
    asked = (found.root / "docker" / "environment.yaml").read_text()
    for package, version in references.load("tdmpc2_dmc").versions["packages"].items():
        if version:
            assert f"- {package}={version}" in asked or f"- {package}=={version}" in asked
        else:
            assert f"{package.replace('_', '-')}==" not in asked


def test_the_dreamerv3_reference_says_that_its_binning_is_not_known():
    assert "The source says neither" in references.load("dreamerv3_dmc_proprio").binning


def test_baselines_are_on_the_same_tasks():
    for family in (TDMPC2_FAMILY, DREAMERV3_FAMILY):
        assert len({references.load(name).tasks for name in family}) == 1
    assert set(references.names()) == {*TDMPC2_FAMILY, *DREAMERV3_FAMILY}


def test_a_second_run_of_a_seed_is_kept_beside_the_curve():
    reference = references.load("tdmpc2_dmc_vs_tdmpc")
    further = reference.further_runs("pendulum-swingup")
    assert [(run.seed, run.steps[-1]) for run in further] == [(3, 3_000_000)]
    assert reference.curve("pendulum-swingup").steps[-1] == 4_000_000
    assert reference.further_runs("cheetah-run") == []


def test_a_seed_of_a_curve_is_given_without_the_points_it_lacks():
    curve = references.curve("tdmpc2_dmc", "dog-run")
    assert curve.of_seed(1)[0][-1] == 14_000_000
    steps, returns = curve.of_seed(3)
    assert steps[-1] == 13_900_000 and np.isfinite(returns).all()
    with pytest.raises(UserError, match="no seed 4"):
        curve.of_seed(4)


def test_an_unknown_name_or_task_raises_and_suggests_the_nearest():
    with pytest.raises(UserError, match="Did you mean 'tdmpc2_dmc'"):
        references.load("tdmpc2_dcm")
    with pytest.raises(UserError, match="Did you mean 'cheetah-run'"):
        references.curve("tdmpc2_dmc", "cheetah-rnu")
    with pytest.raises(UserError, match="Did you mean 'dmc_walker_walk'"):
        tasks.task("dmc_walker_wlk")
    with pytest.raises(UserError):
        references.load("../references/tdmpc2_dmc")


def test_the_task_maps_are_total():
    assert set(tasks.TDMPC2) == set(references.load("tdmpc2_dmc").tasks)
    assert set(tasks.DREAMERV3) == set(references.load("dreamerv3_dmc_proprio").tasks)
    for name, task in (tasks.TDMPC2 | tasks.DREAMERV3).items():
        assert tasks.task(name) is task and task.name == name
        assert bool(task.playground) != bool(task.why_not)


def test_22_of_39_and_18_of_18_tasks_are_in_playground():
    ours = [task for task in tasks.TDMPC2.values() if task.playground]
    theirs = [task for task in tasks.DREAMERV3.values() if task.playground]
    assert (len(ours), len(tasks.TDMPC2) - len(ours), len(theirs)) == (22, 17, 18)
    assert {task.playground for task in [*ours, *theirs]} <= set(PLAYGROUND)
    without = [task for task in tasks.TDMPC2.values() if not task.playground]
    assert sum(task.custom for task in without) == 11
    assert {task.domain for task in without if not task.custom} == {"dog", "quadruped"}
    assert tasks.task("dmc_ball_in_cup_catch").playground == tasks.task("cup-catch").playground == "BallInCup"


def test_the_tasks_that_both_physics_have():
    ours, theirs = tasks.in_both_physics("tdmpc2"), tasks.in_both_physics("dreamerv3")
    assert (len(ours), len(theirs)) == (22, 18)
    assert set(ours) < set(tasks.TDMPC2) and theirs == tuple(tasks.DREAMERV3)
    assert all(tasks.TDMPC2[name].playground in PLAYGROUND for name in ours)
    assert "dog-run" not in ours and "cheetah-run" in ours


def test_one_dm_control_task_has_one_playground_id():
    ids = {}
    for task in (tasks.TDMPC2 | tasks.DREAMERV3).values():
        assert ids.setdefault((task.domain, task.task), task.playground) == task.playground
    present = [found for found in ids.values() if found]
    assert len(present) == len(set(present))


def test_a_task_that_is_not_custom_is_in_dm_controls_suite():
    suite = pytest.importorskip("dm_control.suite")
    own = set(suite.ALL_TASKS)
    for task in (tasks.TDMPC2 | tasks.DREAMERV3).values():
        if not task.custom:
            assert (task.domain, task.task) in own


def test_mt30_is_19_tasks_of_the_suite_and_then_the_11_custom_ones():
    mt30 = references.load("tdmpc2_dmc").task_sets["mt30"]
    assert mt30 == tasks.MT30 and len(set(mt30)) == 30
    assert [tasks.task(name).custom for name in mt30] == [False] * 19 + [True] * 11
    assert mt30[0] == "walker-stand" and mt30[-1] == "pendulum-spin"


def test_importing_the_package_imports_neither_numpy_nor_a_simulator():
    code = (
        "import sys, tdmpc2_lean.references, tdmpc2_lean.references.tasks;"
        "print(sorted({'numpy', 'torch', 'dm_control', 'scipy'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
