"""Lean presets: YAML files that name overrides, the evidence for them and what they cost.

    title: One line.
    overrides: {iterations: 3}          # official settings and their values
    times: {batch_size: 2}              # optional: factors on what stands before; first, the default
    evidence: What was measured, where.
    cost: What is given up.

They come with the package, from the user's folder, or from a path; several are combined from left to right.
Each upstream has presets of its own, in the same form; its adapter has their `Shelf`.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean
from tdmpc2_lean.runs.specification import PresetUse

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


@dataclass(frozen=True)
class Shelf:
    """The presets of one upstream. own: the package's folder. users: the user's, which comes first.

    listing: the command that lists them.
    """

    own: Path
    users: Path
    listing: str

    def available(self) -> dict[str, Path]:
        """Every preset that has a name, the package's own before the user's."""
        found: dict[str, Path] = {}
        for folder in (self.own, self.users):
            found.update({path.stem: path for path in sorted(folder.glob("*.yaml"))})
        return found

    def find(self, name: str) -> Preset:
        """The preset of a name, or of a path to a YAML file."""
        if name.endswith((".yaml", ".yml")) or "/" in name:
            path = Path(name).expanduser()
            if not path.is_file():
                raise UserError(f"there is no preset file {path}.", self.listing)
            return read(path, self.own)
        paths = self.available()
        if name not in paths:
            raise UserError(
                f"there is no preset {name!r}.{did_you_mean(name, paths)}",
                f"{self.listing}; your own go to {self.users}/NAME.yaml",
            )
        return read(paths[name], self.own)

    def described(self) -> list[str]:
        """Every preset that has a name, to be read."""
        return [described(self.find(name)) for name in self.available()]


def described(preset: Preset) -> str:
    """What a preset sets, the evidence and the cost."""
    settings = [f"{key}={value}" for key, value in preset.overrides.items()]
    settings += [f"{key} x {factor}" for key, factor in preset.times.items()]
    return "\n".join(
        [
            f"{preset.name}: {preset.title}",
            f"  sets      {' '.join(settings) or 'nothing'}",
            f"  evidence  {' '.join(preset.evidence.split()) or 'none stated'}",
            f"  cost      {' '.join(preset.cost.split()) or 'none stated'}",
            f"  file      {preset.path}",
        ]
    )


def use_of(preset: Preset) -> PresetUse:
    """The preset as a run's record has it."""
    return PresetUse(
        name=preset.name,
        file=preset.path.name,
        sha256=hashlib.sha256(preset.path.read_bytes()).hexdigest(),
        overrides=dict(preset.overrides),
        times=dict(preset.times),
    )


def read(path: Path, own: Path) -> Preset:
    """Read and check one file. own: a folder with examples."""
    import yaml

    def wrong(message: str) -> UserError:
        return UserError(f"{path}: {message}", f"see {own / 'smoke.yaml'} for an example")

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
