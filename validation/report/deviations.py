"""In what a run departs from its protocol, in words. Whether it does is for `protocols.departures` to say."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tdmpc2_lean.validation.judging import protocols
from tdmpc2_lean.validation.report import provenance

ABSENT = "absent"


@dataclass(frozen=True)
class Departure:
    """key: of run.json, or of its settings.      expected, found: for the reader."""

    key: str
    expected: str
    found: str


def departures(record: Mapping[str, Any]) -> tuple[Departure, ...]:
    """The keys in which a run.json differs from its registry entry, by name; empty if in none.

    A run whose lines come from several provenances must be on protocol with each of them.
    """
    if not record:
        return (Departure("run.json", "a run's record", ABSENT),)
    found: dict[str, Departure] = {}
    codes = list(provenance.described_by(record).values()) or [record.get("provenance")]
    for code in codes:
        one = {**record, "provenance": code}
        for key in protocols.departures(one):
            found.setdefault(key, Departure(key, *_sides(key, one)))
    return tuple(found[key] for key in sorted(found))


def _sides(key: str, record: Mapping[str, Any]) -> tuple[str, str]:
    """(what the registry says of a key, what the run says)."""
    entry = protocols.registry().get(str(record.get("protocol")))
    if entry is None:
        return "a registered one", shown(record.get(key))
    if key == protocols.SMOKE:
        return "a protocol that is judged", "a smoke run"
    if key == "seed":
        return "one of " + ", ".join(map(str, entry.seeds)), shown(record.get(key))
    if key in ("agent", "task", "physics"):
        return shown(getattr(entry, key)), shown(record.get(key))
    if key in ("upstream", "commit", "local_changes"):
        from tdmpc2_lean.upstreams import UPSTREAMS

        due = {"upstream": entry.agent, "commit": UPSTREAMS[entry.agent].pin, "local_changes": "none"}
        return due[key], _at(record.get("provenance"), key)
    if key.startswith("spec."):
        name = key.removeprefix("spec.")
        return _at(entry.as_json(), name), _at(record.get("spec"), name)
    return _at(protocols.expected_settings(entry, record), key), _at(record.get("settings"), key)


def _at(mapping: Any, key: str) -> str:
    return shown(mapping[key]) if isinstance(mapping, Mapping) and key in mapping else ABSENT


def shown(value: Any) -> str:
    """A value for the reader, cut where it is long."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 120 else text[:117] + "..."
