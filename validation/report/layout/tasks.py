"""Each window's tasks, a row each, and the runs that are not at their end."""

import math

from tdmpc2_lean.validation.judging import intervals
from tdmpc2_lean.validation.judging.criteria import UNJUDGED
from tdmpc2_lean.validation.judging.findings import Judgement
from tdmpc2_lean.validation.judging.verdicts import WindowResult
from tdmpc2_lean.validation.report.document import Block, Heading, Paragraph, Table, unmarked
from tdmpc2_lean.validation.report.layout.tables import FOLD, with_reasons
from tdmpc2_lean.validation.report.texts import NONE, count, number, spans, steps


def blocks(judgement: Judgement) -> list[Block]:
    found: list[Block] = []
    for window in judgement.verdict.windows:
        found.append(Heading(3, f"Tasks, {window.name} window: env steps {spans(window)}"))
        found += at_window(judgement, window)
    return found


def at_window(judgement: Judgement, window: WindowResult) -> list[Block]:
    """One window's tasks, but for those without a run, which are only named."""
    begun = {one.run.task for one in judgement.on_protocol}
    shown = [result for result in window.tasks if result.task in begun]
    absent = [result.task for result in window.tasks if result.task not in begun]
    seeds = sorted({one.run.seed for one in judgement.on_protocol})
    beside = default_scores(judgement, window.name)
    rows = []
    for result in shown:
        rows.append(
            [
                result.task,
                result.state,
                number(result.mean),
                *([beside.get(result.task, NONE)] if judgement.default else []),
                number(result.reference_mean),
                number(min(result.reference.values())),
                number(result.bar) + ("*" if result.vacuous else ""),
                number(result.mean - result.bar, sign=True),
                str(result.n),
                *(number(result.ours.get(seed, math.nan)) for seed in seeds),
                unmarked(result.why) if result.state == UNJUDGED else "",
            ]
        )
    columns = ["task", "state", "#ours", *(["#default (n)"] if judgement.default else []), "#reference", "#its lowest"]
    columns += ["#bar", "#above bar", "#n", *(f"#seed {seed}" for seed in seeds), "why"]
    found: list[Block] = [with_reasons(columns, rows)] if rows else []
    if any(result.vacuous for result in shown):
        found.append(Paragraph("* A bar of 0 or less, which no return of this suite can miss."))
    if absent:
        whose = "No run on protocol yet" if rows else "No run on protocol on any task"
        found.append(Paragraph(f"{whose}: {', '.join(absent)}."))
    return found


def default_scores(judgement: Judgement, window: str) -> dict[str, str]:
    """Task -> the default's mean with its n, at a window; for a variant's table."""
    runs = [one.run for one in judgement.default]
    names = [one.name for one in judgement.criterion.windows(judgement.criterion.tasks[0])]
    scores = intervals.scores_of_runs(judgement.criterion, runs, names.index(window))
    return {task: f"{number(math.fsum(some) / len(some))} ({len(some)})" for task, some in scores.items()}


def unfinished(judgement: Judgement) -> list[Block]:
    """The runs that have not come to their budget's end."""
    rows = []
    for one in judgement.on_protocol:
        budget = judgement.criterion.budget(one.run.task)
        if one.run.end < budget:
            state = unmarked(one.state or NONE)
            share = f"{100 * one.run.end / budget:.0f} %"
            rows.append([one.run.task, str(one.run.seed), state, steps(one.run.end), steps(budget), share])
    if not rows:
        return []
    columns = ["task", "#seed", "state in run.json", "#env steps", "#of", "#share"]
    folded = f"Show {count(len(rows), 'run')}" if len(rows) > FOLD else ""
    return [Heading(3, "Runs that are not at their end"), Table(columns, rows, folded)]
