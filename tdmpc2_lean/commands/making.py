"""What the `train` and `evaluate` commands of both command lines share: from words to runs that are made."""

import statistics
from collections.abc import Sequence
from pathlib import Path

import click

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import figure, jobs, making, sweeps
from tdmpc2_lean.runs.adapter import Adapter
from tdmpc2_lean.runs.folder import holder, is_held
from tdmpc2_lean.runs.plan import Plan, Request
from tdmpc2_lean.runs.standing import GOES_ON, standing

JOINT_FIGURE = "curves.png"


def train(
    adapter: Adapter, request: Request, ours: Sequence[str], *, multirun: bool, dry_run: bool, quiet: bool
) -> int:
    """One run, or all of a sweep; the exit code. ours: the command's own words, whose commas are no sweep."""
    requests = sweeps.requests(request, ours) if multirun else [request]
    # All are planned before any is made: a word that is wrong in the last of them is told at once.
    plans = [adapter.plan(one) for one in requests]
    sweeps.check_folders(plans)
    if dry_run:
        return shown([(plan, would(plan, adapter)) for plan in plans])
    todo = [jobs.Job(label(plan), lambda plan=plan: plan) for plan in plans]
    results = jobs.run_all(todo, quiet=quiet, tell=click.echo, show_plans=True)
    if len(plans) > 1:
        click.echo("\n".join(["", *jobs.table(results), jobs.counted(results)]))
        joint_figure(jobs.folders(results), plans[0].cwd / "logs")
    return 1 if any(result.became == jobs.FAILED for result in results) else 0


def would(plan: Plan, adapter: Adapter) -> str | UserError:
    """What the command would do, or why it would be refused."""
    try:
        if is_held(plan.folder):
            return f"none: {plan.folder} is being made by {holder(plan.folder)}"
        stands = standing(plan, adapter)
    except UserError as refused:
        return refused
    at = adapter.checkpoint_step(plan) if stands.what == GOES_ON else None
    return f"{stands.what} at agent step {at:,}" if at else stands.what


def shown(found: Sequence[tuple[Plan, str | UserError]]) -> int:
    """Print what would be run; the exit code, that of a mistake if one would be refused."""
    texts = []
    for plan, what in found:
        said = f"error: {what}" if isinstance(what, UserError) else f"{'run':<13} {what}"
        texts.append("\n".join([*plan.lines(), said]))
    click.echo("\n\n".join(texts))
    return UserError.exit_code if any(isinstance(what, UserError) for _, what in found) else 0


def label(plan: Plan) -> str:
    """What a run of a sweep is called: its place below logs/."""
    return "/".join(plan.folder.parts[-3:])


def joint_figure(folders: Sequence[Path], where: Path) -> None:
    """All of a sweep's runs in one figure. A sweep does not fail for want of a picture."""
    if len(folders) < 2:
        return
    try:
        figure.draw_together(folders, where / JOINT_FIGURE)
        click.echo(f"curves: {where / JOINT_FIGURE}")
    except Exception as error:
        click.echo(f"note: {JOINT_FIGURE} could not be drawn: {error}", err=True)


def evaluate(adapter: Adapter, request: Request, *, dry_run: bool, quiet: bool) -> int:
    """One evaluation; prints what it found."""
    plan = adapter.plan(request)
    if dry_run or not quiet:
        click.echo("\n".join(plan.lines()))
    if dry_run:
        return 0
    outcome = making.carry_out(plan, quiet=quiet)
    if not outcome.record.evaluations:
        raise UserError(f"the evaluation printed no return.\n  log: {outcome.folder}", "read evaluate.log there")
    label = " (miniature, not TD-MPC2)" if plan.checkout.upstream == "miniature" else ""
    for result in outcome.record.evaluations:
        success = "" if result.episode_success is None else f", success {result.episode_success:.2f}"
        value = "no number" if result.episode_reward is None else f"{result.episode_reward:.1f}"
        spread = f", standard deviation {statistics.stdev(result.returns):.1f}" if len(result.returns or ()) > 1 else ""
        of = f"mean of {result.episodes} episode{'s' * (result.episodes != 1)}{spread}"
        click.echo(
            f"{result.task}: return {value}{success} "
            f"({of}, seed {outcome.record.specification.seed}){label}"
        )
    click.echo(f"folder: {outcome.folder}")
    return 0
