"""Turns what the user wrote into a plan: every decision about a run, taken and checked before it starts.

Nothing here writes to the run's folder; `run.carry_out` does.
"""

import itertools
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tdmpc2_lean.environments import dm_control, rendering
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean
from tdmpc2_lean.patched import Patched, materialise
from tdmpc2_lean.runs import presets, record, threads, words
from tdmpc2_lean.runs.presets import Preset
from tdmpc2_lean.runs.words import hydra_word
from tdmpc2_lean.upstreams import Checkout, find_checkout

# Patches whose setting exists in the official config.yaml already, where it is overruled.
PATCH_OF_OFFICIAL_SETTING = {"seed_steps": "seed-steps"}
SAFE_LOAD = "safe-load"
# Of a training run's overrides, those that say nothing about its agent and environment.
NOT_FOR_EVALUATION = ("exp_name", "checkpoint", "enable_wandb", "save_video", "save_video_files")


@dataclass(frozen=True)
class Plan:
    """All that is decided about a run. config: what Hydra composes of the words. folder: the run's own.

    environment: variables that the child gets from us. probe: a module that must be importable, or None.
    notes: what the user should be told before the run.
    """

    kind: str
    command: str
    cwd: Path
    checkout: Checkout
    patched: Patched
    presets: tuple[Preset, ...]
    hydra: tuple[str, ...]
    config: Mapping[str, Any]
    overrides: Mapping[str, Any]
    folder: Path
    overwrite: bool
    threads: tuple[int, str]
    environment: Mapping[str, str]
    draws: bool
    probe: str | None
    notes: tuple[str, ...] = ()
    checkpoint: Mapping[str, Any] | None = field(default=None)

    @property
    def script(self) -> Path:
        """The official script that is run."""
        return self.patched.code_dir / f"{self.kind}.py"

    @property
    def device(self) -> str:
        """The torch device. Without the patch `device` it is written into the code."""
        return str(self.config.get("device", "cuda:0"))

    def lines(self) -> list[str]:
        """The plan, to be read."""
        names = [name for name, _ in self.patched.patches]
        rows = [
            ("code", f"{self.checkout.label}, {self.checkout.source}: {self.checkout.root}"),
            ("patches", ", ".join(names) or "none"),
            ("patched copy", str(self.patched.root)),
            ("presets", ", ".join(f"{preset.name} ({preset.title})" for preset in self.presets) or "none"),
            (
                "overrides",
                " ".join(hydra_word(key, value) for key, value in self.overrides.items()) or "none",
            ),
            ("task, seed", f"{self.config['task']}, {self.config['seed']}"),
            ("device", self.device),
            ("threads", f"{self.threads[0]} ({self.threads[1]})"),
            (
                "environment",
                " ".join(f"{key}={value}" for key, value in self.environment.items()) or "as it is",
            ),
            ("folder", str(self.folder)),
            ("runs", shlex.join([str(self.script), *self.hydra])),
        ]
        return [f"{name:<13} {text}" for name, text in rows] + [f"note: {note}" for note in self.notes]


def training(given: Sequence[str], *, allow_local_changes: bool = False, cwd: Path) -> Plan:
    """The plan of one training run."""
    return _Planner("train", given, cwd, allow_local_changes).plan()


def training_sweep(given: Sequence[str], *, allow_local_changes: bool = False, cwd: Path) -> list[Plan]:
    """The plans of a sweep such as `seed=1,2,3 lr=1e-3,3e-4`: one for each combination, to be run in turn.

    Swept settings other than task and seed become part of exp_name, so that each run has its own folder.
    """
    asked = words.read(given)
    choices = [swept(word) for word in asked.hydra]
    own = [f"{key}={value}" for key, value in asked.own.items()]
    plans = []
    for combination in itertools.product(*choices):
        varied = [
            word for word, options in zip(combination, choices, strict=True)
            if len(options) > 1 and word.partition("=")[0] not in ("task", "seed", "exp_name")
        ]  # fmt: skip
        planner = _Planner(
            "train",
            [*own, *combination],
            cwd,
            allow_local_changes,
            "".join(f",{word.replace(chr(47), chr(95))}" for word in varied),
        )
        plans.append(planner.plan())
    folders = [plan.folder for plan in plans]
    if len(set(folders)) < len(folders):
        raise UserError("several runs of the sweep would have the same folder.", "leave exp_name= away")
    return plans


