"""`tdmpc2-lean references`: list the published curves, show one, and extract them from the authors' files."""

from pathlib import Path

import click

from tdmpc2_lean import references as published


@click.group()
def references():
    """List, show and extract the curves that the authors published.

    \b
    tdmpc2-lean references list
    tdmpc2-lean references show cheetah-run
    """


@references.command("list")
@click.argument("name", required=False)
def list_references(name: str | None) -> None:
    """List the references, or with NAME say all about one: source, protocol, notes and tasks.

    \b
    tdmpc2-lean references list
    tdmpc2-lean references list tdmpc2_dmc
    """
    if name is not None:
        _describe(published.load(name))
        return
    rows = [("NAME", "TASKS", "SEEDS", "ENV STEPS", "FILES")]
    for reference in map(published.load, published.names()):
        curves = [reference.curve(task) for task in reference.tasks]
        first, last = min(int(c.steps[0]) for c in curves), max(int(c.steps[-1]) for c in curves)
        commit = f"{reference.repository.removeprefix('https://')}@{reference.commit[:7]}"
        folder = _folder(reference)
        rows.append(
            (
                reference.name,
                str(len(curves)),
                str(len(curves[0].seeds)),
                f"{first} to {last}",
                f"{commit} {folder}",
            )
        )
    _table(rows)
    first = published.load(published.names()[0])
    click.echo(f"\nsteps: {first.units['steps']}\nreturns: {first.units['returns']}")


def _folder(reference: published.Reference) -> str:
    """The one file that a reference was made from, or the folder of its many."""
    paths = list(reference.files)
    return paths[0] if len(paths) == 1 else f"{paths[0].rpartition('/')[0]}/ ({len(paths)} files)"


def _describe(reference: published.Reference) -> None:
    from tdmpc2_lean.references.tasks import task

    click.echo(
        f"{reference.name}: {reference.title}\n"
        f"from {_folder(reference)}\n"
        f"  of {reference.repository} at {reference.commit}\n"
        f"  {reference.licence}, {reference.copyright}"
    )
    for unit, meaning in reference.units.items():
        click.echo(f"{unit}: {meaning}")
    click.echo("protocol: " + ", ".join(f"{key} = {value}" for key, value in reference.protocol.items()))
    click.echo(f"binning: {reference.binning}")
    for note in reference.notes:
        click.echo(f"note: {note}")
    for listed, names in reference.task_sets.items():
        click.echo(f"{listed}, in its order: {' '.join(names)}")
    click.echo()
    rows = [("TASK", "DM_CONTROL", "PLAYGROUND", "SEEDS", "ENV STEPS")]
    for name in reference.tasks:
        where, curve = task(name), reference.curve(name)
        rows.append(
            (
                name,
                f"{where.domain} {where.task}",
                where.playground or f"none: {where.why_not}",
                " ".join(map(str, curve.seeds)),
                f"{curve.steps[0]} to {curve.steps[-1]}",
            )
        )
    _table(rows)


@references.command("show")
@click.argument("task")
@click.option("--reference", "name", metavar="NAME", help="Whose curve.  [default: the upstream's own]")
@click.option("--every", metavar="N", type=click.IntRange(1), default=1, help="Show one point in N.")
def show(task: str, name: str | None, every: int) -> None:
    """Print the curve of TASK as a table: env steps, each seed's return, their mean.

    A point that the source lacks is a dash, and is not in the mean.

    \b
    tdmpc2-lean references show cheetah-run --every 5
    tdmpc2-lean references show cheetah-run --reference tdmpc2_dmc_vs_sac
    """
    import warnings

    import numpy

    from tdmpc2_lean.references import tasks

    if name is None:
        name = "dreamerv3_dmc_proprio" if tasks.task(task).name in tasks.DREAMERV3 else "tdmpc2_dmc"
    reference = published.load(name)
    steps, returns, seeds = reference.curve(task)
    click.echo(f"{reference.title}: {task}")
    click.echo(f"steps: {reference.units['steps']}\nreturns: {reference.units['returns']}\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no seed has this point: the mean is a dash too
        means = numpy.nanmean(returns, axis=0)
    columns = [*returns, means]
    rows = [("STEPS", *(f"SEED {seed}" for seed in seeds), "MEAN")]
    for index in range(0, len(steps), every):
        rows.append(
            (str(steps[index]), *("-" if numpy.isnan(c[index]) else f"{c[index]:.1f}" for c in columns))
        )
    _table(rows, right=True)
    for run in reference.further_runs(task):
        click.echo(f"\nThe source lists seed {run.seed} again, up to {run.steps[-1]} env steps; not shown.")


@references.command("extract")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--to", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Where to write.")
@click.option("--commit", help="Which commit files other than the known ones are of.")
def extract(folder: Path, to: Path, commit: str | None) -> None:
    """Extract references from the authors' result files in FOLDER, as JSON.

    FOLDER is an official checkout of TD-MPC2 or DreamerV3, or a folder of their result files. The same files
    give the same bytes: a reference that is right already is left untouched.

    \b
    tdmpc2-lean references extract ~/tdmpc2 --to references
    """
    from tdmpc2_lean.references.extract import extract as extract_to

    for written in extract_to(folder, to, commit):
        click.echo(f"{'written  ' if written.changed else 'unchanged'}  {written.path}")


def _table(rows: list[tuple[str, ...]], right: bool = False) -> None:
    """Print rows with their columns aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.rjust(width) if right else cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        )
        click.echo("  ".join(cells).rstrip())
