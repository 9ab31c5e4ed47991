"""Whether a run is what its protocol says, by its record: protocol, settings, presets, and code of every start.

A run with a deviation is never judged. Where a run was made (device, versions, threads) is not its protocol's.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tdmpc2_lean.runs.record import RunRecord
from tdmpc2_lean.validation.judging import configuration, official_code, protocols, variants
from tdmpc2_lean.validation.judging.agents import agent_named
from tdmpc2_lean.validation.judging.official_code import ExpectedCode
from tdmpc2_lean.validation.judging.protocols import Protocol
from tdmpc2_lean.validation.judging.variants import Variant

ABSENT = "absent"


@dataclass(frozen=True)
class Deviation:
    """key: of run.json, or of its settings.      expected, found: for the reader."""

    key: str
    expected: str
    found: str


def entry_of(record: RunRecord | None) -> Protocol | None:
    """The protocol that a run says it is of, as the registry has it now."""
    if record is None or record.specification.protocol is None:
        return None
    return protocols.registry().get(record.specification.protocol)


def variant_of(record: RunRecord, entry: Protocol) -> Variant:
    """What a run's presets make of its protocol."""
    return variants.of_presets(entry, record.specification.presets)


def expected_settings(record: RunRecord, entry: Protocol, variant: Variant | None = None) -> dict[str, Any]:
    """The settings that a run of the protocol has, with its seed and presets, on the platform that it names."""
    variant = variant or variant_of(record, entry)
    on_cpu = record.settings.get("jax.platform") == "cpu"
    return protocols.expected_settings(entry, record.specification.seed, variant.settings, on_cpu)


def deviations(record: RunRecord | None, code: ExpectedCode | None = None) -> tuple[Deviation, ...]:
    """In what a run deviates from its registry entry, by key; empty if in nothing.

    code: what it has to be made with; by default the package's own. A record of None cannot be read.
    """
    if record is None:
        return (Deviation("run.json", "a run's record", "none that can be read"),)
    entry = entry_of(record)
    if entry is None:
        return (Deviation("protocol", "a registered one", shown(record.specification.protocol or ABSENT)),)
    variant = variant_of(record, entry)
    found = {
        **_of_specification(record, entry),
        **variant.faults,
        **_of_settings(record, expected_settings(record, entry, variant)),
        **_of_entry(record, entry),
    }
    undescribed = sorted({start.provenance for start in record.starts} - set(record.provenances))
    if undescribed:
        found["provenances"] = ("those of all starts", f"a start of {', '.join(undescribed)}, which is not described")
    code = code or official_code.expected(entry.agent)
    for provenance in record.provenances.values():
        for key, sides in code.differences(provenance.code).items():
            found.setdefault(key, sides)
    return tuple(Deviation(key, *map(shown, found[key])) for key in sorted(found))


def _of_specification(record: RunRecord, entry: Protocol) -> dict[str, tuple[Any, Any]]:
    said = record.specification
    found: dict[str, tuple[Any, Any]] = {}
    if not entry.judged:
        found[protocols.SMOKE] = ("a protocol that is judged", "a smoke run")
    if said.seed not in entry.seeds:
        found["seed"] = ("one of " + ", ".join(map(str, entry.seeds)), said.seed)
    if said.task not in agent_named(entry.agent).names_of_task(entry):
        found["task"] = (entry.task, said.task)
    due = {
        "upstream": entry.agent,
        "source": entry.physics,
        "regime": "on_policy",
        "arm": "full",
        "agent_steps": entry.agent_steps,
        "action_repeat": entry.action_repeat,
        "chunk": entry.chunk * entry.action_repeat,
    }
    found |= {key: (value, getattr(said, key)) for key, value in due.items() if getattr(said, key) != value}
    if record.kind != "train":
        found["kind"] = ("train", record.kind)
    if record.checkpoint is not None:
        found["checkpoint"] = ("none: a run starts from nothing", record.checkpoint.path)
    return found


def _of_settings(record: RunRecord, expected: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The settings that differ: each that is expected, and each deciding one that is not."""
    agent = agent_named(record.specification.upstream)
    due, found = agent.compared(entry_of(record), expected, configuration.flat(record.settings))
    found = {key: value for key, value in found.items() if key in due or agent.decides(key)}
    return {key: (due.get(key, ABSENT), found.get(key, ABSENT)) for key in protocols.differing(due, found)}


def _of_entry(record: RunRecord, entry: Protocol) -> dict[str, tuple[Any, Any]]:
    """In what the entry that the run was made by differs from today's.

    What an earlier registry did not fix is no deviation: the run's settings are compared with all that today's does.
    """
    made_by = record.protocol_entry
    if made_by is None:
        return {"protocol_entry": ("the protocol's registry entry", ABSENT)}
    due = entry.as_json()
    found = {}
    for key in sorted(set(due) | set(made_by)):
        here, there = due.get(key, ABSENT), made_by.get(key, ABSENT)
        if key == "defaults" and isinstance(there, Mapping):
            for name in protocols.differing({k: v for k, v in here.items() if k in there}, there, at_least=True):
                found[f"protocol_entry.defaults.{name}"] = (here[name], there[name])
        elif not protocols.same(here, there):
            found[f"protocol_entry.{key}"] = (here, there)
    return found


def shown(value: Any) -> str:
    """A value for the reader, cut where it is long."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, default=str)
    except (RecursionError, ValueError):
        text = "something nested too deeply"
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 120 else text[:117] + "..."
