"""Finds the place an edit means: a class or function by its dotted name, a statement or expression by a
pattern.

Patterns are ast-grep's: code with `$NAME` for any one node and `$$$NAME` for any number of them. One thing is
ours: Python code written alone does not tell `f(x=1)`'s keyword argument from the assignment `x = 1`, so a
pattern with no spaces around its first `=` means the argument (of a call, or a parameter with that default)
and one with spaces means the assignment, as PEP 8 writes them.

What ordinary editing changes does not count (`source.tree_of`, `_rules`): quotes, comments within brackets, trailing
commas, annotations, and what else an import statement imports.
"""

import ast
import difflib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ast_grep_py import SgNode, SgRoot

from tdmpc2_lean.errors import CheckFailed
from tdmpc2_lean.parsing import parse
from tdmpc2_lean.patching.source import plainly_formatted

# Nodes whose children may hold the definitions of the scope around them.
TRANSPARENT = {
    "block", "if_statement", "elif_clause", "else_clause", "try_statement", "except_clause",
    "except_group_clause", "finally_clause", "with_statement", "for_statement", "while_statement",
    "match_statement", "case_clause",
}  # fmt: skip
ARGUMENT = re.compile(r"\s*[^\W\d]\w*(:[^=]*[^=\s])?=[^=\s]")
# An import of one thing, as a pattern.
IMPORT = re.compile(r"(?:from\s+(?P<module>[.\w]+)\s+)?import\s+(?P<name>[.\w]+(?:\s+as\s+\w+)?)\s*")
METAVARIABLE = re.compile(r"\$+_?([A-Z][A-Z0-9_]*)")
# Clauses that are carried out after an error.
AFTER_ERRORS = ("except_clause", "except_group_clause", "finally_clause")


@dataclass(frozen=True)
class LostAnchor:
    """One edit whose place was not found where it should be, or (edit None) a requirement that is not met.

    pattern: what was looked for; of a requirement, what must be so. by_hand: how the edit is made by hand.
    `str()` is a line for the user.
    """

    patch: str
    edit: int | None
    file: str
    inside: str | None
    pattern: str | None
    reason: str
    by_hand: str = ""

    def __str__(self) -> str:
        where = f"{self.file}, {self.inside}" if self.inside else self.file
        if self.edit is None:
            return f"{self.patch}: {where}: {self.pattern}; {self.reason}"
        what = f" `{self.pattern}`" if self.pattern else ""
        return f"{self.patch}, edit {self.edit}: {where}:{what} {self.reason}"


class LostAnchors(CheckFailed):
    """A patch does not fit a checkout. `anchors` has every edit that does not, not only the first."""

    def __init__(self, anchors: list[LostAnchor], next_step: str = ""):
        self.anchors = tuple(anchors)
        places = [anchor for anchor in anchors if anchor.edit is not None]
        unmet = len(anchors) - len(places)
        said = []
        if places or not anchors:
            said.append("An anchor is lost" if len(places) == 1 else f"{len(places)} anchors are lost")
        if unmet:
            said.append("a requirement is not met" if unmet == 1 else f"{unmet} requirements are not met")
        text = ", and ".join(said)
        super().__init__(
            f"{text[0].upper()}{text[1:]}; nothing was changed:\n  " + "\n  ".join(map(str, anchors)),
            next_step or "`tdmpc2-lean patch check CHECKOUT` says what applies to this checkout, "
            "and shows the edits to make by hand",
        )


class NotFound(Exception):
    """Raised inside this package; `render` makes a LostAnchor of it, with the edit's name and place."""


@dataclass(frozen=True)
class Match:
    """A node that a pattern matched. start, end: character indices; captured: metavariable -> (text, kind).

    The kind of what a `$$$NAME` captured is None.

    part: of an import statement that imports more than what was looked for, the characters that are about that.
    """

    node: SgNode
    start: int
    end: int
    captured: dict[str, tuple[str, str | None]]
    part: tuple[int, int] | None = None


def pattern_problem(pattern: str, language: str) -> str | None:
    """Why `pattern` can match nothing, or None."""
    try:
        for rule in _rules(pattern, language):
            SgRoot("", language).root().find({"rule": {"pattern": rule}})
    except RuntimeError as error:
        causes = re.findall(r"^\s*\d+: (.*)$", str(error).split("Stack backtrace")[0], re.MULTILINE)
        return (causes[-1] if causes else str(error).splitlines()[0]).split(" Please check")[0]
    return None


