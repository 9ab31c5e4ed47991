"""What the bridge's tests share: a checkout of a few keys for plans, and the official code where it is here."""

from pathlib import Path

import pytest

pytest.importorskip("elements", reason="needs the extra [dreamer]")
pytest.importorskip("jax", reason="needs the extra [dreamer]")

import acting

from dreamer_bridge import cli, settings
from dreamer_bridge.adapter import ADAPTER
from tdmpc2_lean.runs.plan import Request

# Keys and types of the official configuration that plans look at, with values of our own.
CONFIGS = r"""
defaults:
  logdir: /nowhere
  task: dummy_disc
  seed: 0
  random_agent: False
  replicas: 1
  script: train
  configs: none
  batch_size: 16
  batch_length: 64
  env:
    dmc: {repeat: 1, image: True, log_image: True, use_seed: True}
    atari: {repeat: 4}
  replay: {separate_report: False, size: 5e6, fracs: {uniform: 1.0}}
  run: {steps: 1e10, train_ratio: 32.0, envs: 16, log_every: 120, report_every: 300, save_every: 900,
        from_checkpoint: '', debug: True, clock: seconds, resume_exact: False}
  jax: {platform: cuda, compute_dtype: bfloat16, prealloc: True, profiler: True, prefetch: True}
  agent:
    loss_scales: {rec: 1.0, rew: 1.0, dyn: 1.0, rep: 0.1}
    enc: {simple: {units: 1024}}
    dyn: {rssm: {deter: 8192}}
size1m:
  .*\.units: 64
size12m:
  .*\.units: 256
dmc_proprio:
  .*\.units: 64
  task: dmc_walker_walk
  env.dmc.image: False
  run: {train_ratio: 1024, steps: 1.1e6}
"""


@pytest.fixture
def code(tmp_path, monkeypatch) -> Path:
    """The folder of a checkout whose configs.yaml can be changed; plans find it, whatever they are asked for.

    JAX has an accelerator on this machine.
    """
    root = tmp_path / "code"
    (root / "dreamerv3").mkdir(parents=True)
    (root / "dreamerv3" / "configs.yaml").write_text(CONFIGS, encoding="utf-8")
    for owner, name, function in acting.replacements(root):
        monkeypatch.setattr(owner, name, function)
    monkeypatch.setattr(settings, "has_accelerator", lambda: True)
    monkeypatch.setenv("TDMPC2_LEAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("MUJOCO_GL", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return root


@pytest.fixture
def planned(code, tmp_path):
    """A function from words (and flags) to a plan on that checkout."""

    def make(*words, flags=(), **named):
        return ADAPTER.plan(Request(words, flags=tuple(flags), cwd=tmp_path, **named))

    return make


@pytest.fixture
def commanded(code, capfd):
    """A function from a command line of dreamer-bridge to (exit code, all that it said), on code that acts quickly."""
    acting.write(code)

    def command(*arguments):
        with pytest.raises(SystemExit) as ended:
            cli.main(list(arguments))
        said = capfd.readouterr()
        return ended.value.code or 0, said.out + said.err

    return command
