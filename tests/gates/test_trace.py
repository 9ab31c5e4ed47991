"""Traces: what differs is named, however small; what is equal is equal bit for bit."""

import numpy as np
import pytest
import torch

from tdmpc2_lean.validation.gates import trace


def write(path, *events, dump_at=None):
    recorder = trace.TraceRecorder(path, {}, dump_at)
    try:
        for step, what, tensors in events:
            recorder.record(step, what, tensors)
    except trace.Dumped:
        pass
    recorder.close()
    return path


def test_equal_runs_have_no_divergence(tmp_path):
    events = [(0, "action", {"a": torch.ones(3)}), (1, "parameters", {"w": torch.zeros(1000)})]
    assert trace.compare(write(tmp_path / "a", *events), write(tmp_path / "b", *events)) == (2, None)


def test_a_small_difference_is_named_with_step_size_and_both_values(tmp_path):
    one = write(tmp_path / "a", (0, "action", {"a": torch.ones(3)}), (7, "losses", {"pi": torch.tensor(1.0)}))
    two = write(tmp_path / "b", (0, "action", {"a": torch.ones(3)}), (7, "losses", {"pi": torch.tensor(1.5)}))
    events, here = trace.compare(one, two)
    assert (events, here.step, here.what, here.largest) == (1, 7, "losses", 0.5)
    assert here.name.startswith("pi") and (here.reference, here.subject) == ("1.0", "1.5")


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (torch.tensor(1.0), torch.nextafter(torch.tensor(1.0), torch.tensor(2.0))),
        (torch.tensor(0.0), torch.tensor(-0.0)),
        (torch.tensor(1.0), torch.tensor(1.0, dtype=torch.float64)),
        (torch.zeros(2), torch.zeros(1, 2)),
    ],
    ids=["one bit", "sign of zero", "dtype", "shape"],
)
def test_every_bit_counts(tmp_path, was, now):
    one, two = write(tmp_path / "a", (0, "x", {"x": was})), write(tmp_path / "b", (0, "x", {"x": now}))
    assert trace.compare(one, two)[1] is not None


def test_equal_nans_are_equal(tmp_path):
    nan = {"x": torch.tensor([float("nan"), 1.0])}
    assert trace.compare(write(tmp_path / "a", (0, "x", nan)), write(tmp_path / "b", (0, "x", nan)))[1] is None


def test_a_large_quantity_is_dumped_and_the_largest_difference_found(tmp_path):
    was, now = torch.zeros(1000), torch.zeros(1000)
    now[10], now[700] = 0.1, -2.0
    paths = []
    for name, value in (("a", was), ("b", now)):
        events = [(0, "x", {"x": torch.ones(1)}), (3, "parameters", {"w": value})]
        paths.append(write(tmp_path / f"{name}.jsonl", *events))
        write(tmp_path / f"{name}-again.jsonl", *events, dump_at=1)
    _, here = trace.compare(*paths)
    assert here.largest is None
    here = trace.compare_dumps(here, tmp_path / "a-again.dump", tmp_path / "b-again.dump")
    assert (here.name, here.largest, here.subject) == ("w[700]", 2.0, "-2.0")


def test_a_shorter_run_parts_where_it_ends(tmp_path):
    event = (0, "x", {"x": np.ones(2)})
    one, two = write(tmp_path / "a", event, (1, "x", {"x": np.ones(2)})), write(tmp_path / "b", event)
    events, here = trace.compare(one, two)
    assert (events, here.what, here.subject) == (1, "length of the trace", "ended")


def test_a_nan_where_a_number_was_is_the_largest_difference(tmp_path):
    one = write(tmp_path / "a", (0, "x", {"x": np.array([1.0, 2.0])}))
    two = write(tmp_path / "b", (0, "x", {"x": np.array([1.5, float("nan")])}))
    here = trace.compare(one, two)[1]
    assert here.name == "x[1]" and np.isnan(here.largest)


def test_one_more_metric_of_a_fork_is_a_note_and_a_missing_or_changed_one_or_any_other_quantity_a_divergence(tmp_path):
    loss, more = torch.tensor(1.0), torch.tensor(2.0)

    def traced(name, what, **tensors):
        return write(tmp_path / name, (5, what, tensors))

    one, two = traced("a", "losses", pi=loss), traced("b", "losses", mine=more, pi=loss)
    assert trace.compare(one, two, more_may_be_logged=True) == (1, None) and trace.added_metrics(one, two) == ["mine"]
    assert trace.compare(one, two)[1] is not None, "only where a fork is compared"
    assert trace.compare(two, one, more_may_be_logged=True)[1] is not None, "a metric is gone"
    changed = traced("c", "losses", mine=more, pi=torch.nextafter(loss, more))
    assert trace.compare(one, changed, more_may_be_logged=True)[1] is not None
    typed = traced("d", "losses", mine=more, pi=loss.double())
    assert trace.compare(one, typed, more_may_be_logged=True)[1] is not None
    state = traced("e", "parameters", w=loss), traced("f", "parameters", mine=more, w=loss)
    assert trace.compare(*state, more_may_be_logged=True)[1] is not None
