"""A replay larger than memory is refused before the run seeds, and one that may just fit is not."""

from types import SimpleNamespace

import psutil
import pytest

from tdmpc2_lean.tdmpc2 import memory
from tdmpc2_lean.tdmpc2.adapter import ADAPTER

STATE, FRAMES = {"state": (24,)}, {"rgb": (9, 64, 64)}


def with_free(monkeypatch, free):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=free))


def configuration(**changed):
    known = {"obs_shape": STATE, "action_dim": 6, "buffer_size": 1_000_000, "steps": 10_000_000}
    return SimpleNamespace(**(known | changed))


def test_bytes_of_steps():
    assert memory.replay_bytes(STATE, 6, 1_000_000) == 1_000_000 * 4 * (24 + 6 + 3)
    assert memory.replay_bytes(FRAMES, 6, 1000) == 1000 * (9 * 64 * 64 + 4 * 9)


def test_what_is_clearly_larger_is_refused_with_both_sides(monkeypatch):
    with_free(monkeypatch, 100e6)
    with pytest.raises(MemoryError, match="the replay of 1,000,000 steps takes 0.1 GB, and 0.1 GB are free"):
        memory.check(configuration(), SimpleNamespace(type="cpu"))
    with pytest.raises(MemoryError, match="36.9 GB"):
        memory.check(configuration(obs_shape=FRAMES), None)


def test_what_may_just_fit_is_not_refused(monkeypatch):
    with_free(monkeypatch, 110e6)
    memory.check(configuration(), SimpleNamespace(type="cpu"))


def test_no_more_is_reserved_than_the_budget_fills(monkeypatch):
    with_free(monkeypatch, 100e6)
    memory.check(configuration(steps=100_000), None)


def test_what_the_device_holds_needs_no_main_memory(monkeypatch):
    import torch

    with_free(monkeypatch, 1e6)
    device = SimpleNamespace(type="cuda")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1e9, 1e9))
    memory.check(configuration(), device)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (0.3e9, 1e9))
    with pytest.raises(MemoryError):
        memory.check(configuration(), device)


def test_the_user_is_told_so_with_what_to_change():
    last = ["Traceback", "MemoryError: the replay of 5 steps takes 9 GB"]
    log = SimpleNamespace(last=last, text="", path="train.log")
    told = ADAPTER.explained(SimpleNamespace(kind="train"), 1, SimpleNamespace(broken=None), log)
    assert told.message.startswith("the replay of 5 steps takes 9 GB.") and "buffer_size=" in told.next_step
