"""What the miniature is as a text: short, named for what it is, in the official layout, with every patch's place."""

import ast
from pathlib import Path

import pytest

from tdmpc2_lean import places
from tdmpc2_lean.patching import check, read_series

ROOT = places.miniature_dir()
MODULES = sorted((ROOT / "tdmpc2").rglob("*.py"))
LAYOUT = """
tdmpc2.py train.py evaluate.py config.yaml
common/__init__.py common/buffer.py common/init.py common/layers.py common/logger.py common/math.py
common/parser.py common/scale.py common/seed.py common/world_model.py
envs/__init__.py envs/dmcontrol.py envs/wrappers/__init__.py envs/wrappers/tensor.py envs/wrappers/timeout.py
trainer/__init__.py trainer/base.py trainer/online_trainer.py
""".split()


def test_it_has_the_official_layout_and_nothing_else():
    found = {path.relative_to(ROOT / "tdmpc2").as_posix() for path in (ROOT / "tdmpc2").rglob("*.*")}
    assert {path for path in found if "__pycache__" not in path} == set(LAYOUT)


def test_it_can_be_read_in_ten_minutes():
    lines = [line for path in MODULES for line in path.read_text().splitlines() if line.strip()]
    assert len(lines) < 1000


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT / "tdmpc2").as_posix())
def test_every_module_says_that_it_is_the_miniature(path: Path):
    said = ast.get_docstring(ast.parse(path.read_text()))
    assert "miniature" in said and "TD-MPC2" in said


def test_every_patch_of_the_series_applies(miniature):
    report = check(miniature.root, read_series("miniature"))
    assert report.ok and report.fits, report