def _rules(pattern: str, language: str) -> list[str | dict]:
    """The ast-grep patterns that together mean `pattern`: with annotations and without."""
    if language != "python":
        return [pattern]
    pattern = plainly_formatted(pattern)
    if not ARGUMENT.match(pattern):
        return [pattern, *_annotated(pattern)]
    if ":" in pattern.split("=")[0]:
        return [{"context": f"def f({pattern}): pass", "selector": "typed_default_parameter"}]
    name, _, value = pattern.strip().partition("=")
    return [
        {"context": f"f({pattern})", "selector": "keyword_argument"},
        {"context": f"def f({pattern}): pass", "selector": "default_parameter"},
        {"context": f"def f({name}: $_TYPE={value}): pass", "selector": "typed_default_parameter"},
    ]


def _annotated(pattern: str) -> Iterator[str]:
    """An assignment or a function as a pattern: the same with annotations."""
    try:
        (statement,) = parse(METAVARIABLE.sub(r"METAVARIABLE_\1", pattern)).body
    except (SyntaxError, ValueError):
        return
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        if isinstance(statement.targets[0], ast.Name | ast.Attribute | ast.Subscript):
            target, _, value = pattern.partition(" = ")
            yield f"{target}: $_TYPE = {value}"
    elif isinstance(statement, ast.FunctionDef):
        head = re.fullmatch(r"(\s*def\s+\w+\()([^()]*)\)\s*:(.*)", pattern, re.DOTALL)
        if head is None:
            return
        parameters = [part.strip() for part in head[2].split(",") if part.strip()]
        typed = [
            [part, f"{part}: $_TYPE{number}"] if part.isidentifier() and part not in ("self", "cls") else [part]
            for number, part in enumerate(parameters)
        ]
        for written in itertools.product(*typed):
            for result in ("", " -> $_RESULT"):
                if result or list(written) != parameters:
                    yield f"{head[1]}{', '.join(written)}){result}:{head[3]}"


def definitions(node: SgNode, prefix: str = "") -> Iterator[tuple[str, SgNode]]:
    """Every class and function below `node` in source order, as (dotted name, node).

    A decorated definition's node is the one that includes its decorators.
    """
    for child in node.children():
        kind = child.kind()
        inner = child.field("definition") if kind == "decorated_definition" else child
        if inner is not None and inner.kind() in ("class_definition", "function_definition"):
            name = prefix + inner.field("name").text()
            yield name, child
            yield from definitions(inner.field("body"), name + ".")
        elif kind in TRANSPARENT:
            yield from definitions(child, prefix)


def scope(root: SgNode, inside: str | None) -> SgNode:
    """The definition named `inside`, with its decorators; the root for None. Raises NotFound."""
    if inside is None:
        return root
    found = [node for name, node in definitions(root) if name == inside]
    if not found:
        outer = inside.rpartition(".")[0]
        if outer:
            scope(root, outer)
        raise NotFound(f"there is no {inside}")
    if len(found) > 1:
        raise NotFound(f"there are {len(found)} definitions of {inside}")
    return found[0]


def definition(node: SgNode) -> SgNode:
    """The class or function itself of what `scope` found."""
    return node.field("definition") if node.kind() == "decorated_definition" else node


def matches(where: SgNode, pattern: str, language: str, text: str) -> list[Match]:
    """What `pattern` matches at or below `where`, in source order, each place once.

    text: the whole file's, which `where` is a part of. What is captured is cut from it: a tree begins where the first
    thing of a file does, so that no node has the text from the first character on.
    Where a match holds another of the same text (an expression statement and its expression) the outer one
    counts.
    """
    if language == "python" and (wanted := IMPORT.fullmatch(pattern)):
        return _imports(where, wanted["module"], " ".join(wanted["name"].split()))
    found = {}
    for rule in _rules(pattern, language):
        for node in where.find_all({"rule": {"pattern": rule}}):
            span = node.range()
            place = (span.start.index, span.end.index)
            if place not in found:  # parents come before their children
                found[place] = Match(node, *place, _captured(node, pattern, text))
    return [found[place] for place in sorted(found)]


def _imports(where: SgNode, module: str | None, name: str) -> list[Match]:
    """The statements that import `name` (maybe `NAME as OTHER`), from `module` or as a module.

    In a whole file those of the file itself, if there are any; else those of its functions.
    """
    found = []
    for node in where.find_all({"rule": {"any": [{"kind": "import_statement"}, {"kind": "import_from_statement"}]}}):
        children = [child for child in node.children() if child.is_named() and child.kind() != "comment"]
        is_from = node.kind() == "import_from_statement"
        if is_from != (module is not None) or (is_from and children[0].text() != module):
            continue
        names = children[1:] if is_from else children
        for at, one in enumerate(names):
            if " ".join(one.text().split()) != name:
                continue
            span = node.range()
            part = None
            if at + 1 < len(names):
                part = (one.range().start.index, names[at + 1].range().start.index)
            elif at:
                part = (names[at - 1].range().end.index, one.range().end.index)
            found.append(Match(node, span.start.index, span.end.index, {}, part))
            break
    if where.kind() == "module":
        kinds = {"function_definition", "class_definition"}
        own = [match for match in found if not kinds & {ancestor.kind() for ancestor in match.node.ancestors()}]
        return own or found
    return found


