"""Words of `tdmpc2-lean train` become a plan: every decision about a run, taken and checked before it starts."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tdmpc2_lean import environments, patching
from tdmpc2_lean.environments import Environment, rendering
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.patched import materialise
from tdmpc2_lean.runs import presets, threads, words
from tdmpc2_lean.runs.plan import TRAIN, Plan, Request
from tdmpc2_lean.runs.presets import Preset, Shelf
from tdmpc2_lean.runs.record import Device, LoadedCheckpoint, Threads, faults_of
from tdmpc2_lean.runs.specification import Specification
from tdmpc2_lean.runs.words import hydra_word
from tdmpc2_lean.settings import given_by
from tdmpc2_lean.settings import tdmpc2 as settings
from tdmpc2_lean.tdmpc2.configuration import composed, is_missing, official_settings, settings_of_absent_patches
from tdmpc2_lean.upstreams import find_checkout

UPSTREAM = "tdmpc2"
CHECKPOINT = "checkpoint"  # the patch by which a run can go on, and its setting checkpoint_minutes
CHECKPOINT_MINUTES = 2
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,+=-]*")


class Planner:
    """Takes the decisions one after another; each method needs those before it."""

    kind = TRAIN

    def __init__(self, request: Request, shelf: Shelf):
        self.request, self.shelf = request, shelf
        self.words = words.read([as_text(word) for word in request.words])
        self.cwd = request.cwd.resolve()
        flags = ["--allow-local-changes"] if request.allow_local_changes else []
        self.command = shlex.join(["tdmpc2-lean", self.kind, *flags, *request.words])
        self.notes: list[str] = []
        self.inherited: dict[str, Any] = {}

    def plan(self) -> Plan:
        # First all that needs neither code nor simulator, so that a misspelt word is told at once.
        self.presets = self.chosen_presets()
        number, why = threads.chosen(self.words.own.get("threads"), dict(os.environ))
        overwrite = self.words.flag("overwrite")
        self.checkout = find_checkout(
            UPSTREAM, self.words.own.get("upstream") or None, allow_local_changes=self.request.allow_local_changes
        )
        self.patched = materialise(self.checkout, self.patch_names())
        self.check_settings()
        chosen, hydra = self.hydra_words()
        config = composed(self.patched.code_dir, hydra)
        self.check_config(config)
        self.environment = self.found_environment(config, hydra)
        self.check_data(config)
        minutes = self.checkpoint_minutes(config, chosen)
        hydra += [hydra_word(key, value) for key, value in minutes.items()]
        config |= minutes
        self.check_settings_values(config)
        draws = rendering.is_needed(self.kind, config)
        variables = self.variables(draws)
        known = settings.effective(config)
        code_folder = self.code_folder(config)
        folder = self.request.folder or code_folder
        hydra += self.run_dir(folder)
        repeat = self.environment.action_repeat or 1
        every = known.get("eval_freq")
        overrides = {key: config[key] for key in chosen if key in config}
        plan = Plan(
            kind=self.kind,
            specification=specified(
                upstream=UPSTREAM,
                source=self.environment.suite,
                tasks=(self.environment.task,),
                presets=tuple(map(presets.use_of, self.presets)),
                seed=known["seed"],
                agent_steps=known["steps"],
                action_repeat=repeat,
                chunk=max(1, every if isinstance(every, int) else 1) * repeat,
                overrides=overrides,
                protocol=self.request.fixed.name if self.request.fixed else None,
            ),
            command=self.command,
            cwd=self.request.folder or self.cwd,
            checkout=self.checkout,
            patched=self.patched,
            presets=self.presets,
            configured=config,
            folder=folder,
            code_folder=code_folder,
            overwrite=overwrite,
            threads=Threads(number=number, why=why),
            device=Device(kind=str(config.get("device", "cuda:0"))),
            compile=config.get("compile"),
            environment=dict.fromkeys(threads.VARIABLES, str(number)) | variables,
            launch={
                "script": str(self.patched.code_dir / f"{self.kind}.py"),
                "words": hydra,
                "probe": "dm_control.suite" if self.environment.source else None,
                "draws": draws,
            },
            details={"hydra": hydra},
            checkpoint=self.checkpoint_record(),
            fixed=self.request.fixed,
            preset_settings=self.request.preset_settings,
        )
        self.check_device(plan)
        return replace(plan, rows=self.rows(plan, hydra), notes=tuple(self.notes))

    def rows(self, plan: Plan, hydra: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """The plan, to be read."""
        names = [name for name, _ in self.patched.patches]
        overrides = " ".join(hydra_word(key, value) for key, value in plan.specification.overrides.items())
        variables = " ".join(f"{key}={value}" for key, value in plan.environment.items())
        return (
            ("code", f"{self.checkout.label}, {self.checkout.source}: {self.checkout.root}"),
            ("patches", ", ".join(names) or "none"),
            ("patched copy", str(self.patched.root)),
            ("presets", ", ".join(f"{preset.name} ({preset.title})" for preset in self.presets) or "none"),
            ("overrides", overrides or "none"),
            ("task, seed", f"{plan.specification.task}, {plan.specification.seed}"),
            ("device", plan.device.kind),
            ("threads", f"{plan.threads.number} ({plan.threads.why})"),
            ("environment", variables or "as it is"),
            ("folder", str(plan.folder)),
            ("runs", shlex.join([plan.launch["script"], *hydra])),
        )

    # -------------------------------------------------------------------------- what is asked for

    def chosen_presets(self) -> tuple[Preset, ...]:
        names = self.words.listed("lean") or self.default_presets()
        return tuple(self.shelf.find(name) for name in names)

    def default_presets(self) -> tuple[str, ...]:
        return () if self.request.fixed else ("default",)

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
        if self.kind == TRAIN and "checkpoint" in self.words.settings():
            raise UserError(
                "checkpoint= is for evaluation: the official train.py does not load it, whatever it names.",
                "tdmpc2-lean evaluate checkpoint=…; a run that was stopped goes on by its own command",
            )

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
        return list(dict.fromkeys([*values, *given])), [*hydra, *map(settings.quoted, self.words.hydra)]

    def own_defaults(self) -> dict[str, Any]:
        """Where our default differs from the official one. Naming a W&B project asks for W&B."""
        name = "+".join(preset.name for preset in self.presets) + self.request.name_suffix
        asks_for_wandb = {"wandb_project", "wandb_entity"} & set(self.words.settings())
        return {"exp_name": name or "default"} | ({} if asks_for_wandb else {"enable_wandb": False})

    def checkpoint_minutes(self, config: Mapping[str, Any], chosen: Sequence[str]) -> dict[str, Any]:
        """How often the run's state is saved, where nobody has said it and the run can go on from it."""
        if self.kind != TRAIN or "checkpoint_minutes" not in config or "checkpoint_minutes" in chosen:
            return {}
        dmcontrol = self.environment.name is not None
        if not dmcontrol or config.get("obs") != "state":
            self.notes.append(
                "the run's state is not saved: stopped, it begins anew. "
                + ("checkpoint_minutes=15 saves it, with all frames of the replay" if dmcontrol else
                   "of this environment it cannot be")
            )  # fmt: skip
            return {}
        return {"checkpoint_minutes": CHECKPOINT_MINUTES}

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
        rendering.check_video(self.kind, config)

    def found_environment(self, config: dict[str, Any], hydra: list[str]) -> Environment:
        """The environment of the task, which the code is then told in its own spelling. UserError if there is none."""
        written = str(config["task"])
        found = environments.find(UPSTREAM, written, self.patched.code_dir)
        if found.task != written:
            config["task"] = found.task
            hydra.append(hydra_word("task", found.task))
        return found

    def variables(self, draws: bool) -> dict[str, str]:
        """What the environment needs of its process. UserError, before the run has a folder, if it cannot be made."""
        drawn = environments.backend(self.environment.source, draws, os.environ)
        if drawn.note:
            self.notes.append(drawn.note)
        variables = dict(drawn.variables)
        broken = self.environment.probe(variables)
        if broken is not None:
            raise broken
        return variables

    def check_data(self, config: Mapping[str, Any]) -> None:
        """UserError if a multi-task agent is to be trained, which the official code does from files, without any."""
        task = self.environment.task
        if self.kind != TRAIN or len(self.environment.members) < 2:
            return
        get = f"the data set of {task} is on https://www.tdmpc2.com/dataset; write data_dir=FOLDER"
        if is_missing(config.get("data_dir")):
            raise UserError(f"task={task} is trained on a data set, and data_dir= does not say where it is.", get)
        folder = (self.cwd / Path(str(config["data_dir"])).expanduser()).resolve()
        if not any(folder.glob("*.pt")):
            raise UserError(f"task={task} is trained on a data set, and there are no *.pt files in {folder}.", get)

    def check_settings_values(self, config: Mapping[str, Any]) -> None:
        """UserError for settings that are not of their type, or out of their range."""
        settings.check(
            patching.read_series(self.checkout.upstream).closure(name for name, _ in self.patched.patches),
            config,
            given=given_by(words.read(self.request.words).settings(), self.presets, config),
            kind=self.kind,
            episode=self.environment.agent_steps,
        )
        seed_steps = config.get("seed_steps")
        if self.kind != "train" or isinstance(seed_steps, bool) or not isinstance(seed_steps, int):
            return
        steps = config.get("steps")
        if isinstance(steps, int) and seed_steps > steps:
            self.notes.append(
                f"seed_steps={seed_steps} exceeds steps={steps}: the agent will not be trained at all"
            )

    def code_folder(self, config: Mapping[str, Any]) -> Path:
        """The official code's own work_dir."""
        name = str(config["exp_name"])
        if not PLAIN_NAME.fullmatch(name):
            raise UserError(
                f"exp_name={name!r} is no name of a folder.",
                "choose another exp_name=, of letters, digits and any of _ . , + = -, which begins with one of the "
                "first two; runs lie in logs/TASK/SEED/EXP_NAME of the folder that the command is typed in",
            )
        where = self.request.folder or self.cwd
        return where / "logs" / str(config["task"]) / str(config["seed"]) / name

    def run_dir(self, folder: Path) -> list[str]:
        if any(word.lstrip("+").startswith("hydra.run.dir=") for word in self.words.hydra):
            return []
        return [hydra_word("hydra.run.dir", folder / "hydra")]

    def check_device(self, plan: Plan) -> None:
        """UserError if the device is a CUDA device that is not there. Nothing is used in its place."""
        if plan.device.kind.partition(":")[0] != "cuda":
            return
        import torch

        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        index = plan.device.kind.partition(":")[2]
        if count and (not index.isdigit() or int(index) < count):
            return
        if "device" not in plan.configured:
            raise UserError(
                "torch finds no CUDA device, and without the patch 'device' the code runs on nothing else.",
                "leave patches= away, or name the patch device in it, and add device=cpu",
            )
        if count:
            raise UserError(
                f"device={plan.device.kind} is not there: torch finds {count} CUDA device(s).",
                "write device=cuda:0",
            )
        raise UserError(
            f"torch finds no CUDA device here, and the run is to use device={plan.device.kind}"
            + ("." if "device" in plan.specification.overrides else ", the official default."),
            "add device=cpu (compile=false starts sooner; lean=smoke is a budget for CPUs)",
        )

    def checkpoint_record(self) -> LoadedCheckpoint | None:
        return None


def specified(**fields: Any) -> Specification:
    """The specification of these fields. UserError for one that is not of its type."""
    try:
        return Specification(**fields)
    except ValidationError as error:
        told = f"the run cannot be described: {faults_of(error)}."
        raise UserError(told, "give these settings other values") from None


def as_text(word: str) -> str:
    """A word whose value is a name: `exp_name=1` means the text, which Hydra would take for a number."""
    key, equals, value = word.partition("=")
    if key.lstrip("+") == "exp_name" and equals and PLAIN_NAME.fullmatch(value) and "," not in value:
        return f"{key}={words.hydra_value(value)}"
    return word
