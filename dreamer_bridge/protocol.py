"""Makes one run of a DreamerV3 protocol, or goes on with it, in the folder that `validate` keeps for it.

The official main.py is run as `dreamer-bridge train` runs it. The measure is the return of its training episodes,
chunk by chunk (curve.jsonl); its own folder is `logs` in the run's.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dreamer_bridge import curve, plan, run, settings, trust
from dreamer_bridge.progress import Progress
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.training import run as running
from tdmpc2_lean.training.progress import Display
from tdmpc2_lean.validation.protocols import Protocol
from tdmpc2_lean.validation.runs import folder as folders
from tdmpc2_lean.validation.runs import making

# A protocol's names of settings and the official keys; other settings of a protocol are official keys themselves.
KEYS = {"envs": "run.envs", "action_repeat": "env.dmc.repeat", "train_ratio": "run.train_ratio"}


def make(
    protocol: Protocol,
    seed: int,
    out: Path,
    presets: Sequence[str],
    surroundings: "making.Surroundings",
    quiet: bool = False,
) -> bool:
    """As `runs.make`, of which it is the part for DreamerV3."""
    if presets:
        raise UserError(
            "DreamerV3's protocol has no lean variants.", "leave --lean away; dreamer-bridge train has them"
        )
    if surroundings.compile is not None or surroundings.checkpoint_minutes is not None:
        raise UserError(
            "--compile and --checkpoint-minutes are TD-MPC2's: DreamerV3 is always compiled, and saves every 20,000 "
            "agent steps and when it is stopped.",
            "leave them away",
        )
    if not protocol.judged:
        surroundings = dataclasses.replace(surroundings, device="cpu")
    if surroundings.device is None and not settings.has_accelerator():
        raise UserError(
            "no plugin of JAX for an accelerator is installed, and a run is to use one.",
            "run it where there is one; on a CPU it takes weeks: --device cpu. Try: dreamer-bridge train lean=smoke",
        )
    folder = folders.folder_of(out, protocol.name, presets, seed).resolve()
    with folders.held(folder) as lock:
        earlier = folders.read_record(folder)
        asked = {
            "protocol": protocol.name,
            "seed": seed,
            "presets": [],
            "preset_settings": {},
            "spec": protocol.as_json(),
        }
        if earlier is not None:
            making.check_same(earlier, asked, folder)
            if earlier.get("state") == making.FINISHED:
                return False
        planned = plan.training(
            words_of(protocol, seed, surroundings),
            allow_local_changes=surroundings.allow_local_changes,
            cwd=folder,
            folder=folder / "logs",
        )
        checkpoint = plan.latest_checkpoint(planned.folder)
        if checkpoint is not None:
            trust.check(checkpoint)
        record = new_record(protocol, asked, planned, earlier)
        folders.write_record(folder, record)
        run.drop_what_is_computed_again(planned, folder / folders.CURVE)
        carry_out(planned, protocol, folder, record, lock, quiet)
    return True


def words_of(protocol: Protocol, seed: int, surroundings: "making.Surroundings") -> list[str]:
    """The words of `dreamer-bridge train` that make a run of the protocol."""
    chosen = dict(protocol.settings)
    words = [f"task={protocol.environment.replace('/', '-')}", f"seed={seed}", f"size={chosen.pop('size')}"]
    words += [f"{KEYS.get(key, key)}={value}" for key, value in chosen.items()]
    words += [f"run.steps={protocol.agent_steps}", f"chunk={protocol.chunk * protocol.action_repeat}"]
    if surroundings.device is not None:
        words.append(f"jax.platform={surroundings.device.partition(':')[0]}")
    if surroundings.threads is not None:
        words.append(f"threads={surroundings.threads}")
    if surroundings.upstream is not None:
        words.append(f"upstream={surroundings.upstream}")
    return words


def new_record(
    protocol: Protocol, asked: Mapping[str, Any], planned: plan.Plan, earlier: Mapping[str, Any] | None
) -> dict[str, Any]:
    """run.json as the run starts, or starts again; see tdmpc2_lean.validation.runs."""
    earlier = earlier or {}
    # What an accelerator is called is known to JAX alone, in the child.
    provenance = making.provenance_of(planned, None if planned.device == "cpu" else planned.device)
    return {
        **asked,
        "agent": protocol.agent,
        "task": protocol.task,
        "physics": protocol.physics,
        "settings": run_settings(protocol, planned),
        "provenance": provenance,
        "provenances": {**(earlier.get("provenances") or {}), making.short_hash(provenance): provenance},
        "state": making.RUNNING,
        "error": None,
        "started": earlier.get("started") or making.now(),
        "ended": None,
        "attempts": int(earlier.get("attempts") or 0) + 1,
    }


def run_settings(protocol: Protocol, planned: plan.Plan) -> dict[str, Any]:
    """Every official setting, and those that the protocol has names of its own for, read off the configuration."""
    from dreamer_bridge import config

    found = config.flat(planned.config)
    named = {name: found[key] for name, key in KEYS.items()}
    sizes = [name for name in planned.configs if name != plan.OFFICIAL]
    return found | named | {"size": sizes[-1] if sizes else None}


def carry_out(
    planned: plan.Plan, protocol: Protocol, folder: Path, record: dict[str, Any], lock: int, quiet: bool
) -> None:
    """Run the child to its end and keep the record. RunFailed or KeyboardInterrupt if it does not get there."""
    log = running.Log(folder / f"attempt-{record['attempts']}.log")
    progress = Progress()
    display = Display(progress, quiet=quiet)
    extra = {"provenance": making.short_hash(record["provenance"])}
    try:
        exit_code, interrupted = running.watch(
            lambda channel: run.command(planned, channel, folder / folders.CURVE, extra),
            folder, planned.environment, log, progress, display, [lock], run.PATIENCE,
        )  # fmt: skip
    except BaseException as error:
        record |= {"state": making.FAILED, "error": f"the watching process: {error!r}", "ended": making.now()}
        folders.write_record(folder, record)
        raise
    finally:
        display.close()
        log.close()
    record |= {"ended": making.now()}
    if exit_code == 0 and progress.ended:
        lines = len(curve.read_lines(folder / folders.CURVE))
        if lines == protocol.chunks:
            folders.write_record(folder, record | {"state": making.FINISHED})
            return
        failure = running.RunFailed(
            f"the run ended with {lines} lines of {protocol.chunks} in {folder / folders.CURVE}.", f"read {log.path}"
        )
    elif interrupted:
        folders.write_record(folder, record | {"state": making.INTERRUPTED})
        raise KeyboardInterrupt
    else:
        failure = run.explained(exit_code, log)
    folders.write_record(folder, record | {"state": making.FAILED, "error": failure.message})
    raise failure
