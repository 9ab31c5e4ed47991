"""Which settings the edits of a patch add to an upstream's configuration, and with which values."""

import itertools
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

# The files by which the upstreams are configured.
CONFIGURATIONS = ("config.yaml", "configs.yaml")
# Stands, as a key, for what a metavariable matched.
MATCHED = "__matched__"


def settings_added(edits: Iterable) -> dict[str, Any]:
    """{key: value} of what edits (`series.Edit`) write into a configuration, nested keys joined by dots.

    A key begins where the snippet does: of what goes below `run:` it has no `run.`. Alternatives of an edit count too.
    """
    added: dict[str, Any] = {}
    for edit in itertools.chain.from_iterable(edit.every for edit in edits):
        if PurePosixPath(edit.file).name not in CONFIGURATIONS or edit.do in ("delete", "create", "nothing"):
            continue
        text = edit.snippet.text if edit.snippet is not None else edit.text
        found = _keys(text)
        if edit.do == "replace":
            found = {key: value for key, value in found.items() if key not in _keys(edit.find or f"{edit.key}: 0")}
        added |= found
    return added


def _keys(text: str) -> dict[str, Any]:
    """{key: value} of YAML with metavariables ($NAME, which stand for what is there already), nested keys joined."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        plain = re.sub(r"\$\$\$[A-Z]+|\$[A-Z]+(?=\s*,)", f"{MATCHED}: 0", text)
        document = OmegaConf.to_container(OmegaConf.create(plain))
    except (OmegaConfBaseException, YAMLError, ValueError):
        return {}
    return {key: value for key, value in _flat(document) if not key.endswith(MATCHED)}


def _flat(document: Any, prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in document.items() if isinstance(document, Mapping) else ():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
