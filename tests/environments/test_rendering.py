"""A run that draws gets a backend that draws here; one that does not gets none, and needs no rendering library."""

import os
import subprocess
import sys
from importlib import metadata

import pytest

from tdmpc2_lean.environments import rendering
from tdmpc2_lean.environments.sources import source_named
from tdmpc2_lean.errors import UserError

DM_CONTROL = source_named("dm_control")


def backend(needed=True):
    return rendering.backend(DM_CONTROL, needed, os.environ)


def test_a_run_that_draws_nothing_gets_no_rendering_library(simulator):
    assert backend(needed=False).variables == {"MUJOCO_GL": "disable"}


def test_a_run_that_draws_gets_what_the_official_scripts_set(simulator):
    found = backend()
    assert (found.value, found.variables, found.note) == ("egl", {"MUJOCO_GL": "egl"}, "")


def test_another_backend_is_used_only_with_a_note_that_says_so(simulator, monkeypatch):
    monkeypatch.setenv("THESE_DRAW", "osmesa glfw")
    found = backend()
    assert found.variables == {"MUJOCO_GL": "osmesa"}
    assert "MUJOCO_GL=osmesa" in found.note and "egl, the official default, does not work" in found.note


def test_the_users_own_backend_wins(simulator, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    assert (backend().value, dict(backend().variables)) == ("osmesa", {})
    assert (backend(needed=False).value, dict(backend(needed=False).variables)) == ("osmesa", {})


def test_the_users_own_backend_that_does_not_draw_is_told_with_its_error_and_one_that_does(simulator, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    with pytest.raises(UserError, match="MUJOCO_GL=glfw:\n.*no rendering library for 'glfw'") as told:
        backend()
    assert told.value.next_step == "export MUJOCO_GL=egl, which works on this machine"


def test_where_nothing_draws_what_to_install_is_named(simulator, monkeypatch):
    monkeypatch.setenv("THESE_DRAW", "")
    with pytest.raises(UserError, match="None of egl, osmesa, glfw works") as told:
        backend()
    assert "libegl1" in told.value.next_step and "obs=state" in told.value.next_step


def test_a_simulator_that_is_broken_is_not_called_a_rendering_problem(simulator):
    (simulator / "suite" / "__init__.py").write_text("import numpy.no_such_part")
    with pytest.raises(UserError, match="numpy.no_such_part") as told:
        backend()
    assert "EGL" not in str(told.value)


def test_a_backend_is_tried_once_a_process(simulator, monkeypatch):
    backend()
    monkeypatch.setattr(subprocess, "run", None)
    assert backend().value == "egl"


@pytest.mark.parametrize(
    ("kind", "config", "draws"),
    [
        ("train", {"obs": "state"}, False),
        ("train", {"obs": "rgb"}, True),
        ("train", {"obs": "state", "save_video": True}, False),
        ("train", {"obs": "state", "save_video": True, "enable_wandb": True}, True),
        ("train", {"obs": "state", "save_video_files": True}, True),
        ("evaluate", {"obs": "state", "save_video": True}, True),
        ("evaluate", {"obs": "state", "save_video": False}, False),
    ],
)
def test_what_draws(kind, config, draws):
    assert rendering.is_needed(kind, config) is draws


WANDB = {"obs": "state", "enable_wandb": True, "save_video": True}


def lacking(monkeypatch, *absent, **versions):
    """Let modules be absent, and packages be of these versions."""
    monkeypatch.setattr(rendering, "find_spec", lambda name: None if name in absent else object())
    monkeypatch.setattr(metadata, "version", versions.__getitem__)


def test_wandbs_default_video_without_moviepy_is_told_before_the_run(monkeypatch):
    lacking(monkeypatch, "moviepy", wandb="0.31.0")
    with pytest.raises(UserError, match="moviepy, not installed") as told:
        rendering.check_video("train", WANDB)
    assert "tdmpc2_lean[wandb]" in told.value.next_step and "save_video=false" in told.value.next_step
    rendering.check_video("train", WANDB | {"save_video": False})
    rendering.check_video("train", WANDB | {"enable_wandb": False})
    rendering.check_video("evaluate", WANDB)


def test_a_wandb_that_does_not_know_the_installed_moviepy_is_told(monkeypatch):
    lacking(monkeypatch, wandb="0.18.7", moviepy="2.1.2")
    with pytest.raises(UserError, match="wandb 0.18.7 needs moviepy 1"):
        rendering.check_video("train", WANDB)
    for wandb, moviepy in (("0.19.1", "2.1.2"), ("0.17.4", "1.0.3"), ("0.31.0", "2.2.1")):
        lacking(monkeypatch, wandb=wandb, moviepy=moviepy)
        rendering.check_video("train", WANDB)


@pytest.mark.parametrize(("kind", "setting"), [("train", "save_video_files"), ("evaluate", "save_video")])
def test_video_files_without_imageio_ffmpeg_are_told(monkeypatch, kind, setting):
    lacking(monkeypatch, "imageio_ffmpeg")
    with pytest.raises(UserError, match=f"{setting}=true needs imageio-ffmpeg"):
        rendering.check_video(kind, {"obs": "state", setting: True})
    rendering.check_video(kind, {"obs": "state"})


def test_the_official_code_draws_with_what_a_run_is_given(official, monkeypatch, tmp_path):
    """As in a run: dm_control is imported before the official code could set a default of its own."""
    monkeypatch.setenv("TDMPC2_LEAN_CACHE", str(tmp_path))
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    if not any(rendering.works(value) for value in DM_CONTROL.renderer.backends):
        pytest.skip("nothing draws on this machine")
    code = (
        "import sys, types\nimport dm_control.suite\nsys.path.insert(0, sys.argv[1])\n"
        "from envs.dmcontrol import make_env\n"
        "class Settings(dict):\n    __getattr__ = dict.__getitem__\n"
        "env = make_env(Settings(task='cheetah-run', obs='rgb', seed=1))\n"
        "print(tuple(env.reset().shape), env.render().shape)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code, str(official.code_dir)],
        env=environment | dict(backend().variables),
        capture_output=True,
        text=True,
    )
    assert ran.stdout.splitlines()[-1:] == ["(9, 64, 64) (384, 384, 3)"], ran.stderr
