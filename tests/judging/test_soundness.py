"""What no run can have written is named, and neither turns FAIL into PASS nor lets PASS stand in silence."""

import copy
import dataclasses
import json
import os
import random
import time

import pytest
import written_runs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recorded import changed, parsed

from tdmpc2_lean.runs import curve
from tdmpc2_lean.validation.judging import criteria, findings, protocols, reading, soundness, synthetic, verdicts
from tdmpc2_lean.validation.judging.agents import agent_named
from tdmpc2_lean.validation.judging.agents.tdmpc2 import SPARE_UPDATES
from tdmpc2_lean.validation.judging.criteria import FAIL, INCOMPLETE, PASS

TDMPC2 = criteria.criterion("tdmpc2-dm_control")
TWO_TASKS = dataclasses.replace(TDMPC2, tasks=("cheetah-run", "walker-run"))
DREAMER = criteria.criterion("dreamerv3-dm_control")
WALKER = protocols.protocol("dreamerv3-dmc_walker_walk")


def judged(folder, of=TWO_TASKS):
    return findings.report(reading.read(folder), {of.name: of}, resamples=2)


@dataclasses.dataclass
class Made:
    """A run before it is written: its record and its lines."""

    run: verdicts.ScoredRun
    said: dict
    lines: list[dict]


def sets(of=TWO_TASKS, **options):
    """The runs of a criterion as they are written."""
    found = []
    for run in synthetic.runs(of, **options):
        entry = written_runs.entry(of, run.task)
        found.append(Made(run, written_runs.record(of, run), written_runs.lines(run, entry)))
    return found


def written(folder, runs):
    for one in runs:
        written_runs.write_as(folder / f"{one.run.task}-{one.run.seed}", one.said, one.lines)
    return folder


@pytest.fixture(scope="module")
def passing():
    return sets()


@pytest.fixture(scope="module")
def failing():
    """Runs that fail by two return units of one task in each window: a few better points lift them over the bar."""
    return sets_just_below_the_bar()


def sets_just_below_the_bar():
    verdict = verdicts.judge(TWO_TASKS, synthetic.runs(TWO_TASKS))
    lack = {}
    for window in verdict.windows:
        (task,) = [task for task in window.tasks if task.task == "walker-run"]
        lack[window.name] = task.mean - task.bar + 2
    early_end = TWO_TASKS.windows("walker-run")[0].upto
    runs = sets()
    for one in runs:
        if one.run.task == "walker-run":
            for line in one.lines:
                lower = lack["early" if line["env_steps"] <= early_end else "late"]
                line |= scored(max(0.0, line["value"] - lower))
    return runs


# Each takes (runs, chance) and spoils some of them, where it can in their favour.


def each(change):
    """A corruption of some lines of some runs; at least one of the first window."""

    def corrupt(runs, chance):
        for one in chance.sample(runs, chance.randint(1, len(runs))):
            for index in {chance.randint(5, 9), *(chance.randrange(len(one.lines)) for _ in range(3))}:
                one.lines[index] = {**one.lines[index], **change(one.lines[index])}

    return corrupt


def scored(value, episodes=10):
    return {"value": value, "episodes": episodes, "returns": [value] * episodes}


def missing_between_the_windows(runs, chance):
    one = chance.choice(runs)
    one.lines = one.lines[:14] + one.lines[20:]


def past_the_budget(runs, chance):
    one = chance.choice(runs)
    last = one.lines[-1]
    more = {"chunk": 41, "agent_steps": 2_050_000, "env_steps": 4_100_000, "updates": last["updates"] + 50_000}
    one.lines.append({**last, **more, **scored(999.0)})


def failed(runs, chance):
    one = chance.choice(runs)
    one.said = {**one.said, "state": "failed", "error": "training has diverged"}


def one_curve_for_all_seeds(runs, chance):
    for task in TWO_TASKS.tasks:
        of = [one for one in runs if one.run.task == task]
        best = max(of, key=lambda one: sum(one.run.values))
        for one in of:
            one.lines = copy.deepcopy(best.lines)


