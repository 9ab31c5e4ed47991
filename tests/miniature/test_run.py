"""The miniature's replay buffer, environments, training loop and scripts, and that it learns."""

import csv
import os
import re
import subprocess
import sys

import pytest
import torch
from omegaconf import OmegaConf
from tensordict import TensorDict

from tdmpc2_lean import places
from tdmpc2_lean.patched import materialise


def episode(index, length=20):
    """T+1 rows whose every number tells episode and step: 1000 * episode + step."""
    steps = torch.arange(length + 1, dtype=torch.float32) + 1000 * index
    led = torch.where(torch.arange(length + 1) == 0, torch.nan, steps)
    return TensorDict(
        {
            "obs": steps.unsqueeze(-1).repeat(1, 5),
            "action": led.unsqueeze(-1).repeat(1, 2),
            "reward": led,
            "terminated": torch.where(led.isnan(), led, torch.zeros(())),
        },
        batch_size=(length + 1,),
    )


def test_slices_are_consecutive_within_one_episode_also_after_the_ring_is_full(code, make_cfg):
    buffer = code.module("common.buffer").Buffer(make_cfg(steps=87, batch_size=64))
    assert buffer.capacity == 87
    seen = set()
    for index in range(8):  # 168 rows: when the ring is full, 3 are left of the oldest episode, too few
        assert buffer.add(episode(index)) == buffer.num_eps == index + 1
        for _ in range(5):
            obs, action, reward, terminated, task = buffer.sample()
            assert obs.shape == (4, 64, 5) and action.shape == (3, 64, 2)
            assert reward.shape == terminated.shape == (3, 64, 1) and task is None
            assert torch.equal(obs[1:] - obs[:-1], torch.ones(3, 64, 5))
            assert torch.equal(action, obs[1:, :, :2]) and torch.equal(reward, obs[1:, :, :1])
            assert not terminated.isnan().any()
            seen = set((obs[0, :, 0] // 1000).int().tolist())
    assert 0 not in seen and 7 in seen


def test_many_episodes_load_at_once(code, make_cfg):
    buffer = code.module("common.buffer").Buffer(make_cfg(steps=100))
    assert buffer.load(torch.stack([episode(0), episode(1)])) == 2
    assert buffer.sample()[0].shape == (4, 16, 5)


@pytest.fixture
def make_env(code, make_cfg):
    """Gives (environment, configuration it filled in)."""

    def make(**settings):
        cfg = make_cfg(**settings)
        return code.module("envs").make_env(cfg), cfg

    return make


@pytest.mark.parametrize("task, obs_dim, action_dim", [("cheetah-run", 17, 6), ("cup-catch", 8, 2)])
def test_an_environment_says_what_it_is(make_env, task, obs_dim, action_dim):
    env, cfg = make_env(task=task)
    assert cfg.obs_shape == {"state": (obs_dim,)} and cfg.action_dim == action_dim
    assert cfg.episode_length == 500 and cfg.seed_steps == 2500
    obs = env.reset()
    assert obs.shape == (obs_dim,) and obs.dtype == torch.float32
    obs, reward, done, info = env.step(env.rand_act())
    assert obs.shape == (obs_dim,) and reward.shape == () and done is False
    assert info["success"] == 0 and info["terminated"] == 0 and torch.is_tensor(info["terminated"])


def test_an_episode_has_500_agent_steps_of_two_simulator_steps(make_env):
    env, _ = make_env(task="cartpole-balance")
    env.reset()
    physics = env.unwrapped.physics
    start, steps, done = physics.time(), 0, False
    while not done:
        _, _, done, info = env.step(torch.zeros(1))
        steps += 1
    assert steps == 500 and not info["terminated"]
    assert physics.time() - start == pytest.approx(500 * 2 * 0.01)


def test_the_seed_determines_where_episodes_start(make_env):
    starts = [make_env(seed=seed)[0].reset() for seed in (1, 1, 2)]
    assert torch.equal(starts[0], starts[1]) and not torch.equal(starts[0], starts[2])


def test_an_unknown_task_is_named(make_env):
    with pytest.raises(ValueError, match="cartpole-balanse"):
        make_env(task="cartpole-balanse")


def test_an_unknown_model_size_is_named(make_cfg):
    assert make_cfg(model_size=1).num_q == 2
    with pytest.raises(ValueError, match="19"):
        make_cfg(model_size=19)


class LoopRecorder:
    """Environment, agent, buffer and logger in one: counts through episodes of 5 steps, notes what happens."""

    def __init__(self):
        self.events, self.episodes, self.logged, self.finished = [], [], [], None
        self.clock = 0

    def reset(self):
        self.clock = 0
        return torch.zeros(5)

    def rand_act(self):
        return torch.zeros(2)

    def step(self, action):
        self.events += [] if action.any() else ["random"]
        self.clock += 1
        info = {"terminated": torch.tensor(0.0), "success": 1.0}
        return torch.full((5,), float(self.clock)), torch.tensor(2.0), self.clock == 5, info

    def act(self, obs, t0=False, eval_mode=False):
        assert t0 == (self.clock == 0)
        self.events.append("eval" if eval_mode else "act")
        return torch.ones(2)

    def add(self, td):
        self.episodes.append(td)
        return len(self.episodes)

    def update(self, buffer):
        self.events.append("update")
        return {"total_loss": torch.tensor(1.0)}

    def log(self, metrics, category):
        self.logged.append((category, metrics["step"], metrics["episode_reward"]))

    def finish(self, agent):
        self.finished = agent


def test_a_run_seeds_then_catches_up_then_updates_once_a_step(code, make_cfg):
    cfg = make_cfg(steps=19, eval_freq=7, eval_episodes=1, seed_steps=10, save_video=False)
    parts = LoopRecorder()
    code.module("trainer.online_trainer").OnlineTrainer(cfg, parts, parts, parts, parts).train()
    evaluation, acting = ["eval"] * 5, ["act", "update"]
    assert parts.events == (
        evaluation  # before anything else
        + ["random"] * 10  # steps 0 to 9, an evaluation due at 7
        + evaluation
        + ["random"]  # step 10
        + ["update"] * 10
        + acting * 4  # steps 11 to 14
        + evaluation
        + acting * 5  # steps 15 to 19
    )
    assert [(kind, step) for kind, step, _ in parts.logged] == [
        ("eval", 0),
        ("train", 5),
        ("train", 10),
        ("eval", 10),
        ("train", 15),
        ("eval", 15),
    ]
    assert {reward for _, _, reward in parts.logged} == {10.0}
    assert parts.finished is parts


def test_an_episode_is_stored_with_what_led_to_each_observation(code, make_cfg):
    cfg = make_cfg(steps=5, eval_freq=100, eval_episodes=1, seed_steps=10, save_video=False)
    parts = LoopRecorder()
    code.module("trainer.online_trainer").OnlineTrainer(cfg, parts, parts, parts, parts).train()
    (stored,) = parts.episodes
    assert stored.batch_size == (6,)
    assert stored["obs"][:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    for key in ("action", "reward", "terminated"):
        assert stored[key][0].isnan().all() and not stored[key][1:].isnan().any()


def run(patched, script, *words, cwd):
    """The script's output, run as a user would from the code's folder; its logs go below it."""
    command = [sys.executable, "-W", "ignore", str(patched.code_dir / script), "hydra.run.dir=hydra", *words]
    environment = os.environ | {"MUJOCO_GL": "disabled"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def smoke(**settings):
    """Overrides as the preset `smoke` has them, but for the given settings, W&B off."""
    preset = OmegaConf.load(places.presets_dir() / "smoke.yaml").overrides
    chosen = {"task": "cartpole-balance", "enable_wandb": False} | dict(preset) | settings
    return [f"{name}={value}" for name, value in chosen.items()]


@pytest.fixture(scope="session")
def runnable(miniature, tmp_path_factory):
    """The miniature with all patches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TDMPC2_LEAN_CACHE", str(tmp_path_factory.mktemp("cache")))
        return materialise(miniature)


def evaluations(folder):
    """{step: return} as in eval.csv."""
    with open(folder / "eval.csv", newline="") as file:
        return {int(row["step"]): float(row["episode_reward"]) for row in csv.DictReader(file)}


def test_a_run_leaves_its_evaluations_and_an_agent_that_evaluates(runnable, tmp_path):
    words = smoke(steps=500, eval_freq=500, eval_episodes=1, num_samples=16, num_pi_trajs=4, iterations=1)
    out = run(runnable, "train.py", *words, cwd=tmp_path)
    folder = tmp_path / "logs" / "cartpole-balance" / "1" / "default"
    assert "Miniature of TD-MPC2" in out and "I: 500" in out and "R: " in out
    assert list(evaluations(folder)) == [0, 500]
    assert (folder / "eval.csv").read_text().splitlines()[0] == "step,episode_reward"
    out = run(runnable, "evaluate.py", *words, f"checkpoint={folder}/models/final.pt", cwd=tmp_path)
    assert "R: " in out


@pytest.mark.slow
def test_it_learns_cartpole_balance_well_above_random(runnable, tmp_path):
    out = run(runnable, "train.py", *smoke(eval_freq=3000), cwd=tmp_path)
    returns = [float(found) for found in re.findall(r"^ train .* R: ([\d.]+)", out, flags=re.MULTILINE)]
    random, last = returns[:2], returns[-2:]  # episodes of the seeding phase, and those of the trained agent
    assert sum(last) > 1.4 * sum(random), (returns, evaluations(tmp_path / "logs/cartpole-balance/1/default"))
