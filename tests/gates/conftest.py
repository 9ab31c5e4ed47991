"""What tests that run gates share: a process with the libraries imported, from which gates' processes are forked."""

import pytest

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.upstreams import find_checkout
from tdmpc2_lean.validation.gates import process
from tdmpc2_lean.validation.gates.strength.forks import Forks
from tdmpc2_lean.validation.gates.subjects import find_subject


@pytest.fixture(scope="session")
def imported_once():
    forks = Forks()
    yield forks
    forks.close()


@pytest.fixture
def forked(imported_once, monkeypatch):
    """Every process of a gate is forked, as `gate run` does it, without importing the libraries for every test."""
    monkeypatch.setattr(process, "start", imported_once.start)


@pytest.fixture(scope="session")
def dreamerv3_subject():
    """The official DreamerV3 with the whole series, or its release where only that is here."""
    for package in ("jax", "elements", "ninjax"):
        pytest.importorskip(package, reason="the extra [dreamer] is not installed")
    try:
        find_checkout("dreamerv3", may_clone=False)
    except UserError:
        pytest.skip("no official DreamerV3 code on this machine")
    return find_subject(upstream="dreamerv3")
