"""The judge can fail: synthetic runs, each made from the references, get the verdict due to them."""

import dataclasses
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tdmpc2_lean import references
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.validation.judging import criteria, synthetic, verdicts
from tdmpc2_lean.validation.judging.criteria import FAIL, INCOMPLETE, PASS, UNJUDGED, criterion
from tdmpc2_lean.validation.judging.verdicts import ScoredRun, judge
from tdmpc2_lean.validation.judging.window import Window

NAMES = ("tdmpc2-dm_control", "tdmpc2-playground", "dreamerv3-dm_control", "dreamerv3-playground")
TDMPC2 = criterion("tdmpc2-playground")
ONE_TASK = dataclasses.replace(TDMPC2, tasks=("cheetah-run",))


def reference_means(of: criteria.Criterion) -> dict[str, tuple[float, float]]:
    """Task -> the reference's mean over seeds at the early and at the late window."""
    return {
        task: tuple(
            float(np.mean(list(verdicts.reference_scores(of.reference, task, window).values())))
            for window in of.windows(task)
        )
        for task in of.tasks
    }


def lowest(of: criteria.Criterion, task: str) -> tuple[float, float]:
    """The reference's lowest seed at the early and at the late window."""
    return tuple(
        min(verdicts.reference_scores(of.reference, task, window).values()) for window in of.windows(task)
    )


def flat(of: criteria.Criterion, task: str, seed: int, early: float, late: float) -> ScoredRun:
    """A finished run whose points are `early` up to the early window's end, and `late` after it."""
    steps = list(range(of.every, of.budget(task) + 1, of.every))
    values = [early if step <= of.windows(task)[0].upto else late for step in steps]
    return ScoredRun(task, seed, steps, values, [100] * len(steps), name=f"{task}/{seed}")


def at_lowest(of: criteria.Criterion, task: str, offset: float) -> list[ScoredRun]:
    """Runs whose score at each window is the reference's lowest seed + offset."""
    return [flat(of, task, seed, *(low + offset for low in lowest(of, task))) for seed in of.seeds]


def with_failing(of: criteria.Criterion, count: int) -> list[ScoredRun]:
    """The reference's runs, but on `count` tasks 51 below the lowest seed: those with the least to lose."""
    means = reference_means(of)
    loss = {
        task: max(m - low for m, low in zip(means[task], lowest(of, task), strict=True)) for task in of.tasks
    }
    failing = sorted(of.tasks, key=loss.__getitem__)[:count]
    runs = synthetic.runs(of, tasks=[task for task in of.tasks if task not in failing])
    return runs + [run for task in failing for run in at_lowest(of, task, -51)]


def edited(run: ScoredRun, points: list[tuple]) -> ScoredRun:
    """The run with other points (step, value, episodes)."""
    steps, values, episodes = (list(column) for column in zip(*points, strict=True))
    return dataclasses.replace(run, steps=steps, values=values, episodes=episodes)


def points_of(run: ScoredRun) -> list[tuple]:
    return list(zip(run.steps, run.values, run.episodes, strict=True))


# The registry


def test_windows_are_those_that_were_fixed():
    assert criteria.windows("tdmpc2", "cheetah-run") == (
        ("early", 500_000, 1_000_000),
        ("late", 3_000_000, 4_000_000),
    )
    for task in ("humanoid-run", "humanoid-stand", "humanoid-walk"):
        assert criteria.windows("tdmpc2", task)[1] == ("late", 13_000_000, 14_000_000)
    assert criteria.windows("tdmpc2", "dog-run")[1] == ("late", 3_000_000, 4_000_000)
    assert criteria.windows("dreamerv3", "dmc_walker_run") == (
        ("early", 200_000, 300_000),
        ("late", 400_000, 500_000),
    )
    assert (criteria.MARGIN, criteria.LEAST_SEEDS) == (50, 3)


@pytest.mark.parametrize(
    ("name", "tasks", "needed"), list(zip(NAMES, (39, 22, 18, 18), (32, 18, 15, 15), strict=True))
)
def test_80_percent_of_a_protocols_tasks_are_needed_rounded_up(name, tasks, needed):
    assert (len(criterion(name).tasks), criterion(name).needed) == (tasks, needed)


