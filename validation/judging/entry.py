"""What a protocol is: an entry of the registry, which `protocols` makes of all agents'."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

SMOKE = "smoke"
ACTION_REPEAT = 2
EPISODE = 500  # agent steps
EPISODE_ENV_STEPS = EPISODE * ACTION_REPEAT  # of any task of dm_control


@dataclass(frozen=True)
class Protocol:
    """Everything that fixes a run but its seed.

    name: `<agent>-<task>`, with the physics in between where it is not dm_control.
    task: the reference's name.        physics: `dm_control` or `playground`.
    environment: the task's name in that physics.
    env_steps: the budget.             chunk: agent steps from one line of curve.jsonl to the next.
    episodes: of an evaluation; 0 where the returns of the training episodes are the measure.
    seeds: in the order in which they are run.
    settings: the agent's settings that the protocol gives.
    defaults: all others that decide what a run computes, but the seed, with the values that they have then.
    judged: False for a run that no criterion may see.
    missing: what keeps the protocol from being run; empty if nothing does.
    """

    name: str
    agent: str
    task: str
    physics: str
    environment: str
    env_steps: int
    chunk: int
    episodes: int
    seeds: tuple[int, ...]
    settings: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    action_repeat: int = ACTION_REPEAT
    judged: bool = True
    missing: str = ""

    @property
    def agent_steps(self) -> int:
        return self.env_steps // self.action_repeat

    @property
    def chunks(self) -> int:
        """How many lines a finished run's curve has."""
        return self.agent_steps // self.chunk

    def as_json(self) -> dict[str, Any]:
        """The entry as a run's folder records it: JSON's own types. `missing` is of today, not of the run."""
        entry = asdict(self)
        entry.pop("missing")
        return entry | {"seeds": list(self.seeds), "settings": dict(self.settings), "defaults": dict(self.defaults)}


def name_of(agent: str, task: str, physics: str = "dm_control") -> str:
    """The name of the protocol for a reference's task."""
    return f"{agent}-{task}" if physics == "dm_control" else f"{agent}-{physics}-{task}"
