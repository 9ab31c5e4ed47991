"""A report as one HTML page that needs nothing else: style and pictures stand in it, and it loads nothing."""

import base64
import html
import re
from collections.abc import Mapping, Sequence
from itertools import repeat

from tdmpc2_lean.validation.report import document as parts

# Cells that hold nothing but a state are coloured by it; the word stays for those who do not see colours.
STATES: Mapping[str, str] = {
    "PASS": "good",
    "FAIL": "bad",
    "INCOMPLETE": "open",
    "UNJUDGED": "open",
}

SHORT = 26  # characters; a cell of no more is not broken

STYLE = """
:root { color-scheme: light; --ink: #1c2126; --soft: #5c6670; --line: #dfe3e7; --ground: #fff; --shade: #f5f7f8;
  --good: #1a7f4b; --good-ground: #e3f4ea; --bad: #b3261e; --bad-ground: #fbe7e5; --open: #8a5a00;
  --open-ground: #fdf1d8; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 32px 24px 80px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 16px; }
h2 { font-size: 20px; margin: 48px 0 8px; padding-top: 14px; border-top: 2px solid var(--ink); }
h3 { font-size: 16px; margin: 28px 0 6px; }
p, ul { max-width: 78ch; margin: 8px 0; }
ul { padding-left: 20px; }
code { font: 0.9em ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
.verdict { display: flex; gap: 18px; align-items: center; padding: 14px 18px; border-radius: 8px; margin: 12px 0; }
.verdict strong { font-size: 24px; letter-spacing: 0.02em; }
.verdict p { margin: 0; color: var(--ink); }
.good { color: var(--good); background: var(--good-ground); }
.bad { color: var(--bad); background: var(--bad-ground); }
.open { color: var(--open); background: var(--open-ground); }
.scroll { overflow-x: auto; margin: 10px 0; }
table { border-collapse: collapse; font-size: 13.5px; line-height: 1.35; }
th { text-align: left; font-weight: 600; color: var(--soft); border-bottom: 1.5px solid var(--ink);
  vertical-align: bottom; }
th, td { padding: 4px 12px 4px 0; }
td { border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: break-word; max-width: 76ch; }
tbody tr:hover td { background: var(--shade); }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.short { white-space: nowrap; }
td .state { display: inline-block; padding: 0 7px; border-radius: 4px; font-size: 12px; font-weight: 600; }
details { margin: 10px 0; }
summary { cursor: pointer; color: var(--soft); }
img { max-width: 100%; height: auto; display: block; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(265px, 1fr)); gap: 8px 14px; margin: 8px 0; }
.gallery img { width: 100%; }
@media print { main { max-width: none; padding: 0; } h2 { break-after: avoid; } tr, img { break-inside: avoid; } }
"""


def page(document: parts.Document) -> str:
    """The document as a whole HTML page."""
    body = "\n".join(_block(block) for block in document.blocks)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{html.escape(document.title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _block(block: parts.Block) -> str:
    match block:
        case parts.Heading(level, text):
            return f"<h{level}>{inline(text)}</h{level}>"
        case parts.Paragraph(text):
            return f"<p>{inline(text)}</p>"
        case parts.Verdict(state, text):
            return f'<div class="verdict {STATES[state]}"><strong>{state}</strong><p>{inline(text)}</p></div>'
        case parts.Listing(items):
            return "<ul>" + "".join(f"<li>{inline(item)}</li>" for item in items) + "</ul>"
        case parts.Table():
            return _table(block)
        case parts.Picture():
            return _picture(block)
        case parts.Gallery(pictures):
            return '<div class="gallery">\n' + "\n".join(map(_picture, pictures)) + "\n</div>"
    raise TypeError(f"no block of a report: {block!r}")


def _table(table: parts.Table) -> str:
    numbers = [column.startswith("#") for column in table.columns]

    def row(tag: str, cells: Sequence[str]) -> str:
        looks = [
            "number" if number else "short" if len(cell) <= SHORT else ""
            for number, cell in zip(numbers, cells, strict=True)
        ]
        return "<tr>" + "".join(map(_cell, repeat(tag), looks, cells)) + "</tr>"

    head = row("th", [column.removeprefix("#") for column in table.columns])
    rows = "\n".join(row("td", cells) for cells in table.rows)
    text = f'<div class="scroll"><table>\n<thead>{head}</thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>'
    if table.folded:
        return f"<details><summary>{inline(table.folded)}</summary>\n{text}\n</details>"
    return text


def _cell(tag: str, look: str, text: str) -> str:
    shown = f'<span class="state {STATES[text]}">{text}</span>' if text in STATES else inline(text)
    return f'<{tag} class="{look}">{shown}</{tag}>' if look else f"<{tag}>{shown}</{tag}>"


def _picture(picture: parts.Picture) -> str:
    data = base64.b64encode(picture.svg.encode("utf-8")).decode("ascii")
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{html.escape(picture.alt)}">'


def inline(text: str) -> str:
    """The text, escaped, with `code` marked."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text))
