"""What of a file's text decides what it does: definitions of Python and keys of YAML in a form that can be compared.

`definitions` cuts Python into functions, classes, tables and the rest of the module; `settings` cuts YAML into keys.
Two definitions of one form do the same. Comments, formatting, docstrings and annotations that nothing reads, the names
of local variables and the place of a function in its module are not in the form; parameters are, because callers name
them.
`patch audit` and the gates' accounting stand on this. Everything here is a pure function of bytes.
"""

import ast
import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tdmpc2_lean.parsing import parse
from tdmpc2_lean.patching.annotations import without_inert
from tdmpc2_lean.patching.source import BOM

MODULE = "<module>"
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# Who uses one of these may see the names of local variables.
SEES_LOCALS = {"locals", "vars", "dir", "eval", "exec", "globals", "f_locals", "_getframe", "currentframe", "stack"}
# Decorators, by the last part of their names, that only return a function: their order does not matter.
ONLY_WRAP = {
    "property", "setter", "getter", "deleter", "staticmethod", "classmethod", "abstractmethod", "cached_property",
    "wraps", "cache", "lru_cache", "contextmanager", "dataclass", "no_grad", "inference_mode", "jit",
}  # fmt: skip


@dataclass(frozen=True)
class Item:
    """A statement of a module or class, where its place among the others may matter.

    label: of a definition or table its name, of another statement its form. binds, needs: the names that it gives
    values to, and those that must have theirs before it is carried out. acts: it may have effects of its own. imports:
    it imports, so that anything may be carried out.
    """

    label: str
    movable: bool
    binds: frozenset[str]
    needs: frozenset[str]
    acts: bool
    imports: bool

    def is_tied_to(self, other: "Item") -> bool:
        """Whether the order of the two can matter."""
        return bool(
            self.imports
            or other.imports
            or (self.acts and other.acts)
            or self.binds & other.needs
            or self.needs & other.binds
            or self.binds & other.binds
        )


@dataclass(frozen=True)
class Form:
    """A definition, or the statements of a class or module outside the definitions in it.

    name: dotted; `<module>` for a module's own statements, and a table of constants by its variable.
    text: the form. nodes: the syntax trees, in order; more than one where a name is defined more than once.
    items: of a class or module, what its order is about.
    """

    name: str
    kind: str
    text: str
    nodes: tuple[ast.AST, ...] = field(compare=False, repr=False)
    items: tuple[Item, ...] = field(default=(), compare=False, repr=False)

    def does_what(self, other: "Form") -> bool:
        """Whether the two do the same, wherever functions stand."""
        if (self.kind, self.text) != (other.kind, other.text):
            return False
        both = {item.label for item in self.items} & {item.label for item in other.items}
        return self._order(both) == other._order(both)

    def _order(self, labels: set[str]) -> set[tuple[str, str]]:
        """Pairs of which the first stands before the second, where that can matter."""
        items = [item for item in self.items if item.label in labels]
        return {
            (one.label, two.label)
            for at, one in enumerate(items)
            for two in items[at + 1 :]
            if (one.movable or two.movable) and one.is_tied_to(two)
        }


