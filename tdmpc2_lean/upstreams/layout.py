"""Where in a folder an upstream's code lies: in its official place, at the top, or in one folder of another name."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tdmpc2_lean.errors import UserError, quoted
from tdmpc2_lean.upstreams.registry import UPSTREAMS, Upstream, upstream_named

# How many folders are looked into for code: in those of a folder, and in those of these for a hint.
MOST_FOLDERS = 400
# Folders in which no code lies that somebody works on.
PASSED_OVER = {"node_modules", "site-packages", "__pycache__", "venv", "env"}


@dataclass(frozen=True)
class Layout:
    """code: the path of the code folder from the checkout, '' for the checkout itself."""

    upstream: Upstream
    code: str

    @property
    def prefix(self) -> str:
        """What the paths of the code begin with."""
        return f"{self.code}/" if self.code else ""

    @property
    def official_prefix(self) -> str:
        return f"{self.upstream.code}/" if self.upstream.code else ""

    def official(self, path: str) -> str:
        """What the official repository calls a file of the code; any other path as it is."""
        moved = self.prefix != self.official_prefix and path.startswith(self.prefix)
        return self.official_prefix + path.removeprefix(self.prefix) if moved else path

    def own(self, path: str) -> str:
        """What this checkout calls a file of the official repository."""
        moved = self.prefix != self.official_prefix and path.startswith(self.official_prefix)
        return self.prefix + path.removeprefix(self.official_prefix) if moved else path


def holds_code(folder: Path, upstream: Upstream) -> bool:
    """Whether the upstream's top-level modules lie in a folder."""
    return all((folder / name).is_dir() or (folder / f"{name}.py").is_file() for name in upstream.modules)


def layout_of(root: Path, name: str | None = None) -> Layout | None:
    """Where in a folder which upstream's code lies; None where it lies nowhere, or in several folders.

    name: the upstream that is looked for first.
    """
    upstreams = sorted(UPSTREAMS.values(), key=lambda one: one.name != name)
    for upstream in upstreams:
        if holds_code(root / upstream.code, upstream):
            return Layout(upstream, upstream.code)
    for upstream in upstreams:
        if upstream.code and holds_code(root, upstream):
            return Layout(upstream, "")
    found = list(renamed(root))
    return found[0] if len(found) == 1 else None


def renamed(root: Path) -> Iterator[Layout]:
    """The code folders in a folder that have another name than the official one."""
    movable = [upstream for upstream in UPSTREAMS.values() if upstream.code]
    for folder in folders_in(root):
        for upstream in movable:
            if holds_code(folder, upstream):
                yield Layout(upstream, folder.name)


def folders_in(root: Path) -> list[Path]:
    """The folders of a folder in which code may lie, by name, the first few hundred."""
    try:
        with os.scandir(root) as entries:
            names = [
                one.name
                for one in entries
                if one.is_dir(follow_symlinks=False) and not one.name.startswith(".") and one.name not in PASSED_OVER
            ]
    except OSError:
        return []
    return [root / name for name in sorted(names)[:MOST_FOLDERS]]


def checkout_with(folder: Path) -> Path:
    """The checkout that is meant by a folder: where that is the code folder of one, the folder above."""
    if (folder / ".git").exists() or not any(holds_code(folder, one) for one in UPSTREAMS.values() if one.code):
        return folder
    above = layout_of(folder.parent)
    return folder.parent if above is not None and above.code == folder.name else folder


def no_checkout(root: Path, name: str | None = None) -> UserError:
    """What was looked for in a folder that is no checkout, where, and which of its folders look like one."""
    looked = [upstream_named(name)] if name in UPSTREAMS else list(UPSTREAMS.values())
    lines = [
        f"    {one.name}: " + ", ".join(f"{one.code}/{module}" if one.code else module for module in one.modules)
        for one in looked
    ]
    inside = checkouts_below(root)
    if not inside:
        step = "name a clone or an unpacked archive of an upstream; `tdmpc2-lean upstream list` shows them"
    elif len(inside) == 1:
        step = f"name the checkout that is in it: {quoted(inside[0])}"
    else:
        step = "name one of the checkouts that are in it:\n" + "\n".join(f"    {quoted(one)}" for one in inside[:10])
    return UserError(
        f"{root} is no checkout of {' or '.join(one.name for one in looked)}. Looked in it for these folders or "
        "modules, which are not all there:\n" + "\n".join(lines),
        step,
    )


def checkouts_below(root: Path) -> list[Path]:
    """The folders in a folder, and in the folders of it, that look like checkouts."""
    first = folders_in(root)
    found = [root / one.code for one in renamed(root)]  # several: one alone would have made the folder a checkout
    found += [one for one in first if one not in found and layout_of(one)]
    if not found:
        second = [two for one in first for two in folders_in(one)][:MOST_FOLDERS]
        found = [one for one in second if layout_of(one)]
    return found
