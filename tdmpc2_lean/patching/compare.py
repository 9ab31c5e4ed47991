"""`diff`, `show` and `audit`: a checkout against its upstream commit, a patch against what it stands on.

All three are pure functions of pairs of bytes (`unified`, `functions`); the rest finds those bytes.
"""

import ast
import difflib
from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.parsing import parse
from tdmpc2_lean.patching import structure
from tdmpc2_lean.patching.disk import Store
from tdmpc2_lean.patching.record import left_out, original_files, store_of
from tdmpc2_lean.patching.render import already_there, render, render_series
from tdmpc2_lean.patching.series import Series
from tdmpc2_lean.patching.source import BOM, lines_of
from tdmpc2_lean.patching.verbs import find_root, finish_pending, series_of
from tdmpc2_lean.upstreams.applied import State, is_git

Pair = tuple[bytes | None, bytes | None]
IGNORED = {".git", ".tdmpc2-lean", "__pycache__"}


@dataclass(frozen=True)
class Comparison:
    """A checkout beside its base.

    base: what it is compared with, in words ('upstream commit …').
    changed: path -> (bytes in the base, bytes now), for files that differ.
    same: the Python files that do not, path -> bytes.
    """

    root: Path
    base: str
    changed: Mapping[str, Pair]
    same: Mapping[str, bytes]


@dataclass(frozen=True)
class FileAudit:
    """A changed file, function by function: dotted names in source order.

    A class's own statements go by the class's name, a module's by `<module>`. A function includes its
    decorators and the functions in it. Untouched is what does the same: comments, formatting, docstrings, names
    of local variables and the place in the file do not count (see `structure`). kind: 'changed', 'added',
    'removed' or, if it is not Python that parses, 'other'.
    """

    path: str
    kind: str
    untouched: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    lines_added: int = 0
    lines_removed: int = 0


@dataclass(frozen=True)
class Audit:
    """A checkout, function by function.

    files: those that differ from `base`.
    untouched_files: Python files that do not, path -> their functions.
    """

    root: Path
    base: str
    files: tuple[FileAudit, ...]
    untouched_files: Mapping[str, tuple[str, ...]]

    def about(self, name: str) -> list[tuple[str, str, str]]:
        """(path, dotted name, verdict) of every function called `name`, or whose dotted name ends in it."""
        rows = []
        for file in self.files:
            for verdict in ("untouched", "changed", "added", "removed"):
                rows += [(file.path, one, verdict) for one in getattr(file, verdict)]
        for path, names in self.untouched_files.items():
            rows += [(path, one, "untouched") for one in names]
        return [row for row in rows if row[1] == name or row[1].endswith("." + name)]

    def names(self) -> list[str]:
        """All function names, for suggestions."""
        found = [name for names in self.untouched_files.values() for name in names]
        for file in self.files:
            found += [*file.untouched, *file.changed, *file.added, *file.removed]
        return sorted({part for name in found for part in (name, name.rpartition(".")[2])})


# --------------------------------------------------------------------------------------------- pairs of bytes


def unified(changes: Mapping[str, Pair]) -> str:
    """The unified diff, as git would print it; bytes that are no UTF-8 as surrogates."""
    return "".join(
        _unified_file(path, *changes[path]) for path in sorted(changes) if len(set(changes[path])) > 1
    )


def _unified_file(path: str, before: bytes | None, after: bytes | None) -> str:
    head = f"diff --git a/{path} b/{path}\n"
    head += (
        "new file mode 100644\n" if before is None else "deleted file mode 100644\n" if after is None else ""
    )
    if b"\0" in (before or b"") + (after or b""):
        return head + f"Binary files a/{path} and b/{path} differ\n"
    old, new = (lines_of((data or b"").decode("utf-8", "surrogateescape")) for data in (before, after))
    names = ("/dev/null" if before is None else f"a/{path}", "/dev/null" if after is None else f"b/{path}")
    out = []
    for line in difflib.unified_diff(old, new, *names):
        out.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return head + "".join(out)


