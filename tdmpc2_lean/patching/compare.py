"""`diff`, `show` and `audit`: a checkout against its upstream commit, a patch against what it stands on.

All three are pure functions of pairs of bytes (`unified`, `functions`); the rest finds those bytes.
"""

import ast
import difflib
from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.parsing import parse
from tdmpc2_lean.patching import structure
from tdmpc2_lean.patching.disk import Store
from tdmpc2_lean.patching.plumbing import beside
from tdmpc2_lean.patching.record import left_out, original_files, store_of
from tdmpc2_lean.patching.render import already_there, render, render_series
from tdmpc2_lean.patching.series import Series
from tdmpc2_lean.patching.source import BOM, lines_of
from tdmpc2_lean.patching.verbs import find_root, finish_pending, series_of
from tdmpc2_lean.upstreams import MINIATURE, Checkout, describe, find_checkout, git
from tdmpc2_lean.upstreams.ancestry import Descent
from tdmpc2_lean.upstreams.applied import State, condition, is_git
from tdmpc2_lean.upstreams.layout import no_checkout

Pair = tuple[bytes | None, bytes | None]
IGNORED = {".git", ".tdmpc2-lean", "__pycache__"}


@dataclass(frozen=True)
class Comparison:
    """A checkout beside its base.

    base: what it is compared with and why, in words ('upstream commit …').
    changed: path -> (bytes in the base, bytes now), for files that differ.
    same: the Python files that do not, path -> bytes.
    unpatched: path -> bytes before our recorded patches, of files that are as these left them; None: they created it.
    """

    root: Path
    base: str
    changed: Mapping[str, Pair]
    same: Mapping[str, bytes]
    unpatched: Mapping[str, bytes | None] = field(default_factory=dict)


@dataclass(frozen=True)
class FileAudit:
    """A changed file, function by function: dotted names in source order.

    A class's own statements go by the class's name, a module's by `<module>`. A function includes its
    decorators and the functions in it. Untouched is what does the same: comments, formatting, docstrings, names
    of local variables and the place in the file do not count (see `structure`). kind: 'changed', 'added',
    'removed' or, if it is not Python that parses, 'other'.
    patched: of all that is changed, added or removed, what only our recorded patches did.
    """

    path: str
    kind: str
    untouched: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    lines_added: int = 0
    lines_removed: int = 0
    patched: tuple[str, ...] = ()

    @property
    def touched(self) -> tuple[str, ...]:
        """All that is not as in the base."""
        return (*self.changed, *self.added, *self.removed)


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
                by = {one: f"{verdict} by our patches" for one in file.patched}
                rows += [(file.path, one, by.get(one, verdict)) for one in getattr(file, verdict)]
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
    """A checkout against the official commit that it descends from, or against a commit that is named.

    The official commit is the newest among its ancestors, or else the one to which its files come nearest (see
    `upstreams.ancestry`); where none is near, HEAD, or the recorded originals of patched files. Code without a history
    in common with it, as a copy in another repository, is compared by its code folder alone.
    against: a commit of the checkout's own repository, or of the one in which it lies, or an official one.
    """
    root = find_root(root)
    store = store_of(root)
    finish_pending(store)
    state = store.state()
    about = _described(root)
    if about is None and against is None and not state.applied:
        raise no_checkout(root)
    descent = about.descent if about is not None else None
    if is_git(root):
        found = _compare_git(root, state, about, descent, against)
    elif against is not None or about is not None and (descent or about.upstream == MINIATURE):
        found = _compare_folders(root, about, descent, against)
    elif state.applied:
        found = _compare_recorded(root, store, state)
    else:
        raise UserError(
            f"{root} has neither git's history nor a record of patches, and comes near to no commit in the cache.",
            "name the commit to compare with: --against COMMIT",
        )
    intact = [name for name, record in state.files.items() if condition(store, name, record) == "patched"]
    return replace(found, unpatched={name: store.original(name, state.files[name]) for name in intact})


def _described(root: Path) -> Checkout | None:
    """What the folder is; None where it is no checkout of an upstream."""
    try:
        return describe(root)
    except UserError:
        return None


def diff(root: str | Path, against: str | None = None) -> str:
    """The unified diff from a checkout's upstream commit to what it is now."""
    return unified(compare(root, against).changed)


def audit(root: str | Path, against: str | None = None) -> Audit:
    """Function by function, what is untouched, changed, added and removed against the upstream commit, and by whom."""
    found = compare(root, against)
    untouched = {}
    for path, data in found.same.items():
        try:
            untouched[path] = tuple(functions(data))
        except (SyntaxError, ValueError):
            untouched[path] = ()
    files = tuple(_audited(path, found) for path in sorted(found.changed))
    return Audit(found.root, found.base, files, untouched)


def _audited(path: str, found: Comparison) -> FileAudit:
    before, after = found.changed[path]
    whole = audit_file(path, before, after)
    if path not in found.unpatched:
        return whole
    own = set(audit_file(path, before, found.unpatched[path]).touched) if before != found.unpatched[path] else set()
    return replace(whole, patched=tuple(name for name in whole.touched if name not in own))


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


