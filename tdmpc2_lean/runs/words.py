"""What the user wrote after `train` or `evaluate`: words of ours, words for Hydra, and which are misspelt."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean

# Words that this command takes for itself; the official code has no settings of these names.
OWN_WORDS = {
    "lean": "presets, by name or path, separated by commas; later ones win",
    "upstream": "a checkout's folder, a commit, tag or branch, or `miniature`",
    "patches": "`all`, `none`, or names separated by commas",
    "threads": "CPU threads for the run",
    "overwrite": "`true` replaces an earlier run in the same folder",
}
# Texts that Hydra's grammar takes as they are, but for words that it reads as something else.
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
NOT_PLAIN = {"true", "false", "null", "none", "nan", "inf", "yes", "no", "on", "off"}
TRUE, FALSE = {"true", "yes", "on", "1"}, {"false", "no", "off", "0"}


@dataclass(frozen=True)
class Words:
    """own: our words and their values. hydra: all others (Hydra's, or DreamerV3's keys), in order, as written."""

    own: Mapping[str, str] = field(default_factory=dict)
    hydra: tuple[str, ...] = ()

    def flag(self, name: str) -> bool:
        """A word of ours that is true or false; false if absent."""
        value = self.own.get(name, "false").lower()
        if value not in TRUE | FALSE:
            raise UserError(f"{name}={self.own[name]} is neither true nor false.", f"write {name}=true")
        return value in TRUE

    def listed(self, name: str) -> tuple[str, ...]:
        """A word of ours that is a list separated by commas."""
        return tuple(part.strip() for part in self.own.get(name, "").split(",") if part.strip())

    def settings(self) -> dict[str, str]:
        """Official settings that are given a value: key -> the value as written; the last one counts."""
        pairs = (word.partition("=") for word in self.hydra)
        return {key.lstrip("+"): value for key, _, value in pairs if is_setting(key)}


def read(words: Sequence[str], ours: Iterable[str] = OWN_WORDS) -> Words:
    """Sort the words. UserError for one that is not key=value (or Hydra's ~key). ours: our words' names."""
    ours = set(ours)
    own, hydra = {}, []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals and not word.startswith("~"):
            raise UserError(f"expected words of the form key=value, found {word!r}.", f"write {word}=VALUE")
        if not key.strip("+~"):
            raise UserError(f"the word {word!r} names no setting.", "write key=value")
        if key in ours:
            own[key] = value
        else:
            hydra.append(word)
    return Words(own, tuple(hydra))


def is_setting(key: str) -> bool:
    """Whether a key is an official setting of the flat config.yaml: Hydra's own and nested keys are not."""
    return not any(mark in key for mark in "./~@")


def check_keys(
    keys: Iterable[str], known: Iterable[str], missing: Mapping[str, str], whose: str = ""
) -> None:
    """UserError if a key is no setting of the code that will run.

    missing: settings that a patch would add which is left out: {key: name of the patch}.
    whose: where the keys stand if not on the command line, such as "preset 'fast': ".
    """
    known = set(known)
    # With a single + Hydra adds a setting that does not exist.
    bare = [key.lstrip("+~") for key in keys if key.startswith("++") or not key.startswith("+")]
    absent = [key for key in bare if is_setting(key) and key not in known]
    for key in absent:
        if key not in missing:
            raise UserError(
                f"{whose}there is no setting {key!r}.{did_you_mean(key, known | set(OWN_WORDS))}",
                f"write +{key}=… if you mean to add a setting that the code does not have",
            )
    if absent:
        patches = ",".join(dict.fromkeys(missing[key] for key in absent))
        raise UserError(
            f"{whose}this run leaves out the patches that make these settings work: "
            + ", ".join(f"{key} (patch {missing[key]})" for key in absent),
            f"name {patches} in patches=, or leave patches= away to have all",
        )


def hydra_word(key: str, value: Any) -> str:
    """`key=value` in Hydra's grammar, such that Hydra reads exactly the value. No mappings."""
    return f"{key}={hydra_value(value)}"


def hydra_value(value: Any) -> str:
    """A Python value in Hydra's grammar."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(hydra_value, value)) + "]"
    text = str(value)
    if PLAIN.fullmatch(text) and text.lower() not in NOT_PLAIN:
        return text
    # A quote is escaped by a backslash, and so are the backslashes just before a quote or the end.
    escaped, backslashes = "", 0
    for character in text:
        if character == "'":
            escaped += "\\" * (backslashes + 1)
        escaped += character
        backslashes = backslashes + 1 if character == "\\" else 0
    return "'" + escaped + "\\" * backslashes + "'"