def definitions(data: bytes, docstrings: bool = False, annotations: bool = False) -> dict[str, Form]:
    """Dotted name -> form, in source order; functions within functions belong to these. SyntaxError if no Python.

    docstrings, annotations: whether these count, because something reads them.
    """
    module = parse(data.removeprefix(BOM).decode("utf-8"))
    if not annotations:
        without_inert(module, _only_wraps)
    if docstrings:
        for node in ast.walk(module):
            if isinstance(node, (*DEFINITIONS, ast.Module)) and (text := ast.get_docstring(node, clean=False)):
                kept = ast.Assign([ast.Name("__doc__", ast.Store())], ast.Constant(text))
                node.body[0] = ast.copy_location(kept, node.body[0])
    found: dict[str, list[tuple[str, str, ast.AST, tuple[Item, ...]]]] = {}

    def take(name: str, kind: str, text: str, node: ast.AST, items: tuple[Item, ...] = ()) -> None:
        found.setdefault(name, []).append((kind, text, node, items))

    def visit(node: ast.Module | ast.ClassDef, name: str) -> None:
        take(name, "class" if isinstance(node, ast.ClassDef) else "module", "", node)
        place = found[name][-1]
        at = len(found[name]) - 1
        prefix = "" if name == MODULE else name + "."
        own, items, bodies = [], [], _bodies(node)
        for statement in plain_statements(node.body):
            table = _table(statement) if name == MODULE else None
            if isinstance(statement, DEFINITIONS):
                label = prefix + statement.name
            elif table:
                label = table
                take(table, "table", _form(statement), statement)
            else:
                label = _form(_hollow(statement))
                own.append(label)
            items.append(_item(statement, label, bodies))
            for inner in [statement] if isinstance(statement, DEFINITIONS) else definitions_within(statement):
                if isinstance(inner, ast.ClassDef):
                    visit(inner, prefix + inner.name)
                else:
                    take(prefix + inner.name, "function", _form(inner), inner)
        head = ""
        if isinstance(node, ast.ClassDef):
            head = _form(ast.ClassDef(node.name, node.bases, node.keywords, [ast.Pass()], node.decorator_list))
        found[name][at] = (place[0], "\n".join([head, *own]), node, tuple(items))

    visit(module, MODULE)
    return {
        name: Form(
            name,
            parts[0][0] if len({part[0] for part in parts}) == 1 else "several",
            "\n\n".join(part[1] for part in parts),
            tuple(part[2] for part in parts),
            tuple(item for part in parts for item in part[3]),
        )
        for name, parts in found.items()
    }


