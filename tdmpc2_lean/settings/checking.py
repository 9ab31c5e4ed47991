"""Whether given values are what a schema allows; all that is wrong is told at once."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean
from tdmpc2_lean.settings.schema import MISSING, Rule, Schema, shown


@dataclass(frozen=True)
class Given:
    """A value that somebody gave. written: as they wrote it. whose: if not the command line's, "preset 'fast': ".

    implied: nobody wrote it, it follows from what was given, such as a size; told only where nothing else is to blame.
    """

    written: str
    whose: str = ""
    implied: bool = False


def given_by(words: Mapping[str, str], presets: Iterable[Any], settings: Mapping[str, Any]) -> dict[str, Given]:
    """Who gave which setting what: {name: Given}. Words win over presets, later presets over earlier ones.

    words: {name: as written}. presets: with a `name` and `keys()`. settings: resolved; a preset's values stand there.
    """
    found = {
        key: Given(shown(settings.get(key)), f"preset {preset.name!r}: ") for preset in presets for key in preset.keys()
    }
    return found | {key: Given(written) for key, written in words.items()}


@dataclass(frozen=True)
class SettingFault:
    """names: of the settings concerned. text: what is wrong and what is allowed, a line."""

    names: tuple[str, ...]
    text: str


def faults(schema: Schema, settings: Mapping[str, Any], *, given: Mapping[str, Given]) -> list[SettingFault]:
    """What is wrong with the given ones among resolved settings ({name: value}); empty if nothing is.

    What nobody gave is the checkout's own and not judged, nor are settings that only the checkout knows (a fork's, or
    those added with a +). A rule is asked where one of its settings was given, and all are of their types.
    """
    found = []
    for name, asked in given.items():
        value = settings.get(name, MISSING)
        if name not in schema and name not in settings:
            hint = did_you_mean(name, {*schema.settings, *settings})
            found.append(SettingFault((name,), f"{asked.whose}there is no setting {name!r}.{hint}"))
        elif name in schema and value != MISSING and not schema[name].accepts(value):
            setting = schema[name]
            hint = did_you_mean(value, map(str, setting.choices)) if isinstance(value, str) and setting.choices else ""
            text = f"{asked.whose}{name}={asked.written} is not allowed: {name} is {setting.said()}.{hint}"
            found.append(SettingFault((name,), text))
    wrong = {name for fault in found for name in fault.names}
    for rule in schema.rules:
        every = (*rule.names, *rule.context)
        values = {name: settings.get(name, MISSING) for name in every}
        if MISSING in values.values() or wrong & set(every) or not given.keys() & set(every):
            continue
        known = [schema[name] for name in every if name in schema and schema[name].type != "computed"]
        if all(setting.accepts(values[setting.name]) for setting in known) and not rule.holds(*values.values()):
            found.append(_fault_of(rule, values, given, schema.shown))
    return found


def _fault_of(
    rule: Rule, values: Mapping[str, Any], given: Mapping[str, Given], shown: Callable[[Any], str]
) -> SettingFault:
    def among(names: Iterable[str], implied: bool) -> list[str]:
        return [name for name in names if name in given and given[name].implied == implied]

    named = (
        among(rule.names, False) or among(rule.context, False) or among(rule.names, True) or among(rule.context, True)
    )
    said = " and ".join(f"{name}={given[name].written}" for name in named)
    verb = "is" if len(named) == 1 else "are"
    others = [f"{name} is {shown(values[name])}" for name in rule.names if name not in named]
    here = f"; here {', '.join(others)}" if others else ""
    text = rule.text.format_map({name: shown(value) for name, value in values.items()})
    return SettingFault(tuple(named), f"{given[named[0]].whose}{said} {verb} not allowed: {text}{here}.")


def check(
    schema: Schema, settings: Mapping[str, Any], *, given: Mapping[str, Given], more: Iterable[SettingFault] = ()
) -> None:
    """UserError that lists all faults of the given settings, a line each. more: faults found elsewhere."""
    found = [*faults(schema, settings, given=given), *more]
    if not found:
        return
    names = list(dict.fromkeys(name for fault in found for name in fault.names if name in schema))
    defaults = [
        f"{name}={schema.shown(schema[name].default)}"
        for name in names
        if schema[name].default != MISSING and schema[name].type != "computed"
    ]
    next_step = f"by default {' '.join(defaults)}; " if defaults else ""
    next_step += f"{schema.listing} {' '.join(names)}".rstrip()
    raise UserError("\n  ".join(fault.text for fault in found), next_step)
