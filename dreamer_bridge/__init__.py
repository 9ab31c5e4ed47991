"""The bridge to the official DreamerV3: its upstream, environments and training command.

Importing it needs the packages of the extra `dreamer`; without them it raises MissingExtra, an ImportError.
"""

from importlib.util import find_spec

from tdmpc2_lean.errors import UserError

# The extra's packages without which nothing of the official code can be imported.
NEEDED = ("jax", "elements", "ninjax", "portal")
# All modules that the extra brings, those of setup.cfg.
OF_THE_EXTRA = (
    *NEEDED, "jaxlib", "granular", "scope", "einops", "optax", "chex", "jaxtyping", "ruamel", "cloudpickle", "psutil",
    "unearth",
)  # fmt: skip


class MissingExtra(UserError, ImportError):
    """Packages are absent that only an extra brings."""


def require(names: tuple[str, ...] = NEEDED) -> None:
    """MissingExtra, which names what to install, if one of the packages is absent. Imports none of them."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise MissingExtra(
            f"dreamer_bridge needs {', '.join(missing)}, not installed here.", "pip install 'tdmpc2_lean[dreamer]'"
        )


require()
