"""What a report is made of: headings, paragraphs, tables and pictures. Both renderings are of this and nothing else.

The rooms of `layout` make the blocks, `markdown.py` and `page.py` write them. Texts are plain, but for `code` between
backticks; a renderer escapes the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from tdmpc2_lean.validation.report import pictures
from tdmpc2_lean.validation.report.drawing import Drawing, Look


def unmarked(text: str) -> str:
    """A text from elsewhere, such as a name in a run.json, as one that marks nothing."""
    return text.replace("`", "'")


def code(text: str) -> str:
    """A text from elsewhere as `code`."""
    return f"`{unmarked(text)}`"


@dataclass(frozen=True)
class Heading:
    """level: 1 for the report's title."""

    kind: ClassVar = "heading"
    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    kind: ClassVar = "paragraph"
    text: str


@dataclass(frozen=True)
class Answer:
    """The verdict, to be seen first. state: PASS, FAIL or INCOMPLETE.      caveats: what to know when using it."""

    kind: ClassVar = "answer"
    state: str
    text: str
    caveats: Sequence[str] = ()


@dataclass(frozen=True)
class Listing:
    kind: ClassVar = "listing"
    items: Sequence[str]


@dataclass(frozen=True)
class Table:
    """columns: their titles; one that starts with `#` holds numbers (the sign is not shown).

    rows: one text a column each.      folded: the words to unfold a long table by; empty if it is shown at once.
    """

    kind: ClassVar = "table"
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    folded: str = ""


@dataclass(frozen=True)
class Picture:
    """name: of its files, without their suffix; once in a report.      alt: what it shows, for who cannot see it."""

    kind: ClassVar = "picture"
    name: str
    drawing: Drawing
    alt: str

    @cached_property
    def svg(self) -> str:
        return pictures.svg(self.drawing)

    @cached_property
    def png(self) -> bytes:
        """With its key, so that it can stand alone."""
        return pictures.png(self.drawing)

    @cached_property
    def csv(self) -> str:
        """The numbers that are drawn."""
        return self.drawing.csv()


@dataclass(frozen=True)
class Gallery:
    """Pictures side by side, of one size, under the key of them all.

    keys: what the lines mean, of those that can be seen in any of the pictures.      wide: whether they are large.
    """

    kind: ClassVar = "gallery"
    pictures: Sequence[Picture]
    keys: Sequence[tuple[Look, str]] = ()
    wide: bool = False


Block = Heading | Paragraph | Answer | Listing | Table | Picture | Gallery


@dataclass(frozen=True)
class Document:
    title: str
    blocks: Sequence[Block] = field(default_factory=list)

    def pictures(self) -> list[Picture]:
        """All pictures, in the order in which they stand."""
        found: list[Picture] = []
        for block in self.blocks:
            if isinstance(block, Picture):
                found.append(block)
            elif isinstance(block, Gallery):
                found.extend(block.pictures)
        return found
