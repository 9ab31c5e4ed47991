"""Sides are timed in turn, and a clock is read when what was asked for is computed."""

import pytest
import torch

from tdmpc2_lean.validation.benchmarks import timing


class HandMade:
    """Sides that take as long as they say, on a clock of their own."""

    def __init__(self):
        self.now, self.called = 0.0, []

    def side(self, name, seconds):
        def call():
            self.called.append(name)
            self.now += seconds

        return call

    def clock(self):
        return self.now


@pytest.fixture
def made():
    return HandMade()


def test_sides_take_turns_after_two_calls_each_to_warm_up(made):
    sides = {"a": made.side("a", 1.0), "b": made.side("b", 3.0)}
    found = timing.in_turn(sides, 3, made.clock)
    assert made.called == [*"ab", *"ab", *"ab" * 3]
    assert {name: (t.seconds, t.calls) for name, t in found.items()} == {"a": ([1.0] * 3, 1), "b": ([3.0] * 3, 1)}


def test_calls_that_are_too_short_to_be_timed_are_timed_together(made):
    found = timing.in_turn({"a": made.side("a", 0.01), "b": made.side("b", 1.0)}, 2, made.clock)
    assert found["a"].calls == round(timing.BLOCK / 0.01) and found["b"].calls == 1
    assert found["a"].seconds == pytest.approx([0.01, 0.01])


def test_one_call_is_timed_where_blocks_are_not_wanted(made):
    assert timing.in_turn({"a": made.side("a", 0.01)}, 2, made.clock, block=0.0)["a"].calls == 1


def test_the_clock_waits_for_the_accelerator(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.accelerator, "is_available", lambda *_, **__: True)
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda *_: waited.append("here"))
    timing.timed(lambda: waited.append("call"), 2, timing.torch_clock)
    assert waited == ["here", "call", "call", "here"]