def swept(word: str) -> list[str]:
    """The words that a word with a sweep stands for; the word itself if it sweeps over nothing."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    override = hydra_says(lambda: OverridesParser.create().parse_override(word))
    if not override.is_sweep_override():
        return [word]
    key = word.partition("=")[0]
    return [f"{key}={value}" for value in hydra_says(lambda: list(override.sweep_string_iterator()))]


def evaluation(
    given: Sequence[str], *, allow_local_changes: bool = False, trust_checkpoint: bool = False, cwd: Path
) -> Plan:
    """The plan of an evaluation. A checkpoint in a run's folder brings that run's settings."""
    return _Evaluation("evaluate", given, cwd, allow_local_changes, trust_checkpoint=trust_checkpoint).plan()


class _Planner:
    """Takes the decisions one after another; each method needs those before it."""

    def __init__(
        self, kind: str, given: Sequence[str], cwd: Path, allow_local_changes: bool, suffix: str = ""
    ):
        self.kind = kind
        self.words = words.read(given)
        self.cwd = cwd.resolve()
        self.allow_local_changes = allow_local_changes
        self.suffix = suffix
        flags = ["--allow-local-changes"] if allow_local_changes else []
        self.command = shlex.join(["tdmpc2-lean", kind, *flags, *given])
        self.notes: list[str] = []
        self.inherited: dict[str, Any] = {}

    def plan(self) -> Plan:
        # First all that needs neither code nor simulator, so that a misspelt word is told at once.
        self.presets = self.chosen_presets()
        number, why = threads.chosen(self.words.own.get("threads"), dict(os.environ))
        overwrite = self.words.flag("overwrite")
        self.checkout = find_checkout(
            "tdmpc2", self.words.own.get("upstream") or None, allow_local_changes=self.allow_local_changes
        )
        self.patched = materialise(self.checkout, self.patch_names())
        self.check_settings()
        chosen, hydra = self.hydra_words()
        config = composed(self.patched.code_dir, hydra)
        self.check_config(config)
        dm_control.check(str(config["task"]), self.patched.code_dir)
        dmcontrol = dm_control.is_dmcontrol(str(config["task"]), self.patched.code_dir)
        self.check_seeding(config, dmcontrol)
        draws = rendering.is_needed(self.kind, config)
        plan = Plan(
            kind=self.kind,
            command=self.command,
            cwd=self.cwd,
            checkout=self.checkout,
            patched=self.patched,
            presets=self.presets,
            hydra=tuple(hydra),
            config=config,
            overrides={key: config[key] for key in chosen if key in config},
            folder=self.folder(config),
            overwrite=overwrite,
            threads=(number, why),
            environment=dict.fromkeys(threads.VARIABLES, str(number))
            | rendering.variable(draws, dmcontrol, os.environ),
            draws=draws,
            probe="dm_control.suite" if dmcontrol else None,
        )
        plan = replace(
            plan,
            hydra=(*plan.hydra, *self.run_dir(plan)),
            notes=tuple(self.notes),
            checkpoint=self.checkpoint_record(),
        )
        check_folder(plan.folder, plan.overwrite)
        self.check_device(plan)
        return plan

    # -------------------------------------------------------------------------- what is asked for

    def chosen_presets(self) -> tuple[Preset, ...]:
        names = self.words.listed("lean") or self.default_presets()
        return tuple(presets.find(name) for name in names)

    def default_presets(self) -> tuple[str, ...]:
        return ("default",)

    def patch_names(self) -> list[str] | None:
        """None for the whole series."""
        word = self.words.own.get("patches", "all")
        if word == "all":
            return None
        return [] if word == "none" else list(self.words.listed("patches"))

    def check_settings(self) -> None:
        known = official_settings(self.patched.code_dir)
        missing = settings_of_absent_patches(self.patched)
        known -= set(missing)
        for preset in self.presets:
            words.check_keys(preset.keys(), known, missing, f"preset {preset.name!r}: ")
        words.check_keys([word.partition("=")[0] for word in self.words.hydra], known, missing)

    def hydra_words(self) -> tuple[list[str], list[str]]:
        """(settings that are given a value, words for Hydra): presets first, then the user's, who wins."""
        given = self.words.settings()
        defaults = composed(self.patched.code_dir, [])
        preset_values = presets.compose(self.presets, defaults)
        values = self.inherited | preset_values
        values = {key: value for key, value in values.items() if key not in given}
        ours = {
            key: value for key, value in self.own_defaults().items() if key not in given and key not in values
        }
        hydra = [hydra_word(key, value) for key, value in (ours | values).items()]
        return list(dict.fromkeys([*values, *given])), [*hydra, *self.words.hydra]

    def own_defaults(self) -> dict[str, Any]:
        """Where our default differs from the official one. Naming a W&B project asks for W&B."""
        name = "+".join(preset.name for preset in self.presets) + self.suffix
        asks_for_wandb = {"wandb_project", "wandb_entity"} & set(self.words.settings())
        return {"exp_name": name} | ({} if asks_for_wandb else {"enable_wandb": False})

    # --------------------------------------------------------------------------- what is resolved

    def check_config(self, config: Mapping[str, Any]) -> None:
        from importlib.util import find_spec

        if self.kind == "train" and config.get("enable_wandb"):
            absent = [key for key in ("wandb_project", "wandb_entity") if is_missing(config.get(key))]
            if absent:
                raise UserError(
                    f"enable_wandb=true needs {' and '.join(absent)}.",
                    "add " + " ".join(f"{key}=…" for key in absent),
                )
            if find_spec("wandb") is None:
                raise UserError("W&B is asked for, and wandb is not installed.", "pip install wandb")
        videos = ("save_video",) if self.kind == "evaluate" else ("save_video_files",)
        if any(config.get(key) for key in videos) and find_spec("imageio_ffmpeg") is None:
            raise UserError(f"{videos[0]}=true needs imageio-ffmpeg.", "pip install imageio-ffmpeg")

    def check_seeding(self, config: Mapping[str, Any], dmcontrol: bool) -> None:
        seed_steps = config.get("seed_steps")
        if self.kind != "train" or isinstance(seed_steps, bool) or not isinstance(seed_steps, int):
            return
        if dmcontrol and seed_steps < dm_control.EPISODE_OF_DMCONTROL:
            raise UserError(
                f"seed_steps={seed_steps} is less than an episode of {dm_control.EPISODE_OF_DMCONTROL} steps, "
                "and the replay buffer samples from whole episodes.",
                f"write seed_steps={dm_control.EPISODE_OF_DMCONTROL} or more",
            )
        steps = config.get("steps")
        if isinstance(steps, int) and seed_steps > steps:
            self.notes.append(
                f"seed_steps={seed_steps} exceeds steps={steps}: the agent will not be trained at all"
            )

    def folder(self, config: Mapping[str, Any]) -> Path:
        """The official code's own work_dir."""
        logs = self.cwd / "logs"
        folder = logs / str(config["task"]) / str(config["seed"]) / str(config["exp_name"])
        if ".." in folder.relative_to(logs).parts or not str(config["exp_name"]).strip():
            raise UserError(
                f"exp_name={config['exp_name']!r} is no name of a folder.", "choose another exp_name="
            )
        return folder

    def run_dir(self, plan: Plan) -> list[str]:
        if any(word.lstrip("+").startswith("hydra.run.dir=") for word in self.words.hydra):
            return []
        return [hydra_word("hydra.run.dir", plan.folder / "hydra")]

    def check_device(self, plan: Plan) -> None:
        """UserError if the device is a CUDA device that is not there. Nothing is used in its place."""
        if plan.device.partition(":")[0] != "cuda":
            return
        import torch

        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        index = plan.device.partition(":")[2]
        if count and (not index.isdigit() or int(index) < count):
            return
        if "device" not in plan.config:
            raise UserError(
                "torch finds no CUDA device, and without the patch 'device' the code runs on nothing else.",
                "leave patches= away, or name the patch device in it, and add device=cpu",
            )
        if count:
            raise UserError(
                f"device={plan.device} is not there: torch finds {count} CUDA device(s).",
                "write device=cuda:0",
            )
        raise UserError(
            f"torch finds no CUDA device here, and the run is to use device={plan.device}"
            + ("." if "device" in plan.overrides else ", the official default."),
            "add device=cpu (compile=false starts sooner; lean=smoke is a budget for CPUs)",
        )

    def checkpoint_record(self) -> dict[str, Any] | None:
        return None


