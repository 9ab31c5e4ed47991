"""`tdmpc2-lean evaluate`: the official evaluation of a checkpoint, by the patched official code."""

from pathlib import Path

import click


@click.command()
@click.argument("words", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--trust-checkpoint", is_flag=True, help="Load the file even if that executes code from it.")
@click.option(
    "--allow-local-changes", is_flag=True, help="Use a checkout with local changes; the record says so."
)
@click.option("--dry-run", is_flag=True, help="Print what would be run, and stop.")
@click.option("--quiet", is_flag=True, help="Print the result only.")
def evaluate(words, trust_checkpoint, allow_local_changes, dry_run, quiet):
    """Evaluate a checkpoint with the official evaluate.py.

    Words are official settings, KEY=VALUE, and lean=, upstream=, patches=, threads= as for `train`. Of a
    checkpoint in a training run's folder, task, seed, code and settings are those of that run, unless given.

    A checkpoint is loaded as data: a file that would execute code is refused, unless --trust-checkpoint.
    Videos are written only with save_video=true. The record goes to logs/TASK/SEED/evaluation-N.

    \b
    tdmpc2-lean evaluate checkpoint=logs/cartpole-balance/1/smoke/models/final.pt
    tdmpc2-lean evaluate checkpoint=dog-1.pt task=dog-run model_size=5 eval_episodes=20
    """
    from tdmpc2_lean.commands import making
    from tdmpc2_lean.runs.plan import EVALUATE, Request
    from tdmpc2_lean.tdmpc2.adapter import ADAPTER

    request = Request(
        tuple(words),
        kind=EVALUATE,
        cwd=Path.cwd(),
        allow_local_changes=allow_local_changes,
        trust_checkpoint=trust_checkpoint,
    )
    return making.evaluate(ADAPTER, request, dry_run=dry_run, quiet=quiet)