def after_errors(match: Match, where: SgNode) -> bool:
    """Whether what was found is carried out after an error as well: within `where`, in an `except` or `finally`."""
    for ancestor in match.node.ancestors():
        if ancestor.range() == where.range() and ancestor.kind() == where.kind():
            return False
        if ancestor.kind() in AFTER_ERRORS:
            return True
    return False


def expect(
    found: list[Match], count: tuple[int, int], where: SgNode, pattern: str, language: str, text: str
) -> None:
    """Raises NotFound unless there are as many as the edit says, or if two overlap."""
    low, high = count
    if not low <= len(found) <= high:
        wanted = f"{low}" if low == high else f"{low} to {high}"
        raise NotFound(f"found {len(found)} times, expected {wanted}{_hint(found, where, pattern, language, text)}")
    for one, other in zip(found, found[1:], strict=False):
        if other.start < one.end:
            raise NotFound(f"found {len(found)} times, two of them overlapping at line {_line(other)}")


def _hint(found: list[Match], where: SgNode, pattern: str, language: str, text: str) -> str:
    if found:
        return ", at line " + ", ".join(str(_line(match)) for match in found)
    if language == "python" and (equals := re.match(r"([^=]*?)(\s*)=(\s*)(?=[^=])(.*)$", pattern, re.DOTALL)):
        name, before, after, value = equals.groups()
        other = f"{name} = {value}" if not before + after else f"{name}={value}"
        if not pattern_problem(other, language) and matches(where, other, language, text):
            return f" (but `{other}` is there: spaces around = mean an assignment, none an argument)"
    if language == "python" and (like := nearest(where, pattern, text)):
        return f"; found {like}"
    return ""


def nearest(where: SgNode, pattern: str, text: str) -> str | None:
    """The line below `where` that is most like a pattern, as `line N: ...`; None if none is like it."""
    wanted = " ".join(re.sub(r"\$+\w+", "", pattern).split())
    first, last = where.range().start.line, where.range().end.line
    best, most = None, 0.6
    for number, line in enumerate(text.split("\n")[first : last + 1], start=first + 1):
        plain = " ".join(line.split("#")[0].split())
        if 2 * len(wanted) < len(plain) * most or not plain:
            continue
        alike = difflib.SequenceMatcher(None, wanted, plain, autojunk=False).ratio()
        if alike > most:
            best, most = f"line {number}: `{line.strip()[:100]}`", alike
    return best


def _line(match: Match) -> int:
    return match.node.range().start.line + 1


def _captured(node: SgNode, pattern: str, text: str) -> dict[str, tuple[str, str | None]]:
    captured: dict[str, tuple[str, str | None]] = {}
    for dollars, name in re.findall(r"(\$\$\$|\$)([A-Z][A-Z0-9_]*)", pattern):
        if dollars == "$":
            one = node.get_match(name)
            if one is not None:
                captured[name] = (_between(one, one, text), one.kind())
        else:
            several = node.get_multiple_matches(name)
            captured[name] = (_between(several[0], several[-1], text) if several else "", None)
    return captured


def _between(first: SgNode, last: SgNode, text: str) -> str:
    return text[first.range().start.index : last.range().end.index]


def statement(node: SgNode) -> SgNode:
    """The statement of a block or module that holds `node` (maybe `node` itself); in YAML, the pair."""
    for candidate in [node, *node.ancestors()]:
        parent = candidate.parent()
        if candidate.kind() == "block_mapping_pair":
            return candidate
        if parent is not None and parent.kind() in ("block", "module") and candidate.kind() != "case_clause":
            return candidate
    raise NotFound("is in no statement")


def yaml_pair(root: SgNode, key: str) -> list[SgNode]:
    """The top-level pairs of a YAML file that have this key."""
    return [
        pair
        for pair in root.find_all(kind="block_mapping_pair")
        if not any(ancestor.kind() == "block_mapping_pair" for ancestor in pair.ancestors())
        and pair.field("key") is not None
        and pair.field("key").text().strip("'\"") == key
    ]
