"""Which changed statements the gates executed: marks in the changed functions, and nowhere else.

`marks_of` says where a change can be seen: before each changed statement; before what follows one that was left out;
around a changed expression that is not always evaluated, such as one side of a conditional; around a changed condition,
once for each way in which it can come out; and, for a changed default of a parameter, where a function begins, if the
parameter has that value. A process of a gate that imports the subject
reads its changed modules with a call at each mark (`install`). The call returns what it is given and draws no random
number, so no bit of what is computed changes, and unchanged functions run as they are.
"""

import ast
import contextvars
import dataclasses
import importlib.abc
import importlib.machinery
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from tdmpc2_lean.parsing import parse
from tdmpc2_lean.patching.source import BOM
from tdmpc2_lean.patching.structure import DEFINITIONS, FUNCTIONS, Form, definitions, plain_statements

MARK = "__tdmpc2_lean_executed__"
BEFORE, BEGIN, AROUND, DEFAULT = "before", "begin", "around", "default"
MET, UNMET = "met", "unmet"  # of a condition; in pairs
Place = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class Mark:
    """A place in a file where execution is seen.

    number: of this mark among all of a subject. change: the id of the change. file: path from the code folder.
    kind: before a statement, where a function begins, around an expression, around a condition that comes out true, or
    false, or where a function begins if a parameter has its default. place: type of the node, first line and column,
    last line and column. parameter, value: of a default its name, and its value as Python would write it.
    """

    number: int
    change: str
    file: str
    kind: str
    place: Place
    parameter: str = ""
    value: str = ""

    @property
    def words(self) -> str:
        """Where it is, for people."""
        if self.kind == DEFAULT:
            return f"the default {self.parameter}={self.value}"
        if self.kind in (MET, UNMET):
            return f"line {self.place[1]} with its condition (column {self.place[2] + 1}) {self.kind}"
        return ("part of " if self.kind == AROUND else "") + f"line {self.place[1]}"


def marks_of(changes: Iterable) -> list[Mark]:
    """The marks of changes (`accounting.CodeChange`); none for what is no Python, is gone, or is a table."""
    marks: list[Mark] = []
    for change in changes:
        if change.after is None or change.what == "table":
            continue
        for kind, node, *more in dict.fromkeys(places_of(change.before, change.after)):
            marks.append(Mark(len(marks), change.id, change.file, kind, node, *more))
    return marks


def all_functions(files: Mapping[str, bytes]) -> list[Mark]:
    """A mark where each function begins, to see which ones a gate executes of code without a change.

    files: as a subject's.
    """
    marks: list[Mark] = []
    for file, data in files.items():
        if not file.endswith(".py"):
            continue
        try:
            forms = definitions(data)
        except (SyntaxError, ValueError):
            continue
        for name, form in forms.items():
            for node in form.nodes:
                if isinstance(node, FUNCTIONS):
                    marks.append(Mark(len(marks), f"{file}:{name}", file, BEGIN, place_of(node)))
    return marks


def only_bodies_differ(change) -> bool:
    """Whether a change is within bodies of functions, so that a run that calls none of these is the same run.

    Not so where parameters, their defaults or decorators are other ones: those are evaluated without a call.
    """
    if change.kind != "changed" or change.what != "function" or change.before is None or change.after is None:
        return False
    old, new = change.before.nodes, change.after.nodes
    functions = all(isinstance(node, FUNCTIONS) for node in (*old, *new))
    return functions and [head_of(node) for node in old] == [head_of(node) for node in new]


def place_of(node: ast.AST) -> Place:
    return (type(node).__name__, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)


# ---------------------------------------------------------------------------------------------- where a change is seen


@dataclass(frozen=True)
class PlacedStatement:
    """A statement among others: how deep it stands, its form without the statements in it, and its node."""

    depth: int
    text: str
    node: ast.AST

    @property
    def key(self) -> tuple[int, str]:
        return self.depth, self.text


