"""What a report is made of: headings, paragraphs, tables and pictures. Both renderings are of this and nothing else.

`contents.py` makes the blocks, `markdown.py` and `page.py` write them. Texts are plain, but for `code` between
backticks; a renderer escapes the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


def plain(text: str) -> str:
    """A text from elsewhere, such as a name in a run.json, as one that marks nothing."""
    return text.replace("`", "'")


def code(text: str) -> str:
    """A text from elsewhere as `code`."""
    return f"`{plain(text)}`"


@dataclass(frozen=True)
class Heading:
    """level: 1 for the report's title."""

    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Verdict:
    """The answer, to be seen first. state: PASS, FAIL or INCOMPLETE."""

    state: str
    text: str


@dataclass(frozen=True)
class Listing:
    items: Sequence[str]


@dataclass(frozen=True)
class Table:
    """columns: their titles; one that starts with `#` holds numbers (the sign is not shown).

    rows: one text a column each.      folded: the words to unfold a long table by; empty if it is shown at once.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    folded: str = ""


@dataclass(frozen=True)
class Picture:
    """name: of its file, without `.svg`; once in a report.      alt: what it shows, for those who cannot see it."""

    name: str
    svg: str
    alt: str


@dataclass(frozen=True)
class Gallery:
    """Pictures side by side, of one size."""

    pictures: Sequence[Picture]


Block = Heading | Paragraph | Verdict | Listing | Table | Picture | Gallery


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
