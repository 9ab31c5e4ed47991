"""Which code, packages and device the lines of the runs come from, and which runs to look at twice.

A flag never changes a verdict: it tells the reader what the verdict stands on.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tdmpc2_lean.runs.record import RunRecord
from tdmpc2_lean.validation.judging.reading import Folder

UNSAID = "not said"
UNNAMED = "unknown"  # what a record of an earlier version has its one provenance under
NOTHING = ("false", "none", "not known", "0", "")  # texts that say that a tree is clean, or not whether it is
DIRTY = ("local_changes", "dirty")  # keys that say that a tree is not the commit's


@dataclass(frozen=True)
class Origin:
    """One provenance. facts: dotted key -> text.      runs: labels of those with lines of it.      lines: how many."""

    name: str
    facts: Mapping[str, str]
    runs: tuple[str, ...]
    lines: int


@dataclass(frozen=True)
class Flag:
    """what: is odd.      runs: the labels of the runs in which it is."""

    what: str
    runs: tuple[str, ...]


def origins(runs: Iterable[tuple[str, Folder]]) -> tuple[tuple[Origin, ...], tuple[Flag, ...]]:
    """(every provenance that a line has, the flags) of runs, each given by its label."""
    facts: dict[str, Mapping[str, str]] = {}
    labels: dict[str, list[str]] = {}
    lines: dict[str, int] = {}
    flags: dict[str, list[str]] = {}
    for label, folder in runs:
        described = described_by(folder.record)
        used = list(dict.fromkeys(point.provenance for point in folder.points)) or list(described)[-1:]
        # A record of one provenance, by a version that gave them no names, speaks of all lines.
        for name in used:
            known = described.get(name)
            if known is None and set(described) == {UNNAMED}:
                known = next(iter(described.values()))
            flat = flattened(known) if known else {}
            identity = name or (_hash(flat) if flat else UNSAID)
            if flat or identity not in facts:
                facts[identity] = flat
            labels.setdefault(identity, []).append(label)
            count = sum(point.provenance == name for point in folder.points)
            lines[identity] = lines.get(identity, 0) + count
            if not flat:
                flags.setdefault(f"lines whose provenance ({identity}) run.json does not describe", []).append(label)
            for key, value in flat.items():
                if key.rpartition(".")[2] in DIRTY and value not in NOTHING:
                    flags.setdefault(f"a dirty tree: {key} is {value}", []).append(label)
        if len(used) > 1:
            what = _several(used, [flattened(described.get(name) or {}) for name in used])
            flags.setdefault(what, []).append(label)
    found = tuple(Origin(name, facts[name], tuple(labels[name]), lines[name]) for name in sorted(facts))
    return found, tuple(Flag(what, tuple(flags[what])) for what in sorted(flags))


def described_by(record: RunRecord | None) -> dict[str, Mapping[str, Any]]:
    """Short hash -> provenance, of all starts that a record describes, in JSON's own types."""
    if record is None:
        return {}
    return {name: one.model_dump(mode="json", exclude_none=True) for name, one in record.provenances.items()}


def devices(record: RunRecord | None) -> list[str]:
    """The devices that a run's starts name, for the reader, sorted."""
    found = (one.device for one in record.provenances.values()) if record is not None else ()
    return sorted({(device.name or device.kind) if device else "unknown device" for device in found})


def flattened(found: Mapping[str, Any], under: str = "") -> dict[str, str]:
    """Nested mappings as one, with dotted keys and texts."""
    flat: dict[str, str] = {}
    for key, value in found.items():
        if isinstance(value, list | tuple) and value and all(isinstance(one, Mapping) for one in value):
            value = {str(one.get("name", index)): _said_of(one) for index, one in enumerate(value)}
        if isinstance(value, Mapping):
            flat |= flattened(value, f"{under}{key}.")
        elif isinstance(value, list | tuple) and value:
            flat[f"{under}{key}"] = ", ".join(map(_text, value))
        else:
            flat[f"{under}{key}"] = _text(value)
    return flat


def _said_of(named: Mapping[str, Any]) -> Any:
    """What a list's entry says but its name: the one thing, such as a patch's hash, or a mapping."""
    rest = {key: value for key, value in named.items() if key != "name"}
    return next(iter(rest.values())) if len(rest) == 1 else rest


def _text(value: Any) -> str:
    if value is None:
        return "not known"
    if value == []:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, default=str, sort_keys=True)


def differing(facts: Sequence[Mapping[str, str]]) -> list[str]:
    """The keys that not all of the facts have with one value, sorted."""
    keys = sorted({key for one in facts for key in one})
    return [key for key in keys if len({one.get(key) for one in facts}) > 1]


def _several(names: Sequence[str], facts: Sequence[Mapping[str, str]]) -> str:
    listed = ", ".join(name or UNSAID for name in sorted(names))
    keys = differing([one for one in facts if one])
    return f"lines of {len(names)} provenances ({listed})" + (f", which differ in {', '.join(keys)}" if keys else "")


def _hash(facts: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]
