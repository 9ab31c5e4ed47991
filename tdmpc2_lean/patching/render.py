"""What patches make of files: pure functions from bytes to bytes. Touches no disk.

`render` is one patch, `render_series` several in order; everything else (apply, check, show, export) plans
with these two, so that they cannot disagree.
"""

import ast
import re
import shlex
import sys
import warnings
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ast_grep_py import SgNode, SgRoot

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.parsing import parse
from tdmpc2_lean.patching import anchors
from tdmpc2_lean.patching.anchors import LostAnchor, LostAnchors, Match, NotFound
from tdmpc2_lean.patching.collisions import collision
from tdmpc2_lean.patching.series import Edit, Patch, Place, Snippet, language
from tdmpc2_lean.patching.source import (
    BOM,
    SourceText,
    indent_unit,
    indentation_at,
    line_end,
    line_start,
    lines_of,
    restyled,
    tree_of,
)
from tdmpc2_lean.patching.suitability import expected, unmet, uses_of_global
from tdmpc2_lean.upstreams.registry import is_left_out

# Expressions that bind as tightly as a name: never in need of parentheses.
ATOMS = {
    "identifier", "attribute", "call", "subscript", "string", "concatenated_string", "integer", "float",
    "true", "false", "none", "ellipsis", "parenthesized_expression", "tuple", "list", "dictionary", "set",
    "list_comprehension", "set_comprehension", "dictionary_comprehension", "generator_expression",
}  # fmt: skip
# Parents whose operand changes its meaning if it is not an atom.
OPERATORS = {
    "binary_operator", "unary_operator", "not_operator", "boolean_operator", "comparison_operator",
    "attribute", "await", "conditional_expression", "list_splat", "dictionary_splat",
}  # fmt: skip
# What may stand without parentheses as a statement's value, and would be several arguments of a call.
LOOSE = {"expression_list", "pattern_list", "yield", "named_expression"}
METAVARIABLE = re.compile(r"\$+([A-Z][A-Z0-9_]*)")
PLACEHOLDER = "METAVARIABLE_"
MATCHED = "MATCHED"  # stands in a text for all that its pattern matched
MOST_LINES = 12  # of an edit that is shown to be made by hand


class RenderError(UserError):
    """A patch fits a checkout but its result would not be a valid file, or the file cannot be read."""

    exit_code = 1


def render_series(
    patches: Iterable[Patch], files: Mapping[str, bytes], left_out: Sequence[str] = ()
) -> dict[str, bytes]:
    """All files that `patches`, one after another, change or create: path -> new bytes.

    left_out: files (or folders, ending with /) that this checkout is known to lack; edits of them are passed over
        where they are missing.
    """
    changed: dict[str, bytes] = {}
    for patch in patches:
        changed |= render(patch, ChainMap(changed, files), left_out)
    return changed


def render(patch: Patch, files: Mapping[str, bytes], left_out: Sequence[str] = ()) -> dict[str, bytes]:
    """The files that `patch` changes or creates: path -> new bytes. `files` is asked only for those it names.

    left_out: as for `render_series`.

    Raises LostAnchors with all its lost anchors, or RenderError if a result does not parse or a file is not
    UTF-8.
    """
    changed: dict[str, bytes] = {}
    now = ChainMap(changed, files)
    lost = _unmet(patch, now, left_out, after=False)
    for edit in patch.edits:
        if is_left_out(edit.file, left_out) and edit.file not in now:
            continue
        try:
            made = _first_that_fits(edit, now)
            for file, data in made.items():
                old = now.get(file)
                if old is not None and (taken := collision(file, language(file), old, data, now)):
                    raise NotFound(taken)
            changed |= made
        except NotFound as error:
            pattern = edit.find or edit.key
            lost.append(
                LostAnchor(patch.name, edit.number, edit.file, edit.inside, pattern, str(error), by_hand(edit))
            )
        except UnicodeDecodeError as error:
            raise RenderError(
                f"{patch.name}, edit {edit.number}: {edit.file} is not UTF-8 (byte {error.start}).",
                "convert the file to UTF-8 first",
            ) from None
    if not lost:
        lost = _unmet(patch, now, left_out, after=True)
    if lost:
        raise LostAnchors(lost)
    for file, data in changed.items():
        if problem := parse_problem(file, data):
            raise _does_not_parse(patch, file, problem, files.get(file))
    for edit in patch.edits:
        if line := _still_used(edit, now, files):
            if edit.count[0] == 0:
                return render(replace(patch, edits=tuple(one for one in patch.edits if one != edit)), files, left_out)
            reason = f"cannot go: what it imports is used at line {line}"
            raise LostAnchors([LostAnchor(patch.name, edit.number, edit.file, edit.inside, edit.find, reason)])
    return {file: data for file, data in changed.items() if files.get(file) != data}


