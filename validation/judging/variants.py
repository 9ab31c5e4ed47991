"""What a run's lean presets make of its protocol, recomputed from the presets themselves and not from what it recorded.

A preset of ours is known by its name and the hash of its file. Another of the same name is a deviation. A preset of
the user's own is taken as its run recorded it, and its variant bears a name of its own, which tells two of one name
apart.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs.specification import PresetUse
from tdmpc2_lean.validation.judging import protocols
from tdmpc2_lean.validation.judging.agents import agent_named
from tdmpc2_lean.validation.judging.protocols import Protocol

DEFAULT = "default"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,-]{0,60}")


@dataclass(frozen=True)
class Change:
    """What a variant changed. default, variant: the values of a setting, by the protocol and by the variant."""

    setting: str
    default: Any
    variant: Any


@dataclass(frozen=True)
class Variant:
    """What presets make of a protocol.

    name: `default`, or the presets' names joined by `+`, those of the user's with a hash of what they set.
    settings: {setting: value} that they set. faults: {key: (expected, found)} of what cannot be accepted.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    faults: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def of_presets(entry: Protocol, used: Sequence[PresetUse]) -> Variant:
    """The variant of a protocol that a run's presets make."""
    names, chosen, faults = [], [], {}
    for use in used:
        if not NAME.fullmatch(use.name):
            faults["preset"] = ("a preset's name", ascii(use.name)[:60])
            names.append("unnamed")
            continue
        try:
            preset, own = _preset(entry.agent, use)
        except UserError as error:
            faults[f"preset {use.name}"] = ("a preset that can be read", error.message)
            names.append(use.name)
            continue
        if isinstance(preset, tuple):
            faults[f"preset {use.name}"] = preset
            names.append(f"{use.name}@{_short(use)}")
            continue
        names.append(use.name if own else f"{use.name}@{_short(use)}")
        if not preset.keys() and own:
            names.pop()  # it sets nothing
        fixed = [key for key in preset.keys() if key in protocols.FIXED]
        if fixed or (preset.keys() and not agent_named(entry.agent).has_variants):
            listed = ", ".join(fixed or preset.keys())
            faults[f"preset {use.name}"] = ("a preset that leaves alone what the protocol fixes", f"sets {listed}")
            continue
        chosen.append(preset)
    name = "+".join(names) or DEFAULT
    try:
        from tdmpc2_lean.runs import presets

        settings = presets.compose(chosen, {**entry.defaults, **entry.settings})
    except UserError as error:
        return Variant(name, {}, faults | {"presets": ("presets that can be combined", error.message)})
    return Variant(name, settings, faults)


def _preset(agent: str, use: PresetUse) -> tuple[Any, bool]:
    """(the preset to be taken, or (expected, found) where it cannot be; whether it is ours)."""
    from tdmpc2_lean.runs.presets import Preset, read

    path = ours(agent).get(use.name)
    if path is None:
        if not use.sha256 and not use.overrides and not use.times:
            return ("one of ours, or what it sets", "a name alone"), False
        return Preset(use.name, Path(use.name), "", dict(use.overrides), dict(use.times)), False
    preset = read(path, path.parent)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if use.sha256 is not None and use.sha256 != digest:
        return (f"sha256 {digest}", f"sha256 {use.sha256}"), True
    said = bool(use.overrides or use.times or use.sha256)  # a record of an earlier version names presets alone
    if said and not (protocols.same(use.overrides, preset.overrides) and protocols.same(use.times, preset.times)):
        return (_sets(preset.overrides, preset.times), _sets(use.overrides, use.times)), True
    return preset, True


def ours(agent: str) -> dict[str, Path]:
    """{name: file} of the presets that the package brings for an agent, whatever the user's folder holds."""
    return {path.stem: path for path in sorted(agent_named(agent).presets.glob("*.yaml"))}


def changes(entry: Protocol, variant: Variant) -> tuple[Change, ...]:
    """In what the settings of a variant's runs differ from those of the protocol, each setting once."""
    if not variant.settings:
        return ()
    seed = entry.seeds[0]
    before = protocols.expected_settings(entry, seed)
    after = protocols.expected_settings(entry, seed, variant.settings)
    keys = protocols.differing(before, after)
    return tuple(Change(key, before.get(key), after.get(key)) for key in keys)


def _sets(overrides: Mapping[str, Any], times: Mapping[str, Any]) -> str:
    said = [f"{key}={value}" for key, value in sorted(overrides.items())]
    return "sets " + (", ".join([*said, *(f"{key} x {value}" for key, value in sorted(times.items()))]) or "nothing")


def _short(use: PresetUse) -> str:
    """Tells apart what presets of one name set."""
    said = _sets(use.overrides, use.times)
    return hashlib.sha256(said.encode("utf-8", "backslashreplace")).hexdigest()[:6]
