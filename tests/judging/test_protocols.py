"""A protocol fixes everything that a run computes, from its budget to the last setting."""

import subprocess
import sys

import pytest
import written_runs
from recorded import parsed

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.references import tasks
from tdmpc2_lean.validation.judging import criteria, protocols
from tdmpc2_lean.validation.judging.deviations import deviations

WALKER = protocols.protocol("tdmpc2-walker-walk")

def test_every_task_of_every_criterion_has_a_protocol_with_its_budget_and_seeds():
    for criterion in criteria.criteria().values():
        for task in criterion.tasks:
            entry = protocols.protocol(protocols.name_of(criterion.agent, task, criterion.physics))
            assert (entry.env_steps, entry.seeds) == (criterion.budget(task), criterion.seeds)
            assert entry.chunk * entry.action_repeat == criterion.every
    of = [entry for entry in protocols.registry().values() if entry.agent == "tdmpc2" and entry.judged]
    assert sum(entry.physics == "dm_control" for entry in of) == len(tasks.TDMPC2) == 39
    assert sum(entry.physics == "playground" for entry in of) == 22


def test_tdmpc2_is_run_as_published():
    assert WALKER.settings == {
        "task": "walker-walk", "model_size": 5, "steps": 2_000_000, "eval_freq": 50_000, "eval_episodes": 10, "utd": 1,
        "separate_eval": True,
    }  # fmt: skip
    assert (WALKER.chunks, WALKER.episodes, WALKER.action_repeat) == (40, 10, 2)
    assert protocols.protocol("tdmpc2-humanoid-run").settings["steps"] == 7_000_000


def test_what_cannot_be_run_yet_says_why():
    for name, entry in protocols.registry().items():
        assert bool(entry.missing) == (entry.physics == "playground"), name


def test_a_smoke_run_is_never_on_protocol():
    smoke = protocols.protocol("tdmpc2-smoke")
    assert [one.key for one in deviations(parsed(written_runs.record_of(smoke, 1)))] == ["smoke"]
    assert all(smoke.task not in criterion.tasks for criterion in criteria.criteria().values())


def test_an_unknown_protocol_is_told_with_the_nearest():
    with pytest.raises(UserError, match="tdmpc2-walker-walk"):
        protocols.protocol("tdmpc2-walker-wlak")


def test_an_integer_beyond_all_floats_is_compared_as_it_is():
    assert protocols.same(10**400, 10**400) and not protocols.same(10**400, 1)


def test_the_registry_needs_neither_torch_nor_jax():
    code = "import sys; from tdmpc2_lean.validation.judging import protocols; protocols.registry(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "jax", "omegaconf", "dm_control"} & set(loaded)


def test_dreamerv3s_points_are_20k_env_steps_apart_so_that_they_lie_beside_the_references():
    entry = protocols.protocol("dreamerv3-dmc_walker_walk")
    assert (entry.chunk * entry.action_repeat, entry.chunks) == (20_000, 25)
