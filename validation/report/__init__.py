"""The report on a folder of runs: markdown and one HTML page with the same content; its exit code is the verdict's.

`tdmpc2-lean validate report` calls `write`. Reading and judging are validation.judging's; `layout` lays out what it
finds, `markdown.py`, `page.py` and `pictures.py` write it. Only this module touches the disk.
"""

from pathlib import Path

from tdmpc2_lean.files import atomic_write
from tdmpc2_lean.validation.judging import criteria, findings, reading
from tdmpc2_lean.validation.judging.findings import Report
from tdmpc2_lean.validation.judging.reading import CannotJudge
from tdmpc2_lean.validation.report import layout, markdown, page
from tdmpc2_lean.validation.report.document import Document

MARKDOWN, PAGE, PICTURES = "report.md", "report.html", "report-pictures"
KINDS = ("svg", "png", "csv")  # of each picture: to look at, to show elsewhere, its numbers

__all__ = ["KINDS", "MARKDOWN", "PAGE", "PICTURES", "Report", "write"]


def write(runs: Path, out: Path, criterion: str | None = None, **options: int | float) -> Report:
    """Report on the runs below a folder; writes report.md, report.html and report-pictures/NAME.{svg,png,csv} to `out`.

    criterion: the name of the only one to judge by; by default all.
    options: of the bootstrap (`resamples`, `confidence`, `seed`).
    Returns the findings: `state` is PASS, FAIL or INCOMPLETE, `exit_code` 0, 1 or 2.
    CannotJudge if there is no run, or `out` cannot be written. The same runs give the same bytes.
    """
    known = None if criterion is None else {criterion: criteria.criterion(criterion)}
    found = findings.report(reading.read(Path(runs)), known, **options)
    save(layout.document(found, **options), Path(out))
    return found


def save(laid_out: Document, out: Path) -> None:
    """Write the document, each file in one step; pictures of an earlier report there are replaced."""
    try:
        folder = out / PICTURES
        folder.mkdir(parents=True, exist_ok=True)
        for stale in [path for kind in KINDS for path in folder.glob(f"*.{kind}")]:
            stale.unlink()
        for picture in laid_out.pictures():
            (folder / f"{picture.name}.svg").write_bytes(encoded(picture.svg))
            (folder / f"{picture.name}.png").write_bytes(picture.png)
            (folder / f"{picture.name}.csv").write_bytes(encoded(picture.csv))
        atomic_write(out / MARKDOWN, encoded(markdown.markdown(laid_out, PICTURES)))
        atomic_write(out / PAGE, encoded(page.page(laid_out, PICTURES)))
    except OSError as error:
        raise CannotJudge(
            f"The report cannot be written to {out}: {error.strerror}", "name another folder with --out"
        ) from None


def encoded(text: str) -> bytes:
    """UTF-8; half a character, as a run.json may hold one, is written as its escape."""
    return text.encode("utf-8", "backslashreplace")
