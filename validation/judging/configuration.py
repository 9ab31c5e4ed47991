"""What is stated of an agent's settings, from which `agents` make the whole configuration that a protocol expects.

That is every setting that decides what is computed: the official defaults at the pinned commit, those of this project's
patches, what the protocol gives, and what the official code makes of them. The first two stand in
settings/<agent>.json, with their source; they are names and values, and `tests/judging/official_settings.py` reads them
off the official code. Settings are flat: `run.steps`.
"""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "settings"
MISSING = "???"  # how the official config.yaml of TD-MPC2, and so a run's settings, write that there is no value


@functools.cache
def stated(agent: str) -> Mapping[str, Any]:
    """settings/<agent>.json. defaults, patches: {setting: value}, of the official code, and of what patches add.

    tdmpc2: model_size: {size: what it sets}; shapes: {task: [dimensions of the observation, of the action]}.
    dreamerv3: dmc_proprio and sizes: what those named configs set, a size all that any of the sizes does.
    """
    return json.loads((FOLDER / f"{agent}.json").read_text(encoding="utf-8"))


def flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{'run.steps': …} of nested settings, without those that have no value."""
    found: dict[str, Any] = {}
    for key, value in nested.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        elif not (isinstance(value, str) and value == MISSING):
            found[f"{prefix}{key}"] = value
    return found
