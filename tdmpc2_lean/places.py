"""Where things lie: data that the package carries, and the user's cache. Everyone asks here."""

import os
from pathlib import Path

import platformdirs

HERE = Path(__file__).parent  # links to parts beside the package lie in it, see tdmpc2_lean/__init__.py


def cache_dir() -> Path:
    """The project's cache: $TDMPC2_LEAN_CACHE, else the platform's folder for caches. May not exist yet."""
    chosen = os.environ.get("TDMPC2_LEAN_CACHE")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("tdmpc2_lean", False))


def config_dir() -> Path:
    """The user's own settings, such as lean presets of theirs. May not exist."""
    return Path(platformdirs.user_config_dir("tdmpc2_lean", False))


def patches_dir() -> Path:
    """Holds one folder per upstream, with its series and patches."""
    return (HERE / "patches").resolve()


def references_dir() -> Path:
    """Holds the published curves, as JSON."""
    return (HERE / "references").resolve()


def validation_dir() -> Path:
    """Holds gates, their negative controls and the miniature."""
    return (HERE / "validation").resolve()


def bridge_dir() -> Path:
    """The package dreamer_bridge, found without being imported: that needs packages which only its extra brings."""
    return HERE.parent / "dreamer_bridge"


def miniature_dir() -> Path:
    """The miniature checkout, a folder in the official layout."""
    return validation_dir() / "gates" / "miniature"


def presets_dir() -> Path:
    """Holds the lean presets that the package brings."""
    return HERE / "presets"