def _unmet(patch: Patch, files: Mapping[str, bytes], left_out: Sequence[str], after: bool) -> list[LostAnchor]:
    """The requirements of a patch that are not met. Those about files that are known to be left out are passed over."""
    found = []
    for one in patch.requires:
        if one.after == after and not (is_left_out(one.file, left_out) and one.file not in files):
            reason = unmet(one, files, language(one.file))
            if reason is not None:
                found.append(
                    LostAnchor(patch.name, None, one.file, one.inside, expected(one), f"{reason}. Why: {one.why}")
                )
    return found


def _still_used(edit: Edit, now: Mapping[str, bytes], before: Mapping[str, bytes]) -> int | None:
    """A line on which something is used whose import an edit deleted."""
    wanted = anchors.IMPORT.fullmatch(edit.find or "") if edit.do == "delete" else None
    data, old = now.get(edit.file), before.get(edit.file)
    if wanted is None or edit.inside or data is None or data == old:
        return None
    name = wanted["name"].split()
    name = name[-1] if len(name) > 1 or wanted["module"] else name[0].partition(".")[0]
    try:
        return next(iter(uses_of_global(data, name)), None)
    except (SyntaxError, UnicodeDecodeError):
        return None


def by_hand(edit: Edit) -> str:
    """How to make an edit by hand, as lines for the user."""
    code = (edit.snippet.text if edit.snippet else edit.text or "").strip("\n")
    if edit.new_file is not None:
        code = edit.new_file.decode("utf-8", "replace").strip("\n")
    shown = code.split("\n")
    if len(shown) > MOST_LINES:
        shown = [*shown[:MOST_LINES], f"... ({len(shown) - MOST_LINES} lines more in the patch's folder)"]
    what = {
        "replace": "put in its place",
        "before": "put before its statement",
        "after": "put behind its statement",
        "delete": "delete its statement",
        "append": f"put at the end of {edit.inside or 'the file'}",
        "bases": f"make these the bases of {edit.inside}",
        "create": "make a file",
        "nothing": "nothing is to be done where that is there",
    }[edit.do]
    return f"by hand: {what}" + (":\n" + "\n".join(f"    {line}" for line in shown) if code else "")


def already_there(patch: Patch, files: Mapping[str, bytes]) -> bool:
    """Whether the code has by itself what the patch does, as a commit has in which upstream did the same.

    By the patch's [already], or since for each of its edits there is nothing to do.
    """
    if any(is_there(place, files) for place in patch.already):
        return True
    return any(one.do == "nothing" for edit in patch.edits for one in edit.every) and _nothing_to_do(patch, files)


def is_there(place: Place, files: Mapping[str, bytes]) -> bool:
    """Whether what a place is known by matches in its file."""
    data = files.get(place.file)
    if data is None:
        return False
    try:
        text, kind = SourceText.read(data).text, language(place.file)
        return bool(anchors.matches(anchors.scope(tree_of(text, kind), place.inside), place.find, kind, text))
    except (NotFound, UnicodeDecodeError):
        return False


def _nothing_to_do(patch: Patch, files: Mapping[str, bytes]) -> bool:
    try:
        return not render(patch, files)
    except (UserError, LostAnchors):
        return False


def without_already_there(patches: Iterable[Patch], files: Mapping[str, bytes]) -> tuple[Patch, ...]:
    """The patches that there is something to do for. files: a checkout's, without any patch."""
    return tuple(patch for patch in patches if not already_there(patch, files))


