"""Lays the findings out as a document: verdict, windows, tasks, curves, comparisons, provenance, and what was left out.

Nothing is judged here; numbers are only written as texts.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tdmpc2_lean import references
from tdmpc2_lean.validation.judging import criteria, intervals, provenance
from tdmpc2_lean.validation.judging.criteria import FAIL, INCOMPLETE, MARGIN, PASS, UNJUDGED, Window, WindowResult
from tdmpc2_lean.validation.judging.deviations import shown as written
from tdmpc2_lean.validation.judging.findings import DEFAULT, Judgement, Report, Subject
from tdmpc2_lean.validation.report import pictures
from tdmpc2_lean.validation.report.document import (
    Block,
    Document,
    Gallery,
    Heading,
    Listing,
    Paragraph,
    Picture,
    Table,
    Verdict,
    code,
    plain,
)

NONE = "–"
AGENTS = {"tdmpc2": "TD-MPC2", "dreamerv3": "DreamerV3"}
ANSWERS = {PASS: "meets its criteria", FAIL: "misses its criteria", INCOMPLETE: "cannot be judged yet"}
FOLD = 12  # rows; a longer table of side matters is folded


def document(report: Report) -> Document:
    """The whole report."""
    title = "Validation report"
    if len(report.judgements) == 1:
        title += f": {name(report.judgements[0])}"
    drawn = _Names()
    blocks: list[Block] = [Heading(1, title), Verdict(report.state, answer(report))]
    blocks += _notes(report)
    if len(report.judgements) > 1:
        blocks.append(_verdicts(report))
    for judgement in report.judgements:
        if len(report.judgements) > 1:
            blocks += [Heading(2, name(judgement)), Verdict(judgement.verdict.state, sentence(judgement))]
            blocks += _of_judgement(judgement, drawn)
        else:
            of = _of_judgement(judgement, drawn)
            blocks += [Heading(2, block.text) if isinstance(block, Heading) else block for block in of]
    blocks += _off_protocol(report, drawn)
    blocks += _lines(report)
    blocks += _provenance(report)
    blocks += _references(report)
    blocks += _how_it_is_judged(report)
    return Document(title, blocks)


def _of_judgement(judgement: Judgement, drawn: "_Names") -> list[Block]:
    if not judgement.criterion.decides:  # the rest stands with the criterion that has all of the tasks
        return [*_windows(judgement), *_tasks(judgement), *_comparison(judgement)]
    return [
        *_changed(judgement),
        *_windows(judgement),
        *_tasks(judgement),
        *_unfinished(judgement),
        *_curves(judgement, drawn),
        *_aggregate(judgement, drawn),
        *_comparison(judgement),
        *_wall_time(judgement),
    ]


def _changed(judgement: Judgement) -> list[Block]:
    """What a variant changed of the protocol's settings."""
    if not judgement.changed:
        return []
    rows = [[change.setting, *map(written, (change.default, change.variant))] for change in judgement.changed]
    return [Heading(3, "What the variant changes"), Table(["setting", "protocol", "variant"], rows)]


# The verdict


def name(judgement: Judgement) -> str:
    """What was judged, for a heading."""
    criterion = judgement.criterion
    text = f"{AGENTS[criterion.agent]} on {criterion.physics}"
    if not criterion.decides:
        text += f", the {len(criterion.tasks)} tasks of {criterion.name}"
    return text if judgement.variant == DEFAULT else plain(f"{text}, variant {judgement.variant}")


def answer(report: Report) -> str:
    """The verdict in a sentence or two."""
    if not report.deciding:
        return "No run is on a protocol that has criteria; nothing was judged."
    told = " ".join(sentence(judgement) for judgement in report.deciding)
    if all(judgement.variant != DEFAULT for judgement in report.deciding):
        told += " This is a verdict on a variant: no run is by the protocol's own settings."
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
    if judgement.criterion.caveat:
        told.append(judgement.criterion.caveat)
    return " ".join(told)


