"""A source file as an edit sees it: text with `\\n` line ends, and what it takes to give its bytes back.

Also what a file's own style is (how it indents) and how a snippet is brought into that style. Pure; `render`
and `series` ask here.
"""

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache

from ast_grep_py import SgNode, SgRoot

BOM = b"\xef\xbb\xbf"
SNIPPET_INDENT = 4
# A string that may be written with either quotes: nothing in it is a quote, a backslash or a line end.
EITHER_QUOTES = re.compile(r"""([A-Za-z]*)"([^'"\\\n]*)\"""")
# What a comment stands in that may be anywhere in an expression.
BRACKETS = {
    "argument_list", "parameters", "lambda_parameters", "list", "tuple", "dictionary", "set", "subscript",
    "parenthesized_expression", "import_from_statement", "list_comprehension", "set_comprehension",
    "dictionary_comprehension", "generator_expression", "pair", "keyword_argument", "default_parameter",
    "typed_default_parameter", "binary_operator", "boolean_operator", "comparison_operator", "conditional_expression",
}  # fmt: skip


def lines_of(text: str) -> list[str]:
    """Lines with their ends. Only `\\n` ends a line, as for git; str.splitlines knows eight more."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


@dataclass(frozen=True)
class SourceText:
    """Text in which every line ends with `newline_inside`, and the bytes' habits that were set aside.

    newline: what ends most lines of the file, `\\n` or `\\r\\n`.
    uniform: all lines end so; then the text has `\\n` throughout. A file that mixes them is left as it is.
    final_newline: the last line is ended too. The text always ends it.
    """

    text: str
    bom: bool
    newline: str
    uniform: bool
    final_newline: bool

    @classmethod
    def read(cls, data: bytes) -> "SourceText":
        """Raises UnicodeDecodeError for bytes that are not UTF-8."""
        bom = data.startswith(BOM)
        text = data.removeprefix(BOM).decode("utf-8")
        crlf, lf = text.count("\r\n"), text.count("\n")
        newline = "\r\n" if 2 * crlf > lf else "\n"
        uniform = crlf in (0, lf)
        if uniform and newline == "\r\n":
            text = text.replace("\r\n", "\n")
        final_newline = not text or text.endswith("\n")
        if not final_newline:
            text += "\n" if uniform else newline
        return cls(text, bom, newline, uniform, final_newline)

    @property
    def newline_inside(self) -> str:
        return "\n" if self.uniform else self.newline

    def with_text(self, text: str) -> "SourceText":
        return replace(self, text=text)

    def data(self) -> bytes:
        text = self.text
        if not self.final_newline:
            text = text.removesuffix(self.newline_inside)
            if text.endswith("\n"):  # an edit took away what was behind these
                text = re.sub(r"(\r?\n)+$", "", text)
        if self.uniform and self.newline == "\r\n":
            text = text.replace("\n", "\r\n")
        return BOM * self.bom + text.encode("utf-8")


def string_lines(text: str) -> set[int]:
    """The lines (from 1) of Python that begin inside a string, not a docstring: their spaces have meaning."""
    inside = set()
    for node in SgRoot(text, "python").root().find_all(kind="string"):
        span = node.range()
        if span.start.line < span.end.line and not _is_docstring(node):
            inside.update(range(span.start.line + 2, span.end.line + 2))
    return inside


def _is_docstring(node: SgNode) -> bool:
    statement = node.parent()
    if statement is None or statement.kind() != "expression_statement" or len(statement.children()) != 1:
        return False
    before = [n for n in statement.prev_all() if n.kind() != "comment"]
    return not before and statement.parent() is not None and statement.parent().kind() in ("block", "module")


def tree_of(text: str, language: str) -> SgNode:
    """The syntax tree of a file or pattern in which formatting that means nothing does not show.

    In Python, strings have single quotes where either would do, and comments within brackets are blank. Every node
    stands where it does in `text`: what is blank or another quote takes as many characters. What a node's text is in
    the file is to be cut from the file.
    """
    return SgRoot(plainly_formatted(text) if language == "python" else text, language).root()


@lru_cache(maxsize=256)
def plainly_formatted(text: str) -> str:
    """Python, or a pattern of it, as `tree_of` reads it; as long as `text`."""
    changed = list(text)
    for node in SgRoot(text, "python").root().find_all({"rule": {"any": [{"kind": "string"}, {"kind": "comment"}]}}):
        span = node.range()
        start, end = span.start.index, span.end.index
        if node.kind() == "string":
            found = EITHER_QUOTES.fullmatch(text, start, end)
            if found is not None:
                changed[found.end(1)] = changed[end - 1] = "'"
        elif node.parent().kind() in BRACKETS:
            changed[start:end] = " " * (end - start)
    return "".join(changed)


def line_start(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1


def line_end(text: str, index: int) -> int:
    """The index behind the newline of the line that `index` is in."""
    found = text.find("\n", index)
    return len(text) if found < 0 else found + 1


def indentation_at(text: str, index: int) -> str:
    """The white space that begins the line of `index`."""
    start = line_start(text, index)
    return re.compile(r"[ \t]*").match(text, start).group()


def indent_unit(text: str, nodes: list[SgNode]) -> str:
    """How a file indents one level more: as most blocks of the first of `nodes` that has any; else 4 spaces.

    nodes: from the nearest (say a class) to the root.
    """
    for node in nodes:
        units: Counter[str] = Counter()
        for block in node.find_all(kind="block"):
            start, parent = block.range().start, block.parent().range().start
            inner, outer = indentation_at(text, start.index), indentation_at(text, parent.index)
            if start.line > parent.line and inner != outer and inner.startswith(outer):
                units[inner.removeprefix(outer)] += 1
        if units:
            return units.most_common(1)[0][0]
    return " " * SNIPPET_INDENT


def restyled(snippet: str, indent: str, unit: str, newline: str) -> str:
    """A dedented 4-space Python snippet, `indent` deep, with `unit` a level and `newline` after each line.

    Docstrings are indented along; the insides of other multi-line strings are not touched.
    """
    frozen = string_lines(snippet)
    out = []
    for number, line in enumerate(lines_of(snippet), start=1):
        line = line.removesuffix("\n")
        if number not in frozen:
            body = line.lstrip(" ")
            levels, rest = divmod(len(line) - len(body), SNIPPET_INDENT)
            line = indent + unit * levels + " " * rest + body if body else ""
        out.append(line + newline)
    return "".join(out)
