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
    """In words, which of the packages in `now` had another version then: ['mujoco 3.2.3 then, 3.17.0 now'].

    Packages of which nothing was written down then are left out.
    """
    return [f"{name} {then[name]} then, {version} now" for name, version in now.items() if then.get(name, version) != version]
