"""Interquartile mean and probability of improvement are what they are called, and so are their intervals."""

import dataclasses
import math

import numpy as np
import pytest

from tdmpc2_lean import references
from tdmpc2_lean.validation.judging import criteria, intervals, synthetic


def test_the_interquartile_mean_is_the_mean_of_the_middle_half():
    scores = {"a": [0.0, 1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0, 1000.0]}
    assert intervals.interquartile_mean(scores, resamples=50).value == 3.5


def test_the_probability_of_improvement_counts_pairs_and_halves_ties():
    ours = {"a": [1.0, 2.0, 3.0], "b": [5.0, 5.0]}
    theirs = {"a": [2.0, 2.0], "b": [0.0, 9.0, 9.0, 9.0], "not ours": [1.0]}
    found = intervals.probability_of_improvement(ours, theirs, resamples=50)
    assert found.value == pytest.approx((0.5 + 0.25) / 2)
    assert (found.tasks, found.seeds) == (2, 11)


def test_all_better_is_1_and_all_worse_is_0_without_any_doubt():
    low, high = {"a": [1.0, 2.0, 3.0]}, {"a": [4.0, 5.0, 6.0]}
    assert intervals.probability_of_improvement(high, low)[:3] == (1, 1, 1)
    assert intervals.probability_of_improvement(low, high)[:3] == (0, 0, 0)


def test_intervals_hold_their_value_and_are_the_same_for_the_same_seed():
    rng = np.random.default_rng(0)
    scores = {f"task{i}": rng.normal(500, 100, 5) for i in range(10)}
    first, again = intervals.interquartile_mean(scores), intervals.interquartile_mean(scores)
    assert first == again and first != intervals.interquartile_mean(scores, seed=1)
    assert first.low < first.value < first.high
    assert (first.tasks, first.seeds) == (10, 50)


def test_the_bootstrap_is_stratified_seeds_are_drawn_within_their_task():
    # Tasks far apart, seeds equal within each: drawing within tasks can change nothing.
    scores = {f"task{i}": [100.0 * i] * 3 for i in range(8)}
    found = intervals.interquartile_mean(scores)
    assert found.low == pytest.approx(found.high) == pytest.approx(found.value)


def test_an_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for trial in range(60):
        scores = {f"task{i}": rng.normal(0, 1, 10) for i in range(6)}
        found = intervals.interquartile_mean(scores, resamples=300, seed=trial)
        hits += found.low <= 0 <= found.high
    assert 48 <= hits <= 60


def test_a_task_with_one_seed_is_held_fixed():
    one = intervals.interquartile_mean({"a": [3.0]})
    assert one == (3.0, 3.0, 3.0, 1, 1)
    mixed = intervals.interquartile_mean({"a": [3.0], "b": [1.0, 2.0, 9.0]})
    assert mixed.low < mixed.high and mixed.seeds == 4


def test_no_scores_give_nan_and_no_finite_score_is_an_error():
    empty = intervals.interquartile_mean({})
    assert math.isnan(empty.value) and empty.tasks == empty.seeds == 0
    assert math.isnan(intervals.probability_of_improvement({"a": [1.0, 2.0]}, {"b": [1.0, 2.0]}).value)
    with pytest.raises(ValueError, match="finite"):
        intervals.interquartile_mean({"a": [1.0, math.nan]})


def test_compare_shows_ours_the_reference_and_every_baseline_at_both_windows():
    of = dataclasses.replace(
        criteria.criterion("tdmpc2-dm_control"), tasks=("cheetah-run", "dog-stand", "cup-spin")
    )
    rows = intervals.compare(of, synthetic.runs(of), resamples=100)
    names = ["tdmpc2", of.reference, *of.baselines]
    assert [(row.name, row.window) for row in rows] == [(n, w) for w in ("early", "late") for n in names]
    assert all(name in references.names() for name in names[1:])
    by_name = {(row.name, row.window): row for row in rows}
    assert by_name["tdmpc2", "late"].iqm == by_name["tdmpc2_dmc", "late"].iqm
    assert by_name["tdmpc2_dmc", "late"].improvement.value == 0.5
    assert by_name["tdmpc2_dmc_vs_sac", "late"].improvement.value == 1
    # One of SAC's seeds on dog-stand ends at 2.5M env steps and has no score at (3M, 4M].
    assert by_name["tdmpc2_dmc_vs_sac", "late"].iqm.seeds == 8


def test_compare_leaves_out_runs_that_are_off_protocol_or_have_no_score():
    of = dataclasses.replace(criteria.criterion("tdmpc2-dm_control"), tasks=("cheetah-run", "cup-spin"))
    runs = synthetic.runs(of)
    runs[0] = dataclasses.replace(runs[0], off_protocol=("utd",))
    runs[1] = dataclasses.replace(runs[1], reached=2_000_000)
    ours = [row.iqm.seeds for row in intervals.compare(of, runs, resamples=50) if row.name == "tdmpc2"]
    assert ours == [5, 4]
