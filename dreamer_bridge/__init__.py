"""The bridge to the official DreamerV3: its upstream, environments and training command.

Importing it needs the packages of the extra `dreamer`; without them the ImportError says how to install them.
"""

from importlib.util import find_spec

# The extra's packages without which nothing of the official code can be imported.
NEEDED = ("jax", "elements", "ninjax", "portal")


def require(names: tuple[str, ...] = NEEDED) -> None:
    """ImportError that names the extra to install if one of the packages is absent. Imports none of them."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise ImportError(
            f"dreamer_bridge needs {', '.join(missing)}, not installed here: pip install 'tdmpc2_lean[dreamer]'",
            name=missing[0],
        )


require()
