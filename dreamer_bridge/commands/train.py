"""`dreamer-bridge train`: one run of the patched official training."""

from pathlib import Path

import click

from dreamer_bridge.commands.flags import WordsAndFlags


@click.command(cls=WordsAndFlags, options_metavar="[OPTIONS]")
@click.argument("words", nargs=-1, metavar="[KEY=VALUE]... [-- --official.flag VALUE ...]")
@click.option("--allow-local-changes", is_flag=True, help="Use a checkout with local changes; the record says so.")
@click.option("--trust-checkpoint", is_flag=True, help="Load a checkpoint even if you did not make it: executes code.")
@click.option("--dry-run", is_flag=True, help="Print what would be run, and stop.")
@click.option(
    "--multirun", "-m", is_flag=True,
    help="Run all combinations of values such as seed=1,2,3, in turn; finished ones are skipped.",
)
@click.option("--list-presets", is_flag=True, help="List the lean presets with their evidence and cost, and stop.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.pass_obj
def train(flags, words, allow_local_changes, trust_checkpoint, dry_run, multirun, list_presets, quiet):
    """Train the official DreamerV3, patched, on state observations of dm_control, and keep a record of the run.

    \b
      task=NAME          cheetah-run or dmc_cheetah_run
      size=SIZE          size1m (the official default on states), size12m, … size400m
      lean=NAME[,NAME]   presets (see --list-presets); later ones win
      seed=N             determines the run (default 0)
      arm=ARM            full, strip (no loss on the world model's prior), or dyn=0.25, its scale
      rep=alike          scale the loss `rep` like `dyn`; by default it still pulls the posterior to the prior
      chunk=N            env steps of a line of curve.jsonl (default 20000)
      upstream=WHERE     a clone's folder, a commit, tag or branch, or `release`
      patches=NAMES      all (default), none, or names separated by commas
      threads=N          CPU cores the run is bound to (default: OMP_NUM_THREADS, else those usable, at most 4)
      exp_name=NAME      the last part of the folder
      overwrite=true     replace an earlier run in the same folder, instead of going on with it

    Every official key is a word too (run.steps=1000), and after `--` every official flag is handed on as it is;
    --configs there adds to dmc_proprio.

    run.steps counts agent steps, of all environments together; env steps are agent steps x env.dmc.repeat.
    run.train_ratio counts replayed steps per agent step: updates per agent step are
    train_ratio / (batch_size x batch_length). `dreamer-bridge ratio` converts.

    The run's folder is logs/TASK/SEED/EXP_NAME: run.json, the official config.yaml, metrics.jsonl, scores.jsonl
    (env steps) and ckpt/, curve.jsonl, curve.png, train.log. The same command again resumes a run that was stopped,
    killed or failed, from its last checkpoint (every 20,000 agent steps, and when it is stopped by Ctrl-C); with a
    larger run.steps= it extends a finished one. Resumed or extended, it ends with the bits of one that was never
    stopped. One seed gives one result on one machine and number of cores: XLA's bits depend on it.

    Without an accelerator of JAX's, say jax.platform=cpu (lean=smoke does).

    \b
    dreamer-bridge train task=cartpole-balance lean=smoke
    dreamer-bridge train task=cheetah-run lean=paper seed=1
    dreamer-bridge train task=walker-walk size=size12m arm=strip -- --run.steps 1e5 --agent.opt.lr 1e-4
    """
    from dreamer_bridge.adapter import ADAPTER
    from dreamer_bridge.plan import OWN_WORDS
    from tdmpc2_lean.commands import making
    from tdmpc2_lean.errors import UserError
    from tdmpc2_lean.runs.plan import Request

    if list_presets:
        click.echo("\n\n".join(ADAPTER.shelf.described()))
        return 0
    if not words and not flags:
        raise UserError("nothing to train.", "dreamer-bridge train task=cartpole-balance lean=smoke")
    request = Request(
        tuple(words),
        flags=tuple(flags),
        cwd=Path.cwd(),
        allow_local_changes=allow_local_changes,
        trust_checkpoint=trust_checkpoint,
    )
    return making.train(ADAPTER, request, OWN_WORDS, multirun=multirun, dry_run=dry_run, quiet=quiet)
