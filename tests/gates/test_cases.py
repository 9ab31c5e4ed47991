"""Gates by cases: the inputs reach what they are for, and what differs is named."""

import pytest

from tdmpc2_lean.validation.gates import cases, functions_tdmpc2
from tdmpc2_lean.validation.gates.cases import Case
from tdmpc2_lean.validation.gates.results import FAIL, NOT_JUDGED, PASS
from tdmpc2_lean.validation.gates.traced_runs import TDMPC2


def answer(*events, lacks=None, raised=None):
    case = Case()
    for what, values in events:
        case.record(what, values)
    return {"events": case.events, "lacks": lacks, "raised": raised, "seconds": 0.0}


def outcome(expected, found):
    return cases.verdict("gate/case", expected, found, "official")


def test_equal_answers_pass_and_say_how_much_was_equal():
    both = (answer(("loss", {"x": 0.5, "kind": "a"})), answer(("loss", {"x": 0.5, "kind": "a"})))
    assert outcome(*both).outcome == PASS and "2 values of 1 events" in outcome(*both).detail


@pytest.mark.parametrize(
    "changed, told",
    [
        ({"x": 0.5000000001, "kind": "a"}, "x"),
        ({"x": 0.5, "kind": "b"}, "reference a, subject b"),
        ({"x": 0.5}, "kind: reference a, subject has none"),
        ({"x": 0.5, "kind": "a", "more": 1}, "more: reference has none"),
        ({"x": -0.0, "kind": "a"}, "x"),
    ],
)
def test_every_differing_value_is_named(changed, told):
    result = outcome(answer(("loss", {"x": 0.5, "kind": "a"})), answer(("loss", changed)))
    assert result.outcome == FAIL and "divergence at event 0, loss" in result.detail and told in result.detail


def test_an_error_of_the_subject_alone_is_a_divergence():
    result = outcome(answer(("loss", {"x": 1})), answer(raised="KeyError: 'x'"))
    assert result.outcome == FAIL and "subject raised KeyError" in result.detail


def test_what_the_subject_alone_lacks_is_a_divergence():
    assert outcome(answer(("loss", {"x": 1})), answer(lacks="the task set mt30")).outcome == FAIL


def test_two_errors_however_equal_prove_nothing():
    error = answer(("loss", {"x": 1}), raised="KeyError: 'x'")
    assert outcome(error, error).outcome == NOT_JUDGED


def test_a_setting_of_our_own_counts_only_at_its_declared_default():
    expected = answer(("configuration", {"rho": "0.5"}))
    for value, verdict in (("1", PASS), ("2", FAIL)):
        found = answer(("configuration", {"rho": "0.5", "utd": value}))
        cases.without_own_settings(expected, found, {"utd": ["1"]})
        assert outcome(expected, found).outcome == verdict


def losses_in(answers, name):
    """[(gradient norm of the model, of the policy)] of each update of a case."""
    events = [event["values"] for event in answers[name]["events"] if event["what"].startswith("losses")]
    return [tuple(cases.number(values[key][3][0]) for key in ("grad_norm", "pi_grad_norm")) for values in events]


def test_gradients_are_above_and_below_the_clipping_norm(official_or_miniature):
    code_dir = official_or_miniature.code_dir
    names = ["update-state", "update-above-clipping", "update-low-clipping"]
    found = cases.kept(functions_tdmpc2.FUNCTION, code_dir, TDMPC2, names)
    assert all(model < 20 and policy < 20 for model, policy in losses_in(found, "update-state"))
    model, policy = losses_in(found, "update-above-clipping")[0]
    assert model > 20 and (policy > 20 or official_or_miniature.upstream == "miniature")
    assert all(model > 0.01 and policy > 0.01 for model, policy in losses_in(found, "update-low-clipping"))
