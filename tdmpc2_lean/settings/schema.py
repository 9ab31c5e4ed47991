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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
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
            return TYPES[self.type] + (f": {self.meaning.rstrip('.')}" if self.meaning else "")
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

    names: of the settings. context: of more, named to the reader only if given. holds: called with the values of both, in
    this order. text: what is required, for the reader; a name in braces stands for the setting's value.
    """

    names: tuple[str, ...]
    holds: Callable[..., bool]
    text: str
    context: tuple[str, ...] = ()


@dataclass(frozen=True)
class Schema:
    """All settings of an upstream with some of its patches, by name, and the rules between them.

    listing: the command that lists settings, to be continued by their names.
    """

    settings: Mapping[str, Setting]
    rules: tuple[Rule, ...] = ()
    listing: str = "tdmpc2-lean settings"

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


# ------------------------------------------------------------------------------------- what is asked, and what is told


@dataclass(frozen=True)
class Given:
    """A value that somebody gave. written: as they wrote it. whose: if not the command line's, "preset 'fast': "."""

    written: str
    whose: str = ""


def given_by(words: Mapping[str, str], presets: Iterable[Any], settings: Mapping[str, Any]) -> dict[str, Given]:
    """Who gave which setting what: {name: Given}. Words win over presets, later presets over earlier ones.

    words: {name: as written}. presets: with a `name` and `keys()`. settings: resolved, in which a preset's values stand.
    """
    found = {
        key: Given(shown(settings.get(key)), f"preset {preset.name!r}: ") for preset in presets for key in preset.keys()
    }
    return found | {key: Given(written) for key, written in words.items()}


@dataclass(frozen=True)
class SettingFault:
    """names: of the settings concerned. text: what is wrong and what is allowed, a line."""

    names: tuple[str, ...]
    text: str = field(compare=False)


def faults(schema: Schema, settings: Mapping[str, Any], *, given: Mapping[str, Given]) -> list[SettingFault]:
    """What is wrong with the given ones among resolved settings ({name: value}); empty if nothing is.

    What nobody gave is the checkout's own and not judged, nor are settings that only the checkout knows (a fork's, or
    those added with a +). A rule is asked where one of its settings was given, and all are of their types.
    """
    found = []
    for name, asked in given.items():
        if name not in schema and name not in settings:
            hint = did_you_mean(name, {*schema.settings, *settings})
            found.append(SettingFault((name,), f"{asked.whose}there is no setting {name!r}.{hint}"))
    for name, value in settings.items():
        if name not in schema or name not in given or value == MISSING or schema[name].accepts(value):
            continue
        setting, asked = schema[name], given[name]
        hint = did_you_mean(value, map(str, setting.choices)) if isinstance(value, str) and setting.choices else ""
        found.append(
            SettingFault(
                (name,), f"{asked.whose}{name}={asked.written} is not allowed: {name} is {setting.said()}.{hint}"
            )
        )
    wrong = {name for fault in found for name in fault.names}
    for rule in schema.rules:
        every = (*rule.names, *rule.context)
        values = {name: settings.get(name, MISSING) for name in every}
        if MISSING in values.values() or wrong & set(every) or not given.keys() & set(every):
            continue
        known = [schema[name] for name in every if name in schema and schema[name].type != "computed"]
        if all(setting.accepts(values[setting.name]) for setting in known) and not rule.holds(*values.values()):
            found.append(_fault_of(rule, values, given))
    return found


def _fault_of(rule: Rule, values: Mapping[str, Any], given: Mapping[str, Given]) -> SettingFault:
    concerned = [name for name in values if name in given or name in rule.names]
    named = [name for name in concerned if name in given] or concerned
    said = " and ".join(f"{name}={given[name].written if name in given else shown(values[name])}" for name in named)
    whose = next((given[name].whose for name in named if name in given), "")
    verb = "is" if len(named) == 1 else "are"
    others = [f"{name} is {shown(values[name])}" for name in rule.names if name not in named]
    here = f"; here {', '.join(others)}" if others else ""
    text = rule.text.format_map({name: shown(value) for name, value in values.items()})
    return SettingFault(tuple(named), f"{whose}{said} {verb} not allowed: {text}{here}.")


def check(
    schema: Schema, settings: Mapping[str, Any], *, given: Mapping[str, Given], more: Iterable[SettingFault] = ()
) -> None:
    """UserError that lists all faults of the given settings, a line each. more: faults found elsewhere."""
    found = [*faults(schema, settings, given=given), *more]
    if not found:
        return
    names = list(dict.fromkeys(name for fault in found for name in fault.names if name in schema))
    defaults = [
        f"{name}={shown(schema[name].default)}" for name in names if name in given and schema[name].default != MISSING
    ]
    left = f"leave {'it' if len(defaults) == 1 else 'them'} away for {', '.join(defaults)}; " if defaults else ""
    raise UserError("\n  ".join(fault.text for fault in found), f"{left}{schema.listing} {' '.join(names)}".rstrip())