class _Evaluation(_Planner):
    """An evaluation's plan: where settings, code and patches come from the run that made the checkpoint."""

    def __init__(self, *arguments, trust_checkpoint: bool):
        super().__init__(*arguments)
        self.trusted = trust_checkpoint
        if trust_checkpoint:
            self.command = self.command.replace("evaluate", "evaluate --trust-checkpoint", 1)
        path = self.words.settings().get("checkpoint")
        if not path:
            raise UserError(
                "which checkpoint?", "add checkpoint=PATH, such as logs/cheetah-run/1/fast/models/final.pt"
            )
        self.checkpoint = (self.cwd / Path(path.strip("'\"")).expanduser()).resolve()
        if not self.checkpoint.is_file():
            raise UserError(
                f"there is no checkpoint {self.checkpoint}.{self.others()}", "name another checkpoint="
            )
        self.words = replace(
            self.words,
            hydra=tuple(word for word in self.words.hydra if word.partition("=")[0] != "checkpoint"),
        )
        self.training_run = run_of(self.checkpoint)
        if self.training_run is not None:
            self.inherit(self.training_run)

    def others(self) -> str:
        """A hint at the checkpoints that are in that folder."""
        folder = self.checkpoint.parent
        names = [path.name for path in folder.glob("*.pt")] if folder.is_dir() else []
        return did_you_mean(self.checkpoint.name, names) or (
            f" There: {', '.join(sorted(names))}." if names else ""
        )

    def inherit(self, run: dict[str, Any]) -> None:
        taken = {key: value for key, value in run["overrides"].items() if key not in NOT_FOR_EVALUATION}
        self.inherited = {"task": run["task"], "seed": run["seed"]} | taken
        said = [hydra_word(key, value) for key, value in self.inherited.items()]
        self.notes.append("settings taken from the run that made the checkpoint: " + " ".join(said))
        code = run["upstream"]
        if not self.words.own.get("upstream"):
            where = "miniature" if code["upstream"] == "miniature" else code["commit"]
            if where:
                self.words = replace(self.words, own={**self.words.own, "upstream": where})
            if code["local_changes"]:
                self.notes.append("the run's code had local changes, which this evaluation does not have")

    def default_presets(self) -> tuple[str, ...]:
        return ()

    def patch_names(self) -> list[str] | None:
        names = super().patch_names()
        if not self.trusted:
            return names
        from tdmpc2_lean import patching

        if names is None:
            names = [patch.name for patch in patching.read_series(self.checkout.upstream).patches]
        return [name for name in names if name != SAFE_LOAD]

    def check_settings(self) -> None:
        super().check_settings()
        known = official_settings(self.patched.code_dir)
        self.inherited = {key: value for key, value in self.inherited.items() if key in known}
        names = [name for name, _ in self.patched.patches]
        if SAFE_LOAD not in names:
            self.notes.append("loading the checkpoint may execute code that it contains")

    def own_defaults(self) -> dict[str, Any]:
        return {"save_video": False, "checkpoint": str(self.checkpoint), "exp_name": "evaluation-0"}

    def folder(self, config: Mapping[str, Any]) -> Path:
        folder = super().folder(config)
        if "exp_name" in self.words.settings():
            return folder
        return next(
            path
            for path in (folder.with_name(f"evaluation-{number}") for number in itertools.count(1))
            if not path.exists()
        )

    def run_dir(self, plan: Plan) -> list[str]:
        return [hydra_word("exp_name", plan.folder.name), *super().run_dir(plan)]

    def checkpoint_record(self) -> dict[str, Any]:
        import hashlib

        with open(self.checkpoint, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"path": str(self.checkpoint), "sha256": digest, "trusted": self.trusted}


