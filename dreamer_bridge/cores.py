"""Which CPU cores a run gets. XLA takes every core it may use, and its bits depend on how many those are."""

import os
import time
from pathlib import Path

from tdmpc2_lean.runs import threads

LOOK = 0.3  # seconds over which cores are watched


def chosen(number: int) -> list[int]:
    """The idlest `number` of the cores that this process may use, of which two hyper-threads are one; may be fewer.

    Empty where the system cannot bind a process to cores.
    """
    if not hasattr(os, "sched_getaffinity"):
        return []
    one_each: dict[object, int] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        one_each.setdefault(threads.core_of(cpu), cpu)
    cores = list(one_each.values())
    if number < len(cores):
        before = busy()
        time.sleep(LOOK)
        after = busy()
        cores.sort(key=lambda cpu: after.get(cpu, 0) - before.get(cpu, 0))
    return sorted(cores[:number])


def busy() -> dict[int, int]:
    """{core: ticks so far in which it did something}; empty where the system does not tell."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        name, *ticks = line.split()
        if name.startswith("cpu") and name[3:].isdigit():
            found[int(name[3:])] = sum(map(int, ticks)) - int(ticks[3]) - int(ticks[4])
    return found
