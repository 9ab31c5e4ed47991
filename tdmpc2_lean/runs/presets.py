"""Lean presets: YAML files that name overrides, the evidence for them and what they cost.

    title: One line.
    overrides: {iterations: 3}          # official settings and their values
    times: {batch_size: 2}              # optional: factors on what stands before; first, the default
    evidence: What was measured, where.
    cost: What is given up.

They come with the package, from the user's folder, or from a path; several are combined from left to right.
Each agent has presets of its own, in the same form.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from tdmpc2_lean import places
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean

TDMPC2, DREAMERV3 = "tdmpc2", "dreamerv3"
COMMANDS = {TDMPC2: "tdmpc2-lean", DREAMERV3: "dreamer-bridge"}
FIELDS = {"title": str, "overrides": dict, "times": dict, "evidence": str, "cost": str}


@dataclass(frozen=True)
class Preset:
    """name: as chosen, or a file's stem. The other fields are those of the file."""

    name: str
    path: Path
    title: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    times: Mapping[str, float] = field(default_factory=dict)
    evidence: str = ""
    cost: str = ""

    def keys(self) -> tuple[str, ...]:
        """The settings it touches."""
        return tuple(dict.fromkeys([*self.overrides, *self.times]))


def folders(agent: str = TDMPC2) -> tuple[Path, ...]:
    """Where an agent's presets are looked for by name; the user's come first."""
    if agent == TDMPC2:
        return places.config_dir() / "presets", places.presets_dir()
    import dreamer_bridge

    return places.config_dir() / "dreamer-presets", Path(dreamer_bridge.__file__).parent / "presets"


def available(agent: str = TDMPC2) -> dict[str, Path]:
    """Every preset that has a name, the package's own before the user's."""
    found: dict[str, Path] = {}
    for folder in reversed(folders(agent)):
        found.update({path.stem: path for path in sorted(folder.glob("*.yaml"))})
    return found


def find(name: str, agent: str = TDMPC2) -> Preset:
    """An agent's preset of a name, or of a path to a YAML file."""
    listing = f"{COMMANDS[agent]} train --list-presets"
    if name.endswith((".yaml", ".yml")) or "/" in name:
        path = Path(name).expanduser()
        if not path.is_file():
            raise UserError(f"there is no preset file {path}.", listing)
        return read(path, agent)
    paths = available(agent)
    if name not in paths:
        raise UserError(
            f"there is no preset {name!r}.{did_you_mean(name, paths)}",
            f"{listing}; your own go to {folders(agent)[0]}/NAME.yaml",
        )
    return read(paths[name], agent)


def described(agent: str = TDMPC2) -> list[str]:
    """Every preset that has a name, to be read."""
    described = []
    for name in available(agent):
        preset = find(name, agent)
        settings = [f"{key}={value}" for key, value in preset.overrides.items()]
        settings += [f"{key} x {factor}" for key, factor in preset.times.items()]
        described.append(
            "\n".join(
                [
                    f"{name}: {preset.title}",
                    f"  sets      {' '.join(settings) or 'nothing'}",
                    f"  evidence  {' '.join(preset.evidence.split()) or 'none stated'}",
                    f"  cost      {' '.join(preset.cost.split()) or 'none stated'}",
                    f"  file      {preset.path}",
                ]
            )
        )
    return described


def read(path: Path, agent: str = TDMPC2) -> Preset:
    """Read and check one file."""
    import yaml

    def wrong(message: str) -> UserError:
        return UserError(f"{path}: {message}", f"see {folders(agent)[1] / 'smoke.yaml'} for an example")

    try:
        # YAML's 1.1 reads 3e-4 as a string, hence OmegaConf, which the official config is read by.
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        document = OmegaConf.to_container(OmegaConf.load(path))
    except (OSError, ValueError, yaml.YAMLError, OmegaConfBaseException) as error:
        raise wrong(f"cannot be read as YAML: {error}") from None
    if not isinstance(document, dict):
        raise wrong("expected a mapping with the keys " + ", ".join(FIELDS))
    for key, value in document.items():
        if key not in FIELDS:
            raise wrong(f"unknown key {key!r}.{did_you_mean(str(key), FIELDS)}")
        if not isinstance(value, FIELDS[key]):
            raise wrong(f"{key} must be a {'mapping' if FIELDS[key] is dict else 'text'}")
    if "title" not in document:
        raise wrong("has no title")
    if not all(isinstance(key, str) for name in ("overrides", "times") for key in document.get(name, {})):
        raise wrong("a setting's name must be a text")
    for key, factor in document.get("times", {}).items():
        if isinstance(factor, bool) or not isinstance(factor, int | float) or factor <= 0:
            raise wrong(f"times: {key} must be a positive number")
        if key in document.get("overrides", {}):
            raise wrong(f"{key} stands under overrides and under times")
    texts = {key: document[key].strip() for key in ("title", "evidence", "cost") if key in document}
    mappings = {key: document[key] for key in ("overrides", "times") if key in document}
    return Preset(path.stem, path, **texts, **mappings)


def compose(presets: Sequence[Preset], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """What the presets set, one after another: {setting: value}.

    defaults: the configuration without them, from which factors start.
    UserError for a factor on something that is no number, or that gives no whole number where there was one.
    """
    chosen: dict[str, Any] = {}
    for preset in presets:
        chosen.update(preset.overrides)
        for key, factor in preset.times.items():
            chosen[key] = multiplied(chosen.get(key, defaults.get(key)), factor, key, preset.name)
    return chosen


def multiplied(value: Any, factor: float, key: str, preset: str) -> int | float | str:
    """The value times the factor. Whole numbers stay whole, except utd, of which any rational makes sense."""
    try:
        number = None if isinstance(value, bool) else Fraction(str(value))
    except ValueError:
        number = None
    if number is None:
        raise UserError(
            f"preset {preset!r} multiplies {key} by {factor}, but {key} is {value!r}.",
            "give that setting a number",
        )
    product = number * Fraction(str(factor))
    if isinstance(value, float) or key == "utd":
        exact = Fraction(str(float(product))) == product
        return str(product) if not exact else int(product) if product.denominator == 1 else float(product)
    if product.denominator != 1:
        raise UserError(
            f"preset {preset!r} multiplies {key} by {factor}, which makes {float(product)} of {value}.",
            f"give {key}= a value yourself",
        )
    return int(product)
