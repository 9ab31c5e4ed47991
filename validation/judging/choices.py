"""The figures of CHOICES.md; `python -m tdmpc2_lean.validation.judging.choices` writes them into the page."""

import re
from pathlib import Path

import numpy as np

from tdmpc2_lean.validation.judging import cost, criteria, verdicts

PAGE = Path(__file__).parent / "CHOICES.md"
BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def windows() -> str:
    """Where the windows lie, and how many points a run and the reference have in them."""
    rows = ["| agent, budget | window | env steps | points of a run |", "|---|---|---|---:|"]
    for name in ("tdmpc2-dm_control", "dreamerv3-dm_control"):
        criterion = criteria.criterion(name)
        for budget in sorted({criterion.budget(task) for task in criterion.tasks}):
            task = next(task for task in criterion.tasks if criterion.budget(task) == budget)
            for window in criterion.windows(task):
                points = (window.upto - window.above) // criterion.every
                rows.append(f"| {criterion.agent}, {budget / 1e6:g}M | {window.name} | {window} | {points} |")
    return "\n".join(rows)


def spread() -> str:
    """How far the seeds of the references themselves lie apart, task by task, in return units."""
    rows = ["| reference | window | median task | 90th percentile | largest |", "|---|---|---:|---:|---:|"]
    for name in ("tdmpc2-dm_control", "dreamerv3-dm_control"):
        criterion = criteria.criterion(name)
        for index, window in enumerate(criterion.windows(criterion.tasks[0])):
            apart = []
            for task in criterion.tasks:
                scores = verdicts.reference_scores(criterion.reference, task, criterion.windows(task)[index]).values()
                apart.append(max(scores) - min(scores))
            middle, most, largest = np.median(apart), np.percentile(apart, 90), max(apart)
            rows.append(f"| {criterion.reference} | {window.name} | {middle:.0f} | {most:.0f} | {largest:.0f} |")
    return "\n".join(rows)


GENERATED = {"windows": windows, "spread": spread, "cost": cost.table}


def page(text: str) -> str:
    """The page with its figures as they are now."""
    return BLOCK.sub(lambda found: found[1] + GENERATED[found[2]]() + "\n" + found[3], text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
