"""One name, one thing: no two classes of the project have the same name."""

import ast
from collections import defaultdict

from test_layers import modules

# Names that two classes have today, and whose it is to mend; a name that is no longer shared fails too.
SHARED: dict[str, str] = {}


def shared():
    """{name: modules}"""
    found = defaultdict(set)
    for name, (_, syntax) in modules().items():
        for node in ast.walk(syntax):
            if isinstance(node, ast.ClassDef):
                found[node.name].add(name)
    return {name: sorted(where) for name, where in found.items() if len(where) > 1}


def test_no_two_classes_have_one_name():
    found = shared()
    assert {name: where for name, where in found.items() if name not in SHARED} == {}
    assert set(SHARED) - set(found) == set(), "these are mended: take them off the list"
