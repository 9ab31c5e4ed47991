"""A figure says what it shows: whose code, n and seeds of both sides, and what the steps are."""

import csv
import math

import pytest

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import figure, record
from tdmpc2_lean.runs.figure import MINIATURE, Run, caption, published


def made(
    seed=1, task="cheetah-run", code="official code e9f5932, 9 patches", settings="fast", state="finished"
):
    return Run(task, seed, (0, 100_000), (10.0, 500.0), 10, code, settings, state)


def test_a_single_seed_is_labelled_as_a_hypothesis():
    text = caption([made()], published("cheetah-run"))
    assert "n=1 (seed 1)" in text and "hypothesis" in text


def test_n_counts_the_seeds_of_one_setting_and_lists_them():
    text = caption([made(3), made(1), made(2), made(1, settings="default")], None)
    assert "settings fast: n=3 (seeds 1, 2, 3)" in text
    assert "settings default: n=1 (seed 1)" in text


def test_the_published_side_has_its_n_and_seeds_too():
    assert "Published TD-MPC2" in caption([made()], published("cheetah-run"))
    assert "n=3 (seeds 1, 2, 3)" in caption([made()], published("cheetah-run"))


def test_the_miniature_is_called_so_and_stands_beside_no_published_curve(tmp_path):
    run = made(code=MINIATURE)
    text = caption([run], None)
    assert "miniature (not TD-MPC2)" in text and "Published" not in text
    figure.draw([run], tmp_path / "curve.png")
    image = (tmp_path / "curve.png").read_bytes()
    assert image.startswith(b"\x89PNG") and b"Published" not in image


def test_a_run_shorter_than_the_published_spacing_is_not_set_beside_a_line_that_nobody_measured():
    short = Run("cheetah-run", 1, (0, 6000), (1.0, 2.0), 2, "code", "smoke", "finished")
    assert "second point, which is at 100,000" in caption([short], published("cheetah-run"))
    assert "second point" not in caption([made()], published("cheetah-run"))


def test_the_unit_of_steps_is_stated():
    assert "agent steps" in caption([made()], None) and "Env steps" in caption([made()], None)


def test_an_interrupted_run_is_marked():
    assert "interrupted" in caption([made(state="interrupted")], None)


def test_a_task_without_published_curve_says_so():
    assert published("stacker-stack") is None
    assert "no published curve" in caption([made(task="stacker-stack")], None)


def test_a_mean_is_over_the_seeds_that_have_the_point():
    reference = figure.Published(
        "t", "a", (1, 2), (0, 1, 2), ((1.0, 2.0, math.nan), (3.0, math.nan, math.nan))
    )
    assert reference.means()[:2] == [2.0, 2.0] and math.isnan(reference.means()[2])


def test_a_figure_of_several_runs_is_drawn(tmp_path):
    figure.draw([made(1), made(2), made(1, settings="default")], tmp_path / "curve.png")
    image = (tmp_path / "curve.png").read_bytes()
    assert image.startswith(b"\x89PNG") and b"n=2 (seeds 1, 2)" in image


def test_runs_of_two_tasks_are_not_mixed(tmp_path):
    with pytest.raises(UserError):
        figure.draw([made(), made(task="dog-run")], tmp_path / "curve.png")


def folder_with(tmp_path, rows, **known):
    code = {"upstream": "tdmpc2", "commit": "e9f5932" + "0" * 33, "patches": [{}], "local_changes": []}
    fields = {
        "kind": "train",
        "task": "cheetah-run",
        "seed": 1,
        "upstream": code,
        "presets": [{"name": "smoke"}],
    }
    record.write(tmp_path, record.new(**fields | {"config": {"eval_episodes": 2}} | known))
    with open(tmp_path / "eval.csv", "w", newline="") as file:
        csv.writer(file).writerows([("step", "episode_reward"), *rows])
    return tmp_path


def test_agent_steps_become_env_steps(tmp_path):
    run = figure.read_run(folder_with(tmp_path, [(0.0, 1.5), (50_000.0, 300.0)]))
    assert run.steps == (0, 100_000) and run.returns == (1.5, 300.0)
    assert run.code == "official code e9f5932, 1 patches" and run.settings == "smoke"


def test_local_changes_are_named(tmp_path):
    code = {"upstream": "tdmpc2", "commit": None, "patches": [], "local_changes": ["a.py"]}
    assert "local changes" in figure.read_run(folder_with(tmp_path, [(0, 1)], upstream=code)).code


def test_code_that_hashes_do_not_call_official_is_not_called_so(tmp_path):
    """A fork's own commit, without local changes: only `verified` says what it is."""
    code = {"upstream": "tdmpc2", "commit": "2521f39" + "0" * 33, "patches": [], "local_changes": []}
    told = [figure.code_of({"upstream": code | {"verified": verified}}) for verified in (False, True)]
    assert told == ["code that is not official, 2521f39, 0 patches", "official code 2521f39, 0 patches"]


def test_a_run_without_evaluations_gets_no_figure(tmp_path):
    assert figure.draw_run(folder_with(tmp_path, [])) is None
    assert not (tmp_path / "curve.png").exists()
