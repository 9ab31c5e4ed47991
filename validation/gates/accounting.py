"""Accounts for every difference between a subject and its reference with our patches, before anything runs.

What has the same form (see `patching.structure`) needs no experiment. Everything else is a change, with a file and a
name, and a gate has to say of each whether it was executed (`executed`). All functions here are pure functions of
{path from the code folder: bytes}; `read_code` finds those bytes.
"""

import ast
import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path, PurePosixPath

from tdmpc2_lean.parsing import parse
from tdmpc2_lean.patching import annotations, structure
from tdmpc2_lean.patching.source import BOM
from tdmpc2_lean.patching.structure import Form

FILE = "<file>"  # stands for the whole of a file that is neither Python nor YAML, or cannot be read as such
CHANGED, ADDED, REMOVED = "changed", "added", "removed"
YAML = (".yaml", ".yml")
BINARY = (".so", ".pyd")
# What code may read beside its modules; papers, pictures and notes are none of it.
DATA = {".xml", ".json", ".npy", ".npz", ".pt", ".pkl", ".csv", ".toml", ".ini", ".cfg", ".h5", ".stl", *YAML}
SKIPPED = {"__pycache__", "node_modules"}
# What would exercise code that no gate executes: pattern of the change's id, words.
EXERCISES = (
    ("evaluate.py:*", "a run of evaluate.py"),
    ("train.py:*", "a run of train.py"),
    ("trainer/offline_trainer.py:*", "offline training on a multi-task data set"),
    ("envs/wrappers/multitask.py:*", "an environment of several tasks"),
    ("envs/wrappers/pixels.py:*", "training on pixels"),
    ("envs/metaworld.py:*", "a task of Meta-World"),
    ("envs/maniskill.py:*", "a task of ManiSkill2"),
    ("envs/myosuite.py:*", "a task of MyoSuite"),
    ("envs/mujoco.py:*", "a task of gymnasium's MuJoCo"),
    ("common/logger.py:*", "training with its logger on: W&B, video, saved agents"),
    ("embodied/envs/*", "a task of that environment"),
    ("embodied/run/*", "DreamerV3 with that script (--script)"),
    ("*.yaml:*", "a gate that resolves this setting, or an update at sizes where it has an effect"),
)


@dataclass(frozen=True)
class CodeChange:
    """Something of a subject whose form is not that of its reference with our patches.

    file: path from the code folder. name: dotted name of a function, class or table, `<module>`, or a dotted key.
    kind: changed, added or removed. what: function, class, module, table, key or file. summary: the first difference.
    before, after: the forms, of Python.
    """

    file: str
    name: str
    kind: str
    what: str
    summary: str = ""
    before: Form | None = None
    after: Form | None = None

    @property
    def id(self) -> str:
        """How results name the change: `common/layers.py:NormedLinear.forward`."""
        return f"{self.file}:{self.name}"

    @property
    def changed_lines(self) -> str:
        """The lines that differ, of both sides, as Python would write them; of a setting its key and values."""
        if self.before is None and self.after is None:
            return f"{self.name}: {self.summary}"
        old, new = (lines_of(form) if form else [] for form in (self.before, self.after))
        lines = [line[2:] for line in difflib.ndiff(old, new) if line[0] in "+-"]
        return "\n".join(lines)

    @property
    def exercised_by(self) -> str:
        """What would exercise it, as far as is known."""
        return next((words for pattern, words in EXERCISES if fnmatch(self.id, pattern)), "")


