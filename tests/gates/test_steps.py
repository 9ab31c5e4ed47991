"""Whatever the number of steps, a gate reaches all that it promises to compare, or is refused before anything runs."""

import signal
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from tdmpc2_lean.commands.gate import gate as gate_command
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.validation.gates import dreamerv3, process, resuming_dreamerv3, resuming_tdmpc2
from tdmpc2_lean.validation.gates.results import FAIL, PASS
from tdmpc2_lean.validation.gates.run import run
from tdmpc2_lean.validation.gates.subjects import find_subject
from tdmpc2_lean.validation.gates.suites import SUITES, check_steps, chosen, least_steps
from tdmpc2_lean.validation.gates.trace_dreamerv3 import DreamerV3Budget
from tdmpc2_lean.validation.gates.trace_tdmpc2 import TDMPC2Budget

LEAST = {upstream: {name: least_steps(gate, suite.budget()) for name, gate in suite.gates.items() if gate.lacks}
         for upstream, suite in SUITES.items()}  # fmt: skip


def trained(budget):
    """What goes on where TD-MPC2's loop saves: [(step, within an episode, evaluation due, rows stored)]."""
    saved, rows, begun, due = [], 0, 0, False
    for step in range(budget.steps + 1):
        due = due or step % budget.eval_freq == 0
        if step % budget.episode_length == 0:
            due, rows, begun = False, rows + (step > 0) * (budget.episode_length + 1), step
        saved.append((step + 1, step + 1 - begun < budget.episode_length, due, rows))
    return saved


@pytest.mark.parametrize("steps", [*range(LEAST["tdmpc2"]["resume"], 260), 401, 1000])
def test_every_stop_of_tdmpc2_is_reached_and_every_phase_covered(steps):
    budget = TDMPC2Budget(steps=steps)
    stops, lacking = resuming_tdmpc2.planned(budget)
    assert not lacking and len(set(stops.values())) == len(stops) == 5, stops
    at = {step: (within, due, rows) for step, within, due, rows in trained(budget)}
    first, due_within, due_between, full, finished = (at[step] for step in stops.values())
    assert first == (True, False, 0)
    assert due_within[:2] == (True, True) and due_between[:2] == (False, True)
    assert full[0] and full[2] > budget.buffer_size
    assert not any(within and rows > full[2] for step, (within, _, rows) in at.items() if step <= steps)
    assert stops["finished"] == max(at)
    resumed, again = resuming_tdmpc2.stop_again(budget)
    assert resumed in stops.values() and at[resumed][0] and at[again][0] and again <= steps
    assert not any(step % budget.episode_length == 0 for step in range(resumed, again)), "another episode begins"


@pytest.mark.parametrize("steps", [*range(LEAST["dreamerv3"]["resume"], 260), 401, 1000])
def test_every_stop_of_dreamerv3_is_reached_and_every_phase_covered(steps):
    budget = DreamerV3Budget(steps=steps)
    stops, lacking = resuming_dreamerv3.planned(budget)
    assert not lacking
    fills, trains, evicts = stops
    assert [stop.signal for stop in stops] == [signal.SIGKILL, signal.SIGTERM, signal.SIGKILL]
    # The official loop makes ten env steps at a time, two of them at once, until it has made enough.
    ends_at = next(step for step in range(0, 10_000, 10) if step >= steps)
    reached = range(0, ends_at, 2)
    for stop in stops:
        assert any(step >= stop.step for step in reached), "the run is over before it is stopped"
    sequences = {step: max(0, step - 2 * budget.batch_length) for step in (*reached, ends_at)}
    ended = [next(step for step in reached if step >= stop.step) for stop in stops]
    assert sequences[ended[0]] < budget.batch_size * budget.batch_length <= sequences[ended[1]]
    assert sequences[ended[2]] > budget.replay_size
    began = [0, *(stop.resumed_at for stop in stops)]
    assert began == sorted(began) and all(here < end for here, end in zip(began, [*ended, ends_at], strict=True))
    assert all(stop.resumed_at % resuming_dreamerv3.SAVING == 0 for stop in (fills, evicts))
    assert fills.resumed_at <= ended[0] and evicts.resumed_at <= ended[2] and trains.resumed_at > ended[1]


def test_at_the_default_number_of_steps_a_run_is_stopped_where_the_mutants_were_tried():
    assert list(resuming_tdmpc2.planned(TDMPC2Budget())[0].values()) == [20, 63, 80, 123, 131]
    stops = resuming_dreamerv3.planned(DreamerV3Budget())[0]
    assert [(stop.step, stop.resumed_at) for stop in stops] == [(45, 30), (107, 110), (147, 120)]


@pytest.mark.parametrize("upstream, name", [(upstream, name) for upstream, found in LEAST.items() for name in found])
def test_too_few_steps_are_refused_with_the_least_number(upstream, name):
    suite, least = SUITES[upstream], LEAST[upstream][name]
    for steps in range(1, least):
        with pytest.raises(UserError) as refused:
            check_steps(chosen([name], upstream), suite.budget(steps=steps))
        assert f"{name} would not see" in refused.value.message and f"--steps {least} " in refused.value.next_step
    for steps in range(least, least + 200):
        check_steps(chosen([name], upstream), suite.budget(steps=steps))


def test_a_gate_that_trains_nothing_takes_any_number_of_steps():
    check_steps(chosen(["utd-count", "plan-vec-one", "plan-vec-many"]), TDMPC2Budget(steps=1))


def test_nothing_runs_where_the_steps_are_too_few(miniature, monkeypatch):
    monkeypatch.setattr(process, "output_of", lambda *_, **__: pytest.fail("a process was started"))
    with pytest.raises(UserError, match="60 steps are too few"):
        run(find_subject("miniature"), ["resume"], TDMPC2Budget(steps=60))
    done = CliRunner().invoke(gate_command, ["run", "--steps", "60", "--checkout", "miniature"])
    assert isinstance(done.exception, UserError) and "--steps 81" in done.exception.next_step


@pytest.mark.parametrize(("made", "outcome"), [(3, PASS), (2, FAIL)])
def test_reports_are_due_by_the_steps_that_are_made_not_by_those_asked_for(tmp_path, made, outcome):
    """DreamerV3's loop makes ten steps at a time: asked for 145, it is at 150 when it looks at its clocks."""
    runs = SimpleNamespace(
        budget=DreamerV3Budget(steps=145),
        compare=lambda *_: (10, None),
        answer_of=lambda *_, **__: {"reports": made},
        trace_of=lambda *_, **__: tmp_path,
    )
    result = next(dreamerv3.seed(SimpleNamespace(config=dreamerv3.SEEDED, code_dir=tmp_path), runs))
    assert (result.gate, result.outcome) == ("seed/same-seed-twice", outcome), result.detail
