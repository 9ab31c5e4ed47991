"""Anchors survive ordinary editing: whatever a formatter or a tidy person does to official code, each patch makes the
same of it as before, or says what it lost.
"""

import ast
import functools
import io
import random
import tokenize
from collections import ChainMap
from pathlib import Path

import pytest

from tdmpc2_lean import patching
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.patching import render, render_series
from tests.conftest import DREAMERV3 as DREAMER
from tests.conftest import TDMPC2, official_checkout

PINS = {"tdmpc2": TDMPC2.pin, "dreamerv3": DREAMER.pin}


@functools.cache
def subjects(upstream: str):
    """(patch, the files that it edits as those patches leave them that it needs) of a series on official code."""
    root = official_checkout(upstream, PINS[upstream]).root
    series = patching.read_series(upstream)
    files = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in Path(root).rglob("*")
        if path.suffix in (".py", ".yaml") and path.is_file()
    }
    found = []
    for patch in series.patches:
        below = render_series(series.closure(list(patch.needs)) if patch.needs else (), files)
        base = ChainMap(below, files)
        found.append((patch, {name: base[name] for name in files}, render(patch, base)))
    return found


def tokens(text: str) -> list[tokenize.TokenInfo]:
    return list(tokenize.generate_tokens(io.StringIO(text).readline))


def edited(text: str, changes: list[tuple[tuple[int, int], tuple[int, int], str]]) -> str:
    """Text with what stands between places (line, column) replaced."""
    lines = text.splitlines(keepends=True)
    for (row, start), (last, end), new in sorted(changes, reverse=True):
        assert row == last
        lines[row - 1] = lines[row - 1][:start] + new + lines[row - 1][end:]
    return "".join(lines)


def other_quotes(text: str, draw: random.Random) -> str:
    changes = []
    for one in tokens(text):
        body = one.string.lstrip("rbfRBFuU")
        if one.type == tokenize.STRING and body[:3] not in ("'''", '"""') and draw.random() < 0.7:
            quote, inner = body[0], body[1:-1]
            other = {"'": '"', '"': "'"}[quote]
            if not set(inner) & set("'\"\\"):
                prefix = one.string[: -len(body)]
                changes.append((one.start, one.end, prefix + other + inner + other))
    return edited(text, changes)


def comments_in_brackets(text: str, draw: random.Random) -> str:
    depth, changes = 0, []
    for one in tokens(text):
        if one.type == tokenize.OP:
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(one.string, 0)
            if one.string == "," and depth > 0 and draw.random() < 0.3:
                rest = text.splitlines()[one.start[0] - 1][one.end[1] :].lstrip()
                line = text.splitlines()[one.start[0] - 1]
                # Nobody breaks a line within `for k, v in` or `lambda a, b:`
                if not rest.startswith("#") and " in " not in rest and "lambda" not in line:
                    changes.append((one.start, one.end, ",  # it's \"so\"\n"))
    return edited(text, changes)


def comments_after_lines(text: str, draw: random.Random) -> str:
    ends = [one.start for one in tokens(text) if one.type == tokenize.NEWLINE]
    changes = [(end, end, "  # as is") for end in ends if draw.random() < 0.2]
    return edited(text, [change for change in changes if "#" not in text.splitlines()[change[0][0] - 1]])


def blank_lines_on_top(text: str, draw: random.Random) -> str:
    return "\n" * draw.randint(1, 3) + text


def no_final_newline(text: str, draw: random.Random) -> str:
    return text.rstrip("\n")


def four_spaces(text: str, draw: random.Random) -> str:
    """Tabs become four spaces where lines are indented by tabs."""
    strings = [one for one in tokens(text) if one.type == tokenize.STRING]
    inside = {row for one in strings for row in range(one.start[0] + 1, one.end[0] + 1)}
    out = []
    for row, line in enumerate(text.splitlines(keepends=True), start=1):
        body = line.lstrip("\t")
        out.append(line if row in inside else "    " * (len(line) - len(body)) + body)
    return "".join(out)


def windows(text: str, draw: random.Random) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


EDITING = [other_quotes, comments_in_brackets, comments_after_lines, blank_lines_on_top, no_final_newline, four_spaces]


def form(data: bytes) -> str:
    """What the code is, whatever it looks like; docstrings apart, whose indentation is no matter."""
    module = ast.parse(data)
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value:
            node.value = "".join(node.value.split())
    return ast.dump(module)


