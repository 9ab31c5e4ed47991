"""Whether a checkout is one that a patch can do its work on: what `requirements` says, looked up. Pure."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.parsing import parse
from tdmpc2_lean.patching import anchors
from tdmpc2_lean.patching.anchors import NotFound
from tdmpc2_lean.patching.requirements import PLACE, Requirement
from tdmpc2_lean.patching.source import BOM, SourceText, tree_of
from tdmpc2_lean.patching.structure import DEFINITIONS, FUNCTIONS, Definition, definitions_within

# A script that makes objects by names in texts may make any.
BY_NAME = {"instantiate", "import_module", "__import__", "get_class", "get_object", "locate"}
MOST_FILES = 200  # of a checkout, that are looked through from a script on


def unmet(requirement: Requirement, files: Mapping[str, bytes], language: str) -> str | None:
    """What was found instead of what is required, as the rest of a sentence; None if all is well."""
    if files.get(requirement.file) is None:
        return "the file is missing"
    try:
        if requirement.unless:
            text = SourceText.read(files[requirement.file]).text
            if anchors.matches(tree_of(text, language), requirement.unless, language, text):
                return None
        return _LOOKS[requirement.kind](requirement, files, language)
    except NotFound as error:
        return str(error)
    except (SyntaxError, UnicodeDecodeError):
        return None  # whoever edits the file says so


def expected(requirement: Requirement) -> str:
    """What is required, as a line for users."""
    what = " or ".join(f"`{one}`" for one in requirement.what)
    return {
        "find": f"{what} is needed there",
        "lacks": f"{what} must not be there",
        "derives": f"must derive from {what}",
        "arguments": f"must take {what}",
        "free": f"{', '.join(f'`{one}`' for one in requirement.what)} must be free",
        "reaches": f"must run {what}",
    }[requirement.kind]


# ------------------------------------------------------------------------------------------------- one look a kind


def _matches(requirement: Requirement, files: Mapping[str, bytes], language: str) -> list[int]:
    """The lines of what any of the patterns finds."""
    text = SourceText.read(files[requirement.file]).text
    where = anchors.scope(tree_of(text, language), requirement.inside)
    found = [match for pattern in requirement.what for match in anchors.matches(where, pattern, language, text)]
    return sorted(match.node.range().start.line + 1 for match in found)


def _find(requirement, files, language):
    return None if _matches(requirement, files, language) else "it is not"


def _lacks(requirement, files, language):
    lines = _matches(requirement, files, language)
    return f"it is, at line {', '.join(map(str, lines))}" if lines else None


def _derives(requirement, files, language):
    wanted = requirement.what[0].rpartition(".")[2]
    seen = []
    for one in ancestry(files, requirement.file, requirement.inside):
        if wanted in one.bases:
            return None
        seen.append(f"{one.node.name}({', '.join(one.bases)})")
    return "it is " + ", ".join(seen)


def _arguments(requirement, files, language):
    node = definition(files[requirement.file], requirement.inside)
    if not isinstance(node, FUNCTIONS):
        return "it is a class"
    arguments = node.args
    plain = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    needed = plain[: len(plain) - len(arguments.defaults)]
    needed += [
        one.arg for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None
    ]
    found = ", ".join(name for name in needed if name not in ("self", "cls"))
    return None if found == requirement.what[0] else f"it takes `{found}`"


def _free(requirement, files, language):
    node = definition(files[requirement.file], requirement.inside)
    for name in requirement.what:
        if isinstance(node, ast.ClassDef):
            taken = taken_in_class(files, requirement.file, requirement.inside, name)
        else:
            taken = next((f"line {line}" for line in _bound_in(node, name)), None)
        if taken:
            return f"`{name}` is taken: {taken}"
    return None


def _reaches(requirement, files, language):
    place = PLACE.fullmatch(requirement.what[0])
    if files.get(place["file"]) is None:
        return f"{place['file']} is missing"
    owner, _, method = place["inside"].partition(".")
    return _Reach(files, place["file"], owner, method).missing(requirement.file)


_LOOKS = {
    "find": _find, "lacks": _lacks, "derives": _derives, "arguments": _arguments, "free": _free, "reaches": _reaches,
}  # fmt: skip


# ------------------------------------------------------------------------------------------------- what code says


@lru_cache(maxsize=64)
def module_of(data: bytes) -> ast.Module:
    """The syntax tree of a Python file, which nobody changes. SyntaxError, UnicodeDecodeError."""
    return parse(data.removeprefix(BOM).decode("utf-8"))


def definition(data: bytes, inside: str) -> Definition:
    """The class or function of that dotted name. NotFound."""
    node: ast.AST = module_of(data)
    for part in inside.split("."):
        found = [one for one in definitions_within(node) if one.name == part]
        if not found:
            raise NotFound(f"there is no {inside}")
        node = found[-1]
    return node


@dataclass(frozen=True)
class Known:
    """A class of the checkout: where it stands, and the last parts of its bases' names."""

    file: str
    node: ast.ClassDef

    @property
    def bases(self) -> list[str]:
        return [_last(base) for base in self.node.bases]


