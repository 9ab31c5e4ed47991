"""Training and evaluation: a patched checkout's own scripts, run in a process of their own and recorded.

    from tdmpc2_lean import training
    outcome = training.train(["task=cartpole-balance", "lean=smoke", "seed=1"])
    outcome.folder, outcome.record["timing"]

Read in this order: `words` (what the user wrote), `presets`, `plan` (all decisions, nothing done yet), `run`
(carries a plan out), `launch` (the child process), `record` (what a run's folder says of it).
"""

from collections.abc import Sequence
from pathlib import Path

from tdmpc2_lean.runs.run import Outcome, RunFailed

__all__ = ["Outcome", "RunFailed", "train"]


def train(
    words: Sequence[str], *, allow_local_changes: bool = False, cwd: Path | None = None, quiet: bool = False
) -> Outcome:
    """One training run, as `tdmpc2-lean train` does it. cwd: where `logs/` is; default: the current folder.

    UserError if it cannot start, RunFailed if it ends in an error, KeyboardInterrupt if it is interrupted; in
    the last two cases the folder stays and its run.json says so.
    """
    from tdmpc2_lean.runs import run
    from tdmpc2_lean.tdmpc2 import plan

    planned = plan.training(words, allow_local_changes=allow_local_changes, cwd=cwd or Path.cwd())
    return run.carry_out(planned, quiet=quiet)
