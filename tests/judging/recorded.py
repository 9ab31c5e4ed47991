"""Run records as the judge meets them: parsed from JSON, as they lie on the disk."""

import copy
import json
from pathlib import Path
from typing import Any

from tdmpc2_lean.runs import record
from tdmpc2_lean.runs.record import RunRecord


def parsed(said: dict[str, Any]) -> RunRecord:
    return record.parsed(json.dumps(said).encode(), Path("run.json"))


def changed(said: dict[str, Any], *path: str | int, to: Any) -> dict[str, Any]:
    """A copy in which what lies at the path has another value; without it, if `to` is `...`."""
    found = copy.deepcopy(said)
    place = found
    for key in path[:-1]:
        place = place[key]
    if to is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return found
