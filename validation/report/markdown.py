"""A report as markdown. Its pictures are files in a folder beside it."""

import re
from collections.abc import Iterable

from tdmpc2_lean.validation.report import document as parts

# What markdown or HTML would read as a sign; `_` inside a word is none.
SIGNS = re.compile(r"([\\*<>\[\]|~]|(?<!\w)_|_(?!\w))")


def markdown(document: parts.Document, pictures: str = "report-pictures") -> str:
    """The document's text. pictures: the folder that its pictures lie in, from where the text lies."""
    return "\n\n".join(_block(block, pictures) for block in document.blocks) + "\n"


def _block(block: parts.Block, pictures: str) -> str:
    match block:
        case parts.Heading(level, text):
            return f"{'#' * level} {escaped(text)}"
        case parts.Paragraph(text):
            return escaped(text)
        case parts.Answer(state, text, caveats):
            return "\n\n".join([f"**{state}**: {escaped(text)}", *map(escaped, caveats)])
        case parts.Listing(items):
            return "\n".join(f"- {escaped(item)}" for item in items)
        case parts.Table():
            return _table(block)
        case parts.Picture():
            return _picture(block, pictures)
        case parts.Gallery(shown, keys):
            key = ["\n".join(f"- {escaped(f'{words} ({look.said})')}" for look, words in keys)] if keys else []
            return "\n\n".join([*key, "\n\n".join(_picture(picture, pictures) for picture in shown)])
    raise TypeError(f"no block of a report: {block!r}")


def _table(table: parts.Table) -> str:
    titles = [column.removeprefix("#") for column in table.columns]
    rules = ["---:" if column.startswith("#") else "---" for column in table.columns]
    lines = [_row(map(escaped, titles)), _row(rules), *(_row(map(escaped, row)) for row in table.rows)]
    text = "\n".join(lines)
    if table.folded:
        return f"<details><summary>{escaped(table.folded)}</summary>\n\n{text}\n\n</details>"
    return text


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _picture(picture: parts.Picture, folder: str) -> str:
    file = f"{folder}/{picture.name}"
    links = " ".join(f"[{kind.upper()}]({file}.{kind})" for kind in ("svg", "png", "csv"))
    return f"![{escaped(picture.alt)}]({file}.svg)\n{links}"


def escaped(text: str) -> str:
    """The text with markdown's signs made harmless, on one line; `code` stays code."""
    pieces = " ".join(text.split()).split("`")
    if len(pieces) % 2 == 0:  # a backtick without its other
        return SIGNS.sub(r"\\\1", " ".join(pieces))
    outside = [SIGNS.sub(r"\\\1", piece) for piece in pieces[::2]]
    inside = ["`" + piece.replace("|", r"\|") + "`" for piece in pieces[1::2]]
    return "".join(piece for pair in zip(outside, [*inside, ""], strict=True) for piece in pair)
