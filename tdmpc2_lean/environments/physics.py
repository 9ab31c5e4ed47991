"""Versions of a source's packages: which decide what an episode returns, and what it means if they are others now.

Measured on dm_control, same seed and actions, walker-walk: 16.40 and 15.16 in two episodes with mujoco 3.2.3, 16.90
and 14.77 with 3.3.0, 17.03 and 14.68 with 3.17.0.
"""

from collections.abc import Mapping
from importlib import metadata

from tdmpc2_lean.environments.source import EnvironmentSource
from tdmpc2_lean.environments.sources import all_sources


def versions_that_matter(source: EnvironmentSource) -> dict[str, str]:
    """{package: installed version} of a source's packages; those that are absent are left out."""
    found = {}
    for name in source.packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def drift(recorded: Mapping[str, str | None], now: Mapping[str, str]) -> list[str]:
    """What is to be said if a run is looked at, or goes on, with other packages than it had.

    recorded: {package: version} of then, with whatever other packages beside; None or absent: not known.
    now: what `versions_that_matter` says. Empty if nothing differs.
    """
    then = {canonical(name): version for name, version in recorded.items()}
    physics = {source.physics for source in all_sources().values()}
    texts = []
    for name, version in now.items():
        before = then.get(canonical(name))
        if before is None:
            texts.append(f"{name}: not known then, {version} now; returns may differ")
        elif before != version:
            means = "another physics; returns differ" if name in physics else "its tasks may differ"
            texts.append(f"{name} {before} then, {version} now: {means}")
    return texts


def canonical(name: str) -> str:
    """A package's name as it is compared: dm-control and dm_control are one."""
    return name.lower().replace("-", "_").replace(".", "_")
