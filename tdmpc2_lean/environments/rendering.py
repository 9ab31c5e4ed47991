"""Which rendering backend (MUJOCO_GL) a run gets, which of them work on this machine, and what videos need.

dm_control opens the rendering library when it is imported, even where nothing is rendered, and the official code
hides the error if that fails. A run that draws nothing therefore gets MUJOCO_GL=disable: the physics is the same. One
that draws gets a backend that has drawn a frame here: the user's, else egl, which the official scripts set, else,
with a note, another.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from tdmpc2_lean.environments.source import EnvironmentSource
from tdmpc2_lean.environments.sources import source_named
from tdmpc2_lean.errors import UserError

TIMEOUT = 60  # seconds to draw a frame

# What has been tried in this process: {(source, backend, $PYTHONPATH): why no frame was drawn; empty if one was}.
_tried: dict[tuple[str, str, str], str] = {}


@dataclass(frozen=True)
class Backend:
    """With what a run draws.

    value: of the source's variable; empty if it has none.
    variables: what the run's process gets from us; empty where the user's own value stands.
    note: what the user should be told; mostly nothing.
    """

    value: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def backend(source: EnvironmentSource | None, needed: bool, environment: Mapping[str, str]) -> Backend:
    """The backend for a run. UserError if frames are needed and cannot be drawn with what the user set, or at all.

    needed: whether the run draws frames; a frame is then drawn to see whether it works, which takes two seconds once.
    environment: the user's.
    """
    if source is None or source.renderer is None:
        return Backend()
    renderer = source.renderer
    own = environment.get(renderer.variable, "")
    if not needed:
        return Backend(own) if own else Backend(renderer.off, {renderer.variable: renderer.off})
    if own:
        if why := why_not(own, source):
            raise without_frames(source, f"no frame can be drawn with {renderer.variable}={own}:\n    {why}")
        return Backend(own)
    for value in (renderer.official, *(other for other in renderer.backends if other != renderer.official)):
        if works(value, source):
            note = ""
            if value != renderer.official:
                note = (
                    f"frames are drawn with {renderer.variable}={value}: {renderer.official}, the official default, "
                    "does not work on this machine"
                )
            return Backend(value, {renderer.variable: value}, note)
    raise without_frames(source, f"this run draws frames, and {renderer.variable} is not set.")


def without_frames(source: EnvironmentSource, message: str) -> UserError:
    """What to tell where no frame can be drawn: that the simulator is broken, what works, or what to install."""
    from tdmpc2_lean.environments.probing import probe

    renderer = source.renderer
    broken = probe(source, {renderer.variable: renderer.off})
    if broken is not None:
        return broken
    working = [value for value in renderer.backends if works(value, source)]
    if working:
        return UserError(message, f"export {renderer.variable}={working[0]}, which works on this machine")
    return UserError(
        f"{message}\n  None of {', '.join(renderer.backends)} works on this machine.",
        f"{renderer.install}, or ask for no frames: obs=state and no videos",
    )


def works(value: str, source: EnvironmentSource | None = None) -> bool:
    """Whether a frame of the source (default: dm_control) is drawn with this backend here; tried once a process."""
    return not why_not(value, source or source_named("dm_control"))


def why_not(value: str, source: EnvironmentSource) -> str:
    """Why no frame is drawn with this backend here; empty if one is."""
    key = (source.name, value, os.environ.get("PYTHONPATH", ""))
    if key not in _tried:
        _tried[key] = drawn(value, source)
    return _tried[key]


def drawn(value: str, source: EnvironmentSource) -> str:
    """Why a process fails that draws a frame with this backend, in its last words; empty if it does not."""
    try:
        tried = subprocess.run(
            [sys.executable, "-P", "-c", source.renderer.frame],
            env=os.environ | {source.renderer.variable: value},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return f"it took more than {TIMEOUT} s"
    if tried.returncode == 0:
        return ""
    return (tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"])[-1]


def explained(module: str, why: str, needed: bool, source: EnvironmentSource | None = None) -> UserError:
    """What to tell when the simulator cannot be imported with its backend. Tries what works, which takes seconds."""
    source = source or source_named("dm_control")
    renderer = source.renderer
    value = os.environ.get(renderer.variable) or f"{renderer.official}, the official default"
    message = f"{module} cannot be imported with {renderer.variable}={value}:\n    {why}"
    if needed:
        return without_frames(source, message)
    return UserError(
        message,
        f"unset {renderer.variable} (this run draws nothing), or mend the installation of {source.title}",
    )


def is_needed(kind: str, config: Mapping[str, Any]) -> bool:
    """Whether a run of TD-MPC2 draws frames. kind: `train` or `evaluate`. config: as Hydra composed it."""
    if config.get("obs") != "state":
        return True
    if kind == "evaluate":
        return bool(config.get("save_video"))
    return bool(config.get("save_video_files") or sends_video(config))


def sends_video(config: Mapping[str, Any]) -> bool:
    """Whether a training run sends W&B a video of its evaluations, as the official default `save_video` has it."""
    return bool(config.get("enable_wandb") and config.get("save_video"))


def check_video(kind: str, config: Mapping[str, Any]) -> None:
    """UserError, before anything starts, if a run makes videos and a package is missing without which it would die.

    kind: `train` or `evaluate`. config: as Hydra composed it.
    """
    if kind == "train" and sends_video(config):
        why = "save_video=true, the official default, sends W&B a video of each evaluation"
        way = "pip install 'tdmpc2_lean[wandb]', or add save_video=false"
        if find_spec("moviepy") is None:
            raise UserError(f"{why}, for which W&B needs moviepy, not installed here.", way)
        if first_number("moviepy") >= 2 and find_spec("wandb") and not knows_moviepy_2():
            raise UserError(
                f"{why}; wandb {metadata.version('wandb')} needs moviepy 1 for it, "
                f"and {metadata.version('moviepy')} is installed.",
                way,
            )
    setting = "save_video" if kind == "evaluate" else "save_video_files"
    if config.get(setting) and find_spec("imageio_ffmpeg") is None:
        raise UserError(f"{setting}=true needs imageio-ffmpeg, not installed here.", "pip install 'tdmpc2_lean[video]'")


def first_number(package: str) -> int:
    """The first number of an installed package's version; 0 if it is not known."""
    try:
        first = metadata.version(package).partition(".")[0]
    except metadata.PackageNotFoundError:
        return 0
    return int(first) if first.isdigit() else 0


def knows_moviepy_2() -> bool:
    """Whether the installed wandb is one that can use moviepy 2: those before 0.19 import what it no longer has."""
    numbers = metadata.version("wandb").split(".")[:2]
    return tuple(int(number) if number.isdigit() else 0 for number in numbers) >= (0, 19)


def variable(needed: bool, dmcontrol: bool, environment: Mapping[str, str]) -> dict[str, str]:
    """`backend(...).variables` of dm_control; nothing for another suite."""
    return dict(backend(source_named("dm_control"), needed, environment).variables) if dmcontrol else {}
