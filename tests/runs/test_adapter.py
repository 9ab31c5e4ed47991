"""An upstream's name leads to its adapter, and what is not installed is told."""

import importlib

import pytest

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import adapter


@pytest.mark.parametrize("upstream", adapter.ADAPTERS)
def test_every_upstream_has_an_adapter_that_says_what_it_is_about(upstream):
    found = adapter.adapter_of(upstream)
    assert found.upstream == upstream and found.command and found.title and found.patience > 0
    assert found.shelf.available() and adapter.is_available(upstream)


def test_what_is_not_installed_is_told_and_makes_no_run(monkeypatch):
    def absent(name):
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(UserError, match="dreamerv3 cannot be run here") as told:
        adapter.adapter_of("dreamerv3")
    assert "[dreamer]" in told.value.next_step and not adapter.is_available("dreamerv3")
