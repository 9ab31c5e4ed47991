"""What a setting is: its type, its range, whether it decides what a run computes, and which patch brings it.

A table describes one setting, in an upstream's data file or in a patch's patch.toml:

    [settings.utd]
    type = "rational"        # integer, whole, number, rational, boolean, text, list, or computed (see TYPES)
    above = 0                # or at_least; and below, at_most
    default = 1              # "null" for null; left away where the official configuration has none
    unit = "updates per agent step"
    meaning = "How many updates are made for each step beyond the seeding phase."

    choices                  the only values allowed
    pattern, allowed         of a text: a regular expression that all of it matches, and how a reader is told
    items                    of a list: the type of its entries, whose range the other keys give
    nullable, infinite       null, or an infinite number, is allowed too
    decides, why             false for what only says where or how a run is made; the reason where it is not obvious

A name with dots stands in quotes: [settings."run.clock"]. Nothing here knows how runs are made.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean

# {type: how a reader is told}. `whole` is written in any way, 1e6 too; `integer` only as the code can use it: 1000000.
# `computed` settings are set by the official code itself, which overwrites what is given.
TYPES = {
    "integer": "an integer",
    "whole": "a whole number",
    "number": "a number",
    "rational": "a rational number",
    "boolean": "true or false",
    "text": "a text",
    "list": "a list",
    "computed": "set by the official code itself",
}
NUMERIC = ("integer", "whole", "number", "rational")
BOUNDS = ("at_least", "above", "at_most", "below")
# How OmegaConf, and so the official config.yaml, writes that there is no value.
MISSING = "???"


class SchemaError(UserError):
    """A table does not describe a setting; the message says what is wrong, whoever reads the file says where."""


def shown(value: Any) -> str:
    """A value as a user writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(shown, value)) + "]"
    return repr(value) if value == "" else str(value)


@dataclass(frozen=True)
class Setting:
    """One setting. default: MISSING if the official configuration has none. patch: None for an official setting.

    The other fields are those of its table.
    """

    name: str
    type: str
    meaning: str = ""
    default: Any = MISSING
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    choices: tuple[Any, ...] = ()
    pattern: str | None = None
    allowed: str = ""
    items: str | None = None
    nullable: bool = False
    infinite: bool = False
    unit: str = ""
    decides: bool = True
    why: str = ""
    patch: str | None = None

    def accepts(self, value: Any) -> bool:
        """Whether a value is of the setting's type and in its range."""
        if value is None:
            return self.nullable
        if self.type == "computed":
            return False
        if self.type == "list":
            entries = value if isinstance(value, list | tuple) else None
            return entries is not None and bool(entries) and all(self._accepts_one(self.items, v) for v in entries)
        return self._accepts_one(self.type, value)

    def _accepts_one(self, kind: str | None, value: Any) -> bool:
        if kind == "boolean":
            # The official code asks whether a value is true: 0 and 1 mean what they say, any text would be true.
            return isinstance(value, bool) or (type(value) is int and value in (0, 1))
        if kind == "text":
            if not isinstance(value, str):
                return False
            return (not self.choices or value in self.choices) and (
                self.pattern is None or re.fullmatch(self.pattern, value, re.DOTALL) is not None
            )
        number = number_in(value, kind)
        if number is None or math.isnan(number) or (math.isinf(number) and not self.infinite):
            return False
        return self._in_range(number) and (not self.choices or number in self.choices)

    def _in_range(self, number: float) -> bool:
        return (
            (self.at_least is None or number >= self.at_least)
            and (self.above is None or number > self.above)
            and (self.at_most is None or number <= self.at_most)
            and (self.below is None or number < self.below)
        )

    def said(self) -> str:
        """What is allowed, for the reader: 'a rational number above 0 (updates per agent step)'."""
        if self.type == "computed":
            meaning = f"{self.meaning[:1].lower()}{self.meaning[1:]}".rstrip(".")
            return TYPES[self.type] + (f" ({meaning})" if meaning else "")
        kind = self.items if self.type == "list" else self.type
        what = self.allowed or ("one of " + ", ".join(map(shown, self.choices)) if self.choices else TYPES[kind])
        if not self.choices and not self.allowed:
            what += self._range_said()
        if self.type == "list":
            what = f"a list, each entry {what}"
        what += (", or inf" if self.infinite else "") + (", or null" if self.nullable else "")
        return what + (f" ({self.unit})" if self.unit else "")

    def _range_said(self) -> str:
        low = self.at_least if self.at_least is not None else self.above
        high = self.at_most if self.at_most is not None else self.below
        if low is not None and high is not None and self.above is None and self.below is None:
            return f" from {shown(low)} to {shown(high)}"
        if self.at_least is not None and high is None:
            return f" from {shown(low)} on"
        parts = [] if low is None else [f"above {shown(low)}" if self.at_least is None else f"from {shown(low)} on"]
        if high is not None:
            parts.append(f"at most {shown(high)}" if self.at_most is not None else f"below {shown(high)}")
        return " " + " and ".join(parts) if parts else ""