def plain_statements(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """A body without what is compiled to nothing: strings and other constants that stand alone, `pass`."""
    return [
        one
        for one in body
        if not isinstance(one, ast.Pass) and not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
    ]


def definitions_within(statement: ast.AST) -> Iterator[Definition]:
    """The definitions of a scope, or under one of its statements: under `if` and `try` as well, not in each other."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, DEFINITIONS):
            yield child
        elif isinstance(child, ast.stmt | ast.excepthandler):
            yield from definitions_within(child)


def own_statements(node: ast.Module | ast.ClassDef) -> list[ast.stmt]:
    """The statements of a module or class that are neither definitions nor, in a module, tables."""
    is_module = isinstance(node, ast.Module)
    return [
        _hollow(one)
        for one in plain_statements(node.body)
        if not isinstance(one, DEFINITIONS) and not (is_module and _table(one))
    ]


def _table(statement: ast.stmt) -> str | None:
    """The variable to which a module's statement gives constants, such as a table of model sizes."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        try:
            ast.literal_eval(statement.value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None
        return statement.targets[0].id
    return None


def _hollow(statement: ast.stmt) -> ast.stmt:
    """A statement whose inner definitions are names only."""

    class Hollow(ast.NodeTransformer):
        def visit_FunctionDef(self, node):
            return ast.Expr(ast.Name(f"def {node.name}", ast.Load()))

        visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef

    return Hollow().visit(copy.deepcopy(statement)) if any(definitions_within(statement)) else statement


# ---------------------------------------------------------------------------------------------- the order of things


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _bodies(node: ast.Module | ast.ClassDef) -> dict[str, set[str]]:
    """All names in each definition of a module or class."""
    found: dict[str, set[str]] = {}
    for inner in definitions_within(node):
        found[inner.name] = found.get(inner.name, set()) | _names(inner)
    return found


def _at_once(statement: ast.stmt) -> list[ast.AST]:
    """What of a statement of a module or class is carried out where it stands."""
    if isinstance(statement, FUNCTIONS):
        arguments = statement.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        notes = [one.annotation for one in every if one is not None]
        parts = [*statement.decorator_list, *arguments.defaults, *arguments.kw_defaults, *notes, statement.returns]
        return [part for part in parts if part is not None]
    if isinstance(statement, ast.ClassDef):
        inner = [part for one in plain_statements(statement.body) for part in _at_once(one)]
        return [*statement.decorator_list, *statement.bases, *statement.keywords, *inner]
    return [statement]


def _only_wraps(decorator: ast.expr) -> bool:
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    last = named.attr if isinstance(named, ast.Attribute) else named.id if isinstance(named, ast.Name) else ""
    return last in ONLY_WRAP


def _item(statement: ast.stmt, label: str, bodies: Mapping[str, set[str]]) -> Item:
    parts = _at_once(statement)
    needs = set().union(*map(_names, parts))
    todo = list(needs)
    while todo:
        for name in bodies.get(todo.pop(), set()) - needs:
            needs.add(name)
            todo.append(name)
    is_definition = isinstance(statement, DEFINITIONS)
    binds = {statement.name} if is_definition else _bound(statement)
    if is_definition:
        decorators = list(statement.decorator_list)
        if isinstance(statement, ast.ClassDef):
            decorators += [one for inner in definitions_within(statement) for one in inner.decorator_list]
        acting = [part for part in parts if part not in decorators]
        acts = any(not _only_wraps(one) for one in decorators)
        acts = acts or any(isinstance(one, ast.Call) for part in acting for one in ast.walk(part))
        acts = acts or (isinstance(statement, ast.ClassDef) and bool(statement.bases or statement.keywords))
    else:
        acts = _table(statement) is None
    imports = any(isinstance(one, ast.Import | ast.ImportFrom) for part in parts for one in ast.walk(part))
    movable = is_definition or _table(statement) is not None
    return Item(label, movable, frozenset(binds), frozenset(needs - binds if is_definition else needs), acts, imports)


def _bound(statement: ast.stmt) -> set[str]:
    names = {one.id for one in ast.walk(statement) if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)}
    return names | {inner.name for inner in definitions_within(statement)}


# ------------------------------------------------------------------------------------------ the names of local things


def _form(node: ast.AST) -> str:
    """The tree as text: without positions and what is compiled to nothing, local variables by number."""
    return ast.dump(_Numbered().visit(copy.deepcopy(node)))


@dataclass
class _Scope:
    """A function's, class's or comprehension's names: which are its own, and which of these may have other names."""

    kind: str
    own: set[str] = field(default_factory=set)
    fixed: set[str] = field(default_factory=set)
    elsewhere: dict[str, str] = field(default_factory=dict)  # declared global or nonlocal
    number: int = 0


class _Numbered(ast.NodeTransformer):
    """Gives the local variables of functions numbers in the order in which they are met."""

    def __init__(self):
        self.scopes: list[_Scope] = []
        self.numbers: dict[tuple[int, str], str] = {}
        self.opened = 0

    def open(self, scope: _Scope) -> None:
        self.opened += 1
        scope.number = self.opened
        self.scopes.append(scope)

    def called(self, name: str) -> str:
        """What a name, used here, is called in the form."""
        for at in range(len(self.scopes) - 1, -1, -1):
            scope = self.scopes[at]
            if scope.kind == "class" and at != len(self.scopes) - 1:
                continue
            if scope.elsewhere.get(name) == "global":
                return name
            if name in scope.own and name not in scope.elsewhere:
                if name in scope.fixed:
                    return name
                return self.numbers.setdefault((scope.number, name), f"local {len(self.numbers)}")
        return name

    def visit_all(self, nodes: Iterable[ast.AST | None]) -> list:
        return [node if node is None else self.visit(node) for node in nodes]

    def visit_body(self, node) -> None:
        node.body = self.visit_all(plain_statements(node.body)) or [ast.Pass()]

    def generic_visit(self, node):
        for name in ("body", "orelse", "finalbody"):
            if isinstance(body := getattr(node, name, None), list):
                kept = plain_statements(body)
                setattr(node, name, kept or ([ast.Pass()] if body and name == "body" else []))
        if isinstance(node, ast.Constant):
            node.kind = None
        return super().generic_visit(node)

    def visit_Name(self, node: ast.Name):
        node.id = self.called(node.id)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler):
        node.name = node.name and self.called(node.name)
        return self.generic_visit(node)

    def visit_Global(self, node: ast.Global):
        node.names = sorted(node.names)
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal):
        node.names = sorted(self.called(name) for name in node.names)
        return node

    def visit_FunctionDef(self, node):
        node.decorator_list = self.visit_all(node.decorator_list)
        self.visit_header(node.args)
        node.returns = node.returns and self.visit(node.returns)
        self.open(_function_scope(node))
        self.visit_body(node)
        self.scopes.pop()
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_header(self, arguments: ast.arguments) -> None:
        arguments.defaults = self.visit_all(arguments.defaults)
        arguments.kw_defaults = self.visit_all(arguments.kw_defaults)
        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
            if one is not None and one.annotation is not None:
                one.annotation = self.visit(one.annotation)

    def visit_Lambda(self, node: ast.Lambda):
        self.visit_header(node.args)
        self.open(_function_scope(node))
        node.body = self.visit(node.body)
        self.scopes.pop()
        return node

    def visit_ClassDef(self, node: ast.ClassDef):
        node.decorator_list = self.visit_all(node.decorator_list)
        node.bases, node.keywords = self.visit_all(node.bases), self.visit_all(node.keywords)
        own = _own_names(node.body)
        self.open(_Scope("class", own.own, own.own, own.elsewhere))
        self.visit_body(node)
        self.scopes.pop()
        return node

    def visit_comprehension_of(self, node):
        first = node.generators[0]
        first.iter = self.visit(first.iter)
        targets = {
            one.id
            for generator in node.generators
            for one in ast.walk(generator.target)
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        }
        self.open(_Scope("comprehension", targets, set() if self._may_number(node) else targets))
        for generator in node.generators:
            generator.target = self.visit(generator.target)
            if generator is not first:
                generator.iter = self.visit(generator.iter)
            generator.ifs = self.visit_all(generator.ifs)
        for name in ("key", "value", "elt"):
            if hasattr(node, name):
                setattr(node, name, self.visit(getattr(node, name)))
        self.scopes.pop()
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_comprehension_of

    @staticmethod
    def _may_number(node: ast.AST) -> bool:
        return not _sees_locals(node)


