"""Stand-ins for what scripts reach outside of themselves: W&B, the renderer, film files, torch.compile, CUDA graphs.

For processes of gates only. Each remembers what it was given, which is what a user would have seen.
"""

import os
import re
import runpy
import sys
import types
import zlib
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from tdmpc2_lean.validation.gates.names_tdmpc2 import TIMES

TIME = re.compile(r"\d+:\d\d:\d\d")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
LOGGED = re.compile(r"\[?\d{4}-\d\d-\d\d ")


class StandInModel(str):
    """Takes the place of a world model where a trainer only prints it."""

    total_params = 0


class Told(list):
    """What stand-ins were given, in order: (what, mapping)."""

    def say(self, what: str, **values) -> None:
        self.append((what, values))

    def into(self, case) -> None:
        """Records everything told so far, and forgets it."""
        for what, values in self:
            case.record(what, values)
        self.clear()


def masked(text: str, start: Path | None = None) -> str:
    """Text without times, addresses, and the folder that a process ran in."""
    start = start or Path.cwd()
    return ADDRESS.sub("0x", TIME.sub("TIME", str(text).replace(str(start), ".")))


def wandb_stand_in(told: Told) -> types.ModuleType:
    """A module `wandb` that keeps what it is given; it takes the name's place in sys.modules."""
    module = types.ModuleType("wandb")
    start = Path.cwd()

    class Video:
        def __init__(self, frames, **options):
            self.frames, self.options = frames, options

    class Artifact:
        def __init__(self, *names, **options):
            self.said, self.files = (names, options), []

        def add_file(self, path):
            self.files.append(masked(path, start))

    def init(**options):
        config = options.pop("config", None) or {}
        told.say("W&B begins", **{name: masked(repr(value), start) for name, value in options.items()})
        told.say("W&B is given the configuration", **{name: masked(repr(config[name]), start) for name in config})

    def log(metrics, step=None):
        values = {"step": step}
        for name, value in metrics.items():
            if isinstance(value, Video):
                values |= {name: value.frames, f"{name} options": sorted(value.options.items())}
            elif name.rpartition("/")[2] not in TIMES:
                values[name] = value
            else:
                values[name] = "a time"
        told.say("W&B is given", **values)

    module.Video, module.Artifact, module.init, module.log = Video, Artifact, init, log
    module.log_artifact = lambda artifact: told.say("W&B is given a file", said=artifact.said, files=artifact.files)
    module.finish = lambda: told.say("W&B ends")
    sys.modules["wandb"] = module
    return module


def draw_from_physics() -> None:
    """From now on dm_control renders, without OpenGL, a picture that depends on every bit of the physics' state."""
    import numpy as np
    from dm_control.mujoco import engine

    def render(physics, height=240, width=320, camera_id=-1, **options):
        seen = zlib.crc32(physics.get_state().tobytes() + repr((camera_id, sorted(options))).encode())
        rows, columns, colours = np.ogrid[:height, :width, :3]
        return ((rows * 3 + columns * 5 + colours * 67 + (seen & 0xFF)) % 251 + (seen >> 8) % 5).astype(np.uint8)

    engine.Physics.render = render


def keep_films(told: Told) -> None:
    """From now on imageio writes no film but tells of it."""
    import imageio
    import numpy as np

    start = Path.cwd()

    def mimsave(path, frames, *_, **options):
        told.say("film", path=masked(path, start), frames=np.stack(list(frames)), options=sorted(options.items()))

    imageio.mimsave = mimsave


def compile_nothing(told: Told) -> None:
    """From now on torch.compile returns the function itself and tells how it was called."""
    import torch

    def compile_(function=None, *_, **options):
        name = getattr(function, "__name__", repr(function))
        told.say("torch.compile", function=name, options=sorted((k, repr(v)) for k, v in options.items()))
        return function

    torch.compile = compile_


class MarkedSteps:
    """From its making on, counts the calls that mark a step for CUDA graphs, and spares importing what they need."""

    def __init__(self):
        import torch

        self.count = 0
        torch.compiler.cudagraph_mark_step_begin = self.mark

    def mark(self) -> None:
        self.count += 1


def seed_where_unseeded(env, seed: int) -> None:
    """Seeds an environment's space of actions, which official code leaves to chance, unless it has a seed already."""
    space = env.action_space
    if getattr(space, "_np_random", None) is None:
        space.seed(seed)


def run_script(name: str, settings: dict) -> list[str]:
    """Runs the checkout's script NAME.py as its user does, in this process; returns the lines that it printed.

    settings: configuration keys to values, as on its command line. Colours and times are taken out of the lines, and
    those left out that libraries log.
    """
    words = [f"{key}={value}" for key, value in settings.items()]
    before, start, printed = sys.argv, Path.cwd(), StringIO()
    environment = dict(os.environ)
    os.environ.pop("MUJOCO_GL", None)  # scripts choose one; MuJoCo was imported before, and does not ask again
    sys.argv = [f"{name}.py", *words, "hydra.run.dir=hydra"]
    try:
        with redirect_stdout(printed):
            runpy.run_module(name, run_name="__main__", alter_sys=True)
    finally:
        sys.argv = before
        os.chdir(start)
        os.environ.clear()
        os.environ.update(environment)
    lines = [masked(COLOUR.sub("", line), start) for line in printed.getvalue().splitlines()]
    return [line for line in lines if not LOGGED.match(line)]
