"""`tdmpc2-lean train`: one run, or a sweep of runs, of the patched official training."""

from pathlib import Path

import click


@click.command(context_settings={"ignore_unknown_options": False})
@click.argument("words", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--allow-local-changes", is_flag=True, help="Use a checkout with local changes; the run's record says so."
)
@click.option("--dry-run", is_flag=True, help="Print what would be run, and stop.")
@click.option(
    "--multirun", "-m", is_flag=True,
    help="Run all combinations of values such as seed=1,2,3, in turn; finished ones are skipped.",
)
@click.option(
    "--list-presets", is_flag=True, help="List the lean presets with their evidence and cost, and stop."
)
@click.option("--quiet", is_flag=True, help="Show no progress.")
def train(words, allow_local_changes, dry_run, multirun, list_presets, quiet):
    """Train the official TD-MPC2, patched, and keep a record of the run.

    Every official setting is a word KEY=VALUE, as in the official `python train.py`. Besides, these words:

    \b
      lean=NAME[,NAME]   presets of cheaper settings (see --list-presets); later ones win
      upstream=WHERE     a clone's folder, a commit, tag or branch, or `miniature`
      patches=NAMES      `all` (default), `none`, or names separated by commas
      threads=N          CPU threads (default: OMP_NUM_THREADS, else the cores usable here, at most 4)
      overwrite=true     replace an earlier run in the same folder, instead of going on with it

    The patches add, among others, device=, utd=, pretrain_updates=, seed_steps=, separate_eval=,
    save_agent_every_eval= and save_video_files=. W&B is off unless wandb_project= is given.

    The run's folder is logs/TASK/SEED/EXP_NAME, where exp_name is the presets' names unless given. It holds
    run.json, config.yaml, curve.jsonl, eval.csv (steps are agent steps), train.log, models/, checkpoint.pt and
    curve.png. The same command again goes on with a run that was stopped or killed, from its last checkpoint (every
    checkpoint_minutes=, 2 by default); with a larger steps= it extends a finished one.

    \b
    tdmpc2-lean train task=cartpole-balance lean=smoke
    tdmpc2-lean train task=cheetah-run lean=fast seed=1 steps=500_000
    tdmpc2-lean train task=walker-walk lean=fast seed=1,2,3 --multirun
    """
    from tdmpc2_lean.commands import making
    from tdmpc2_lean.errors import UserError
    from tdmpc2_lean.runs.plan import Request
    from tdmpc2_lean.runs.words import OWN_WORDS
    from tdmpc2_lean.tdmpc2.adapter import ADAPTER

    if list_presets:
        click.echo("\n\n".join(ADAPTER.shelf.described()))
        return 0
    if not words:
        raise UserError("nothing to train.", "tdmpc2-lean train task=cartpole-balance lean=smoke")
    request = Request(tuple(words), cwd=Path.cwd(), allow_local_changes=allow_local_changes)
    return making.train(ADAPTER, request, tuple(OWN_WORDS), multirun=multirun, dry_run=dry_run, quiet=quiet)
