"""Ours, the reference and the baselines in numbers, beside the verdict; and how long the runs took."""

import numpy as np

from tdmpc2_lean.validation.judging.findings import DEFAULT, Judgement
from tdmpc2_lean.validation.report.document import Block, Heading, Paragraph, Table, unmarked
from tdmpc2_lean.validation.report.layout import subjects
from tdmpc2_lean.validation.report.layout.tables import with_reasons
from tdmpc2_lean.validation.report.texts import duration, number, steps


def blocks(judgement: Judgement) -> list[Block]:
    if not judgement.rows:
        return []
    rows = []
    for window in dict.fromkeys(row.window for row in judgement.rows):
        against = [row for row in judgement.against_default if row.window == window]
        of_window = [row for row in judgement.rows if row.window == window]
        for row in [of_window[0], *against, *of_window[1:]]:
            better = row.improvement
            rows.append(
                [
                    window,
                    subjects.whose(row.name, judgement),
                    number(row.iqm.value),
                    f"{number(row.iqm.low)} to {number(row.iqm.high)}",
                    number(better.value, 2) if better else "",
                    f"{number(better.low, 2)} to {number(better.high, 2)}" if better else "",
                    str(row.iqm.tasks),
                    str(row.iqm.seeds),
                ]
            )
    columns = ["window", "whose", "#IQM", "#95 % interval", "#P(ours better)", "#95 % interval", "#tasks", "#seeds"]
    words = (
        "Not part of the verdict. IQM: the mean of the middle half of all seeds' scores, in return units. P(ours "
        "better): how probably a seed of ours scores above one of theirs on a task, averaged over tasks; 0.5 is even. "
        "Intervals by a bootstrap that draws seeds anew within each task. Theirs are over the tasks of which ours "
        "have a score; where a row has fewer of them, its IQM is not comparable with ours."
    )
    return [Heading(3, "Ours, the reference and the baselines"), with_reasons(columns, rows), Paragraph(words)]


def wall_time(judgement: Judgement) -> list[Block]:
    """How long the runs took that are at their end, by device and budget; the default's beside a variant's."""
    of: dict[tuple[str, int, str], list[float]] = {}
    for row, some in ((judgement.criterion.agent, judgement.on_protocol), (DEFAULT, judgement.default)):
        for one in some:
            budget = judgement.criterion.budget(one.run.task)
            seconds = [point.seconds for point in one.folder.points if point.seconds is not None]
            if seconds and one.run.end >= budget:
                key = (subjects.whose(row, judgement), budget, " and ".join(one.devices))
                of.setdefault(key, []).append(max(seconds))
    if not of:
        return []
    rows = [
        [
            whose,
            steps(budget),
            unmarked(device),
            str(len(some)),
            *map(duration, (np.median(some), min(some), max(some))),
        ]
        for (whose, budget, device), some in of.items()
    ]
    columns = ["whose", "#env steps", "device", "#runs at their end", "#median", "#shortest", "#longest"]
    return [Heading(3, "Wall time"), Table(columns, rows)]
