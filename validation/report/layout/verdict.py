"""The answer first, with what to know beside it; then the windows that it comes from, and what a variant changes."""

from tdmpc2_lean.upstreams.registry import UPSTREAMS
from tdmpc2_lean.validation.judging import deviations
from tdmpc2_lean.validation.judging.criteria import FAIL, INCOMPLETE, MARGIN, PASS
from tdmpc2_lean.validation.judging.findings import DEFAULT, Judgement, Report
from tdmpc2_lean.validation.report.document import (
    Answer,
    Block,
    Heading,
    Listing,
    Paragraph,
    Table,
    code,
    unmarked,
)
from tdmpc2_lean.validation.report.layout.tables import with_reasons
from tdmpc2_lean.validation.report.texts import count, number, spans

ANSWERS = {PASS: "meets its criteria", FAIL: "misses its criteria", INCOMPLETE: "cannot be judged yet"}


def first(report: Report) -> list[Block]:
    """What stands at the top of the report."""
    caveats = dict.fromkeys(caveat for judgement in report.deciding for caveat in caveats_of(judgement))
    blocks: list[Block] = [Answer(report.state, answer(report), list(caveats)), Listing(notes(report))]
    if len(report.judgements) > 1:
        blocks.append(verdicts(report))
    return blocks


def heading(judgement: Judgement) -> list[Block]:
    """What stands at the top of one of several judgements."""
    return [
        Heading(2, name(judgement)),
        Answer(judgement.verdict.state, sentence(judgement), caveats_of(judgement)),
    ]


def name(judgement: Judgement) -> str:
    """What was judged, for a heading."""
    criterion = judgement.criterion
    text = f"{UPSTREAMS[criterion.agent].title} on {criterion.physics}"
    if not criterion.decides:
        text += f", the {len(criterion.tasks)} tasks of {criterion.name}"
    return text if judgement.variant == DEFAULT else unmarked(f"{text}, variant {judgement.variant}")


def answer(report: Report) -> str:
    """The verdict in a sentence or two."""
    if not report.deciding:
        return "No run is on a protocol that has criteria; nothing was judged."
    told = " ".join(sentence(judgement) for judgement in report.deciding)
    if all(judgement.variant != DEFAULT for judgement in report.deciding):
        told += " This is a verdict on a variant: no run is by the protocol's own settings."
    if report.unread:
        told += f" {count(len(report.unread), 'run')} cannot be read, and none may be left out: see faulty lines."
    return told


def sentence(judgement: Judgement) -> str:
    """What one verdict is and comes from."""
    told = [f"{name(judgement)} {ANSWERS[judgement.verdict.state]}."]
    for window in judgement.verdict.windows:
        if window.why:
            told.append(f"{window.name.capitalize()} window: {'; '.join(window.why)}.")
        else:
            told.append(
                f"{window.name.capitalize()} window: {window.passed} of {len(window.tasks)} tasks pass "
                f"({window.needed} needed), mean {number(window.mean)} (bar {number(window.reference_mean - MARGIN)}), "
                f"median {number(window.median)} (bar {number(window.reference_median - MARGIN)})."
            )
    return " ".join(told)


def caveats_of(judgement: Judgement) -> list[str]:
    """What has to be known to read the verdict."""
    return [judgement.criterion.caveat] if judgement.criterion.caveat else []


def notes(report: Report) -> list[str]:
    """What to know before reading on."""
    judged = sum(len(judgement.on_protocol) for judgement in report.judgements)
    told = [f"{count(len(report.subjects), 'run')} read, {judged} of them on protocol."]
    if report.off_protocol:
        told.append(f"{count(len(report.off_protocol), 'run')} off protocol, listed below and not judged.")
    if report.flags:
        flagged = {run for flag in report.flags for run in flag.runs}
        told.append(f"{count(len(flagged), 'run')} flagged for what the lines come from: see provenance.")
    if report.complaints:
        files = {complaint.file for complaint in report.complaints}
        told.append(f"{count(len(report.complaints), 'fault')} in {count(len(files), 'file')}: see faulty lines.")
    undecided = [judgement for judgement in report.judgements if judgement not in report.deciding]
    if undecided:
        others = ", ".join(f"{name(judgement)}: {judgement.verdict.state}" for judgement in undecided)
        told.append(f"Not part of the verdict: {others}.")
    for judgement in report.judgements:
        criterion = judgement.criterion
        absent = len(criterion.tasks) - len({one.run.task for one in judgement.on_protocol})
        begun = sum(one.run.end < criterion.budget(one.run.task) for one in judgement.on_protocol)
        lacking = [
            f"{absent} of {count(len(criterion.tasks), 'task')} without a run on protocol" if absent else "",
            f"{count(begun, 'run')} not at the end" if begun else "",
        ]
        if any(lacking):
            told.append(f"{name(judgement)}: {', '.join(filter(None, lacking))}.")
    if any(
        task.n == 1 for judgement in report.judgements for window in judgement.verdict.windows for task in window.tasks
    ):
        told.append("Some tasks have a single seed so far: take their numbers as a hypothesis.")
    return told


def verdicts(report: Report) -> Table:
    """Of several judgements, a row each."""
    rows = [
        [
            name(judgement),
            judgement.verdict.state,
            *(window.state for window in judgement.verdict.windows),
            "yes" if judgement in report.deciding else "no, shown beside it",
        ]
        for judgement in report.judgements
    ]
    names = [window.name for window in report.judgements[0].verdict.windows]
    return Table(["runs", "verdict", *names, "part of the verdict above"], rows)


def windows(judgement: Judgement) -> list[Block]:
    rows = []
    for window in judgement.verdict.windows:
        rows.append(
            [
                window.name,
                spans(window),
                window.state,
                f"{window.judged} of {len(window.tasks)}",
                f"{window.passed}",
                f"{window.needed}",
                number(window.mean),
                number(window.reference_mean),
                number(window.reference_mean - MARGIN),
                number(window.median),
                number(window.reference_median),
                number(window.reference_median - MARGIN),
                "; ".join(window.why),
            ]
        )
    columns = ["window", "env steps", "state", "#judged", "#pass", "#needed"]
    columns += ["#mean", "#reference", "#bar", "#median", "#reference", "#bar", "why"]
    blocks: list[Block] = [Heading(3, "Windows"), with_reasons(columns, rows)]
    if any(window.judged < len(window.tasks) for window in judgement.verdict.windows):
        blocks.append(Paragraph("Means and medians are over the judged tasks, the reference's too."))
    return blocks


def changed(judgement: Judgement) -> list[Block]:
    """What a variant's presets change of the protocol's settings."""
    if not judgement.changed:
        return []
    rows = [
        [code(change.setting), *(unmarked(deviations.shown(side)) for side in (change.default, change.variant))]
        for change in judgement.changed
    ]
    return [Heading(3, "What the variant changes"), Table(["setting", "protocol", "variant"], rows)]