def functions(data: bytes) -> dict[str, str]:
    """Dotted name -> text, for each function, each class's own statements, and `<module>`. SyntaxError if
    no Python.

    Texts are without comments and blank lines between functions, but with those inside; two definitions of
    one name (a property and its setter) count as one.
    """
    text = data.removeprefix(BOM).decode("utf-8").replace("\r\n", "\n")
    lines = lines_of(text)
    found: dict[str, str] = {}

    def take(name: str, more: str) -> None:
        found[name] = found.get(name, "") + more

    def visit(node: ast.AST, name: str, first: int, last: int) -> None:
        """Everything on lines first to last goes to `name`, except what is inside functions and classes."""
        own = []
        at = first
        for inner in _definitions(node):
            start = min([inner.lineno, *(decorator.lineno for decorator in inner.decorator_list)])
            own += lines[at - 1 : start - 1]
            at = inner.end_lineno + 1
        own += lines[at - 1 : last]
        take(name, "".join(line for line in own if line.strip() and not line.lstrip().startswith("#")))
        for inner in _definitions(node):
            start = min([inner.lineno, *(decorator.lineno for decorator in inner.decorator_list)])
            dotted = inner.name if name == "<module>" else f"{name}.{inner.name}"
            if isinstance(inner, ast.ClassDef):
                visit(inner, dotted, start, inner.end_lineno)
            else:
                take(dotted, "".join(lines[start - 1 : inner.end_lineno]))

    visit(parse(text), "<module>", 1, len(lines))
    return found


def _definitions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """The functions and classes directly in a module or class, also those under an `if` or `try` there."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child
        elif isinstance(child, ast.stmt | ast.excepthandler):
            yield from _definitions(child)


def audit_file(path: str, before: bytes | None, after: bytes | None) -> FileAudit:
    """What became of each function of one file."""
    diff = lines_of(_unified_file(path, before, after))
    added = sum(line.startswith("+") and not line.startswith("+++ ") for line in diff)
    removed = sum(line.startswith("-") and not line.startswith("--- ") for line in diff)
    kind = "added" if before is None else "removed" if after is None else "changed"
    try:
        if not path.endswith(".py"):
            raise ValueError
        old = {} if before is None else functions(before)
        new = {} if after is None else functions(after)
        touched = _touched(before, after)
    except (SyntaxError, ValueError):
        return FileAudit(
            path, "other" if kind == "changed" else kind, lines_added=added, lines_removed=removed
        )
    return FileAudit(
        path,
        kind,
        untouched=tuple(name for name in new if name in old and name not in touched),
        changed=tuple(name for name in new if name in old and name in touched),
        added=tuple(name for name in new if name not in old),
        removed=tuple(name for name in old if name not in new),
        lines_added=added,
        lines_removed=removed,
    )


def _touched(before: bytes | None, after: bytes | None) -> set[str]:
    """Dotted names of what is in both files and does not do the same; a module's tables go by `<module>`."""
    if before is None or after is None:
        return set()
    old, new = structure.definitions(before), structure.definitions(after)
    found = set()
    for name in {*old, *new}:
        forms = old.get(name), new.get(name)
        if None in forms or not forms[0].does_what(forms[1]):
            found.add(structure.MODULE if "table" in {form.kind for form in forms if form} else name)
    return found


# ------------------------------------------------------------------------------------------ finding the bytes


def compare(root: str | Path, against: str | None = None) -> Comparison:
    """A checkout against its upstream commit, or against a commit that is named.

    In a git working tree: the newest commit under HEAD that is known to be the upstream's own, else HEAD.
    In a plain
    folder: the recorded originals of patched files, or the official commit that our cache says it came from.
    """
    root = find_root(root)
    store = store_of(root)
    finish_pending(store)
    state = store.state()
    if is_git(root):
        return _compare_git(root, state, against)
    if state.applied and against is None:
        return _compare_recorded(root, store, state)
    return _compare_folders(root, against)


def diff(root: str | Path, against: str | None = None) -> str:
    """The unified diff from a checkout's upstream commit to what it is now."""
    return unified(compare(root, against).changed)


def audit(root: str | Path, against: str | None = None) -> Audit:
    """Function by function, what is untouched, changed, added and removed against the upstream commit."""
    found = compare(root, against)
    untouched = {}
    for path, data in found.same.items():
        try:
            untouched[path] = tuple(functions(data))
        except (SyntaxError, ValueError):
            untouched[path] = ()
    files = tuple(audit_file(path, *found.changed[path]) for path in sorted(found.changed))
    return Audit(found.root, found.base, files, untouched)


