"""Imports official code into this process under a private name, as often as wanted, patched and unpatched.

The official modules import each other by top-level names (`common`, `envs`, `trainer`, `tdmpc2`) that a
user's own modules may have too. `load` gives each load a package of its own, `tdmpc2_lean_isolated_<n>`,
under which the code folder's modules are imported with their import statements rewritten to that package (in
memory; statements inside functions too). `common.layers` is then `tdmpc2_lean_isolated_1.common.layers` in
sys.modules and in pickles, and nothing answers to `common`. Line numbers and file names stay, so tracebacks,
debuggers and torch.compile see the official files.

The official code also registers tasks of its own in `dm_control.suite`, which refuses the same task twice.
That package is therefore imported anew for each load, under the load's own name as well: the user's stays as
it was.
"""

import ast
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.parsing import parse

PREFIX = "tdmpc2_lean_isolated_"

# Packages whose global state the official code changes when it is imported: (package, the part it changes).
SHARED_STATE = (("dm_control", "suite"),)

numbers = itertools.count(1)


@dataclass(frozen=True)
class Isolated:
    """One load of the official code.

    package: the private package under which it lies in sys.modules.
    modules: the top-level names that it imports as its own.
    """

    package: str
    code_dir: Path
    modules: tuple[str, ...]

    def module(self, name: str) -> ModuleType:
        """The official module of that name, such as 'common.buffer'; imported when first asked for."""
        return importlib.import_module(f"{self.package}.{name}")


def load(code_dir: Path | str, modules: Sequence[str] | None = None) -> Isolated:
    """Make the code folder's modules importable under a new private package; nothing is imported yet.

    modules: the top-level names of the official code; default: all modules and packages in the folder, the
        names that Python would find there first when the code is run from it.
    """
    code_dir = Path(code_dir).resolve()
    names = tuple(modules) if modules is not None else tuple(top_level_names(code_dir))
    missing = [
        name for name in names if not ((code_dir / name).is_dir() or (code_dir / f"{name}.py").is_file())
    ]
    if missing or not names:
        raise UserError(
            f"{code_dir} holds no module {', '.join(missing) or 'at all'}.",
            "name the folder that holds train.py (Checkout.code_dir)",
        )
    package = f"{PREFIX}{next(numbers)}"
    IsolatedFinder(package, code_dir, names).install()
    return Isolated(package, code_dir, names)


def top_level_names(code_dir: Path) -> list[str]:
    """The names that `import` would find in the folder."""
    files = [
        path.stem for path in code_dir.glob("*.py") if path.stem.isidentifier() and path.stem != "__init__"
    ]
    folders = [
        path.name for path in code_dir.iterdir() if path.name.isidentifier() and any(path.glob("**/*.py"))
    ]
    return sorted({*files, *folders} - {"__pycache__"})


class IsolatedFinder(importlib.abc.MetaPathFinder):
    """Finds the modules of one load."""

    def __init__(self, package: str, code_dir: Path, names: tuple[str, ...]):
        self.package = package
        self.code_dir = code_dir
        self.rewrite = ImportRewriter(package, names)

    def install(self) -> None:
        """Put the load's package into sys.modules and this finder before Python's own."""
        root = ModuleType(
            self.package, f"The official code in {self.code_dir}, imported under a private name."
        )
        root.__path__ = [str(self.code_dir)]
        root.__spec__ = importlib.machinery.ModuleSpec(self.package, None, is_package=True)
        sys.modules[self.package] = root
        sys.meta_path.insert(0, self)

    def find_spec(self, fullname, path=None, target=None):
        """The import system's question for a module; None for all that is not of this load."""
        if not fullname.startswith(self.package + "."):
            return None
        name = fullname.removeprefix(self.package + ".")
        for package, part in SHARED_STATE:
            if name == package:
                return importlib.machinery.ModuleSpec(fullname, StandInLoader(package), is_package=True)
            if name == f"{package}.{part}":
                path = importlib.import_module(package).__path__
        for folder in path or ():
            finder = importlib.machinery.FileFinder(
                folder,
                (self.loader, importlib.machinery.SOURCE_SUFFIXES),
                (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES),
            )
            spec = finder.find_spec(fullname)
            if spec is not None:
                return spec
        return None

    def loader(self, fullname: str, path: str) -> "RewritingLoader":
        """The loader of one of this load's files."""
        return RewritingLoader(fullname, path, self.rewrite)


class StandInLoader(importlib.abc.Loader):
    """Makes a module that is the shared package in all but the part that each load has for itself."""

    def __init__(self, package: str):
        self.package = package

    def create_module(self, spec):
        """A module that asks the shared package for what it does not have."""
        shared = importlib.import_module(self.package)

        def attribute(name: str):
            if (self.package, name) in SHARED_STATE:
                return importlib.import_module(f"{spec.name}.{name}")
            return getattr(shared, name)

        module = ModuleType(spec.name, shared.__doc__)
        module.__getattr__ = attribute
        return module

    def exec_module(self, module):
        """Nothing to run."""


class RewritingLoader(importlib.machinery.SourceFileLoader):
    """Compiles an official file with its imports of official modules pointed at the load's own package."""

    def __init__(self, fullname: str, path: str, rewrite: "ImportRewriter"):
        super().__init__(fullname, path)
        self.rewrite = rewrite

    def get_code(self, fullname):
        """The compiled module. No byte code is read or written: it would be the other names' byte code."""
        path = self.get_filename(fullname)
        parsed = parse(self.get_data(path), path)
        return compile(self.rewrite.visit(parsed), path, "exec", dont_inherit=True)


class ImportRewriter(ast.NodeTransformer):
    """Rewrites import statements that name official modules, or a package that each load has for itself."""

    def __init__(self, package: str, names: tuple[str, ...]):
        self.package = package
        self.names = set(names)

    def is_private(self, dotted: str) -> bool:
        """Whether the module is imported under the load's own package."""
        head, *rest = dotted.split(".")
        return head in self.names or any(
            head == package and rest[:1] == [part] for package, part in SHARED_STATE
        )

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        """`import common.math` binds `common`, also where it is another module that is imported."""
        statements = []
        for alias in node.names:
            if not self.is_private(alias.name) and not self.has_private_part(alias.name):
                statements.append(ast.Import([alias]))
                continue
            private = f"{self.package}.{alias.name}"
            if alias.asname:
                statements.append(ast.Import([ast.alias(private, alias.asname)]))
                continue
            head = alias.name.split(".")[0]
            # The first binds `head` to the innermost module for a moment; the second to what it should be.
            if head != alias.name:
                statements.append(ast.Import([ast.alias(private, head)]))
            statements.append(ast.Import([ast.alias(f"{self.package}.{head}", head)]))
        return [ast.fix_missing_locations(ast.copy_location(statement, node)) for statement in statements]

    def has_private_part(self, dotted: str) -> bool:
        """Whether this is a shared package of which a part is private."""
        return any(dotted == package for package, _ in SHARED_STATE)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.stmt]:
        """`from dm_control import suite, mjcf` takes each name from where it is."""
        if node.level or not node.module:
            return [node]
        private = [alias for alias in node.names if (node.module, alias.name) in SHARED_STATE]
        if self.is_private(node.module):
            private = node.names
        statements = []
        for module, aliases in (
            (node.module, [alias for alias in node.names if alias not in private]),
            (f"{self.package}.{node.module}", private),
        ):
            if aliases:
                statements.append(ast.copy_location(ast.ImportFrom(module, aliases, 0), node))
        return statements
