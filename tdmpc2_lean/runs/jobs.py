"""Many runs, one after another. The same command on several machines that share the folder divides the work.

Each run is held by whoever makes it; a run that somebody else holds is passed over, and a finished one is skipped.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean
from tdmpc2_lean.runs import folder as folders
from tdmpc2_lean.runs.making import Surroundings, make
from tdmpc2_lean.runs.run import RunFailed
from tdmpc2_lean.validation.judging import criteria, protocols
from tdmpc2_lean.validation.judging.protocols import Protocol

MADE, SKIPPED, ELSEWHERE, FAILED = "finished", "was finished", "held by another", "failed"


@dataclass(frozen=True)
class Job:
    """One run to be made."""

    protocol: Protocol
    seed: int


def jobs(names: Sequence[str], seeds: Sequence[int] | None = None) -> list[Job]:
    """The runs that names stand for: of protocols, or of a criterion for all of its protocols.

    seeds: by default each protocol's own.
    """
    found: list[Job] = []
    for name in names:
        for protocol in named(name):
            if protocol.missing:
                raise UserError(f"{protocol.name} cannot be run: {protocol.missing}.", "tdmpc2-lean validate list")
            strange = [seed for seed in seeds or () if seed not in protocol.seeds]
            if strange:
                raise UserError(
                    f"the seeds of {protocol.name} are {', '.join(map(str, protocol.seeds))}, not {strange[0]}.",
                    "chosen seeds are never judged; leave --seeds away, or name some of those",
                )
            found += [Job(protocol, seed) for seed in seeds or protocol.seeds]
    return list({(job.protocol.name, job.seed): job for job in found}.values())


def named(name: str) -> list[Protocol]:
    """The protocols that a name stands for. UserError, with the nearest, for one that stands for none."""
    known = criteria.criteria()
    if name in known:
        of = known[name]
        return [protocols.protocol(protocols.name_of(of.agent, task, of.physics)) for task in of.tasks]
    if name not in protocols.registry():
        names = [*protocols.registry(), *known]
        raise UserError(f"There is no protocol {name!r}.{did_you_mean(name, names)}", "tdmpc2-lean validate list")
    return [protocols.protocol(name)]


def run(
    todo: Sequence[Job],
    out: Path,
    presets: Sequence[str] = (),
    surroundings: Surroundings | None = None,
    quiet: bool = False,
    tell: Callable[[str], None] = print,
) -> dict[str, list[Job]]:
    """Make the runs in turn; what became of them: MADE, SKIPPED, ELSEWHERE and FAILED -> jobs.

    A run that fails does not keep the others from being made. Of a single run, what it ends with is raised.
    """
    became: dict[str, list[Job]] = {outcome: [] for outcome in (MADE, SKIPPED, ELSEWHERE, FAILED)}
    for job in todo:
        label = f"{job.protocol.name}, seed {job.seed}"
        tell(f"{label}: {folders.folder_of(out, job.protocol.name, presets, job.seed)}")
        try:
            outcome = MADE if make(job.protocol, job.seed, out, presets, surroundings, quiet) else SKIPPED
            said = outcome
        except folders.Held as held:
            if len(todo) == 1:
                raise
            outcome, said = ELSEWHERE, held.message
        except RunFailed as failure:
            if len(todo) == 1:
                raise
            outcome, said = FAILED, f"failed: {failure}"
        became[outcome].append(job)
        tell(f"{label}: {said}")
    return became
