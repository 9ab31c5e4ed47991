"""Turns what the user wrote into a plan: every decision about a run, taken and checked before it starts."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dreamer_bridge import arms, config, cores, curve, settings, tasks, trust
from dreamer_bridge.arms import Arm
from dreamer_bridge.ratio import Ratio
from tdmpc2_lean.environments import rendering
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean
from tdmpc2_lean.patched import Patched, materialise
from tdmpc2_lean.runs import presets, record, threads, words
from tdmpc2_lean.runs.presets import DREAMERV3, Preset
from tdmpc2_lean.upstreams import Checkout, find_checkout

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
# What a run's record says of its code that makes it another run; patched_tree holds files of ours too.
OF_THE_CODE = ("upstream", "commit", "tree", "patches", "local_changes", "patched_tree")
# What may differ between the starts of one run: where it lies.
NOT_OF_THE_RUN = ("logdir",)


@dataclass(frozen=True)
class Plan:
    """All that is decided about a run. config: as the official code resolves it. flags: what main.py is given.

    cores: the CPU cores the run is bound to; empty if to none. chunk: env steps of a line of curve.jsonl.
    resumes: whether the folder holds an interrupted run of this specification. trusted: load any checkpoint.
    notes: what the user should be told before the run.
    """

    command: str
    cwd: Path
    checkout: Checkout
    patched: Patched
    presets: tuple[Preset, ...]
    task: str
    seed: int
    arm: Arm
    chunk: int
    configs: tuple[str, ...]
    flags: tuple[str, ...]
    config: Mapping[str, Any]
    overrides: Mapping[str, Any]
    folder: Path
    overwrite: bool
    threads: tuple[int, str]
    cores: tuple[int, ...]
    environment: Mapping[str, str]
    trusted: bool = False
    resumes: bool = False
    notes: tuple[str, ...] = ()

    @property
    def script(self) -> Path:
        """The official script that is run."""
        return self.patched.code_dir / "dreamerv3" / "main.py"

    @property
    def repeat(self) -> int:
        """Env steps of an agent step, as the official logger counts them."""
        suite = self.task.partition("_")[0]
        return int(self.config["env"].get(suite, {}).get("repeat", 1))

    @property
    def device(self) -> str:
        """JAX's name of the platform."""
        return str(self.config["jax"]["platform"])

    @property
    def scales(self) -> dict[str, float]:
        """{loss: scale} of all losses."""
        return dict(self.config["agent"]["loss_scales"])

    @property
    def ratio(self) -> Ratio:
        """How many updates are made."""
        run = self.config["run"]
        return Ratio(run["train_ratio"], self.config["batch_size"], self.config["batch_length"], self.repeat)

    def lines(self) -> list[str]:
        """The plan, to be read."""
        names = [name for name, _ in self.patched.patches]
        agent_steps = int(self.config["run"]["steps"])
        rows = [
            ("code", f"{self.checkout.label}, {self.checkout.source}: {self.checkout.root}"),
            ("patches", ", ".join(names) or "none"),
            ("patched copy", str(self.patched.root)),
            ("presets", ", ".join(f"{preset.name} ({preset.title})" for preset in self.presets) or "none"),
            ("configs", " ".join(self.configs)),
            ("task, seed", f"{self.task}, {self.seed}"),
            ("budget", f"{agent_steps:,} agent steps = {agent_steps * self.repeat:,} env steps"),
            ("updates", self.ratio.line()),
            ("arm", f"{self.arm.name}; loss scales " + " ".join(f"{k}={v:g}" for k, v in self.scales.items())),
            ("platform", f"{self.config['jax']['platform']}, {self.config['jax']['compute_dtype']}"),
            ("cores", f"{self.threads[0]} ({self.threads[1]}); another number gives other bits"),
            ("environment", " ".join(f"{key}={value}" for key, value in self.environment.items())),
            ("folder", str(self.folder) + (", where an interrupted run goes on" if self.resumes else "")),
            ("runs", shlex.join([str(self.script), *self.flags])),
        ]
        return [f"{name:<13} {text}" for name, text in rows] + [f"note: {note}" for note in self.notes]


