"""What an environment needs is imported beforehand, and a failure is told with its own error; success is remembered."""

import subprocess
from pathlib import Path

import pytest

from tdmpc2_lean import environments
from tdmpc2_lean.environments import TaskName, probing
from tdmpc2_lean.environments.sources import source_named

DM_CONTROL = source_named("dm_control")
OFF = {"MUJOCO_GL": "disable"}


@pytest.fixture
def code(tmp_path) -> Path:
    """A checkout whose envs/__init__.py hides what fails, as the official one does."""
    folder = tmp_path / "code"
    (folder / "envs").mkdir(parents=True)
    (folder / "envs" / "__init__.py").write_text("try:\n    from envs import dmcontrol\nexcept:\n    pass\n")
    (folder / "envs" / "dmcontrol.py").write_text("from dm_control import suite\n")
    return folder


def suite_is(simulator: Path, text: str) -> None:
    (simulator / "suite" / "__init__.py").write_text(text)


def test_a_working_simulator_is_no_error(simulator, code):
    assert environments.probe(DM_CONTROL, OFF) is None
    assert environments.find("tdmpc2", "cheetah-run", code).probe(OFF) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise RuntimeError('broken in its own way')", "RuntimeError: broken in its own way"),
        ("def a(:", "SyntaxError"),
        ("raise SystemExit('go away')", "SystemExit: go away"),
        ("import os; os.kill(os.getpid(), 9)", "ended with signal 9"),
        ("import os; os._exit(3)", "ended with exit code 3"),
    ],
)
def test_a_broken_simulator_is_told_with_its_own_error(simulator, text, why):
    suite_is(simulator, text)
    told = environments.probe(DM_CONTROL, OFF)
    assert "dm_control.suite cannot be imported" in told.message and why in told.message and told.next_step


def test_the_file_that_fails_is_named(simulator):
    suite_is(simulator, "\n\nraise RuntimeError('here')")
    assert f"{simulator / 'suite' / '__init__.py'}, line 3" in environments.probe(DM_CONTROL, OFF).message


def test_a_missing_package_of_the_source_is_told_with_what_to_type(simulator):
    suite_is(simulator, "raise ModuleNotFoundError(\"No module named 'mujoco'\", name='mujoco.wrapper')")
    told = environments.probe(DM_CONTROL, OFF)
    assert "No module named 'mujoco'" in told.message and told.next_step.startswith("pip install 'dm_control")


def test_what_the_official_code_hides_is_told(simulator, code):
    (code / "envs" / "dmcontrol.py").write_text("import no_such_package\n")
    told = environments.find("tdmpc2", "cheetah-run", code).probe(OFF)
    assert "envs.dmcontrol cannot be imported" in told.message and "no_such_package" in told.message
    assert "no_such_package" in told.next_step


def test_another_suites_missing_package_is_told(simulator, code):
    (code / "envs" / "metaworld.py").write_text("import no_such_suite\n")
    told = environments.find("tdmpc2", "mw-assembly", code).probe({})
    assert "envs.metaworld" in told.message and "no_such_suite" in told.message


def test_a_backend_that_cannot_be_loaded_is_told_as_such(simulator, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "no-such-backend")
    told = environments.probe(DM_CONTROL, {})
    assert "MUJOCO_GL=no-such-backend" in told.message and "unset MUJOCO_GL" in told.next_step


def test_an_import_that_does_not_end_is_told(simulator, monkeypatch):
    suite_is(simulator, "import time; time.sleep(60)")
    monkeypatch.setattr(probing, "TIMEOUT", 0.5)
    assert "did not end within 0.5 s" in environments.probe(DM_CONTROL, OFF).message


def asked_again(monkeypatch):
    """Forget what this process knows, and let no other be started."""
    monkeypatch.setattr(probing, "_known", {})
    monkeypatch.setattr(subprocess, "run", None)


def test_what_could_be_imported_is_not_tried_again(simulator, code, monkeypatch):
    found = environments.find("tdmpc2", "cheetah-run", code)
    found.probe(OFF)
    asked_again(monkeypatch)
    assert found.probe(OFF) is None


def test_what_failed_is_tried_again(simulator):
    good = (simulator / "suite" / "__init__.py").read_text()
    suite_is(simulator, "raise RuntimeError")
    assert environments.probe(DM_CONTROL, OFF)
    suite_is(simulator, good)
    assert environments.probe(DM_CONTROL, OFF) is None


def test_what_was_edited_since_is_tried_again(simulator, code):
    found = environments.find("tdmpc2", "cheetah-run", code)
    assert found.probe(OFF) is None
    (code / "envs" / "dmcontrol.py").write_text("import no_such_package\n")
    assert "no_such_package" in found.probe(OFF).message
    suite_is(simulator, "raise RuntimeError('edited')")
    assert "edited" in environments.probe(DM_CONTROL, OFF).message


def test_another_backend_is_another_question(simulator, monkeypatch):
    assert environments.probe(DM_CONTROL, OFF) is None
    assert environments.probe(DM_CONTROL, {"MUJOCO_GL": "glfw"})
    for users, fails in (("egl", False), ("glfw", True), ("osmesa", False)):
        monkeypatch.setenv("MUJOCO_GL", users)
        assert bool(environments.probe(DM_CONTROL, {})) is fails


def test_a_cache_that_cannot_be_written_costs_only_time(simulator, monkeypatch):
    monkeypatch.setenv("TDMPC2_LEAN_CACHE", "/dev/null/cache")
    assert environments.probe(DM_CONTROL, OFF) is None


def test_a_source_lists_the_tasks_of_the_installed_package(simulator):
    assert TaskName("toy", "spin_fast") in DM_CONTROL.tasks()
    suite_is(simulator, "raise RuntimeError('broken in its own way')")
    with pytest.raises(environments.UserError, match="broken in its own way"):
        DM_CONTROL.tasks()


def test_the_official_environments_can_be_imported(official, monkeypatch, tmp_path):
    monkeypatch.setenv("TDMPC2_LEAN_CACHE", str(tmp_path))
    assert environments.find("tdmpc2", "cup-spin", official.code_dir).probe(OFF) is None
    told = environments.find("tdmpc2", "mw-assembly", official.code_dir).probe({})
    assert told is None or "envs.metaworld" in told.message
