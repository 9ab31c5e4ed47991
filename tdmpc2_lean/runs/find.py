"""Finds the folders of runs below a folder: one way for whoever reports on runs, shows how far they are or lists them.

A folder is a run's if it holds a run.json or a curve.jsonl. Links to folders are followed, a folder is found once
however many ways lead to it, and what cannot be looked into is named.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from tdmpc2_lean.runs import curve, folder, record

FILES = (record.FILE, curve.FILE)


@dataclass(frozen=True)
class Unreadable:
    """A folder, or a link to one, that could not be looked into. why: in the system's words."""

    path: Path
    why: str


@dataclass(frozen=True)
class FoundRuns:
    """folders: of runs, sorted; paths as they are reached from the folder that was searched."""

    folders: tuple[Path, ...]
    unreadable: tuple[Unreadable, ...]


def run_folders(path: Path) -> FoundRuns:
    """All folders of runs below a folder, itself included; nothing if there is no such folder.

    Where a run is reached directly and by a link, the direct path stands; of several links the first one.
    """
    folders: list[Path] = []
    unreadable: list[Unreadable] = []
    seen: set[tuple[int, int]] = set()
    links: list[Path] = []

    def visit(top: Path) -> None:
        todo = [top]
        while todo:
            place = todo.pop()
            try:
                status = os.stat(place)
                identity = (status.st_dev, status.st_ino)
                if identity in seen:
                    continue
                seen.add(identity)
                with os.scandir(place) as entries:
                    inside = sorted(entries, key=lambda entry: entry.name)
            except FileNotFoundError:
                continue  # gone since it was listed
            except OSError as error:
                unreadable.append(Unreadable(place, error.strerror or str(error)))
                continue
            if any(entry.name in FILES for entry in inside):
                folders.append(place)
            for entry in inside:
                try:
                    if entry.is_symlink():
                        # Raises where a link leads nowhere, unlike Path.is_dir.
                        if entry.name not in FILES and stat.S_ISDIR(os.stat(place / entry.name).st_mode):
                            links.append(place / entry.name)
                    elif entry.is_dir() and not entry.name.startswith(folder.REPLACED):
                        todo.append(place / entry.name)
                except OSError as error:
                    unreadable.append(Unreadable(place / entry.name, error.strerror or str(error)))

    visit(path)
    # Links last, so that what is reached without one is named by its own path.
    while links:
        links.sort()
        visit(links.pop(0))
    return FoundRuns(tuple(sorted(folders)), tuple(sorted(unreadable, key=lambda one: one.path)))