def test_exit_codes():
    assert criteria.EXIT_CODES == {PASS: 0, FAIL: 1, INCOMPLETE: 2}


def test_unknown_names_raise():
    with pytest.raises(UserError, match="Did you mean 'tdmpc2-dm_control'"):
        criterion("tdmpc2-dmcontrol")
    with pytest.raises(UserError, match="Did you mean 'cheetah-run'"):
        criteria.windows("tdmpc2", "cheetah-rum")
    with pytest.raises(UserError, match="agent 'sac'"):
        criteria.windows("sac", "cheetah-run")


# The verdict


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_itself_passes_with_its_own_numbers(name):
    of = criterion(name)
    verdict = judge(of, synthetic.runs(of))
    assert verdict.state == PASS and verdict.exit_code == 0
    for window in verdict.windows:
        assert window.mean == pytest.approx(window.reference_mean)
        assert window.median == pytest.approx(window.reference_median)
        assert window.passed == len(of.tasks)
        for result in window.tasks:
            assert list(result.ours.values()) == pytest.approx(list(result.reference.values()))


@pytest.mark.parametrize("name", NAMES)
def test_each_task_passes_49_below_its_lowest_seed_and_fails_51_below(name):
    of = criterion(name)
    for offset, state in ((-49, PASS), (-50, PASS), (-51, FAIL)):
        verdict = judge(of, [run for task in of.tasks for run in at_lowest(of, task, offset)])
        assert {result.state for window in verdict.windows for result in window.tasks} == {state}


def test_one_task_of_a_protocol_of_one_passes_at_49_below_and_fails_at_51_below():
    # A task whose seeds are nearly equal: the mean's bar is where the task's bar is.
    equal = dataclasses.replace(ONE_TASK, tasks=("cartpole-balance",))
    assert judge(equal, synthetic.runs(equal, shift=-49)).state == PASS
    assert judge(equal, at_lowest(equal, "cartpole-balance", -51)).state == FAIL


@pytest.mark.parametrize("name", NAMES)
def test_one_task_short_is_incomplete(name):
    of = criterion(name)
    verdict = judge(of, synthetic.runs(of, tasks=of.tasks[1:]))
    assert verdict.state == INCOMPLETE and verdict.exit_code == 2
    assert all(window.judged == len(of.tasks) - 1 for window in verdict.windows)
    assert verdict.windows[0].tasks[0].why.startswith("0 seeds of at least 3")


@pytest.mark.parametrize("name", NAMES)
def test_80_percent_of_the_tasks_pass_and_one_less_fails(name):
    of = criterion(name)
    spare = len(of.tasks) - of.needed
    enough = judge(of, with_failing(of, spare))
    assert enough.state == PASS and {w.passed for w in enough.windows} == {of.needed}
    short = judge(of, with_failing(of, spare + 1))
    assert short.state == FAIL and short.exit_code == 1
    for window in short.windows:
        assert window.why == (f"{of.needed - 1} of {len(of.tasks)} tasks pass, {of.needed} are needed",)


@pytest.mark.parametrize("name", ("tdmpc2-dm_control", "dreamerv3-dm_control"))
def test_a_low_median_fails_although_every_task_passes(name):
    of = criterion(name)
    verdict = judge(of, [run for task in of.tasks for run in at_lowest(of, task, -49.5)])
    assert verdict.state == FAIL
    early = verdict.windows[0]
    assert early.passed == len(of.tasks)
    assert any(why.startswith("the median") for why in early.why)


def test_a_low_mean_fails_although_the_median_and_enough_tasks_pass():
    of = TDMPC2
    runs = synthetic.runs(of)
    lost = sorted(of.tasks, key=lambda task: reference_means(of)[task][0])[: len(of.tasks) - of.needed]
    assert len(lost) == 4
    runs = [run for run in runs if run.task not in lost]
    runs += [flat(of, task, seed, 0, 0) for task in lost for seed in of.seeds]
    for window in judge(of, runs).windows:
        assert window.passed == of.needed and window.state == FAIL
        assert [why.split()[1] for why in window.why] == ["mean"]


