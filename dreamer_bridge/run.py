"""Carries a plan out: makes the run's folder or goes on in it, runs the official main.py, keeps the record."""

import hashlib
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dreamer_bridge import child, curve, returns, settings
from dreamer_bridge.plan import Plan, latest_checkpoint
from dreamer_bridge.progress import Progress
from tdmpc2_lean.runs import folder as folders
from tdmpc2_lean.runs import record
from tdmpc2_lean.runs import run as running
from tdmpc2_lean.runs.progress import Display, duration
from tdmpc2_lean.runs.run import INTERRUPTED, Outcome, RunFailed

CHILD = "dreamer_bridge.child"
LOG = "train.log"
REQUEST = "request.json"
# What JAX says where jax.platform= names an accelerator for which it has no plugin or driver.
NO_ACCELERATOR = ("Unable to initialize backend", "_default_backend is not None", "Unknown backend")
PATIENCE = 120.0  # seconds: an interrupted run still writes a checkpoint, with all of its replay


def carry_out(plan: Plan, *, quiet: bool = False) -> Outcome:
    """Run the plan to its end. RunFailed or KeyboardInterrupt if it does not get there; the folder tells."""
    if not plan.resumes:
        running.make_folder(plan.folder)
    with folders.held(plan.folder) as lock:
        return held(plan, lock, quiet)


def held(plan: Plan, lock: int, quiet: bool) -> Outcome:
    """As carry_out, while the folder is held."""
    kept = new_record(plan, record.read(plan.folder) if plan.resumes else None)
    if plan.resumes:
        drop_what_is_computed_again(plan, plan.folder / curve.FILE)
    record.write(plan.folder, kept)
    log = running.Log(plan.folder / LOG, append=plan.resumes)
    progress = Progress(evaluations=list(kept["evaluations"]))
    display = Display(progress, quiet=quiet)
    try:
        exit_code, interrupted = running.watch(
            lambda channel: command(plan, channel, plan.folder / curve.FILE),
            plan.cwd, plan.environment, log, progress, display, [lock], PATIENCE,
        )  # fmt: skip
    except BaseException as error:
        why = f"the watching process: {error!r}"
        record.write(plan.folder, record.ended(kept, "failed", 1, why))
        raise
    finally:
        display.close()
        log.close()
    kept |= what_happened(kept, progress)
    if interrupted:
        record.write(plan.folder, record.ended(kept, "interrupted", INTERRUPTED))
        running.draw(plan.folder, curve.read_run)
        display.say(f"what there is stays in {plan.folder}; the same command goes on with it")
        raise KeyboardInterrupt
    if exit_code != 0 or not progress.ended:
        failure = explained(exit_code, log)
        record.write(plan.folder, record.ended(kept, "failed", exit_code or 1, failure.message))
        running.draw(plan.folder, curve.read_run)
        raise failure
    kept = record.ended(kept, "finished", 0)
    record.write(plan.folder, kept)
    running.draw(plan.folder, curve.read_run)
    return Outcome(plan.folder, kept)


def new_record(plan: Plan, earlier: Mapping[str, Any] | None) -> dict[str, Any]:
    """run.json as the run starts, or starts again."""
    cache = plan.environment["JAX_COMPILATION_CACHE_DIR"]
    made = record.new(
        kind="train",
        command=plan.command,
        cwd=str(plan.cwd),
        task=plan.task,
        seed=plan.seed,
        upstream=plan.patched.provenance(),
        presets=[running.preset_record(preset) for preset in plan.presets],
        overrides=dict(plan.overrides),
        config=dict(plan.config),
        device={"kind": plan.config["jax"]["platform"], "name": None},
        threads={"number": plan.threads[0], "why": plan.threads[1], "cores": list(plan.cores)},
        environment=dict(plan.environment),
        checkpoint=starting_point(plan),
        flags=list(plan.flags),
        arm=plan.arm.record(plan.scales),
        chunk=plan.chunk,
        action_repeat=plan.repeat,
        updates_per_agent_step=plan.ratio.per_agent_step,
        compile_cache={"folder": cache, "entries_before": settings.entries(cache), "entries_after": None},
        attempts=1,
        resumed_at=[],
    )
    if earlier is not None:
        made |= {key: earlier[key] for key in ("started", "evaluations", "resumed_at")}
        made["attempts"] = earlier["attempts"] + 1
    return made


def starting_point(plan: Plan) -> dict[str, Any] | None:
    """The checkpoint that run.from_checkpoint names."""
    path = plan.config["run"].get("from_checkpoint")
    if not path:
        return None
    folder = (plan.cwd / Path(path).expanduser()).resolve()
    agent = folder / "agent.pkl"
    digest = hashlib.sha256(agent.read_bytes()).hexdigest() if agent.is_file() else None
    return {"path": str(folder), "sha256": digest, "trusted": plan.trusted}


