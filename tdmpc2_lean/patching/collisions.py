"""Names that an edit would give to a second thing: what is there already by the name of what a patch adds. Pure.

A file may parse and yet mean something else after an edit: of two methods of one name the later counts, a YAML file
that has a key twice is refused by one reader and read in its last sense by another.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping

from tdmpc2_lean.patching.source import BOM, tree_of
from tdmpc2_lean.patching.structure import DEFINITIONS, FUNCTIONS
from tdmpc2_lean.patching.suitability import module_of, taken_in_class


def collision(file: str, language: str, before: bytes, after: bytes, files: Mapping[str, bytes]) -> str | None:
    """What has the name already of something that is added between `before` and `after`; None if nothing has.

    files: the checkout's as they were before, to look for what a class inherits. Files that do not parse have none.
    """
    if language == "yaml":
        return _twice(_keys(after) - _keys(before), "the key")
    try:
        old, new = module_of(before), module_of(after)
    except (SyntaxError, UnicodeDecodeError):
        return None
    return (
        _twice(_parameters(new) - _parameters(old), "the parameter")
        or _twice(_arguments(new) - _arguments(old), "the argument")
        or _definitions(file, old, new, files)
        or _imports(old, new)
    )


def _twice(found: Counter, what: str) -> str | None:
    for where, name, line in found:
        return f"{what} `{name}` is there already, {f'of {where} ' if where else ''}at line {line}"
    return None


def _keys(data: bytes) -> Counter:
    """Keys of YAML that are twice in one mapping, as (where, key, line of the first)."""
    found: Counter = Counter()
    root = tree_of(data.removeprefix(BOM).decode("utf-8", "replace"), "yaml")
    kinds = [{"kind": "block_mapping"}, {"kind": "flow_mapping"}]
    for mapping in root.find_all({"rule": {"any": kinds}}):
        lines: dict[str, int] = {}
        for pair in mapping.children():
            key = pair.field("key") if pair.kind() in ("block_mapping_pair", "flow_pair") else None
            if key is None or key.text() == "<<":
                continue
            name = key.text().strip("'\"")
            if name in lines:
                found["", name, lines[name]] += 1
            lines.setdefault(name, key.range().start.line + 1)
    return found


def _scopes(node: ast.AST, name: str = "") -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, DEFINITIONS):
            inner = f"{name}.{child.name}" if name else child.name
            yield inner, child
            yield from _scopes(child, inner)
        else:
            yield from _scopes(child, name)


def _parameters(module: ast.Module) -> Counter:
    found: Counter = Counter()
    for name, node in _scopes(module):
        if isinstance(node, FUNCTIONS):
            arguments = node.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
            lines: dict[str, int] = {}
            for one in filter(None, every):
                if one.arg in lines:
                    found[name, one.arg, lines[one.arg]] += 1
                lines.setdefault(one.arg, one.lineno)
    return found


def _arguments(module: ast.Module) -> Counter:
    found: Counter = Counter()
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            named = [keyword for keyword in node.keywords if keyword.arg is not None]
            times = Counter(keyword.arg for keyword in named)
            for name in (name for name, count in times.items() if count > 1):
                line = next(keyword.value.lineno for keyword in named if keyword.arg == name)
                found[ast.unparse(node.func), name, line] += 1
    return found


def _defined(module: ast.Module) -> Counter:
    """(scope, name) of each function and class of a module or class, and of each field of a class."""
    found: Counter = Counter()
    for scope, node in [("", module), *((n, c) for n, c in _scopes(module) if isinstance(c, ast.ClassDef))]:
        for child in node.body:
            if isinstance(child, DEFINITIONS):
                found[scope, child.name] += 1
            elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name) and scope:
                found[scope, child.target.id] += 1
    return found


def _definitions(file: str, old: ast.Module, new: ast.Module, files: Mapping[str, bytes]) -> str | None:
    for scope, name in _defined(new) - _defined(old):
        if not scope:
            for bound, line in _bound(old):
                if bound == name:
                    return f"`{name}` is there already, at line {line}"
            continue
        if not any(one == scope for one, _ in _scopes(old)):
            continue
        if taken := taken_in_class(files, file, scope, name):
            return f"`{name}` is taken: {taken}"
    return None


def _imports(old: ast.Module, new: ast.Module) -> str | None:
    """A name that is newly imported by one module, and was bound to something else."""
    had, has = dict(_imported(old)), dict(_imported(new))
    for name in has.keys() - had.keys():
        for bound, line in _bound(old):
            if bound == name:
                return f"`{name}` is there already, at line {line}, and is not {has[name]}"
    for name in has.keys() & had.keys():
        if has[name] != had[name]:
            return f"`{name}` is imported already, as {had[name]}, and would be {has[name]}"
    return None


def _imported(module: ast.Module) -> Iterator[tuple[str, str]]:
    for node in module.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{'.' * node.level}{node.module or ''}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname or "." not in alias.name:
                    yield alias.asname or alias.name, alias.name


def _bound(module: ast.Module) -> Iterator[tuple[str, int]]:
    """(name, line) of what a module's own statements bind, imports apart from those of the same thing."""
    for node in module.body:
        if isinstance(node, DEFINITIONS):
            yield node.name, node.lineno
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield target.id, node.lineno
