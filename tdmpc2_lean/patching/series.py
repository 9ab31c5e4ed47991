"""Reads a series of patches from its folder and checks it before anything is done with it.

A series is a folder with a file `series` (one name per line, `#` starts a comment; patches apply in this order)
and one folder per patch. Its `patch.toml` says what to edit and the files beside it hold the new code. Nothing
here knows a checkout; `render` brings the two together.

    title, why      a line, and paragraphs; both become the commit message on export
    issue, fix      optional: the upstream's issue, and the default behaviour that changes
    needs           optional: earlier patches of the series
    [settings.NAME] one for each key that it adds to config.yaml or configs.yaml, and for each official key that only
                    it makes effective: type, range, default, meaning (see `settings.schema`); NAME is the whole key,
                    in quotes if it has dots. A default is the one that the patch writes
    default         optional: false for a patch that is used only where it is named; those come last in the series
    [already]       optional: where `find` (in `file`, `inside`) matches, a checkout has what the patch does;
                    [[already]], several, where checkouts of different ages have it in different ways
    [[requires]]    optional: what must be so in a checkout that its places do not show (see `requirements`)
    [[edit]]        one or more, carried out in order, each on what the one before left
      file          path from the checkout's root
      inside        optional: dotted name of a class or function, decorators included; else the whole file
      find          ast-grep pattern of a statement or expression (see `anchors`); in YAML, also
      key           the name of a top-level key
      count         optional: how many matches there must be, a number or [lowest, highest]; 1 by default. Where the
                    lowest is 0, the file, and `inside`, may be missing too
      do            replace   the match itself, or with `code` of several statements its statement
                    before, after, delete   mean the statement that holds the match
                    append    to the end of the body of `inside`, or of the file
                    bases     the list of bases of the class `inside` becomes `text`
                    create    a new file
                    nothing   is to be done where `find`, or `given`, matches: what the edit is for is not there
      code          `name` in code.py (config.yaml for YAML), `file:name`, or for `create` a file
      text          instead of code: one expression or statement
      whole         optional: insert the definition itself rather than its body
      like          for `create`, optional: the file whose indentation and line ends the new one takes
      given         optional: a table with `find` and, optional, `file` and `inside`: the edit is only for
                    checkouts in which that matches; `file` is the edit's own where it is not named
    [[edit.or]]     optional, one or more: an alternative for code of another age, of the same fields. Of the edit
                    and its alternatives the first is carried out whose place is found; where an alternative
                    has no `file`, `inside` or `do`, the edit's own holds

A snippet in code.py is a function; its body without the docstring is inserted. `return EXPRESSION` alone is
the expression where the match is one. A parameter in capitals stands for what the pattern's metavariable of
that name captured; in `text` it is written `$NAME`. A method (`Class.method`), a class, and what is appended
to a class or module are inserted whole, with decorators, docstring and the comments above. A snippet in
config.yaml is what lies under its top-level key.
"""

import hashlib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean
from tdmpc2_lean.patching.added import settings_added
from tdmpc2_lean.patching.requirements import Requirement, read_requirement
from tdmpc2_lean.patching.snippets import Snippet, file_of, snippet_of
from tdmpc2_lean.settings.schema import MISSING, SchemaError, Setting, read_setting
from tdmpc2_lean.upstreams.checkout_files import path_problem

VERBS = ("replace", "before", "after", "delete", "append", "bases", "create", "nothing")
PATCH_KEYS = {"title", "why", "issue", "fix", "needs", "default", "already", "requires", "settings", "edit"}
ALL = "all"  # the word for every patch that is on by default, where names are listed
PLACE_KEYS = {"file", "find", "inside"}
EDIT_KEYS = {"file", "do", "inside", "find", "count", "key", "code", "text", "whole", "like", "given", "or"}


class SeriesError(UserError):
    """A series or a patch is not well formed; names the patch and what is wrong."""


