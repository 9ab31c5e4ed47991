"""Makes one run of a protocol, or goes on with it: plan it, hold its folder, run the official trainer in a process.

The official train.py is run as `tdmpc2-lean train` runs it, one process for a whole run: it is the loop that the
reference curves were made with, and the patch `checkpoint` makes it resumable at any moment, so that there is no
second training loop to keep equal to it. A chunk is what lies between two of its evaluations.
"""

import dataclasses
import hashlib
import json
import os
import platform
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import folder as folders
from tdmpc2_lean.runs import presets as lean
from tdmpc2_lean.runs import record as records
from tdmpc2_lean.runs import run as running
from tdmpc2_lean.runs.progress import Display, Progress
from tdmpc2_lean.runs.words import hydra_word
from tdmpc2_lean.tdmpc2.plan import Plan
from tdmpc2_lean.validation.judging import protocols
from tdmpc2_lean.validation.judging.protocols import Protocol

CHILD = "tdmpc2_lean.tdmpc2.protocol_child"
EXPERIMENT = "run"  # the official code's name for what is run; the folder's name says more
CHECKPOINT_MINUTES = 15.0
SMOKE_CHECKPOINT_MINUTES = 0.02
FINISHED, RUNNING, FAILED, INTERRUPTED = "finished", "running", "failed", "interrupted"


@dataclass(frozen=True)
class Surroundings:
    """How and where runs are made, which no protocol fixes: recorded with every run, compared with nothing.

    device, compile: the code's settings; None for its own defaults, a CUDA device and true.
    threads: CPU threads; None as `tdmpc2-lean train` chooses them.
    upstream: a checkout other than the pinned code; its runs are never judged.
    checkpoint_minutes: None for 15, and for about a second in a smoke run.
    """

    device: str | None = None
    compile: bool | None = None
    threads: int | None = None
    upstream: str | None = None
    allow_local_changes: bool = False
    checkpoint_minutes: float | None = None


def make(
    protocol: Protocol,
    seed: int,
    out: Path,
    presets: Sequence[str] = (),
    surroundings: Surroundings | None = None,
    quiet: bool = False,
) -> bool:
    """Bring a run to its end, from wherever it is. False if it was finished already.

    Held if somebody else makes it; UserError if it cannot be made; RunFailed if it ends in an error, and
    KeyboardInterrupt if it is interrupted: its folder then holds all but what came after the last checkpoint.
    """
    if protocol.missing:
        raise UserError(f"{protocol.name} cannot be run: {protocol.missing}.", "tdmpc2-lean validate list")
    if protocol.agent == "dreamerv3":
        return bridge().make(protocol, seed, out, presets, surroundings or Surroundings(), quiet)
    if not protocol.judged:
        if presets:
            raise UserError("a smoke run has no lean variants.", "leave --lean away")
        surroundings = dataclasses.replace(surroundings or Surroundings(), device="cpu", compile=False)
    surroundings = surroundings or Surroundings()
    preset_settings = settings_of(presets, protocol)
    folder = folders.folder_of(out, protocol.name, presets, seed).resolve()
    with folders.held(folder) as lock:
        asked = asked_of(protocol, seed, presets, preset_settings)
        earlier = earlier_start(folder, asked)
        if earlier.get("state") == FINISHED:
            return False
        check_device(surroundings)
        plan = planned(protocol, seed, folder, presets, preset_settings, surroundings)
        settings = {**(earlier.get("settings") or plan.config), **given(plan.config)}
        record = new_record(protocol, asked, settings, provenance_of(plan), earlier)
        folders.write_record(folder, record)
        folders.keep_lines_before(folder, checkpoint_step(plan.folder / "checkpoint.pt"))
        progress = recording(folder, record)
        carry_out(
            protocol, folder, record, progress, quiet,
            lambda log, display: watched(plan, protocol, folder, record, lock, log, progress, display),
            lambda exit_code, log: explained(plan, exit_code, progress, log),
            lambda: len(folders.read_curve(folder / folders.CURVE)[0]),
            lambda: resolved_settings(folder),
        )  # fmt: skip
    return True