def _compare_git(
    root: Path, state: State, about: Checkout | None, descent: Descent | None, against: str | None
) -> Comparison:
    """A git working tree with a commit of its own repository, or with an official one from the cache."""
    own = git.commit_named(root, against or "HEAD")
    official = None
    only_code = descent is None or descent.how == "files"
    if against is None and descent is not None and descent.how != "pin":
        words = f"upstream commit {descent.commit[:12]}, {descent.why}"
        if not only_code and git.has_commit(root, descent.commit):
            own = descent.commit
        else:
            official = descent.commit
    elif against is None:
        words = f"commit {(own or '')[:12]} (HEAD)"
    elif own is None and about is not None:
        official, words = against, f"commit {against}"
    else:
        words = f"commit {(own or '')[:12]}"
    with beside(root) as plumbing:
        base = plumbing.commit(own or against or "HEAD") if official is None else None
        plumbing.run("read-tree", base or "HEAD")
        plumbing.run("add", "--all", "--", ".")
        created = [
            name
            for name, record in state.files.items()
            if record.original is None and (root / name).is_file()
        ]
        if created:
            plumbing.run("add", "--force", "--", *created)
        new = plumbing.entries(plumbing.text("write-tree"))

        def blob(entry: tuple[str, str] | None) -> bytes | None:
            return None if entry is None else plumbing.run("cat-file", "blob", entry[1])

        if official is not None:
            if only_code:
                new = {name: entry for name, entry in new.items() if name.startswith(about.layout.prefix)}
            return _compared(root, words, _official_files(about, official, only_code), new, blob)
        old = plumbing.entries(base)
        different = [path for path in sorted({*old, *new}) if old.get(path) != new.get(path)]
        changed = {path: (blob(old.get(path)), blob(new.get(path))) for path in different}
        same = {path: blob(new[path]) for path in new if path not in changed and path.endswith(".py")}
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


def _compare_folders(root: Path, about: Checkout | None, descent: Descent | None, against: str | None) -> Comparison:
    """A folder without git of its own against an official commit, or against a commit of the repository it lies in."""
    outer = git.working_tree_around(root)
    commit = git.commit_named(outer, against) if against and outer else None
    if commit is not None:
        return _compare_with_outer(root, outer, commit)
    if about is None:
        raise no_checkout(root)
    if about.upstream == MINIATURE:
        words = "the miniature"
    else:
        words = f"commit {against}" if against else f"upstream commit {descent.commit[:12]}, {descent.why}"
    base = _official_files(about, against or (descent and descent.commit), False)
    layout = about.layout
    beside_code = [name for name in base if not name.startswith(layout.prefix) and (root / name).is_file()]
    alone = outer is not None or layout.code != about.known.code or (layout.code and not beside_code)
    if alone:
        base = {name: data for name, data in base.items() if name.startswith(layout.prefix)}
    if outer:
        now = [name for name in _files_known_to_git(root) if not alone or name.startswith(layout.prefix)]
    else:
        now = [layout.prefix + one for one in _files(root / layout.code)] if alone else _files(root)
    return _compared(root, words, base, dict.fromkeys(now), lambda entry: None)


def _compare_with_outer(root: Path, outer: Path, commit: str) -> Comparison:
    """A folder of a repository against what one of its commits has there."""
    inside = root.relative_to(outer).as_posix()
    with beside(outer) as plumbing:
        rows = plumbing.entries(f"{commit}:{inside}") if inside != "." else plumbing.entries(commit)
        base = {name: plumbing.run("cat-file", "blob", blob) for name, (_, blob) in rows.items()}
    now = dict.fromkeys(_files_known_to_git(root))
    return _compared(root, f"commit {commit[:12]} of {outer}", base, now, lambda entry: None)


def _files_known_to_git(root: Path) -> list[str]:
    """A folder's files that the repository around it does not ignore, our record left out."""
    listed = git.run("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ".", where=root)
    names = filter(None, listed.decode("utf-8", "surrogateescape").split("\0"))
    return [name for name in names if not IGNORED & set(name.split("/")) and (root / name).is_file()]


def _compared(root: Path, words: str, base: Mapping[str, bytes], now: Mapping, blob) -> Comparison:
    """Files by path; now: each path's entry, whose bytes `blob` gives; those of None lie in the folder."""
    changed, same = {}, {}
    for name in sorted({*base, *now}):
        here = None
        if name in now:
            here = (root / name).read_bytes() if now[name] is None else blob(now[name])
        pair = (base.get(name), here)
        if pair[0] != pair[1]:
            changed[name] = pair
        elif name.endswith(".py"):
            same[name] = here
    return Comparison(root, words, changed, same)


def _official_files(about: Checkout, commit: str | None, only_code: bool) -> dict[str, bytes]:
    """An official commit's files from the cache, by the checkout's own paths."""
    if about.upstream == MINIATURE:
        found = find_checkout(MINIATURE)
    else:
        found = find_checkout(about.upstream, commit)
    names = {about.layout.own(name): name for name in _files(found.root)}
    wanted = {own: name for own, name in names.items() if not only_code or own.startswith(about.layout.prefix)}
    return {own: (found.root / name).read_bytes() for own, name in wanted.items()}


def _files(root: Path) -> list[str]:
    found = []
    for path in root.rglob("*"):
        name = path.relative_to(root)
        if not IGNORED & set(name.parts) and path.is_file() and not path.is_symlink():
            found.append(name.as_posix())
    return sorted(found)
