"""What a run is: the description that fixes it, the same at each of its starts.

The command line, a protocol and (later) a campaign each write one; an upstream's adapter turns it into a plan. A run
that goes on must have the specification it began with, but for a budget that was raised.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

UpstreamName = Literal["tdmpc2", "dreamerv3"]


class Described(BaseModel):
    """Part of a run's record: typed, closed, immutable. Numbers are finite, and neither 1.0 nor true is whole."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class PresetUse(Described):
    """A lean preset as it was applied. sha256: of its file. overrides, times: what it says."""

    name: str
    file: str | None = None
    sha256: str | None = None
    overrides: dict[str, Any] = Field(default_factory=dict)
    times: dict[str, int | float] = Field(default_factory=dict)


class Specification(Described):
    """Everything that fixes a run.

    upstream: whose agent; which code of it is used is the provenance's to say.
    source: where the environment comes from: `dm_control`, or the name of another of the upstream's own suites.
    tasks: as the upstream spells them; several for a multi-task agent.
    regime: who collects the training data: `on_policy` is the official loop.
    arm: the side of the ablation, as written; `full` is the official objective.
    presets: in the order in which they were applied.
    agent_steps: the budget. action_repeat: env steps of an agent step. chunk: env steps of a line of the curve.
    overrides: {setting: value} that presets, arm and the user gave, in the official names.
    protocol: the name of the protocol whose run it is, or None.
    """

    upstream: UpstreamName
    source: str = "dm_control"
    tasks: tuple[str, ...]
    regime: Literal["on_policy"] = "on_policy"
    arm: str = "full"
    presets: tuple[PresetUse, ...] = ()
    seed: int
    agent_steps: int = Field(ge=0)
    action_repeat: int = Field(ge=1)
    chunk: int = Field(ge=1)
    overrides: dict[str, Any] = Field(default_factory=dict)
    protocol: str | None = None

    @property
    def task(self) -> str:
        """The task, or the tasks joined by commas."""
        return ",".join(self.tasks)

    @property
    def env_steps(self) -> int:
        """The budget in env steps."""
        return self.agent_steps * self.action_repeat

    @property
    def variant(self) -> str:
        """`default`, or the presets' names joined by `+`."""
        return "+".join(preset.name for preset in self.presets) or "default"


def flattened(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{'run.steps': …} of nested settings."""
    found: dict[str, Any] = {}
    for key, value in nested.items():
        if isinstance(value, Mapping):
            found |= flattened(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found
