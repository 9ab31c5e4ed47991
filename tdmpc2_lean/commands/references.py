"""`tdmpc2-lean references`: list the published curves, show one, and extract them from the authors' files."""

from collections.abc import Collection, Sequence
from pathlib import Path

import click

from tdmpc2_lean import environments, tables
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
    rows = []
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
                _simulator(reference),
                f"{commit} {folder}",
            )
        )
    _print(("NAME", "TASKS", "SEEDS", "ENV STEPS", "SIMULATOR", "FILES"), rows, right=("TASKS", "SEEDS"))
    first = published.load(published.names()[0])
    click.echo(f"\nsteps: {first.units['steps']}\nreturns: {first.units['returns']}")


def _simulator(reference: published.Reference) -> str:
    """The version of the physics with which a reference was made, as far as it is known."""
    version = reference.versions["packages"].get(environments.source_named("dm_control").physics)
    return f"{environments.source_named('dm_control').physics} {version}" if version else "not known"


def _made_with(reference: published.Reference) -> None:
    """Print with what a reference was made, and what of that is otherwise here."""
    click.echo(f"made with: {reference.made_with}\n  {reference.versions['source']}")
    here = environments.versions_that_matter(environments.source_named("dm_control"))
    for text in environments.drift(reference.versions["packages"], here):
        click.echo(f"  here: {text}")


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
    _made_with(reference)
    for note in reference.notes:
        click.echo(f"note: {note}")
    for listed, names in reference.task_sets.items():
        click.echo(f"{listed}, in its order: {' '.join(names)}")
    click.echo()
    rows = []
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
    _print(("TASK", "DM_CONTROL", "PLAYGROUND", "SEEDS", "ENV STEPS"), rows)


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
    click.echo(f"steps: {reference.units['steps']}\nreturns: {reference.units['returns']}")
    _made_with(reference)
    click.echo()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no seed has this point: the mean is a dash too
        means = numpy.nanmean(returns, axis=0)
    columns = [*returns, means]
    heads = ("STEPS", *(f"SEED {seed}" for seed in seeds), "MEAN")
    rows = []
    for index in range(0, len(steps), every):
        rows.append(
            (str(steps[index]), *("-" if numpy.isnan(c[index]) else f"{c[index]:.1f}" for c in columns))
        )
    _print(heads, rows, right=heads)
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


def _print(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()) -> None:
    click.echo(tables.table(columns, rows, right, tables.terminal_width()))
