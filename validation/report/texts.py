"""Numbers, env steps and names as the report writes them. Every room of `layout` asks here."""

import math
import re
from collections.abc import Iterable, Sequence

from tdmpc2_lean.validation.judging.verdicts import WindowResult
from tdmpc2_lean.validation.judging.window import Window

NONE = "–"
LONG_HASH = re.compile(r"\b[0-9a-f]{17,}\b")
SHORT_HASH = 12  # characters


def number(value: float, digits: int = 1, sign: bool = False) -> str:
    """A number as it is written in the report; a dash for NaN."""
    if math.isnan(value):
        return NONE
    text = f"{value:{'+' if sign else ''}.{digits}f}"
    return text.replace("-", "−")


def steps(value: int) -> str:
    """Env steps: 50K, 1.5M; exact where it is no whole hundred of them."""
    if value >= 1_000_000 and value % 10_000 == 0:
        return f"{value / 1e6:g}M"
    if value >= 1_000 and value % 100 == 0:
        return f"{value / 1e3:g}K"
    return str(value)


def duration(seconds: float) -> str:
    """Wall time in the unit that suits it."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"


def span(window: Window) -> str:
    return f"({steps(window.above)},\N{NO-BREAK SPACE}{steps(window.upto)}]"


def spans(window: WindowResult) -> str:
    """A window's intervals of env steps; which tasks' they are where tasks differ."""
    of: dict[str, list[str]] = {}
    for result in window.tasks:
        of.setdefault(span(result.window), []).append(result.task)
    common, *others = sorted(of, key=lambda text: -len(of[text]))
    return "; ".join([common, *(f"{text} for {domains(of[text])}" for text in others)])


def domains(tasks: Sequence[str]) -> str:
    """What the tasks' names begin with, each once."""
    return ", ".join(dict.fromkeys(task.split("-")[0] for task in tasks))


def count(amount: int, noun: str) -> str:
    return f"{amount} {noun}{'' if amount == 1 else 's'}"


def listed(labels: Iterable[str]) -> str:
    """Labels of runs, the seeds of one task together: `walker-run seed 1, 2; cup-catch seed 1`."""
    of: dict[str, list[str]] = {}
    for label in dict.fromkeys(labels):
        task, _, seed = label.rpartition(" seed ")
        of.setdefault(task, []).append(seed)
    return "; ".join(f"{task} seed {', '.join(seeds)}" if task else ", ".join(seeds) for task, seeds in of.items())


def short_hashes(text: str) -> str:
    """The text with its hashes cut to their first characters."""
    return LONG_HASH.sub(lambda found: found[0][:SHORT_HASH] + "…", text)
