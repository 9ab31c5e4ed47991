"""Versions of the packages that decide what a run computes."""

import platform
from importlib import metadata

PACKAGES = (
    "torch", "tensordict", "torchrl", "gymnasium", "dm_control", "mujoco", "numpy", "hydra-core", "omegaconf",
    "jax", "jaxlib", "elements", "ninjax", "optax", "chex", "portal", "granular", "einops",
)  # fmt: skip


def versions() -> dict[str, str]:
    """Package name -> installed version; packages that are absent are left out."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
