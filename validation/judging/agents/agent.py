"""What the judge has to know of an agent: budgets and windows, settings, what its runs compute, hold and take."""

import abc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tdmpc2_lean.references.tasks import OF_UPSTREAM, Task
from tdmpc2_lean.upstreams.registry import UPSTREAMS
from tdmpc2_lean.validation.judging.entry import Protocol
from tdmpc2_lean.validation.judging.window import Window

FLOAT = 4  # bytes


class JudgedAgent(abc.ABC):
    """An agent whose runs are judged.

    name: its upstream's.
    baselines: further references, shown beside the verdict.
    seeds: the protocols', in the order in which they are run.
    every: env steps from one point of a run to the next.
    episodes: of an evaluation; 0 where the returns of the training episodes are the measure.
    is_shared: whether a criterion of its own judges it on dm_control on the tasks that both physics have.
    has_variants: whether lean presets may make variants of its protocols.
    parameters: of the network of its protocols, as its size's name says.
    presets: the folder of those that come with it.
    where_and_how: settings that say where or how a run is made, and what it leaves behind.
    not_read: settings that decide elsewhere, and that no run of a protocol reads.
    words: names by which protocols and records call official settings, or a named config.

    A name of a setting that ends in a dot stands for all below it. The lists are here, and not asked of the settings'
    schemas, so that the registry needs no patches to be read; a test holds the two against each other.
    """

    name: str
    baselines: tuple[str, ...]
    seeds: tuple[int, ...]
    every: int
    episodes: int
    is_shared: bool
    has_variants: bool
    parameters: int
    presets: Path
    where_and_how: tuple[str, ...]
    not_read: tuple[str, ...]
    words: Mapping[str, str] = {}

    @property
    def reference(self) -> str:
        """The name of the reference that sets the bars."""
        return UPSTREAMS[self.name].reference

    @property
    def by_episodes(self) -> bool:
        """Whether points are means over training episodes, and weighted by their numbers."""
        return UPSTREAMS[self.name].averaged

    @property
    def tasks(self) -> Mapping[str, Task]:
        """By the reference's names."""
        return OF_UPSTREAM[self.name]

    # --------------------------------------------------------------------------------------------- criteria

    @abc.abstractmethod
    def budget(self, task: Task) -> int:
        """Env steps of a run."""

    @abc.abstractmethod
    def windows(self, task: Task) -> tuple[Window, Window]:
        """The windows at which it is judged, early and late."""

    # -------------------------------------------------------------------------------------------- protocols

    @abc.abstractmethod
    def given(self, task: str, agent_steps: int, chunk: int) -> dict[str, Any]:
        """The settings that the protocol of a reference's task gives. chunk: agent steps."""

    @abc.abstractmethod
    def smoke(self) -> Protocol:
        """The smoke run's protocol, without what it does not give."""

    @abc.abstractmethod
    def expected(self, entry: Protocol, given: Mapping[str, Any], on_cpu: bool) -> dict[str, Any]:
        """Every deciding setting of a run but its seed, in the official names.

        given: what protocol and presets set. on_cpu: whether the run is made on one.
        """

    def decides(self, setting: str) -> bool:
        """Whether a setting decides what a protocol's run computes."""
        return not any(
            setting == name or (name.endswith(".") and setting.startswith(name))
            for name in (*self.where_and_how, *self.not_read)
        )

    def deciding(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Those that decide, without the seed, which is a run's and not its protocol's."""
        return {key: value for key, value in sorted(settings.items()) if key != "seed" and self.decides(key)}

    # --------------------------------------------------------------------------------------------- a record

    @abc.abstractmethod
    def names_of_task(self, entry: Protocol) -> set[str]:
        """What a run of a protocol may call its task: the reference's name, and the agent's own."""

    @abc.abstractmethod
    def compared(
        self, entry: Protocol, due: Mapping[str, Any], found: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings that are due and those that a record has, as far as the two can be compared."""

    # --------------------------------------------------------------------------------------------- its runs

    @abc.abstractmethod
    def updates_by(self, settings: Mapping[str, Any], agent_steps: int) -> tuple[int, int]:
        """(the least, the most) gradient updates that a run has made where the line at so many agent steps is written.

        settings: every deciding one, as `expected` gives them.
        """

    def environments(self, settings: Mapping[str, Any]) -> int:
        """How many environments the agent trains in."""
        return 1

    def episodes_by(self, settings: Mapping[str, Any], agent_steps: int, action_repeat: int) -> int:
        """How many training episodes have ended by so many agent steps, with no stop between."""
        raise NotImplementedError(f"{self.name} is not measured by its training episodes")

    # ----------------------------------------------------------------------------------------- what they take

    @abc.abstractmethod
    def step_bytes(self, settings: Mapping[str, Any], observation: int, action: int) -> int:
        """Bytes of a step in the replay. observation, action: their dimensions."""

    @abc.abstractmethod
    def steps_in_replay(self, settings: Mapping[str, Any], agent_steps: int) -> int:
        """Agent steps that the replay holds at the end of a run of so many, with those that are resets."""

    def gpu_hours(self, entry: Protocol) -> float | None:
        """Of training and evaluation, on the GPU of a measurement; None where nobody has timed it for us."""
        return None