def run_of(checkpoint: Path) -> dict[str, Any] | None:
    """The record of the training run in whose folder the checkpoint lies, if it is one of ours."""
    for folder in (checkpoint.parent.parent, checkpoint.parent):
        if (folder / record.FILE).is_file():
            found = record.read(folder)
            return found if found["kind"] == "train" else None
    return None


def check_folder(folder: Path, overwrite: bool) -> None:
    """UserError if a run is in the folder already, unless it is to be overwritten and has ended."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not folder.is_dir():
        raise UserError(f"{folder} is a file.", "choose another exp_name=")
    earlier = record.read(folder) if (folder / record.FILE).is_file() else None
    if earlier is not None and record.is_alive(earlier):
        raise UserError(
            f"a run is going on in {folder} (process {earlier['pid']} on {earlier['host']}).",
            "choose another exp_name=, or stop that run first",
        )
    if not overwrite:
        what = f"a run ({earlier['state']}, started {earlier['started']})" if earlier else "files"
        raise UserError(
            f"{folder} already holds {what}; nothing was touched.",
            "choose another exp_name=, or write overwrite=true to replace it",
        )
    if earlier is None and not (folder / "eval.csv").exists() and not (folder / "models").is_dir():
        raise UserError(
            f"{folder} holds files that are no run's; they are not replaced.", "choose another exp_name="
        )


def official_settings(code_dir: Path) -> set[str]:
    """The names in config.yaml."""
    from omegaconf import OmegaConf

    return set(OmegaConf.load(code_dir / "config.yaml")) - {"defaults"}


def settings_of_absent_patches(patched: Patched) -> dict[str, str]:
    """{setting: patch} for the settings that the patches left out would have added."""
    from omegaconf import OmegaConf

    from tdmpc2_lean import patching

    applied = {name for name, _ in patched.patches}
    absent = [
        patch
        for patch in patching.read_series(patched.checkout.upstream).patches
        if patch.name not in applied
    ]
    found = {}
    for patch in absent:
        for edit in patch.edits:
            if edit.file.endswith("config.yaml") and edit.snippet is not None:
                found.update(dict.fromkeys(map(str, OmegaConf.create(edit.snippet.text)), patch.name))
    names = {patch.name for patch in absent}
    return found | {key: name for key, name in PATCH_OF_OFFICIAL_SETTING.items() if name in names}


def composed(code_dir: Path, hydra: Sequence[str]) -> dict[str, Any]:
    """The configuration that Hydra makes of the words; what is missing is '???'."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    def compose_here() -> dict[str, Any]:
        with initialize_config_dir(config_dir=str(code_dir), version_base=None):
            return OmegaConf.to_container(compose("config", overrides=list(hydra)))

    return hydra_says(compose_here)


def hydra_says(call):
    """The result of a call of Hydra's, whose refusals become a UserError in its own words."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    try:
        return call()
    except (HydraException, OmegaConfBaseException) as error:
        told = " ".join(str(error).split())
        if "submitit" in told:
            raise UserError(
                f"Hydra: {told}", f"{sys.executable} -m pip install hydra-submitit-launcher"
            ) from None
        if "sweep" in told.lower():
            raise UserError(f"Hydra: {told}", "add --multirun to run all combinations in turn") from None
        raise UserError(
            f"Hydra: {told}", "quote what Hydra's grammar takes for its own, as in key=\"'text'\""
        ) from None


def is_missing(value: Any) -> bool:
    return value in (None, "???", "none", "")
