"""What a patch requires of a checkout, as its patch.toml says it: data and how it is read. `suitability` looks.

A patch may find all its places and yet not do what it promises: a checkpoint of an agent that is no module, a setting
of a loop that nothing runs. `[[requires]]` names what its places do not show, each with `why`, and one of

    find       a pattern that is there, in `file`, in `inside`; a list: any of them
    lacks      a pattern that is not there
    derives    the class `inside` derives from a class of that name, directly or by classes of the checkout
    arguments  what the function `inside` is called with: its parameters without a default, in order, `self` left out
    free       names that are not taken in the class or function `inside`: by no definition, attribute or variable
    reaches    `file.py:Class.method`: what the script `file` runs leads to that method of that class
    after      optional: true where it is required of the patched code
    unless     optional: a pattern; where `file` has that, nothing is required
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from tdmpc2_lean.nearest import did_you_mean
from tdmpc2_lean.upstreams.checkout_files import path_problem

KINDS = ("find", "lacks", "derives", "arguments", "free", "reaches")
LISTS = ("find", "lacks", "free")
KEYS = {"file", "inside", "why", "after", "unless", *KINDS}
NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
PLACE = re.compile(r"(?P<file>[^:]+\.py):(?P<inside>[^\W\d]\w*(\.[^\W\d]\w*)*)")


@dataclass(frozen=True)
class Requirement:
    """One thing that must be so in a checkout, before a patch or `after` it; `what` belongs to its kind.

    file, inside: where. why: what else would come of the patch. unless: a pattern; where it matches, nothing is
    required.
    """

    kind: str
    what: tuple[str, ...]
    file: str
    why: str
    inside: str | None = None
    after: bool = False
    unless: str | None = None

    def moved(self, own: Callable[[str], str]) -> "Requirement":
        """The requirement for a checkout that has its files elsewhere. own: its path of an official one."""
        what = self.what
        if self.kind == "reaches":
            file, _, name = what[0].partition(":")
            what = (f"{own(file)}:{name}",)
        return replace(self, file=own(self.file), what=what)


def read_requirement(number: int, fields, language: Callable, wrong: Callable[[str], Exception]) -> Requirement:
    """The fields of one [[requires]], checked; `wrong` makes the error of a text."""

    def bad(what: str) -> Exception:
        return wrong(f"[[requires]] {number}: {what}")

    if not isinstance(fields, dict):
        raise bad("it is a table")
    for key in fields:
        if key not in KEYS:
            raise bad(f"unknown key {key!r}.{did_you_mean(key, KEYS)}")
    kinds = [kind for kind in KINDS if kind in fields]
    if len(kinds) != 1:
        raise bad(f"it takes one of {', '.join(KINDS)}, and has {', '.join(kinds) or 'none'}")
    (kind,) = kinds
    what = fields[kind]
    what = what if isinstance(what, list) and kind in LISTS else [what]
    unless = fields.get("unless")
    texts = [fields.get("file"), fields.get("why"), fields.get("inside", ""), unless or "", *what]
    if not all(isinstance(text, str) for text in texts) or not what:
        raise bad(f"`file`, `why` and `{kind}` are texts")
    if not isinstance(fields.get("after", False), bool):
        raise bad("`after` is true or false")
    file, inside = fields["file"], fields.get("inside")
    if problem := path_problem(file) or (None if language(file) else "is neither Python nor YAML"):
        raise bad(f"file {file!r} {problem}")
    from tdmpc2_lean.patching.anchors import pattern_problem

    for pattern in [*(what if kind in ("find", "lacks") else ()), *([unless] if unless else ())]:
        if problem := pattern_problem(pattern, language(file)):
            raise bad(f"{pattern!r} is no pattern: {problem}")
    if kind not in ("find", "lacks") and language(file) != "python":
        raise bad(f"`{kind}` is about Python")
    if inside is not None and (language(file) != "python" or not NAME.fullmatch(inside)):
        raise bad("`inside` is a dotted name of a class or function of a Python file")
    if kind in ("derives", "arguments", "free") and inside is None:
        raise bad(f"`{kind}` takes `inside`")
    if kind == "derives" and not NAME.fullmatch(what[0]):
        raise bad("`derives` is the name of a class")
    if kind == "free" and not all(name.isidentifier() for name in what):
        raise bad("`free` are names")
    if kind == "reaches" and (inside is not None or not PLACE.fullmatch(what[0])):
        raise bad("`reaches` is `file.py:Class.method`, without `inside`")
    if not fields["why"].strip():
        raise bad("`why` is missing")
    return Requirement(kind, tuple(what), file, fields["why"].strip(), inside, fields.get("after", False), unless)
