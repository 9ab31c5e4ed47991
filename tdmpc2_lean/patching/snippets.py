"""New code of a patch, read from its folder: functions, methods and statements of Python, sections of YAML."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from tdmpc2_lean.nearest import did_you_mean
from tdmpc2_lean.parsing import parse
from tdmpc2_lean.patching.source import lines_of, string_lines
from tdmpc2_lean.upstreams.checkout_files import path_problem


@dataclass(frozen=True)
class Snippet:
    """New code from a patch's folder, as written there: 4-space Python, or YAML.

    text: its lines, dedented, each with its newline.
    whole: a definition to be inserted as it is; else the statements of a body.
    expression: the snippet is `return EXPRESSION`, and this is the EXPRESSION.
    names: the metavariables it takes (the capital parameters of its function).
    in_function: what stands for it where `append` finds that its `inside` is a function.
    """

    text: str
    whole: bool = False
    expression: str | None = None
    names: frozenset[str] = frozenset()
    in_function: "Snippet | None" = None


def file_of(folder: Path, name: str, bad) -> Path:
    if problem := path_problem(name):
        raise bad(f"code {name!r} {problem}")
    path = folder / name
    if not path.is_file():
        known = [str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()]
        raise bad(f"the patch's folder has no file {name!r}.{did_you_mean(name, known)}")
    if folder.resolve() not in path.resolve().parents:
        raise bad(f"code {name!r} is a link out of the patch's folder")
    return path


def snippet_of(code: str, do: str, whole: bool | None, is_yaml: bool, folder: Path, bad) -> Snippet:
    file, _, name = code.rpartition(":")
    path = file_of(folder, file or ("config.yaml" if is_yaml else "code.py"), bad)
    try:
        source = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise bad(f"{path.name} is not UTF-8") from None
    return (
        _yaml_snippet(source, name, path, bad)
        if is_yaml
        else _python_snippet(source, name, do, whole, path, bad)
    )


def _yaml_snippet(source: str, name: str, path: Path, bad) -> Snippet:
    """The lines below the top-level key `name`, dedented, comments included."""
    import textwrap

    taken, inside = [], False
    for line in lines_of(source):
        if inside and line.strip() and not line[0].isspace():
            break
        if inside:
            taken.append(line)
        elif re.match(rf"{re.escape(name)}:\s*(#.*)?$", line):
            inside = True
    text = textwrap.dedent("".join(taken)).strip("\n")
    if not text.strip():
        raise bad(f"{path.name} has nothing under a top-level key {name!r}")
    return Snippet(text + "\n")


def _python_snippet(source: str, name: str, do: str, whole: bool | None, path: Path, bad) -> Snippet:
    try:
        tree = parse(source)
    except SyntaxError as error:
        raise bad(f"{path.name} line {error.lineno}: {error.msg}") from None
    node: ast.AST = tree
    for part in name.split("."):
        found = [n for n in getattr(node, "body", []) if getattr(n, "name", None) == part]
        if len(found) != 1:
            known = [n.name for n in getattr(node, "body", []) if hasattr(n, "name")]
            raise bad(f"{path.name} has {len(found)} definitions of {name!r}.{did_you_mean(part, known)}")
        node = found[0]
    undecided = whole is None and do == "append" and isinstance(node, ast.FunctionDef) and "." not in name
    if whole is None:
        whole = "." in name or do == "append" or isinstance(node, ast.ClassDef)
    if not whole:
        return _body(source, node, name, path, bad)
    lines = lines_of(source)
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    while first > 1 and lines[first - 2].lstrip().startswith("#"):
        first -= 1
    in_function = _body(source, node, name, path, bad) if undecided and _has_statements(node) else None
    return Snippet(_dedented(source, first, node.end_lineno), whole=True, in_function=in_function)


def _has_statements(node: ast.FunctionDef) -> bool:
    """There is something in the function besides a docstring."""
    return len(node.body) > (ast.get_docstring(node, clean=False) is not None)


def _body(source: str, node: ast.AST, name: str, path: Path, bad) -> Snippet:
    """The statements of a function after its docstring, with the comments before, between and after them."""
    if not isinstance(node, ast.FunctionDef):
        raise bad(f"{name!r} of {path.name} is not a function")
    lines = lines_of(source)
    if ast.get_docstring(node, clean=False) is None:
        body = node.body
        first = min([body[0].lineno, *(d.lineno for d in getattr(body[0], "decorator_list", []))])
        while first - 1 > node.lineno and _is_blank_or_comment(lines[first - 2]):
            first -= 1
        crowded = body[0].lineno == node.lineno or ":" not in lines[first - 2]
    else:
        body = node.body[1:]
        first = node.body[0].end_lineno + 1
        crowded = bool(body) and body[0].lineno < first
    if not _has_statements(node):
        raise bad(f"{name!r} of {path.name} has no statement to insert")
    if crowded:
        raise bad(f"{name!r} of {path.name} has its body on the line of its header")
    last = node.end_lineno
    for number in range(last + 1, len(lines) + 1):
        line = lines[number - 1]
        if line.strip() and (line[: body[0].col_offset].strip() or not line.lstrip().startswith("#")):
            break
        if line.strip():
            last = number
    text = _dedented(source, first, last)
    expression = None
    if len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is not None:
        # From behind the word `return`, so that parentheses around the expression stay.
        expression = ast.get_source_segment(text, parse(text).body[0]).removeprefix("return").strip()
    arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
    names = frozenset(argument.arg for argument in arguments if argument.arg.isupper())
    return Snippet(text, expression=expression, names=names)


def _is_blank_or_comment(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _dedented(source: str, first: int, last: int) -> str:
    """Lines `first` to `last` (from 1, both included) without their common indentation.

    The insides of multi-line strings, docstrings apart, stay as they are.
    """
    lines = lines_of(source)
    frozen = string_lines(source)
    code = [line for number, line in enumerate(lines[first - 1 : last], start=first) if number not in frozen]
    margin = min(len(line) - len(line.lstrip(" ")) for line in code if line.strip())
    out = []
    for number in range(first, last + 1):
        line = lines[number - 1]
        if number not in frozen:
            line = line[margin:].rstrip() + "\n" if line.strip() else "\n"
        out.append(line)
    return "".join(out).strip("\n") + "\n"
