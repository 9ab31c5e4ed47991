"""The registry of protocols: `<agent>-<task>` -> everything that fixes a run that may be compared with a reference.

`runs` makes the runs, `deviations` says whether a run's record is what its protocol says, `verdicts` judges.
Budgets, seeds and the length of a chunk are those of `agents`, by which the criteria judge. Every setting that decides
what a run computes is fixed: those that a protocol gives, and by `agents` all others.

    tdmpc2-walker-walk                 TD-MPC2 on dm_control, the physics that the curves were measured on
    tdmpc2-playground-walker-walk      the same task in MuJoCo Playground
    dreamerv3-dmc_walker_walk          DreamerV3, by the name of its reference
    tdmpc2-smoke                       minutes on a CPU, through the same code; never judged
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.references import tasks
from tdmpc2_lean.validation.judging import criteria
from tdmpc2_lean.validation.judging.agents import AGENTS, agent_named
from tdmpc2_lean.validation.judging.entry import ACTION_REPEAT, EPISODE, SMOKE, Protocol

__all__ = ["ACTION_REPEAT", "EPISODE", "FIXED", "SMOKE", "Protocol", "differing", "entries", "expected_settings",
           "name_of", "protocol", "registry", "same"]  # fmt: skip

# What a lean preset may not touch: what is run for how long, and how it is measured.
FIXED = (
    "task", "obs", "episodic", "seed", "steps", "eval_freq", "eval_episodes", "separate_eval", "exp_name",
    "checkpoint_minutes", "checkpoint_mid_episode", "device", "compile", "checkpoint", "multitask", "tasks",
)  # fmt: skip


def name_of(agent: str, task: str, physics: str = "dm_control") -> str:
    """The name of the protocol for a reference's task."""
    return f"{agent}-{task}" if physics == "dm_control" else f"{agent}-{physics}-{task}"


@functools.cache
def registry() -> dict[str, Protocol]:
    """All protocols by name, those of a criterion together."""
    found = [_whole(agent.smoke()) for agent in AGENTS.values()]
    for criterion in criteria.criteria().values():
        found += [_of(criterion, task) for task in criterion.tasks]
    return {protocol.name: protocol for protocol in found}


def entries() -> dict[str, dict[str, Any]]:
    """The registry as JSON, by name."""
    return {name: entry.as_json() for name, entry in registry().items()}


def protocol(name: str) -> Protocol:
    """The protocol of that name; an unknown one is a UserError that suggests the nearest."""
    if name not in registry():
        from tdmpc2_lean.nearest import did_you_mean

        raise UserError(f"There is no protocol {name!r}.{did_you_mean(name, registry())}", "tdmpc2-lean validate list")
    return registry()[name]


def _environment(task: str, physics: str) -> str:
    known = tasks.task(task)
    return known.playground if physics == "playground" else f"{known.domain}/{known.task}"


def _of(criterion: criteria.Criterion, task: str) -> Protocol:
    """The protocol by which runs of a criterion's task are made."""
    agent = agent_named(criterion.agent)
    budget, chunk = criterion.budget(task), criterion.every // ACTION_REPEAT
    missing = "" if criterion.physics == "dm_control" else "the adapter for MuJoCo Playground is not built yet"
    return _whole(
        Protocol(
            name=name_of(agent.name, task, criterion.physics),
            agent=agent.name,
            task=task,
            physics=criterion.physics,
            environment=_environment(task, criterion.physics),
            env_steps=budget,
            chunk=chunk,
            episodes=agent.episodes,
            seeds=criterion.seeds,
            settings=agent.given(task, budget // ACTION_REPEAT, chunk),
            missing=missing,
        )
    )


def _whole(entry: Protocol) -> Protocol:
    """A protocol with its defaults: of all settings that are expected, those that it does not give."""
    words = agent_named(entry.agent).words
    named = {"seed", *entry.settings, *(words.get(key, key) for key in entry.settings)}
    expected = expected_settings(entry, entry.seeds[0])
    return replace(entry, defaults={key: value for key, value in expected.items() if key not in named})


def expected_settings(
    entry: Protocol, seed: int, lean: Mapping[str, Any] | None = None, on_cpu: bool = False
) -> dict[str, Any]:
    """Every deciding setting of a run of the protocol, flat, in the official names.

    lean: what presets set, where an agent's protocols have variants. on_cpu: whether the run is made on one.
    """
    given = {**entry.settings, **(lean or {})}
    return agent_named(entry.agent).expected(entry, given, on_cpu) | {"seed": seed}


def differing(expected: Mapping[str, Any], found: Mapping[str, Any], at_least: bool = False) -> list[str]:
    """The keys whose values differ, sorted. at_least: other keys than the expected ones do not count.

    Numbers are equal by their value, however they are written: 1, 1.0 and '1'.
    """
    keys = set(expected) if at_least else set(expected) | set(found)
    return sorted(key for key in keys if not same(expected.get(key, _ABSENT), found.get(key, _ABSENT)))


_ABSENT = object()


def same(one: Any, other: Any) -> bool:
    """Whether two settings say the same."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return not differing(one, other)
    if isinstance(one, bool) or isinstance(other, bool) or one is None or other is None:
        return one is other
    if _is_list(one) and _is_list(other):
        return len(one) == len(other) and all(map(same, one, other))
    try:
        return float(one) == float(other)
    except (TypeError, ValueError, OverflowError):  # no number, or an integer beyond all floats
        return one == other


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


