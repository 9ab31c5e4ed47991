"""`tdmpc2-lean demo`: what a newcomer runs first."""

from pathlib import Path

import click


@click.command()
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("demo"), show_default=True)
@click.option("--checkout", metavar="WHERE", help="A folder, a commit of the official code, or `miniature`.")
def demo(out, checkout):
    """Obtain the official TD-MPC2, patch it, prove the patches, train two settings side by side.

    Takes under five minutes on two CPU cores. Without the official code and without a network it says so and
    continues on `miniature`, a small checkout of our own. Leaves gates.json, curve.png and both runs in --out.
    """
    from tdmpc2_lean import demo as stages

    return stages.demo(out, checkout, lambda line: click.echo(line))
