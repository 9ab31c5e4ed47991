"""The whole configuration that a protocol expects of a run: every setting that decides what is computed.

It is the official defaults at the pinned commit, those of this project's patches, what the protocol gives, and what
the official code makes of them. The first two stand in settings/<agent>.json, with their source; they are names and
values, and `tests/judging/official_settings.py` reads them off the official code. Settings are flat: `run.steps`.
"""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tdmpc2_lean.errors import UserError

FOLDER = Path(__file__).parent / "settings"
MISSING = "???"  # how the official config.yaml of TD-MPC2, and so a run's settings, write that there is no value

# A name that ends in a dot stands for all below it. The lists are here, and not asked of tdmpc2_lean.settings, so that
# the registry needs no patches to be read; a test holds the two against each other.
# Settings that say where or how a run is made, and what it leaves behind.
WHERE_AND_HOW: Mapping[str, tuple[str, ...]] = {
    "tdmpc2": (
        "checkpoint",  # training does not read it
        "checkpoint_mid_episode", "checkpoint_minutes", "compile", "data_dir", "device", "enable_wandb", "exp_name",
        "save_agent", "save_agent_every_eval", "save_csv", "save_video", "save_video_files",
        "task_dim", "task_title",  # computed, for sets of tasks and for people
        "wandb_entity", "wandb_project", "wandb_silent", "work_dir",
    ),
    "dreamerv3": (
        "clock_addr", "clock_port", "env.dmc.log_image", "errfile", "ipv6", "jax.coordinator_address", "jax.platform",
        "jax.prealloc", "jax.profiler", "logdir", "logger.", "method", "run.actor_addr", "run.log_every",
        "run.logger_addr", "run.replay_addr", "run.save_every", "run.save_on_exit", "run.usage.",
    ),
}  # fmt: skip
# Settings that decide elsewhere, and that no run of a protocol reads: of other suites, of pictures that no agent sees,
# of scripts that are not run, and of reports, which draw batches of their own (replay.separate_report).
NOT_READ: Mapping[str, tuple[str, ...]] = {
    "tdmpc2": ("num_channels",),
    "dreamerv3": (
        "env.atari.", "env.atari100k.", "env.crafter.", "env.dmlab.", "env.loconav.", "env.minecraft.", "env.procgen.",
        "env.dmc.camera", "env.dmc.size", "run.actor_batch", "run.actor_threads", "run.eval_envs", "run.eval_eps",
        "run.remote_envs", "run.remote_replay", "run.report_batches", "run.report_every",
    ),
}  # fmt: skip

# What DreamerV3's bridge sets in every run, and why: see dreamer_bridge/settings.py.
BRIDGE: Mapping[str, Any] = {
    "env.dmc.image": False,
    "env.dmc.use_seed": True,
    "jax.prefetch": False,
    "replay.separate_report": True,
    "run.clock": "steps",
    "run.resume_exact": True,
}
# On a CPU, which has no fast bfloat16, the bridge sets the first; elsewhere the official second stands.
ON_CPU: Mapping[str, Any] = {"jax.compute_dtype": "float32"}
# Names by which DreamerV3's protocols and records call official settings, or a named config. Where a run's settings
# hold them, they are compared too.
WORDS: Mapping[str, str] = {
    "envs": "run.envs", "action_repeat": "env.dmc.repeat", "train_ratio": "run.train_ratio", "size": "size",
}  # fmt: skip
# What TD-MPC2's code resolves from the environment, which is known for dm_control alone, and from other settings. A
# record has them once its run has ended; where it has, they are compared.
OF_ENVIRONMENT = ("action_dim", "obs_shape.state")
RESOLVED = (*OF_ENVIRONMENT, "bin_size", "episode_length", "multitask", "seed_steps", "tasks")


def decides(agent: str, setting: str) -> bool:
    """Whether a setting decides what a protocol's run computes."""
    return not any(
        setting == name or (name.endswith(".") and setting.startswith(name))
        for name in (*WHERE_AND_HOW[agent], *NOT_READ[agent])
    )


@functools.cache
def stated(agent: str) -> Mapping[str, Any]:
    """settings/<agent>.json. defaults, patches: {setting: value}, of the official code, and of what patches add.

    tdmpc2: model_size: {size: what it sets}; shapes: {task: [dimensions of the observation, of the action]}.
    dreamerv3: dmc_proprio and sizes: what those named configs set, a size all that any of the sizes does.
    """
    return json.loads((FOLDER / f"{agent}.json").read_text(encoding="utf-8"))


def of_tdmpc2(task: str, physics: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Every deciding setting of a TD-MPC2 run but its seed, as the code resolves it. task: the official name.

    given: what protocol and presets set. A model size wins over what it sets, as in the official code.
    """
    known = stated("tdmpc2")
    found = {**known["defaults"], **known["patches"], **given, "task": task}
    size = found.get("model_size")
    if size is not None:
        found |= known["model_size"][str(size)]
    found.setdefault("seed_steps", 5 * 500)  # five episodes; set by the environment if nobody gives it
    found |= {
        "multitask": False,
        "tasks": [task],
        "episode_length": 500,
        "bin_size": (found["vmax"] - found["vmin"]) / (found["num_bins"] - 1),
    }
    if physics == "dm_control":
        observation, action = known["shapes"][task]
        found |= {"obs_shape.state": [observation], "action_dim": action}
    return deciding("tdmpc2", found)


def of_dreamerv3(environment: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Every deciding setting of a DreamerV3 run but its seed.

    environment: `domain/task` of dm_control; of another physics the task's official name is not known.
    given: what the protocol sets, in official names but for WORDS.
    """
    known = stated("dreamerv3")
    given = dict(given)
    size = given.pop("size", "size1m")
    if size not in known["sizes"]:
        raise UserError(f"The settings of {size!r} are not stated.", f"add them to {FOLDER / 'dreamerv3.json'}")
    named = {WORDS.get(key, key): value for key, value in given.items()}
    found = {**known["defaults"], **known["patches"], **known["dmc_proprio"], **known["sizes"][size], **BRIDGE}
    found |= named
    found.pop("task")
    if "/" in environment:
        found["task"] = dreamerv3_task(environment)
    return deciding("dreamerv3", found)


def dreamerv3_task(environment: str) -> str:
    """What the official DreamerV3 calls dm_control's `domain/task`."""
    from tdmpc2_lean.environments.names import TaskName

    domain, _, task = environment.partition("/")
    return str(TaskName(domain, task).spelled("dreamerv3"))


def deciding(agent: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those that decide, without the seed, which is a run's and not its protocol's."""
    return {key: value for key, value in sorted(settings.items()) if key != "seed" and decides(agent, key)}


def flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{'run.steps': …} of nested settings, without those that have no value."""
    found: dict[str, Any] = {}
    for key, value in nested.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        elif not (isinstance(value, str) and value == MISSING):
            found[f"{prefix}{key}"] = value
    return found
