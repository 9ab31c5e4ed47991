"""The runs that are not judged, in what each deviates, and how far they got; and the lines that could not be used."""

from collections.abc import Mapping

from tdmpc2_lean.upstreams.registry import UPSTREAMS
from tdmpc2_lean.validation.judging.findings import DEFAULT, Report
from tdmpc2_lean.validation.judging.subjects import Subject
from tdmpc2_lean.validation.report.document import Block, Gallery, Heading, Paragraph, Picture, Table, code, unmarked
from tdmpc2_lean.validation.report.drawing import Look, keys_of
from tdmpc2_lean.validation.report.layout import curves, subjects
from tdmpc2_lean.validation.report.layout.names import PictureNames
from tdmpc2_lean.validation.report.layout.tables import FOLD
from tdmpc2_lean.validation.report.texts import NONE, count, listed, number, steps


def runs(report: Report, names: PictureNames) -> list[Block]:
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
        alike.setdefault((one.protocol or NONE, one.variant, one.deviations), []).append(one)
    rows = []
    for (protocol, _, deviations), some in alike.items():
        folders = ", ".join(code(one.folder.name) for one in some)
        first = [code(protocol), unmarked(listed(one.label for one in some)), folders]
        for deviation in deviations:
            rows.append([*first, *map(unmarked, (deviation.key, deviation.expected, deviation.found))])
            first = ["", "", ""]
    blocks.append(Table(["protocol", "runs", "folders", "key", "registry", "run"], rows))
    rows = []
    for one in report.off_protocol:
        if one.folder.points:
            last = max(one.folder.points, key=lambda point: point.env_steps)
            points = str(len(one.folder.points))
            rows.append([unmarked(one.label), points, steps(last.env_steps), number(last.value), str(last.episodes)])
    if rows:
        folded = f"Show how far {count(len(rows), 'run')} got" if len(rows) > FOLD else ""
        blocks.append(Table(["run", "#points", "#env steps", "#last return", "#episodes in it"], rows, folded))
    looks = curves.seed_looks(sorted({one.run.seed for one in report.off_protocol}))
    shown = [picture for key, some in alike.items() if (picture := pictured(*key[:2], some, names, looks))]
    if shown:
        words = "Their curves, a colour a seed, with no reference to hold them against."
        blocks += [Paragraph(words), Gallery(shown, keys_of(picture.drawing for picture in shown))]
    return blocks


def pictured(
    protocol: str, variant: str, some: list[Subject], names: PictureNames, looks: Mapping[int, Look]
) -> Picture | None:
    """The curves of runs of one protocol and variant; None where there is no point."""
    first = some[0]
    known = UPSTREAMS.get(subjects.agent_of(first))
    points = subjects.points_by_seed(some, subjects.chunk_of(first), known is not None and known.averaged)
    points = {seed: curve for seed, curve in points.items() if curve[0]}
    if not points:
        return None
    agent = known.title if known is not None else ""
    title = f"{agent} {first.run.task or protocol}{'' if variant == DEFAULT else f' ({variant})'}".strip()
    alt = f"{title}: returns over env steps, seeds {', '.join(map(str, sorted(points)))}; not judged"
    return Picture(names("off-protocol", protocol, variant), curves.off_protocol(title, points, looks), unmarked(alt))


def lines(report: Report) -> list[Block]:
    if not report.complaints:
        return []
    rows = [[code(fault.file), str(fault.line or NONE), unmarked(fault.what)] for fault in report.complaints]
    folded = f"Show {len(rows)} lines" if len(rows) > 4 * FOLD else ""
    words = "All other lines are reported as they stand. Where a judged window lacks a point for it, it is not judged."
    return [Heading(2, "Faulty lines"), Paragraph(words), Table(["file", "#line", "what"], rows, folded)]
