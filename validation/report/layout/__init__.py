"""Lays the findings out as a document. A room for each part of it, in the order in which they are read:

    verdict.py       the answer, its caveats, what to know first; the windows; what a variant changes
    tasks.py         each window's tasks, and the runs that are not at their end
    curves.py        a picture for each task
    aggregates.py    over all tasks: mean, median, interquartile mean, performance profiles
    comparison.py    ours, the reference and the baselines in numbers; wall time
    off_protocol.py  the runs that are not judged, and why; faulty lines
    provenance.py    what the runs were made with
    method.py        the references, and how it is judged
    subjects.py      what the rooms ask of a run's record

Nothing is judged here; numbers are only written as texts.
"""

from tdmpc2_lean.validation.judging.findings import Judgement, Report
from tdmpc2_lean.validation.report.document import Block, Document, Heading
from tdmpc2_lean.validation.report.layout import (
    aggregates,
    comparison,
    curves,
    method,
    off_protocol,
    provenance,
    tasks,
    verdict,
)
from tdmpc2_lean.validation.report.layout.names import PictureNames

__all__ = ["document"]


def document(report: Report, **options: int | float) -> Document:
    """The whole report. options: of the bootstrap of curves and profiles (`resamples`, `confidence`, `seed`)."""
    title = "Validation report"
    alone = len(report.judgements) == 1
    if alone:
        title += f": {verdict.name(report.judgements[0])}"
    names = PictureNames()
    blocks: list[Block] = [Heading(1, title), *verdict.first(report)]
    for judgement in report.judgements:
        of = of_judgement(judgement, names, options)
        if alone:
            blocks += [Heading(2, block.text) if isinstance(block, Heading) else block for block in of]
        else:
            blocks += [*verdict.heading(judgement), *of]
    blocks += off_protocol.runs(report, names)
    blocks += off_protocol.lines(report)
    blocks += provenance.blocks(report)
    blocks += method.references_used(report)
    blocks += method.how_it_is_judged(report)
    return Document(title, blocks)


def of_judgement(judgement: Judgement, names: PictureNames, options: dict[str, int | float]) -> list[Block]:
    if not judgement.criterion.decides:  # the rest stands with the criterion that has all of the tasks
        return [*verdict.windows(judgement), *tasks.blocks(judgement), *comparison.blocks(judgement)]
    return [
        *verdict.changed(judgement),
        *verdict.windows(judgement),
        *tasks.blocks(judgement),
        *tasks.unfinished(judgement),
        *curves.blocks(judgement, names),
        *aggregates.blocks(judgement, names, options),
        *comparison.blocks(judgement),
        *comparison.wall_time(judgement),
    ]