@dataclass(frozen=True)
class Rule:
    """What several settings must be to one another.

    names: of the settings. context: of more, which the reader is told of if none of those was given.
    holds: called with the values of both, in this order.
    text: what is required, for the reader; a name in braces stands for the setting's value.
    """

    names: tuple[str, ...]
    holds: Callable[..., bool]
    text: str
    context: tuple[str, ...] = ()


@dataclass(frozen=True)
class Schema:
    """All settings of an upstream with some of its patches, by name, and the rules between them.

    listing: the command that lists settings, to be continued by their names. shown: how a value is written.
    """

    settings: Mapping[str, Setting]
    rules: tuple[Rule, ...] = ()
    listing: str = "tdmpc2-lean settings"
    shown: Callable[[Any], str] = shown

    def __getitem__(self, name: str) -> Setting:
        return self.settings[name]

    def __contains__(self, name: object) -> bool:
        return name in self.settings

    def __iter__(self) -> Iterator[Setting]:
        return iter(self.settings.values())


def deciding(schema: Schema) -> set[str]:
    """The names of the settings that decide what a run computes; the others say where and how it is made."""
    return {setting.name for setting in schema if setting.decides}


def read_setting(
    name: str, table: Mapping[str, Any], patch: str | None = None, default: Any = MISSING, type_: str | None = None
) -> Setting:
    """The setting that a table describes. SchemaError if it is not well formed.

    default, type_: what holds where the table does not say.
    """
    known = {one.name for one in fields(Setting)} - {"name", "patch"}
    for key in table:
        if key not in known:
            raise SchemaError(f"unknown key {key!r}.{did_you_mean(key, known)}")
    given = {key: tuple(value) if key == "choices" else value for key, value in table.items()}
    if given.get("default") == "null" and given.get("nullable") is True:
        given["default"] = None
    setting = Setting(name, **{"type": type_ or "", "default": default, **given}, patch=patch)
    if setting.type not in TYPES:
        raise SchemaError(f"`type` is one of {', '.join(TYPES)}, not {setting.type!r}")
    if (setting.type == "list") != (setting.items is not None):
        raise SchemaError("`items`, a type, goes with `type` list")
    if setting.type == "list" and setting.items not in set(TYPES) - {"list", "computed"}:
        raise SchemaError(f"`items` is a type of single values, not {setting.items!r}")
    kind = setting.items or setting.type
    for key in ("meaning", "unit", "why", "allowed"):
        if not isinstance(getattr(setting, key), str):
            raise SchemaError(f"`{key}` is a text")
    for key in ("nullable", "infinite", "decides"):
        if not isinstance(getattr(setting, key), bool):
            raise SchemaError(f"`{key}` is true or false")
    for key in BOUNDS:
        bound = getattr(setting, key)
        if bound is not None and (kind not in NUMERIC or number_in(bound, "number") is None):
            raise SchemaError(f"`{key}` is a number, of a setting that is one")
    if setting.infinite and kind != "number":
        raise SchemaError("`infinite` goes with `type` number")
    if setting.pattern is not None:
        try:
            re.compile(setting.pattern)
        except (re.error, TypeError) as error:
            raise SchemaError(f"`pattern` is no regular expression: {error}") from None
        if kind != "text" or not setting.allowed:
            raise SchemaError("`pattern` goes with `type` text, and with `allowed`, which says what it means")
    if setting.type != "computed" and setting.default not in (MISSING, None) and not setting.accepts(setting.default):
        raise SchemaError(f"its default, {shown(setting.default)}, is not {setting.said()}")
    return setting


def number_in(value: Any, kind: str | None = "number") -> float | None:
    """A value as a number of a type; None if it is none. Of a rational also a text such as '1/3' is one."""
    if isinstance(value, bool):
        return None
    if kind == "rational" and isinstance(value, str):
        from fractions import Fraction

        try:
            return float(Fraction(value))
        except (ValueError, ZeroDivisionError, OverflowError):
            return None
    if type(value) is int:
        return value if kind in NUMERIC else None
    if not isinstance(value, float) or kind not in NUMERIC or kind == "integer":
        return None
    return value if kind != "whole" or math.isfinite(value) and value.is_integer() else None
