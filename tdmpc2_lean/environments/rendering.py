"""Which MUJOCO_GL a run needs, and which of its values work on this machine.

dm_control opens the rendering library when it is imported, even where nothing is rendered, and the official
code hides the error if that fails. A run that draws nothing therefore gets MUJOCO_GL=disable: the physics is
the same.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from tdmpc2_lean.errors import UserError

BACKENDS = ("egl", "osmesa", "glfw")

DRAW_A_FRAME = """
from dm_control import suite
suite.load("cartpole", "balance").physics.render(height=16, width=16, camera_id=0)
"""


def is_needed(kind: str, config: Mapping[str, Any]) -> bool:
    """Whether a run of this configuration draws frames."""
    if config.get("obs") != "state":
        return True
    if kind == "evaluate":
        return bool(config.get("save_video"))
    return bool(config.get("save_video_files") or (config.get("enable_wandb") and config.get("save_video")))


def variable(needed: bool, dmcontrol: bool, environment: Mapping[str, str]) -> dict[str, str]:
    """MUJOCO_GL, if the run should get it from us: the user has not set it, and nothing is drawn."""
    return {} if needed or not dmcontrol or environment.get("MUJOCO_GL") else {"MUJOCO_GL": "disable"}


def explained(module: str, why: str, needed: bool) -> UserError:
    """What to tell when the simulator cannot be imported. Tries what works, which takes seconds."""
    backend = os.environ.get("MUJOCO_GL") or "egl, the official default"
    message = f"{module} cannot be imported with MUJOCO_GL={backend}:\n    {why}"
    if not needed:
        return UserError(
            message, "unset MUJOCO_GL (this run draws nothing), or mend the installation of dm_control"
        )
    working = [backend for backend in BACKENDS if works(backend)]
    if working:
        return UserError(message, f"export MUJOCO_GL={working[0]}, which works on this machine")
    return UserError(
        message + f"\n  None of {', '.join(BACKENDS)} works on this machine.",
        "install EGL (libegl1) or OSMesa (libosmesa6), or ask for no frames: obs=state and no videos",
    )


def works(backend: str) -> bool:
    """Whether dm_control draws a frame with this backend here."""
    try:
        tried = subprocess.run(
            [sys.executable, "-P", "-c", DRAW_A_FRAME],
            env=os.environ | {"MUJOCO_GL": backend},
            capture_output=True,
            timeout=60,
        )
    except subprocess.TimeoutExpired:
        return False
    return tried.returncode == 0