def _sees_locals(node: ast.AST) -> bool:
    return any(
        (isinstance(one, ast.Name) and one.id in SEES_LOCALS)
        or (isinstance(one, ast.Attribute) and one.attr in SEES_LOCALS - {"eval", "stack"})
        for one in ast.walk(node)
    )


def _function_scope(node) -> _Scope:
    """The names of a function or lambda. Parameters stay, as does what a function, class or import is called."""
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    parameters = {one.arg for one in every if one is not None}
    scope = _own_names(node.body if isinstance(node.body, list) else [node.body])
    scope.own |= parameters
    scope.fixed |= parameters | {name for name in scope.own if name.startswith("__")}
    if _sees_locals(node):
        scope.fixed = set(scope.own)
    return scope


def _own_names(body: Sequence[ast.AST]) -> _Scope:
    """The names that statements give values to in their own scope."""
    scope = _Scope("function")

    def look(node: ast.AST, only_walrus: bool = False) -> None:
        if isinstance(node, ast.NamedExpr):
            scope.own.add(node.target.id)
            look(node.value, only_walrus)
            return
        if isinstance(node, DEFINITIONS):
            if not only_walrus:
                scope.own.add(node.name)
                scope.fixed.add(node.name)
            for part in _header(node):
                look(part, only_walrus)
            return
        if isinstance(node, ast.Lambda):
            for part in (*node.args.defaults, *node.args.kw_defaults):
                if part is not None:
                    look(part, only_walrus)
            return
        if isinstance(node, COMPREHENSIONS):
            look(node.generators[0].iter, only_walrus)
            for child in ast.iter_child_nodes(node):
                look(child, True)
            return
        if not only_walrus:
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                scope.own.add(node.id)
            elif isinstance(node, ast.ExceptHandler) and node.name:
                scope.own.add(node.name)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                names = {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
                scope.own |= names
                scope.fixed |= names
            elif isinstance(node, ast.Global | ast.Nonlocal):
                kind = "global" if isinstance(node, ast.Global) else "nonlocal"
                scope.elsewhere |= dict.fromkeys(node.names, kind)
            elif isinstance(node, ast.MatchAs | ast.MatchStar | ast.MatchMapping):
                name = node.rest if isinstance(node, ast.MatchMapping) else node.name
                if name:
                    scope.own.add(name)
                    scope.fixed.add(name)
        for child in ast.iter_child_nodes(node):
            look(child, only_walrus)

    for node in body:
        look(node)
    return scope


def _header(node: Definition) -> list[ast.AST]:
    """What of a definition is carried out in the scope around it."""
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *node.keywords]
    parts = [*node.decorator_list, *node.args.defaults, *node.args.kw_defaults]
    return [part for part in parts if part is not None]


