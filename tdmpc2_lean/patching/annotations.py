"""Annotations of parameters and returned values that do nothing: what `structure` leaves out of a function's form.

An annotation is carried out once, where the function is defined, and kept for whoever asks. It does nothing if its
names are there for certain and nobody asks. Annotations of a class's fields are none of these: dataclasses and the
like make fields of them. Pure functions of syntax trees and bytes.
"""

import ast
import builtins
import typing
from collections.abc import Iterable, Mapping

# Types that are there whenever their module is.
KNOWN = {"torch.Tensor", "torch.device", "torch.dtype", "torch.nn.Module", "numpy.ndarray", "jax.Array",
         "jax.numpy.ndarray", "pathlib.Path"}  # fmt: skip
KNOWN |= {f"typing.{name}" for name in typing.__all__}
# Who uses one of these may see annotations, its own or those of others.
READERS = (b"__annotations__", b"get_type_hints", b"get_annotations", b"signature(", b"getfullargspec", b"beartype",
           b"jaxtyping", b"typeguard", b"typechecked", b"pydantic", b"singledispatch", b"get_overloads")  # fmt: skip


def are_read(files: Iterable[bytes]) -> bool:
    """Whether any of these Python files may read a function's annotations."""
    return any(reader in data for data in files for reader in READERS)


def without_inert(module: ast.Module, only_wraps) -> None:
    """Takes the annotations that do nothing out of a module's functions.

    only_wraps: says of a decorator that it is known to leave its function's annotations alone.
    """
    imported = names_imported(module)
    bound = {one.id for one in ast.walk(module) if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)}
    bound |= {one.name for one in ast.walk(module) if isinstance(one, ast.FunctionDef | ast.ClassDef)}
    functions = (node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    for node in functions:
        if not all(map(only_wraps, node.decorator_list)):
            continue
        if node.returns is not None and is_inert(node.returns, imported, bound):
            node.returns = None
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        for one in every:
            if one is not None and one.annotation is not None and is_inert(one.annotation, imported, bound):
                one.annotation = None


def names_imported(module: ast.Module) -> dict[str, str]:
    """What names stand for that a module's own statements import: {"np": "numpy", "Any": "typing.Any"}."""
    found = {}
    for node in module.body:
        if isinstance(node, ast.Import):
            found |= {one.asname: one.name for one in node.names if one.asname}
            found |= {one.name.partition(".")[0]: one.name.partition(".")[0] for one in node.names if not one.asname}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return found


def is_inert(node: ast.expr, imported: Mapping[str, str], bound: set[str]) -> bool:
    """Whether an annotation can neither fail nor do anything; bound: names that the module gives values to."""
    if isinstance(node, ast.Constant):
        return node.value is None or node.value is Ellipsis or isinstance(node.value, str)
    if isinstance(node, ast.Name) and node.id not in imported:
        return node.id not in bound and isinstance(getattr(builtins, node.id, None), type)
    if isinstance(node, ast.Name | ast.Attribute):
        root, _, rest = ast.unparse(node).partition(".")
        whole = f"{imported.get(root, '')}.{rest}" if rest else imported.get(root, "")
        return root not in bound and whole in KNOWN
    if isinstance(node, ast.List | ast.Tuple):
        return all(is_inert(one, imported, bound) for one in node.elts)
    if isinstance(node, ast.Subscript):
        name = node.value.id if isinstance(node.value, ast.Name) else ""
        generic = name in {"list", "dict", "tuple", "set", "frozenset", "type"} and name not in bound | set(imported)
        return generic and is_inert(node.slice, imported, bound)
    return False