def lines_of(form: Form | None) -> list[PlacedStatement]:
    """The statements of a function in order, those within others after these; of a class or module its own ones."""
    lines: list[PlacedStatement] = []

    def visit(node: ast.AST, depth: int, whole: bool) -> None:
        lines.append(PlacedStatement(depth, head_of(node), node))
        for name in ("body", "orelse", "handlers", "finalbody"):
            for child in plain_statements(getattr(node, name, None) or []):
                if whole or not isinstance(child, DEFINITIONS):
                    visit(child, depth + 1, whole)

    for node in form.nodes if form else ():
        visit(node, 0, isinstance(node, FUNCTIONS))
    return lines


def head_of(node: ast.AST) -> str:
    """The form of a statement without those in it."""
    fields = {}
    for name, value in ast.iter_fields(node):
        inner = name in ("body", "orelse", "handlers", "finalbody") and isinstance(value, list)
        fields[name] = [f"{name} of {bool(value)}"] if inner else value
    parts = []
    for name, value in fields.items():
        values = value if isinstance(value, list) else [value]
        parts.append(name + "=" + ",".join(ast.dump(one) if isinstance(one, ast.AST) else repr(one) for one in values))
    return type(node).__name__ + "(" + ";".join(parts) + ")"


def places_of(before: Form | None, after: Form) -> Iterator[tuple]:
    """(kind, place, and of a default its parameter and value) of everything that must be seen of a change."""
    old, new = lines_of(before), lines_of(after)
    matcher = SequenceMatcher(None, [line.key for line in old], [line.key for line in new], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "delete":
            yield where_left_out(old[i1].depth, new, j1)
        elif tag != "equal":
            paired = i2 - i1 == j2 - j1
            for at in range(j1, j2):
                # The first line of both is the definition itself.
                pair = old[i1 + at - j1].node if paired or (at == i1 == 0 and old) else None
                yield from seen_of(pair, new[at].node)
            if i2 - i1 > j2 - j1:
                yield where_left_out(old[i2 - 1].depth, new, j2)
    if not isinstance(after.nodes[0], ast.Module) and old and new and [x.key for x in old] == [x.key for x in new]:
        yield BEGIN, place_of(after.nodes[0])


def where_left_out(depth: int, new: list[PlacedStatement], at: int) -> tuple:
    """Where a statement that is gone would have been carried out: before what follows it, or what came before it."""
    near = [new[one] for one in (at, at - 1) if 0 < one < len(new)]
    for line in near:
        if line.depth == depth:
            return BEFORE, place_of(line.node)
    above = [line for line in new[:at] if line.depth < depth]
    line = above[-1] if above else new[0]
    if isinstance(line.node, ast.Module):
        return BEFORE, place_of(new[-1].node) if len(new) > 1 else ("Module", 1, 0, 1, 0)
    return (BEGIN if isinstance(line.node, DEFINITIONS) else BEFORE), place_of(line.node)


def seen_of(before: ast.AST | None, after: ast.AST) -> Iterator[tuple]:
    """What must be seen of a statement that is new, or stands in the place of another."""
    if isinstance(after, ast.Module):
        return
    if isinstance(after, FUNCTIONS):
        yield BEGIN, place_of(after)
        if isinstance(before, FUNCTIONS):
            yield from defaults_of(before, after)
        return
    if isinstance(after, ast.ClassDef | ast.excepthandler):
        yield BEGIN, place_of(after)
        return
    yield BEFORE, place_of(after)
    if type(before) is not type(after):
        yield from sometimes_in(after)
        yield from outcomes_in(after, after)
        return
    for node in differing(before, after):
        branch = branch_around(after, node)
        if branch is not None:
            yield AROUND, place_of(branch)
        yield from outcomes_in(after, node)


def defaults_of(before: ast.FunctionDef, after: ast.FunctionDef) -> Iterator[tuple]:
    """The constant defaults of a function's parameters that are other than before."""
    old = dict(pairs_of(before))
    for name, value in pairs_of(after):
        if isinstance(value, ast.Constant) and (name not in old or ast.dump(old[name]) != ast.dump(value)):
            yield DEFAULT, place_of(after), name, repr(value.value)


def pairs_of(node: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    arguments = node.args
    by_place = [*arguments.posonlyargs, *arguments.args]
    names = (one.arg for one in by_place[len(by_place) - len(arguments.defaults) :])
    yield from zip(names, arguments.defaults, strict=True)
    for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if value is not None:
            yield one.arg, value


def differing(before: ast.AST, after: ast.AST) -> Iterator[ast.AST]:
    """The innermost nodes of `after` that hold all of its differences from `before`; statements within it left out."""
    if type(before) is not type(after):
        yield after
        return
    for name, new in ast.iter_fields(after):
        old = getattr(before, name, None)
        if isinstance(new, list) and isinstance(old, list):
            if new and isinstance(new[0], ast.stmt | ast.excepthandler):
                continue
            if len(new) != len(old):
                yield after
                return
            pairs = list(zip(old, new, strict=True))
        else:
            pairs = [(old, new)]
        for one, two in pairs:
            if isinstance(two, ast.expr | ast.keyword | ast.comprehension | ast.arguments | ast.arg | ast.withitem):
                yield from differing(one, two) if isinstance(one, ast.AST) else [after]
            elif isinstance(two, ast.AST):
                if not isinstance(one, ast.AST) or ast.dump(one) != ast.dump(two):
                    yield after
                    return
            elif one != two or type(one) is not type(two):
                if name != "kind":
                    yield after
                    return


def branches_of(node: ast.AST) -> list[ast.expr]:
    """The expressions directly in one that are not evaluated whenever it is."""
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.BoolOp):
        return node.values[1:]
    if isinstance(node, ast.Compare):
        return node.comparators[1:]
    if isinstance(node, ast.Lambda):
        return [node.body]
    if isinstance(node, ast.DictComp):
        return [node.key, node.value, *(one for part in node.generators for one in part.ifs)]
    if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
        return [node.elt, *(one for part in node.generators for one in part.ifs)]
    if isinstance(node, ast.Assert):
        return [node.msg] if node.msg else []
    return []


def branch_around(statement: ast.AST, node: ast.AST) -> ast.expr | None:
    """The innermost expression of a statement that is not always evaluated and holds `node`."""
    found = None

    def visit(here: ast.AST, branch: ast.expr | None) -> None:
        nonlocal found
        if here is node:
            found = branch
            return
        inner = branches_of(here)
        for child in ast.iter_child_nodes(here):
            if not isinstance(child, ast.stmt):
                visit(child, child if any(child is one for one in inner) else branch)

    visit(statement, None)
    return found


def outcomes_in(statement: ast.AST, node: ast.AST) -> Iterator[tuple]:
    """The conditions in a changed part of a statement, and that of which it is a part, each met and unmet.

    A condition that never came out otherwise than before has shown nothing, whichever statement it stands in. Those of
    assertions are left out: one that is not met ends the run.
    """
    if isinstance(statement, ast.Assert):
        return
    found = [one for one in expressions_in(node) if isinstance(one, ast.Compare)]
    found += [test for test in tests_of(statement) if any(one is node for one in ast.walk(test)) or node is statement]
    for test in found:
        if not isinstance(test, ast.Constant):
            yield MET, place_of(test)
            yield UNMET, place_of(test)


def expressions_in(node: ast.AST) -> Iterator[ast.expr]:
    """All expressions in one, or in a statement without the statements in it."""
    todo = [node]
    while todo:
        here = todo.pop()
        if isinstance(here, ast.expr):
            yield here
        todo += [child for child in ast.iter_child_nodes(here) if not isinstance(child, ast.stmt | ast.excepthandler)]


def tests_of(statement: ast.AST) -> list[ast.expr]:
    """The conditions on which a statement, or an expression in it, goes one way or another."""
    found = [statement.test] if isinstance(statement, ast.If | ast.While) else []
    for one in expressions_in(statement):
        if isinstance(one, ast.IfExp):
            found.append(one.test)
        elif isinstance(one, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            found += [test for part in one.generators for test in part.ifs]
    return found


def sometimes_in(statement: ast.AST) -> Iterator[tuple]:
    """The expressions of a new statement that are not always evaluated; what failing assertions say is left out."""
    todo = [statement]
    while todo:
        node = todo.pop()
        if not isinstance(node, ast.Assert):
            yield from ((AROUND, place_of(branch)) for branch in branches_of(node))
        todo += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


# -------------------------------------------------------------------------------------------------- in a gate's process


class Marked(ast.NodeTransformer):
    """Puts the calls at the marks of one file into its tree."""

    def __init__(self, marks: Iterable[Mark]):
        self.marks: dict[Place, list[Mark]] = {}
        for mark in marks:
            self.marks.setdefault(tuple(mark.place), []).append(mark)

    def of(self, node: ast.AST, *kinds: str) -> list[Mark]:
        return [mark for mark in self.marks.get(place_of(node), ()) if mark.kind in kinds]

    def visit(self, node: ast.AST) -> ast.AST:
        marks = self.of(node, BEGIN, DEFAULT) if hasattr(node, "lineno") else []
        around = self.of(node, AROUND) if isinstance(node, ast.expr) else []
        outcomes = {mark.kind: mark.number for mark in self.of(node, MET, UNMET)} if isinstance(node, ast.expr) else {}
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list):
                setattr(node, name, self.with_calls(body))
        self.generic_visit(node)
        if marks:
            start = 1 if is_text(node.body[0]) else 0
            node.body[start:start] = [call for mark in marks for call in calls_at(mark, node.body[0])]
        if outcomes:
            told = ast.Attribute(ast.Name(MARK, ast.Load()), "outcome", ast.Load())
            numbers = [ast.Constant(outcomes.get(kind)) for kind in (MET, UNMET)]
            node = ast.copy_location(ast.Call(told, [*numbers, node], []), node)
        for mark in around:
            node = ast.copy_location(ast.Call(ast.Name(MARK, ast.Load()), [ast.Constant(mark.number), node], []), node)
        return node

    def with_calls(self, body: list[ast.stmt]) -> list[ast.stmt]:
        found = []
        for statement in body:
            calls = [call for mark in self.of(statement, BEFORE) for call in calls_at(mark, statement)]
            is_first = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
            found += [statement, *calls] if is_first else [*calls, statement]
        return found


def is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def calls_at(mark: Mark, where: ast.stmt) -> list[ast.stmt]:
    """The statements that tell of a mark, as if they stood at `where`."""
    name = ast.Name(MARK, ast.Load())
    told: ast.expr = ast.Call(name, [ast.Constant(mark.number)], [])
    if mark.kind == DEFAULT:
        value = ast.Constant(ast.literal_eval(mark.value))
        told = ast.Call(name, [ast.Constant(mark.number), ast.Name(mark.parameter, ast.Load()), value], [])
    return [ast.fix_missing_locations(ast.copy_location(ast.Expr(told), where))]


class MarkedLoader(importlib.machinery.SourceFileLoader):
    """Compiles a module's source with calls at its marks; never uses or writes a bytecode cache."""

    def __init__(self, name: str, path: str, marks: list[Mark], read: Callable[[ast.AST], ast.AST]):
        super().__init__(name, path)
        self.marks, self.read = marks, read

    def get_code(self, fullname: str):
        path = self.get_filename(fullname)
        data = self.get_data(path)
        module = self.read(Marked(self.marks).visit(parse(data.removeprefix(BOM), path)))
        return compile(ast.fix_missing_locations(module), path, "exec", dont_inherit=True)


class MarkedFinder(importlib.abc.MetaPathFinder):
    """Finds the changed modules of a code folder, by the path of their files."""

    def __init__(self, code_dir: Path, marks: Iterable[Mark], read: Callable[[ast.AST], ast.AST]):
        self.code_dir, self.read = Path(code_dir).resolve(), read
        self.by_file: dict[Path, list[Mark]] = {}
        for mark in marks:
            self.by_file.setdefault((self.code_dir / mark.file).resolve(), []).append(mark)

    def find_spec(self, fullname, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        marks = self.by_file.get(Path(spec.origin).resolve()) if spec is not None and spec.origin else None
        if not marks or not spec.origin.endswith(".py"):
            return None
        spec.loader = MarkedLoader(fullname, spec.origin, marks, self.read)
        return spec


def install(code_dir: Path, watched: Mapping, read: Callable[[ast.AST], ast.AST] = lambda tree: tree) -> None:
    """From now on this process reads changed modules with their marks, and writes each that is met, once, to a file.

    watched: as `Watch.request` gives it. read: what a shim does to a module's tree.
    """
    import builtins

    met: set[int] = set()
    file = open(watched["met"], "a", buffering=1, encoding="utf-8")  # noqa: SIM115 - until the process ends, or is killed

    def executed(number: int, value=None, *default):
        if number not in met and (not default or (type(value) is type(default[0]) and value == default[0])):
            met.add(number)
            file.write(f"{number}\n")
        return value

    def outcome(met_number: int, unmet_number: int, value):
        if not {met_number, unmet_number} <= met:
            came_out = ways_of(value)
            for number, way in ((met_number, True), (unmet_number, False)):
                if way in came_out:
                    executed(number)
        return value

    executed.outcome = outcome
    setattr(builtins, MARK, executed)
    marks = [Mark(**{**one, "place": tuple(one["place"])}) for one in watched["marks"]]
    sys.meta_path.insert(0, MarkedFinder(code_dir, marks, read))


def ways_of(value) -> set[bool]:
    """How a condition came out: an array's both ways where it has both, and both where nobody can tell, as traced."""
    try:
        if hasattr(value, "any") and hasattr(value, "all"):
            return ({True} if bool(value.any()) else set()) | (set() if bool(value.all()) else {False})
        return {bool(value)}
    except Exception:  # of whatever library the value is
        return {True, False}


# ------------------------------------------------------------------------------------------------------------- by gate

current: "Watch | None" = None  # whose subject's marks are being looked for; one call of `run` at a time
gate: contextvars.ContextVar[str] = contextvars.ContextVar("gate", default="")
met_here: contextvars.ContextVar[set | None] = contextvars.ContextVar("met_here", default=None)


class Watch:
    """The marks of a subject, and which were met in the processes of which gate."""

    def __init__(self, code_dir: Path, marks: list[Mark]):
        self.code_dir, self.marks = Path(code_dir).resolve(), marks
        self.by_gate: dict[str, set[int]] = {}

    @contextmanager
    def request(self, code_dir: Path) -> Iterator[dict | None]:
        """What a process that imports `code_dir` is told, None where that is not the subject; then what it met."""
        if not self.marks or Path(code_dir).resolve() != self.code_dir:
            yield None
            return
        with tempfile.NamedTemporaryFile("r", prefix="tdmpc2-lean-executed-", encoding="utf-8") as file:
            try:
                yield {"met": file.name, "marks": [dataclasses.asdict(mark) for mark in self.marks]}
            finally:
                self.meet({int(line) for line in Path(file.name).read_text(encoding="utf-8").split()})

    def meet(self, numbers: Iterable[int]) -> None:
        """These were executed for the gate that is being run."""
        self.by_gate.setdefault(gate.get(), set()).update(numbers)
        if (collected := met_here.get()) is not None:
            collected.update(numbers)


@contextmanager
def watching(code_dir: Path, marks: list[Mark]) -> Iterator[Watch]:
    """Within it, processes that import `code_dir` tell which marks they meet."""
    global current
    earlier, current = current, Watch(code_dir, marks)
    try:
        yield current
    finally:
        current = earlier


@contextmanager
def request(code_dir: Path) -> Iterator[dict | None]:
    """What a process that imports `code_dir` is told of marks; None where nobody asks."""
    if current is None:
        yield None
    else:
        with current.request(code_dir) as watched:
            yield watched


@contextmanager
def collected() -> Iterator[set[int]]:
    """The marks that are met within it, by this thread's processes; for results that other gates use again."""
    numbers: set[int] = set()
    token = met_here.set(numbers)
    try:
        yield numbers
    finally:
        met_here.reset(token)


def met_again(numbers: Iterable[int]) -> None:
    """A result is used again, for whose making these marks were met."""
    if current is not None:
        current.meet(numbers)


def in_context(function: Callable) -> Callable:
    """`function`, for another thread, as if it were called here: for the same gate."""
    context = contextvars.copy_context()
    return lambda *args, **kwargs: context.copy().run(function, *args, **kwargs)
