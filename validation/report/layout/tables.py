"""What tables of several rooms share."""

from collections.abc import Sequence

from tdmpc2_lean.validation.report.document import Table

FOLD = 12  # rows; a longer table of side matters is folded


def with_reasons(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table without its last column, `why`, where that is empty."""
    if rows and columns[-1] == "why" and not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return Table(columns, rows)