def another_tasks_curve(runs, chance):
    of = {(one.run.task, one.run.seed): one for one in runs}
    for seed in TWO_TASKS.seeds:
        of["walker-run", seed].lines = copy.deepcopy(of["cheetah-run", seed].lines)


def half_of_anothers_points(runs, chance):
    first, second = chance.sample(runs, 2)
    second.lines[:24] = copy.deepcopy(first.lines[:24])


def no_updates_at_all(runs, chance):
    for line in chance.choice(runs).lines:
        line["updates"] = 0


CORRUPTIONS = {
    "off the grid": each(lambda line: {"agent_steps": line["agent_steps"] + 1, "env_steps": line["env_steps"] + 2}),
    "another chunk's number": each(lambda line: {"chunk": line["chunk"] + 1}),
    "not whole": each(lambda line: {"complete": False}),
    "episodes": each(lambda line: scored(999.0, 1000)),
    "one episode": each(lambda line: scored(999.0, 1)),
    "no episode": each(lambda line: {"value": None, "episodes": 0, "returns": []}),
    "above 1000": each(lambda line: scored(5000.0)),
    "below 0": each(lambda line: scored(-5.0)),
    "an episode above 1000": each(lambda line: {**scored(999.0), "returns": [999.0] * 8 + [9.0, 1989.0]}),
    "1e308": each(lambda line: scored(1e308)),
    "no mean of its returns": each(lambda line: {"value": 999.0, "returns": [500.0] * 10}),
    "too few returns": each(lambda line: {**scored(999.0), "returns": [999.0] * 9}),
    "no returns": each(lambda line: {"value": 999.0, "returns": None}),
    "env steps": each(lambda line: {"env_steps": line["agent_steps"]}),
    "updates missing": each(lambda line: {"updates": None}),
    "fewer updates": each(lambda line: {"updates": line["updates"] // 2}),
    "more updates": each(lambda line: {"updates": 2 * line["updates"] + 9}),
    "no updates": no_updates_at_all,
    "missing between the windows": missing_between_the_windows,
    "past the budget": past_the_budget,
    "failed": failed,
    "one curve for all seeds": one_curve_for_all_seeds,
    "another task's curve": another_tasks_curve,
    "half of another's points": half_of_anothers_points,
}


@pytest.mark.parametrize("name", CORRUPTIONS)
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_nothing_that_no_run_can_have_written_makes_a_pass_or_leaves_one(
    tmp_path_factory, passing, failing, name, seed
):
    for before in (passing, failing):
        runs = copy.deepcopy(before)
        CORRUPTIONS[name](runs, random.Random(seed))
        folder = written(tmp_path_factory.mktemp("runs"), runs)
        result = judged(folder)
        assert result.state != PASS
        assert result.complaints or result.off_protocol
        assert all((folder / complaint.file).exists() for complaint in result.complaints)


def test_the_sets_that_are_spoilt_pass_and_fail_before(tmp_path, passing, failing):
    assert judged(written(tmp_path / "passing", passing)).state == PASS
    result = judged(written(tmp_path / "failing", failing))
    assert (result.state, result.complaints) == (FAIL, ())


def test_a_fault_is_named_with_file_and_line_and_says_why_its_task_is_not_judged(tmp_path, passing):
    runs = copy.deepcopy(passing)
    runs[0].lines[6] |= {"value": 999.0}
    result = judged(written(tmp_path, runs))
    (complaint,) = result.complaints
    assert (complaint.file, complaint.line) == ("cheetah-run-1/curve.jsonl", 7)
    assert complaint.what.startswith("has the value 999, and the mean of its returns is ")
    why = result.judgements[0].verdict.windows[0].tasks[0].why
    assert why.startswith("seed 1 is not sound: line 7 has the value 999")


# What a real run writes is sound.


def points(lines):
    found, faults = curve.parsed("".join(json.dumps(line) + "\n" for line in lines).encode())
    assert not faults
    return [reading.point_of(numbered)[0] for numbered in found]


def faults_of(entry, lines, **more):
    said = parsed(written_runs.record_of(entry, entry.seeds[0], **more))
    return soundness.faults(entry, protocols.expected_settings(entry, entry.seeds[0]), said, points(lines))


def dreamers(**options):
    run = synthetic.run(DREAMER, "dmc_walker_walk", 0, **options)
    return written_runs.lines(run, WALKER)


def test_updates_of_tdmpc2_are_counted_as_its_training_loop_makes_them():
    def loop(seed_steps, pretraining, utd, until):
        made = 0
        for step in range(until):
            if step == seed_steps:
                made += seed_steps if pretraining is None else pretraining
            elif step > seed_steps:
                made += (step - seed_steps) * utd // 10 - (step - 1 - seed_steps) * utd // 10
        return made

    entry = protocols.protocol("tdmpc2-smoke")
    for seed_steps, pretraining, tenths in [(500, 50, 2), (500, None, 10), (1000, 0, 5), (500, 7, 25)]:
        given = {"seed_steps": seed_steps, "pretrain_updates": pretraining, "utd": tenths / 10}
        for until in (100, 500, 501, 502, 1000, 1500):
            least, most = agent_named(entry.agent).updates_by(given, until)
            due = loop(seed_steps, pretraining, tenths, until)
            assert least <= due <= most and most - least <= 2 * SPARE_UPDATES


def test_episodes_of_dreamerv3_are_counted_as_its_environments_take_turns():
    for envs, repeat in ((1, 4), (3, 2), (16, 2)):
        ended, steps, inside = 0, 0, [0] * envs
        for _ in range(1200):
            for env in range(envs):
                steps += 1
                inside[env] += 1
                if inside[env] == 1000 // repeat + 1:  # the reset's observation, and an episode's steps
                    inside[env] = 0
                    ended += 1
                assert agent_named("dreamerv3").episodes_by({"run.envs": envs}, steps, repeat) == ended


@pytest.mark.parametrize(
    ("name", "wrote"),
    [  # (agent steps, updates, episodes) of the lines of real smoke runs
        ("tdmpc2-smoke", [(500, 0, 1), (1000, 149, 1), (1500, 249, 1)]),
        ("dreamerv3-smoke", [(500, 106, 1), (1000, 231, 2), (1500, 356, 2)]),
    ],
)
def test_what_real_runs_wrote_is_sound(name, wrote):
    entry = protocols.protocol(name)
    lines = [
        {
            "chunk": number, "agent_steps": steps, "env_steps": steps * entry.action_repeat, "updates": updates,
            **scored(200.0 + number, episodes),
        }
        for number, (steps, updates, episodes) in enumerate(wrote, 1)
    ]  # fmt: skip
    assert faults_of(entry, lines) == []


def test_a_whole_run_of_dreamerv3_is_sound():
    assert faults_of(WALKER, dreamers()) == []
    ratio = 0.5
    late = [{**line, "updates": int(ratio * (line["agent_steps"] - 1100))} for line in dreamers()]
    assert faults_of(WALKER, late) == []


def test_a_run_of_dreamerv3_that_lost_its_episodes_at_a_later_start_is_sound():
    fewer = dreamers()
    fewer[3] |= {"episodes": fewer[3]["episodes"] - 16, "returns": fewer[3]["returns"][16:]}
    assert faults_of(WALKER, fewer)
    start = written_runs.record_of(WALKER, 0)["starts"][0]
    assert faults_of(WALKER, fewer, starts=[start, start]) == []


@pytest.mark.parametrize("episodes", [1, 15, 33, 500])
def test_weights_that_dreamerv3s_episodes_cannot_have_are_named(episodes):
    lines = dreamers()
    lines[12] |= scored(999.0, episodes)
    (fault,) = faults_of(WALKER, lines)
    assert fault.line == 13 and "episodes" in fault.what


@pytest.mark.parametrize("updates", [0, 1000, 10**6, None])
def test_updates_that_do_not_fit_the_train_ratio_are_named(updates):
    lines = dreamers()
    lines[20] |= {"updates": updates}
    (fault,) = faults_of(WALKER, lines)
    assert fault.line == 21 and "updates" in fault.what


def test_returns_up_to_the_rounding_of_a_sum_are_possible():
    lines = dreamers()
    lines[0] |= {"value": 1000.00006, "returns": [1000.00006] * lines[0]["episodes"]}
    lines[1] |= {"value": 0.0, "returns": [0.0] * lines[1]["episodes"]}
    assert faults_of(WALKER, lines) == []


def test_solved_and_unsolved_tasks_whose_seeds_agree_are_no_copies():
    solved = [points([{**line, **scored(1000.0, line["episodes"])} for line in dreamers()]) for _ in range(3)]
    assert soundness.copies(solved) == {}
    whole_numbers = [
        points([{**line, **scored(float(random.Random(f"{seed}{line['chunk']}").randint(970, 990)), 16)}
                for line in dreamers()])
        for seed in range(10)
    ]  # fmt: skip
    assert soundness.copies(whole_numbers) == {}


# What would crash


NAMES = ["$\\frac{1}$", "\ud800", "a\x00b", "x" * 5000]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("path", [("specification", "tasks"), ("specification", "protocol"), ("specification", "arm")])
def test_an_odd_name_is_answered_as_a_fault(tmp_path, passing, name, path):
    runs = copy.deepcopy(passing)
    runs[0].said = changed(runs[0].said, *path, to=[name] if path[-1] == "tasks" else name)
    result = judged(written(tmp_path, runs))
    assert result.state == INCOMPLETE and (result.off_protocol or result.complaints)
    for one in result.subjects:
        one.label.encode()
        assert all(text.encode() for deviation in one.deviations for text in (deviation.expected, deviation.found))


@pytest.mark.parametrize("seed", ["1.0", "true", "1e308", "null", '"1"', "NaN", "1" * 5000])
def test_a_seed_that_is_no_whole_number_is_answered_as_a_fault(tmp_path, passing, seed):
    folder = written(tmp_path, passing)
    path = folder / "cheetah-run-1" / "run.json"
    path.write_text(path.read_text().replace('"seed": 1,', f'"seed": {seed},', 1))
    result = judged(folder)
    assert result.state == INCOMPLETE
    assert [complaint.file for complaint in result.complaints] == ["cheetah-run-1/run.json"]


@pytest.mark.parametrize("depth", [50, 400, 900, 5000, 100_000])
@pytest.mark.parametrize("where", ["settings", "details", "line"])
def test_json_that_is_nested_deeply_is_answered_as_a_fault_or_passed_over(tmp_path, passing, depth, where):
    nested = '{"a":' * depth + "1" + "}" * depth
    folder = written(tmp_path, passing)
    if where == "line":
        path = folder / "cheetah-run-1" / "curve.jsonl"
        path.write_text(nested + "\n" + path.read_text())
    else:
        path = folder / "cheetah-run-1" / "run.json"
        said = json.loads(path.read_text())
        said[where] = {**said.get(where, {}), "nested": "HERE"}
        path.write_text(json.dumps(said).replace('"HERE"', nested))
    result = judged(folder)
    named = [*result.complaints, *result.off_protocol]
    assert result.state == (PASS if where == "line" or (where == "details" and not named) else INCOMPLETE)
    assert named or where == "details"


# Time


def test_reading_takes_time_that_grows_with_the_lines_not_with_their_square(tmp_path):
    """40 thousand lines took 85 s."""
    line = dreamers()[0]
    folder = written_runs.write_as(tmp_path / "long", written_runs.record_of(WALKER, 0), [])
    with open(folder / "curve.jsonl", "w") as file:
        for number in range(1, 40_001):
            step = number * 2
            file.write(json.dumps({**line, "agent_steps": number, "env_steps": step, "chunk": number}) + "\n")
    start = time.process_time()
    result = judged(tmp_path, DREAMER)
    assert time.process_time() - start < 30
    assert len(result.complaints) >= 40_000


def test_a_folder_whose_name_is_no_text_is_judged(tmp_path, passing):
    folder = written(tmp_path, passing)
    os.rename(os.fsencode(folder / "cheetah-run-1"), os.fsencode(folder) + b"/cheetah-\xff")
    result = judged(folder)
    assert result.state == PASS
    assert all(one.folder.name.encode() for one in result.subjects)