def training(
    given: Sequence[str],
    flags: Sequence[str] = (),
    *,
    allow_local_changes: bool = False,
    trust_checkpoint: bool = False,
    cwd: Path,
    folder: Path | None = None,
) -> Plan:
    """The plan of one training run. given: words; flags: official ones.

    folder: the official code's, of a caller who holds it and knows what is in it; by default logs/… in `cwd`, which is
    looked at for an earlier run.
    """
    asked = words.read(given, OWN_WORDS)
    own = asked.own
    seed = whole(own.get("seed", "0"), "seed", 0)
    arm = arms.chosen(own.get("arm"), own.get("rep"))
    chosen = tuple(presets.find(name, DREAMERV3) for name in asked.listed("lean") or ("default",))
    number, why = threads.chosen(own.get("threads"), dict(os.environ))
    overwrite = asked.flag("overwrite")
    if "task" not in own:
        raise UserError("which task?", "add task=DOMAIN-TASK, such as task=cartpole-balance")
    task = tasks.official(own["task"])

    checkout = find_checkout(DREAMERV3, own.get("upstream") or None, allow_local_changes=allow_local_changes)
    if checkout.upstream != DREAMERV3:
        raise UserError(f"{own.get('upstream')} is no code of DreamerV3.", "tdmpc2-lean train is for the other one")
    patched = materialise(checkout, patch_names(asked))
    document = config.read(patched.code_dir)
    known = config.keys(document)

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
    before = config.resolved(document, configs, [*config.as_flags(ours | preset_values | given_settings), *rest])
    of_arm = arm.settings(before["agent"]["loss_scales"])
    if of_arm and any(key in given_settings or mentions(rest, key) for key in of_arm):
        raise UserError(f"arm={arm.name} and a setting of {' or '.join(of_arm)}.", "leave one of both away")
    name = own.get("exp_name") or experiment(chosen, own, given_settings, flags)
    if not NAME.fullmatch(name):
        raise UserError(f"exp_name={name!r} is no name of a folder.", "choose another exp_name=")
    cwd = cwd.resolve()
    looked_at = folder is None
    folder = folder or cwd / "logs" / task / str(seed) / name

    def resolved(ours: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
        """(the official flags, the configuration that they make)."""
        values = config.as_flags(ours | preset_values | of_arm | given_settings)
        flags = ["--configs", *configs, "--task", task, "--logdir", str(folder), *values, *rest]
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

    picture = found["env"]["dmc"]["image"] or found["env"]["dmc"].get("log_image", True)
    dmc = task.startswith("dmc_")
    environment = (
        dict.fromkeys(threads.VARIABLES, str(number))
        | settings.compile_cache(os.environ)
        | rendering.variable(bool(picture), dmc, os.environ)
    )
    trusting = ["--trust-checkpoint"] if trust_checkpoint else []
    changes = ["--allow-local-changes"] if allow_local_changes else []
    plan = Plan(
        command=shlex.join(
            ["dreamer-bridge", "train", *changes, *trusting, *given, *(["--", *flags] if flags else [])]
        ),
        cwd=cwd,
        checkout=checkout,
        patched=patched,
        presets=chosen,
        task=task,
        seed=int(found["seed"]),
        arm=arm,
        chunk=chunk,
        configs=tuple(configs),
        flags=tuple(official),
        config=found,
        overrides=preset_values | of_arm | given_settings,
        folder=folder,
        overwrite=overwrite,
        threads=(number, why),
        cores=tuple(cores.chosen(number)) if found["jax"]["platform"] == "cpu" else (),
        environment=environment,
        trusted=trust_checkpoint,
        notes=tuple(notes_of(lacking, arm, found, obstacles)),
    )
    if chunk % plan.repeat:
        raise UserError(f"a chunk of {chunk} env steps at action repeat {plan.repeat}.", "give a multiple of it")
    check_environments(plan)
    check_from_checkpoint(plan)
    return replace(plan, resumes=looked_at and resumes(plan))


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


def check_environments(plan: Plan) -> None:
    """UserError if environments are to run in processes of their own, which release 3.3.1 waits for without end."""
    if plan.checkout.release and not plan.config["run"]["debug"]:
        raise UserError(
            f"{plan.checkout.label} hangs with environments in other processes (run.debug=False), patched or not.",
            "leave run.debug away, or use the pinned commit: upstream=PATH of a clone",
        )


def check_from_checkpoint(plan: Plan) -> None:
    """Untrusted, before anything starts, if run.from_checkpoint names a checkpoint that the user did not make."""
    path = plan.config["run"].get("from_checkpoint")
    if not path:
        return
    folder = (plan.cwd / Path(path).expanduser()).resolve()
    if not (folder / "done").is_file():
        hint = ""
        if (folder / "latest").is_file():
            hint = f" Its latest is {folder / (folder / 'latest').read_text().strip()}."
        raise UserError(f"{folder} is no whole checkpoint.{hint}", "name a folder that holds agent.pkl and done")
    if not plan.trusted:
        trust.check(folder)


def latest_checkpoint(folder: Path) -> Path | None:
    """The checkpoint at which the run in a folder would go on; None if it has none."""
    for name in CHECKPOINTS:
        named = folder / name / "latest"
        if named.is_file():
            found = folder / name / named.read_text(encoding="utf-8").strip()
            return found if (found / "done").is_file() else None
    return None


def specification(plan: Plan) -> dict[str, Any]:
    """What one run is: {name: value}, the same at each start of it."""
    code = plan.patched.provenance()
    found = {f"upstream.{key}": code.get(key) for key in OF_THE_CODE}
    return found | of_config(plan.config) | {"chunk": plan.chunk}


def of_config(nested: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.flat(nested).items() if key not in NOT_OF_THE_RUN}


def resumes(plan: Plan) -> bool:
    """Whether the folder holds an interrupted run that this one goes on with.

    UserError if a run is going on in it, if it holds a finished run or files that are none, or an interrupted run of
    another specification, naming what differs; and Untrusted if its checkpoint is not the user's.
    """
    folder = plan.folder
    if plan.overwrite or not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    if not (folder / record.FILE).is_file():
        raise UserError(f"{folder} holds files that are no run's; they are not touched.", "choose another exp_name=")
    earlier = record.read(folder)
    if record.is_alive(earlier):
        raise UserError(
            f"a run is going on in {folder} (process {earlier['pid']} on {earlier['host']}).",
            "choose another exp_name=, or stop that run first",
        )
    choose = "choose another exp_name=, or write overwrite=true to replace it"
    if earlier["state"] == "finished" or "flags" not in earlier:
        raise UserError(f"{folder} already holds a run ({earlier['state']}, started {earlier['started']}).", choose)
    differ = differing(earlier, plan)
    if differ:
        raise UserError(
            f"{folder} holds an interrupted run of another specification; these differ: {'; '.join(differ)}.",
            f"type that run's command to go on with it, or {choose}",
        )
    checkpoint = latest_checkpoint(folder)
    if checkpoint is not None and not plan.trusted:
        trust.check(checkpoint)
    return True


def differing(earlier: Mapping[str, Any], plan: Plan) -> list[str]:
    """In what an earlier run's record differs from the plan: 'run.steps (1000, now 2000)'."""
    code = earlier["upstream"]
    there = {f"upstream.{key}": code.get(key) for key in OF_THE_CODE}
    there |= of_config(earlier["config"]) | {"chunk": earlier["chunk"]}
    now = specification(plan)
    keys = [key for key in {**there, **now} if there.get(key) != now.get(key)]
    shown = [key if key == "upstream.patches" else f"{key} ({there.get(key)}, now {now.get(key)})" for key in keys]
    return shown[:10] + ([f"and {len(shown) - 10} more"] if len(shown) > 10 else [])
