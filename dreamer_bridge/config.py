"""The official configuration: the code's own configs.yaml and flags, resolved as its main.py resolves them."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean

FILE = Path("dreamerv3") / "configs.yaml"
DEFAULTS = "defaults"


def read(code_dir: Path) -> dict[str, Any]:
    """{name: settings} of the configs that the code brings; `defaults` has every key."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    path = code_dir / FILE
    try:
        document = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except (OSError, YAMLError) as error:
        raise UserError(f"{path} cannot be read: {error}", "name an intact checkout by upstream=") from None
    if not isinstance(document, dict) or DEFAULTS not in document:
        raise UserError(f"{path} has no {DEFAULTS!r}.", "name a checkout of DreamerV3 by upstream=")
    return document


def keys(document: Mapping[str, Any]) -> set[str]:
    """Every key of the defaults, nested ones joined by dots."""
    return set(flat(document[DEFAULTS]))


def flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{'run.steps': …} of nested settings."""
    found = {}
    for key, value in nested.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def means(key: str, name: str) -> bool:
    """Whether a key of a config, which may be a pattern as the official library takes it, names a setting."""
    return key == name or (re.search(r"[^A-Za-z0-9_.-]", key) is not None and re.match(key, name) is not None)


def split_configs(flags: Sequence[str]) -> tuple[list[str], list[str]]:
    """(names that --configs gives, the other flags)."""
    names: list[str] = []
    rest: list[str] = []
    taking = False
    for flag in flags:
        if flag.startswith("--"):
            key, equals, value = flag.partition("=")
            taking = key == "--configs"
            if taking:
                names += value.split(",") if equals else []
                continue
        (names if taking else rest).append(flag)
    return [name for name in names if name], rest


def resolved(document: Mapping[str, Any], configs: Sequence[str], flags: Sequence[str]) -> dict[str, Any]:
    """The nested configuration of named configs and flags, by the library that the official code uses.

    UserError for a config or flag that there is not, with the nearest, and for a value of another type.
    """
    import elements

    config = elements.Config(document[DEFAULTS])
    for name in configs:
        if name not in document or name == DEFAULTS:
            known = set(document) - {DEFAULTS}
            raise UserError(
                f"the official configs.yaml has no {name!r}.{did_you_mean(name, known)}",
                f"it has {', '.join(sorted(known))}",
            )
        config = config.update(document[name])
    known = keys(document)
    for flag in flags:
        key = flag.partition("=")[0].removeprefix("--").removesuffix("+")
        if flag.startswith("--") and not elements.Config.IS_PATTERN.fullmatch(key) and key not in known:
            raise UserError(
                f"the official configuration has no setting {key!r}.{did_you_mean(key, known)}",
                "python dreamerv3/main.py --help lists all",
            )
    try:
        config = elements.Flags(config).parse(list(flags))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UserError(f"the official flags: {error.args[0]}", "write -- --key value, as main.py takes them") from None
    return plain(config)


def plain(value: Any) -> Any:
    """Settings in JSON's own types."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def as_flags(settings: Mapping[str, Any]) -> list[str]:
    """The flags that give these settings."""
    found = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found += as_flags({f"{key}.{inner}": item for inner, item in value.items()})
        else:
            values = value if isinstance(value, list | tuple) else [value]
            found += [f"--{key}", *map(str, values)]
    return found
