"""Whether a folder's run begins, goes on or is finished, when a plan for it is to be carried out.

The same command again goes on with a run that was stopped, and leaves a finished one alone; a larger budget extends
it. Another specification is refused, and what differs is named.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import curve, folder, record
from tdmpc2_lean.runs.adapter import Adapter
from tdmpc2_lean.runs.plan import EVALUATE, Plan
from tdmpc2_lean.runs.record import FAILED, FINISHED, INTERRUPTED, RunRecord
from tdmpc2_lean.runs.specification import flattened
from tdmpc2_lean.versions import changed, versions

BEGINS, GOES_ON, IS_FINISHED = "begins", "goes on", "is finished"
# What a run's code must not change between its starts.
OF_THE_CODE = ("upstream", "commit", "tree", "release", "patches", "local_changes", "patched_tree")
OF_THE_SPECIFICATION = (
    "upstream", "source", "tasks", "regime", "arm", "seed", "action_repeat", "chunk", "protocol",
)  # fmt: skip


@dataclass(frozen=True)
class Standing:
    """What the folder's run is before it is made. earlier: its record, if it has one. notes: for the user."""

    what: str
    earlier: RunRecord | None = None
    notes: tuple[str, ...] = ()


def refuse_strange_folder(plan: Plan) -> None:
    """UserError, before anything is touched, for a folder that is a file or holds what is no run's."""
    if plan.folder.exists() and not plan.folder.is_dir():
        raise UserError(f"{plan.folder} is a file.", f"choose another {name_word(plan)}")
    if not folder.is_empty(plan.folder) and not folder.is_run(plan.folder):
        raise UserError(
            f"{plan.folder} holds files that are no run's; they are not touched.", f"choose another {name_word(plan)}"
        )


def standing(plan: Plan, agent: Adapter) -> Standing:
    """Whether the run begins, goes on or is finished. UserError, naming what differs, if the folder holds another.

    A finished run whose budget is raised goes on. One that failed before its first step gives way to any other.
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
    if earlier.kind == plan.kind == EVALUATE and earlier.state != FINISHED:
        return Standing(BEGINS)
    if plan.kind == EVALUATE or earlier.kind != plan.kind:
        raise UserError(
            f"{plan.folder} already holds a run ({earlier.kind}, {earlier.state}).", f"choose another {name_word(plan)}"
        )
    step = agent.checkpoint_step(plan)
    differ = differing(earlier, plan, agent)
    then, now = earlier.specification.agent_steps, plan.specification.agent_steps
    never_began = earlier.state in (FAILED, INTERRUPTED) and step is None and not started(plan, earlier)
    if never_began and (differ or now < then):
        return Standing(BEGINS)
    if differ:
        raise UserError(
            f"{plan.folder} holds a run of another specification; these differ: {'; '.join(differ)}.",
            another(plan, "type that run's command to go on with it, or "),
        )
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
    return Standing(GOES_ON, earlier, tuple(notes_on(earlier, then, now, step, agent)))


def notes_on(earlier: RunRecord, then: int, now: int, step: int | None, agent: Adapter) -> list[str]:
    """What the user should know of a run that goes on. then, now: its budgets. step: of its checkpoint."""
    notes = []
    if now > then:
        but = f"; {agent.of_raised_budget}" if agent.of_raised_budget else ""
        notes.append(f"the budget is raised from {then:,} to {now:,} agent steps{but}")
    elif step is None:
        notes.append("nothing was saved before the run was stopped: it begins anew, and gives the same bits")
    others = changed(earlier.provenance.versions, versions())
    if others:
        notes.append(
            f"the run was made with other versions than are installed: {'; '.join(others)}; "
            "what it computes from here need not be what they would have computed"
        )
    return notes


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
        f"code {key} ({differing_patches(code.get(key), present.get(key))})"
        if key == "patches"
        else said(f"code {key}", code.get(key), present.get(key))
        for key in OF_THE_CODE
        if code.get(key) != present.get(key)
    ]
    before, after = compared(earlier, plan, agent)
    found += [
        said(key, before.get(key), after.get(key))
        for key in dict.fromkeys([*before, *after])
        if not same(before.get(key), after.get(key))
    ]
    return found[:10] + ([f"and {len(found) - 10} more"] if len(found) > 10 else [])


def differing_patches(then: Any, now: Any) -> str:
    """'device, utd': the names of the patches that are not the same."""
    before, after = (
        {str(one.get("name")): one.get("sha256") for one in patches or [] if isinstance(one, dict)}
        for patches in (then, now)
    )
    names = [name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)]
    return ", ".join(names) or "their order"


def compared(earlier: RunRecord, plan: Plan, agent: Adapter) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The settings that decide what is computed, then and now; of older records as far as they say."""
    if earlier.configured:
        return agent.deciding(earlier.configured), agent.deciding(plan.configured)
    if earlier.protocol_entry is not None and plan.fixed is not None:
        entries = (
            (earlier.protocol_entry, earlier.preset_settings),
            (json.loads(json.dumps(plan.fixed.as_json())), plan.preset_settings),
        )
        return tuple(
            {**flattened(entry), **flattened({"preset_settings": dict(presets)})} for entry, presets in entries
        )
    return agent.deciding(earlier.specification.overrides), agent.deciding(plan.specification.overrides)


def said(key: str, then: Any, now: Any) -> str:
    return f"{key} ({record.shortened(then, 40)}, now {record.shortened(now, 40)})"


def same(one: Any, other: Any) -> bool:
    """Whether two settings say the same; numbers by their value, and as JSON has them."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    return json.dumps(one, default=str) == json.dumps(other, default=str)
