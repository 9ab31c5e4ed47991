"""Tables of commands: fitted to a terminal, and plain lines of the same text everywhere else."""

import shutil
import sys
from collections.abc import Collection, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = (), width: int | None = None
) -> str:
    """Lines of text: a heading, then one per row, columns two spaces apart, without colour or spaces at the end.

    right: columns whose cells stand at the right. width: columns of text into which to fit, by breaking the last
    column's cells; None: as long as a row may be, on one line each.
    """
    made = Table(box=None, pad_edge=False, padding=(0, 1, 0, 1), collapse_padding=False, show_edge=False)
    for number, name in enumerate(columns):
        last = number == len(columns) - 1
        made.add_column(
            Text(name), justify="right" if name in right else "left", no_wrap=width is None or not last, overflow="fold"
        )
    for row in rows:
        made.add_row(*map(Text, row))
    console = Console(width=width or 1_000_000, color_system=None, force_terminal=False, legacy_windows=False)
    with console.capture() as captured:
        console.print(made)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def terminal_width() -> int | None:
    """Columns of the terminal to which this process prints; None where it prints to something else."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
