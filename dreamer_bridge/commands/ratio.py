"""`dreamer-bridge ratio`: what a train ratio means, and which one makes so many updates."""

import click

from tdmpc2_lean.errors import UserError


@click.command()
@click.argument("train_ratio", type=float, required=False)
@click.option("--updates", type=float, metavar="N", help="Updates per agent step; the ratio is computed.")
@click.option("--batch-size", type=int, default=16, show_default=True)
@click.option("--batch-length", type=int, default=64, show_default=True)
@click.option("--repeat", type=int, default=1, show_default=True, help="Env steps per agent step (env.dmc.repeat).")
def ratio(train_ratio, updates, batch_size, batch_length, repeat):
    """Convert TRAIN_RATIO into updates per step, or updates per agent step into a train ratio.

    The official run.train_ratio counts replayed steps per agent step (per decision of an environment, not per env
    step): updates per agent step are train_ratio / (batch_size * batch_length). The number of environments does not
    matter.

    \b
    dreamer-bridge ratio 512 --repeat 2        0.5 updates per agent step, 0.25 per env step
    dreamer-bridge ratio --updates 1           train ratio 1024
    """
    from dreamer_bridge.ratio import Ratio, of_updates

    if (train_ratio is None) == (updates is None):
        raise UserError("give a train ratio or --updates, one of both.", "dreamer-bridge ratio 512 --repeat 2")
    shape = (batch_size, batch_length, repeat)
    found = Ratio(train_ratio, *shape) if updates is None else of_updates(updates, *shape)
    click.echo(found.line())
