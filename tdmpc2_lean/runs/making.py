"""The one way in which a run is made: held, begun or gone on with, watched to its end, recorded.

Every command that makes runs (`train`, `evaluate`, `validate run`, sweeps, jobs of Hydra's) makes a plan by an
upstream's adapter and hands it to `carry_out`. Whether the folder's run begins, goes on, is extended or is finished
already is decided here, in `standing`.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.files import atomic_write
from tdmpc2_lean.runs import adapter as adapters
from tdmpc2_lean.runs import curve, folder, record
from tdmpc2_lean.runs.adapter import Adapter
from tdmpc2_lean.runs.plan import EVALUATE, TRAIN, Plan
from tdmpc2_lean.runs.progress import Display, duration
from tdmpc2_lean.runs.record import FAILED, FINISHED, INTERRUPTED, RunRecord
from tdmpc2_lean.runs.watching import Log, RunFailed, watch

INTERRUPTED_CODE = 130
REQUEST, CONFIG, FIGURE = "request.json", "config.yaml", "curve.png"
BEGINS, GOES_ON, IS_FINISHED = "begins", "goes on", "is finished"
# What a run's code must not change between its starts.
OF_THE_CODE = ("upstream", "commit", "tree", "release", "patches", "local_changes", "patched_tree")
OF_THE_SPECIFICATION = (
    "upstream", "source", "tasks", "regime", "arm", "seed", "action_repeat", "chunk", "protocol",
)  # fmt: skip


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


@dataclass(frozen=True)
class Standing:
    """What the folder's run is before it is made. earlier: its record, if it has one. note: for the user."""

    what: str
    earlier: RunRecord | None = None
    note: str = ""


def carry_out(plan: Plan, *, quiet: bool = False) -> Outcome:
    """Bring the planned run to its end, from wherever it is.

    Held if somebody else makes it; UserError if the folder holds something else; RunFailed if the official code ends in
    an error, KeyboardInterrupt if the run is interrupted: the folder then holds all but what came after the last
    checkpoint, and its record says what happened.
    """
    agent = adapters.adapter_of(plan.specification.upstream)
    refuse_strange_folder(plan)
    with folder.held(plan.folder) as lock:
        stands = standing(plan, agent)
        if stands.what == IS_FINISHED:
            return Outcome(plan.folder, stands.earlier, made=False)
        if stands.what == BEGINS and not folder.is_empty(plan.folder):
            folder.clear(plan.folder)
        return held(plan, agent, stands, lock, quiet)


def held(plan: Plan, agent: Adapter, stands: Standing, lock: int, quiet: bool) -> Outcome:
    """As carry_out, while the folder is held and its standing known."""
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
    if stands.what == GOES_ON:
        agent.drop_computed_again(plan, agent.checkpoint_step(plan))
    else:
        write_config(plan.folder / CONFIG, plan.configured)
    record.write(plan.folder, kept)
    heading = f"--- start {len(kept.starts)}, {start.started}: {plan.command}"
    log = Log(plan.folder / log_name, append=stands.what == GOES_ON, heading=heading)
    progress = agent.progress()
    display = Display(progress, quiet=quiet)
    if stands.note:
        display.say(f"note: {stands.note}")
    take = progress.take

    def take_and_record(event: Mapping[str, Any]) -> None:
        """The record has the settings as soon as the code has resolved them."""
        nonlocal kept
        take(event)
        if event.get("event") == "start":
            kept = kept.changed(settings={**kept.settings, **agent.resolved(plan)})
            record.write(plan.folder, kept)

    progress.take = take_and_record

    def command(channel: int) -> list[str]:
        return agent.child(plan, common_request(plan, provenance, channel))

    try:
        exit_code, interrupted = watch(
            command, plan.cwd, plan.environment, log, progress, display, [lock], agent.patience
        )
    except BaseException as error:
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


# ------------------------------------------------------------------------------- begins, goes on, or is finished


def refuse_strange_folder(plan: Plan) -> None:
    """UserError, before anything is touched, for a folder that is a file or holds what is no run's."""
    if plan.folder.exists() and not plan.folder.is_dir():
        raise UserError(f"{plan.folder} is a file.", "choose another exp_name=")
    if not folder.is_empty(plan.folder) and not folder.is_run(plan.folder):
        raise UserError(
            f"{plan.folder} holds files that are no run's; they are not touched.", "choose another exp_name="
        )


