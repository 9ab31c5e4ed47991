"""Task names of either upstream become the official DreamerV3's."""

import pytest

from dreamer_bridge import tasks
from tdmpc2_lean.environments import TaskName
from tdmpc2_lean.environments.source import EnvironmentSource
from tdmpc2_lean.errors import UserError

SUITE = {TaskName("cheetah", "run"), TaskName("stacker", "stack_2"), TaskName("point_mass", "easy")}


@pytest.fixture(autouse=True)
def a_suite(monkeypatch):
    """A suite with tasks that no reference has, so that no simulator is asked."""
    monkeypatch.setattr(EnvironmentSource, "tasks", lambda source: frozenset(SUITE))


@pytest.mark.parametrize(
    "written, named",
    [
        ("cheetah-run", "dmc_cheetah_run"),
        ("cheetah_run", "dmc_cheetah_run"),
        ("dmc_cheetah_run", "dmc_cheetah_run"),
        ("cup-catch", "dmc_cup_catch"),
        ("dmc_cup_catch", "dmc_cup_catch"),
        ("ball_in_cup-catch", "dmc_cup_catch"),
        ("dmc_ball_in_cup_catch", "dmc_cup_catch"),
        ("finger-turn-hard", "dmc_finger_turn_hard"),
        ("cartpole-balance-sparse", "dmc_cartpole_balance_sparse"),
        ("dog-run", "dmc_dog_run"),
        ("stacker-stack-2", "dmc_stacker_stack_2"),
        ("dummy_disc", "dummy_disc"),
    ],
)
def test_spellings(written, named):
    assert tasks.official(written) == named


@pytest.mark.parametrize(
    "written, nearest",
    [("cartpole-balence", "cartpole-balance"), ("dmc_walker_wlak", "dmc_walker_walk"), ("cheeta-run", "cheetah-run")],
)
def test_a_misspelt_task_is_told_with_the_nearest(written, nearest):
    with pytest.raises(UserError, match=f"Did you mean '{nearest}'"):
        tasks.official(written)


def test_a_task_of_tdmpc2s_own_code_is_told_as_such():
    with pytest.raises(UserError, match="TD-MPC2's own code"):
        tasks.official("cheetah-run-backwards")


def test_a_domain_that_the_official_way_of_splitting_cannot_reach_is_unknown():
    with pytest.raises(UserError):
        tasks.official("pointmass-easy")
