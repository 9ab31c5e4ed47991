"""The one way in which a run is made: held, begun or gone on with, watched to its end, recorded.

Every command that makes runs (`train`, `evaluate`, `validate run`, sweeps, jobs of Hydra's) makes a plan by an
upstream's adapter and hands it to `carry_out`. Whether the folder's run begins, goes on, is extended or is finished
already is decided in `standing`.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tdmpc2_lean.files import atomic_write
from tdmpc2_lean.runs import adapter as adapters
from tdmpc2_lean.runs import curve, folder, record
from tdmpc2_lean.runs.adapter import Adapter
from tdmpc2_lean.runs.plan import TRAIN, Plan
from tdmpc2_lean.runs.progress import Display, Progress, duration
from tdmpc2_lean.runs.record import FAILED, FINISHED, INTERRUPTED, RunRecord
from tdmpc2_lean.runs.standing import BEGINS, GOES_ON, IS_FINISHED, Standing, refuse_strange_folder, standing
from tdmpc2_lean.runs.watching import Log, RunFailed, interruptions, watch

INTERRUPTED_CODE = 130
REQUEST, CONFIG, FIGURE = "request.json", "config.yaml", "curve.png"


@dataclass(frozen=True)
class Outcome:
    """A finished run: its folder and the record in it. made: False if it was finished already."""

    folder: Path
    record: RunRecord
    made: bool = True

    @property
    def last_return(self) -> float | None:
        """The last evaluation's mean return."""
        found = [one.episode_reward for one in self.record.evaluations if one.episode_reward is not None]
        return found[-1] if found else None


def carry_out(plan: Plan, *, quiet: bool = False) -> Outcome:
    """Bring the planned run to its end, from wherever it is.

    Held if somebody else makes it; UserError if the folder holds something else; RunFailed if the official code ends in
    an error, KeyboardInterrupt if the run is interrupted: the folder then holds all but what came after the last
    checkpoint, and its record says what happened.
    """
    agent = adapters.adapter_of(plan.specification.upstream)
    if not folder.is_held(plan.folder):  # whoever begins a run there has not written its record yet
        refuse_strange_folder(plan)
    with folder.held(plan.folder) as lock, interruptions() as interrupts:
        stands = standing(plan, agent)
        if stands.what == IS_FINISHED:
            return Outcome(plan.folder, stands.earlier, made=False)
        if stands.what == BEGINS:
            folder.clear(plan.folder)
        return held(plan, agent, stands, lock, interrupts, quiet)


