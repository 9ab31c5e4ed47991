"""Timing of calls whose work may go on elsewhere when they return, in turn, so that a machine's moods hit all sides.

For torch the clock is that of `torch.utils.benchmark`, which waits for the accelerator before it is read. For JAX,
whose calls return before they are computed, the timed call waits for its results itself, and any clock will do.
"""

import dataclasses
import time
from collections.abc import Callable, Mapping

BLOCK = 0.2  # seconds: enough for the clock and the interpreter not to count


@dataclasses.dataclass(frozen=True)
class Timing:
    """seconds: of one call, a value per round, the mean of its block. calls: how many a block has."""

    seconds: list[float]
    calls: int


def torch_clock() -> float:
    """Seconds, read when all that torch was asked to compute is computed."""
    from torch.utils.benchmark import timer

    return timer()


def timed(call: Callable[[], object], calls: int = 1, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds that a number of calls took, one after another."""
    start = clock()
    for _ in range(calls):
        call()
    return clock() - start


def in_turn(
    sides: Mapping[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = torch_clock,
    block: float = BLOCK,
) -> dict[str, Timing]:
    """Times each side once per round, in the order given, after two calls of each to warm up.

    block: seconds; several calls are timed at once where the second call of a side was shorter. 0: always one.
    """
    for call in sides.values():
        call()
    calls = {name: max(1, round(block / max(timed(call, 1, clock), 1e-6))) for name, call in sides.items()}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, call in sides.items():
            seconds[name].append(timed(call, calls[name], clock) / calls[name])
    return {name: Timing(seconds[name], calls[name]) for name in sides}
