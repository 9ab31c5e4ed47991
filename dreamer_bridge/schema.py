"""DreamerV3's settings, by flat names such as run.steps: official types, our ranges (schema.toml), those of patches.

The official configuration gives every setting a type by its default, and `elements` reads a text by it; schema.toml
says in which range, and which settings decide what a run computes.
"""

import fnmatch
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from dreamer_bridge import config as configuration
from tdmpc2_lean.patching.series import Patch
from tdmpc2_lean.settings import checking
from tdmpc2_lean.settings.checking import Given, SettingFault
from tdmpc2_lean.settings.schema import Rule, Schema, Setting, read_setting, shown

DATA = Path(__file__).with_name("schema.toml")
LISTING = "tdmpc2-lean settings --upstream dreamerv3"
# What the official code's clocks count, unless the patch `seeding` lets it be said.
CLOCK, SECONDS = "run.clock", "seconds"


def schema(document: Mapping[str, Any], patches: Iterable[Patch] = ()) -> Schema:
    """The settings of a configs.yaml (`config.read`), some of them a patch's."""
    brought = {name: setting for patch in patches for name, setting in patch.settings.items()}
    settings = {}
    for name, default in configuration.flat(document[configuration.DEFAULTS]).items():
        settings[name] = brought.get(name) or _official(name, default)
    return Schema({name: _as_written_here(setting) for name, setting in settings.items()}, RULES, LISTING, written)


def check_written(document: Mapping[str, Any], patches: Iterable[Patch], values: Mapping[str, Any]) -> None:
    """UserError that lists the values that are not of their setting's type, before they are resolved.

    values: {name or pattern: value, or its text}; patterns are left to the official parser.
    """
    known = schema(document, patches)
    defaults = configuration.flat(document[configuration.DEFAULTS])
    wrong = [
        SettingFault((name,), f"{name}={written(value)} is not allowed: {name} is {known[name].said()}.")
        for name, value in values.items()
        if name in defaults and not _is_readable(name, value, defaults[name])
    ]
    checking.check(known, {}, given={}, more=wrong)


def check(
    document: Mapping[str, Any],
    patches: Iterable[Patch],
    config: Mapping[str, Any],
    *,
    words: Mapping[str, str],
    preset_values: Mapping[str, Any],
    presets: Iterable[Any],
) -> None:
    """UserError that lists all that is wrong with what differs from the official defaults.

    config: nested, as the official code resolves it. words: {name: as the user wrote it}. preset_values: what the
    presets set, by name or pattern. presets: themselves, with a `name` and `keys()`.
    """
    settings = {CLOCK: SECONDS} | configuration.flat(config)
    defaults = configuration.flat(document[configuration.DEFAULTS])
    given: dict[str, Given] = {}
    for preset in presets:
        for key in preset.keys():
            for name in settings:
                if _means(key, name) and _same(settings[name], preset_values.get(key)):
                    given[name] = Given(written(settings[name]), f"preset {preset.name!r}: ")
    given |= {name: Given(str(text)) for name, text in words.items() if name in settings}
    for name, value in settings.items():
        if name in defaults and name not in given and not _same(value, defaults[name]):
            given[name] = Given(written(value), implied=True)
    checking.check(schema(document, patches), settings, given=given)


def written(value: Any) -> str:
    """A value as the official parser reads it."""
    if isinstance(value, bool):
        return str(value)
    return ",".join(map(written, value)) if isinstance(value, list | tuple) else shown(value)


@cache
def _tables() -> dict[str, dict[str, Any]]:
    return tomllib.loads(DATA.read_text(encoding="utf-8"))["settings"]


def _official(name: str, default: Any) -> Setting:
    table: dict[str, Any] = {}
    for pattern, found in _tables().items():
        if fnmatch.fnmatchcase(name, pattern):
            table = found
    kind = _type_of(default[0] if isinstance(default, list) else default)
    is_list = isinstance(default, list)
    table = {**({"infinite": True} if default == float("inf") else {}), **table}
    if is_list:
        table["items"] = kind
    return read_setting(name, table, default=default, type_="list" if is_list else kind)


def _type_of(default: Any) -> str:
    if isinstance(default, bool):
        return "boolean"
    return {int: "whole", float: "number"}.get(type(default), "text")


def _as_written_here(setting: Setting) -> Setting:
    """A truth value is written True or False for the official parser."""
    return replace(setting, allowed="True or False") if setting.type == "boolean" else setting


def _is_readable(name: str, value: Any, default: Any) -> bool:
    """Whether the official parser reads a value as one of the default's type."""
    import elements

    try:
        flags = configuration.as_flags({name: value})
        elements.Flags({name: default}).parse(flags)
    except (KeyError, TypeError, ValueError, OverflowError, AssertionError):
        return False
    return True


def _means(key: str, name: str) -> bool:
    """Whether a preset's key, a name or a pattern as `elements` takes them, means a setting."""
    if re.fullmatch(r"[A-Za-z0-9_.-]+", key):
        return key == name
    return re.fullmatch(key, name) is not None


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return str(one) == str(other)
    try:
        return float(one) == float(other)
    except (TypeError, ValueError):
        return (list(one) if isinstance(one, tuple) else one) == (list(other) if isinstance(other, tuple) else other)


def _reports_are_made(script: str, every: float, clock: str, steps: float) -> bool:
    return script == "train" and every != 0 and not (clock == "steps" and every > steps)


RULES = (
    Rule(
        ("batch_size", "batch_length", "replay.size"),
        lambda size, length, capacity, consec, context: size * (consec * length + context) <= capacity,
        "a batch of batch_size x (consec_train x batch_length + replay_context) steps fits into replay.size",
        context=("consec_train", "replay_context"),
    ),
    Rule(
        ("report_length", "batch_length"),
        lambda report, length, of_report, of_train, script, every, *clock: (
            not _reports_are_made(script, every, *clock) or of_report * report <= of_train * length
        ),
        "a report's sequence of consec_report x report_length steps is cut from one of consec_train x batch_length "
        "(report_length={batch_length} is right, or run.report_every=0 for no reports)",
        context=("consec_report", "consec_train", "script", "run.report_every", CLOCK, "run.steps"),
    ),
    Rule(
        ("replay.fracs.uniform", "replay.fracs.priority", "replay.fracs.recency"),
        lambda *shares: shares[0] >= 1 or sum(shares) == 1,
        "where uniform is below 1 the three shares add up to 1",
    ),
    Rule(
        ("agent.dyn.rssm.deter", "agent.dyn.rssm.blocks"),
        lambda deter, blocks: deter % blocks == 0,
        "deter is a multiple of blocks",
    ),
    Rule(
        ("agent.dyn.rssm.deter", "agent.dec.simple.bspace"),
        lambda deter, blocks: deter % blocks == 0,
        "deter is a multiple of bspace",
    ),
    Rule(
        ("agent.opt.schedule", "agent.opt.anneal", "agent.opt.warmup"),
        lambda schedule, anneal, warmup: schedule == "const" or anneal > warmup,
        "a learning rate that falls does so after the warmup, until anneal, which is later",
    ),
    Rule(
        ("agent.horizon",),
        lambda horizon, contdisc: contdisc or horizon > 1,
        "with agent.contdisc=False the horizon is at least 2, since the code divides by the discount",
        context=("agent.contdisc",),
    ),
)