@dataclass(frozen=True)
class Edit:
    """One change of one file; its fields are those of patch.toml. `number` counts from 1 within its patch.

    count: how many matches there must be, lowest and highest.
    text: an expression, possibly with metavariables, that stands in for `snippet`.
    new_file: the bytes of the file to create.
    like: for a created file, the file whose indentation and line ends it takes; without it, it stays as it
    is.
    given: what a checkout has to have, else the edit is not for it.
    alternatives: what is tried in order where the place of this one is not found.
    """

    number: int
    file: str
    do: str
    inside: str | None = None
    find: str | None = None
    key: str | None = None
    count: tuple[int, int] = (1, 1)
    snippet: Snippet | None = None
    text: str | None = None
    new_file: bytes | None = None
    like: str | None = None
    given: "Place | None" = None
    alternatives: tuple["Edit", ...] = ()

    @property
    def every(self) -> tuple["Edit", ...]:
        """The edit and its alternatives, in the order in which they are tried."""
        return (self, *self.alternatives)

    def moved(self, own: Callable[[str], str]) -> "Edit":
        """The edit for a checkout that has its files elsewhere. own: its path of an official one."""
        return replace(
            self,
            file=own(self.file),
            like=own(self.like) if self.like else None,
            given=replace(self.given, file=own(self.given.file)) if self.given else None,
            alternatives=tuple(one.moved(own) for one in self.alternatives),
        )


@dataclass(frozen=True)
class Place:
    """Something by which code is known: a pattern that matches in a file; fields as those of an Edit."""

    file: str
    find: str
    inside: str | None = None


