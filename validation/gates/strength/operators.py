"""The edits that make mutants: each replaces one span of bytes and leaves all others.

`edits_of_python` finds them by the syntax tree. What cannot change behaviour is left alone: docstrings, annotations,
what is only printed or shown, messages of errors. `leaves` has those of configurations.
"""

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tdmpc2_lean.parsing import parse

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPARISONS = {
    ast.Lt: ("<", ("<=", ">")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: (r"is\s+not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: (r"not\s+in", ("in",)),
}
ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
}
AUGMENTED = {ast.Add: "-=", ast.Sub: "+=", ast.Mult: "/=", ast.Div: "*=", ast.FloorDiv: "*=", ast.Pow: "*="}
ORDERED = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
# Functions of one main argument whose result can stand where that argument does.
PASSED_THROUGH = set(
    "abs ceil clamp clip deepcopy exp float floor int log log_softmax max maximum min minimum nan_to_num relu round sg "
    "sigmoid sign softmax sqrt square stop_gradient symexp symlog symexp_twohot tanh".split()
)
PRINTING = re.compile(r"(^|\.)(print|colored|cprint|warn|filterwarnings|info|debug|warning|tqdm|format_time)$")
SHOWN = {"__repr__", "__str__"}
CONTEXT = b"__import__('contextlib').nullcontext()"


@dataclass(frozen=True)
class Mutation:
    """One edit of a file.

    start, end: the bytes replaced; text: what stands there instead. operator: which kind of edit; what: in words.
    line: of the edit, from 1; lines: first and last line of the statement that it changes. function: its qualified
    name, empty for a module's own statements. structure: of the statement and the edit, without positions; statement:
    of the statement alone. inside: the tests of the `if`s around. part: the smallest argument or test around the edit,
    else what the statement calls and sets, as text.
    """

    start: int
    end: int
    text: bytes
    operator: str
    what: str
    line: int
    lines: tuple[int, int]
    function: str = ""
    structure: str = ""
    statement: str = ""
    inside: tuple[str, ...] = ()
    part: str = ""

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.text + source[self.end :]


@dataclass
class Position:
    """Where the walk is: the statement, the path from it to the node, the names of the functions and classes around.

    conditions: the tests of the `if`s around, as text. bound: names that had a value before, in this function.
    """

    statement: ast.stmt | None = None
    path: tuple = ()
    names: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    bound: set = field(default_factory=set)


def edits_of_python(source: bytes) -> list[Mutation]:
    """All edits of a Python file, in the order of their places. SyntaxError where it is none."""
    walk = Walk(source)
    walk.block(walk.tree.body, Position())
    unique = {(edit.start, edit.end, edit.text): edit for edit in reversed(walk.edits)}
    return sorted(unique.values(), key=lambda edit: (edit.start, edit.end, edit.operator, edit.text))


class Walk:
    """Walks a module's tree and collects edits."""

    def __init__(self, source: bytes):
        self.source = source
        self.tree = parse(source)
        lines = source.splitlines(keepends=True)
        self.starts = [0]
        for line in lines:
            self.starts.append(self.starts[-1] + len(line))
        self.modules = {
            (alias.asname or alias.name).split(".")[0]
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        self.choices = self.sets_of_words()
        self.edits: list[Mutation] = []
        self.place = Position()
        self.part = ""

    # Text

    def span(self, node: ast.AST) -> tuple[int, int]:
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def text(self, node: ast.AST) -> bytes:
        start, end = self.span(node)
        return self.source[start:end]

    def in_brackets(self, node: ast.AST, after: int) -> tuple[int, int]:
        """The span of an expression with the round brackets around it, none of which opens before `after`."""
        start, end = self.span(node)
        while True:
            left, right = start - 1, end
            while left >= after and self.source[left : left + 1].isspace():
                left -= 1
            while right < len(self.source) and self.source[right : right + 1].isspace():
                right += 1
            if left < after or self.source[left : left + 1] != b"(" or self.source[right : right + 1] != b")":
                return start, end
            start, end = left, right + 1

    def between(self, pattern: str, left: ast.AST, right: ast.AST) -> tuple[int, int] | None:
        """The span of an operator between two expressions; None where comments stand there."""
        start, end = self.span(left)[1], self.span(right)[0]
        gap = self.source[start:end]
        found = re.search(pattern.encode(), gap)
        if found is None or b"#" in gap:
            return None
        return start + found.start(), start + found.end()

    def sets_of_words(self) -> dict[str, list[str]]:
        """For each word of a literal collection of words its neighbours there, such as the names of modes."""
        found: dict[str, list[str]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
                words = getattr(node.comparators[0], "elts", [])
                if len(words) > 1 and all(isinstance(w, ast.Constant) and isinstance(w.value, str) for w in words):
                    names = [word.value for word in words]
                    for name in names:
                        found.setdefault(name, [other for other in names if other != name])
        return found

    # Collecting

    def add(self, operator: str, node: ast.AST, span: tuple[int, int], text: bytes, what: str = "") -> None:
        start, end = span
        was = self.source[start:end]
        if was == text:
            return
        place, statement = self.place, self.place.statement
        head = header(statement)
        first, last = statement.lineno, statement.end_lineno
        body = getattr(statement, "body", None)
        if body and isinstance(body, list):
            first = min([first, *(d.lineno for d in getattr(statement, "decorator_list", []))])
            last = max(first, body[0].lineno - 1, getattr(node, "end_lineno", first))
        self.edits.append(
            Mutation(
                start,
                end,
                text,
                operator,
                what or f"{shown(was)} -> {shown(text)}",
                getattr(node, "lineno", first),
                (first, last),
                ".".join(place.names),
                f"{head}|{place.path}|{operator}|{text.decode('utf-8', 'replace')}",
                head,
                place.conditions,
                self.part,
            )
        )

    # Statements

    def block(self, body: list[ast.stmt], place: Position) -> None:
        for number, statement in enumerate(body):
            is_docstring = number == 0 and is_text(statement)
            if not is_docstring:
                self.statement(statement, place)

    def statement(self, node: ast.stmt, place: Position) -> None:
        here = Position(node, (), place.names, place.conditions, place.bound)
        self.place, self.part = here, self.called_and_set(node)
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal | ast.Pass) or is_text(node):
            return
        if isinstance(node, FUNCTION):
            self.function(node, here)
        elif isinstance(node, ast.ClassDef):
            inner = Position(None, (), (*place.names, node.name), place.conditions, set())
            self.block(node.body, inner)
        elif isinstance(node, ast.If):
            if "__name__" in ast.unparse(node.test):
                return
            with self.within(node.test):
                self.negate(node.test)
                self.expression(node.test, ("test",))
            test = ast.unparse(node.test)
            self.block(node.body, Position(None, (), place.names, (*place.conditions, test), place.bound))
            self.block(node.orelse, Position(None, (), place.names, (*place.conditions, f"not ({test})"), place.bound))
        elif isinstance(node, ast.For | ast.While):
            self.expression(node.iter if isinstance(node, ast.For) else node.test, ("loop",))
            if isinstance(node, ast.While):
                self.negate(node.test)
            else:
                place.bound.update(names_of(node.target))
            self.block(node.body, place)
            self.block(node.orelse, place)
        elif isinstance(node, ast.With):
            self.with_(node, place)
        elif isinstance(node, ast.Try):
            for part in (node.body, *(handler.body for handler in node.handlers), node.orelse, node.finalbody):
                self.block(part, place)
        else:
            self.simple(node, place)

    def called_and_set(self, node: ast.stmt) -> str:
        """The text of what a statement sets, and of the function that it calls or whose result it sets."""
        value = getattr(node, "value", None)
        found = [*getattr(node, "targets", []), value.func if isinstance(value, ast.Call) else None]
        return " ".join(re.sub(r"\(.*\)", "()", ast.unparse(part)) for part in found if part is not None)

    @contextmanager
    def within(self, part: ast.AST, *conditions: str) -> Iterator[None]:
        """Edits made here are of a part of the statement, an argument or a test, or of what a condition leads to."""
        before, place = (self.part, self.place.conditions), self.place
        self.part = self.text(part).decode("utf-8", "replace")
        place.conditions = (*place.conditions, *conditions)
        try:
            yield
        finally:
            self.part, place.conditions = before

    def function(self, node, here: Position) -> None:
        if node.name in SHOWN:
            return
        for number, decorator in enumerate(node.decorator_list):
            start = self.source.rfind(b"@", 0, self.span(decorator)[0])
            after = node.decorator_list[number + 1 :]
            end = self.source.rfind(b"@", 0, self.span(after[0])[0]) if after else self.span(node)[0]
            here.path = ("decorator", number)
            self.add("decorator", decorator, (start, end), b"", f"without @{shown(self.text(decorator))}")
        defaults = [*node.args.defaults, *(value for value in node.args.kw_defaults if value)]
        for number, default in enumerate(defaults):
            self.expression(default, ("default", number))
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        bound = {argument.arg for argument in arguments}
        self.block(node.body, Position(None, (), (*here.names, node.name), here.conditions, bound))

    def with_(self, node: ast.With, place: Position) -> None:
        for number, item in enumerate(node.items):
            here = self.place
            if item.optional_vars is None:
                here.path = ("with", number)
                self.add("context", item.context_expr, self.span(item.context_expr), CONTEXT, self.without(item))
            self.expression(item.context_expr, ("with", number))
        self.block(node.body, place)

    def without(self, item: ast.withitem) -> str:
        return f"without the context {shown(self.text(item.context_expr))}"

    def simple(self, node: ast.stmt, place: Position) -> None:
        if is_printing(node):
            return
        droppable = isinstance(node, ast.Expr | ast.AugAssign | ast.Delete | ast.Raise | ast.Assert)
        targets = []
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {name for target in targets for name in names_of(target)}
            stored = any(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)
            droppable = stored or bool(names) and names <= place.bound
            if isinstance(node, ast.AnnAssign) and node.value is None:
                return
        if droppable:
            if isinstance(node, ast.Assert):
                self.part = ast.unparse(node.test)
            operator = "guard" if isinstance(node, ast.Raise | ast.Assert) else "statement"
            self.add(operator, node, self.span(node), b"pass", f"without {shown(self.text(node))}")
        if isinstance(node, ast.Continue | ast.Break):
            self.add("statement", node, self.span(node), b"pass", f"without {type(node).__name__.lower()}")
            other = b"break" if isinstance(node, ast.Continue) else b"continue"
            self.add("loop", node, self.span(node), other)
        if isinstance(node, ast.AugAssign):
            span = self.between(r"[-+*/%@&|^<>]+=", node.target, node.value)
            if span and type(node.op) in AUGMENTED:
                self.add("arithmetic", node, span, AUGMENTED[type(node.op)].encode())
            self.expression(node.value, ("value",))
        elif isinstance(node, ast.Return) and node.value is not None:
            empty = isinstance(node.value, ast.Constant) and node.value.value is None
            if not empty:
                self.add("return", node, self.span(node.value), b"None")
            elements = getattr(node.value, "elts", []) if isinstance(node.value, ast.Tuple) else []
            self.swaps(elements, self.span(node.value)[0])
            self.expression(node.value, ("value",))
        elif isinstance(node, ast.Assert):
            with self.within(node.test):
                self.expression(node.test, ("test",))
        elif isinstance(node, ast.Raise):
            pass
        elif isinstance(node, ast.Expr):
            self.expression(node.value, ("value",))
        elif targets:
            for number, target in enumerate(targets):
                if isinstance(target, ast.Subscript):
                    self.expression(target, ("target", number))
            self.expression(node.value, ("value",))
            for target in targets:
                place.bound.update(names_of(target))

    # Expressions

    def expression(self, node: ast.expr, path: tuple) -> None:
        self.place.path = path
        if isinstance(node, ast.Constant):
            return self.constant(node)
        if isinstance(node, ast.JoinedStr):
            return self.inside(node, path, (ast.FormattedValue,))
        if isinstance(node, ast.UnaryOp):
            if isinstance(node.op, ast.USub) and is_number(node.operand):
                return self.number(node, -node.operand.value)
            if isinstance(node.op, ast.USub | ast.Not):
                self.add("sign", node, self.span(node), b"(" + self.text(node.operand) + b")")
        elif isinstance(node, ast.BinOp):
            self.binary(node)
        elif isinstance(node, ast.Compare):
            self.comparison(node)
        elif isinstance(node, ast.BoolOp):
            self.logical(node)
        elif isinstance(node, ast.IfExp):
            return self.either(node, path)
        elif isinstance(node, ast.Subscript):
            self.subscript(node)
        elif isinstance(node, ast.Call):
            if is_printed(node):
                return None
            self.call(node)
        elif isinstance(node, ast.Dict):
            self.entries(node)
        elif isinstance(node, ast.comprehension):
            for test in node.ifs:
                self.negate(test)
        return self.inside(node, path)

    def either(self, node: ast.IfExp, path: tuple) -> None:
        with self.within(node.test):
            self.negate(node.test)
            self.expression(node.test, (*path, "test"))
        test = ast.unparse(node.test)
        with self.within(node.body, test):
            self.expression(node.body, (*path, "body"))
        with self.within(node.orelse, f"not ({test})"):
            self.expression(node.orelse, (*path, "orelse"))

    def inside(self, node: ast.AST, path: tuple, kinds: tuple | None = None) -> None:
        for name, value in ast.iter_fields(node):
            if name == "annotation":
                continue
            for number, child in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(child, ast.expr | ast.comprehension | ast.keyword | ast.Slice) and (
                    kinds is None or isinstance(child, kinds)
                ):
                    if isinstance(node, ast.Call) and name in ("args", "keywords"):
                        with self.within(child):
                            self.expression(child, (*path, name, number))
                    else:
                        self.expression(child, (*path, name, number))

    def constant(self, node: ast.Constant) -> None:
        value, span = node.value, self.span(node)
        if isinstance(value, bool):
            self.add("boolean", node, span, str(not value).encode())
        elif isinstance(value, int | float):
            self.number(node, value)
        elif isinstance(value, str):
            if value:
                self.add("string", node, span, repr(value + "_").encode())
            for other in self.choices.get(value, []):
                self.add("choice", node, span, repr(other).encode())

    def number(self, node: ast.expr, value) -> None:
        if isinstance(value, complex):
            return
        seen = {value}
        for other in (value + 1, value - 1, value * 2, type(value)(0), -value):
            if other not in seen:
                seen.add(other)
                text = repr(other)
                self.add("number", node, self.span(node), (f"({text})" if other < 0 else text).encode())

    def binary(self, node: ast.BinOp) -> None:
        if type(node.op) not in ARITHMETIC or is_text_operand(node):
            return
        token, other = ARITHMETIC[type(node.op)]
        span = self.between(re.escape(token), node.left, node.right)
        if span is None:
            return
        start, end = self.span(node)
        left, right = self.source[start : span[0]].strip(), self.source[span[1] : end].strip()
        whole = b"((" + left + b") " + other.encode() + b" (" + right + b"))"
        self.add("arithmetic", node, (start, end), whole, f"{shown(self.text(node))}: {token} -> {other}")
        if isinstance(node.op, ORDERED) and ast.dump(node.left) != ast.dump(node.right):
            turned = b"((" + right + b") " + token.encode() + b" (" + left + b"))"
            self.add("operands", node, (start, end), turned, f"{shown(self.text(node))}: operands swapped")

    def comparison(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for number, operator in enumerate(node.ops):
            token, others = COMPARISONS[type(operator)]
            pattern = rf"\b{token}\b" if token[0].isalpha() else re.escape(token)
            span = self.between(pattern, operands[number], operands[number + 1])
            for other in others if span else ():
                what = f"{shown(self.text(node))}: {shown(self.source[slice(*span)])} -> {other}"
                self.add("comparison", node, span, other.encode(), what)

    def logical(self, node: ast.BoolOp) -> None:
        token, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        start, end = self.span(node)
        for number, (left, right) in enumerate(zip(node.values, node.values[1:], strict=False)):
            span = self.between(rf"\b{token}\b", left, right)
            if span is None:
                continue
            if len(node.values) == 2:
                what = f"{shown(self.text(node))}: {token} -> {other}"
                parts = self.source[start : span[0]].strip(), self.source[span[1] : end].strip()
                whole = b"((" + parts[0] + b") " + other.encode() + b" (" + parts[1] + b"))"
                self.add("logical", node, (start, end), whole, what)
                for part in parts:
                    self.add("operand", node, (start, end), b"(" + part + b")", f"{shown(self.text(node))}: one side")
            elif number:
                first = self.in_brackets(left, start)
                self.add("operand", left, (first[0], span[1]), b"", f"without {shown(self.text(left))} {token}")

    def negate(self, test: ast.expr) -> None:
        before = self.place.path
        self.place.path = (*before, "negated", type(test).__name__, test.lineno - self.place.statement.lineno)
        if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in (ast.Eq, ast.NotEq)):
            self.add("condition", test, self.span(test), b"(not (" + self.text(test) + b"))")
        self.place.path = before

    def subscript(self, node: ast.Subscript) -> None:
        index = node.slice
        for number, part in enumerate(index.elts if isinstance(index, ast.Tuple) else [index]):
            if not isinstance(part, ast.Slice):
                continue
            for bound in (part.lower, part.upper, part.step):
                if bound is None:
                    continue
                self.place.path = (*self.place.path, "bound", number)
                what = f"{shown(self.text(node))}: without the bound {shown(self.text(bound))}"
                self.add("bound", bound, self.in_brackets(bound, self.span(node.value)[1]), b"", what)
                if not is_constant_number(bound):
                    self.off_by_one(bound)

    def off_by_one(self, node: ast.expr) -> None:
        for sign in (b"+", b"-"):
            self.add("off-by-one", node, self.span(node), b"((" + self.text(node) + b") " + sign + b" 1)")

    def entries(self, node: ast.Dict) -> None:
        """Each entry of a literal table left out."""
        for number, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
            if key is None or not isinstance(key, ast.Constant):
                continue
            start, (_, end) = self.span(key)[0], self.in_brackets(value, self.span(key)[1])
            comma = re.compile(rb"\s*,").match(self.source, end)
            end = comma.end() if comma else end
            self.place.path = (*self.place.path, "entry", number)
            self.add("entry", key, (start, end), b"", f"without the entry {shown(self.source[start:end])}")

    def call(self, node: ast.Call) -> None:
        function_end = self.span(node.func)[1]
        opening = self.source.index(b"(", function_end)
        closing = self.span(node)[1] - 1
        arguments = sorted([*node.args, *node.keywords], key=lambda argument: self.span(argument))
        bare_generator = len(arguments) == 1 and isinstance(arguments[0], ast.GeneratorExp)
        spans = [self.in_brackets(argument, opening + 1) for argument in arguments]
        path = self.place.path
        for number, argument in enumerate(arguments if not bare_generator else ()):
            self.place.path = (*path, "argument", number)
            if len(arguments) == 1:
                span = (opening + 1, closing)
            elif number + 1 < len(arguments):
                span = (spans[number][0], spans[number + 1][0])
            else:
                span = (spans[number - 1][1], spans[number][1])
            what = f"{shown(self.text(node.func))}(...) without the argument {shown(self.text(argument))}"
            with self.within(argument):
                self.add("argument", argument, span, b"", what)
        self.place.path = path
        either_way = isinstance(node.func, ast.Name) and node.func.id in ("max", "min")
        if not either_way and not any(isinstance(argument, ast.Starred) for argument in node.args):
            self.swaps(node.args, opening + 1)
        if isinstance(node.func, ast.Name) and node.func.id == "range":
            for argument in node.args:
                if not is_constant_number(argument):
                    self.off_by_one(argument)
        self.unwrap(node)

    def unwrap(self, node: ast.Call) -> None:
        """A call replaced by what it is called on, or by its first argument."""
        function = node.func
        if isinstance(function, ast.Attribute) and not self.is_module(function.value):
            receiver = function.value
            is_super = isinstance(receiver, ast.Call) and getattr(receiver.func, "id", "") == "super"
            if is_super or isinstance(receiver, ast.Name) and receiver.id in ("self", "cls"):
                return
            if isinstance(self.place.statement, ast.Expr) and self.place.statement.value is node:
                return  # a statement left out
            dot = self.span(function)[1] - len(function.attr.encode())
            dot = self.source.rfind(b".", 0, dot)
            start = self.span(node)[0]
            text = self.source[start:dot].rstrip()
            if b"#" not in text:
                what = f"{shown(self.text(node))}: without .{function.attr}()"
                self.add("call", node, self.span(node), b"(" + text + b")", what)
            return
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in PASSED_THROUGH and node.args and not isinstance(node.args[0], ast.Starred):
            chosen = node.args if name in ("max", "min", "maximum", "minimum") else node.args[:1]
            for argument in chosen:
                what = f"{shown(self.text(node))}: only {shown(self.text(argument))}"
                self.add("call", node, self.span(node), b"(" + self.text(argument) + b")", what)

    def is_module(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.modules

    def swaps(self, elements: list[ast.expr], after: int) -> None:
        """Neighbours in a list of arguments or of returned values exchanged."""
        for left, right in zip(elements, elements[1:], strict=False):
            if ast.dump(left) == ast.dump(right):
                continue
            first, second = self.in_brackets(left, after), self.in_brackets(right, after)
            gap = self.source[first[1] : second[0]]
            text = self.source[second[0] : second[1]] + gap + self.source[first[0] : first[1]]
            what = f"{shown(self.text(left))} and {shown(self.text(right))} swapped"
            self.add("order", left, (first[0], second[1]), text, what)


def header(statement: ast.stmt) -> str:
    """The structure of a statement without the statements in it."""
    parts = []
    for name, value in ast.iter_fields(statement):
        if name in ("body", "orelse", "finalbody", "handlers"):
            continue
        for part in value if isinstance(value, list) else [value]:
            parts.append(f"{name}={ast.dump(part) if isinstance(part, ast.AST) else part!r}")
    return f"{type(statement).__name__}({', '.join(parts)})"


def shown(text: bytes) -> str:
    """Text on one line, cut."""
    line = " ".join(text.decode("utf-8", "replace").split())
    return line if len(line) <= 60 else line[:57] + "..."


def names_of(target: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str | type(...))
    )


def is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def is_constant_number(node: ast.AST) -> bool:
    return is_number(node.operand if isinstance(node, ast.UnaryOp) else node)


def is_text_operand(node: ast.BinOp) -> bool:
    """Whether a sum or a format is of text: another operator there only raises."""
    sides = (node.left, node.right)
    return any(isinstance(x, ast.JoinedStr) or isinstance(getattr(x, "value", None), str) for x in sides)


def is_printed(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and bool(PRINTING.search(ast.unparse(node.func)))


def is_printing(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and is_printed(statement.value)
