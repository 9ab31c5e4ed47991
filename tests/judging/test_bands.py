"""Curves and profiles with bands are what their definitions say, whatever is missing."""

import numpy as np
import pytest

from tdmpc2_lean.validation.judging import bands, intervals

RANDOM = np.random.default_rng(1)
CURVES = {"a": RANDOM.uniform(0, 1000, (3, 4)), "b": RANDOM.uniform(0, 1000, (5, 4)), "c": np.full((2, 4), 7.0)}


def test_each_point_of_an_iqm_curve_is_the_interquartile_mean_of_the_scores_there():
    curve = bands.iqm_curve(CURVES, resamples=20)
    for place in range(4):
        scores = {task: list(some[:, place]) for task, some in CURVES.items()}
        assert curve.value[place] == pytest.approx(intervals.interquartile_mean(scores, resamples=20).value)
    assert curve.tasks.tolist() == [3] * 4 and curve.runs.tolist() == [10] * 4


def test_a_band_is_that_of_the_stratified_bootstrap():
    scores = {"a": [100.0, 300.0, 800.0], "b": [400.0, 450.0, 500.0, 900.0]}
    curve = bands.iqm_curve({task: np.array(some)[:, None] for task, some in scores.items()}, resamples=4000)
    due = intervals.interquartile_mean(scores, resamples=4000)
    assert curve.low[0] == pytest.approx(due.low, abs=10) and curve.high[0] == pytest.approx(due.high, abs=10)


def test_a_run_without_a_point_does_not_count_there():
    curves = {"a": np.array([[1.0, 5.0], [2.0, np.nan], [3.0, np.nan]]), "b": np.array([[9.0, np.nan]])}
    curve = bands.iqm_curve(curves, resamples=50)
    assert curve.value.tolist() == [pytest.approx(2.5), 5.0]
    assert curve.runs.tolist() == [4, 1] and curve.tasks.tolist() == [2, 1]
    assert curve.low[1] == curve.high[1] == 5.0


def test_where_nobody_has_a_point_there_is_no_number():
    curve = bands.iqm_curve({"a": np.array([[1.0, np.nan]])}, resamples=10)
    assert np.isnan([curve.value[1], curve.low[1], curve.high[1]]).all()


def test_a_profile_is_the_share_of_runs_above_with_tasks_weighing_the_same():
    scores = {"a": [100.0, 200.0], "b": [100.0, 300.0, 300.0, 300.0]}
    profile = bands.performance_profile(scores, np.array([0.0, 100.0, 250.0, 300.0]), resamples=50)
    assert profile.value.tolist() == [1.0, (1 / 2 + 3 / 4) / 2, 3 / 8, 0.0]
    assert (profile.low <= profile.value).all() and (profile.value <= profile.high).all()


def test_the_same_seed_gives_the_same_bytes():
    one, other = (bands.iqm_curve(CURVES, resamples=30, seed=4) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_runs_of_different_lengths_are_refused():
    with pytest.raises(ValueError):
        bands.iqm_curve({"a": np.zeros((1, 2)), "b": np.zeros((1, 3))})
