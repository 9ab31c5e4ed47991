"""Stands for gym where that is not installed: what TD-MPC2 used of its release 0.21, on gymnasium's spaces.

The unpatched code of before December 2024 runs on it, so that it can judge what the patch `current-stack` makes of it
on gymnasium (see `cpu_shim`). A wrapper hands on whatever it lacks, and every argument.
"""

from types import SimpleNamespace

from gymnasium import spaces

__all__ = ["Env", "Wrapper", "logger", "spaces"]

logger = SimpleNamespace(set_level=lambda level: None)


class Env:
    """The base class of environments."""


class Wrapper(Env):
    """Does what the environment within does, but for what a subclass defines."""

    def __init__(self, env):
        self.env = env

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.env, name)

    def reset(self, **kwargs):
        return self.env.reset(**kwargs)

    def step(self, action):
        return self.env.step(action)

    def render(self, mode: str = "human", **kwargs):
        return self.env.render(mode, **kwargs)

    @property
    def unwrapped(self):
        return self.env.unwrapped
