"""Every task's environment can be brought back within an episode, bit for bit, by repeating the episode's actions."""

import pytest

from tdmpc2_lean import patched
from tdmpc2_lean.references.tasks import TDMPC2
from tdmpc2_lean.validation.gates import process


def failed(monkeypatch, request, checkout, tasks):
    monkeypatch.setenv("PYTHONPATH", str(request.path.parent))
    return process.call("restoring:restored", patched.materialise(checkout).code_dir, tasks=list(tasks))


def test_environments_come_back_within_an_episode(any_checkout, monkeypatch, request):
    assert failed(monkeypatch, request, any_checkout, ["finger-turn-hard", "reacher-easy", "cup-catch"]) == {}


@pytest.mark.slow
def test_all_39_environments_come_back_within_an_episode(official, monkeypatch, request):
    assert failed(monkeypatch, request, official, TDMPC2) == {}