def _last(node: ast.AST) -> str:
    return ast.unparse(node).partition("(")[0].rpartition(".")[2]


def ancestry(files: Mapping[str, bytes], file: str, inside: str) -> Iterator[Known]:
    """The class, then those of its bases that the checkout defines, theirs, and so on."""
    todo, seen = [(file, inside)], set()
    while todo:
        place = todo.pop(0)
        if place in seen:
            continue
        seen.add(place)
        try:
            node = definition(files[place[0]], place[1])
        except (NotFound, SyntaxError, UnicodeDecodeError):
            if place == (file, inside):
                raise
            continue
        if not isinstance(node, ast.ClassDef):
            continue
        yield Known(place[0], node)
        names = imported(files, place[0])
        for base in node.bases:
            name = ast.unparse(base)
            if name in names:
                todo.append(names[name])
            elif isinstance(base, ast.Name):
                todo.append((place[0], name))


def imported(files: Mapping[str, bytes], file: str) -> dict[str, tuple[str, str]]:
    """{name in a file: (file of the checkout, name there)} of what it imports from the checkout's own files."""
    found = {}
    for node in ast.walk(module_of(files[file])):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if place := _file_of(files, file, node.module or "", node.level, alias.name):
                    found[alias.asname or alias.name] = place
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if place := _file_of(files, file, alias.name, 0, ""):
                    found[alias.asname or alias.name] = place
    return found


def _file_of(files, file: str, module: str, level: int, name: str) -> tuple[str, str] | None:
    """Where `from MODULE import NAME` leads to in the checkout: (file, NAME), or a submodule (file, '')."""
    folders = PurePosixPath(file).parents
    if level:
        starts = [folders[level - 1]] if level - 1 < len(folders) else []
    else:
        starts = list(folders)
    for start in starts:
        path = start / module.replace(".", "/") if module else start
        if name and _is_there(files, str(path / f"{name}.py")):
            return str(path / f"{name}.py"), ""
        for one in (path.with_suffix(".py") if module else None, path / "__init__.py"):
            if one is not None and _is_there(files, str(one)):
                return str(one), name
    return None


def _is_there(files: Mapping[str, bytes], path: str) -> bool:
    try:
        return files.get(path) is not None
    except UserError:  # a link, a folder
        return False


def _bound_in(node: Definition, name: str) -> Iterator[int]:
    """Lines of a function at which a parameter or variable of that name gets a value."""
    for one in ast.walk(node):
        if isinstance(one, ast.arg) and one.arg == name:
            yield one.lineno
        elif isinstance(one, ast.Name) and one.id == name and not isinstance(one.ctx, ast.Load):
            yield one.lineno
        elif isinstance(one, DEFINITIONS) and one is not node and one.name == name:
            yield one.lineno


def uses_of_global(data: bytes, name: str) -> list[int]:
    """Lines of a Python file at which a name is used that means the module's. [] if the module itself binds it."""
    module = module_of(data)
    lines: list[int] = []

    def look(node: ast.AST, own: bool) -> None:
        if isinstance(node, ast.Name) and node.id == name and not own:
            lines.append(node.lineno)
        inner = own or (isinstance(node, FUNCTIONS) and _binds(node, name))
        for child in ast.iter_child_nodes(node):
            look(child, inner)

    if _binds(ast.Module([one for one in module.body if not isinstance(one, DEFINITIONS)], []), name):
        return []
    look(module, False)
    return lines


def _binds(node: ast.AST, name: str) -> bool:
    imports = (alias for one in ast.walk(node) if isinstance(one, ast.Import | ast.ImportFrom) for alias in one.names)
    if any((alias.asname or alias.name.partition(".")[0]) == name for alias in imports):
        return True
    return any(True for _ in _bound_in(node, name))


