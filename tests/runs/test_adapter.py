"""An upstream's name leads to its adapter, and what is not installed is told."""

import importlib
from types import SimpleNamespace

import pytest

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import adapter, standing
from tdmpc2_lean.versions import versions


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


@pytest.mark.parametrize("upstream, warned", [("tdmpc2", True), ("dreamerv3", False)])
def test_an_extended_run_is_called_another_only_where_the_agents_replay_grows_with_its_budget(upstream, warned):
    if upstream == "dreamerv3":
        pytest.importorskip("jax")
    earlier = SimpleNamespace(provenance=SimpleNamespace(versions=versions()))
    (note,) = standing.notes_on(earlier, 1000, 2000, 1000, adapter.adapter_of(upstream))
    assert note.startswith("the budget is raised from 1,000 to 2,000 agent steps")
    assert ("not bit for bit" in note) == warned
