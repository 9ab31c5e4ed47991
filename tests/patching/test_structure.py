"""What counts as the same: comments, formatting, names of locals and places do not, everything else does."""

import ast
import random

import pytest

from tdmpc2_lean.patching.structure import DEFINITIONS, FUNCTIONS, definitions, settings

BEFORE = b'''
import registry
SIZE = {1: 2}
LIMIT = SIZE[1]

def first(a, b=1):
    """Says what it does."""
    total = a
    for item in b:
        total += item  # why
    return [total for total in item]

def second(x):
    y = x
    def inner():
        return y
    return inner

class Box(Base):
    size = 3
    def fill(self, what): return what
    @property
    def full(self): return self.size
    @full.setter
    def full(self, value): self.size = value

def start():
    return second(LIMIT)

if __name__ == "__main__":
    start()
'''
SECOND = b"def second(x):\n    y = x\n    def inner():\n        return y\n    return inner\n"


def changes(before: bytes, after: bytes) -> set[str]:
    """Names of what is not the same."""
    old, new = definitions(before), definitions(after)
    return {name for name in {*old, *new} if not (name in old and name in new and old[name].does_what(new[name]))}


def edited(*pairs: tuple[bytes, bytes]) -> bytes:
    data = BEFORE
    for was, now in pairs:
        assert was in data, was
        data = data.replace(was, now)
    return data


NEUTRAL = {
    "a comment": [(b"    total = a\n", b"    # explains\n    total = a  # more\n")],
    "another docstring": [(b"Says what it does.", b"Does something.")],
    "no docstring": [(b'    """Says what it does."""\n', b"")],
    "formatting": [(b"def first(a, b=1):", b"def first(\n    a,\n    b = (1),\n):")],
    "a pass": [(b"    y = x\n", b"    y = x\n    pass\n")],
    "a renamed local": [
        (b"total = a", b"s = a"),
        (b"total += item", b"s += item"),
        (b"[total for total in item]", b"[q for q in item]"),
    ],
    "a local that another function reads": [(b"    y = x\n", b"    z = x\n"), (b"return y", b"return z")],
    "a moved function": [
        (b"def start():\n    return second(LIMIT)\n\n", b""),
        (b"def second(x)", b"def start():\n    return second(LIMIT)\n\ndef second(x)"),
    ],
    "a moved method": [
        (b"    def fill(self, what): return what\n", b""),
        (b"self.size = value\n", b"self.size = value\n    def fill(self, what): return what\n"),
    ],
}


@pytest.mark.parametrize("edit", NEUTRAL)
def test_an_edit_that_does_nothing_is_no_change(edit):
    after = edited(*NEUTRAL[edit])
    assert after != BEFORE and changes(BEFORE, after) == set()


