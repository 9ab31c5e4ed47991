"""Versions of the packages that decide what a run computes."""

import platform
from collections.abc import Mapping, Sequence
from importlib import metadata

PACKAGES = (
    "torch", "tensordict", "torchrl", "gymnasium", "dm_control", "mujoco", "numpy", "hydra-core", "omegaconf",
    "jax", "jaxlib", "elements", "ninjax", "optax", "chex", "portal", "granular", "einops",
)  # fmt: skip

DREAMERV3 = (
    "jax", "jaxlib", "elements", "ninjax", "portal", "optax", "chex", "einops", "dm_control", "mujoco", "numpy",
)  # fmt: skip


def versions(packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Package name -> installed version; packages that are absent are left out."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def changed(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """'mujoco 3.2.3, now 3.17.0' of every package that a run had in another version than is installed now."""
    names = {name.lower().replace("_", "-"): name for name in (*PACKAGES, "python")}
    before = {names[key]: then[name] for name in then if (key := name.lower().replace("_", "-")) in names}
    return [
        f"{name} {before[name]}, now {now.get(name, 'absent')}" for name in before if before[name] != now.get(name)
    ]
