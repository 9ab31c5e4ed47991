"""Packages that decide an episode's return are named with their versions, and so is what differs from a record."""

from importlib import metadata

from tdmpc2_lean import environments
from tdmpc2_lean.environments.sources import source_named

DM_CONTROL = source_named("dm_control")


def test_the_versions_are_the_installed_ones():
    assert environments.versions_that_matter(DM_CONTROL) == {
        "dm_control": metadata.version("dm_control"),
        "mujoco": metadata.version("mujoco"),
    }


def test_another_mujoco_is_another_physics():
    now = {"dm_control": "1.0.50", "mujoco": "3.17.0"}
    assert environments.drift({"mujoco": "3.2.3", "dm-control": "1.0.50", "torch": "2.0"}, now) == [
        "mujoco 3.2.3 then, 3.17.0 now: another physics; returns differ"
    ]
    assert environments.drift({"mujoco": "3.17.0", "dm_control": "1.0.16"}, now) == [
        "dm_control 1.0.16 then, 1.0.50 now: its tasks may differ"
    ]
    assert environments.drift(now, now) == []


def test_a_version_that_was_not_recorded_is_not_taken_for_the_same():
    now = {"mujoco": "3.17.0"}
    said = ["mujoco: not known then, 3.17.0 now; returns may differ"]
    assert environments.drift({}, now) == environments.drift({"mujoco": None}, now) == said
