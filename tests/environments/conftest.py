"""A dm_control that tests can break: it stands before the real one, in processes that a test starts."""

from pathlib import Path

import pytest

from tdmpc2_lean.environments import probing

SUITE = """
import os

ALL_TASKS = (("cheetah", "run"), ("toy", "spin_fast"), ("point_mass", "easy"), ("humanoid_CMU", "run"))
backend = os.environ.get("MUJOCO_GL", "")
if backend not in ("disable", *os.environ["THESE_DRAW"].split()):
    raise ImportError(f"no rendering library for {backend!r}")


class Physics:
    def render(self, **how):
        if backend == "disable":
            raise RuntimeError("nothing draws")


def load(domain, task):
    environment = type("Environment", (), {})()
    environment.physics = Physics()
    return environment
"""


@pytest.fixture
def simulator(tmp_path, monkeypatch) -> Path:
    """The folder of a stand-in for dm_control, whose suite/__init__.py may be rewritten; $THESE_DRAW say with what."""
    folder = tmp_path / "path" / "dm_control"
    (folder / "suite").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "suite" / "__init__.py").write_text(SUITE)
    monkeypatch.setenv("PYTHONPATH", str(folder.parent))
    monkeypatch.setenv("THESE_DRAW", "egl osmesa")
    monkeypatch.setenv("TDMPC2_LEAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(probing, "_known", {})
    return folder
