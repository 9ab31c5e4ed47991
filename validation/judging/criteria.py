"""What runs must reach. The only definition of it: protocols and reports ask here, and `verdicts` judges by it.

A criterion judges one agent's runs over all tasks of a protocol, at two windows of env steps. A run's score
at a window is the average of its points in it. At each window, for PASS,

- every task is judged: at least 3 seeds, on protocol, sound, with all their points up to the window's end;
- a task passes if our mean over seeds >= the reference's lowest seed - 50; at least 80 % of the tasks pass;
- the mean, and the median, over tasks of our seed means are each >= the reference's - 50.

A window with an unjudged task is INCOMPLETE. The verdict is FAIL if any window fails, else INCOMPLETE if any
is, else PASS. Why these windows, margins and shares: CHOICES.md.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.references import tasks
from tdmpc2_lean.validation.judging.agents import AGENTS, agent_named
from tdmpc2_lean.validation.judging.window import Window

PASS, FAIL, INCOMPLETE = "PASS", "FAIL", "INCOMPLETE"
UNJUDGED = "UNJUDGED"
EXIT_CODES = {PASS: 0, FAIL: 1, INCOMPLETE: 2}

MARGIN = 50.0  # return units that a bar lies below the reference
LEAST_SEEDS = 3
SHARE_NUMERATOR, SHARE_DENOMINATOR = 4, 5  # of a protocol's tasks must pass
ROUNDING = 1e-6  # return units: the order of a sum never decides whether a bar is met

PLAYGROUND_CAVEAT = (
    "The reference was measured on dm_control. MuJoCo Playground has tasks of the same names, made anew for another "
    "simulator, so FAIL may be its doing and PASS says nothing of dm_control.{}"
)
PLAYGROUND_LIKE = " Like for like: {}-dm_control-shared, dm_control's verdict on the same {} tasks."


@dataclass(frozen=True)
class Criterion:
    """What is judged: an agent's runs on a protocol's tasks against a reference.

    name: `<agent>-<physics>`, with `-shared` for the tasks that both physics have.
    physics: `dm_control` or `playground`.
    reference: the name of the reference that sets the bars.
    baselines: further references, shown beside the verdict and never part of it.
    tasks: all tasks of the protocol, by the reference's names.
    seeds: the protocol's, in its order; runs are of these or of a prefix of them.
    every: env steps from one point of a run to the next (a chunk).
    by_episodes: True if points are weighted by their numbers of episodes.
    decides: False if it is shown beside another's verdict, and decides only where it is asked for by name.
    caveat: what has to be known to read the verdict, a sentence or two; empty if nothing.
    """

    name: str
    agent: str
    physics: str
    reference: str
    baselines: tuple[str, ...]
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    every: int
    by_episodes: bool
    decides: bool = True
    caveat: str = ""

    @property
    def needed(self) -> int:
        """How many of the tasks must pass at a window: 80 %, rounded up."""
        return -(-len(self.tasks) * SHARE_NUMERATOR // SHARE_DENOMINATOR)

    def budget(self, task: str) -> int:
        """Env steps of a run."""
        return budget(self.agent, task)

    def windows(self, task: str) -> tuple[Window, Window]:
        return windows(self.agent, task)


def budget(agent: str, task: str) -> int:
    """Env steps of a run of the agent (`tdmpc2`, `dreamerv3`) on a reference's task."""
    return agent_named(agent).budget(tasks.task(task))


def windows(agent: str, task: str) -> tuple[Window, Window]:
    """The windows at which the agent is judged on the task, early and late."""
    return agent_named(agent).windows(tasks.task(task))


@functools.cache
def criteria() -> dict[str, Criterion]:
    """All criteria, by name: each agent on dm_control and on Playground, and some on the tasks that both have."""

    def on(physics: str, table: Mapping[str, tasks.Task]) -> tuple[str, ...]:
        return tuple(name for name, task in table.items() if physics == "dm_control" or task.playground)

    found = []
    for physics in ("dm_control", "playground"):
        for agent in AGENTS.values():
            of = Criterion(
                name=f"{agent.name}-{physics}",
                agent=agent.name,
                physics=physics,
                reference=agent.reference,
                baselines=agent.baselines,
                tasks=on(physics, agent.tasks),
                seeds=agent.seeds,
                every=agent.every,
                by_episodes=agent.by_episodes,
            )
            if physics == "playground":
                like = PLAYGROUND_LIKE.format(agent.name, len(of.tasks)) if agent.is_shared else ""
                of = replace(of, caveat=PLAYGROUND_CAVEAT.format(like))
            found.append(of)
            if physics == "dm_control" and agent.is_shared:
                both = on("playground", agent.tasks)
                found.append(replace(of, name=f"{of.name}-shared", tasks=both, decides=False))
    return {criterion.name: criterion for criterion in found}


def criterion(name: str) -> Criterion:
    """The criterion `<agent>-<physics>`; an unknown name is a UserError that suggests the nearest."""
    if name not in criteria():
        from tdmpc2_lean.nearest import did_you_mean

        known = ", ".join(criteria())
        raise UserError(f"There is no criterion {name!r}.{did_you_mean(name, criteria())}", f"name one of {known}")
    return criteria()[name]