def mutate(files: dict, names, draw: random.Random) -> dict:
    ways = draw.sample(EDITING, draw.randint(1, 3))
    crlf = draw.random() < 0.1
    changed = dict(files)
    for name in names:
        text = changed[name].decode()
        if name.endswith(".py"):
            for way in ways:
                text = way(text, draw)
            assert form(text.encode()) == form(files[name]), ways
        elif no_final_newline in ways:
            text = text.rstrip("\n")
        changed[name] = (windows(text, draw) if crlf else text).encode()
    return changed


def survives(upstream: str, draws: int, seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(draws):
        patch, files, before = draw.choice(subjects(upstream))
        changed = mutate(files, [name for name in patch.files if name in files], draw)
        after = render(patch, changed)
        for name, data in before.items():
            if name.endswith(".py"):
                assert form(after[name]) == form(data), (patch.name, name)
            else:
                assert b"".join(after[name].split()) == b"".join(data.split()), (patch.name, name)


@pytest.mark.official
@pytest.mark.parametrize("upstream", PINS)
def test_a_patch_makes_the_same_of_code_that_was_formatted_otherwise(upstream):
    survives(upstream, draws=12, seed=0)


@pytest.mark.slow
@pytest.mark.official
@pytest.mark.parametrize("upstream", PINS)
def test_a_patch_makes_the_same_of_code_that_was_formatted_otherwise_over_a_thousand_draws(upstream):
    survives(upstream, draws=500, seed=1)


def wrapped_in_try(text: str, draw: random.Random) -> str:
    """A simple statement of a function, drawn at random, within `try`."""
    module = ast.parse(text)
    simple = ast.Assign | ast.AugAssign | ast.Expr
    found = [
        one for node in ast.walk(module) if isinstance(node, ast.FunctionDef) for one in node.body[1:]
        if isinstance(one, simple) and one.lineno == one.end_lineno
    ]  # fmt: skip
    one = draw.choice(found)
    lines = text.split("\n")
    line = lines[one.lineno - 1]
    margin = line[: len(line) - len(line.lstrip())]
    end = draw.choice([["except ValueError:", "raise"], ["finally:", "pass"]])
    lines[one.lineno - 1 : one.lineno] = [
        f"{margin}try:", f"{margin}\t{line.lstrip()}", f"{margin}{end[0]}", f"{margin}\t{end[1]}",
    ]  # fmt: skip
    return "\n".join(lines)


def renamed_local(text: str, draw: random.Random) -> str:
    """A local variable, drawn at random, by another name in its function."""
    module = ast.parse(text)
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    node = draw.choice(functions)
    names = sorted({one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)})
    if not names:
        return text
    name = draw.choice(names)
    places = [one for one in ast.walk(node) if isinstance(one, ast.Name) and one.id == name]
    places = [one for one in places if text.split("\n")[one.lineno - 1].isascii()]
    changes = [((one.lineno, one.col_offset), (one.lineno, one.end_col_offset), f"{name}_too") for one in places]
    return edited(text, changes)


@pytest.mark.official
@pytest.mark.parametrize("way", [wrapped_in_try, renamed_local])
def test_a_statement_in_try_or_a_renamed_variable_is_followed_or_the_patch_is_refused(way):
    """Never a file that does not parse, never a name that nothing gives a value to."""
    draw = random.Random(7)
    for _ in range(15):
        patch, files, before = draw.choice(subjects("tdmpc2"))
        names = [name for name in patch.files if name in files and name.endswith(".py")]
        name = draw.choice(names)
        changed = files | {name: way(files[name].decode(), draw).encode()}
        try:
            after = render(patch, changed)
        except UserError:
            continue
        for data in after.values():
            assert unbound(data) <= unbound(files[name]) | set().union(*map(unbound, before.values()))


def unbound(data: bytes) -> set[str]:
    """Names that functions use and nothing in the file binds."""
    if b":" in data[:40] and b"import" not in data:
        return set()
    try:
        module = ast.parse(data)
    except SyntaxError:
        return set()
    bound = {one.arg for one in ast.walk(module) if isinstance(one, ast.arg)}
    bound |= {getattr(one, "name", None) for one in ast.walk(module)}
    used = set()
    for one in ast.walk(module):
        if isinstance(one, ast.Name):
            (used if isinstance(one.ctx, ast.Load) else bound).add(one.id)
        elif isinstance(one, ast.Import | ast.ImportFrom):
            bound |= {(alias.asname or alias.name).partition(".")[0] for alias in one.names}
    return {name for name in used - bound if name not in dir(__builtins__) and name not in __builtins__}
