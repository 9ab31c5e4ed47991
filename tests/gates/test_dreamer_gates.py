"""DreamerV3's gates pass on its patched official code and fail on mutants; skipped where the code is not."""

import pytest

from tdmpc2_lean.validation.gates.results import FAIL, PASS
from tdmpc2_lean.validation.gates.run import run
from tdmpc2_lean.validation.gates.subjects import controls_of
from tdmpc2_lean.validation.gates.suites import SUITES

GATES = SUITES["dreamerv3"].gates
pytestmark = [pytest.mark.official("dreamerv3"), pytest.mark.slow, pytest.mark.usefixtures("forked")]


@pytest.fixture(scope="session")
def subject(dreamerv3_subject):
    return dreamerv3_subject


@pytest.mark.parametrize("name", GATES)
def test_gate_passes(subject, name):
    report = run(subject, [name])
    assert report.results and report.ok, [r for r in report.results if r.outcome == FAIL]
    assert any(result.outcome == PASS for result in report.results), "nothing was judged"


@pytest.mark.parametrize("name", GATES)
def test_gate_rejects_every_mutant(subject, name):
    report = run(subject, [name], controls=True)
    assert len(report.results) == len(controls_of(name, "dreamerv3"))
    assert report.ok, [r for r in report.results if r.outcome == FAIL]
    assert all("divergence at" in result.detail or "events equal" in result.detail for result in report.results)
