"""The miniature's own modules, imported from a copy that runs on the CPU, and agents small enough for tests."""

import os

import pytest
from omegaconf import OmegaConf

from tdmpc2_lean.patched import materialise
from tdmpc2_lean.upstreams import isolate

# Networks of a few thousand weights. `compile` off: it would take longer than all tests.
SMALL = {
    "task": "cartpole-balance",
    "device": "cpu",
    "compile": False,
    "enable_wandb": False,
    "enc_dim": 32,
    "mlp_dim": 32,
    "latent_dim": 32,
    "num_q": 3,
    "batch_size": 16,
    "num_samples": 32,
    "num_elites": 8,
    "num_pi_trajs": 4,
    "iterations": 3,
    "buffer_size": 2000,
}


@pytest.fixture(scope="session")
def patched_miniature(miniature, tmp_path_factory):
    """The miniature on any device and any stack: the least of the series that lets it run here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TDMPC2_LEAN_CACHE", str(tmp_path_factory.mktemp("cache")))
        return materialise(miniature, ["device", "current-stack"])


@pytest.fixture(scope="session")
def code(patched_miniature):
    """Its modules: `code.module('common.math')`."""
    os.environ.setdefault("MUJOCO_GL", "disabled")
    return isolate.load(patched_miniature.code_dir)


@pytest.fixture
def make_cfg(code, patched_miniature, tmp_path, monkeypatch):
    """Gives the miniature's configuration with small networks and the given settings, environment's included."""
    monkeypatch.chdir(tmp_path)
    official = OmegaConf.load(patched_miniature.code_dir / "config.yaml")
    official.pop("defaults")

    def make(**settings):
        environment = {"obs_dim": 5, "action_dim": 2, "episode_length": 500, "seed_steps": 1000}
        environment |= {name: settings.pop(name) for name in list(settings) if name in environment}
        cfg = code.module("common.parser").parse_cfg(OmegaConf.merge(official, SMALL, settings))
        cfg.obs_shape = {"state": (environment.pop("obs_dim"),)}
        for name, value in environment.items():
            setattr(cfg, name, value)
        return cfg

    return make


@pytest.fixture
def make_agent(code, make_cfg):
    """Gives an agent of seed 0 with the given settings."""

    def make(**settings):
        code.module("common.seed").set_seed(0)
        return code.module("tdmpc2").TDMPC2(make_cfg(**settings))

    return make
