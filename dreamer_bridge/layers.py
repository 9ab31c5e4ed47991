"""Who gives an official setting: the layers of a run's configuration, of which the later ones win."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dreamer_bridge import config

OFFICIAL = "dmc_proprio"  # the official config for states of dm_control, on which every run is based


@dataclass(frozen=True)
class Layers:
    """From the weakest on.

    configs: names of official configs. bridge: the bridge's own settings. run: those of the run that made a
    checkpoint. presets, arm: what they set. words: official keys that the user gave, as written.
    flags: official flags as the user wrote them, --configs left out.
    """

    configs: tuple[str, ...]
    bridge: Mapping[str, Any]
    run: Mapping[str, Any] = field(default_factory=dict)
    presets: Mapping[str, Any] = field(default_factory=dict)
    arm: Mapping[str, Any] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()

    @property
    def overrides(self) -> dict[str, Any]:
        """What run, presets, arm and words give."""
        return {**self.run, **self.presets, **self.arm, **self.words}

    def settings_as_flags(self) -> list[str]:
        """All layers but the configs, as official flags."""
        return [*config.as_flags({**self.bridge, **self.overrides}), *self.flags]

    def said(self, key: str) -> Any:
        """The value that anybody but the bridge and the official configs gives a setting; None if nobody does."""
        found = self.overrides.get(key)
        for number, flag in enumerate(self.flags):
            name, equals, value = flag.partition("=")
            if name == f"--{key}":
                found = value if equals else next(iter(self.flags[number + 1 : number + 2]), None)
        return found

    def official(self, decided: Mapping[str, str]) -> list[str]:
        """The flags of main.py. decided: settings that the bridge decides, such as the folder."""
        return ["--configs", *self.configs, *config.as_flags(decided), *self.settings_as_flags()]

    def resolved(self, document: Mapping[str, Any], decided: Mapping[str, str]) -> dict[str, Any]:
        """The nested configuration that main.py makes of these flags."""
        return config.resolved(document, self.configs, self.official(decided)[1 + len(self.configs) :])