def test_two_seeds_are_incomplete():
    verdict = judge(TDMPC2, synthetic.runs(TDMPC2, seeds=(1, 2)))
    assert verdict.state == INCOMPLETE
    assert verdict.windows[0].tasks[0].why == "2 seeds of at least 3"


def test_three_of_dreamerv3s_five_seeds_are_enough_if_they_are_the_first():
    of = criterion("dreamerv3-dm_control")
    assert judge(of, synthetic.runs(of, seeds=(0, 1, 2))).windows[0].judged == 18
    chosen = judge(of, synthetic.runs(of, seeds=(2, 3, 4)))
    assert chosen.state == INCOMPLETE
    assert "not the first of 0, 1, 2, 3, 4" in chosen.windows[0].tasks[0].why


def test_a_fourth_seed_that_has_not_arrived_leaves_the_task_unjudged():
    of = criterion("dreamerv3-dm_control")
    runs = synthetic.runs(of, seeds=(0, 1, 2))
    runs.append(dataclasses.replace(synthetic.run(of, of.tasks[0], 3), reached=450_000))
    early, late = judge(of, runs).windows
    assert early.judged == 18
    assert late.state == INCOMPLETE and late.tasks[0].why == "seed 3 is at 450000 of 500000 env steps"


@pytest.mark.parametrize("name", ("tdmpc2-playground", "dreamerv3-dm_control"))
@pytest.mark.parametrize("index", (0, 1))
def test_a_run_one_chunk_short_of_a_window_is_incomplete(name, index):
    of = criterion(name)
    runs = synthetic.runs(of)
    end = of.windows(runs[0].task)[index].upto
    runs[0] = edited(runs[0], [point for point in points_of(runs[0]) if point[0] < end])
    verdict = judge(of, runs)
    assert verdict.state == INCOMPLETE
    assert [window.state for window in verdict.windows] == [INCOMPLETE if not index else PASS, INCOMPLETE]


def test_a_failed_window_fails_the_verdict_although_the_other_is_incomplete():
    runs = [flat(TDMPC2, task, seed, 0, 0) for task in TDMPC2.tasks for seed in TDMPC2.seeds]
    runs = [edited(run, [point for point in points_of(run) if point[0] <= 2_000_000]) for run in runs]
    verdict = judge(TDMPC2, runs)
    assert [window.state for window in verdict.windows] == [FAIL, INCOMPLETE]
    assert verdict.state == FAIL


def test_a_run_off_protocol_is_never_judged():
    runs = synthetic.runs(TDMPC2)
    runs[4] = dataclasses.replace(runs[4], off_protocol=("utd",))
    verdict = judge(TDMPC2, runs)
    assert verdict.state == INCOMPLETE and verdict.off_protocol == (runs[4],)
    spoilt = [
        dataclasses.replace(run, off_protocol=("seed_steps",), values=[0.0] * len(run.values)) for run in runs
    ]
    assert judge(TDMPC2, synthetic.runs(TDMPC2) + spoilt).state == PASS
    raised = [dataclasses.replace(run, values=[1000.0] * len(run.values)) for run in spoilt]
    lost = [flat(TDMPC2, task, seed, 0, 0) for task in TDMPC2.tasks for seed in TDMPC2.seeds]
    assert judge(TDMPC2, lost + raised).state == FAIL


def test_a_seed_in_two_runs_is_unjudged():
    runs = synthetic.runs(ONE_TASK)
    better = dataclasses.replace(runs[0], values=[1000.0] * len(runs[0].values), name="again")
    verdict = judge(ONE_TASK, [*runs, better])
    assert verdict.state == INCOMPLETE and "seed 1 stands in 2 runs" in verdict.windows[0].tasks[0].why


