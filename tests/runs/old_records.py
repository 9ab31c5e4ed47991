"""run.json as earlier versions wrote it: of training (TD-MPC2), of training (DreamerV3), of a protocol's run.

The keys and their forms are those that these versions wrote; names of machines and folders are made up.
"""

PATCHES = [{"name": "device", "sha256": "9b" * 32}, {"name": "checkpoint", "sha256": "42" * 32}]
CODE = {
    "upstream": "tdmpc2", "commit": "e9f5932" + "0" * 33, "tree": "37" * 20, "local_changes": [], "verified": True,
    "patches": PATCHES, "patched_tree": "6a" * 20,
}  # fmt: skip
OWN = {"version": "0.1.0", "commit": None, "local_changes": None}
OVERRIDES = {"task": "cartpole-balance", "device": "cpu", "steps": 1000, "eval_freq": 500, "iterations": 1, "utd": 0.05}

TRAINING = {
    "schema": 1,
    "kind": "train",
    "state": "interrupted",
    "exit_code": 130,
    "error": None,
    "command": "tdmpc2-lean train task=cartpole-balance device=cpu steps=1000 eval_freq=500 utd=0.05 lean=depth",
    "cwd": "experiments",
    "started": "2026-06-30T21:41:14+00:00",
    "ended": "2026-06-30T21:51:14+00:00",
    "seconds": 600.0,
    "pid": 8897,
    "host": "a-machine",
    "task": "cartpole-balance",
    "seed": 3,
    "upstream": {**CODE, "source": "cache"},
    "presets": [
        {"name": "depth", "file": "depth.yaml", "sha256": "0c" * 32, "overrides": {}, "times": {"iterations": 0.5}}
    ],
    "overrides": OVERRIDES,
    "hydra": ["exp_name=depth", "enable_wandb=false", "task=cartpole-balance", "device=cpu", "steps=1000"],
    "config": {
        **OVERRIDES, "obs": "state", "seed": 3, "exp_name": "depth", "checkpoint": "???", "eval_episodes": 1,
        "compile": False, "lr": 0.0003, "model_size": "???", "obs_shape": {"state": [5]}, "action_dim": 1,
    },
    "device": {"kind": "cpu", "name": None},
    "threads": {"number": 1, "why": "threads= on the command line"},
    "environment": {"OMP_NUM_THREADS": "1", "MUJOCO_GL": "disable"},
    "timing": {
        "steps": 700, "train_seconds": 61.2, "evaluation_seconds": 10.0, "cpu_seconds": 60.0,
        "steps_per_second": 13.7, "learning_steps_per_second": 4.1,
    },
    "evaluations": [
        {"step": 0, "episode_reward": 159.8, "episodes": 1}, {"step": 500, "episode_reward": 201.5, "episodes": 1}
    ],
    "checkpoint": None,
    "python": "3.11.7",
    "platform": "Linux-6.1-x86_64",
    "packages": {"mujoco": "3.2.3", "numpy": "2.4.6", "torch": "2.13.0+cpu", "dm-control": "1.0.23"},
    "tdmpc2_lean": OWN,
}  # fmt: skip

EVALUATION = TRAINING | {
    "kind": "evaluate",
    "state": "finished",
    "exit_code": 0,
    "timing": None,
    "evaluations": [
        {"task": "cartpole-balance", "episode_reward": 210.0, "episode_success": 0.0, "episodes": 1}
    ],
    "checkpoint": {"path": "experiments/final.pt", "sha256": "ab" * 32, "trusted": False},
}

DREAMER = TRAINING | {
    "task": "dmc_walker_walk",
    "upstream": {**CODE, "upstream": "dreamerv3", "commit": None, "release": "3.3.1", "source": "release"},
    "command": "dreamer-bridge train task=dmc_walker_walk seed=3 run.steps=280 arm=strip,rep=alike",
    "presets": [],
    "overrides": {"task": "dmc_walker_walk", "run.steps": 280.0},
    "hydra": None,
    "config": {
        "logdir": "logs/dmc_walker_walk/3/strip", "task": "dmc_walker_walk", "seed": 3, "batch_size": 4,
        "run": {"steps": 280.0, "train_ratio": 64.0, "envs": 1, "resume_exact": True},
        "env": {"dmc": {"repeat": 2, "image": False}}, "jax": {"platform": "cpu"}, "replay": {"size": 1e4},
    },
    "device": {"kind": "cpu", "name": None},
    "threads": {"number": 1, "why": "OMP_NUM_THREADS in the environment", "cores": [0]},
    "timing": {
        "steps": 280, "train_seconds": 30.0, "evaluation_seconds": None, "cpu_seconds": 29.0, "steps_per_second": 9.3,
        "learning_steps_per_second": 10.1, "compile_seconds": 12.5, "updates": 200,
    },
    "evaluations": [{"step": 100, "episode_reward": 31.0, "episodes": 1}],
    "flags": ["--configs", "dmc_proprio", "--task", "dmc_walker_walk", "--run.steps", "280"],
    "arm": {"name": "strip", "rep": "alike", "loss_scales": {"dyn": 0.0, "rep": 0.1, "con": 1.0}},
    "chunk": 200,
    "action_repeat": 2,
    "updates_per_agent_step": 1.0,
    "compile_cache": {"folder": "cache", "entries_before": 0, "entries_after": 12},
    "attempts": 3,
    "resumed_at": [100, 200],
}  # fmt: skip

PROVENANCE = {
    **CODE,
    "packages": {"python": "3.11.7", "torch": "2.13.0+cpu", "mujoco": "3.2.3", "dm_control": "1.0.23"},
    "device": {"kind": "cuda:0", "name": "NVIDIA H200"},
    "threads": 1,
    "compile": True,
    "tdmpc2_lean": OWN,
}
EARLIER_PROVENANCE = PROVENANCE | {"threads": 4}


def of_protocol(entry, **changed):
    """The record of a run of a protocol, of its registry entry as JSON."""
    return {
        "protocol": entry["name"],
        "seed": 1,
        "presets": [],
        "preset_settings": {},
        "spec": entry,
        "agent": entry["agent"],
        "task": entry["task"],
        "physics": entry["physics"],
        "settings": {**entry["defaults"], **entry["settings"], "seed": 1, "device": "cuda:0"},
        "provenance": PROVENANCE,
        "provenances": {"11111111": EARLIER_PROVENANCE, "57251260": PROVENANCE},
        "state": "finished",
        "error": None,
        "started": "2026-06-30T21:41:15+00:00",
        "ended": "2026-07-02T21:41:15+00:00",
        "attempts": 2,
    } | changed
