"""The official configuration: config.yaml beside the code, composed by Hydra as the official scripts compose it."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.patched import Patched


def official_settings(code_dir: Path) -> set[str]:
    """The names in config.yaml."""
    from omegaconf import OmegaConf

    return set(OmegaConf.load(code_dir / "config.yaml")) - {"defaults"}


def settings_of_absent_patches(patched: Patched) -> dict[str, str]:
    """{setting: patch} for the settings that the patches left out would have added or made effective."""
    from tdmpc2_lean import patching

    applied = dict(patched.patches)
    brought = patching.read_series(patched.checkout.upstream).settings()
    return {setting: patch for setting, patch in brought.items() if patch not in applied}


def composed(code_dir: Path, hydra: Sequence[str]) -> dict[str, Any]:
    """The configuration that Hydra makes of the words; what is missing is '???'."""
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.singleton import Singleton
    from omegaconf import OmegaConf

    def compose_here() -> dict[str, Any]:
        # Within a job of Hydra's another configuration is being used.
        state = Singleton.get_state()
        GlobalHydra.instance().clear()
        try:
            with initialize_config_dir(config_dir=str(code_dir), version_base=None):
                return OmegaConf.to_container(compose("config", overrides=list(hydra)))
        finally:
            Singleton.set_state(state)

    return hydra_says(compose_here)


def hydra_says(call: Callable[[], Any]) -> Any:
    """The result of a call of Hydra's, whose refusals become a UserError in its own words."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    try:
        return call()
    except (HydraException, OmegaConfBaseException) as error:
        told = " ".join(str(error).split())
        if "submitit" in told:
            raise UserError(f"Hydra: {told}", f"{sys.executable} -m pip install hydra-submitit-launcher") from None
        if "sweep" in told.lower():
            raise UserError(f"Hydra: {told}", "add --multirun to run all combinations in turn") from None
        raise UserError(
            f"Hydra: {told}", "quote what Hydra's grammar takes for its own, as in key=\"'text'\""
        ) from None


def is_missing(value: Any) -> bool:
    return value in (None, "???", "none", "")
