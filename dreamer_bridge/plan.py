"""Turns what the user wrote into a plan: every decision about a run, taken and checked before it starts."""

import hashlib
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dreamer_bridge import arms, config, cores, curve, schema, settings, tasks, trust
from dreamer_bridge.arms import Arm
from dreamer_bridge.ratio import Ratio
from tdmpc2_lean import patching
from tdmpc2_lean.environments import rendering
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean
from tdmpc2_lean.patched import Patched, materialise
from tdmpc2_lean.runs import presets, threads, words
from tdmpc2_lean.runs.plan import Plan, Request
from tdmpc2_lean.runs.presets import Preset, Shelf
from tdmpc2_lean.runs.record import Device, LoadedCheckpoint, Threads
from tdmpc2_lean.runs.specification import Specification
from tdmpc2_lean.upstreams import Checkout, find_checkout

DREAMERV3 = "dreamerv3"
# Words that this command takes for itself, besides the official keys.
OWN_WORDS = (
    "task", "size", "seed", "lean", "arm", "rep", "chunk", "upstream", "patches", "threads", "exp_name", "overwrite",
)  # fmt: skip
# Of a preset's overrides, those that are no official keys.
PRESET_WORDS = ("size", "chunk")
OFFICIAL = "dmc_proprio"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,+=-]*")
# The folder of a run's checkpoints: of the pinned code, and of release 3.3.1.
CHECKPOINTS = ("ckpt", "checkpoint.pkl")
# The official scripts that load checkpoints in the process that the bridge watches.
SCRIPTS = ("train", "train_eval", "eval_only")


def repeat_of(task: str, found: Mapping[str, Any]) -> int:
    """Env steps of an agent step, as the official logger counts them. found: the nested configuration."""
    suite = task.partition("_")[0]
    repeat = found["env"].get(suite, {}).get("repeat", 1)
    if not isinstance(repeat, int) or repeat < 1:
        raise UserError(f"env.{suite}.repeat={repeat} is no whole number from 1 on.", f"write env.{suite}.repeat=2")
    return repeat


def ratio_of(found: Mapping[str, Any], repeat: int) -> Ratio:
    """How many updates are made."""
    return Ratio(found["run"]["train_ratio"], found["batch_size"], found["batch_length"], repeat)


