"""What the runs were made with: what to look at twice, in what they differ, and, folded, what is common to all."""

from collections.abc import Sequence

from tdmpc2_lean.validation.judging import provenance
from tdmpc2_lean.validation.judging.findings import Report
from tdmpc2_lean.validation.judging.provenance import Origin
from tdmpc2_lean.validation.report.document import Block, Heading, Paragraph, Table, code, unmarked
from tdmpc2_lean.validation.report.layout.subjects import named
from tdmpc2_lean.validation.report.layout.tables import FOLD
from tdmpc2_lean.validation.report.texts import NONE, count, short_hashes

SIDE_BY_SIDE = 4  # provenances; of more, each value has a row


def blocks(report: Report) -> list[Block]:
    found: list[Block] = [Heading(2, "Provenance")]
    if report.flags:
        rows = [[unmarked(flag.what), str(len(flag.runs)), named(flag.runs, report)] for flag in report.flags]
        found += [Heading(3, "Flags"), Table(["flag", "#runs", "which"], rows)]
    else:
        found.append(Paragraph("No flags: every run's lines come from one provenance, without local changes."))
    facts = [origin.facts for origin in report.origins]
    varying = provenance.differing(facts) if len(facts) > 1 else []
    if len(facts) > 1:
        rows = [
            [code(origin.name), str(origin.lines), str(len(origin.runs)), named(origin.runs, report)]
            for origin in report.origins
        ]
        found.append(Heading(3, f"{len(facts)} provenances, and in what they differ"))
        found.append(Table(["provenance", "#lines", "#runs", "which"], rows))
        found.append(differences(report.origins, varying))
    common = sorted({key for one in facts for key in one} - set(varying))
    rows = [[unmarked(key), shown(facts[0][key])] for key in common]
    if rows:
        title = "Common to all" if varying else "All runs" if len(report.subjects) > 1 else "The run"
        folded = f"Show {count(len(rows), 'fact')}" if len(rows) > FOLD else ""
        found += [Heading(3, title), Table(["what", "value"], rows, folded)]
    if any(shown(value) != unmarked(value) for one in facts for value in one.values()):
        found.append(Paragraph("Hashes are cut; each run's run.json has them in full."))
    return found


def differences(origins: Sequence[Origin], varying: Sequence[str]) -> Table:
    """In what they differ, whatever their number, in a few columns: a row a fact, or a row a value of it."""
    if len(origins) <= SIDE_BY_SIDE:
        rows = [[unmarked(key), *(shown(one.facts.get(key, NONE)) for one in origins)] for key in varying]
        columns = ["what", *(code(one.name) for one in origins)]
    else:
        rows = []
        for key in varying:
            first = unmarked(key)
            for value in sorted({one.facts.get(key, NONE) for one in origins}):
                having = ", ".join(code(one.name) for one in origins if one.facts.get(key, NONE) == value)
                rows.append([first, shown(value), having])
                first = ""
        columns = ["what", "value", "provenances"]
    return Table(columns, rows, f"Show {count(len(rows), 'difference')}" if len(rows) > 2 * FOLD else "")


def shown(value: str) -> str:
    return unmarked(short_hashes(value))
