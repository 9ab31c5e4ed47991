"""What an environment source is: a simulator with its tasks, as everything outside this package knows it.

A new source is one new module in `sources/` that defines SOURCE.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tdmpc2_lean.environments.names import TaskName


@dataclass(frozen=True)
class Use:
    """How an upstream's official code uses a source.

    action_repeat: env steps of an agent step, where the run's settings do not say otherwise.
    modules: what the official code imports to make an environment; those of its own are found in its folder.
    """

    action_repeat: int
    modules: tuple[str, ...]


@dataclass(frozen=True)
class Renderer:
    """How a source's frames are drawn.

    variable: the environment variable that names the backend.       official: what the official scripts set it to.
    backends: its values that draw, in the order in which they are tried.        off: its value that draws nothing.
    frame: Python that draws one frame.                              install: what brings a backend.
    """

    variable: str
    official: str
    backends: tuple[str, ...]
    off: str
    frame: str
    install: str


@dataclass(frozen=True)
class EnvironmentSource:
    """A simulator and its tasks.

    name: as run.json has it.                  title: as users read it.
    packages: the installed packages whose versions decide what an episode returns.
    physics: the one of them that integrates the motion.
    modules: what must be importable for `lists`.
    lists: a Python expression, evaluated after `modules` are imported: pairs of domain and task.
    install: what to type where packages are missing.
    episode: env steps of an episode.
    uses: {upstream: how its official code uses the source}.
    renderer: how frames are drawn; None if they cannot be.
    """

    name: str
    title: str
    packages: tuple[str, ...]
    physics: str
    modules: tuple[str, ...]
    lists: str
    install: str
    episode: int
    uses: Mapping[str, Use]
    renderer: Renderer | None

    def agent_steps(self, upstream: str) -> int:
        """Agent steps of an episode, at the upstream's own action repeat."""
        return self.episode // self.uses[upstream].action_repeat

    def tasks(self) -> frozenset[TaskName]:
        """Its tasks, asked of the installed packages in a process of its own. UserError if they cannot be imported."""
        from tdmpc2_lean.environments import probing

        return probing.tasks_of(self)

    def __hash__(self) -> int:
        return hash(self.name)
