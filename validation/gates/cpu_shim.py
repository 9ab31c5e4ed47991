"""Runs unpatched official code on a CPU without touching a file of it.

The official TD-MPC2 names the device 'cuda:0' in its source. A gate that is to compare patched code with the
unpatched must run both on the machine at hand. This finder compiles the modules of one folder from their own source
with four things read differently: the string 'cuda:0' as 'cpu', the keyword `capturable=True` (Adam, CUDA only) as
False, `torch.cuda.mem_get_info()` as (0, 0), and `torch.cuda.is_available()`, on which its scripts insist, as True.
It shares nothing with the patch `device`, which it helps to judge.
"""

import ast
import importlib.abc
import importlib.machinery
import sys
from pathlib import Path

from tdmpc2_lean.parsing import parse


class ReadForCPU(ast.NodeTransformer):
    """Reads what names CUDA as what names the CPU."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.copy_location(ast.Constant("cpu"), node) if node.value == "cuda:0" else node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        self.generic_visit(node)
        if node.arg == "capturable":
            node.value = ast.copy_location(ast.Constant(False), node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if ast.unparse(node.func) == "torch.cuda.mem_get_info":
            return ast.copy_location(ast.Tuple([ast.Constant(0), ast.Constant(0)], ast.Load()), node)
        if ast.unparse(node.func) == "torch.cuda.is_available":
            return ast.copy_location(ast.Constant(True), node)
        return node


def read(module: ast.AST) -> ast.AST:
    """A module's tree, read for the CPU."""
    return ReadForCPU().visit(module)


class CPULoader(importlib.machinery.SourceFileLoader):
    """Compiles a module's source, read for the CPU; never uses or writes a bytecode cache."""

    def get_code(self, fullname: str):
        path = self.get_filename(fullname)
        module = read(parse(self.get_data(path), path))
        return compile(ast.fix_missing_locations(module), path, "exec", dont_inherit=True)


class CPUFinder(importlib.abc.MetaPathFinder):
    """Finds modules below `code_dir` only."""

    def __init__(self, code_dir: Path):
        self.code_dir = Path(code_dir).resolve()

    def find_spec(self, fullname, path=None, target=None):
        places = [str(self.code_dir)] if path is None else path
        spec = importlib.machinery.PathFinder.find_spec(fullname, places)
        if spec is None or not spec.origin or self.code_dir not in Path(spec.origin).resolve().parents:
            return None
        spec.loader = CPULoader(fullname, spec.origin)
        return spec


def install(code_dir: Path) -> None:
    """From now on this process reads the modules of `code_dir` for the CPU."""
    sys.meta_path.insert(0, CPUFinder(code_dir))
