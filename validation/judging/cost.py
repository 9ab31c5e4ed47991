"""What a protocol's run takes: updates, memory, disk and time, from pieces that were measured or follow from types.

Estimates, for whoever plans a campaign; `python -m tdmpc2_lean.validation.judging.cost` prints the table that stands in
CHOICES.md. Where nobody has measured a piece, there is no figure.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tdmpc2_lean.references import tasks
from tdmpc2_lean.validation.judging import configuration, criteria, protocols
from tdmpc2_lean.validation.judging.agents import agent_named
from tdmpc2_lean.validation.judging.agents.agent import FLOAT
from tdmpc2_lean.validation.judging.entry import Protocol

# Weights, target networks and Adam's two moments, a float each for a parameter, of which a size's name says how many.
COPIES = 4
LINE = 1_000  # bytes of a line of curve.jsonl with its returns, at most


@dataclass(frozen=True)
class Cost:
    """Of one run. updates: of the gradient.      replay: bytes of the steps in the replay when it is full.

    disk: bytes, most of them the checkpoint, which holds the replay; twice, while one takes the place of another.
    gpu_hours: on the GPU of the measurement; None where nobody has measured.
    """

    updates: int
    replay: int
    disk: int
    gpu_hours: float | None


def cost(entry: Protocol) -> Cost:
    """What a run of the protocol takes."""
    agent, settings = agent_named(entry.agent), protocols.expected_settings(entry, entry.seeds[0])
    least, most = agent.updates_by(settings, entry.agent_steps)
    replay = step_bytes(entry) * agent.steps_in_replay(settings, entry.agent_steps)
    model = agent.parameters * FLOAT * COPIES
    disk = 2 * (replay + model) + LINE * entry.chunks
    return Cost((least + most) // 2, replay, disk, agent.gpu_hours(entry))


def step_bytes(entry: Protocol) -> int:
    """Bytes of a step in the replay."""
    settings = protocols.expected_settings(entry, entry.seeds[0])
    return agent_named(entry.agent).step_bytes(settings, *dimensions(entry))


def dimensions(entry: Protocol) -> tuple[int, int]:
    """(of the observation, of the action), by TD-MPC2's name of the same task of dm_control."""
    known = tasks.task(entry.task)
    names = [one.name for one in tasks.TDMPC2.values() if (one.domain, one.task) == (known.domain, known.task)]
    observation, action = configuration.stated("tdmpc2")["shapes"][names[0]]
    return observation, action


def table() -> str:
    """The costs of the criteria's protocols on dm_control, in markdown: one run, and all of a criterion's."""
    rows = ["| runs | number | updates | replay | disk | GPU |", "|---|---:|---:|---:|---:|---:|"]
    for criterion in criteria.criteria().values():
        if criterion.physics != "dm_control":
            continue
        entries = [protocols.protocol(protocols.name_of(criterion.agent, task)) for task in criterion.tasks]
        by_budget: dict[int, list[Protocol]] = {}
        for entry in entries:
            by_budget.setdefault(entry.env_steps, []).append(entry)
        for budget, some in sorted(by_budget.items()):
            costs = [cost(entry) for entry in some]
            first = f"{criterion.name}, one run of {budget / 1e6:g}M env steps"
            rows.append(_row(first, 1, costs, span=True))
        runs = [cost(entry) for entry in entries for _ in range(criteria.LEAST_SEEDS)]
        rows.append(_row(f"{criterion.name}, {criteria.LEAST_SEEDS} seeds of every task", len(runs), runs))
    return "\n".join(rows)


def _row(what: str, number: int, costs: list[Cost], span: bool = False) -> str:
    """span: from the least to the most of the costs; else their sum, but of the replay, which each run has its own."""
    hours = [one.gpu_hours for one in costs]
    known = None if None in hours else [hour for hour in hours if hour is not None]

    def said(values: Iterable[float], unit: float, name: str) -> str:
        values = [value / unit for value in values]
        if not span:
            return f"{sum(values):,.0f} {name}"
        low, high = min(values), max(values)
        digits = 2 if high < 10 else 0
        return f"{low:.{digits}f} {name}" if low == high else f"{low:.{digits}f} to {high:.{digits}f} {name}"

    return "| " + " | ".join(
        [
            what,
            f"{number}",
            said((one.updates for one in costs), 1e6, "M"),
            said((one.replay for one in costs), 1e9, "GB") if span else "as one run",
            said((one.disk for one in costs), 1e9, "GB"),
            "not measured" if known is None else said(known, 1, "h") if span else said(known, 24, "days"),
        ]
    ) + " |"


if __name__ == "__main__":
    print(table())
