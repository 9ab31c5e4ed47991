"""Versions of the packages that decide what a run computes."""

import platform
from collections.abc import Sequence
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
