"""Many runs, one after another: of a sweep, of a protocol. One that fails keeps none of the others from being made.

A finished run is skipped, and one that somebody else makes is passed over; so the same command again makes what is
missing, and on several machines that share the folder it divides the work.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import making
from tdmpc2_lean.runs.folder import Held
from tdmpc2_lean.runs.making import Outcome
from tdmpc2_lean.runs.plan import Plan

MADE, SKIPPED, ELSEWHERE, FAILED = "finished", "was finished", "held by another", "failed"


@dataclass(frozen=True)
class Job:
    """One run to be made. label: for people. plan: decides the run, when its turn comes; may raise UserError."""

    label: str
    plan: Callable[[], Plan]


@dataclass(frozen=True)
class JobResult:
    """What became of a job. outcome: of one that is finished. told: what the user was told otherwise."""

    job: Job
    became: str
    outcome: Outcome | None = None
    told: str = ""


def run_all(
    jobs: Sequence[Job], *, quiet: bool = False, tell: Callable[[str], None] = print, show_plans: bool = False
) -> list[JobResult]:
    """Make the runs in turn. Of a single job, what it ends with is raised; an interruption always is."""
    results: list[JobResult] = []
    for number, job in enumerate(jobs, 1):
        which = f"run {number} of {len(jobs)}, " if len(jobs) > 1 else ""
        try:
            plan = job.plan()
            tell(f"{which}{job.label}: {plan.folder}")
            if show_plans:
                tell("\n".join(plan.lines()))
            outcome = making.carry_out(plan, quiet=quiet)
            result = JobResult(job, MADE if outcome.made else SKIPPED, outcome)
            said = "\n".join(making.summary(outcome)) if show_plans else result.became
        except Held as held:
            if len(jobs) == 1:
                raise
            result, said = JobResult(job, ELSEWHERE, told=held.message), held.message
        except (UserError, OSError) as failure:  # the latter of a disk that is full or gone
            if len(jobs) == 1:
                raise
            result, said = JobResult(job, FAILED, told=str(failure)), f"failed: {failure}"
        results.append(result)
        tell(said if show_plans else f"{job.label}: {said}")
    return results


def counted(results: Sequence[JobResult]) -> str:
    """'2 finished; 1 failed'."""
    kinds = [result.became for result in results]
    return "; ".join(f"{kinds.count(kind)} {kind}" for kind in (MADE, SKIPPED, ELSEWHERE, FAILED) if kind in kinds)


def table(results: Sequence[JobResult]) -> list[str]:
    """A line for each job of a sweep: what became of it, its last return with n, and its speed."""
    width = max(len(result.job.label) for result in results)
    lines = []
    for result in results:
        line = f"{result.job.label:<{width}}  {result.became:<15}"
        if result.outcome is not None:
            value, timing = result.outcome.last_return, result.outcome.record.timing
            speed = timing.learning_steps_per_second or timing.steps_per_second
            line += f"  return {value:.1f}" if value is not None else "  no return"
            line += f"  {speed:.1f} steps/s" if speed else ""
        elif result.told:
            line += f"  {result.told.splitlines()[0]}"
        lines.append(line.rstrip())
    return lines


def folders(results: Sequence[JobResult]) -> list[Path]:
    """Those of the runs that are finished."""
    return [result.outcome.folder for result in results if result.outcome is not None]
