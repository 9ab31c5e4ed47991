"""The report on a folder of runs: markdown and one HTML page with the same content; its exit code is the verdict's.

`tdmpc2-lean validate report` calls `write`. Reading and judging are validation.judging's; `contents.py` lays out what
it finds, `markdown.py` and `page.py` write it. Only this module touches the disk.
"""

import os
from pathlib import Path

from tdmpc2_lean.validation.judging import criteria, findings, reading
from tdmpc2_lean.validation.judging.findings import Report
from tdmpc2_lean.validation.judging.reading import CannotJudge
from tdmpc2_lean.validation.report import contents, markdown, page

MARKDOWN, PAGE, PICTURES = "report.md", "report.html", "report-pictures"

__all__ = ["MARKDOWN", "PAGE", "PICTURES", "Report", "write"]


def write(runs: Path, out: Path, criterion: str | None = None, **options: int | float) -> Report:
    """Report on the runs below a folder; writes report.md with report-pictures/*.svg, and report.html, into `out`.

    criterion: the name of the only one to judge by; by default all.
    options: of the bootstrap (`resamples`, `confidence`, `seed`).
    Returns the findings: `state` is PASS, FAIL or INCOMPLETE, `exit_code` 0, 1 or 2.
    CannotJudge if there is no run, or `out` cannot be written. The same runs give the same bytes.
    """
    known = None if criterion is None else {criterion: criteria.criterion(criterion)}
    found = findings.report(reading.read(Path(runs)), known, **options)
    save(found, Path(out))
    return found


def save(found: Report, out: Path) -> None:
    """Write the findings, each file in one step; pictures of an earlier report there are replaced."""
    laid_out = contents.document(found)
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / PICTURES).mkdir(exist_ok=True)
        for stale in (out / PICTURES).glob("*.svg"):
            stale.unlink()
        for picture in laid_out.pictures():
            (out / PICTURES / f"{picture.name}.svg").write_text(picture.svg, encoding="utf-8")
        _replace(out / MARKDOWN, markdown.markdown(laid_out, PICTURES))
        _replace(out / PAGE, page.page(laid_out))
    except OSError as error:
        raise CannotJudge(
            f"The report cannot be written to {out}: {error.strerror}", "name another folder with --out"
        ) from None


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)
