"""What the gates on training compare with: never a thing with itself."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tdmpc2_lean.validation.gates import identity, process, traced_runs
from tdmpc2_lean.validation.gates.results import FAIL
from tdmpc2_lean.validation.gates.subjects import GateSubject
from tdmpc2_lean.validation.gates.trace_tdmpc2 import TDMPC2Budget


class SomeRuns:
    """Stands for traced runs of which only some code runs."""

    def __init__(self, *runnable):
        self.runnable = runnable

    def trace_of(self, code_dir, *_, **__):
        if code_dir.name not in self.runnable:
            raise process.ChildFailed("train", code_dir, "Traceback\nRuntimeError: no such device")
        return code_dir


@pytest.fixture
def subject(monkeypatch):
    series = SimpleNamespace(patches=[SimpleNamespace(name=name) for name in ("a", "b", "c")])
    monkeypatch.setattr(GateSubject, "prefix", lambda self, length: Path(f"prefix-{length}"))
    return GateSubject("all", Path("prefix-3"), SimpleNamespace(label="official"), series)


@pytest.mark.parametrize(("runnable", "length"), [(("prefix-0", "prefix-1"), 0), (("prefix-2", "prefix-3"), 2)])
def test_the_reference_is_the_smallest_prefix_that_runs(subject, runnable, length):
    found, why = identity.runnable_prefix(subject, SomeRuns(*runnable))
    assert found == length and why == ("" if length == 0 else "RuntimeError: no such device")


def test_the_whole_series_is_never_its_own_reference(subject):
    for gate in (identity.default_identity, identity.per_patch_identity):
        (result,) = gate(subject, SomeRuns("prefix-3"))
        assert result.outcome == FAIL and "no reference" in result.detail


def test_a_run_is_not_compared_with_itself(tmp_path):
    runs = traced_runs.TracedRuns(TDMPC2Budget())
    with pytest.raises(AssertionError, match="itself"):
        runs.compare(tmp_path, tmp_path)
    runs.close()
