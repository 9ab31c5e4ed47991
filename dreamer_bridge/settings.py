"""What the bridge itself sets, before presets, words and flags, each of which may overrule it; and why.

    jax.platform             `cpu` where no accelerator plugin of JAX is installed; the official `cuda` would raise
    jax.compute_dtype        float32 on a CPU, which has no fast bfloat16
    jax.prealloc             False on a CPU
    env.dmc.log_image        False where `image` is: the picture would only go to the log, at 40-68 ms a step
    env.dmc.use_seed         True: dm_control's randomness comes from the run's seed
    jax.profiler             False: it writes 49 MB of updates 100-120 into every run's folder
    jax.prefetch             False: with a thread that prefetches, which batch is sampled when is a race
    replay.separate_report   True: reports draw batches of their own, so that reporting never changes training
    run.clock                steps: when to log, report and save is counted in agent steps, not in seconds, so that
                             a slow machine computes what a quick one does
    run.log_every, run.report_every, run.save_every   1,000, 20,000 and 20,000 agent steps; the official numbers are
                             seconds and mean nothing by the clock of steps
    run.resume_exact         True for dm_control, whose environments can be brought back: a checkpoint holds all of a
                             run's state, the replay too, so that a resumed run ends with the bits of one that was
                             never stopped (costs the replay's size on the disk each time). False where another
                             setting makes that impossible, such as run.debug=False

With these, one seed determines a run, on one machine with one number of cores: XLA's CPU code adds in another order
on another number of cores, which gives other bits.

A key that the checkout lacks, because the patch that adds it is left out, is not set; the plan says so.
"""

import importlib.metadata
import os
from collections.abc import Collection, Mapping
from typing import Any

from tdmpc2_lean import places
from tdmpc2_lean.patching import read_series

# How the settings of JAX's own accelerators' plugins are called; a jaxlib without one can use a CPU only.
PLUGINS = ("jax-cuda", "jax-rocm", "libtpu", "jax-metal", "intel-extension-for-openxla")


def has_accelerator() -> bool:
    """Whether a plugin is installed by which JAX could use something else than a CPU."""
    names = (distribution.metadata["Name"] or "" for distribution in importlib.metadata.distributions())
    return any(name.lower().replace("_", "-").startswith(PLUGINS) for name in names)


def own(known: Collection[str], seed: int, cpu: bool, dmc: bool = True) -> tuple[dict[str, Any], list[str]]:
    """(the bridge's settings, patches whose keys the checkout lacks).

    known: the checkout's keys. cpu: whether to run on one. dmc: whether the task is one of dm_control.
    """
    wanted: dict[str, Any] = {"seed": seed}
    if cpu:
        wanted |= {"jax.platform": "cpu", "jax.compute_dtype": "float32", "jax.prealloc": False}
    wanted |= {
        "env.dmc.image": False,
        "env.dmc.log_image": False,
        "env.dmc.use_seed": True,
        "jax.profiler": False,
        "jax.prefetch": False,
        "replay.separate_report": True,
        "run.clock": "steps",
        "run.resume_exact": dmc,
    }
    if "run.clock" in known:
        wanted |= {"run.log_every": 1000, "run.report_every": 20_000, "run.save_every": 20_000}
    patches = read_series("dreamerv3").settings()
    lacking = list(dict.fromkeys(patches[key] for key in wanted if key not in known and key in patches))
    return {key: value for key, value in wanted.items() if key in known}, lacking


def obstacles_to_resuming(config: Mapping[str, Any]) -> list[str]:
    """The settings with which no resumed run has the bits of an uninterrupted one: ['run.debug=False'].

    They are those that the patch `resume` refuses under run.resume_exact.
    """
    wanted = {
        "run.debug": (config["run"].get("debug", True), True),
        "run.clock": (config["run"].get("clock", "steps"), "steps"),
        "jax.prefetch": (config["jax"].get("prefetch", False), False),
        "random_agent": (config.get("random_agent", False), False),
        "replicas": (config.get("replicas", 1), 1),
        "replay.fracs.uniform": (config["replay"].get("fracs", {}).get("uniform", 1.0), 1.0),
    }
    return [f"{key}={value}" for key, (value, right) in wanted.items() if value != right]


def compile_cache(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables of JAX's persistent compilation cache: the user's, else a folder of the project's cache.

    Everything compiled is kept: 45-90 s become 11-16 s at the next start of the same computation.
    """
    folder = environment.get("JAX_COMPILATION_CACHE_DIR") or str(places.cache_dir() / "jax")
    least = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
    kept = {name: environment.get(name, value) for name, value in least.items()}
    return {"JAX_COMPILATION_CACHE_DIR": folder} | kept


def entries(folder: str) -> int:
    """How many compiled computations a compilation cache holds."""
    try:
        return sum(1 for entry in os.scandir(folder) if not entry.name.endswith("-atime"))
    except OSError:
        return 0