def _notes(report: Report) -> list[Block]:
    """What to know before reading on; nothing if there is nothing."""
    judged = sum(len(judgement.on_protocol) for judgement in report.judgements)
    notes = [f"{count(len(report.subjects), 'run')} read, {judged} of them on protocol."]
    if report.off_protocol:
        notes.append(f"{count(len(report.off_protocol), 'run')} off protocol, listed below and not judged.")
    if report.flags:
        flagged = {run for flag in report.flags for run in flag.runs}
        notes.append(f"{count(len(flagged), 'run')} flagged for what the lines come from: see provenance.")
    if report.complaints:
        files = {complaint.file for complaint in report.complaints}
        notes.append(f"{count(len(report.complaints), 'fault')} in {count(len(files), 'file')}: see faulty lines.")
    undecided = [judgement for judgement in report.judgements if judgement not in report.deciding]
    if undecided:
        listed = ", ".join(f"{name(judgement)}: {judgement.verdict.state}" for judgement in undecided)
        notes.append(f"Not part of the verdict: {listed}.")
    for judgement in report.judgements:
        criterion = judgement.criterion
        absent = len(criterion.tasks) - len({one.run.task for one in judgement.on_protocol})
        begun = sum(one.run.end < criterion.budget(one.run.task) for one in judgement.on_protocol)
        told = [
            f"{absent} of {count(len(criterion.tasks), 'task')} without a run on protocol" if absent else "",
            f"{count(begun, 'run')} not at the end" if begun else "",
        ]
        if any(told):
            notes.append(f"{name(judgement)}: {', '.join(filter(None, told))}.")
    few = {task.n for judgement in report.judgements for window in judgement.verdict.windows for task in window.tasks}
    if 1 in few:
        notes.append("Some tasks have a single seed so far: take their numbers as a hypothesis.")
    return [Listing(notes)]


def _verdicts(report: Report) -> Table:
    rows = [
        [
            name(judgement),
            judgement.verdict.state,
            *(window.state for window in judgement.verdict.windows),
            "yes" if judgement in report.deciding else "no, shown beside it",
        ]
        for judgement in report.judgements
    ]
    windows = [window.name for window in report.judgements[0].verdict.windows]
    return Table(["runs", "verdict", *windows, "part of the verdict above"], rows)


# Windows and tasks


def _windows(judgement: Judgement) -> list[Block]:
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
    blocks: list[Block] = [Heading(3, "Windows"), _table(columns, rows)]
    if any(window.judged < len(window.tasks) for window in judgement.verdict.windows):
        blocks.append(Paragraph("Means and medians are over the judged tasks, the reference's too."))
    return blocks


def _tasks(judgement: Judgement) -> list[Block]:
    blocks: list[Block] = []
    for window in judgement.verdict.windows:
        blocks.append(Heading(3, f"Tasks, {window.name} window: env steps {spans(window)}"))
        blocks += _tasks_of(judgement, window)
    return blocks


def _tasks_of(judgement: Judgement, window: WindowResult) -> list[Block]:
    """One window's tasks, but for those without a run, which are only named."""
    begun = {one.run.task for one in judgement.on_protocol}
    shown = [result for result in window.tasks if result.task in begun]
    absent = [result.task for result in window.tasks if result.task not in begun]
    seeds = sorted({one.run.seed for one in judgement.on_protocol})
    beside = _default_scores(judgement, window.name)
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
                result.why if result.state == UNJUDGED else "",
            ]
        )
    columns = ["task", "state", "#ours", *(["#default (n)"] if judgement.default else []), "#reference", "#its lowest"]
    columns += ["#bar", "#above bar", "#n", *(f"#seed {seed}" for seed in seeds), "why"]
    blocks: list[Block] = [_table(columns, rows)] if rows else []
    if any(result.vacuous for result in shown):
        blocks.append(Paragraph("* A bar of 0 or less, which no return of this suite can miss."))
    if absent:
        whose = "No run on protocol yet" if rows else "No run on protocol on any task"
        blocks.append(Paragraph(f"{whose}: {', '.join(absent)}."))
    return blocks


def _default_scores(judgement: Judgement, window: str) -> dict[str, str]:
    """Task -> the default's mean with its n, at a window; for a variant's table."""
    runs = [one.run for one in judgement.default]
    names = [one.name for one in judgement.criterion.windows(judgement.criterion.tasks[0])]
    scores = intervals.scores_of_runs(judgement.criterion, runs, names.index(window))
    return {task: f"{number(math.fsum(some) / len(some))} ({len(some)})" for task, some in scores.items()}


