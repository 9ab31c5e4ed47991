"""What in a run's curve no run of its protocol can have written. A run with any of it is named and never judged.

Each fault is one that a slip of the hand, a script or a broken disk leaves in a file; none of them proves a forgery,
and a forger who knows this page passes it.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tdmpc2_lean.runs.record import RunRecord
from tdmpc2_lean.validation.judging.agents import agent_named
from tdmpc2_lean.validation.judging.entry import EPISODE_ENV_STEPS, Protocol
from tdmpc2_lean.validation.judging.reading import Point

# Rewards of dm_control's tasks, and of those that TD-MPC2 adds, are in [0, 1] at each of an episode's 1000 env steps.
LOWEST, HIGHEST = 0.0, 1000.0
ROUNDING = 0.1  # return units: sums of a thousand rewards in float32
MEAN_ROUNDING = 0.01  # return units: a mean of a few such sums
ALIKE_POINTS = 3  # so many different values that are equal in two curves, and half of all, make one a copy


@dataclass(frozen=True)
class CurveFault:
    """line: of curve.jsonl, 0 for the whole curve.      what: is wrong, in words."""

    line: int
    what: str

    def __str__(self) -> str:
        return f"line {self.line} {self.what}" if self.line else self.what


def impossible(value: float) -> bool:
    """Whether no episode, and no mean of some, can have this return. NaN is no return and not impossible."""
    return not math.isnan(value) and not LOWEST - ROUNDING <= value <= HIGHEST + ROUNDING


def faults_of_values(points: Iterable[Point]) -> Iterator[CurveFault]:
    """Returns that no episode can have, means that are not those of their episodes: whatever the protocol."""
    for point in points:
        if impossible(point.value):
            yield CurveFault(point.line, f"has a return of {point.value:g}, and they lie between 0 and 1000")
        returns = point.returns
        if returns is None:
            continue
        outside = [one for one in returns if impossible(one)]
        if outside and not impossible(point.value):
            yield CurveFault(point.line, f"has an episode's return of {outside[0]:g}, and they lie between 0 and 1000")
        if len(returns) != point.episodes:
            yield CurveFault(point.line, f"has {len(returns)} returns of {point.episodes} episodes")
        elif returns and not outside and not math.isnan(point.value):
            mean = math.fsum(returns) / len(returns)
            if abs(mean - point.value) > MEAN_ROUNDING:
                yield CurveFault(point.line, f"has the value {point.value:g}, and the mean of its returns is {mean:g}")


def faults(
    entry: Protocol, settings: Mapping[str, Any], record: RunRecord, points: Sequence[Point]
) -> list[CurveFault]:
    """All that no run of the protocol can have written.

    settings: of the run, as its protocol expects them.      points: in any order.
    """
    found = list(faults_of_values(points))
    if record.state == "failed":
        found.append(CurveFault(0, f"the run failed: {_first_line(record.error)}"))
    for point in points:
        found += [CurveFault(point.line, what) for what in _of_point(entry, settings, point)]
    found += _of_grid(entry, points)
    if agent_named(entry.agent).by_episodes:
        found += _of_episodes(entry, settings, points, len(record.starts))
    return sorted(set(found), key=lambda fault: (fault.line, fault.what))


def _of_point(entry: Protocol, settings: Mapping[str, Any], point: Point) -> Iterator[str]:
    if point.env_steps != point.agent_steps * entry.action_repeat:
        repeat = entry.action_repeat
        yield f"has {point.env_steps} env steps of {point.agent_steps} agent steps at action repeat {repeat}"
    if point.agent_steps % entry.chunk or not point.complete:
        yield f"is at {point.agent_steps} agent steps, which is no end of a chunk of {entry.chunk}"
    elif point.chunk != point.agent_steps // entry.chunk:
        yield f"calls itself chunk {point.chunk}, and is the end of chunk {point.agent_steps // entry.chunk}"
    if point.agent_steps > entry.agent_steps:
        yield f"is at {point.agent_steps} agent steps, beyond the budget of {entry.agent_steps}"
    if entry.episodes and point.episodes != entry.episodes:
        yield f"has {point.episodes} episodes, and an evaluation has {entry.episodes}"
    if point.returns is None:
        yield "does not say the return of each episode"
    least, most = agent_named(entry.agent).updates_by(settings, point.agent_steps)
    if point.updates is None:
        yield "does not say how many updates were made"
    elif not least <= point.updates <= most:
        due = f"{least}" if least == most else f"{least} to {most}"
        yield f"has {point.updates} updates at {point.agent_steps} agent steps, where {due} are due"


def _of_episodes(
    entry: Protocol, settings: Mapping[str, Any], points: Sequence[Point], starts: int
) -> Iterator[CurveFault]:
    """Weights that cannot be: more episodes than so many steps hold, or fewer than they must.

    At each start after the first, environments that cannot be brought back lose the episode that they were in.
    """
    agent = agent_named(entry.agent)
    envs = agent.environments(settings)
    total, before = 0, 0
    episode = EPISODE_ENV_STEPS // entry.action_repeat
    for point in sorted({(p.agent_steps, p.episodes): p for p in points}.values(), key=lambda p: p.agent_steps):
        total += point.episodes
        told = f"makes {total} episodes by {point.agent_steps} agent steps"
        most = envs * (-(-point.agent_steps // envs) // episode)
        in_chunk = envs * ((point.agent_steps - before) // envs // episode + 1)
        if total > most:
            yield CurveFault(point.line, f"{told}, which hold {most}")
            return
        if point.episodes > in_chunk:
            yield CurveFault(point.line, f"has {point.episodes} episodes, and so many steps hold {in_chunk}")
            return
        least = agent.episodes_by(settings, point.agent_steps, entry.action_repeat) - envs * (starts - 1)
        if total < least:
            yield CurveFault(point.line, f"{told}, in which {least} end")
            return
        before = point.agent_steps


def _of_grid(entry: Protocol, points: Sequence[Point]) -> list[CurveFault]:
    """Chunks that have no line, before one that has."""
    there = {point.agent_steps // entry.chunk for point in points if point.agent_steps % entry.chunk == 0}
    last = min(max(there, default=0), entry.chunks)
    missing = [number for number in range(1, last + 1) if number not in there]
    if not missing:
        return []
    first = missing[0] * entry.chunk * entry.action_repeat
    return [CurveFault(0, f"there is no line of {len(missing)} of {last} chunks, first at {first} env steps")]


def copies(curves: Sequence[Sequence[Point]]) -> dict[tuple[int, int], tuple[int, int]]:
    """Which curves say the same as another: {(index, index): (equal values, of how many)}.

    Two runs of a protocol differ from their first chunk on. A value that stands at many points, as that of a solved
    task does, counts once.
    """
    at: dict[tuple[int, float], list[int]] = {}
    values: list[dict[int, float]] = []
    for index, points in enumerate(curves):
        values.append({point.env_steps: point.value for point in points if not math.isnan(point.value)})
        for place in values[index].items():
            at.setdefault(place, []).append(index)
    equal: dict[tuple[int, int], set[float]] = {}
    for (_, value), those in at.items():
        for place, first in enumerate(those):
            for second in those[place + 1 :]:
                equal.setdefault((first, second), set()).add(value)
    found = {}
    for (first, second), same in equal.items():
        shared = values[first].keys() & values[second].keys()
        of = len({values[first][step] for step in shared})
        if len(same) >= ALIKE_POINTS and 2 * len(same) >= of:
            found[first, second] = (len(same), of)
    return found


def _first_line(text: str | None) -> str:
    lines = (text or "it does not say why").splitlines()
    return lines[0][:120] if lines else "it does not say why"