def drop_what_is_computed_again(plan: Plan, curve_file: Path) -> None:
    """Of a run that goes on: the lines that come after its checkpoint; all of them if it has none.

    Where the official code resumes exactly, it cuts its own files back itself.
    """
    checkpoint = latest_checkpoint(plan.folder)
    steps, chunks = 0, 0
    if checkpoint is not None and (checkpoint / child.STATE).is_file():
        state = json.loads((checkpoint / child.STATE).read_bytes())
        steps, chunks = state["agent_steps"], state["curve"]["number"] - 1
    curve.keep_lines_until(curve_file, "chunk", chunks)
    if checkpoint is None or not plan.config["run"].get("resume_exact"):
        for name in ("metrics.jsonl", returns.FILE):
            curve.keep_lines_until(plan.folder / name, "step", steps * plan.repeat)


def command(plan: Plan, channel: int, curve_file: Path, extra: Mapping[str, Any] | None = None) -> list[str]:
    """The command line of the child; what it is to do stands in a file in the run's folder."""
    request = {
        "script": str(plan.script),
        "flags": list(plan.flags),
        "channel": channel,
        "cores": list(plan.cores),
        "curve": str(curve_file),
        "chunk": plan.chunk,
        "repeat": plan.repeat,
        "scales": plan.scales,
        "extra": dict(extra or {}),
        "logdir": plan.config["logdir"],
        "trust": plan.trusted,
        "capacity": plan.config["replay"]["size"],
    }
    path = curve_file.parent / REQUEST
    folders.replace(path, json.dumps(request, indent=1) + "\n")
    return [sys.executable, "-P", "-m", CHILD, str(path)]


def what_happened(kept: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """The fields of the record that are known only after the run."""
    cache = dict(kept["compile_cache"])
    found: dict[str, Any] = {
        "evaluations": progress.evaluations,
        "timing": progress.timing() | {"evaluation_seconds": None} if progress.samples else {},
        "compile_cache": cache | {"entries_after": settings.entries(cache["folder"])},
    }
    if progress.resumed_at is not None:
        at = progress.resumed_at
        found["resumed_at"] = [*kept["resumed_at"], at]
        found["evaluations"] = [
            line
            for number, line in enumerate(progress.evaluations)
            if number >= len(kept["evaluations"]) or line["step"] <= at
        ]
    if progress.device:
        found["device"] = {"kind": progress.device, "name": progress.device_name}
    return found


def explained(exit_code: int, log: running.Log) -> RunFailed:
    """Why a run failed, as far as its log tells."""
    text = "\n".join(log.last)
    shown = "\n".join(f"    {line}" for line in log.tail())
    next_step = "read the log; the same command goes on from the last checkpoint"
    if "trust.Untrusted" in text:
        said = next(line for line in reversed(log.last) if "trust.Untrusted" in line)
        return RunFailed(f"{said.partition(': ')[2]}\n  log: {log.path}", "--trust-checkpoint, only if you do")
    if "No module named" in text:
        next_step = "pip install 'tdmpc2_lean[dreamer]', or what the log says is missing"
    elif any(said in text for said in NO_ACCELERATOR):
        next_step = "jax.platform=cpu, or install JAX's plugin for the accelerator"
    elif "RESOURCE_EXHAUSTED" in text or "out of memory" in text.lower():
        next_step = "a smaller size= or batch_size="
    elif "No space left on device" in text:
        next_step = "make room; the same command goes on from the last checkpoint"
    elif exit_code < 0:
        shown += f"\n    (ended by signal {signal.Signals(-exit_code).name})"
    return RunFailed(f"the run failed. The end of its log:\n{shown}\n  log: {log.path}", next_step)


def summary(outcome: Outcome) -> Sequence[str]:
    """What is said at the end."""
    kept = outcome.record
    timing = kept["timing"] or {}
    speed = timing.get("learning_steps_per_second") or timing.get("steps_per_second")
    pace = f", {speed:.1f} agent steps/s while learning, {timing['updates']} updates" if speed else ""
    took = f"finished in {duration(kept['seconds'])}"
    if kept["attempts"] > 1:
        gone_on = ", ".join(f"{step:,}" for step in kept["resumed_at"]) or "0"
        took = (
            f"finished {duration(kept['seconds'])} after its first start, at attempt {kept['attempts']} "
            f"(gone on at agent step {gone_on})"
        )
    return [
        f"{took}{pace} (n=1 run, seed {kept['seed']})",
        f"folder: {outcome.folder}",
    ]
