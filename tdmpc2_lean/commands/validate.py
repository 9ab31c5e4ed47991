"""`tdmpc2-lean validate`: runs of the published protocols, where they stand, and the report on them."""

import traceback
from pathlib import Path

import click

from tdmpc2_lean.errors import UserError

RUNS = "runs"


@click.group()
def validate():
    """Make the runs of a published protocol, and say whether they reach the published curves.

    \b
    tdmpc2-lean validate list                         all protocols
    tdmpc2-lean validate run --smoke                  a few minutes on a CPU, through the same code
    tdmpc2-lean validate run tdmpc2-walker-walk       seeds 1, 2 and 3, days on a GPU; again: it goes on
    tdmpc2-lean validate status                       how far the runs are
    tdmpc2-lean validate report runs --out report     PASS, FAIL or INCOMPLETE, and why
    """


@validate.command("list")
@click.argument("words", nargs=-1, metavar="[WORD]...")
def list_protocols(words):
    """The protocols: budget in env steps, seeds, or why one cannot be run. WORDs narrow the list.

    \b
    tdmpc2-lean validate list
    tdmpc2-lean validate list tdmpc2 humanoid
    """
    from tdmpc2_lean.validation.judging.protocols import registry

    found = [entry for name, entry in registry().items() if all(word in name for word in words)]
    if not found:
        raise UserError(f"no protocol's name holds {' and '.join(words)}.", "tdmpc2-lean validate list")
    width = max(len(entry.name) for entry in found)
    for entry in found:
        seeds = ",".join(map(str, entry.seeds))
        note = f"cannot be run: {entry.missing}" if entry.missing else "" if entry.judged else "never judged"
        line = f"{entry.name:<{width}}  {entry.physics:<10}  {steps(entry.env_steps):>5}  seeds {seeds:<9}  {note}"
        click.echo(line.rstrip())


def steps(number: int) -> str:
    """'4M', '500K'."""
    return f"{number / 1e6:g}M" if number >= 1e6 else f"{number / 1e3:g}K"


@validate.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--out", default=RUNS, show_default=True, type=click.Path(path_type=Path), help="Folder of the runs.")
@click.option("--seeds", metavar="N[,N]...", help="Some of the protocol's seeds; default: all of them.")
@click.option("--lean", metavar="PRESET[,PRESET]...", help="Make a variant under lean presets.")
@click.option("--smoke", is_flag=True, help="The tiny run of every agent, on the CPU.")
@click.option("--device", help="Torch device; default: the official one, a CUDA device.")
@click.option("--compile/--no-compile", "compile_", default=None, help="torch.compile; default: the official, on.")
@click.option("--threads", type=click.IntRange(1), help="CPU threads of a run.")
@click.option("--upstream", metavar="WHERE", help="Other code than the pinned; its runs are never judged.")
@click.option("--allow-local-changes", is_flag=True, help="Use a checkout with local changes; never judged.")
@click.option("--checkpoint-minutes", type=click.FloatRange(0), help="Least time between checkpoints; default: 15.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def run(
    names, out, seeds, lean, smoke, device, compile_, threads, upstream, allow_local_changes, checkpoint_minutes, quiet
):
    """Make runs, in turn; NAME is a protocol, or a criterion such as tdmpc2-dm_control for all of its protocols.

    A run can be killed at any moment. The same command goes on from the last checkpoint and computes what an
    uninterrupted run computes; finished runs are skipped, and so are those that another process makes. So the same
    command on several machines that share the folder divides the work.

    \b
    tdmpc2-lean validate run --smoke
    tdmpc2-lean validate run tdmpc2-walker-walk tdmpc2-cheetah-run --seeds 1,2,3 --out runs
    tdmpc2-lean validate run tdmpc2-dm_control --lean fast

    Each run can also be a job of Hydra's, with any launcher:

    \b
    python -m tdmpc2_lean.campaigns.hydra_job --multirun hydra/launcher=joblib \\
        protocol=tdmpc2-walker-walk,tdmpc2-cheetah-run seed=1,2,3

    Exit code 0 if every run is finished or being made by another process, 1 if one failed.
    """
    from tdmpc2_lean.campaigns import protocol_runs
    from tdmpc2_lean.runs import jobs
    from tdmpc2_lean.runs.plan import Conditions

    if smoke:
        if names:
            raise UserError("--smoke goes without names.", "leave one of both away")
        names = smokes(upstream)
    if not names:
        raise UserError("nothing to run.", "tdmpc2-lean validate run --smoke, or a name: tdmpc2-lean validate list")
    presets = tuple(part.strip() for part in (lean or "").split(",") if part.strip())
    conditions = Conditions(device, compile_, threads, upstream, allow_local_changes, checkpoint_minutes)
    todo = protocol_runs.jobs(
        names, out, seeds=numbers(seeds) if seeds else None, presets=presets, conditions=conditions
    )
    results = jobs.run_all(todo, quiet=quiet, tell=click.echo)
    click.echo(jobs.counted(results))
    return 1 if any(result.became == jobs.FAILED for result in results) else 0