@dataclass(frozen=True)
class Accounting:
    """What was compared, and every difference.

    definitions, keys: how many functions, classes, tables and modules, and how many keys of YAML, are the same.
    changes: what is not. unused: ids of the changes that are removals of what nothing in the subject names any more.
    patches: names of our patches that the subject has, and that the reference was given.
    aside: Python files that differ and that no script can import.
    """

    definitions: int
    keys: int
    changes: tuple[CodeChange, ...]
    unused: frozenset[str] = frozenset()
    patches: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()

    def as_dict(self) -> dict:
        """As JSON has it."""
        return {
            "same": {"definitions": self.definitions, "keys": self.keys},
            "changes": [
                {"id": one.id, "kind": one.kind, "what": one.what, "summary": one.summary} for one in self.changes
            ],
            "patches": list(self.patches),
            "aside": list(self.aside),
        }

    def lines(self) -> list[str]:
        """What the command prints before anything runs."""
        count = len(self.changes)
        told = [
            f"{self.definitions} definitions: same syntax tree; {self.keys} keys of YAML: same value; "
            + ("no change" if not count else "1 change:" if count == 1 else f"{count} changes:")
        ]
        told += [f"  {one.kind:<8}{one.id}" + (f"   {one.summary}" if one.summary else "") for one in self.changes]
        if self.aside:
            told.append(f"  beside it, {', '.join(self.aside)} differ, which no script imports")
        return told


def account(
    subject: Mapping[str, bytes], reference: Mapping[str, bytes], entries: Iterable[str], patches: Iterable[str] = ()
) -> Accounting:
    """Every difference of a subject's files from its reference's, patched as the subject is.

    entries: the scripts, such as train.py, by path from the code folder. patches: the patches' names, for the record.
    """
    entries = tuple(entries)
    running = importable(subject, entries) | importable(reference, entries)
    code = [files[path] for files in (subject, reference) for path in files if path in running]
    read = structure.reads_docstrings(code), annotations.are_read(code)
    definitions = keys = 0
    changes: list[CodeChange] = []
    for path in sorted(running):
        pair = reference.get(path), subject.get(path)
        if pair[0] == pair[1]:
            definitions += names_in(pair[0])
            continue
        same, found = compare_python(path, *pair, *read)
        definitions += same
        changes += found
    for path in sorted({*reference, *subject} - running):
        before, after = reference.get(path), subject.get(path)
        suffix = PurePosixPath(path).suffix
        if suffix in YAML and before is not None:
            same, found = compare_yaml(path, before, after)
            keys += same
            changes += found
        elif before != after and (suffix in BINARY or (before is not None and suffix in DATA)):
            kind = ADDED if before is None else REMOVED if after is None else CHANGED
            changes.append(CodeChange(path, FILE, kind, "file"))
    aside = tuple(
        path
        for path in sorted({*reference, *subject} - running)
        if path.endswith(".py") and reference.get(path) != subject.get(path)
    )
    unused = frozenset(change.id for change in changes if is_unused(change, subject, running))
    return Accounting(definitions, keys, tuple(changes), unused, tuple(patches), aside)


# ------------------------------------------------------------------------------------------------------ file by file


@lru_cache(maxsize=4096)
def names_in(data: bytes) -> int:
    """How many definitions a Python file has; 1 for one that does not parse."""
    try:
        return 1 + sum(isinstance(node, structure.DEFINITIONS) for node in ast.walk(parse(data.removeprefix(BOM))))
    except (SyntaxError, ValueError):
        return 1


@lru_cache(maxsize=1024)
def forms_of(data: bytes, docstrings: bool = False, annotated: bool = False) -> dict[str, Form]:
    """`structure.definitions`, kept."""
    return structure.definitions(data, docstrings, annotated)


def compare_python(
    path: str, before: bytes | None, after: bytes | None, docstrings: bool = False, annotated: bool = False
) -> tuple[int, list[CodeChange]]:
    """How many definitions are the same, and the changes of one file."""
    try:
        old = forms_of(before, docstrings, annotated) if before is not None else {}
        new = forms_of(after, docstrings, annotated) if after is not None else {}
    except (SyntaxError, ValueError):
        kind = ADDED if before is None else REMOVED if after is None else CHANGED
        return 0, [CodeChange(path, FILE, kind, "file", "cannot be parsed as Python")]
    same, changes = 0, []
    for name in [*new, *(name for name in old if name not in new)]:
        was, now = old.get(name), new.get(name)
        if was is not None and now is not None and was.does_what(now):
            same += 1
            continue
        if (was is None or now is None) and is_empty(was or now):
            continue
        kind = ADDED if was is None else REMOVED if now is None else CHANGED
        changes.append(CodeChange(path, name, kind, (now or was).kind, first_difference(was, now), was, now))
    return same, changes


