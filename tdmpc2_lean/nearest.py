"""The nearest right word to a misspelt one, for error messages."""

from collections.abc import Iterable

from rapidfuzz import process
from rapidfuzz.distance import DamerauLevenshtein


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` most likely means, or None if nothing is near. Of equals, the first."""
    best = process.extractOne(word, sorted(known), scorer=DamerauLevenshtein.normalized_similarity)
    return best[0] if best and best[1] >= 0.5 else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'X'?` to append to a message, or nothing."""
    found = nearest(word, known)
    return f" Did you mean {found!r}?" if found else ""
