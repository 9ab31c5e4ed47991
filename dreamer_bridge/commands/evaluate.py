"""`dreamer-bridge evaluate`: the official evaluation of a checkpoint, by the patched official code."""

from pathlib import Path

import click

from dreamer_bridge.commands.flags import WordsAndFlags


@click.command(cls=WordsAndFlags, options_metavar="[OPTIONS]")
@click.argument("words", nargs=-1, metavar="checkpoint=FOLDER [KEY=VALUE]... [-- --official.flag VALUE ...]")
@click.option("--trust-checkpoint", is_flag=True, help="Load a checkpoint even if you did not make it: executes code.")
@click.option("--allow-local-changes", is_flag=True, help="Use a checkout with local changes; the record says so.")
@click.option("--dry-run", is_flag=True, help="Print what would be run, and stop.")
@click.option("--quiet", is_flag=True, help="Print the result only.")
@click.pass_obj
def evaluate(flags, words, trust_checkpoint, allow_local_changes, dry_run, quiet):
    """Evaluate a checkpoint with the official script eval_only: mean return, spread and number of episodes.

    \b
      checkpoint=FOLDER  a run's folder for its last checkpoint, or one in its ckpt/
      episodes=N         how many (default 10)
      seed=N             of the environment and of the agent's own draws (default: the run's)
      task=NAME          default: the run's
      size= lean= upstream= patches= threads= exp_name=   as for `train`

    Of a checkpoint in a training run's folder, task, seed, code and settings are those of that run, unless given, and
    what has other versions now (MuJoCo, JAX, …) is said. Of any other, name the task and what its agent was made with.

    The agent acts as the official code has it: its actions are drawn from its policy, not its mean. One environment
    acts, so that short episodes are not preferred.

    A checkpoint is a folder of pickles, and loading those executes what they say: one that you did not make is refused,
    unless --trust-checkpoint. The record goes to logs/TASK/SEED/evaluation-N.

    \b
    dreamer-bridge evaluate checkpoint=logs/dmc_cartpole_balance/0/smoke
    dreamer-bridge evaluate checkpoint=logs/dmc_walker_walk/1/paper episodes=30 seed=7
    dreamer-bridge evaluate checkpoint=theirs task=walker-walk size=size12m env.dmc.repeat=2 --trust-checkpoint
    """
    from dreamer_bridge.adapter import ADAPTER
    from tdmpc2_lean.commands import making
    from tdmpc2_lean.runs.plan import EVALUATE, Request

    request = Request(
        tuple(words),
        flags=tuple(flags),
        kind=EVALUATE,
        cwd=Path.cwd(),
        allow_local_changes=allow_local_changes,
        trust_checkpoint=trust_checkpoint,
    )
    return making.evaluate(ADAPTER, request, dry_run=dry_run, quiet=quiet)
