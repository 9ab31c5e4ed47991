"""The mutants of a subject: found anew at every call from its files, in an order that a seed decides."""

import ast
import hashlib
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.parsing import parse
from tdmpc2_lean.upstreams import UPSTREAMS
from tdmpc2_lean.validation.gates.strength import scope
from tdmpc2_lean.validation.gates.strength.leaves import edits_of_yaml
from tdmpc2_lean.validation.gates.strength.operators import Mutation, edits_of_python, header
from tdmpc2_lean.validation.gates.subjects import GateSubject

OFFICIAL, OF_PATCHES = "official code", "the patches' code"


@dataclass(frozen=True)
class Mutant:
    """One wrong edit of one file.

    id: FILE:LINE:COLUMN:OPERATOR:NUMBER, the same for the same bytes of the file. origin: OFFICIAL or OF_PATCHES.
    structure: 12 hexadecimal digits that stand for the changed statement and the change, not for where they are.
    """

    id: str
    file: str
    edit: Mutation
    origin: str
    structure: str

    @property
    def what(self) -> str:
        return self.edit.what


def mutants_of(subject: GateSubject, files: Sequence[str] = ()) -> list[Mutant]:
    """All mutants of a subject's code, file by file. files: only those; UserError where one is none of them."""
    names = files_of(subject)
    for name in files:
        if name not in names:
            raise UserError(f"{name} is no file that gates are measured on.", f"one of {', '.join(names)}")
    return [mutant for name in names if not files or name in files for mutant in mutants_of_file(subject, name)]


def files_of(subject: GateSubject) -> list[str]:
    """The files that are mutated, as posix paths below the folder from which the code is run."""
    found = [path for path in subject.code_dir.rglob("*") if path.suffix in (".py", ".yaml") and path.is_file()]
    names = sorted(path.relative_to(subject.code_dir).as_posix() for path in found)
    return [name for name in names if scope.is_mutated(subject.upstream, name)]


def mutants_of_file(subject: GateSubject, name: str) -> Iterator[Mutant]:
    source = (subject.code_dir / name).read_bytes()
    path = subject.reference.code_dir / name
    official = statements_of(path.read_bytes(), name) if path.is_file() else frozenset()
    edits = edits_of_python(source) if name.endswith(".py") else edits_of_yaml(source, scope.SECTIONS.get(name))
    numbers: Counter = Counter()
    for edit in edits:
        if scope.is_shown_only(name, edit):
            continue
        column = edit.start - source.rfind(b"\n", 0, edit.start) - 1
        line = source.count(b"\n", 0, edit.start) + 1
        place = f"{name}:{line}:{column}:{edit.operator}"
        numbers[place] += 1
        origin = OFFICIAL if (edit.function, edit.statement) in official else OF_PATCHES
        structure = hashlib.sha256(edit.structure.encode()).hexdigest()[:12]
        yield Mutant(f"{place}:{numbers[place]}", name, edit, origin, structure)


def statements_of(source: bytes, name: str) -> frozenset[tuple[str, str]]:
    """(function, structure) of every statement of a file, (key, leaf) of a configuration, as edits have them."""
    if not name.endswith(".py"):
        return frozenset((edit.function, edit.statement) for edit in edits_of_yaml(source))
    found = set()

    def walk(node: ast.AST, names: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                found.add((".".join(names), header(child)))
            is_named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            walk(child, (*names, child.name) if is_named else names)

    walk(parse(source), ())
    return frozenset(found)


def in_order(mutants: Sequence[Mutant], seed: int) -> list[Mutant]:
    """The mutants in an order that is as random as sha256: the first n of it are a sample, whatever n is."""
    return sorted(mutants, key=lambda mutant: hashlib.sha256(f"{seed}:{mutant.id}".encode()).digest())


@contextmanager
def made(subject: GateSubject, mutant: Mutant) -> Iterator[GateSubject]:
    """The subject with the mutant's edit, in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="tdmpc2-lean-mutant-") as folder:
        code_dir = Path(folder).resolve() / UPSTREAMS[subject.upstream].code
        ignored = shutil.ignore_patterns("__pycache__", ".git", ".tdmpc2-lean")
        shutil.copytree(subject.code_dir, code_dir, ignore=ignored, dirs_exist_ok=True)
        path = code_dir / mutant.file
        path.write_bytes(mutant.edit.applied(path.read_bytes()))
        yield replace(subject, name=f"{subject.name} + mutant {mutant.id}", code_dir=code_dir)
