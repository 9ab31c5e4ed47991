"""How many CPU threads a run gets. Torch takes every core it sees, which is slower where cores are shared."""

import os
from pathlib import Path

from tdmpc2_lean.errors import UserError

MOST = 4  # small networks gain nothing beyond
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def chosen(word: str | None, environment: dict[str, str]) -> tuple[int, str]:
    """(number, why): what the user wrote, else OMP_NUM_THREADS, else the cores usable here, at most 4."""
    if word is not None:
        if not word.isascii() or not word.isdigit() or int(word) < 1:
            raise UserError(f"threads={word} is no positive whole number.", "write threads=1")
        return int(word), "threads= on the command line"
    set_outside = environment.get("OMP_NUM_THREADS", "")
    if set_outside.isascii() and set_outside.isdigit() and int(set_outside) > 0:
        return int(set_outside), "OMP_NUM_THREADS in the environment"
    cores = usable_cores()
    return min(cores, MOST), f"{cores} core(s) usable here, at most {MOST}"


def usable_cores() -> int:
    """Physical cores this process may use: its affinity, hyper-threads counted once, and its CPU quota."""
    if hasattr(os, "sched_getaffinity"):
        cores = len({core_of(cpu) for cpu in os.sched_getaffinity(0)})
    else:
        cores = os.cpu_count() or 1
    return max(1, min(cores, quota(Path("/sys/fs/cgroup/cpu.max"))))


def core_of(cpu: int) -> object:
    """What two hyper-threads of one core have in common."""
    try:
        return Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return cpu


def quota(path: Path) -> int:
    """Whole CPUs that a container's limit allows; a large number where there is no limit."""
    try:
        allowed, period = path.read_text().split()[:2]
        return max(1, int(allowed) // int(period))
    except (OSError, ValueError):
        return 1 << 20