def test_a_task_that_the_protocol_lacks_is_listed_and_changes_nothing():
    stranger = synthetic.run(criterion("tdmpc2-dm_control"), "dog-run", 1)
    verdict = judge(TDMPC2, [*synthetic.runs(TDMPC2), stranger])
    assert verdict.state == PASS and verdict.other_tasks == (stranger,)


def test_no_runs_at_all_are_incomplete():
    verdict = judge(TDMPC2, [])
    assert verdict.state == INCOMPLETE
    assert math.isnan(verdict.windows[0].mean) and verdict.windows[0].judged == 0


# Points


@pytest.mark.parametrize("value", (math.nan, math.inf))
def test_a_value_that_is_no_number_leaves_the_task_unjudged(value):
    runs = synthetic.runs(ONE_TASK)
    runs[0] = edited(runs[0], [(s, value if s == 700_000 else v, e) for s, v, e in points_of(runs[0])])
    early, late = judge(ONE_TASK, runs).windows
    assert early.tasks[0].why == "seed 1 has no finite value at 700000" and early.state == INCOMPLETE
    assert late.state == PASS


def test_a_missing_point_leaves_the_task_unjudged():
    runs = synthetic.runs(ONE_TASK)
    runs[0] = edited(runs[0], [point for point in points_of(runs[0]) if point[0] != 700_000])
    assert judge(ONE_TASK, runs).windows[0].tasks[0].why == "seed 1 has 4 of 5 points in (500K, 1000K]"


def test_two_values_at_one_step_leave_the_task_unjudged_and_a_repeated_point_is_one():
    runs = synthetic.runs(ONE_TASK)
    repeated = [edited(run, points_of(run) + points_of(run)[3:9]) for run in runs]
    assert (
        judge(ONE_TASK, repeated).windows[0].tasks[0].ours == judge(ONE_TASK, runs).windows[0].tasks[0].ours
    )
    runs[0] = edited(runs[0], [*points_of(runs[0]), (700_000, 1000.0, 10)])
    assert judge(ONE_TASK, runs).windows[0].tasks[0].why == "seed 1 has 2 different values at 700000"


def test_points_on_a_windows_edges_fall_where_the_interval_says():
    window = Window("early", 500_000, 1_000_000)
    steps = np.array([499_999, 500_000, 500_001, 999_999, 1_000_000, 1_000_001])
    assert window.holds(steps).tolist() == [False, False, True, True, True, False]
    assert verdicts.score([500_000, 600_000, 1_000_000, 1_000_001], [7.0, 1.0, 3.0, 9.0], window) == 2.0


@pytest.mark.parametrize(
    ("step", "counts"), [(500_000, False), (600_000, True), (1_000_000, True), (1_100_000, False)]
)
def test_a_point_on_an_edge_of_a_judged_run_counts_or_not_as_the_interval_says(step, counts):
    runs = synthetic.runs(ONE_TASK)
    before = judge(ONE_TASK, runs).windows[0].tasks[0].ours[1]
    runs[0] = edited(runs[0], [(s, v + 100 * (s == step), e) for s, v, e in points_of(runs[0])])
    after = judge(ONE_TASK, runs).windows[0].tasks[0].ours[1]
    assert after - before == pytest.approx(20 if counts else 0)


def test_points_are_weighted_by_their_episodes():
    window = Window("early", 0, 300)
    assert verdicts.score([100, 200, 300], [0.0, 10.0, 40.0], window, [1, 2, 1]) == 15.0
    assert verdicts.score([100, 200], [math.nan, 10.0], window, [0, 2]) == 10.0
    assert math.isnan(verdicts.score([100], [1.0], window, [0]))
    assert math.isnan(verdicts.score([400], [1.0], window))


def test_only_dreamerv3s_points_are_weighted_by_their_episodes():
    of = dataclasses.replace(criterion("dreamerv3-dm_control"), tasks=("dmc_walker_walk",), every=50_000)
    window = of.windows("dmc_walker_walk")[0]
    run = ScoredRun("dmc_walker_walk", 0, [250_000, 300_000], [0.0, 100.0], [10, 30], reached=300_000)
    assert verdicts.seed_score(of, run, window) == (75.0, "")
    equal = dataclasses.replace(of, by_episodes=False)
    assert verdicts.seed_score(equal, run, window) == (50.0, "")
    fault = verdicts.seed_score(of, dataclasses.replace(run, episodes=None), window)[1]
    assert fault == "does not say how many episodes its points hold"
    none = verdicts.seed_score(of, dataclasses.replace(run, episodes=[0, 0]), window)[1]
    assert none == "has no episode in the window"