TELLING = {
    "a constant": ([(b"b=1)", b"b=2)")], {"first"}),
    "an operator": ([(b"+= item", b"-= item")], {"first"}),
    "a kind of number": ([(b"size = 3", b"size = 3.0")], {"Box"}),
    "a table": ([(b"{1: 2}", b"{1: 3}")], {"SIZE"}),
    "a renamed parameter": ([(b"def second(x):\n    y = x", b"def second(z):\n    y = z")], {"second"}),
    "a local that becomes another": ([(b"    total = a\n", b"    item = a\n")], {"first"}),
    "a local that becomes global": ([(b"    y = x\n", b"    global y\n    y = x\n")], {"second"}),
    "a free name": ([(b"return y", b"return x")], {"second"}),
    "an inner function's name": ([(b"def inner", b"def other"), (b"return inner", b"return other")], {"second"}),
    "a class's base": ([(b"Box(Base)", b"Box(Other)")], {"Box"}),
    "a decorator": ([(b"    @property\n", b"")], {"Box.full"}),
    "a statement of the module": ([(b"SIZE[1]", b"SIZE[2]")], {"<module>"}),
    "a getter and its setter swapped": (
        [
            (b"    @property\n    def full(self): return self.size\n", b""),
            (b"self.size = value\n", b"self.size = value\n    @property\n    def full(self): return self.size\n"),
        ],
        {"Box.full"},
    ),
    "a table below what reads it": (
        [(b"SIZE = {1: 2}\nLIMIT = SIZE[1]\n", b"LIMIT = SIZE[1]\nSIZE = {1: 2}\n")],
        {"<module>"},
    ),
    "a function below what calls it": (
        [
            (SECOND + b"\n", b""),
            (b"    start()\n", b"    start()\n\n" + SECOND),
        ],
        {"<module>"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("edit", TELLING)
def test_an_edit_that_could_do_something_is_a_change_of_what_it_is_in(edit):
    pairs, names = TELLING[edit]
    assert changes(BEFORE, edited(*pairs)) == names


def test_locals_keep_their_names_where_something_reads_the_names():
    before = b"def f():\n    a = 1\n    return locals()\n"
    assert changes(before, before.replace(b"a =", b"b =")) == {"f"}
    before = b"def f():\n    a = 1\n    return f'{a=}'\n"
    assert changes(before, before.replace(b"a", b"b")) == {"f"}


def test_the_order_of_functions_that_register_themselves_counts():
    one, two = b"@tasks.add('a')\ndef a(): pass\n", b"@tasks.add('b')\ndef b(): pass\n"
    assert changes(one + two, two + one) == {"<module>"}
    assert changes(one + b"def c(): pass\n", b"def c(): pass\n" + one) == set()


def test_docstrings_count_where_something_reads_them():
    before, after = b'def f():\n    """a"""\n', b'def f():\n    """b"""\n'
    assert definitions(before)["f"].does_what(definitions(after)["f"])
    assert not definitions(before, docstrings=True)["f"].does_what(definitions(after, docstrings=True)["f"])


@pytest.mark.parametrize(
    "annotation", ["str", "int", "list[str]", "tuple[int, ...]", "'Anything'", "None", "torch.Tensor", "np.ndarray"]
)
def test_annotations_that_do_nothing_are_no_change_unless_something_reads_them(annotation):
    head = b"import torch\nimport numpy as np\n"
    before = head + b"def f(a, *b):\n    return a\n"
    after = head + f"def f(a: {annotation}, *b: {annotation}) -> {annotation}:\n    return a\n".encode()
    assert changes(before, after) == set()
    assert not definitions(before)["f"].does_what(definitions(after, annotations=True)["f"])


@pytest.mark.parametrize("annotation", ["unknown", "torch.Tensors", "print(1)", "a.b", "own", "sum", "torch.Tensor[0]"])
def test_annotations_that_may_fail_or_do_something_are_changes(annotation):
    head = b"import torch\nown = print\n"
    before, after = (head + b"def f(a" + note + b"):\n    return a\n" for note in (b"", f": {annotation}".encode()))
    assert "f" in changes(before, after)


def test_annotations_of_fields_and_of_decorated_functions_are_changes():
    assert changes(b"class A(B):\n    x = 1\n", b"class A(B):\n    x: int = 1\n") == {"A"}
    assert changes(b"@checked\ndef f(a): return a\n", b"@checked\ndef f(a: int): return a\n") == {"f"}
    assert changes(b"@torch.no_grad()\ndef f(a): return a\n", b"@torch.no_grad()\ndef f(a: int): return a\n") == set()


# ------------------------------------------------------------------------------------------------ on official files


def python_files(tried_commits):
    upstreams = ("tdmpc2", "dreamerv3")
    checkouts = [next(iter(tried_commits(upstream).values())) for upstream in upstreams]
    found = [path for one in checkouts for path in sorted(one.code_dir.rglob("*.py")) if path.stat().st_size > 200]
    return found[::3]


def renamed(tree: ast.Module) -> int:
    """Renames locals of all functions that have no other function, class or comprehension in them; how many."""
    count = 0
    for node in ast.walk(tree):
        inner = (*DEFINITIONS, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Global)
        if (
            not isinstance(node, FUNCTIONS)
            or "eval(" in ast.unparse(node)
            or any(isinstance(one, inner) for one in ast.walk(node) if one is not node)
        ):
            continue
        stored = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        arguments = {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}
        imports = [one for one in ast.walk(node) if isinstance(one, ast.Import | ast.ImportFrom)]
        imported = {alias.asname or alias.name for one in imports for alias in one.names}
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and one.id in stored - arguments - imported:
                one.id = f"renamed_{one.id}"
                count += 1
    return count


@pytest.mark.official
def test_formatting_docstrings_and_names_of_locals_are_no_changes_of_official_files(tried_commits):
    count = 0
    for path in python_files(tried_commits):
        data = path.read_bytes()
        tree = ast.parse(data)
        count += renamed(tree)
        for node in ast.walk(tree):
            if isinstance(node, DEFINITIONS) and ast.get_docstring(node) and len(node.body) > 1:
                del node.body[0]
        assert changes(data, ast.unparse(ast.fix_missing_locations(tree)).encode()) == set(), path
    assert count > 200


@pytest.mark.official
def test_every_mutated_constant_or_operator_is_a_change_of_official_files(tried_commits):
    choose = random.Random(0)
    arithmetic = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div}
    operators = arithmetic | {ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq}
    tried = 0
    for path in python_files(tried_commits):
        data = path.read_bytes()
        old = definitions(data)
        tree = ast.parse(data)
        alone = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
        places = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and id(node) not in alone and node.value is not ...:
                places.append((node, "value", (not node.value) if isinstance(node.value, bool) else f"{node.value}!"))
            elif isinstance(node, ast.BinOp) and type(node.op) in operators:
                places.append((node, "op", operators[type(node.op)]()))
            elif isinstance(node, ast.Compare) and type(node.ops[0]) in operators:
                places.append((node, "ops", [operators[type(node.ops[0])](), *node.ops[1:]]))
        for node, field, value in choose.sample(places, min(4, len(places))):
            kept = getattr(node, field)
            setattr(node, field, value)
            mutant = ast.unparse(tree)
            setattr(node, field, kept)
            new = definitions(mutant.encode())
            assert any(name not in old or not new[name].does_what(old[name]) for name in new), (path, ast.dump(node))
            tried += 1
    assert tried > 60


# -------------------------------------------------------------------------------------------------------------- YAML


def test_yaml_is_compared_key_by_key_without_comments_and_formatting():
    before = b"a: 1\nb:\n  c: 0.5  # half\n  d: [1, 2]\ne: null\n"
    after = b"# more\nb: {c: .5, d: [1,2]}\na: +1\ne: null\n"
    assert settings(before) == settings(after)
    assert settings(before)["b.c"] == "0.5"


@pytest.mark.parametrize(
    "before, after",
    [
        (b"a: 1", b"a: 1.0"), (b"a: 1", b"a: '1'"), (b"a: 1", b"a: 2"), (b"a: [1, 2]", b"a: [2, 1]"),
        (b"a: 1", b"a: 1\na: 2"), (b"a: 010", b"a: 10"), (b"a: 1", b"b: 1"), (b"a: no", b"a: false"),
        (b"'x.*': 1\n'.*y': 2", b"'.*y': 2\n'x.*': 1"),
    ],
)  # fmt: skip
def test_another_value_kind_or_order_of_patterns_is_another_setting(before, after):
    assert settings(before) != settings(after)
