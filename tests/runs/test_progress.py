"""What the child reports becomes speeds, lines and a bar."""

import io

import pytest

from tdmpc2_lean.runs import progress
from tdmpc2_lean.runs.progress import Display, Progress


def reported(*steps, seed_steps=100, steps_in_all=400):
    """A Progress after reports of (step, seconds, evaluation_seconds)."""
    made = Progress()
    made.take(
        {
            "event": "start",
            "steps": steps_in_all,
            "seed_steps": seed_steps,
            "device": "cpu",
            "device_name": None,
        }
    )
    for step, seconds, spent in steps:
        made.take(
            {
                "event": "step",
                "step": step,
                "seconds": seconds,
                "evaluation_seconds": spent,
                "evaluating": False,
                "cpu_seconds": seconds,
            }
        )
    return made


def test_speed_leaves_out_evaluations():
    assert reported((0, 0.0, 0.0), (100, 30.0, 20.0)).speed() == pytest.approx(10.0)


def test_speed_is_that_of_the_last_minute():
    made = reported((0, 0.0, 0.0), (1000, 10.0, 0.0), (1100, 70.0, 0.0))
    assert made.speed() == pytest.approx(100 / 60)


def test_speed_while_learning_leaves_out_the_seeding_phase():
    made = reported((0, 0.0, 0.0), (100, 1.0, 0.0), (101, 11.0, 0.0), (111, 21.0, 0.0))
    assert made.speed() == pytest.approx(1.0)


def test_timing_tells_the_whole_run_and_the_learning_phase_apart():
    made = reported((0, 0.0, 0.0), (100, 10.0, 5.0), (101, 20.0, 5.0), (301, 45.0, 10.0))
    timing = made.timing()
    assert timing["steps"] == 301 and timing["evaluation_seconds"] == 10.0
    assert timing["steps_per_second"] == pytest.approx(301 / 35, rel=1e-3)
    assert timing["learning_steps_per_second"] == pytest.approx(200 / 20, rel=1e-3)


def test_without_reports_nothing_is_claimed():
    assert Progress().timing() == {} and Progress().speed() is None
    assert reported((0, 1.0, 0.0)).timing()["learning_steps_per_second"] is None


def test_a_trainer_without_a_step_counter_has_no_speed():
    assert reported((None, 0.5, 0.0), (None, 1.0, 0.0)).speed() is None


def test_plain_lines_come_at_intervals_and_name_speed_and_time_left(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    made, stream = reported((200, 20.0, 0.0), (300, 30.0, 0.0)), io.StringIO()
    display = Display(made, stream)
    display.update()
    assert stream.getvalue() == ""
    now[0] = progress.LINE_EVERY
    display.update()
    display.update()
    assert stream.getvalue() == "agent step 300/400, 10.0 steps/s, 0:10 left\n"


def test_an_evaluation_is_told_once_and_with_its_n():
    made, stream = reported((100, 1.0, 0.0)), io.StringIO()
    made.take({"event": "evaluation", "step": 100, "episode_reward": 12.34, "episodes": 1})
    display = Display(made, stream)
    display.update()
    display.update()
    assert stream.getvalue() == "evaluation at agent step 100: return 12.3 (mean of 1 episode)\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_bar():
    stream = Terminal()
    display = Display(reported((200, 20.0, 0.0), (300, 30.0, 0.0)), stream)
    display.update()
    display.close()
    assert "300/400 agent steps" in stream.getvalue() and "10.0 steps/s, 0:10 left" in stream.getvalue()


def test_a_counter_that_ends_one_beyond_the_budget_shows_the_budget():
    """The official loop makes `steps` + 1 agent steps."""
    made, stream = reported((300, 30.0, 0.0), (401, 40.0, 0.0)), Terminal()
    display = Display(made, stream)
    display.update()
    display.close()
    assert "400/400 agent steps" in stream.getvalue() and "401" not in stream.getvalue()
    assert progress.line(made).startswith("agent step 400/400, ") and made.timing()["steps"] == 400
    assert " left" not in progress.line(made)


def test_a_run_that_goes_on_is_not_said_to_be_as_fast_as_if_it_had_made_all_steps_itself():
    made = reported(seed_steps=0)
    made.take({"event": "resumed", "step": 390})
    for step, seconds in ((391, 1.0), (400, 10.0)):
        made.take({"event": "step", "step": step, "seconds": seconds, "evaluation_seconds": 0.0, "evaluating": False,
                   "cpu_seconds": seconds})  # fmt: skip
    assert made.timing()["steps_per_second"] == pytest.approx(1.0)


def test_events_of_an_unknown_kind_are_none_of_ours():
    made = reported()
    made.take({"event": "unheard-of"})
    made.take({})
    assert made.news == [] and made.step is None


def test_the_phase_is_named():
    assert "seeding" in progress.state(reported((50, 1.0, 0.0)))
    assert "pretraining" in progress.state(reported((100, 1.0, 0.0)))
    evaluating = reported((0, 1.0, 0.0))
    evaluating.evaluating = True
    assert progress.state(evaluating).endswith("evaluating")


def test_quiet_says_nothing():
    made, stream = reported((100, 1.0, 0.0)), io.StringIO()
    made.take({"event": "evaluation", "step": 100, "episode_reward": 1.0, "episodes": 1})
    display = Display(made, stream, quiet=True)
    display.update()
    display.say("x")
    assert stream.getvalue() == ""


@pytest.mark.parametrize("seconds, text", [(0, "0:00"), (61, "1:01"), (3723, "1:02:03")])
def test_durations(seconds, text):
    assert progress.duration(seconds) == text