def held(
    plan: Plan, agent: Adapter, stands: Standing, lock: int, interrupts: list[float], quiet: bool
) -> Outcome:
    """As carry_out, while the folder is held, its standing known, and every interruption heard."""
    log_name = f"{plan.kind}.log"
    provenance = record.provenance_of(
        plan.patched.provenance(),
        device=plan.device,
        threads=plan.threads,
        compile=plan.compile,
        environment=plan.environment,
    )
    start = record.this_start(plan.command, plan.cwd, provenance, log_name, plan.specification.agent_steps)
    kept = new_record(plan, stands.earlier, provenance, start)
    record.write(plan.folder, kept)
    progress = agent.progress()
    if stands.what == GOES_ON:
        progress.resumed_at = agent.checkpoint_step(plan)
        agent.drop_computed_again(plan, progress.resumed_at)
    else:
        write_config(plan.folder / CONFIG, plan.configured)
    heading = f"--- start {len(kept.starts)}, {start.started}: {plan.command}"
    log = Log(plan.folder / log_name, append=stands.what == GOES_ON, heading=heading)
    display = Display(progress, quiet=quiet)
    for note in stands.notes:
        display.say(f"note: {note}")
    take = progress.take

    def take_and_record(event: Mapping[str, Any]) -> None:
        """The record has the settings as soon as the code has resolved them, and each evaluation once it is made."""
        nonlocal kept
        take(event)
        if event.get("event") == "start":
            kept = kept.changed(settings={**kept.settings, **agent.resolved(plan)})
        elif event.get("event") == "evaluation":
            kept = kept.changed(evaluations=evaluations(plan, agent, stands.earlier, progress, log))
        else:
            return
        record.write(plan.folder, kept)

    progress.take = take_and_record

    def command(channel: int) -> list[str]:
        return agent.child(plan, common_request(plan, provenance, channel))

    try:
        exit_code, interrupted = watch(
            command, plan.cwd, plan.environment, log, progress, display, [lock], agent.patience,
            interrupts,
        )
    except KeyboardInterrupt:
        record.write(plan.folder, kept.ended(INTERRUPTED, INTERRUPTED_CODE))
        raise
    except BaseException as error:
        with contextlib.suppress(OSError):  # such as a full disk, which may be what has happened
            record.write(plan.folder, kept.ended(FAILED, 1, f"the watching process: {error!r}"))
        raise
    finally:
        display.close()
        log.close()
    kept = what_happened(plan, agent, kept, stands.earlier, progress, log)
    if exit_code == 0 and progress.ended:
        short = too_short(plan)
        if short is None:
            kept = kept.ended(FINISHED, 0)
            record.write(plan.folder, kept)
            draw(plan)
            return Outcome(plan.folder, kept)
        failure = RunFailed(short, f"read {log.path}")
    elif interrupted:
        record.write(plan.folder, kept.ended(INTERRUPTED, INTERRUPTED_CODE))
        draw(plan)
        display.say(f"what there is stays in {plan.folder}" + goes_on_hint(plan))
        raise KeyboardInterrupt
    else:
        failure = agent.explained(plan, exit_code, progress, log)
    record.write(plan.folder, kept.ended(FAILED, exit_code or 1, failure.message))
    draw(plan)
    raise failure


def goes_on_hint(plan: Plan) -> str:
    return "; the same command goes on with it" if plan.kind == TRAIN else ""


def common_request(plan: Plan, provenance: record.Provenance, channel: int) -> dict[str, Any]:
    """What every child is told: whom it belongs to, where its events go, and what a line of the curve holds."""
    return {
        "channel": channel,
        "parent": os.getpid(),
        "kind": plan.kind,
        "config": str(plan.folder / CONFIG),
        "curve": str(plan.folder / curve.FILE),
        "chunk": plan.specification.chunk,
        "action_repeat": plan.specification.action_repeat,
        "provenance": provenance.short_hash,
        "protocol": plan.fixed is not None,
    }


def write_request(plan: Plan, request: Mapping[str, Any]) -> str:
    """Write what a child is to do into the run's folder; the path, for its command line."""
    path = plan.folder / REQUEST
    atomic_write(path, json.dumps(request, indent=1) + "\n")
    return str(path)


def write_config(path: Path, configured: Mapping[str, Any]) -> None:
    """The configuration before the code has resolved it; the child replaces it."""
    import yaml

    atomic_write(path, yaml.safe_dump(dict(configured), sort_keys=False))


# ---------------------------------------------------------------------------------------------------- the record


def new_record(
    plan: Plan, earlier: RunRecord | None, provenance: record.Provenance, start: record.Start
) -> RunRecord:
    """run.json as the run starts, or starts again: all earlier starts and their provenances stay."""
    configured = json.loads(json.dumps(dict(plan.configured), default=str))
    fresh = RunRecord(
        schema=record.SCHEMA,
        kind=plan.kind,
        specification=plan.specification,
        configured=configured,
        settings={key: value for key, value in configured.items() if value != "???"},
        protocol_entry=None if plan.fixed is None else plan.fixed.as_json(),
        preset_settings=dict(plan.preset_settings),
        starts=(start,),
        provenances={start.provenance: provenance},
        checkpoint=plan.checkpoint,
        details=json.loads(json.dumps(dict(plan.details), default=str)),
        packages=record.packages(),
    )
    if earlier is None:
        return fresh
    before = tuple(
        one if one.ended else one.model_copy(update={"state": INTERRUPTED}) for one in earlier.starts
    )
    return fresh.changed(
        starts=(*before, start),
        provenances={**earlier.provenances, start.provenance: provenance},
        settings={**earlier.settings, **fresh.settings},
        evaluations=earlier.evaluations,
        timing=earlier.timing,
        details={**earlier.details, **fresh.details},
    )


