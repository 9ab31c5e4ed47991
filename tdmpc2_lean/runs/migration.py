"""Records of earlier versions, brought to the present one. `read` of `record` asks here; nothing is written back.

Before schema 2 there were two kinds of run.json: schema 1, of the training commands (with keys of DreamerV3's besides),
and one without a version, of the runs of protocols. What they did not say stays unsaid: a run of theirs can be shown
and judged by what it recorded, and what the judge does not find counts as a deviation.
"""

from collections.abc import Mapping
from typing import Any

from tdmpc2_lean.runs import record
from tdmpc2_lean.runs.specification import flattened

HASH_OF_NOTHING = "unknown"
ACTION_REPEAT = 2  # of TD-MPC2's dm_control environments, which schema 1 did not record
EVERY_START = ("exit_code", "pid", "host")
# Of a protocol's provenance, what is not about the code.
NOT_CODE = ("packages", "device", "threads", "compile", "tdmpc2_lean")


class NoRecord(ValueError):
    """What was read is no record of any version."""


def to_current(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document as one of the present schema. NoRecord if it is none of any.

    Only what is needed to translate is looked at; whether the result is a record is for its schema to say.
    """
    if document.get("schema") == record.SCHEMA:
        return dict(document)
    try:
        if document.get("schema") == 1 and document.get("kind") in ("train", "evaluate"):
            return of_training(document)
        if "schema" not in document and "protocol" in document and "spec" in document:
            return of_protocol(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NoRecord(f"{type(error).__name__}: {error}.") from None
    raise NoRecord("it has no schema that was ever written.")


def of_training(old: Mapping[str, Any]) -> dict[str, Any]:
    """Schema 1."""
    dreamer = "flags" in old
    config = old["config"] or {}
    flat = flattened(config) if dreamer else dict(config)
    repeat = int(old["action_repeat"]) if dreamer else ACTION_REPEAT
    steps = flat.get("run.steps") if dreamer else flat.get("steps")
    chunk = int(old["chunk"]) if dreamer else int(flat.get("eval_freq") or 1) * repeat
    arm = dict(old["arm"]) if dreamer else {"name": "full", "rep": "keep"}
    code = {key: value for key, value in old["upstream"].items() if key != "source"}
    provenance = {
        "code": code,
        "versions": {"python": old["python"], **{str(k): str(v) for k, v in (old["packages"] or {}).items()}},
        "device": old["device"],
        "threads": old["threads"],
        "environment": old["environment"] or {},
        "platform": old["platform"],
        "tdmpc2_lean": old["tdmpc2_lean"],
    }
    details = {"flags": old["flags"], "loss_scales": arm.get("loss_scales")} if dreamer else {"hydra": old["hydra"]}
    resumed = old.get("resumed_at") or [None]
    attempts = max(1, int(old.get("attempts") or 1))
    last = {
        "command": old["command"], "cwd": old["cwd"], "started": old["started"], "ended": old["ended"],
        "state": old["state"], "provenance": HASH_OF_NOTHING, "resumed_at": resumed[-1], "log": f"{old['kind']}.log",
        **{key: old[key] for key in EVERY_START},
    }  # fmt: skip
    earlier = {**last, "ended": None, "state": "interrupted", "exit_code": None, "resumed_at": None}
    return {
        "schema": record.SCHEMA,
        "kind": old["kind"],
        "specification": {
            "upstream": "dreamerv3" if dreamer else "tdmpc2",
            "tasks": [old["task"]],
            "arm": arm["name"] + (", rep=alike" if arm.get("rep") == "alike" else ""),
            "presets": old["presets"],
            "seed": old["seed"],
            "agent_steps": int(float(steps)) if steps is not None and steps != "???" else 0,
            "action_repeat": repeat,
            "chunk": max(1, chunk),
            "overrides": old["overrides"] or {},
        },
        "state": old["state"],
        "error": old["error"],
        "configured": flat if dreamer else {},
        "settings": flat,
        "starts": [earlier] * (attempts - 1) + [last],
        "provenances": {HASH_OF_NOTHING: provenance},
        "checkpoint": old["checkpoint"],
        "timing": old["timing"] or {},
        "evaluations": old["evaluations"] or [],
        "details": details,
        "packages": old["packages"] or {},
    }


def of_protocol(old: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a protocol's run, which had no version."""
    entry = dict(old["spec"])
    repeat = int(entry.get("action_repeat") or ACTION_REPEAT)
    described = old.get("provenances") or {HASH_OF_NOTHING: old.get("provenance") or {}}
    provenances = {str(name): provenance_of_protocol(found) for name, found in described.items()}
    current = next((name for name, found in described.items() if found == old.get("provenance")), list(described)[-1])
    presets = [name if isinstance(name, dict) else {"name": str(name)} for name in old.get("presets") or []]
    start = {
        "command": "", "cwd": "", "started": old["started"], "ended": old.get("ended"), "state": old["state"],
        "provenance": current,
    }  # fmt: skip
    attempts = max(1, int(old.get("attempts") or 1))
    return {
        "schema": record.SCHEMA,
        "kind": "train",
        "specification": {
            "upstream": old["agent"],
            "source": old["physics"],
            "tasks": [old["task"]],
            "presets": presets,
            "seed": old["seed"],
            "agent_steps": int(entry["env_steps"]) // repeat,
            "action_repeat": repeat,
            "chunk": int(entry["chunk"]) * repeat,
            "protocol": old["protocol"],
        },
        "state": old["state"],
        "error": old.get("error"),
        "settings": dict(old.get("settings") or {}),
        "protocol_entry": entry,
        "preset_settings": dict(old.get("preset_settings") or {}),
        "starts": [{**start, "ended": None, "state": "interrupted"}] * (attempts - 1) + [start],
        "provenances": provenances,
    }


def provenance_of_protocol(old: Mapping[str, Any]) -> dict[str, Any]:
    device = old.get("device")
    threads = old.get("threads")
    return {
        "code": {key: value for key, value in old.items() if key not in NOT_CODE},
        "versions": {str(name): str(version) for name, version in (old.get("packages") or {}).items()},
        "device": {"kind": device} if isinstance(device, str) else device,
        "threads": {"number": threads} if isinstance(threads, int) else threads,
        "compile": old.get("compile"),
        "tdmpc2_lean": old.get("tdmpc2_lean"),
    }
