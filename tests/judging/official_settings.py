"""Reads off the official code what validation/judging/settings/*.json states. Run as a script, it writes them anew.

    python tests/judging/official_settings.py      (with the official checkouts in the cache)
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tdmpc2_lean.patched import materialise
from tdmpc2_lean.references import tasks
from tdmpc2_lean.upstreams import UPSTREAMS, Checkout, find_checkout
from tdmpc2_lean.validation.judging import configuration, protocols

SIZES = ("size1m", "size12m")
# Asks the official code for the shapes of an environment: {task: [dimensions of the observation, of the action]}.
SHAPES = """
import json, sys
sys.path.insert(0, sys.argv[1])
from envs import make_env

class Settings(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__

found = {}
for task in sys.argv[2].split(","):
    cfg = Settings(task=task, obs="state", seed=1, multitask=False, episodic=False, seed_steps="???")
    make_env(cfg)
    assert (cfg["episode_length"], cfg["seed_steps"]) == (500, 2500)
    found[task] = [*cfg["obs_shape"]["state"], cfg["action_dim"]]
print(json.dumps(found))
"""


def source(upstream: str, file: str) -> dict[str, str]:
    known = UPSTREAMS[upstream]
    return {"repository": known.url, "commit": known.pin, "file": file, "licence": known.licence}


def tdmpc2(checkout: Checkout, shapes: dict[str, list[int]]) -> dict[str, Any]:
    """The contents of tdmpc2.json but for `shapes`, which are given."""
    from omegaconf import OmegaConf

    def plain(code_dir: Path) -> dict[str, Any]:
        found = OmegaConf.to_container(OmegaConf.load(code_dir / "config.yaml"))
        return {key: value for key, value in found.items() if value != "???" and key != "defaults"}

    official = plain(checkout.code_dir)
    patched = plain(materialise(checkout).code_dir)
    sizes = subprocess.run(
        [sys.executable, "-c", "import json; from common import MODEL_SIZE; print(json.dumps(MODEL_SIZE))"],
        cwd=checkout.code_dir, capture_output=True, text=True, check=True, timeout=120,
    ).stdout  # fmt: skip
    return {
        "source": source("tdmpc2", "tdmpc2/config.yaml"),
        "defaults": official,
        "patches": {key: value for key, value in patched.items() if key not in official},
        "model_size": json.loads(sizes),
        "shapes": shapes,
    }


def shapes_of(checkout: Checkout, names: list[str]) -> dict[str, list[int]]:
    """{task: [dimensions of the observation, of the action]}, by the official code."""
    code_dir = materialise(checkout).code_dir
    answer = subprocess.run(
        [sys.executable, "-c", SHAPES, str(code_dir), ",".join(names)],
        capture_output=True, text=True, check=True, timeout=300, env=os.environ | {"MUJOCO_GL": "disable"},
    ).stdout  # fmt: skip
    return json.loads(answer.splitlines()[-1])


def dreamerv3(checkout: Checkout) -> dict[str, Any]:
    """The contents of dreamerv3.json."""
    from dreamer_bridge import config

    def flat(code_dir: Path, *configs: str) -> dict[str, Any]:
        return config.flat(config.resolved(config.read(code_dir), configs, []))

    official = flat(checkout.code_dir)
    patched = flat(materialise(checkout).code_dir)
    dmc_proprio = flat(checkout.code_dir, "dmc_proprio")
    sizes = {size: flat(checkout.code_dir, size) for size in SIZES}

    def changed(now: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in now.items() if value != before[key]}

    return {
        "source": source("dreamerv3", "dreamerv3/configs.yaml"),
        "defaults": official,
        "patches": {key: value for key, value in patched.items() if key not in official},
        "dmc_proprio": changed(dmc_proprio, official),
        # All that any size sets, so that one replaces another.
        "sizes": {
            size: {key: sizes[size][key] for key in official if any(sizes[of][key] != official[key] for of in SIZES)}
            for size in SIZES
        },
    }


def write() -> None:
    for upstream in UPSTREAMS:
        checkout = find_checkout(upstream, UPSTREAMS[upstream].pin, may_clone=False)
        if upstream == "tdmpc2":
            found = tdmpc2(checkout, shapes_of(checkout, list(tasks.TDMPC2)))
        else:
            found = dreamerv3(checkout)
        path = configuration.FOLDER / f"{upstream}.json"
        path.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        print(f"{path}; protocols: {len(protocols.registry())}")


if __name__ == "__main__":
    write()
