"""Makes one run of a DreamerV3 protocol, or goes on with it, in the folder that `validate` keeps for it.

The official main.py is run as `dreamer-bridge train` runs it. The measure is the return of its training episodes,
chunk by chunk (curve.jsonl); its own folder is `logs` in the run's.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dreamer_bridge import curve, plan, run, settings, trust
from dreamer_bridge.progress import Progress
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import folder as folders
from tdmpc2_lean.runs import making
from tdmpc2_lean.runs import run as running
from tdmpc2_lean.validation.judging.protocols import Protocol

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
        asked = making.asked_of(protocol, seed, presets, {})
        earlier = making.earlier_start(folder, asked)
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
        # What an accelerator is called is known to JAX alone, in the child.
        provenance = making.provenance_of(planned, None if planned.device == "cpu" else planned.device)
        record = making.new_record(protocol, asked, run_settings(protocol, planned), provenance, earlier)
        folders.write_record(folder, record)
        run.drop_what_is_computed_again(planned, folder / folders.CURVE)
        extra = {"provenance": making.short_hash(provenance)}
        progress = Progress()
        making.carry_out(
            protocol, folder, record, progress, quiet,
            lambda log, display: running.watch(
                lambda channel: run.command(planned, channel, folder / folders.CURVE, extra),
                folder, planned.environment, log, progress, display, [lock], run.PATIENCE,
            ),
            run.explained,
            # With those in which no episode ended, which have no value.
            lambda: len(curve.read_lines(folder / folders.CURVE)),
        )  # fmt: skip
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


def run_settings(protocol: Protocol, planned: plan.Plan) -> dict[str, Any]:
    """Every official setting, and those that the protocol has names of its own for, read off the configuration."""
    from dreamer_bridge import config

    found = config.flat(planned.config)
    named = {name: found[key] for name, key in KEYS.items()}
    sizes = [name for name in planned.configs if name != plan.OFFICIAL]
    return found | named | {"size": sizes[-1] if sizes else None}
