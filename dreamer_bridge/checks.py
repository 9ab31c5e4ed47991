"""What of a resolved configuration is refused before anything starts, and why. All take the nested configuration."""

from collections.abc import Mapping
from typing import Any

from dreamer_bridge import settings
from dreamer_bridge.layers import Layers
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.upstreams import Checkout

# The official scripts that load checkpoints in the process that the bridge watches.
SCRIPTS = ("train", "train_eval", "eval_only")
# What the bridge decides, and which word of the user's says it.
DECIDED = {
    "logdir": "exp_name= names the run's folder",
    "task": "write task=, before the --",
    "seed": "write seed=, before the --",
    "script": "dreamer-bridge evaluate makes an evaluation; other scripts are run by main.py of the patched copy",
    "run.from_checkpoint": "write checkpoint=, before the --",
}


def decided(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """UserError for a setting that the bridge decides and that a preset, a word or a flag gives another value.

    The run would lie in one folder and write into another, say. wanted: {one of DECIDED: the bridge's value}.
    """
    for key, value in wanted.items():
        resolved = at(found, key)
        if resolved != value:
            raise UserError(f"{key} is decided by the bridge: {value!r}, not {resolved!r}.", DECIDED[key])


def at(nested: Mapping[str, Any], key: str) -> Any:
    """The value of a flat key."""
    for part in key.split("."):
        nested = nested[part]
    return nested


def repeat_of(task: str, found: Mapping[str, Any]) -> int:
    """Env steps of an agent step, as the official logger counts them."""
    suite = task.partition("_")[0]
    repeat = found["env"].get(suite, {}).get("repeat", 1)
    if not isinstance(repeat, int) or repeat < 1:
        raise UserError(f"env.{suite}.repeat={repeat} is no whole number from 1 on.", f"write env.{suite}.repeat=2")
    return repeat


def script(found: Mapping[str, Any]) -> list[str]:
    """What is to be said of the official script; UserError for one that the bridge cannot watch."""
    name = found["script"]
    if name not in SCRIPTS:
        raise UserError(
            f"script={name} loads checkpoints in processes that the bridge does not watch.",
            f"one of {', '.join(SCRIPTS)}; or run main.py of the patched copy yourself",
        )
    return [] if name == "train" else [f"script={name}: progress and curve are kept of `train` alone"]


def environments(checkout: Checkout, found: Mapping[str, Any]) -> None:
    """UserError if environments are to run in processes of their own, which release 3.3.1 waits for without end."""
    if checkout.release and not found["run"]["debug"]:
        raise UserError(
            f"{checkout.label} hangs with environments in other processes (run.debug=False), patched or not.",
            "leave run.debug away, or use the pinned commit: upstream=PATH of a clone",
        )


def platform(layers: Layers) -> None:
    """UserError if a run is to use an accelerator because nobody has said otherwise, and none is there.

    Nothing is used in its place: a run of a million steps that a GPU makes in hours takes weeks on a CPU.
    """
    if layers.said("jax.platform") is None and not settings.has_accelerator():
        raise UserError(
            "no plugin of JAX for an accelerator is installed here, and the run is to use one, as by the official "
            "default jax.platform=cuda.",
            "add jax.platform=cpu (lean=smoke is a budget for a CPU), or install JAX's plugin for the accelerator; "
            "where JAX has it built in, jax.platform=cuda",
        )
