"""Budgets so small that a real run of real code fits in a test."""

import pytest

# Two episodes: one of seeding, a few dozen updates, one of acting by the planner, an evaluation at each end.
TINY = (
    "device=cpu compile=false steps=1000 seed_steps=500 pretrain_updates=20 utd=0.05 eval_freq=1000 "
    "eval_episodes=1 batch_size=16 num_samples=16 num_elites=4 num_pi_trajs=4 iterations=1 horizon=2 "
    "enc_dim=16 mlp_dim=16 latent_dim=16 num_q=2"
).split()


@pytest.fixture(scope="session")
def tiny() -> list[str]:
    """Words for a run of seconds."""
    return ["task=cartpole-balance", *TINY]


@pytest.fixture(scope="session")
def shared_folders(tmp_path_factory):
    """A cache for all runs of the session, so that patched copies are made once, and no presets."""
    return {
        "TDMPC2_LEAN_CACHE": str(tmp_path_factory.mktemp("cache")),
        "XDG_CONFIG_HOME": str(tmp_path_factory.mktemp("config")),
    }


@pytest.fixture
def workplace(shared_folders, tmp_path, monkeypatch):
    """An empty current folder, and nobody's cache or presets."""
    for name, folder in shared_folders.items():
        monkeypatch.setenv(name, folder)
    monkeypatch.delenv("TDMPC2_LEAN_TDMPC2", raising=False)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path
