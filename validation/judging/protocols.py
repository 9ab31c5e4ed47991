"""The registry of protocols: `<agent>-<task>` -> everything that fixes a run that may be compared with a reference.

`runs` makes the runs, `deviations` says whether a run's record is what its protocol says, `criteria` judges.
Budgets, seeds and the length of a chunk are the criteria's; they are written nowhere else. Every setting that decides
what a run computes is fixed: those that a protocol gives, and by `configuration` all others.

    tdmpc2-walker-walk                 TD-MPC2 on dm_control, the physics that the curves were measured on
    tdmpc2-playground-walker-walk      the same task in MuJoCo Playground
    dreamerv3-dmc_walker_walk          DreamerV3, by the name of its reference
    tdmpc2-smoke                       minutes on a CPU, through the same code; never judged
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.references import tasks
from tdmpc2_lean.validation.judging import configuration, criteria

SMOKE = "smoke"
ACTION_REPEAT = 2
EPISODE = 500  # agent steps

# What a lean preset may not touch: what is run for how long, and how it is measured.
FIXED = (
    "task", "obs", "episodic", "seed", "steps", "eval_freq", "eval_episodes", "separate_eval", "exp_name",
    "checkpoint_minutes", "checkpoint_mid_episode", "device", "compile", "checkpoint", "multitask", "tasks",
)  # fmt: skip


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


@functools.cache
def registry() -> dict[str, Protocol]:
    """All protocols by name, those of a criterion together."""
    found = [_tdmpc2_smoke(), _dreamerv3_smoke()]
    for criterion in criteria.criteria().values():
        make = _tdmpc2 if criterion.agent == "tdmpc2" else _dreamerv3
        found += [make(criterion, task) for task in criterion.tasks]
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


def _tdmpc2(criterion: criteria.Criterion, task: str) -> Protocol:
    budget = criterion.budget(task)
    settings = {
        "task": task,
        "model_size": 5,
        "steps": budget // ACTION_REPEAT,
        "eval_freq": criterion.every // ACTION_REPEAT,
        "eval_episodes": 10,
        "utd": 1,
        "separate_eval": True,
    }
    missing = "" if criterion.physics == "dm_control" else "the adapter for MuJoCo Playground is not built yet"
    return Protocol(
        name=name_of("tdmpc2", task, criterion.physics),
        agent="tdmpc2",
        task=task,
        physics=criterion.physics,
        environment=_environment(task, criterion.physics),
        env_steps=budget,
        chunk=criterion.every // ACTION_REPEAT,
        episodes=10,
        seeds=criterion.seeds,
        settings=settings,
        defaults=_others(configuration.of_tdmpc2(task, criterion.physics, settings), settings),
        missing=missing,
    )


def _dreamerv3(criterion: criteria.Criterion, task: str) -> Protocol:
    missing = "" if criterion.physics == "dm_control" else "the adapter for MuJoCo Playground is not built yet"
    settings = {"size": "size12m", "envs": 16, "action_repeat": ACTION_REPEAT, "train_ratio": 512}
    return _whole(
        Protocol(
            name=name_of("dreamerv3", task, criterion.physics),
            agent="dreamerv3",
            task=task,
            physics=criterion.physics,
            environment=_environment(task, criterion.physics),
            env_steps=criterion.budget(task),
            chunk=criterion.every // ACTION_REPEAT,
            episodes=0,
            seeds=criterion.seeds,
            settings=settings,
            missing=missing,
        )
    )


def _whole(entry: Protocol) -> Protocol:
    """A protocol of DreamerV3 with all its defaults."""
    expected = expected_settings(entry, entry.seeds[0])
    expected.pop("seed")
    return replace(entry, defaults=_others(expected, entry.settings))


def _dreamerv3_smoke() -> Protocol:
    """A minute or two of DreamerV3 on one CPU core: three chunks of two episodes each on cartpole-balance."""
    repeat, steps = 4, EPISODE
    entry = Protocol(
        name=name_of("dreamerv3", SMOKE),
        agent="dreamerv3",
        task=SMOKE,
        physics="dm_control",
        environment="cartpole/balance",
        env_steps=3 * steps * repeat,
        chunk=steps,
        episodes=0,
        seeds=(0,),
        settings={
            "size": "size1m",
            "envs": 1,
            "action_repeat": repeat,
            "train_ratio": 16,
            "batch_size": 4,
            "batch_length": 16,
            "replay.size": 1e5,
            "agent.report": False,
            "run.report_every": 0,
        },
        action_repeat=repeat,
        judged=False,
    )
    return _whole(entry)


def _tdmpc2_smoke() -> Protocol:
    """A minute or so of TD-MPC2 on one CPU core: three chunks of one episode each on cartpole-balance."""
    settings = {
        "task": "cartpole-balance",
        "steps": 3 * EPISODE,
        "eval_freq": EPISODE,
        "eval_episodes": 1,
        "utd": 0.2,
        "separate_eval": True,
        "seed_steps": EPISODE,
        "pretrain_updates": 50,
        "batch_size": 32,
        "iterations": 2,
        "num_samples": 64,
        "num_elites": 8,
        "num_pi_trajs": 8,
        "enc_dim": 32,
        "mlp_dim": 32,
        "latent_dim": 32,
        "num_q": 2,
    }
    return Protocol(
        name=name_of("tdmpc2", SMOKE),
        agent="tdmpc2",
        task=SMOKE,  # no reference's, so that no criterion can take it for a run of its own
        physics="dm_control",
        environment="cartpole/balance",
        env_steps=3 * EPISODE * ACTION_REPEAT,
        chunk=EPISODE,
        episodes=1,
        seeds=(1,),
        settings=settings,
        defaults=_others(configuration.of_tdmpc2(settings["task"], "dm_control", settings), settings),
        judged=False,
    )


def _others(expected: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of all expected settings, those that the protocol does not give."""
    named = {configuration.WORDS.get(key, key) for key in settings} | set(settings)
    return {key: value for key, value in expected.items() if key not in named}


def expected_settings(
    entry: Protocol, seed: int, lean: Mapping[str, Any] | None = None, on_cpu: bool = False
) -> dict[str, Any]:
    """Every deciding setting of a run of the protocol, flat, in the official names.

    lean: what presets set; only TD-MPC2's protocols have variants. on_cpu: whether DreamerV3 runs on one.
    """
    given = {**entry.settings, **(lean or {})}
    if entry.agent == "tdmpc2":
        found = configuration.of_tdmpc2(str(entry.settings["task"]), entry.physics, given)
    else:
        given |= configuration.ON_CPU if on_cpu else {}
        found = configuration.of_dreamerv3(entry.environment, given)
        found |= {"run.steps": entry.agent_steps}
        # What the protocol gives is compared even if it does not decide, such as how often a smoke run reports.
        found |= {configuration.WORDS.get(key, key): value for key, value in given.items() if key != "size"}
    return found | {"seed": seed}


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