def standing(plan: Plan, agent: Adapter) -> Standing:
    """Whether the run begins, goes on or is finished. UserError, naming what differs, if the folder holds another.

    A finished run whose budget is raised goes on. A run that failed before its first step is as if it had not been.
    """
    refuse_strange_folder(plan)
    if plan.overwrite or folder.is_empty(plan.folder):
        return Standing(BEGINS)
    if not (plan.folder / record.FILE).is_file():
        raise UserError(
            f"{plan.folder} already holds files of a run that has no {record.FILE}; nothing was touched.",
            f"choose another {name_word(plan)}, or write overwrite=true to replace it",
        )
    earlier = record.read(plan.folder)
    if plan.kind == EVALUATE or earlier.kind != plan.kind:
        raise UserError(
            f"{plan.folder} already holds a run ({earlier.kind}, {earlier.state}).", "choose another exp_name="
        )
    step = agent.checkpoint_step(plan)
    if earlier.state == FAILED and step is None and not started(plan, earlier):
        return Standing(BEGINS)
    differ = differing(earlier, plan, agent)
    if differ:
        raise UserError(
            f"{plan.folder} holds a run of another specification; these differ: {'; '.join(differ)}.",
            another(plan, "type that run's command to go on with it, or "),
        )
    then, now = earlier.specification.agent_steps, plan.specification.agent_steps
    if now < then:
        raise UserError(
            f"{plan.folder} holds a run of {then:,} agent steps, and {now:,} are asked for.",
            another(plan, "a budget can only be raised; "),
        )
    if earlier.state == FINISHED and now == then:
        return Standing(IS_FINISHED, earlier)
    if earlier.state == FINISHED and step is None:
        raise UserError(
            f"{plan.folder} holds a finished run of {then:,} agent steps without a checkpoint to go on from.",
            another(plan, ""),
        )
    note = ""
    if now > then:
        note = (
            f"the budget is raised from {then:,} to {now:,} agent steps; where the replay had dropped steps before, "
            "this is not bit for bit the run that had the budget from the start"
        )
    elif step is None:
        note = "nothing was saved before the run was stopped: it begins anew, and gives the same bits"
    return Standing(GOES_ON, earlier, note)


def name_word(plan: Plan) -> str:
    return "--out" if plan.fixed is not None else "exp_name="


def another(plan: Plan, before: str) -> str:
    """The next step for whoever wants another run than the folder's."""
    if plan.fixed is not None:
        return f"{before}choose another --out, or move that folder away"
    return f"{before}choose another exp_name=, or write overwrite=true to replace it"


def started(plan: Plan, earlier: RunRecord) -> bool:
    """Whether the earlier run got to its first step."""
    return bool(earlier.timing.steps) or bool(curve.lines_of(plan.folder / curve.FILE))


def differing(earlier: RunRecord, plan: Plan, agent: Adapter) -> list[str]:
    """In what the folder's run differs from the plan: 'seed (1, now 2)'."""
    there, now = earlier.specification, plan.specification
    found = [
        said(key, getattr(there, key), getattr(now, key))
        for key in OF_THE_SPECIFICATION
        if getattr(there, key) != getattr(now, key)
    ]
    code, present = earlier.code, json.loads(json.dumps(plan.patched.provenance(), default=str))
    found += [
        f"code {key}" if key == "patches" else said(f"code {key}", code.get(key), present.get(key))
        for key in OF_THE_CODE
        if code.get(key) != present.get(key)
    ]
    if earlier.configured:
        before, after = agent.deciding(earlier.configured), agent.deciding(plan.configured)
        found += [
            said(key, before.get(key), after.get(key))
            for key in dict.fromkeys([*before, *after])
            if not same(before.get(key), after.get(key))
        ]
    return found[:10] + ([f"and {len(found) - 10} more"] if len(found) > 10 else [])


def said(key: str, then: Any, now: Any) -> str:
    return f"{key} ({record.shortened(then, 40)}, now {record.shortened(now, 40)})"


def same(one: Any, other: Any) -> bool:
    """Whether two settings say the same; numbers by their value, and as JSON has them."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    return json.dumps(one, default=str) == json.dumps(other, default=str)


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
    plan: Plan, agent: Adapter, kept: RunRecord, earlier: RunRecord | None, progress, log: Log
) -> RunRecord:
    """The record with what is known only after the child has ended."""
    found: dict[str, Any] = {
        "settings": {**kept.settings, **agent.resolved(plan)},
        "evaluations": tuple(agent.evaluations(plan, earlier.evaluations if earlier else (), progress, log)),
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


def timing_of(progress, earlier: RunRecord | None) -> record.Timing:
    """Wall time over all starts; speeds of this one."""
    now = progress.timing()
    before = earlier.timing if earlier is not None else record.Timing()
    for key in ("train_seconds", "evaluation_seconds", "cpu_seconds"):
        if now.get(key) is not None and getattr(before, key) is not None:
            now[key] = round(now[key] + getattr(before, key), 2)
    return record.Timing(**now)


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
