"""A report as one HTML page that needs nothing else: style and pictures stand in it, and it loads nothing.

The page is `page.html.j2` with the style of `page.css`. Jinja2 escapes every text; what may be markup is made here.
"""

import base64
import functools
import re
from collections.abc import Mapping
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from tdmpc2_lean.validation.report import document as parts

HERE = Path(__file__).parent
# Cells that hold nothing but a state are coloured by it; the word stays for those who do not see colours.
STATES: Mapping[str, str] = {
    "PASS": "good",
    "FAIL": "bad",
    "INCOMPLETE": "open",
    "UNJUDGED": "open",
}
SHORT = 30  # characters; a cell of no more is not broken


def page(document: parts.Document, pictures: str = "report-pictures") -> str:
    """The document as a whole HTML page. pictures: the folder that it links to, from where the page lies."""
    return template().render(document=document, pictures=pictures, style=Markup(style()))


@functools.cache
def template() -> jinja2.Template:
    rooms = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    rooms.filters |= {"inline": inline, "embedded": embedded, "look": look_of_cell}
    rooms.globals |= {"STATES": STATES}
    return rooms.get_template("page.html.j2")


def style() -> str:
    return (HERE / "page.css").read_text(encoding="utf-8")


def inline(text: str) -> Markup:
    """The text, escaped, with `code` marked."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def embedded(picture: parts.Picture) -> str:
    """The picture as an address that holds it."""
    return "data:image/svg+xml;base64," + base64.b64encode(picture.svg.encode("utf-8")).decode("ascii")


def look_of_cell(text: str, column: str) -> str:
    """The class of a cell."""
    return "number" if column.startswith("#") else "short" if len(text) <= SHORT else ""