def _unfinished(judgement: Judgement) -> list[Block]:
    """The runs that have not come to their budget's end."""
    rows = []
    for one in judgement.on_protocol:
        budget = judgement.criterion.budget(one.run.task)
        if one.run.end < budget:
            share = f"{100 * one.run.end / budget:.0f} %"
            rows.append(
                [one.run.task, str(one.run.seed), plain(one.state or NONE), steps(one.run.end), steps(budget), share]
            )
    if not rows:
        return []
    columns = ["task", "#seed", "state in run.json", "#env steps", "#of", "#share"]
    folded = f"Show {count(len(rows), 'run')}" if len(rows) > FOLD else ""
    return [Heading(3, "Runs that are not at their end"), Table(columns, rows, folded)]


# Curves


class _Names:
    """Gives each picture a file name of its own."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def __call__(self, *words: str) -> str:
        stem = re.sub(r"[^A-Za-z0-9_.+-]+", "-", "-".join(words)).strip(".-")[:120] or "picture"
        name, number = stem, 1
        while name.lower() in self.taken:
            number += 1
            name = f"{stem}-{number}"
        self.taken.add(name.lower())
        return name


def _curves(judgement: Judgement, drawn: _Names) -> list[Block]:
    criterion = judgement.criterion
    reference = references.load(criterion.reference)
    by_task = _by_task(judgement.on_protocol)
    if not by_task:
        return []
    colours = seed_colours(criterion.seeds)
    default = _by_task(judgement.default)
    shown = []
    for task in criterion.tasks:
        if task not in by_task:
            continue
        states = {w.name: r.state for w in judgement.verdict.windows for r in w.tasks if r.task == task}
        bars = [
            pictures.Bar(result.window.above, result.window.upto, result.bar)
            for window in judgement.verdict.windows
            for result in window.tasks
            if result.task == task
        ]
        svg = pictures.task_curve(
            task,
            _points(by_task[task]),
            colours,
            band(reference, task),
            bars,
            criterion.budget(task),
            list(_points(default.get(task, [])).values()),
            mark(states),
        )
        told = ", ".join(f"{name} {state}" for name, state in states.items())
        alt = f"{task}: returns of our seeds over env steps, over the reference's band; {told}"
        shown.append(Picture(drawn(criterion.name, judgement.variant, task), svg, alt))
    seeds = sorted({one.run.seed for one in judgement.on_protocol})
    entries = [(colours[seed], f"ours, seed {seed}") for seed in seeds]
    entries += [("beside", "default's runs")] if judgement.default else []
    entries += [("band", "reference: lowest to highest seed, and mean"), ("bar", "bar"), ("window", "window")]
    words = f"Return over env steps, {count(len(shown), 'task')}."
    if criterion.physics == "playground":
        words += " The reference was measured on dm_control."
    key = Picture(drawn(criterion.name, judgement.variant, "key"), pictures.key(entries), _key_words(entries))
    return [Heading(3, "Curves"), Paragraph(words), key, Gallery(shown)]


def _key_words(entries: Sequence[tuple[str, str]]) -> str:
    return "Key: " + "; ".join(words for _, words in entries)


def _aggregate(judgement: Judgement, drawn: _Names) -> list[Block]:
    found = judgement.aggregate
    if not len(found.steps):
        return []
    end = min(judgement.criterion.budget(task) for task in judgement.criterion.tasks)
    svg = pictures.aggregate_curve(
        [
            ("mean over tasks", (found.steps, found.mean), (found.steps, found.reference_mean)),
            ("median over tasks", (found.steps, found.median), (found.steps, found.reference_median)),
        ],
        (found.steps, found.tasks),
        end,
    )
    words = (
        f"Blue: ours; grey: the reference. The mean and the median over tasks of the seeds' mean return, over env "
        f"steps up to {steps(end)}, which every task's budget has. At each point both are over the tasks of which a "
        f"run of ours has got there" + ("; the right panel counts them." if len(set(found.tasks)) > 1 else ".")
    )
    last = (
        f"At {steps(int(found.steps[-1]))}, over {count(int(found.tasks[-1]), 'task')}: mean {number(found.mean[-1])} "
        f"(reference {number(found.reference_mean[-1])}), median {number(found.median[-1])} "
        f"(reference {number(found.reference_median[-1])})."
    )
    picture = Picture(drawn(judgement.criterion.name, judgement.variant, "aggregate"), svg, "Aggregate curve. " + last)
    return [Heading(3, "Aggregate curve"), Paragraph(words), picture, Paragraph(last)]


def mark(states: Mapping[str, str]) -> str:
    """What stands beside a task's curve: FAIL with the window, if not at all of them."""
    failed = [window for window, state in states.items() if state == FAIL]
    return " ".join([FAIL, *(failed if len(failed) < len(states) else [])]) if failed else ""