def asked_of(
    protocol: Protocol, seed: int, presets: Sequence[str], preset_settings: Mapping[str, Any]
) -> dict[str, Any]:
    """What one run is asked to be, as its record holds it."""
    return {
        "protocol": protocol.name,
        "seed": seed,
        "presets": list(presets),
        "preset_settings": dict(preset_settings),
        "spec": protocol.as_json(),
    }


def earlier_start(folder: Path, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """The record of the run's earlier starts, {} if it had none. UserError if the folder holds another run."""
    earlier = folders.read_record(folder)
    if earlier is not None:
        check_same(earlier, asked, folder)
    return earlier or {}


def bridge():
    """The part of this for DreamerV3, which needs packages of its own."""
    try:
        from dreamer_bridge import protocol
    except ImportError as error:
        raise UserError(f"DreamerV3 cannot be run here: {error}.", "pip install 'tdmpc2_lean[dreamer]'") from None
    return protocol


# ------------------------------------------------------------------------------------------- what is to be run


def settings_of(presets: Sequence[str], protocol: Protocol) -> dict[str, Any]:
    """What lean presets make of a protocol's settings. UserError if they touch what the protocol fixes."""
    chosen = [lean.find(name) for name in presets]
    for preset in chosen:
        touched = [key for key in preset.keys() if key in protocols.FIXED]
        if touched:
            raise UserError(
                f"the preset {preset.name!r} sets {', '.join(touched)}, which the protocol fixes.",
                "name another preset: tdmpc2-lean train --list-presets",
            )
    return lean.compose(chosen, {**protocol.defaults, **protocol.settings})


def check_same(earlier: Mapping[str, Any], asked: Mapping[str, Any], folder: Path) -> None:
    """UserError, naming the keys that differ, if the folder holds a run of another specification."""
    earlier_spec, spec = earlier.get("spec"), asked["spec"]
    if not isinstance(earlier_spec, Mapping):
        earlier_spec = {}
    differ = [f"spec.{key}" for key in protocols.differing(spec, earlier_spec) if not isinstance(spec.get(key), dict)]
    for part in ("settings", "defaults"):
        there = earlier_spec.get(part)
        keys = protocols.differing(spec[part], there if isinstance(there, Mapping) else {})
        differ += [f"{part}.{key}" for key in keys]
    rest = [key for key in asked if key != "spec"]
    differ += [key for key in rest if not protocols.same(asked[key], earlier.get(key))]
    if differ:
        raise UserError(
            f"{folder} holds a run of another specification; these keys differ: {', '.join(differ)}.",
            "choose another --out, or move that folder away",
        )


def check_device(surroundings: Surroundings) -> None:
    """UserError if the device is a CUDA device that is not there. Nothing is used in its place."""
    device = surroundings.device or "cuda:0"
    if device.partition(":")[0] != "cuda":
        return
    import torch

    if not torch.cuda.is_available():
        raise UserError(
            f"torch finds no CUDA device here, and the run is to use {device}"
            + ("." if surroundings.device else ", the official default."),
            "run it where there is one; on a CPU a run takes months: --device cpu --no-compile. Try: --smoke",
        )


def planned(
    protocol: Protocol,
    seed: int,
    folder: Path,
    presets: Sequence[str],
    preset_settings: Mapping[str, Any],
    surroundings: Surroundings,
) -> Plan:
    """The run as a plan of `training`, with the run's folder as its working folder."""
    from tdmpc2_lean.tdmpc2 import plan

    minutes = surroundings.checkpoint_minutes
    if minutes is None:
        minutes = CHECKPOINT_MINUTES if protocol.judged else SMOKE_CHECKPOINT_MINUTES
    settings = {key: value for key, value in protocol.settings.items() if key not in preset_settings}
    settings |= {
        "seed": seed,
        "exp_name": EXPERIMENT,
        "enable_wandb": False,
        "save_video": False,
        "checkpoint_minutes": minutes,
        # A run may go on on another machine, whose simulator need not compute the same bits within an episode.
        "checkpoint_mid_episode": not protocol.judged,
        "hydra.run.dir": str(folder / "hydra"),
    }
    settings |= {
        key: value
        for key, value in (("device", surroundings.device), ("compile", surroundings.compile))
        if value is not None
    }
    words = [hydra_word(key, value) for key, value in settings.items()]
    words.append("overwrite=true")  # the official folder of the run's earlier attempts
    if presets:
        words.append("lean=" + ",".join(presets))
    if surroundings.threads is not None:
        words.append(f"threads={surroundings.threads}")
    if surroundings.upstream is not None:
        words.append(f"upstream={surroundings.upstream}")
    return plan.training(words, allow_local_changes=surroundings.allow_local_changes, cwd=folder)


def new_record(
    protocol: Protocol,
    asked: Mapping[str, Any],
    settings: Mapping[str, Any],
    provenance: Mapping[str, Any],
    earlier: Mapping[str, Any],
) -> dict[str, Any]:
    """run.json as the run starts, or starts again; see the package's docstring."""
    return {
        **asked,
        "agent": protocol.agent,
        "task": protocol.task,
        "physics": protocol.physics,
        "settings": dict(settings),
        "provenance": provenance,
        "provenances": {**(earlier.get("provenances") or {}), short_hash(provenance): provenance},
        "state": RUNNING,
        "error": None,
        "started": earlier.get("started") or now(),
        "ended": None,
        "attempts": int(earlier.get("attempts") or 0) + 1,
    }


def given(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that have a value before the code resolves them."""
    return {key: value for key, value in config.items() if value != "???"}


def provenance_of(plan: Plan, name: str | None = None) -> dict[str, Any]:
    """What the lines of the curve are computed by and on. name: of the device; default: as torch or Python calls it."""
    from tdmpc2_lean.versions import versions

    kind = plan.device
    if name is None:
        name = platform.processor() or platform.machine()
        if kind.partition(":")[0] == "cuda":
            import torch

            name = torch.cuda.get_device_name(kind)
    code = plan.patched.provenance()
    code.pop("source")  # where it was found says nothing about what it is
    return json.loads(
        json.dumps(
            {
                **code,
                "packages": versions(),
                "device": {"kind": kind, "name": name},
                "threads": plan.threads[0],
                "compile": plan.config.get("compile"),
                "tdmpc2_lean": records.own_version(),
            },
            default=str,
        )
    )


def short_hash(provenance: Mapping[str, Any]) -> str:
    """What a line of the curve calls its provenance by."""
    return hashlib.sha256(json.dumps(provenance, sort_keys=True).encode()).hexdigest()[:8]


def checkpoint_step(path: Path) -> int:
    """The agent step at which the saved state goes on; 0 if there is none."""
    if not path.exists():
        return 0
    import torch

    try:
        return int(torch.load(path, map_location="cpu", weights_only=True, mmap=True)["step"])
    except Exception as error:
        raise UserError(
            f"{path} cannot be read: {error}", "move the run's folder away to start anew, or bring that file back"
        ) from None


# --------------------------------------------------------------------------------------------- the process itself


def carry_out(
    protocol: Protocol,
    folder: Path,
    record: dict[str, Any],
    progress: Progress,
    quiet: bool,
    watch: Callable[[running.Log, Display], tuple[int, bool]],
    why: Callable[[int, running.Log], running.RunFailed],
    chunks: Callable[[], int],
    resolved: Callable[[], Mapping[str, Any]] = dict,
) -> None:
    """Run a child to its end and keep the record. RunFailed or KeyboardInterrupt if it does not get there.

    watch: runs the child, whose events `progress` takes: (exit code, whether it was interrupted).
    why: why a child failed. chunks: how many the curve holds. resolved: settings that are known once it has run.
    """
    log = running.Log(folder / f"attempt-{record['attempts']}.log")
    display = Display(progress, quiet=quiet)
    try:
        exit_code, interrupted = watch(log, display)
    except BaseException as error:
        record |= {"state": FAILED, "error": f"the watching process: {error!r}", "ended": now()}
        folders.write_record(folder, record)
        raise
    finally:
        display.close()
        log.close()
    record |= {"ended": now(), "settings": {**record["settings"], **resolved()}}
    if exit_code == 0 and progress.ended:
        lines = chunks()
        if lines == protocol.chunks:
            folders.write_record(folder, record | {"state": FINISHED})
            return
        failure = running.RunFailed(
            f"the run ended with {lines} lines of {protocol.chunks} in {folder / folders.CURVE}.", f"read {log.path}"
        )
    elif interrupted:
        folders.write_record(folder, record | {"state": INTERRUPTED})
        raise KeyboardInterrupt
    else:
        failure = why(exit_code, log)
    folders.write_record(folder, record | {"state": FAILED, "error": failure.message})
    raise failure


def recording(folder: Path, record: dict[str, Any]) -> Progress:
    """Progress that puts the settings into the record as soon as the code has resolved them."""
    progress = Progress()
    take = progress.take

    def take_and_record(event: Mapping[str, Any]) -> None:
        take(event)
        if event.get("event") == "start":
            record["settings"] |= resolved_settings(folder)
            folders.write_record(folder, record)

    progress.take = take_and_record
    return progress


def watched(
    plan: Plan,
    protocol: Protocol,
    folder: Path,
    record: Mapping[str, Any],
    lock: int,
    log: running.Log,
    progress: Progress,
    display: Display,
) -> tuple[int, bool]:
    """Run the child and follow it to its end: (exit code, whether it was interrupted)."""

    def command(channel: int) -> list[str]:
        request = {
            "script": str(plan.script),
            "words": list(plan.hydra),
            "channel": channel,
            "config": str(folder / "config.yaml"),
            "probe": plan.probe,
            "parent": os.getpid(),
            "curve": str(folder / folders.CURVE),
            "chunk": protocol.chunk,
            "action_repeat": protocol.action_repeat,
            "provenance": short_hash(record["provenance"]),
        }
        folders.replace(folder / "request.json", json.dumps(request))
        return [sys.executable, "-P", "-m", CHILD, str(folder / "request.json")]

    # The lock stays taken for as long as the child lives.
    return running.watch(command, plan.cwd, plan.environment, log, progress, display, [lock])


def resolved_settings(folder: Path) -> dict[str, Any]:
    """All settings as the code resolved them; empty if it did not get so far."""
    from omegaconf import OmegaConf

    try:
        return OmegaConf.to_container(OmegaConf.load(folder / "config.yaml"))
    except OSError:
        return {}


def explained(plan: Plan, exit_code: int, progress: Progress, log: running.Log) -> running.RunFailed:
    """Why a run failed; what a protocol's runs are known to fail of, in words of their own."""
    said = "\n".join(log.last)
    last = next((line for line in reversed(log.last) if line.startswith("FloatingPointError")), "")
    goes_on = "the same command goes on from the last checkpoint"
    if last:
        return running.RunFailed(
            f"training has diverged: {last.partition(': ')[2]}\n  log: {log.path}",
            "the last checkpoint is from before that; started again, the run diverges again",
        )
    if "No space left on device" in said or "File too large" in said or "Disk quota exceeded" in said:
        return running.RunFailed(f"the disk is full.\n  log: {log.path}", f"make room; {goes_on}")
    if exit_code == -signal.SIGKILL:
        return running.RunFailed(
            f"the process was killed, perhaps for want of memory.\n  log: {log.path}", f"{goes_on}"
        )
    if "another observation than before" in said:
        return running.RunFailed(
            f"the environment computes other bits here than where the state was saved.\n  log: {log.path}",
            "go on with the run on a machine like that one, or move its folder away to start anew",
        )
    return running.explained(plan, exit_code, progress, log)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
