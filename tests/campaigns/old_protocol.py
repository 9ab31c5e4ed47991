"""run.json of a protocol's run as it was written before records had a version."""

import json


def record(protocol, plan):
    """Of a finished run, of the code that is here."""
    code = {key: value for key, value in plan.patched.provenance().items() if key != "source"}
    provenance = json.loads(json.dumps({
        **code, "packages": {"python": "3.11.7", "torch": "2.13.0"}, "device": {"kind": "cpu", "name": "x86_64"},
        "threads": 1, "compile": False, "tdmpc2_lean": {"version": "0.1.0", "commit": None, "local_changes": None},
    }, default=str))  # fmt: skip
    return {
        "protocol": protocol.name, "seed": 1, "presets": [], "preset_settings": {}, "spec": protocol.as_json(),
        "agent": protocol.agent, "task": protocol.task, "physics": protocol.physics,
        "settings": {"seed": 1, **protocol.defaults, **protocol.settings}, "provenance": provenance,
        "provenances": {"57251260": provenance}, "state": "finished", "error": None,
        "started": "2026-06-30T21:41:15+00:00", "ended": "2026-07-02T21:41:15+00:00", "attempts": 1,
    }  # fmt: skip