def _does_not_parse(patch: Patch, file: str, problem: str, before: bytes | None) -> RenderError:
    """Whose fault it is that an edited file does not parse: the checkout's own, if it did not before either."""
    own = parse_problem(file, before) if before is not None else None
    if own:
        return RenderError(
            f"{file} of the checkout does not parse as it is, without {patch.name}: {own}.",
            f"mend {file} in the checkout, at that line; nothing was changed",
        )
    return RenderError(
        f"{patch.name}: {file} would not parse after its edits: {problem}.",
        f"correct the patch in {shlex.quote(str(patch.folder))}; nothing was changed",
    )


def parse_problem(file: str, data: bytes) -> str | None:
    """Why a Python or YAML file is none, or None if all is well (or the file is of another kind)."""
    text = data.removeprefix(BOM).decode("utf-8") if language(file) else ""
    if language(file) == "python":
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(text, file, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            return f"line {getattr(error, 'lineno', '?')}, {getattr(error, 'msg', error)}"
    if language(file) == "yaml":
        wrong = SgRoot(text, "yaml").root().find(kind="ERROR")
        if wrong is not None:
            return f"line {wrong.range().start.line + 1}, no YAML"
    return None


def _first_that_fits(edit: Edit, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """What the edit, or the first of its alternatives whose place is found, makes of its file. Raises NotFound."""
    reasons: list[str] = []
    for one in edit.every:
        try:
            return _edited_if_given(one, files)
        except NotFound as error:
            where = "" if one.file == edit.file else f"{one.file}: "
            what = f"`{one.find or one.key}` " if reasons and (one.find or one.key) else ""
            reasons.append(f"{where}{what}{error}")
    first, *others = reasons
    raise NotFound(first + "; nor for code of another age: " * bool(others) + "; nor: ".join(others))


def _edited_if_given(edit: Edit, files: Mapping[str, bytes]) -> dict[str, bytes]:
    if edit.given is not None and not is_there(edit.given, files):
        where = f" in {edit.given.inside or edit.given.file}"
        raise NotFound(f"is only for code with `{edit.given.find}`{where}, which is not there")
    if edit.count[0] == 0 and not _is_place(edit, files):
        return {}
    data = _edited(edit, files)
    return {} if edit.do == "nothing" else {edit.file: data}


def _is_place(edit: Edit, files: Mapping[str, bytes]) -> bool:
    """Whether there is the file, and the class or function, in which an edit looks."""
    data = files.get(edit.file)
    if data is None:
        return False
    try:
        return bool(anchors.scope(tree_of(SourceText.read(data).text, language(edit.file)), edit.inside))
    except NotFound:
        return False


def _edited(edit: Edit, files: Mapping[str, bytes]) -> bytes:
    data = files.get(edit.file)
    if edit.do == "create":
        if data is not None:
            raise NotFound("already exists")
        return _created(edit, files)
    if data is None:
        raise NotFound("the file is missing")
    if edit.do == "nothing" and edit.find is None and edit.key is None:
        return data
    source = SourceText.read(data)
    root = tree_of(source.text, language(edit.file))
    try:
        return source.with_text(_edit_text(edit, source, root)).data()
    except NotFound as error:
        if root.kind() == "ERROR" or root.find(kind="ERROR") is not None:
            raise NotFound(f"{error}; parts of the file are written in a way that is not understood here") from None
        raise


def _created(edit: Edit, files: Mapping[str, bytes]) -> bytes:
    if edit.like is None:
        return edit.new_file
    model = files.get(edit.like)
    if model is None:
        raise NotFound(f"the file it takes its style from, {edit.like}, is missing")
    style, new = SourceText.read(model), SourceText.read(edit.new_file)
    unit = indent_unit(style.text, [SgRoot(style.text, "python").root()])
    text = restyled(new.text, "", unit, "\n") if language(edit.file) == "python" else new.text
    return text.replace("\n", style.newline).encode("utf-8")


def _edit_text(edit: Edit, source: SourceText, root: SgNode) -> str:
    where = anchors.scope(root, edit.inside)
    if edit.do == "append":
        return _appended(edit, source, root, where)
    if edit.do == "bases":
        return _with_bases(edit, source.text, where)
    found = _places(edit, source, root, where)
    text = source.text
    if edit.do == "nothing":
        return text
    done: set[tuple[int, int]] = set()
    for match in reversed(found):  # from the end, so that earlier places keep their indices
        start, end, new = _change(edit, source, match)
        if (start, end) in done and edit.do != "replace":
            raise NotFound("found twice in one statement")
        done.add((start, end))
        text = text[:start] + new + text[end:]
    return text


def _places(edit: Edit, source: SourceText, root: SgNode, where: SgNode) -> list[Match]:
    """Where an edit is made. NotFound unless there are as many places as it says."""
    kind, text = language(edit.file), source.text
    if edit.key is not None:
        pairs = anchors.yaml_pair(root, edit.key)
        found = [Match(pair, pair.range().start.index, pair.range().end.index, {}) for pair in pairs]
    else:
        found = anchors.matches(where, edit.find, kind, text)
    if edit.do in ("before", "after"):
        sound = [match for match in found if not anchors.after_errors(match, where)]
        if found and not sound:
            line = found[0].node.range().start.line + 1
            raise NotFound(f"is carried out after an error as well, in an `except` or `finally` at line {line}")
        found = sound
        if anchors.IMPORT.fullmatch(edit.find or "") and edit.inside is None:
            found = found[:1] or _first_import(edit, root)
    anchors.expect(found, edit.count, where, edit.find or edit.key, kind, text)
    return found


def _first_import(edit: Edit, root: SgNode) -> list[Match]:
    """Where imports of Python's own modules go, if the import is missing that they are meant to stand at."""
    code = edit.snippet.text if edit.snippet else edit.text or ""
    statements = parse(code).body
    modules = [
        alias.name if isinstance(one, ast.Import) else one.module or ""
        for one in statements
        if isinstance(one, ast.Import | ast.ImportFrom) and not getattr(one, "level", 0)
        for alias in one.names
    ]
    if not modules or len(modules) != len(statements) or edit.do != "before":
        return []
    if not all(module.partition(".")[0] in sys.stdlib_module_names for module in modules):
        return []
    for node in root.children():
        if node.kind() in ("import_statement", "import_from_statement"):
            return [Match(node, node.range().start.index, node.range().end.index, {})]
    return []


def _change(edit: Edit, source: SourceText, match: Match) -> tuple[int, int, str]:
    """What to put in place of which characters of `source.text` for one match: (start, end, new)."""
    if edit.do == "replace":
        if match.part is not None:
            raise NotFound(f"shares its import statement at line {match.node.range().start.line + 1} with others")
        new = edit.text
        if new is None and _is_expression(match.node):
            new = edit.snippet.expression
        if new is not None:
            return match.start, match.end, _expression(new, edit, source, match)
    held = anchors.statement(match.node)
    start, end = _lines_of_statement(source.text, held)
    if edit.do == "before":
        return start, start, _statements(edit, source, match, held, before=True)
    if edit.do == "after":
        end = _behind(source.text, held, end)
        return end, end, _statements(edit, source, match, held, after=True)
    if edit.do == "delete":
        if match.part is not None:
            return *match.part, ""
        alone = len([n for n in held.parent().children() if n.is_named() and n.kind() != "comment"]) == 1
        if alone and held.parent().kind() == "block":
            return start, end, indentation_at(source.text, start) + "pass" + source.newline_inside
        return start, end, ""
    return start, end, _statements(edit, source, match, held)


def _is_expression(node: SgNode) -> bool:
    """Not a statement, nor all of one: an assignment is a statement, a call standing alone an expression."""
    kind = node.kind()
    if kind in ("assignment", "augmented_assignment", "expression_statement"):
        return kind == "expression_statement" and not node.children()[0].kind().endswith("assignment")
    parent = node.parent()
    return not (parent is not None and parent.kind() in ("block", "module"))


def _lines_of_statement(text: str, held: SgNode) -> tuple[int, int]:
    """Where the lines of a statement begin and end in `text`. NotFound if it shares one with another."""
    span = held.range()
    start, first = line_start(text, span.start.index), span.start.index
    stop = span.start.index + len(held.text().rstrip())
    end = line_end(text, stop - 1)
    rest = text[stop:end].strip()
    if text[start:first].strip() or (rest and not rest.startswith("#")):
        raise NotFound(f"shares line {span.start.line + 1} with another statement")
    return start, end


def _behind(text: str, held: SgNode, end: int) -> int:
    """`end`, moved past comments below a compound statement that are indented like its body."""
    if held.kind() != "block_mapping_pair" and held.find(kind="block") is None:
        return end
    depth = len(indentation_at(text, held.range().start.index).expandtabs(8))
    while end < len(text):
        after = line_end(text, end)
        line = text[end:after]
        if not line.lstrip().startswith("#") or len(indentation_at(text, end).expandtabs(8)) <= depth:
            break
        end = after
    return end


def _statements(
    edit: Edit,
    source: SourceText,
    match: Match,
    held: SgNode,
    before: bool = False,
    after: bool = False,
) -> str:
    """The edit's code as lines in the style of the file, at the indentation of the statement `held`."""
    indent = indentation_at(source.text, held.range().start.index)
    newline = source.newline_inside
    values = _values(edit, match)
    if language(edit.file) == "yaml":
        lines = lines_of(_yaml(edit, values))
        return "".join(indent + line if line.strip() else line for line in lines).replace("\n", newline)
    code = edit.snippet.text if edit.snippet else edit.text.strip("\n") + "\n"
    unit = indent_unit(source.text, [*held.ancestors()])
    new = _filled(restyled(_marked(code, edit, values), indent, unit, newline), values)
    if edit.snippet and edit.snippet.whole:
        blank = newline * _blank_lines(held.parent())
        new = new + blank if before else blank + new if after else new
    return new


def _blank_lines(parent: SgNode) -> int:
    """How many blank lines PEP 8 puts between definitions here."""
    return 2 if parent.kind() == "module" else 1


def _values(edit: Edit, match: Match) -> dict[str, tuple[str, str | None]]:
    """What the match captured, for the names the edit's code takes. Raises NotFound for a name it did not."""
    if edit.snippet is not None:
        wanted = set(edit.snippet.names)
    else:
        wanted = set(METAVARIABLE.findall(edit.text or ""))
    for name in sorted(wanted - set(match.captured)):
        raise NotFound(f"captured nothing as ${name}")
    return {name: match.captured[name] for name in wanted}


def _yaml(edit: Edit, values: Mapping[str, tuple[str, str | None]]) -> str:
    """The edit's YAML, ending with a newline."""
    code = edit.snippet.text if edit.snippet else edit.text.strip("\n") + "\n"
    return METAVARIABLE.sub(lambda found: values[found[1]][0] if found[1] in values else found[0], code)


def _expression(new: str, edit: Edit, source: SourceText, match: Match) -> str:
    """`new` filled with what was captured, in parentheses where its place needs them, and restyled."""
    newline = source.newline_inside
    rest = new.removeprefix(edit.find or "\0")
    kept = edit.snippet is None and rest != new and language(edit.file) == "python" and not rest[:1].isidentifier()
    if kept and match.node.kind() != "assignment":
        # What stands there stays as it is written, with annotations and comments
        new = f"${MATCHED}{rest}"
        matched = source.text[match.start : match.end], None
        match = replace(match, captured={**match.captured, MATCHED: matched})
        edit = replace(edit, text=new)
    values = _values(edit, match)
    if language(edit.file) == "yaml":
        return _yaml(edit, values).removesuffix("\n").replace("\n", newline)
    new = _marked(new, edit, values)
    kind = _kind(new)
    if kind is not None and match.node.parent() is not None and _needs_parentheses(kind, match.node):
        new = f"({new})"
    indent = indentation_at(source.text, match.start)
    unit = indent_unit(source.text, [*match.node.ancestors()])
    lines = restyled(new + "\n", indent, unit, newline)
    return _filled(lines.removeprefix(indent).removesuffix(newline), values)


def _kind(expression: str) -> str | None:
    """The kind of a text's one expression; None if it is none (say, a keyword argument)."""
    try:
        parse(f"(\n{expression}\n)", mode="eval")
    except SyntaxError:
        return None
    statement = SgRoot(expression, "python").root().child(0)
    if statement is None:
        return None
    children = statement.children()
    return children[0].kind() if len(children) == 1 else "expression_list"


def _needs_parentheses(kind: str, place: SgNode) -> bool:
    """An expression of this kind, put where the node `place` is, would be read as something else."""
    parent = place.parent()
    around = parent.kind()
    if kind in ATOMS:
        return kind in ("integer", "float") and around == "attribute"
    if around in ("call", "subscript"):  # the function called, or the thing indexed
        return _same_place(parent.child(0), place)
    return around in OPERATORS


def _marked(code: str, edit: Edit, values: Mapping[str, tuple[str, str | None]]) -> str:
    """Python with a placeholder for every captured value, in parentheses where the value will need them.

    In a snippet a value's name is an identifier, in a `text` it has a dollar sign. What was captured is
    filled in last, after the code around it was restyled, since its lines already have the style of the
    file.
    """
    if edit.snippet is None:
        code = METAVARIABLE.sub(rf"{PLACEHOLDER}\1", code)
    prefix = PLACEHOLDER if edit.snippet is None else ""
    for node in reversed(SgRoot(code, "python").root().find_all(kind="identifier")):
        name = node.text().removeprefix(prefix)
        if not node.text().startswith(prefix) or name not in values or _is_label(node):
            continue
        kind = values[name][1]
        loose = kind in LOOSE and node.parent().kind() in (
            "argument_list",
            "keyword_argument",
            "list",
            "tuple",
        )
        mark = PLACEHOLDER + name
        if kind is not None and (loose or _needs_parentheses(kind, node)):
            mark = f"({mark})"
        span = node.range()
        code = code[: span.start.index] + mark + code[span.end.index :]
    return code


def _filled(code: str, values: Mapping[str, tuple[str, str | None]]) -> str:
    """Code with what was captured in place of the placeholders."""
    marks = re.compile(rf"{PLACEHOLDER}([A-Z][A-Z0-9_]*)\b")
    return marks.sub(lambda found: values[found[1]][0] if found[1] in values else found[0], code)


def _is_label(node: SgNode) -> bool:
    """A name that is no variable: an attribute's, or a keyword argument's."""
    parent = node.parent()
    label = {"attribute": "attribute", "keyword_argument": "name"}.get(parent.kind() if parent else "")
    return label is not None and parent.field(label) is not None and _same_place(parent.field(label), node)


def _same_place(one: SgNode, other: SgNode) -> bool:
    first, second = one.range(), other.range()
    return (first.start.index, first.end.index) == (second.start.index, second.end.index)


def _appended(edit: Edit, source: SourceText, root: SgNode, where: SgNode) -> str:
    text, newline = source.text, source.newline_inside
    if language(edit.file) == "yaml":
        return text + _yaml(edit, {}).replace("\n", newline)
    snippet = edit.snippet or Snippet(edit.text.strip("\n") + "\n")
    if edit.inside is None:
        blank = newline * 2 if snippet.whole and text.strip() else ""
        unit = indent_unit(text, [root])
        return text + blank + restyled(snippet.text, "", unit, newline)
    inner = anchors.definition(where)
    if inner.kind() == "function_definition" and snippet.in_function is not None:
        snippet = snippet.in_function
    body = inner.field("body")
    first = body.range().start
    if first.line == inner.range().start.line or text[line_start(text, first.index) : first.index].strip():
        raise NotFound(f"the body of {edit.inside} is on the line of its header")
    indent = indentation_at(text, first.index)
    _, end = _lines_of_statement(text, where)
    end = _behind(text, where, end)
    blank = newline if snippet.whole else ""
    new = restyled(snippet.text, indent, indent_unit(text, [inner, root]), newline)
    return text[:end] + blank + new + text[end:]


def _with_bases(edit: Edit, text: str, where: SgNode) -> str:
    inner = anchors.definition(where)
    if inner.kind() != "class_definition":
        raise NotFound(f"{edit.inside} is not a class")
    bases = inner.field("superclasses")
    span = (bases or inner.field("name")).range()
    start = span.start.index if bases is not None else span.end.index
    return f"{text[:start]}({edit.text}){text[span.end.index :]}"