@dataclass(frozen=True)
class Patch:
    """One named change. `sha256` is over the names and bytes of the files in its folder; settings are by name.

    default: whether it is meant where no patches are named.
    """

    name: str
    title: str
    why: str
    issue: str | None
    fix: str | None
    needs: tuple[str, ...]
    edits: tuple[Edit, ...]
    folder: Path
    sha256: str
    settings: Mapping[str, Setting] = field(default_factory=dict)
    default: bool = True
    already: tuple[Place, ...] = ()
    requires: tuple[Requirement, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The files that its edits touch, or might touch in a checkout of another age, each once, in order."""
        return tuple(dict.fromkeys(one.file for edit in self.edits for one in edit.every))

    def moved(self, own: Callable[[str], str]) -> "Patch":
        """The patch for a checkout that has its files elsewhere. own: its path of an official one."""
        return replace(
            self,
            edits=tuple(edit.moved(own) for edit in self.edits),
            already=tuple(replace(place, file=own(place.file)) for place in self.already),
            requires=tuple(one.moved(own) for one in self.requires),
        )


@dataclass(frozen=True)
class Series:
    """The patches for one upstream.

    patches: those that are on by default, in their order: what is meant where none are named.
    optional: those that are used only where they are named; they come after all others.
    Iteration, `names` and `series[name]` are about both.
    """

    upstream: str
    patches: tuple[Patch, ...]
    folder: Path
    optional: tuple[Patch, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(patch.name for patch in self)

    def __iter__(self) -> Iterator[Patch]:
        return iter((*self.patches, *self.optional))

    def __getitem__(self, name: str) -> Patch:
        for patch in self:
            if patch.name == name:
                return patch
        raise UserError(
            f"The {self.upstream} series has no patch {name!r}.{did_you_mean(name, self.names)}",
            "`tdmpc2-lean patch list` shows all names",
        )

    def moved(self, own: Callable[[str], str]) -> "Series":
        """The series for a checkout that has its files elsewhere. own: its path of an official one."""
        moved = {what: tuple(one.moved(own) for one in getattr(self, what)) for what in ("patches", "optional")}
        return replace(self, **moved)

    def settings(self) -> dict[str, str]:
        """{setting: name of the patch that brings it, or makes it effective}."""
        return {name: patch.name for patch in self.patches for name in patch.settings}

    def closure(self, names: Iterable[str] | None = None) -> tuple[Patch, ...]:
        """The named patches with everything they need, in series order. None, and the name `all`: the default ones."""
        if names is None:
            return self.patches
        wanted, todo = set(), list(names)
        while todo:
            name = todo.pop()
            if name == ALL:
                todo += [patch.name for patch in self.patches]
            elif name not in wanted:
                todo += self[name].needs
                wanted.add(name)
        return tuple(patch for patch in self if patch.name in wanted)


def read_series(upstream: str = "tdmpc2", folder: str | Path | None = None) -> Series:
    """The series of an upstream, from `folder` or from the package. `miniature` has tdmpc2's."""
    if folder is None:
        from tdmpc2_lean import places

        folder = places.patches_dir() / ("tdmpc2" if upstream == "miniature" else upstream)
    folder = Path(folder)
    try:
        lines = (folder / "series").read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        raise SeriesError(
            f"{folder} is not a series of patches: it has no file named `series`.",
            "name a folder that has one; it lists the patches' names, a line each",
        ) from None
    names = [name for line in lines if (name := line.split("#")[0].strip())]
    patches: list[Patch] = []
    for name in names:
        earlier = [patch.name for patch in patches]
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            raise SeriesError(
                f"{folder / 'series'}: {name!r} is no name for a patch.", "use letters, digits and -"
            )
        if name in (ALL, "none"):
            raise SeriesError(f"{folder / 'series'}: {name!r} means other things than a patch.", "rename it")
        if name in earlier:
            raise SeriesError(f"{folder / 'series'} lists {name!r} twice.", "remove one of the lines")
        patch = read_patch(folder / name)
        for other in patches:
            if twice := other.settings.keys() & patch.settings.keys():
                raise SeriesError(
                    f"Patches {other.name!r} and {name!r} both bring the setting {min(twice)!r}.",
                    f"take [settings.{min(twice)}] out of one patch.toml",
                )
        for need in patch.needs:
            if need not in earlier:
                raise SeriesError(
                    f"Patch {name!r} needs {need!r}, which is not before it in {folder / 'series'}."
                    f"{did_you_mean(need, earlier)}",
                    "correct `needs`, or the order of the series",
                )
        if patch.default and patches and not patches[-1].default:
            raise SeriesError(
                f"Patch {name!r} is on by default, and {patches[-1].name!r} before it is not.",
                f"put those with `default = false` last in {folder / 'series'}",
            )
        patches.append(patch)
    of = {default: tuple(patch for patch in patches if patch.default is default) for default in (True, False)}
    return Series(upstream, of[True], folder, of[False])


def read_patch(folder: Path) -> Patch:
    """The patch in `folder`, its snippets read and every field checked. Raises SeriesError."""
    name = folder.name
    try:
        table = tomllib.loads((folder / "patch.toml").read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise SeriesError(
            f"Patch {name!r} has no {folder / 'patch.toml'}.", "write it, or correct `series`"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SeriesError(f"{folder / 'patch.toml'} is not TOML: {error}.", "correct that line") from None

    def wrong(what: str) -> SeriesError:
        end = "" if what.endswith((".", "?")) else "."
        return SeriesError(f"Patch {name!r}: {what}{end}", f"correct {folder / 'patch.toml'}")

    for key in table:
        if key not in PATCH_KEYS:
            raise wrong(f"unknown key {key!r}.{did_you_mean(key, PATCH_KEYS)}")
    for key in ("title", "why"):
        if not isinstance(table.get(key), str) or not table[key].strip():
            raise wrong(f"`{key}` is missing")
    if "\n" in table["title"].strip():
        raise wrong("`title` is one line")
    for key in ("issue", "fix"):
        if not isinstance(table.get(key, ""), str):
            raise wrong(f"`{key}` is a text")
    needs = table.get("needs", [])
    if not isinstance(needs, list) or not all(isinstance(need, str) for need in needs):
        raise wrong("`needs` is a list of patch names")
    if not isinstance(table.get("default", True), bool):
        raise wrong("`default` is true or false")
    if not isinstance(table.get("edit"), list) or not table["edit"]:
        raise wrong("it has no [[edit]]")
    requires = table.get("requires", [])
    if not isinstance(requires, list):
        raise wrong("[[requires]] is written with two brackets")
    edits = tuple(
        _read_edit(number, fields, folder, wrong) for number, fields in enumerate(table["edit"], start=1)
    )
    return Patch(
        name=name,
        title=table["title"].strip(),
        why=table["why"].strip(),
        issue=table.get("issue"),
        fix=table["fix"].strip() if "fix" in table else None,
        needs=tuple(needs),
        edits=edits,
        folder=folder,
        sha256=folder_sha256(folder),
        settings=_read_settings(name, table.get("settings", {}), edits, wrong),
        default=table.get("default", True),
        already=_read_already(table.get("already", []), wrong),
        requires=tuple(
            read_requirement(number, fields, language, wrong) for number, fields in enumerate(requires, start=1)
        ),
    )


def _read_settings(patch: str, tables, edits: tuple[Edit, ...], wrong) -> dict[str, Setting]:
    """The settings of a patch by name, which are those that its edits add, with the defaults that they write."""
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise wrong("`settings` holds a table for each setting, [settings.NAME]")
    settings = {}
    for name, table in tables.items():
        try:
            settings[name] = read_setting(name, table, patch)
        except SchemaError as error:
            raise wrong(f"setting {name!r}: {error.message}") from None
        if not settings[name].meaning.strip():
            raise wrong(f"setting {name!r}: `meaning` is missing")
    for edit in edits:
        added = [settings_added([replace(one, alternatives=())]) for one in edit.every if one.do != "nothing"]
        if any(other != added[0] for other in added[1:]):
            raise wrong(f"edit {edit.number}: its alternatives add other settings, or with other defaults")
    for key, value in settings_added(edits).items():
        names = [name for name in settings if name == key or name.endswith(f".{key}")]
        if len(names) != 1:
            raise wrong(f"it adds the setting {key!r}, of which it has {len(names)} tables [settings.{key}]")
        default = settings[names[0]].default
        if default == MISSING or type(default) is not type(value) or default != value:
            stated = "none" if default == MISSING else repr(default)
            raise wrong(f"setting {names[0]!r}: its default is {stated}, and the patch writes {value!r}")
    return settings


def _read_already(fields, wrong) -> tuple[Place, ...]:
    tables = [fields] if isinstance(fields, dict) else fields
    if not isinstance(tables, list):
        raise wrong("[already] holds texts: `file`, `find` and, optional, `inside`")
    return tuple(_read_place("[already]", one, None, wrong) for one in tables)


def _read_place(name: str, fields, file: str | None, wrong) -> Place:
    """A table that says by what code is known. file: the file that is meant where the table names none."""
    if not isinstance(fields, dict) or not all(isinstance(value, str) for value in fields.values()):
        raise wrong(f"{name} holds texts: `file`, `find` and, optional, `inside`")
    for key in fields:
        if key not in PLACE_KEYS:
            raise wrong(f"{name}: unknown key {key!r}.{did_you_mean(key, PLACE_KEYS)}")
    file, find = fields.get("file", file), fields.get("find")
    if not file or not find:
        raise wrong(f"{name} needs `file` and `find`")
    problem = path_problem(file) or (None if language(file) else "is neither Python nor YAML")
    if problem:
        raise wrong(f"{name}: file {file!r} {problem}")
    from tdmpc2_lean.patching.anchors import pattern_problem

    if problem := pattern_problem(find, language(file)):
        raise wrong(f"{name}: {find!r} is no pattern: {problem}")
    return Place(file, find, fields.get("inside"))


def folder_sha256(folder: Path) -> str:
    """Over names and bytes of all files below `folder`, but for caches and hidden files."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
        name = path.relative_to(folder)
        if path.is_file() and not any(part == "__pycache__" or part.startswith(".") for part in name.parts):
            total.update(f"{name.as_posix()}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def _read_edit(number: int, fields: dict, folder: Path, wrong) -> Edit:
    def bad(what: str) -> SeriesError:
        return wrong(f"edit {number}: {what}")

    alternatives = fields.get("or", [])
    if not isinstance(alternatives, list) or not all(isinstance(one, dict) for one in alternatives):
        raise bad("its alternatives are tables [[edit.or]]")
    edit = _read_one(number, {key: value for key, value in fields.items() if key != "or"}, folder, bad)
    read = []
    for place, one in enumerate(alternatives, start=1):

        def bad_alternative(what: str, place=place) -> SeriesError:
            return bad(f"alternative {place}: {what}")

        if "or" in one:
            raise bad_alternative("an alternative has none itself; put it behind this one")
        own = ("do",) if "file" in one else ("file", "inside", "do")
        inherited = {key: fields[key] for key in own if key in fields}
        read.append(_read_one(number, inherited | one, folder, bad_alternative))
    return replace(edit, alternatives=tuple(read))


def _read_one(number: int, fields: dict, folder: Path, bad) -> Edit:
    """An edit without its alternatives, or one of these."""
    for key, value in fields.items():
        if key not in EDIT_KEYS:
            raise bad(f"unknown key {key!r}.{did_you_mean(key, EDIT_KEYS)}")
        if key not in ("count", "whole", "given") and not isinstance(value, str):
            raise bad(f"`{key}` is a text")
    file, do = fields.get("file"), fields.get("do")
    if file is None:
        raise bad("`file` is missing")
    if problem := path_problem(file):
        raise bad(f"file {file!r} {problem}")
    if do not in VERBS:
        raise bad(f"`do` is one of {', '.join(VERBS)}, not {do!r}")
    inside, find, key = fields.get("inside"), fields.get("find"), fields.get("key")
    code, text, like = fields.get("code"), fields.get("text"), fields.get("like")
    is_yaml = language(file) == "yaml"
    given = _read_place("`given`", fields["given"], file, bad) if "given" in fields else None

    if do == "create":
        if code is None or find or inside or key or text:
            raise bad("`create` takes `code`, a file of the patch's folder, and nothing to find")
        return Edit(number, file, do, new_file=file_of(folder, code, bad).read_bytes(), like=like, given=given)
    if like is not None:
        raise bad("`like` goes with `create`")
    if language(file) is None:
        raise bad(f"{file} is neither Python nor YAML: it can only be created")
    if do in ("append", "bases") and (find or key):
        raise bad(f"`{do}` takes no `find` and no `key`")
    if do == "bases" and (is_yaml or not inside or text is None):
        raise bad("`bases` takes `inside`, a Python class, and `text`, its new list of bases")
    if do == "nothing" and (code is not None or text is not None or (find or key or given) is None):
        raise bad("`nothing` takes `find`, `key` or `given`, by which that is known, and no code")
    if do not in ("append", "bases", "nothing") and (find is None) == (key is None):
        raise bad(f"`{do}` takes a `find`, or a `key` of a YAML file")
    if key is not None and not is_yaml:
        raise bad("`key` is for YAML files")
    if inside is not None and (is_yaml or not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", inside)):
        raise bad("`inside` is a dotted name of a class or function of a Python file")
    if do == "delete" and (code is not None or text is not None):
        raise bad("`delete` takes neither `code` nor `text`")
    if do not in ("delete", "nothing") and (code is None) == (text is None):
        raise bad(f"`{do}` takes `code` or `text`")
    if find is not None:
        from tdmpc2_lean.patching.anchors import pattern_problem

        if problem := pattern_problem(find, language(file)):
            raise bad(f"{find!r} is no pattern: {problem}")
    whole = fields.get("whole")
    if not isinstance(whole, bool | None):
        raise bad("`whole` is true or false")
    return Edit(
        number,
        file,
        do,
        inside=inside,
        find=find,
        key=key,
        count=_count(fields.get("count", 1), bad),
        snippet=None if code is None else snippet_of(code, do, whole, is_yaml, folder, bad),
        text=text,
        given=given,
    )


def language(file: str) -> str | None:
    """'python' or 'yaml' by a path's ending; None for what can only be created."""
    return {".py": "python", ".yaml": "yaml", ".yml": "yaml"}.get(PurePosixPath(file).suffix)


def _count(value, bad) -> tuple[int, int]:
    low_high = value if isinstance(value, list) else [value, value]
    if (
        len(low_high) != 2
        or not all(type(n) is int and n >= 0 for n in low_high)
        or low_high[0] > low_high[1]
    ):
        raise bad("`count` is a number of matches, or [lowest, highest]")
    if low_high[1] == 0:
        raise bad("`count` is at least 1")
    return low_high[0], low_high[1]
