"""The environment sources: each module of this folder defines one, as SOURCE.

To add one, write such a module; nothing else has to change for its tasks to be found in any spelling, its packages to
be probed, its versions to be compared and its frames to be drawn. That an upstream's code can make its environments
is a patch's work. The module imports no simulator: what it needs of it stands in SOURCE as names and expressions.
"""

import functools
import importlib
import pkgutil

from tdmpc2_lean.environments.source import EnvironmentSource
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean


@functools.cache
def all_sources() -> dict[str, EnvironmentSource]:
    """{name: source}, sorted. Imports the modules of this folder, none of which imports its simulator."""
    modules = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}").SOURCE for name in modules}


def source_named(name: str) -> EnvironmentSource:
    """The source of that name; UserError, with the nearest, for another."""
    if name not in all_sources():
        raise UserError(
            f"there is no environment source {name!r}.{did_you_mean(name, all_sources())}",
            f"name one of: {', '.join(all_sources())}",
        )
    return all_sources()[name]