def training(request: Request, shelf: Shelf) -> Plan:
    """The plan of one training run."""
    given, flags = request.words, list(request.flags)
    check_flags(flags)
    asked = words.read(given, OWN_WORDS)
    own = asked.own
    seed = whole(own.get("seed", "0"), "seed", 0)
    arm = arms.chosen(own.get("arm"), own.get("rep"))
    names = asked.listed("lean") or (() if request.fixed else ("default",))
    chosen = tuple(map(shelf.find, names))
    number, why = threads.chosen(own.get("threads"), dict(os.environ))
    overwrite = asked.flag("overwrite")
    if "task" not in own:
        raise UserError("which task?", "add task=DOMAIN-TASK, such as task=cartpole-balance")
    task = tasks.official(own["task"])
    schema.check_suite(task)

    checkout = find_checkout(DREAMERV3, own.get("upstream") or None, allow_local_changes=request.allow_local_changes)
    if checkout.upstream != DREAMERV3:
        raise UserError(f"{own.get('upstream')} is no code of DreamerV3.", "tdmpc2-lean train is for the other one")
    patched = materialise(checkout, patch_names(asked))
    document = config.read(patched.code_dir)
    known = config.keys(document)
    applied = patching.read_series(DREAMERV3).closure(name for name, _ in patched.patches)

    # The later ones win: the bridge's, the presets', the arm's, the words', the official flags.
    more_configs, rest = config.split_configs(flags)
    given_settings = official_words(asked, known)
    ours, lacking = settings.own(known, seed, on_cpu(given_settings, rest), task.startswith(tasks.DMC + "_"))
    preset_values = presets.compose(chosen, config.flat(document[config.DEFAULTS]))
    for preset in chosen:
        check_keys(preset.keys(), known | set(PRESET_WORDS), f"preset {preset.name!r}: ")
    size = own.get("size") or preset_values.pop("size", None)
    preset_values.pop("size", None)
    chunk = whole(own.get("chunk") or str(preset_values.pop("chunk", curve.CHUNK)), "chunk", 1)
    preset_values.pop("chunk", None)
    configs = [OFFICIAL, *([str(size)] if size else []), *more_configs]
    schema.check_written(document, applied, preset_values | given_settings)
    before = config.resolved(document, configs, [*config.as_flags(ours | preset_values | given_settings), *rest])
    of_arm = arm.settings(before["agent"]["loss_scales"])
    if of_arm and any(key in given_settings or mentions(rest, key) for key in of_arm):
        raise UserError(f"arm={arm.name} and a setting of {' or '.join(of_arm)}.", "leave one of both away")
    name = own.get("exp_name") or experiment(chosen, own, given_settings, flags)
    if not NAME.fullmatch(name):
        raise UserError(f"exp_name={name!r} is no name of a folder.", "choose another exp_name=")
    cwd = request.cwd.resolve()
    folder = request.folder or cwd / "logs" / task / str(seed) / name
    code_folder = folder / "logs" if request.folder else folder

    def resolved(ours: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
        """(the official flags, the configuration that they make)."""
        values = config.as_flags(ours | preset_values | of_arm | given_settings)
        flags = ["--configs", *configs, "--task", task, "--logdir", str(code_folder), *values, *rest]
        return flags, config.resolved(document, configs, flags[1 + len(configs) :])

    official, found = resolved(ours)
    obstacles = settings.obstacles_to_resuming(found)
    if obstacles and found["run"].get("resume_exact"):
        official, found = resolved(ours | {"run.resume_exact": False})
        if found["run"]["resume_exact"]:  # by a preset, a word or a flag
            raise UserError(
                f"run.resume_exact=True, and {', '.join(obstacles)}: such a run cannot be resumed to the same bits.",
                "leave one of both away",
            )

    schema.check(
        document, applied, found, words=given_settings, preset_values=preset_values, presets=chosen
    )
    picture = found["env"]["dmc"]["image"] or found["env"]["dmc"].get("log_image", True)
    dmc = task.startswith("dmc_")
    environment = (
        dict.fromkeys(threads.VARIABLES, str(number))
        | settings.compile_cache(os.environ)
        | rendering.variable(bool(picture), dmc, os.environ)
    )
    trusting = ["--trust-checkpoint"] if request.trust_checkpoint else []
    changes = ["--allow-local-changes"] if request.allow_local_changes else []
    repeat = repeat_of(task, found)
    ratio = ratio_of(found, repeat)
    scales = dict(found["agent"]["loss_scales"])
    platform = str(found["jax"]["platform"])
    bound = tuple(cores.chosen(number)) if platform == "cpu" else ()
    if chunk % repeat:
        raise UserError(f"a chunk of {chunk} env steps at action repeat {repeat}.", "give a multiple of it")
    check_environments(checkout, found)
    checkpoint = starting_point(found, cwd, request.trust_checkpoint)
    agent_steps = int(found["run"]["steps"])
    notes = notes_of(lacking, arm, found, obstacles)
    specification = Specification(
        upstream=DREAMERV3,
        source="dm_control" if dmc else task.partition("_")[0],
        tasks=(task,),
        arm=arm.name + (", rep=alike" if arm.alike else ""),
        presets=tuple(map(presets.use_of, chosen)),
        seed=int(found["seed"]),
        agent_steps=agent_steps,
        action_repeat=repeat,
        chunk=chunk,
        overrides=preset_values | of_arm | given_settings,
        protocol=request.fixed.name if request.fixed else None,
    )
    return Plan(
        kind=request.kind,
        specification=specification,
        command=shlex.join(
            ["dreamer-bridge", request.kind, *changes, *trusting, *given, *(["--", *flags] if flags else [])]
        ),
        cwd=request.folder or cwd,
        checkout=checkout,
        patched=patched,
        presets=chosen,
        configured=config.flat(found),
        folder=folder,
        code_folder=code_folder,
        overwrite=overwrite,
        threads=Threads(number=number, why=why, cores=bound),
        device=Device(kind=platform),
        compile=True,
        environment=environment,
        launch={
            "script": str(patched.code_dir / "dreamerv3" / "main.py"),
            "flags": official,
            "cores": list(bound),
            "scales": scales,
            "trust": request.trust_checkpoint,
            "capacity": found["replay"]["size"],
        },
        rows=rows_of(checkout, patched, chosen, configs, specification, ratio, scales, found, number, why,
                     environment, folder, official),
        notes=tuple(notes),
        details={
            "flags": official,
            "configs": list(configs),
            "loss_scales": scales,
            "updates_per_agent_step": ratio.per_agent_step,
            "compile_cache": {
                "folder": environment["JAX_COMPILATION_CACHE_DIR"],
                "entries_before": settings.entries(environment["JAX_COMPILATION_CACHE_DIR"]),
            },
        },
        checkpoint=checkpoint,
        fixed=request.fixed,
        preset_settings=request.preset_settings,
    )  # fmt: skip


def rows_of(
    checkout: Checkout, patched: Patched, chosen: Sequence[Preset], configs: Sequence[str], what: Specification,
    ratio: Ratio, scales: Mapping[str, float], found: Mapping[str, Any], number: int, why: str,
    environment: Mapping[str, str], folder: Path, official: Sequence[str],
) -> tuple[tuple[str, str], ...]:  # fmt: skip
    """The plan, to be read."""
    script = patched.code_dir / "dreamerv3" / "main.py"
    return (
        ("code", f"{checkout.label}, {checkout.source}: {checkout.root}"),
        ("patches", ", ".join(name for name, _ in patched.patches) or "none"),
        ("patched copy", str(patched.root)),
        ("presets", ", ".join(f"{preset.name} ({preset.title})" for preset in chosen) or "none"),
        ("configs", " ".join(configs)),
        ("task, seed", f"{what.task}, {what.seed}"),
        ("budget", f"{what.agent_steps:,} agent steps = {what.env_steps:,} env steps"),
        ("updates", ratio.line()),
        ("arm", f"{what.arm}; loss scales " + " ".join(f"{k}={v:g}" for k, v in scales.items())),
        ("platform", f"{found['jax']['platform']}, {found['jax']['compute_dtype']}"),
        ("cores", f"{number} ({why}); another number gives other bits"),
        ("environment", " ".join(f"{key}={value}" for key, value in environment.items())),
        ("folder", str(folder)),
        ("runs", shlex.join([str(script), *official])),
    )


def check_flags(flags: Sequence[str]) -> None:
    """UserError for an official flag that the bridge decides: a run would be split over two folders, say."""
    for flag in flags:
        key = flag.partition("=")[0].removeprefix("--")
        if flag.startswith("--") and key == "logdir":
            raise UserError("--logdir is decided by the bridge.", "exp_name= names the run's folder")


def whole(text: str, name: str, least: int) -> int:
    """A word's whole number."""
    try:
        number = int(text.replace("_", ""))
    except ValueError:
        number = least - 1
    if number < least:
        raise UserError(f"{name}={text} is no whole number from {least} on.", f"write {name}={max(least, 1)}")
    return number


def patch_names(asked: words.Words) -> list[str] | None:
    """None for the whole series."""
    word = asked.own.get("patches", "all")
    return None if word == "all" else [] if word == "none" else list(asked.listed("patches"))


def official_words(asked: words.Words, known: set[str]) -> dict[str, str]:
    """The official keys among the words: {key: value as written}."""
    pairs = dict(word.partition("=")[::2] for word in asked.hydra)
    check_keys(pairs, known, "", OWN_WORDS)
    taken = [key for key in pairs if key in ("logdir", "configs")]
    if taken:
        raise UserError(
            f"{taken[0]}= is decided by the bridge.", "exp_name= names the run, size= and lean= configure it"
        )
    return pairs


def check_keys(keys, known: set[str], whose: str, more: Sequence[str] = ()) -> None:
    """UserError, with the nearest right one, for a key that is none of the official ones."""
    for key in keys:
        if key not in known and re.fullmatch(r"[A-Za-z0-9_.-]+", key):
            raise UserError(
                f"{whose}there is no setting {key!r}.{did_you_mean(key, {*known, *more})}",
                "dreamer-bridge train --help; official keys are those of dreamerv3/configs.yaml",
            )


def mentions(flags: Sequence[str], key: str) -> bool:
    """Whether official flags give a key a value."""
    return any(flag.partition("=")[0].removeprefix("--") == key for flag in flags if flag.startswith("--"))


def on_cpu(given: Mapping[str, str], flags: Sequence[str]) -> bool:
    """Whether the run is to be on a CPU: as the user says, else where there is no accelerator."""
    platform = given.get("jax.platform")
    for number, flag in enumerate(flags):
        key, equals, value = flag.partition("=")
        if key == "--jax.platform":
            platform = value if equals else (flags[number + 1] if number + 1 < len(flags) else None)
    return platform == "cpu" if platform else not settings.has_accelerator()


def experiment(chosen: Sequence[Preset], own: Mapping[str, str], given: Mapping[str, str], flags: Sequence[str]) -> str:
    """The run's name: its presets, and what tells it from others of the same presets."""
    varied = [f"{key}={own[key]}" for key in ("size", "arm", "rep") if own.get(key) not in (None, "full", "keep")]
    varied += [f"{key}={value}" for key, value in given.items()]
    text = ",".join(["+".join(preset.name for preset in chosen), *varied])
    # Flags may hold anything: their order and values stay in run.json, and the user names the folder.
    return re.sub(r"[^A-Za-z0-9_.,+=-]", "_", text)


def notes_of(
    lacking: Sequence[str], arm: Arm, found: Mapping[str, Any], obstacles: Sequence[str]
) -> list[str]:
    notes = []
    if obstacles:
        notes.append(f"{', '.join(obstacles)}: resumed after a stop, the run is another than one that was not stopped")
    if lacking:
        notes.append(f"left out: {', '.join(lacking)}; the bridge cannot set what those patches add")
    if arm.dyn is not None and not arm.alike:
        notes.append(f"arm={arm.name}: {arms.CAVEAT}")
    if found["script"] not in SCRIPTS:
        raise UserError(
            f"script={found['script']} loads checkpoints in processes that the bridge does not watch.",
            f"one of {', '.join(SCRIPTS)}; or run main.py of the patched copy yourself",
        )
    if found["script"] != "train":
        notes.append(f"script={found['script']}: progress and curve are kept of `train` alone")
    return notes


def check_environments(checkout: Checkout, found: Mapping[str, Any]) -> None:
    """UserError if environments are to run in processes of their own, which release 3.3.1 waits for without end."""
    if checkout.release and not found["run"]["debug"]:
        raise UserError(
            f"{checkout.label} hangs with environments in other processes (run.debug=False), patched or not.",
            "leave run.debug away, or use the pinned commit: upstream=PATH of a clone",
        )


def starting_point(found: Mapping[str, Any], cwd: Path, trusted: bool) -> LoadedCheckpoint | None:
    """The checkpoint that run.from_checkpoint names; None if it names none.

    Untrusted, before anything starts, if the user did not make it and does not say that it may be loaded.
    """
    path = found["run"].get("from_checkpoint")
    if not path:
        return None
    folder = (cwd / Path(path).expanduser()).resolve()
    if not (folder / "done").is_file():
        hint = ""
        if (folder / "latest").is_file():
            hint = f" Its latest is {folder / (folder / 'latest').read_text().strip()}."
        raise UserError(f"{folder} is no whole checkpoint.{hint}", "name a folder that holds agent.pkl and done")
    if not trusted:
        trust.check(folder)
    agent = folder / "agent.pkl"
    digest = hashlib.sha256(agent.read_bytes()).hexdigest() if agent.is_file() else None
    return LoadedCheckpoint(path=str(folder), sha256=digest, trusted=trusted)


def latest_checkpoint(folder: Path) -> Path | None:
    """The checkpoint at which the run in a folder would go on; None if it has none."""
    for name in CHECKPOINTS:
        named = folder / name / "latest"
        if named.is_file():
            found = folder / name / named.read_text(encoding="utf-8").strip()
            return found if (found / "done").is_file() else None
    return None