def smokes(upstream: str | None) -> tuple[str, ...]:
    """The tiny run of every agent whose packages are here; with `upstream`, of that one's."""
    from tdmpc2_lean.runs.adapter import is_available
    from tdmpc2_lean.upstreams import upstream_of
    from tdmpc2_lean.validation.judging import protocols

    tiny = [entry for entry in protocols.registry().values() if not entry.judged and not entry.missing]
    if upstream is not None:
        tiny = [entry for entry in tiny if entry.agent == upstream_of(upstream)]
    else:
        left = [entry for entry in tiny if not is_available(entry.agent)]
        tiny = [entry for entry in tiny if entry not in left]
        for entry in left:
            click.echo(f"note: {entry.name} is not run; it needs pip install 'tdmpc2_lean[dreamer]'", err=True)
    return tuple(entry.name for entry in tiny)


def numbers(text: str) -> list[int]:
    """'1,2,3' as numbers."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--seeds {text} is no list of whole numbers.", "write --seeds 1,2,3") from None


@validate.command()
@click.argument("runs", default=RUNS, type=click.Path(path_type=Path), metavar="[DIR]")
def status(runs):
    """How far the runs in DIR (default: runs) are, and who makes them. Problems in their files are named.

    \b
    tdmpc2-lean validate status
    tdmpc2-lean validate status /shared/runs
    """
    from tdmpc2_lean.runs import status as of_runs
    from tdmpc2_lean.runs.find import run_folders

    looked_at = run_folders(runs)
    found = looked_at.folders
    for one in looked_at.unreadable:
        click.echo(f"{one.path} cannot be read: {one.why}", err=True)
    if not found:
        raise UserError(f"there are no runs in {runs}.", "tdmpc2-lean validate run NAME --out DIR")
    labels = [str(path.relative_to(runs)) for path in found]
    width = max(map(len, labels))
    for label, path in zip(labels, found, strict=True):
        try:
            click.echo(f"{label:<{width}}  {of_runs.line_of(path)}")
            problems = of_runs.problems_of(path)
        except UserError as error:
            click.echo(f"{label:<{width}}  unreadable")
            problems = [error.message]
        for problem in problems:
            click.echo(f"{'':<{width}}  problem: {problem}")


COULD_NOT_JUDGE = 3


class JudgingCommand(click.Command):
    """A command whose exit codes are verdicts': whatever keeps it from one exits with a code of its own."""

    def make_context(self, *arguments, **named):
        try:
            return super().make_context(*arguments, **named)
        except click.UsageError as error:
            error.exit_code = COULD_NOT_JUDGE
            raise

    def invoke(self, context):
        try:
            return super().invoke(context)
        except UserError as error:
            error.exit_code = COULD_NOT_JUDGE
            raise
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except OSError as error:
            from tdmpc2_lean.cli import disk_error

            told = disk_error(error)
            told.exit_code = COULD_NOT_JUDGE
            raise told from None
        except Exception:  # a fault of ours, which must not look like a verdict
            traceback.print_exc()
            return COULD_NOT_JUDGE


@validate.command(cls=JudgingCommand)
@click.argument("runs", type=click.Path(path_type=Path), metavar="RUNS")
@click.option("--out", default="report", show_default=True, type=click.Path(path_type=Path), help="Folder to write.")
@click.option("--criterion", metavar="NAME", help="The only one to judge by, such as tdmpc2-dm_control-shared.")
def report(runs, out, criterion):
    """Judge the runs in RUNS and write the report: markdown, and one HTML page with the plots in it.

    \b
    tdmpc2-lean validate report runs --out report
    tdmpc2-lean validate report runs --criterion tdmpc2-dm_control-shared

    Exit code 0 for PASS, 1 for FAIL, 2 for INCOMPLETE, 3 if nothing could be judged: no runs, a folder that is not
    there, a report that cannot be written.
    """
    from tdmpc2_lean.validation.report import write

    verdict = write(runs, out, criterion)
    click.echo(f"{verdict.state}; the report is in {out}")
    return verdict.exit_code