def is_empty(form: Form) -> bool:
    """Whether a module's own statements, or a class's without bases, are none, so that nothing hangs on them."""
    return form.kind == "module" and not form.text.strip()


def compare_yaml(path: str, before: bytes, after: bytes | None) -> tuple[int, list[CodeChange]]:
    """How many keys have the same value, and the changes of one file."""
    import yaml

    try:
        old = structure.settings(before)
        new = structure.settings(after) if after is not None else {}
    except (yaml.YAMLError, UnicodeDecodeError):
        return 0, [] if before == after else [CodeChange(path, FILE, CHANGED, "file", "cannot be read as YAML")]
    changes = []
    for key in [*old, *(key for key in new if key not in old)]:
        was, now = old.get(key), new.get(key)
        if was != now:
            kind = ADDED if was is None else REMOVED if now is None else CHANGED
            summary = shortened(now) if was is None else shortened(was) + (f" -> {shortened(now)}" if now else "")
            changes.append(CodeChange(path, key, kind, "key", summary))
    return sum(old[key] == new.get(key) for key in old), changes


def shortened(text: str, most: int = 44) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def first_difference(before: Form | None, after: Form | None) -> str:
    """The first lines that differ, as Python would write them; empty for what is wholly new or gone."""
    if before is None or after is None:
        return ""
    old, new = lines_of(before), lines_of(after)
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            was, now = (" / ".join(line.strip() for line in lines) or "nothing" for lines in (old[i1:i2], new[j1:j2]))
            return f"{shortened(differing(was, now))} -> {shortened(differing(now, was))}"
    return "the order of its statements" if before.kind in ("module", "class") else "names of local variables"


def lines_of(form: Form) -> list[str]:
    """A form as Python would write it; of a module or class the functions in it left out."""
    lines = []
    for node in form.nodes:
        if not isinstance(node, ast.Module | ast.ClassDef):
            lines += ast.unparse(node).split("\n")
            continue
        if isinstance(node, ast.ClassDef):
            head = ast.ClassDef(node.name, node.bases, node.keywords, [ast.Pass()], node.decorator_list)
            lines += ast.unparse(head).split("\n")[:-1]
        for statement in structure.own_statements(node):
            lines += ast.unparse(statement).split("\n")
    return lines


def differing(text: str, other: str) -> str:
    """`text` from a little before the first character in which it differs."""
    start = len(os.path.commonprefix([text, other]))
    return text if len(text) <= 44 or start < 20 else "…" + text[start - 12 :]


# -------------------------------------------------------------------------------------------- what scripts can import


def importable(files: Mapping[str, bytes], entries: Iterable[str]) -> set[str]:
    """The Python files that scripts import, each other's imports followed, wherever in a file an import stands.

    A text that names a module, such as 'embodied.envs.dmc:DMC', counts as an import, and so do Hydra's plugins and
    what stands beside a file that imports by names it makes. A file that shadows an installed package is found where
    that is imported.
    """
    entries = [entry for entry in entries if entry in files]
    roots = sorted({"", *(PurePosixPath(entry).parent.as_posix().replace(".", "") for entry in entries)})
    found: set[str] = set()
    todo = entries + [path for path in files if path.startswith("hydra_plugins/") and path.endswith(".py")]
    while todo:
        path = todo.pop()
        if path in found:
            continue
        found.add(path)
        package = PurePosixPath(path).parent.parts
        if b"import_module" in files[path]:  # of a name that is made while it runs: any beside it
            todo += [one for one in files if one.endswith(".py") and PurePosixPath(one).parent.parts == package]
        for module in modules_named(files[path], package):
            # Code that is imported as a package names its modules by one more part in front, `tdmpc2.common.math`.
            for root, tail in ((root, tail) for root in roots for tail in (module, module[1:]) if tail):
                parts = (*PurePosixPath(root).parts, *tail)
                for length in range(1, len(parts) + 1):
                    stem = "/".join(parts[:length])
                    todo += [one for one in (f"{stem}/__init__.py", f"{stem}.py") if one in files and one not in found]
    return found


