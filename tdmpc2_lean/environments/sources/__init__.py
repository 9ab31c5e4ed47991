"""The environment sources: each module of this folder defines one, as SOURCE."""

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
