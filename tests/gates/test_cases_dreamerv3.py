"""DreamerV3's gates by cases: their inputs reach what they are for; a patched release is accounted for."""

import pytest

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.validation.gates import cases, functions_dreamerv3, process
from tdmpc2_lean.validation.gates.accounting import CHANGED, CodeChange
from tdmpc2_lean.validation.gates.results import FAIL, NOT_JUDGED, PASS
from tdmpc2_lean.validation.gates.subjects import controls_of, find_subject, mutated
from tdmpc2_lean.validation.gates.suites import SUITES
from tdmpc2_lean.validation.gates.traced_runs import DREAMERV3

pytestmark = pytest.mark.official("dreamerv3")
# The release's environments in processes never begin, its logs are aggregated otherwise, and it has no such interface.
NOT_OF_THE_RELEASE = {"driver-processes", "train", "eval-only", "train-eval", "dm-interface"}
# Of each control the case that is to reject it.
CASE_OF = {
    "two-hot-edge": "two-hot",
    "agc-off": "optimiser",
    "normaliser-rate": "normalisers",
    "terminations-ignored": "returns",
    "slow-every": "slow-model",
    "capacity-off-by-one": "replay",
    "limiter-tolerance": "limiters",
    "repeat-over-the-end": "wrappers",
    "loaded-for-training-only": "agent-around",
}
QUICK = ("terminations-ignored", "capacity-off-by-one", "limiter-tolerance", "repeat-over-the-end")


@pytest.fixture(scope="session")
def subject(dreamerv3_subject):
    return dreamerv3_subject


def judged(subject, *names):
    found = cases.judged("functions", functions_dreamerv3.FUNCTION, subject, DREAMERV3, list(names))
    return {result.gate.partition("/")[2]: result for result in found}


def answered(subject, *names):
    code_dir = subject.prefix(0)
    shim = DREAMERV3.shim_for(code_dir)
    return process.call(functions_dreamerv3.FUNCTION, code_dir, shim, DREAMERV3.stack, names=list(names))


def test_patched_code_computes_what_official_code_does_off_the_graph(subject):
    names = ["limiters", "selectors", "sample-tree", "chunks", "replay", "replay-online", "replay-saved", "streams"]
    names += [
        "clocks",
        "random-agent",
        "driver",
        "driver-processes",
        "dm-interface",
        "train",
        "eval-only",
        "train-eval",
    ]
    found = judged(subject, *names)
    lacked = {name for name, result in found.items() if result.outcome == NOT_JUDGED}
    assert lacked <= (NOT_OF_THE_RELEASE if subject.reference.release else set())
    assert [name for name, result in found.items() if name not in lacked and result.outcome != PASS] == []


def test_each_control_has_the_case_that_rejects_it(subject):
    assert {control.name for control in controls_of("functions", "dreamerv3")} == set(CASE_OF)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in CASE_OF])
def test_a_control_is_rejected_by_the_case_made_for_it(subject, name):
    (control,) = (control for control in controls_of("functions", "dreamerv3") if control.name == name)
    with mutated(subject, control) as mutant:
        (result,) = judged(mutant, CASE_OF[name]).values()
    assert result.outcome == FAIL and "first divergence at" in result.detail, result


def test_the_replay_of_a_case_evicts_and_crosses_chunks(subject):
    events = answered(subject, "replay")["replay"]["events"]
    held = [event["values"] for event in events if event["what"] == "after 29 steps"]
    assert any(values["size"][3] == [12] and values["fifo"][1] != str(list(range(12))) for values in held)
    assert all(len(eval(values["chunks"][1])) > 1 for values in held[:1])


def test_a_patched_release_differs_in_nothing_from_the_release_with_its_patches(subject):
    try:
        release = find_subject("release", upstream="dreamerv3")
    except UserError:
        pytest.skip("the release is not on this machine")
    assert release.accounting.changes == ()
    assert len(release.accounting.patches) == len(release.series.patches)


def test_every_gate_that_compares_has_controls():
    gates = SUITES["dreamerv3"].gates.values()
    assert all(controls_of(gate.name, "dreamerv3") for gate in gates if gate.with_reference)


def test_a_loss_that_is_only_traced_for_its_shapes_is_not_proved_by_that():
    change = CodeChange("dreamerv3/agent.py", "Agent.loss", CHANGED, "function")
    assert any(spot.hides(change) for spot in SUITES["dreamerv3"].gates["defaults"].blind)