def what_happened(
    plan: Plan, agent: Adapter, kept: RunRecord, earlier: RunRecord | None, progress: Progress, log: Log
) -> RunRecord:
    """The record with what is known only after the child has ended."""
    found: dict[str, Any] = {
        "settings": {**kept.settings, **agent.resolved(plan)},
        "evaluations": evaluations(plan, agent, earlier, progress, log),
        "details": agent.details(plan, kept),
    }
    if plan.kind == TRAIN and progress.samples:
        found["timing"] = timing_of(progress, earlier)
    if progress.resumed_at is not None:
        last = kept.start.model_copy(update={"resumed_at": progress.resumed_at})
        found["starts"] = (*kept.starts[:-1], last)
    if progress.device:
        device = record.Device(kind=progress.device, name=progress.device_name)
        provenance = kept.provenance.model_copy(update={"device": device})
        # The hash stays the one that the curve's lines name.
        found["provenances"] = {**kept.provenances, kept.start.provenance: provenance}
    return kept.changed(**found)


def evaluations(
    plan: Plan, agent: Adapter, earlier: RunRecord | None, progress: Progress, log: Log
) -> tuple[record.Evaluation, ...]:
    """Those of all starts so far."""
    return tuple(agent.evaluations(plan, earlier.evaluations if earlier else (), progress, log))


def timing_of(progress: Progress, earlier: RunRecord | None) -> record.RunTiming:
    """Wall time over all starts; speeds of this one."""
    now = progress.timing()
    before = earlier.timing if earlier is not None else record.RunTiming()
    for key in ("train_seconds", "evaluation_seconds", "cpu_seconds"):
        if now.get(key) is not None and getattr(before, key) is not None:
            now[key] = round(now[key] + getattr(before, key), 2)
    return record.RunTiming(**now)


def too_short(plan: Plan) -> str | None:
    """Why a protocol's run that came to its end is no whole one; None if it is, or if it is of no protocol."""
    if plan.fixed is None:
        return None
    lines = len(curve.lines_of(plan.folder / curve.FILE))
    if lines == plan.fixed.chunks:
        return None
    return f"the run ended with {lines} lines of {plan.fixed.chunks} in {plan.folder / curve.FILE}."


def draw(plan: Plan) -> None:
    """curve.png of a training run with at least one point. A run does not fail for want of a picture."""
    from tdmpc2_lean.runs import figure

    if plan.kind != TRAIN:
        return
    try:
        figure.draw_run(plan.folder)
    except Exception as error:
        click.echo(f"note: {FIGURE} could not be drawn: {error}", err=True)


def summary(outcome: Outcome) -> list[str]:
    """What is said at the end."""
    kept = outcome.record
    lines = []
    if kept.kind == TRAIN:
        timing, seed = kept.timing, kept.specification.seed
        if not outcome.made:
            lines.append(f"finished already, {kept.start.ended}: nothing to do (overwrite=true makes it anew)")
        else:
            speed = timing.learning_steps_per_second or timing.steps_per_second
            pace = f", {speed:.1f} steps/s while learning" if speed else ""
            times = f" in {len(kept.starts)} starts" if len(kept.starts) > 1 else ""
            took = f" in {duration(kept.seconds)}" if kept.seconds is not None else ""
            lines.append(f"finished{took}{times}{pace} (n=1 run, seed {seed})")
        last = next((one for one in reversed(kept.evaluations) if one.episode_reward is not None), None)
        if last is not None:
            of = f"mean of {last.episodes} episode{'s' * (last.episodes != 1)}" if last.episodes else "mean"
            lines.append(f"return: {last.episode_reward:.1f} at agent step {last.step} ({of})")
        if (outcome.folder / FIGURE).is_file():
            lines.append(f"curve:  {outcome.folder / FIGURE}")
    lines.append(f"folder: {outcome.folder}")
    return lines