@lru_cache(maxsize=4096)
def modules_named(data: bytes, package: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    """The modules that a file names, from the code folder; those that are elsewhere too."""
    try:
        tree = parse(data.removeprefix(BOM))
    except (SyntaxError, ValueError):
        return frozenset()
    named: set[tuple[str, ...]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named |= {tuple(alias.name.split(".")) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = (*above, *(node.module.split(".") if node.module else ()))
            named |= {(*base, alias.name) for alias in node.names} | ({base} if base else set())
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            module = node.value.partition(":")[0]
            parts = module.lstrip(".").split(".")
            if len(parts) > 1 and all(part.isidentifier() for part in parts):
                named.add((*package, *parts) if module.startswith(".") else tuple(parts))
    return frozenset(named)


def is_unused(change: CodeChange, subject: Mapping[str, bytes], running: Iterable[str]) -> bool:
    """Whether a function or table is gone and nothing that can run names it any more: whoever did has changed."""
    owner, _, name = change.name.rpartition(".")
    # Others, such as a base class, may call a method by its name without naming it here, unless it is private.
    own = not owner or (name.startswith("_") and not name.startswith("__"))
    if change.kind != REMOVED or change.what not in ("function", "table", "class") or not own:
        return False
    return not any(name.encode() in subject[path] for path in running if path in subject)


# ----------------------------------------------------------------------------------------------------- our patches


def patched_alike(
    subject: Mapping[str, bytes], reference: Mapping[str, bytes], series, prefix: str, left_out: Iterable[str] = ()
) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """(files, names): the reference with those of our patches that the subject has, and their names.

    A patch is taken to be there if the reference comes nearer to the subject with it. prefix: the code folder's path
    in a checkout with a slash after it, or '': patches name files from the checkout. left_out: what a release lacks.
    """
    from tdmpc2_lean.errors import UserError
    from tdmpc2_lean.patching import render

    files, names = {prefix + path: data for path, data in reference.items()}, []
    for patch in series:
        if not set(patch.needs) <= set(names):
            continue
        try:
            changed = render(patch, files, tuple(left_out))
        except UserError:
            continue  # it does not fit on this commit, so the subject cannot have it
        paths = [path for path in changed if path.startswith(prefix)]
        before, after = (
            [distance(path, one.get(path), subject.get(path.removeprefix(prefix))) for path in paths]
            for one in (files, changed)
        )
        if total(after) < total(before):
            files |= changed
            names.append(patch.name)
    return {path.removeprefix(prefix): data for path, data in files.items() if path.startswith(prefix)}, tuple(names)


def total(distances: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Definitions and lines over all files."""
    return sum(one[0] for one in distances), sum(one[1] for one in distances)


def distance(path: str, before: bytes | None, after: bytes | None) -> tuple[int, int]:
    """How many definitions or keys differ, and how many lines: the latter tell where both have changed something."""
    if before == after:
        return 0, 0
    old, new = ((data or b"").splitlines() for data in (before, after))
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    lines = len(old) + len(new) - 2 * sum(block.size for block in blocks)
    if path.endswith(".py"):
        return len(compare_python(path, before, after)[1]), lines
    return len(compare_yaml(path, before or b"", after)[1]) if path.endswith(YAML) else 1, lines


# ------------------------------------------------------------------------------------------------- finding the bytes


def read_code(code_dir: Path, also: Iterable[str] = ()) -> dict[str, bytes]:
    """The files of a code folder that can matter: what Python could import, configuration, and the paths in `also`."""
    found, seen = {}, set()
    wanted = (".py", *YAML, *BINARY)
    for folder, folders, names in os.walk(code_dir, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not name.startswith(".") and name not in SKIPPED]
        for name in names:
            if name.endswith(wanted):
                path = Path(folder) / name
                found[path.relative_to(code_dir).as_posix()] = path.read_bytes()
    for name in also:
        if name not in found and (Path(code_dir) / name).is_file():
            found[name] = (Path(code_dir) / name).read_bytes()
    return found


def data_in(code_dir: Path) -> list[str]:
    """Paths of what the code of a reference may read beside modules and configuration."""
    paths = (path.relative_to(code_dir) for path in Path(code_dir).rglob("*") if path.suffix in DATA and path.is_file())
    return [path.as_posix() for path in paths if not any(part.startswith(".") for part in path.parts)]
