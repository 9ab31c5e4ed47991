"""The references that bars and baselines come from, and the rules of the verdict."""

from tdmpc2_lean import references
from tdmpc2_lean.validation.judging import criteria
from tdmpc2_lean.validation.judging.criteria import FAIL, INCOMPLETE, MARGIN, PASS
from tdmpc2_lean.validation.judging.findings import Report
from tdmpc2_lean.validation.report.document import Block, Heading, Listing, Table


def references_used(report: Report) -> list[Block]:
    of = [judgement.criterion for judgement in report.judgements]
    names = dict.fromkeys(name for criterion in of for name in (criterion.reference, *criterion.baselines))
    if not names:
        return []
    rows = []
    notes = []
    for one in map(references.load, names):
        source = f"{one.repository.removeprefix('https://')} at `{one.commit[:12]}`"
        rows.append([one.title, source, f"{one.licence}, {one.copyright}", one.binning])
        notes += [f"{one.title}: {note}" for note in one.notes]
    table = Table(["reference", "source", "licence", "points"], rows)
    return [Heading(2, "References"), table, *([Listing(notes)] if notes else [])]


def how_it_is_judged(report: Report) -> list[Block]:
    if not report.judgements:
        return []
    share = 100 * criteria.SHARE_NUMERATOR // criteria.SHARE_DENOMINATOR
    weighted = [judgement for judgement in report.judgements if judgement.criterion.by_episodes]
    return [
        Heading(2, "How it is judged"),
        Listing(
            [
                "A seed's score is the average of its points in a window, open below and closed above"
                + (", a point weighing as much as it has episodes." if weighted else "."),
                f"A task passes if our mean over seeds is at least the reference's lowest seed minus {MARGIN:g}.",
                f"A window passes if at least {share} % of the tasks pass, and our mean and our median over tasks of "
                f"the seed means are each at least the reference's minus {MARGIN:g}.",
                f"A task is judged if its runs are on protocol, reached the window's end and have at least "
                f"{criteria.LEAST_SEEDS} seeds, the protocol's first ones. A window with a task that is not judged is "
                f"{INCOMPLETE}.",
                f"{FAIL} if any window fails, else {INCOMPLETE} if any is, else {PASS}. Exit codes: "
                + ", ".join(f"{code} {state}" for state, code in criteria.EXIT_CODES.items())
                + ".",
                "Why these windows, margins and shares: `validation/judging/CHOICES.md`.",
            ]
        ),
    ]