# ------------------------------------------------------------------------------------------------------------- YAML

PLAIN_KEY = re.compile(r"[\w-]+")
INTEGER = re.compile(r"[-+]?\d[\d_]*")
NUMBER = re.compile(r"[-+]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][-+]?\d+)?")


def settings(data: bytes) -> dict[str, str]:
    """Dotted key -> its value as YAML has it, for each scalar and list; comments and formatting left out.

    A mapping whose keys are patterns also has `<order>`: the first or last that matches counts. A key that is there
    twice has both values. yaml.YAMLError, or UnicodeDecodeError, where it is no YAML.
    """
    import yaml

    found: dict[str, str] = {}

    def take(name: str, value: str) -> None:
        found[name] = f"{found[name]}, then {value}" if name in found else value

    def visit(node: yaml.Node, name: str) -> None:
        if not isinstance(node, yaml.MappingNode) or not node.value:
            take(name or "<document>", shown(node))
            return
        keys = [key.value if isinstance(key, yaml.ScalarNode) else shown(key) for key, _ in node.value]
        if not all(PLAIN_KEY.fullmatch(key) for key in keys):
            take(f"{name}.<order>" if name else "<order>", " ".join(keys))
        for key, (_, value) in zip(keys, node.value, strict=True):
            visit(value, f"{name}.{key}" if name else key)

    def shown(node: yaml.Node) -> str:
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        if isinstance(node, yaml.SequenceNode):
            return "[" + ", ".join(map(shown, node.value)) + "]"
        return "{" + ", ".join(f"{shown(key)}: {shown(value)}" for key, value in node.value) + "}"

    node = yaml.compose(data.decode("utf-8"), Loader=yaml.SafeLoader)
    if node is not None:
        visit(node, "")
    return found


def _scalar(node) -> str:
    """A scalar, quoted where it is a text for certain; numbers in one spelling, 1 and 1.0 apart."""
    text = node.value
    tag = "" if node.tag.startswith("tag:yaml.org,2002:") else node.tag + " "
    if node.style is not None:
        return tag + repr(text)
    if INTEGER.fullmatch(text) and not re.match(r"[-+]?0\d", text):
        return tag + str(int(text.replace("_", "")))
    if NUMBER.fullmatch(text) and not re.match(r"[-+]?0\d", text):
        return tag + repr(float(text.replace("_", "")))
    return tag + text


def reads_docstrings(files: Iterable[bytes]) -> bool:
    """Whether any of these Python files may read a docstring."""
    return any(b"__doc__" in data or b"getdoc" in data or b"getsource" in data for data in files)
