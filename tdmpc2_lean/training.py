"""Training from Python, as the commands do it.

    from tdmpc2_lean import training
    outcome = training.train(["task=cartpole-balance", "lean=smoke", "seed=1"])
    outcome.folder, outcome.last_return, outcome.record.timing
"""

from collections.abc import Sequence
from pathlib import Path

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import making
from tdmpc2_lean.runs.adapter import adapter_of
from tdmpc2_lean.runs.making import Outcome
from tdmpc2_lean.runs.plan import EVALUATE, TRAIN, Request
from tdmpc2_lean.runs.watching import RunFailed

__all__ = ["Outcome", "RunFailed", "evaluate", "train"]


def train(
    words: Sequence[str],
    *,
    upstream: str = "tdmpc2",
    flags: Sequence[str] = (),
    allow_local_changes: bool = False,
    trust_checkpoint: bool = False,
    cwd: Path | None = None,
    quiet: bool = False,
) -> Outcome:
    """One training run, brought to its end from wherever it is, as `tdmpc2-lean train` or `dreamer-bridge train` do.

    upstream: `tdmpc2` or `dreamerv3`. cwd: where `logs/` is; default: the current folder.

    UserError if it cannot start, RunFailed if it ends in an error, KeyboardInterrupt if it is interrupted; in the last
    two cases the folder stays, its run.json says so, and the same call goes on with the run.
    """
    return made(TRAIN, words, upstream, flags, allow_local_changes, trust_checkpoint, cwd, quiet)


def evaluate(
    words: Sequence[str],
    *,
    upstream: str = "tdmpc2",
    flags: Sequence[str] = (),
    allow_local_changes: bool = False,
    trust_checkpoint: bool = False,
    cwd: Path | None = None,
    quiet: bool = False,
) -> Outcome:
    """The official evaluation of a checkpoint, as `evaluate` of the commands does it; raises as `train` does."""
    return made(EVALUATE, words, upstream, flags, allow_local_changes, trust_checkpoint, cwd, quiet)


def made(kind, words, upstream, flags, allow_local_changes, trust_checkpoint, cwd, quiet) -> Outcome:
    if isinstance(words, str):
        raise UserError(f"the words of a run are one text, {words!r}.", f"give a list: {words.split()!r}")
    request = Request(
        tuple(words),
        flags=tuple(flags),
        kind=kind,
        cwd=cwd or Path.cwd(),
        allow_local_changes=allow_local_changes,
        trust_checkpoint=trust_checkpoint,
    )
    return making.carry_out(adapter_of(upstream).plan(request), quiet=quiet)
