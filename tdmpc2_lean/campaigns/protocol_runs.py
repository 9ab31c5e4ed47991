"""The runs of protocols: names into jobs, and a job into a plan in its folder below the folder of the runs.

    RUNS/<protocol>/<variant>/seed-<n>/       <variant>: `default`, or the presets' names joined by `+`
        logs/…                                the official code's own folder; what else is there: see `runs.folder`
"""

from collections.abc import Sequence
from pathlib import Path

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean
from tdmpc2_lean.runs import presets as lean
from tdmpc2_lean.runs.adapter import Adapter, adapter_of
from tdmpc2_lean.runs.folder import folder_of
from tdmpc2_lean.runs.jobs import Job
from tdmpc2_lean.runs.plan import Conditions, Plan, Request
from tdmpc2_lean.validation.judging import criteria, protocols
from tdmpc2_lean.validation.judging.protocols import Protocol


def jobs(
    names: Sequence[str],
    out: Path,
    *,
    seeds: Sequence[int] | None = None,
    presets: Sequence[str] = (),
    conditions: Conditions | None = None,
) -> list[Job]:
    """The runs that names stand for: of protocols, or of a criterion for all of its protocols.

    seeds: by default each protocol's own. UserError for a name, a seed or a preset that there is not, before any run.
    """
    conditions = conditions or Conditions()
    found: dict[tuple[str, int], Job] = {}
    for name in names:
        for protocol in named(name):
            if presets:
                settings_of(adapter_of(protocol.agent), presets, protocol)
            for seed in seeds_of(protocol, seeds):
                found[protocol.name, seed] = job(protocol, seed, out, presets, conditions)
    return list(found.values())


def job(
    protocol: Protocol, seed: int, out: Path, presets: Sequence[str] = (), conditions: Conditions | None = None
) -> Job:
    """One run of a protocol."""
    return Job(
        f"{protocol.name}, seed {seed}", lambda: plan(protocol, seed, out, presets, conditions or Conditions())
    )


def plan(protocol: Protocol, seed: int, out: Path, presets: Sequence[str], conditions: Conditions) -> Plan:
    """The run as its upstream's adapter decides it. UserError if it cannot be made."""
    if protocol.missing:
        raise UserError(f"{protocol.name} cannot be run: {protocol.missing}.", "tdmpc2-lean validate list")
    adapter = adapter_of(protocol.agent)
    preset_settings = settings_of(adapter, presets, protocol)
    folder = folder_of(out, protocol.name, presets, seed).resolve()
    return adapter.plan(
        Request(
            tuple(adapter.words_of(protocol, seed, presets, preset_settings, conditions, folder)),
            cwd=folder,
            folder=folder,
            allow_local_changes=conditions.allow_local_changes,
            fixed=protocol,
            preset_settings=preset_settings,
        )
    )


def settings_of(adapter: Adapter, presets: Sequence[str], protocol: Protocol) -> dict:
    """What lean presets make of a protocol's settings. UserError if they touch what the protocol fixes."""
    chosen = [adapter.shelf.find(name) for name in presets]
    for preset in chosen:
        touched = [key for key in preset.keys() if key in protocols.FIXED]
        if touched:
            raise UserError(
                f"the preset {preset.name!r} sets {', '.join(touched)}, which the protocol fixes.",
                f"name another preset: {adapter.shelf.listing}",
            )
    return lean.compose(chosen, {**protocol.defaults, **protocol.settings})


def seeds_of(protocol: Protocol, seeds: Sequence[int] | None) -> Sequence[int]:
    """The protocol's seeds, or some of them. UserError for one that it does not have."""
    strange = [seed for seed in seeds or () if seed not in protocol.seeds]
    if strange:
        raise UserError(
            f"the seeds of {protocol.name} are {', '.join(map(str, protocol.seeds))}, not {strange[0]}.",
            "chosen seeds are never judged; leave --seeds away, or name some of those",
        )
    return seeds or protocol.seeds


def named(name: str) -> list[Protocol]:
    """The protocols that a name stands for. UserError, with the nearest, for one that stands for none."""
    known = criteria.criteria()
    if name in known:
        of = known[name]
        found = [protocols.protocol(protocols.name_of(of.agent, task, of.physics)) for task in of.tasks]
    elif name in protocols.registry():
        found = [protocols.protocol(name)]
    else:
        names = [*protocols.registry(), *known]
        raise UserError(f"There is no protocol {name!r}.{did_you_mean(name, names)}", "tdmpc2-lean validate list")
    for protocol in found:
        if protocol.missing:
            raise UserError(f"{protocol.name} cannot be run: {protocol.missing}.", "tdmpc2-lean validate list")
    return found
