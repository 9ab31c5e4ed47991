"""Words of `dreamer-bridge train` become a plan: every decision about a run, taken and checked before it starts."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dreamer_bridge import arms, checkpoints, checks, config, cores, curve, schema, settings
from dreamer_bridge.layers import OFFICIAL, Layers
from dreamer_bridge.ratio import Ratio
from tdmpc2_lean import environments, patching
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean
from tdmpc2_lean.patched import materialise
from tdmpc2_lean.runs import presets, threads, words
from tdmpc2_lean.runs.plan import TRAIN, Plan, Request
from tdmpc2_lean.runs.presets import Preset, Shelf
from tdmpc2_lean.runs.record import Device, LoadedCheckpoint, Threads
from tdmpc2_lean.runs.specification import Specification
from tdmpc2_lean.upstreams import find_checkout

DREAMERV3 = "dreamerv3"
# Words that `train` takes for itself, besides the official keys.
OWN_WORDS = (
    "task", "size", "seed", "lean", "arm", "rep", "chunk", "upstream", "patches", "threads", "exp_name", "overwrite",
)  # fmt: skip
# Of a preset's overrides, those that are no official keys.
PRESET_WORDS = ("size", "chunk")
# Official keys that do not name a run: with another budget it is the same run, which goes on.
NOT_IN_THE_NAME = ("run.steps",)
FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,+=-]*")


class DreamerPlanner:
    """Takes the decisions one after another; each method needs those before it."""

    kind = TRAIN
    own_words: Sequence[str] = OWN_WORDS

    def __init__(self, request: Request, shelf: Shelf):
        self.request, self.shelf = request, shelf
        self.words = words.read(request.words, self.own_words)
        self.cwd = request.cwd.resolve()
        self.notes: list[str] = []

    def plan(self) -> Plan:
        self.decide_what_is_asked()
        self.find_code()
        layers = self.layers()
        checks.platform(layers)
        self.folder, self.code_folder = self.folders(layers)
        layers, found = self.resolved(layers)
        self.check(layers, found)
        checkpoint = self.checkpoint_record(found)
        threads_, device, environment = self.surroundings(found)
        specification = self.specification(layers, found)
        launch = self.launch(layers, found, threads_)
        return Plan(
            kind=self.kind,
            specification=specification,
            command=self.command(),
            cwd=self.request.folder or self.cwd,
            checkout=self.checkout,
            patched=self.patched,
            presets=self.presets,
            configured=config.flat(found),
            folder=self.folder,
            code_folder=self.code_folder,
            overwrite=self.overwrite,
            threads=threads_,
            device=device,
            compile=True,
            environment=environment,
            launch=launch,
            rows=self.rows(layers, found, specification, threads_, environment, launch["flags"]),
            notes=tuple(self.notes),
            details=self.details(layers, found, environment, launch["flags"]),
            checkpoint=checkpoint,
            fixed=self.request.fixed,
            preset_settings=self.request.preset_settings,
        )

    # ------------------------------------------------------------------------------------ what is asked for

    def decide_what_is_asked(self) -> None:
        """First all that needs neither code nor simulator, so that a misspelt word is told at once."""
        own = self.words.own
        self.seed = self.chosen_seed()
        self.arm = arms.chosen(own.get("arm"), own.get("rep"))
        names = self.words.listed("lean") or self.default_presets()
        self.presets: tuple[Preset, ...] = tuple(map(self.shelf.find, names))
        self.threads, self.why_threads = threads.chosen(own.get("threads"), dict(os.environ))
        self.overwrite = self.words.flag("overwrite")
        self.more_configs, self.flags = config.split_configs(self.request.flags)
        self.task = self.chosen_task()

    def chosen_seed(self) -> int:
        return whole_number(self.words.own.get("seed", "0"), "seed", 0)

    def chosen_task(self) -> str:
        if "task" not in self.words.own:
            raise UserError("which task?", "add task=DOMAIN-TASK, such as task=cartpole-balance")
        return environments.find(DREAMERV3, self.words.own["task"], None).task

    def default_presets(self) -> tuple[str, ...]:
        return () if self.request.fixed else ("default",)

    def find_code(self) -> None:
        where = self.chosen_code()
        self.checkout = find_checkout(DREAMERV3, where, allow_local_changes=self.request.allow_local_changes)
        if self.checkout.upstream != DREAMERV3:
            raise UserError(f"{where} is no code of DreamerV3.", "tdmpc2-lean train is for the other one")
        self.patched = materialise(self.checkout, self.patch_names())
        self.applied = patching.read_series(DREAMERV3).closure(name for name, _ in self.patched.patches)
        self.document = config.read(self.patched.code_dir)
        self.known = config.keys(self.document)
        # Whether this checkout has the task's suite, and what simulates it.
        self.environment = environments.find(DREAMERV3, self.task, self.patched.code_dir)

    def chosen_code(self) -> str | None:
        return self.words.own.get("upstream") or None

    def patch_names(self) -> list[str] | None:
        """None for the whole series."""
        word = self.words.own.get("patches", "all")
        return None if word == "all" else [] if word == "none" else list(self.words.listed("patches"))

    def layers(self) -> Layers:
        """Who sets what. Decides size and chunk too, which presets may name."""
        given = self.official_words()
        for preset in self.presets:
            self.check_keys(preset.keys(), PRESET_WORDS, f"preset {preset.name!r}: ")
        values = presets.compose(self.presets, config.flat(self.document[config.DEFAULTS]))
        of_presets = {key: value for key, value in values.items() if key not in PRESET_WORDS}
        self.chunk = self.chosen_chunk(values.get("chunk", curve.CHUNK))
        size = self.words.own.get("size") or values.get("size")
        layers = Layers(
            configs=self.configs(size),
            bridge={},
            run=self.settings_of_the_run(),
            presets=of_presets,
            words=given,
            flags=tuple(self.flags),
        )
        bridge, lacking = self.bridge_settings(layers)
        if lacking:
            self.notes.append(f"left out: {', '.join(lacking)}; the bridge cannot set what those patches add")
        return self.with_arm(replace(layers, bridge=bridge))

    def configs(self, size: str | None) -> tuple[str, ...]:
        """The official configs, by name."""
        return (OFFICIAL, *([str(size)] if size else []), *self.more_configs)

    def chosen_chunk(self, default: Any) -> int:
        return whole_number(self.words.own.get("chunk") or str(default), "chunk", 1)

    def settings_of_the_run(self) -> dict[str, Any]:
        """Those of the run that made a checkpoint, where one is evaluated."""
        return {}

    def bridge_settings(self, layers: Layers) -> tuple[dict[str, Any], list[str]]:
        """(the bridge's own settings, patches without which some of them cannot be made)."""
        said = layers.said("jax.platform")
        on_cpu = said == "cpu" if said else not settings.has_accelerator()
        return settings.own(self.known, self.seed, on_cpu, self.environment.source is not None)

    def with_arm(self, layers: Layers) -> Layers:
        """The layers with what the arm sets, which depends on the official loss scales."""
        self.check_types(layers)
        before = config.resolved(self.document, layers.configs, layers.settings_as_flags())
        of_arm = self.arm.settings(before["agent"]["loss_scales"])
        if of_arm and any(key in layers.words or mentions(layers.flags, key) for key in of_arm):
            raise UserError(f"arm={self.arm.name} and a setting of {' or '.join(of_arm)}.", "leave one of both away")
        if self.arm.dyn is not None and not self.arm.alike:
            self.notes.append(f"arm={self.arm.name}: {arms.CAVEAT}")
        return replace(layers, arm=of_arm)

    def check_types(self, layers: Layers) -> None:
        """UserError for presets' and words' values that are not of their setting's type."""
        schema.check_written(self.document, self.applied, {**layers.presets, **layers.words})

    def official_words(self) -> dict[str, str]:
        """The official keys among the words: {key: value as written}."""
        pairs = dict(word.partition("=")[::2] for word in self.words.hydra)
        self.check_keys(pairs, self.own_words)
        taken = [key for key in pairs if key in ("logdir", "configs")]
        if taken:
            raise UserError(
                f"{taken[0]}= is decided by the bridge.", "exp_name= names the run, size= and lean= configure it"
            )
        return pairs

    def check_keys(self, keys: Sequence[str], more: Sequence[str], whose: str = "") -> None:
        """UserError, with the nearest right one, for a key that is none of the official ones. more: besides them."""
        for key in keys:
            if key not in self.known and key not in more and re.fullmatch(r"[A-Za-z0-9_.-]+", key):
                raise UserError(
                    f"{whose}there is no setting {key!r}.{did_you_mean(key, {*self.known, *more})}",
                    f"dreamer-bridge {self.kind} --help; official keys are those of dreamerv3/configs.yaml",
                )

    # ------------------------------------------------------------------------------------- what is resolved

    def folders(self, layers: Layers) -> tuple[Path, Path]:
        """(the run's folder, the official code's own)."""
        if self.request.folder:
            return self.request.folder, self.request.folder / "logs"
        name = self.words.own.get("exp_name") or self.experiment(layers.words)
        if not FOLDER_NAME.fullmatch(name):
            raise UserError(f"exp_name={name!r} is no name of a folder.", "choose another exp_name=")
        folder = self.cwd / "logs" / self.task / str(self.seed) / name
        return folder, folder

    def experiment(self, given: Mapping[str, str]) -> str:
        """The run's name: its presets, and what tells it from others of the same presets."""
        own = self.words.own
        varied = [f"{key}={own[key]}" for key in ("size", "arm", "rep") if own.get(key) not in (None, "full", "keep")]
        varied += [f"{key}={value}" for key, value in given.items() if key not in NOT_IN_THE_NAME]
        # Of a sweep, what is varied and not said yet, such as the budget.
        varied += [part for part in self.request.name_suffix.split(",") if part and part not in varied]
        text = ",".join(["+".join(preset.name for preset in self.presets), *varied])
        # Flags may hold anything: their order and values stay in run.json, and the user names the folder.
        return re.sub(r"[^A-Za-z0-9_.,+=-]", "_", text)

    def decided(self) -> dict[str, str]:
        """The official settings that the bridge decides."""
        return {"task": self.task, "logdir": str(self.code_folder)}

    def resolved(self, layers: Layers) -> tuple[Layers, dict[str, Any]]:
        """(the layers, the nested configuration that they make); without exact resumption where it is impossible."""
        found = layers.resolved(self.document, self.decided())
        obstacles = settings.obstacles_to_resuming(found)
        if not obstacles:
            return layers, found
        if found["run"].get("resume_exact"):
            layers = replace(layers, bridge={**layers.bridge, "run.resume_exact": False})
            found = layers.resolved(self.document, self.decided())
            if found["run"]["resume_exact"]:  # by a preset, a word or a flag
                raise UserError(
                    f"run.resume_exact=True, and {', '.join(obstacles)}: such a run cannot be resumed to the same "
                    "bits.",
                    "leave one of both away",
                )
        self.say_obstacles(obstacles)
        return layers, found

    def say_obstacles(self, obstacles: Sequence[str]) -> None:
        self.notes.append(
            f"{', '.join(obstacles)}: resumed after a stop, the run is another than one that was not stopped"
        )

    def check(self, layers: Layers, found: Mapping[str, Any]) -> None:
        """UserError for a configuration with which there is no run, or not the one that the plan says."""
        checks.decided(found, {**self.decided(), "seed": self.seed})
        self.check_ranges(layers, found)
        self.notes += checks.script(found)
        repeat = checks.repeat_of(self.task, found)
        if self.chunk % repeat:
            raise UserError(f"a chunk of {self.chunk} env steps at action repeat {repeat}.", "give a multiple of it")
        checks.environments(self.checkout, found)

    def check_ranges(self, layers: Layers, found: Mapping[str, Any]) -> None:
        schema.check(
            self.document, self.applied, found,
            words=layers.words, preset_values=layers.presets, presets=self.presets,
        )  # fmt: skip

    def checkpoint_record(self, found: Mapping[str, Any]) -> LoadedCheckpoint | None:
        """The checkpoint that the run starts from."""
        written = found["run"].get("from_checkpoint")
        return checkpoints.starting_point(written, self.cwd, self.request.trust_checkpoint) if written else None

    def surroundings(self, found: Mapping[str, Any]) -> tuple[Threads, Device, dict[str, str]]:
        """(threads and cores, device, variables that the child gets). UserError if the environment cannot be made."""
        platform = str(found["jax"]["platform"])
        bound = tuple(cores.chosen(self.threads)) if platform == "cpu" else ()
        draws = found["env"]["dmc"]["image"] or found["env"]["dmc"].get("log_image", True)
        drawn = environments.backend(self.environment.source, bool(draws), os.environ)
        if drawn.note:
            self.notes.append(drawn.note)
        broken = self.environment.probe(drawn.variables)
        if broken is not None:
            raise broken
        variables = dict.fromkeys(threads.VARIABLES, str(self.threads))
        variables |= settings.compile_cache(os.environ) | dict(drawn.variables)
        return Threads(number=self.threads, why=self.why_threads, cores=bound), Device(kind=platform), variables

    # ------------------------------------------------------------------------------------- what the plan says

    def command(self) -> str:
        """The command line that makes this run."""
        options = ["--allow-local-changes"] if self.request.allow_local_changes else []
        options += ["--trust-checkpoint"] if self.request.trust_checkpoint else []
        flags = ["--", *self.request.flags] if self.request.flags else []
        return shlex.join(["dreamer-bridge", self.kind, *options, *self.request.words, *flags])

    def specification(self, layers: Layers, found: Mapping[str, Any]) -> Specification:
        return Specification(
            upstream=DREAMERV3,
            source=self.environment.suite,
            tasks=(self.task,),
            arm=self.arm_name(),
            presets=tuple(map(presets.use_of, self.presets)),
            seed=self.seed,
            agent_steps=int(found["run"]["steps"]),
            action_repeat=checks.repeat_of(self.task, found),
            chunk=self.chunk,
            overrides=layers.overrides,
            protocol=self.request.fixed.name if self.request.fixed else None,
        )

    def arm_name(self) -> str:
        return self.arm.name + (", rep=alike" if self.arm.alike else "")

    def launch(self, layers: Layers, found: Mapping[str, Any], chosen: Threads) -> dict[str, Any]:
        """What the child is told, see `adapter`."""
        return {
            "script": str(self.patched.code_dir / "dreamerv3" / "main.py"),
            "flags": layers.official(self.decided()),
            "cores": list(chosen.cores),
            "scales": dict(found["agent"]["loss_scales"]),
            "trust": self.request.trust_checkpoint,
            "capacity": found["replay"]["size"],
        }

    def details(
        self, layers: Layers, found: Mapping[str, Any], environment: Mapping[str, str], flags: Sequence[str]
    ) -> dict[str, Any]:
        cache = environment["JAX_COMPILATION_CACHE_DIR"]
        return {
            "flags": list(flags),
            "configs": list(layers.configs),
            "loss_scales": dict(found["agent"]["loss_scales"]),
            "updates_per_agent_step": self.ratio(found).per_agent_step,
            "compile_cache": {"folder": cache, "entries_before": settings.entries(cache)},
        }

    def ratio(self, found: Mapping[str, Any]) -> Ratio:
        """How many updates are made."""
        repeat = checks.repeat_of(self.task, found)
        return Ratio(found["run"]["train_ratio"], found["batch_size"], found["batch_length"], repeat)

    def rows(
        self, layers: Layers, found: Mapping[str, Any], what: Specification, chosen: Threads,
        environment: Mapping[str, str], flags: Sequence[str],
    ) -> tuple[tuple[str, str], ...]:  # fmt: skip
        """The plan, to be read."""
        return (
            ("code", f"{self.checkout.label}, {self.checkout.source}: {self.checkout.root}"),
            ("patches", ", ".join(name for name, _ in self.patched.patches) or "none"),
            ("patched copy", str(self.patched.root)),
            ("presets", ", ".join(f"{preset.name} ({preset.title})" for preset in self.presets) or "none"),
            ("configs", " ".join(layers.configs)),
            ("task, seed", f"{what.task}, {what.seed}"),
            *self.rows_of_its_kind(what, found),
            ("platform", f"{found['jax']['platform']}, {found['jax']['compute_dtype']}"),
            ("cores", f"{chosen.number} ({chosen.why}); another number gives other bits"),
            ("environment", " ".join(f"{key}={value}" for key, value in environment.items())),
            ("folder", str(self.folder)),
            ("runs", shlex.join([str(self.patched.code_dir / "dreamerv3" / "main.py"), *flags])),
        )

    def rows_of_its_kind(self, what: Specification, found: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        scales = found["agent"]["loss_scales"].items()
        return (
            ("budget", f"{what.agent_steps:,} agent steps = {what.env_steps:,} env steps"),
            ("updates", self.ratio(found).line()),
            ("arm", f"{what.arm}; loss scales " + " ".join(f"{key}={value:g}" for key, value in scales)),
        )


def whole_number(text: str, name: str, least: int) -> int:
    """The whole number that a word gives. UserError for another text, or one below `least`."""
    try:
        number = int(text.replace("_", ""))
    except ValueError:
        number = least - 1
    if number < least:
        raise UserError(f"{name}={text} is no whole number from {least} on.", f"write {name}={max(least, 1)}")
    return number


def mentions(flags: Sequence[str], key: str) -> bool:
    """Whether official flags give a key a value."""
    return any(flag.partition("=")[0].removeprefix("--") == key for flag in flags if flag.startswith("--"))