def band(reference: references.Reference, task: str) -> pictures.Band:
    """A reference's curve over its seeds, at the env steps where any of them has a point."""
    curve = reference.curve(task)
    some = ~np.isnan(curve.returns).all(axis=0)
    returns = curve.returns[:, some]
    low, mean, high = np.nanmin(returns, axis=0), np.nanmean(returns, axis=0), np.nanmax(returns, axis=0)
    return pictures.Band(curve.steps[some], low, mean, high)


def seed_colours(seeds: Iterable[int]) -> dict[int, str]:
    return {seed: pictures.OURS[index % len(pictures.OURS)] for index, seed in enumerate(seeds)}


def _by_task(subjects: Iterable[Subject]) -> dict[str, list[Subject]]:
    found: dict[str, list[Subject]] = {}
    for one in subjects:
        found.setdefault(one.run.task, []).append(one)
    return found


def _points(subjects: Iterable[Subject]) -> dict[int, pictures.Points]:
    """Seed -> (env steps, returns) rising; of a seed that several runs have, all points."""
    found: dict[int, list[tuple[int, float]]] = {}
    for one in subjects:
        found.setdefault(one.run.seed, []).extend(zip(one.run.steps, one.run.values, strict=True))
    curves = {}
    for seed, points in found.items():
        finite = sorted(point for point in points if math.isfinite(point[1]))
        curves[seed] = tuple(np.array(column) for column in zip(*finite, strict=True)) if finite else ([], [])
    return curves


# Beside the verdict


def _comparison(judgement: Judgement) -> list[Block]:
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
                    _whose(row.name, judgement),
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
        "better): how probably a seed of ours scores above one of theirs on a task, meaned over tasks; 0.5 is even. "
        "Intervals by a bootstrap that draws seeds anew within each task. Theirs are over the tasks of which ours "
        "have a score; where a row has fewer of them, its IQM is not comparable with ours."
    )
    return [Heading(3, "Ours, the reference and the baselines"), _table(columns, rows), Paragraph(words)]


def _whose(row: str, judgement: Judgement) -> str:
    if row == judgement.criterion.agent:
        return "ours" if judgement.variant == DEFAULT else plain(f"ours, {judgement.variant}")
    if row == DEFAULT:
        return "ours, default"
    reference = references.load(row)
    return f"{reference.agent}, {'the reference' if row == judgement.criterion.reference else 'baseline'}"


def _wall_time(judgement: Judgement) -> list[Block]:
    """How long the runs took that are at their end, by device and budget; the default's beside a variant's."""
    of: dict[tuple[str, int, str], list[float]] = {}
    for row, subjects in ((judgement.criterion.agent, judgement.on_protocol), (DEFAULT, judgement.default)):
        for one in subjects:
            budget = judgement.criterion.budget(one.run.task)
            seconds = [point.seconds for point in one.folder.points if point.seconds is not None]
            if seconds and one.run.end >= budget:
                key = (_whose(row, judgement), budget, " and ".join(one.devices))
                of.setdefault(key, []).append(max(seconds))
    if not of:
        return []
    rows = [
        [whose, steps(budget), plain(device), str(len(some)), *map(duration, (np.median(some), min(some), max(some)))]
        for (whose, budget, device), some in of.items()
    ]
    columns = ["whose", "#env steps", "device", "#runs at their end", "#median", "#shortest", "#longest"]
    return [Heading(3, "Wall time"), Table(columns, rows)]


# What it stands on, and what was left out


def _provenance(report: Report) -> list[Block]:
    blocks: list[Block] = [Heading(2, "Provenance")]
    if report.flags:
        rows = [[plain(flag.what), str(len(flag.runs)), listed(flag.runs, report)] for flag in report.flags]
        blocks += [Heading(3, "Flags"), Table(["flag", "#runs", "which"], rows)]
    else:
        blocks.append(Paragraph("No flags: every run's lines come from one provenance, without local changes."))
    facts = [origin.facts for origin in report.origins]
    varying = provenance.differing(facts) if len(facts) > 1 else []
    if len(facts) > 1:
        rows = [
            [
                code(origin.name),
                *(plain(origin.facts.get(key, NONE)) for key in varying),
                str(origin.lines),
                str(len(origin.runs)),
                listed(origin.runs, report),
            ]
            for origin in report.origins
        ]
        columns = ["provenance", *map(plain, varying), "#lines", "#runs", "which"]
        blocks += [Heading(3, f"{len(facts)} provenances, and in what they differ"), Table(columns, rows)]
    common = sorted({key for one in facts for key in one} - set(varying))
    rows = [[plain(key), plain(facts[0][key])] for key in common]
    if rows:
        title = "Common to all" if varying else "All runs" if len(report.subjects) > 1 else "The run"
        blocks += [Heading(3, title), Table(["what", "value"], rows)]
    return blocks