def test_a_bar_that_nothing_can_miss_is_said_to_be_vacuous():
    of = criterion("dreamerv3-dm_control")
    vacuous = [
        {r.task for r in window.tasks if r.vacuous} for window in judge(of, synthetic.runs(of)).windows
    ]
    assert vacuous == [{"dmc_cartpole_swingup_sparse", "dmc_hopper_hop"}, {"dmc_cartpole_swingup_sparse"}]


def test_the_reference_decides_the_bar():
    reference = references.load("tdmpc2_dmc")
    window = criteria.windows("tdmpc2", "cheetah-run")[1]
    steps, returns, _ = reference.curve("cheetah-run")
    inside = (steps > 3_000_000) & (steps <= 4_000_000)
    assert inside.sum() == 10
    result = judge(ONE_TASK, synthetic.runs(ONE_TASK)).windows[1].tasks[0]
    assert result.bar == pytest.approx(returns[:, inside].mean(axis=1).min() - 50)
    assert list(verdicts.reference_scores(reference, "cheetah-run", window)) == [1, 2, 3]


# What never changes a verdict

SMALL = dataclasses.replace(TDMPC2, tasks=("cartpole-balance", "cheetah-run", "humanoid-walk"))


def summary(verdict: verdicts.Verdict) -> list:
    """All that a report prints of a verdict, to the last bit."""
    return [verdict.state] + [
        (
            w.state,
            w.mean,
            w.median,
            w.passed,
            w.why,
            [(r.task, r.state, r.why, dict(r.ours)) for r in w.tasks],
        )
        for w in verdict.windows
    ]


def drawn_runs(chance: random.Random) -> list[ScoredRun]:
    """Runs anywhere from good to bad, some of them short."""
    runs = [
        synthetic.run(SMALL, task, seed, shift=chance.choice([0.0, -30.0, -49.0, -51.0, -200.0]))
        for task in SMALL.tasks
        for seed in SMALL.seeds
    ]
    if chance.random() < 0.3:
        where = chance.randrange(len(runs))
        runs[where] = edited(runs[where], points_of(runs[where])[: chance.randrange(1, 40)])
    return runs


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_shuffling_points_and_runs_splitting_over_resumes_and_renaming_never_change_a_verdict(seed):
    chance = random.Random(seed)
    runs = drawn_runs(chance)
    told_again = []
    for run in runs:
        points = points_of(run)
        cut = chance.randrange(len(points))
        overlap = points[max(0, cut - chance.randrange(5)) :]
        points = points[:cut] + overlap if chance.random() < 0.5 else points
        chance.shuffle(points)
        told_again.append(dataclasses.replace(edited(run, points), name=str(chance.random())))
    chance.shuffle(told_again)
    assert summary(judge(SMALL, told_again)) == summary(judge(SMALL, runs))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0, 300))
def test_raising_values_never_makes_a_verdict_worse(seed, lift):
    runs = drawn_runs(random.Random(seed))
    raised = [dataclasses.replace(run, values=[value + lift for value in run.values]) for run in runs]
    order = (FAIL, INCOMPLETE, PASS)
    before, after = judge(SMALL, runs).state, judge(SMALL, raised).state
    assert order.index(after) >= order.index(before)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_taking_runs_away_never_makes_a_pass(seed):
    chance = random.Random(seed)
    runs = drawn_runs(chance)
    kept = [run for run in runs if chance.random() < 0.8]
    if len(kept) < len(runs):
        verdict = judge(SMALL, kept)
        assert verdict.state == INCOMPLETE
        assert UNJUDGED in {result.state for window in verdict.windows for result in window.tasks}
