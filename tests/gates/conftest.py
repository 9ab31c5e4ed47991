"""What tests that run gates share: a process with the libraries imported, from which gates' processes are forked."""

import pytest

from tdmpc2_lean.validation.gates import process
from tdmpc2_lean.validation.gates.strength.forks import Forks


@pytest.fixture(scope="session")
def imported_once():
    forks = Forks()
    yield forks
    forks.close()


@pytest.fixture
def forked(imported_once, monkeypatch):
    """Every process of a gate is forked, as `gate run` does it, without importing the libraries for every test."""
    monkeypatch.setattr(process, "start", imported_once.start)
