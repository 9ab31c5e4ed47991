"""A file name for each picture."""

import re


class PictureNames:
    """Gives each picture a file name of its own, on any file system."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def __call__(self, *words: str) -> str:
        stem = re.sub(r"[^A-Za-z0-9_.+-]+", "-", "-".join(words)).strip(".-")[:120] or "picture"
        name, number = stem, 1
        while name.lower() in self.taken:
            number += 1
            name = f"{stem}-{number}"
        self.taken.add(name.lower())
        return name