def _off_protocol(report: Report, drawn: _Names) -> list[Block]:
    if not report.off_protocol:
        return []
    blocks: list[Block] = [
        Heading(2, "Off protocol"),
        Paragraph(
            "These runs are not judged: each differs from the registry in the keys named, or is of a protocol that is "
            "never judged."
        ),
    ]
    alike: dict[tuple, list[Subject]] = {}
    for one in report.off_protocol:
        protocol = one.protocol or NONE
        alike.setdefault((protocol, one.variant, one.deviations), []).append(one)
    rows = []
    for (protocol, _, deviations), runs in alike.items():
        folders = ", ".join(code(one.folder.name) for one in runs)
        first = [code(protocol), listed([one.label for one in runs], report), folders]
        for deviation in deviations:
            rows.append([*first, *map(plain, (deviation.key, deviation.expected, deviation.found))])
            first = ["", "", ""]
    blocks.append(Table(["protocol", "runs", "folders", "key", "registry", "run"], rows))
    rows = []
    for one in report.off_protocol:
        if one.folder.points:
            last = max(one.folder.points, key=lambda point: point.env_steps)
            points = str(len(one.folder.points))
            rows.append([plain(one.label), points, steps(last.env_steps), number(last.value), str(last.episodes)])
    if rows:
        folded = f"Show how far {count(len(rows), 'run')} got" if len(rows) > FOLD else ""
        blocks.append(Table(["run", "#points", "#env steps", "#last return", "#episodes in it"], rows, folded))
    shown = []
    for (protocol, variant, _), runs in alike.items():
        points = {seed: curve for seed, curve in _points(runs).items() if len(curve[0])}
        if points:
            end = max(float(curve[0][-1]) for curve in points.values())
            title = f"{runs[0].run.task or 'unknown task'}{'' if variant == DEFAULT else f' ({variant})'}"
            svg = pictures.task_curve(title, points, seed_colours(sorted(points)), None, [], end)
            alt = f"{title}: returns over env steps, seeds {', '.join(map(str, sorted(points)))}; not judged"
            shown.append(Picture(drawn("off-protocol", protocol, variant), svg, alt))
    if shown:
        blocks += [
            Paragraph("Their curves, a colour a seed, with no reference to hold them against."),
            Gallery(shown),
        ]
    return blocks


def _lines(report: Report) -> list[Block]:
    if not report.complaints:
        return []
    rows = [[code(fault.file), str(fault.line or NONE), plain(fault.what)] for fault in report.complaints]
    folded = f"Show {len(rows)} lines" if len(rows) > 4 * FOLD else ""
    words = "All other lines are reported as they stand. Where a judged window lacks a point for it, it is not judged."
    return [Heading(2, "Faulty lines"), Paragraph(words), Table(["file", "#line", "what"], rows, folded)]


def _references(report: Report) -> list[Block]:
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


def _how_it_is_judged(report: Report) -> list[Block]:
    if not report.judgements:
        return []
    share = 100 * criteria.SHARE_NUMERATOR // criteria.SHARE_DENOMINATOR
    weighted = [j for j in report.judgements if j.criterion.by_episodes]
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
            ]
        ),
    ]


# Texts


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
    return "; ".join([common, *(f"{text} for {_stems(of[text])}" for text in others)])


def _stems(tasks: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(task.split("-")[0] for task in tasks))


def count(amount: int, noun: str) -> str:
    return f"{amount} {noun}{'' if amount == 1 else 's'}"


def listed(labels: Sequence[str], report: Report) -> str:
    """Labels of runs, the seeds of one task together."""
    if len(labels) == len(report.subjects) > 1:
        return "all runs"
    of: dict[str, list[str]] = {}
    for label in labels:
        task, _, seed = label.rpartition(" seed ")
        of.setdefault(task, []).append(seed)
    return plain("; ".join(f"{task} {', '.join(seeds)}" for task, seeds in of.items()))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table without its last column (the reasons) where that is empty."""
    if rows and columns[-1] == "why" and not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return Table(columns, rows)
