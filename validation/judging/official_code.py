"""Which code the runs of a protocol are made with: the pin's tree, the default series of patches, and what they make.

The tree that results is a function of both. Where the official code is in the cache it is rendered here, in memory;
elsewhere the runs can only be held against one another, and the report says so.
"""

import contextlib
import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tdmpc2_lean.errors import UserError


@dataclass(frozen=True)
class ExpectedCode:
    """What a run's record has to say of its code.

    patches: (name, sha256 of its folder) of each, in order. patched_tree: None where it cannot be known here.
    """

    upstream: str
    commit: str
    tree: str
    patches: tuple[tuple[str, str], ...]
    patched_tree: str | None

    def differences(self, code: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
        """{key: (expected, found)}, in words, of what a provenance's code differs in; empty if in nothing."""
        if code.get("upstream") != self.upstream:
            return {"upstream": (self.upstream, _said(code.get("upstream")))}
        found = {}
        for key in ("commit", "tree"):
            if code.get(key) != getattr(self, key):
                found[key] = (getattr(self, key), _said(code.get(key)))
        # An empty list, or its absence, is what a clean tree is recorded by.
        if code.get("local_changes"):
            found["local_changes"] = ("none", _said(code["local_changes"]))
        found |= self._of_patches(code.get("patches"))
        if self.patched_tree is not None and code.get("patched_tree") != self.patched_tree:
            found["patched_tree"] = (self.patched_tree, _said(code.get("patched_tree")))
        return found

    def _of_patches(self, listed: Any) -> dict[str, tuple[str, str]]:
        """In which patches the code differs: a key for each, or one for all if the list is none."""
        entries = listed if isinstance(listed, list) else None
        if entries is None or not all(isinstance(one, Mapping) and isinstance(one.get("name"), str) for one in entries):
            return {"patches": (", ".join(name for name, _ in self.patches), _said(listed))}
        here = {one["name"]: one.get("sha256") for one in entries}
        due = dict(self.patches)
        found = {}
        for name in [*due, *(name for name in here if name not in due)]:
            if here.get(name, _ABSENT) != due.get(name, _ABSENT):
                expected = f"sha256 {due[name]}" if name in due else "not applied"
                found[f"patch {name}"] = (expected, f"sha256 {_said(here[name])}" if name in here else "not applied")
        if not found and [one["name"] for one in entries] != list(due):
            found["patches"] = (", ".join(due), ", ".join(one["name"] for one in entries))
        return found


_ABSENT = object()


def _said(value: Any) -> str:
    if value is None:
        return "absent"
    return value if isinstance(value, str) else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def expected(agent: str) -> ExpectedCode:
    """What the runs of an agent's protocols are made with, by the package's own patches."""
    return replace(_declared(agent), patched_tree=rendered_tree(agent))


@functools.cache
def _declared(agent: str) -> ExpectedCode:
    from tdmpc2_lean import patching
    from tdmpc2_lean.upstreams import UPSTREAMS

    upstream = UPSTREAMS[agent]
    patches = tuple((patch.name, patch.sha256) for patch in patching.read_series(agent).closure())
    return ExpectedCode(agent, upstream.pin, upstream.pin_tree, patches, None)


def rendered_tree(agent: str) -> str | None:
    """git's id of the pin's files with the default series applied; None where the official code is not here.

    Nothing is fetched and nothing is written. That the code is not here is found anew each time: it may come.
    """
    with contextlib.suppress(UserError):
        return _rendered_tree(agent)
    return None


@functools.cache
def _rendered_tree(agent: str) -> str:
    from tdmpc2_lean import patching
    from tdmpc2_lean.patched import official_files
    from tdmpc2_lean.upstreams import UPSTREAMS, find_checkout, tree

    base = official_files(find_checkout(agent, UPSTREAMS[agent].pin, may_clone=False))
    manifest = base.manifest()
    for path, content in patching.render_series(patching.read_series(agent).closure(), base, ()).items():
        mode = manifest[path][0] if path in manifest else tree.FILE
        manifest[path] = (mode, tree.object_id("blob", content))
    return tree.tree_of_manifest(manifest)
