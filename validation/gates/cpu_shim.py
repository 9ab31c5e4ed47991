"""Runs unpatched official code on a CPU without touching a file of it.

The official TD-MPC2 names the device 'cuda:0' in its source. A gate that is to compare patched code with the
unpatched must run both on the machine at hand. This finder compiles the modules of one folder from their own source
with some things read differently: the strings 'cuda:0' and 'cuda' as 'cpu', the keywords `capturable=True` (Adam) and
`pin_memory=True`, which are for CUDA only, as False, `torch.cuda.mem_get_info()` as (0, 0), and
`torch.cuda.is_available()`, on which its scripts insist, as True.

Code from before 2025 needs two things more. Until September 2024 its buffer draws the next batch ahead, in a thread
that shares the random stream, so that no two runs are alike: `prefetch=1` is read as 0. Until December 2024 it imports
gym; where that is not installed, `gym_stand_in` is imported in its place. The first commits import the environments
of other packages for any task; those that are not there are read as knowing no task.

All of it is done only where the code asks for it (`needs`), and shares nothing with the patches `device`, `seeding` and
`current-stack`, which it helps to judge.
"""

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import re
import sys
from pathlib import Path

from tdmpc2_lean.parsing import parse

CUDA, AHEAD, GYM, OTHERS = "CUDA", "batches drawn ahead", "gym", "other environments"
STAND_IN = "tdmpc2_lean.validation.gates.gym_stand_in"
IMPORTS_GYM = re.compile(rb"^import gym\b(?!\s+as)", re.MULTILINE)
WANTS_OTHERS = re.compile(rb"^from envs\.maniskill import", re.MULTILINE)
DRAWS_AHEAD = re.compile(rb"\bprefetch=[1-9]")


def needs(code_dir: Path) -> dict[str, str]:
    """What of a code folder does not run here, or not reproducibly, as it is written -> how it is read instead."""
    from tdmpc2_lean.validation.gates.subjects import read_config

    found = {}
    if "device" not in read_config(code_dir):
        agent = code_dir / "tdmpc2.py"
        name = "cuda:0" if not agent.exists() or b"cuda:0" in agent.read_bytes() else "cuda"
        found[CUDA] = f"its '{name}' read as 'cpu'"
    buffer = code_dir / "common" / "buffer.py"
    if buffer.exists() and DRAWS_AHEAD.search(buffer.read_bytes()):
        found[AHEAD] = "its batches drawn when they are asked for, not ahead in a thread"
    environments = code_dir / "envs" / "__init__.py"
    if environments.exists() and IMPORTS_GYM.search(environments.read_bytes()) and not importlib.util.find_spec("gym"):
        found[GYM] = "a stand-in for gym, which is not installed"
    if environments.exists() and WANTS_OTHERS.search(environments.read_bytes()):
        found[OTHERS] = "without the environments that are not installed"
    return found


class ReadForCPU(ast.NodeTransformer):
    """Reads what does not run here as it is written; what: of `needs`."""

    def __init__(self, what=(CUDA,)):
        self.what = frozenset(what)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        is_device = CUDA in self.what and node.value in ("cuda:0", "cuda")
        return ast.copy_location(ast.Constant("cpu"), node) if is_device else node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        self.generic_visit(node)
        if CUDA in self.what and node.arg in ("capturable", "pin_memory"):
            node.value = ast.copy_location(ast.Constant(False), node.value)
        if AHEAD in self.what and node.arg == "prefetch":
            node.value = ast.copy_location(ast.Constant(0), node.value)
        return node

    def visit_Import(self, node: ast.Import) -> ast.AST:
        if GYM in self.what:
            for alias in node.names:
                if alias.name == "gym":
                    alias.name, alias.asname = STAND_IN, alias.asname or "gym"
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        if OTHERS not in self.what or node.module not in ("envs.maniskill", "envs.metaworld", "envs.myosuite"):
            return node
        name = node.names[0].asname
        unknown = ast.parse(f"def {name}(cfg): raise UnknownTaskError(cfg.task)").body
        missing = ast.ExceptHandler(ast.Name("ImportError", ast.Load()), None, unknown)
        return ast.copy_location(ast.Try([node], [missing], [], []), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if CUDA not in self.what:
            return node
        if ast.unparse(node.func) == "torch.cuda.mem_get_info":
            return ast.copy_location(ast.Tuple([ast.Constant(0), ast.Constant(0)], ast.Load()), node)
        if ast.unparse(node.func) == "torch.cuda.is_available":
            return ast.copy_location(ast.Constant(True), node)
        return node


reading = ReadForCPU()  # of this process; `install` replaces it by what its code folder needs


def read(module: ast.AST) -> ast.AST:
    """A module's tree, read for the CPU."""
    return reading.visit(module)


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
    """From now on this process reads the modules of `code_dir` for the CPU, as far as they need it."""
    global reading
    reading = ReadForCPU(needs(code_dir))
    sys.meta_path.insert(0, CPUFinder(code_dir))