def taken_in_class(files: Mapping[str, bytes], file: str, inside: str, name: str) -> str | None:
    """What a class, or one of its bases in the checkout, has by that name already; None if nothing.

    A method, a property, an attribute of the class, or one that a method gives to `self`.
    """
    for one in ancestry(files, file, inside):
        line = next(iter(sorted(_lines_of_member(one.node, name))), None)
        if line is not None:
            return f"{one.node.name} has it at line {line} of {one.file}"
    return None


def _lines_of_member(node: ast.ClassDef, name: str) -> Iterator[int]:
    for inner in definitions_within(node):
        if inner.name == name:
            yield inner.lineno
        if isinstance(inner, FUNCTIONS) and (parameters := [*inner.args.posonlyargs, *inner.args.args]):
            for one in ast.walk(inner):
                if (
                    isinstance(one, ast.Attribute)
                    and one.attr == name
                    and isinstance(one.ctx, ast.Store)
                    and isinstance(one.value, ast.Name)
                    and one.value.id == parameters[0].arg
                ):
                    yield one.lineno
    for statement in node.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(target)):
                    yield statement.lineno


# ------------------------------------------------------------------------------------------------- what a script runs


class _Reach:
    """Follows a script through the checkout's own modules to a class's method."""

    def __init__(self, files: Mapping[str, bytes], file: str, owner: str, method: str):
        self.files, self.file, self.owner, self.method = files, file, owner, method
        self.overridden: list[str] = []
        self.made: list[str] = []

    def missing(self, script: str) -> str | None:
        """None if the script leads there; else what it runs instead."""
        todo, seen = [script], set()
        while todo and len(seen) < MOST_FILES:
            file = todo.pop(0)
            if file in seen:
                continue
            seen.add(file)
            try:
                used = self._used(file)
            except (SyntaxError, UnicodeDecodeError):
                continue
            names = imported(self.files, file)
            if file == script and any(name in BY_NAME for name in used):
                return None  # `patch try` sees whether it does
            for name in used:
                outer, _, inner = name.rpartition(".")
                of_module = names.get(outer, ("", "none"))
                place = (of_module[0], inner) if not of_module[1] else names.get(name) or (file, name)
                if place == (self.file, self.owner):
                    return None
                if place[1] and self._leads_by_inheritance(*place):
                    return None
                if place[0] != file and place[0] != self.file:
                    todo.append(place[0])
        if self.overridden:
            return f"it makes {' and '.join(dict.fromkeys(self.overridden))}"
        others = ", ".join(dict.fromkeys(self.made))
        return f"it makes no {self.owner}" + (f", but {others}" if others else "")

    def _used(self, file: str) -> list[str]:
        """Names that a module uses, not only imports or derives from; dotted ones too."""
        found: list[str] = []

        def look(node: ast.AST) -> None:
            if isinstance(node, ast.Import | ast.ImportFrom):
                return
            if isinstance(node, ast.ClassDef):
                for part in (*node.decorator_list, *node.body):
                    look(part)
                return
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found.append(node.id)
            elif isinstance(node, ast.Attribute):
                found.extend((ast.unparse(node), node.attr) if node.attr in BY_NAME else (ast.unparse(node),))
            for child in ast.iter_child_nodes(node):
                look(child)

        look(module_of(self.files[file]))
        return list(dict.fromkeys(found))

    def _leads_by_inheritance(self, file: str, name: str) -> bool:
        """Whether a class is derived from the one, and its own method of the name, if it has one, calls the one's."""
        if self.files.get(file) is None:
            return False
        try:
            line = list(ancestry(self.files, file, name))
        except (NotFound, SyntaxError, UnicodeDecodeError):
            return False
        if any(inner.name == self.method for one in line for inner in definitions_within(one.node)):
            self.made.append(f"{name} ({file})")
        for one in line:
            if (one.file, one.node.name) == (self.file, self.owner):
                return True
            own = [inner for inner in definitions_within(one.node) if inner.name == self.method]
            if own and not any(_calls_super(inner, self.method) for inner in own):
                if any((other.file, other.node.name) == (self.file, self.owner) for other in line):
                    self.overridden.append(f"{name}, which has a `{self.method}` of its own ({one.file})")
                return False
        return False


def _calls_super(node: ast.AST, method: str) -> bool:
    return any(
        isinstance(one, ast.Attribute)
        and one.attr == method
        and isinstance(one.value, ast.Call)
        and _last(one.value.func) == "super"
        for one in ast.walk(node)
    )