def show(name: str, root: str | Path, series: Series | None = None) -> str:
    """The unified diff that one patch makes on a checkout, after those it needs; '' where its code has that already."""
    series = series or series_of(root)
    patch = series[name]
    root = find_root(root)
    store = store_of(root)
    finish_pending(store)
    base = original_files(store, store.state())
    lacking = left_out(root, series.upstream)
    below = render_series([needed for needed in series.closure([name]) if needed is not patch], base, lacking)
    files = ChainMap(below, base)
    if already_there(patch, base):
        return ""
    return unified({path: (files.get(path), data) for path, data in render(patch, files, lacking).items()})


def upstream_commit(root: Path) -> str | None:
    """The newest commit under HEAD that is known to be an upstream's own, or None."""
    from tdmpc2_lean.upstreams import UPSTREAMS, git, repository

    known: set[str] = set()
    for upstream in UPSTREAMS.values():
        known |= set(upstream.trees)
        cached = repository.repository(upstream)
        if cached is not None:
            tried = repository.known_commits(cached, upstream)
            known |= set(git.text("rev-list", "--branches", "--tags", *tried, where=cached).split())
    commits = git.text("rev-list", "HEAD", where=root).split()
    return next((commit for commit in commits if commit in known), None)


def _compare_git(root: Path, state: State, against: str | None) -> Comparison:
    from tdmpc2_lean.patching.plumbing import beside

    with beside(root) as plumbing:
        head = plumbing.commit("HEAD")
        official = None if against else upstream_commit(root)
        base = plumbing.commit(against) if against else official or head
        plumbing.run("read-tree", base)
        plumbing.run("add", "--all", "--", ".")
        created = [
            name
            for name, record in state.files.items()
            if record.original is None and (root / name).is_file()
        ]
        if created:
            plumbing.run("add", "--force", "--", *created)
        tree = plumbing.text("write-tree")
        old, new = plumbing.entries(base), plumbing.entries(tree)

        def blob(entry: tuple[str, str] | None) -> bytes | None:
            return None if entry is None else plumbing.run("cat-file", "blob", entry[1])

        different = [path for path in sorted({*old, *new}) if old.get(path) != new.get(path)]
        changed = {path: (blob(old.get(path)), blob(new.get(path))) for path in different}
        same = {path: blob(new[path]) for path in new if path not in changed and path.endswith(".py")}
    words = (
        f"upstream commit {base[:12]}" if official else f"commit {base[:12]}" + ("" if against else " (HEAD)")
    )
    return Comparison(root, words, changed, same)


def _compare_recorded(root: Path, store: Store, state: State) -> Comparison:
    changed = {}
    for name, record in state.files.items():
        pair = (store.original(name, record), store.tree.get(name))
        if pair[0] != pair[1]:
            changed[name] = pair
    same = {
        name: (root / name).read_bytes()
        for name in _files(root)
        if name.endswith(".py") and name not in changed
    }
    return Comparison(root, "the recorded original files", changed, same)


def _compare_folders(root: Path, against: str | None) -> Comparison:
    """A plain folder against another copy of its upstream commit, from our cache."""
    from tdmpc2_lean import upstreams

    about = upstreams.describe(root)
    commit = against or about.commit
    if commit is None and about.upstream != upstreams.MINIATURE:
        raise UserError(
            f"{root} has neither git's history nor a record of patches, and is no commit we know.",
            "name the commit to compare with: --against COMMIT",
        )
    if about.upstream == upstreams.MINIATURE:
        base = upstreams.find_checkout(upstreams.MINIATURE)
    else:
        base = upstreams.find_checkout(about.upstream, commit)
    changed, same = {}, {}
    for name in sorted({*_files(base.root), *_files(root)}):
        pair = tuple(
            (top / name).read_bytes() if (top / name).is_file() else None for top in (base.root, root)
        )
        if pair[0] != pair[1]:
            changed[name] = pair
        elif name.endswith(".py"):
            same[name] = pair[0]
    words = "the miniature" if about.upstream == upstreams.MINIATURE else f"upstream commit {commit[:12]}"
    return Comparison(root, words, changed, same)


def _files(root: Path) -> list[str]:
    found = []
    for path in root.rglob("*"):
        name = path.relative_to(root)
        if not IGNORED & set(name.parts) and path.is_file() and not path.is_symlink():
            found.append(name.as_posix())
    return sorted(found)
