"""Runs unpatched official DreamerV3 on a JAX from 0.6.0 on without touching a file of it.

The official code passes shardings, static and donated arguments to `jax.jit` by position, which JAX allows up to
0.5.3. A gate that is to compare patched code with the unpatched must run both on the JAX at hand. `install` gives
`jax.jit` the signature it had back, in this process only. It shares nothing with the patch `current-jax`, which it
helps to judge.
"""

import ast
import functools
import inspect
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from tdmpc2_lean.parsing import parse

# What followed the function in the signature of `jax.jit` in JAX 0.5.3, in that order.
POSITIONS = (
    "in_shardings", "out_shardings", "static_argnums", "static_argnames", "donate_argnums", "donate_argnames",
    "keep_unused", "device", "backend", "inline", "abstracted_axes", "compiler_options",
)  # fmt: skip


def positional_calls(code_dir: Path) -> int:
    """How many calls of `jax.jit` in a checkout pass more than the function by position."""
    count = 0
    for path in sorted((Path(code_dir) / "embodied" / "jax").glob("*.py")):
        for node in ast.walk(parse(path.read_bytes(), str(path))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "jax.jit" and len(node.args) > 1:
                count += 1
    return count


def is_needed(code_dir: Path) -> bool:
    """Whether the JAX that is installed refuses this checkout's calls of `jax.jit`."""
    version = tuple(int(part) for part in metadata.version("jax").split(".")[:2])
    return version >= (0, 6) and positional_calls(code_dir) > 0


def by_position(jit: Callable) -> Callable:
    """`jit`, taking by position what JAX 0.5.3 took so."""

    @functools.wraps(jit)
    def accepting(*args, **kwargs):
        function, further = args[:1], args[1:]
        if len(further) > len(POSITIONS):
            raise TypeError(f"jit takes at most {1 + len(POSITIONS)} arguments by position, {len(args)} were given")
        named = dict(zip(POSITIONS, further))  # noqa: B905 - as many as were given
        if twice := sorted(named.keys() & kwargs.keys()):
            raise TypeError(f"jit got {twice[0]} both by position and by name")
        return jit(*function, **named, **kwargs)

    return accepting


def install(code_dir: Path) -> None:
    """From now on this process's `jax.jit` takes what JAX 0.5.3 took by position; `code_dir` itself is not read."""
    import jax

    parameter = inspect.signature(jax.jit).parameters.get(POSITIONS[0])
    if parameter is None or parameter.kind is inspect.Parameter.KEYWORD_ONLY:
        jax.jit = by_position(jax.jit)
