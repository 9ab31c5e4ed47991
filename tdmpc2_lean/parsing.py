"""Python's own parser for threads.

CPython 3.11 keeps the depth of the tree that it is making in one place for all threads; where another thread gets to
parse meanwhile, as it may when the garbage collector calls back, `ast.parse` ends in "SystemError: AST constructor
recursion depth mismatch" (github.com/python/cpython/issues/106905).
"""

import ast
import threading

one_at_a_time = threading.Lock()


def parse(source: str | bytes, filename: str = "<unknown>", mode: str = "exec") -> ast.AST:
    """`ast.parse`, one caller at a time; with its errors."""
    with one_at_a_time:
        return ast.parse(source, filename, mode)
