"""`tdmpc2-lean patch`: list, show, check, apply, revert, export, diff and audit patches."""

from pathlib import Path

import click

from tdmpc2_lean.commands.patch_output import (
    print_audit,
    print_audit_of_one,
    print_check,
    print_diff,
    print_exported,
    print_outcome,
    print_recovered,
    print_series,
    print_status,
    print_tried,
)
from tdmpc2_lean.errors import quoted

CHECKOUT = click.argument("checkout", type=click.Path(path_type=Path))
NAMES = click.argument("names", nargs=-1, metavar="[NAME]...")
SERIES = click.option(
    "--series",
    "folder",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Another series than the package's: a folder with a file `series` and a folder per patch.",
)
UPSTREAM = click.option(
    "--upstream",
    type=click.Choice(["tdmpc2", "dreamerv3"]),
    default="tdmpc2",
    show_default=True,
    help="Whose series is meant where no checkout tells.",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Print the diff of what would be done, and do nothing."
)
AGAINST = click.option(
    "--against",
    metavar="COMMIT",
    help="Compare with this commit instead of the newest official one that the checkout builds on.",
)


@click.group()
def patch():
    """List, check, apply, revert, export and audit patches.

    A patch finds its place by structure (this statement in that method), not by line numbers, so one patch
    fits many upstream commits; where it does not fit, `check` names the place that is gone. CHECKOUT is a
    folder with the official files: your clone, or one from the cache. Everything is done whole or not at all, and
    `revert` gives back every byte.

    \b
    Example:
        tdmpc2-lean patch check ~/src/tdmpc2                 # what applies
        tdmpc2-lean patch apply ~/src/tdmpc2 device utd
        tdmpc2-lean patch status ~/src/tdmpc2                # which patches are on it
        tdmpc2-lean patch diff ~/src/tdmpc2                  # all that differs from the official commit
        tdmpc2-lean patch audit ~/src/tdmpc2                 # the same, function by function
        tdmpc2-lean patch export ~/src/tdmpc2 --to ~/mails   # those applied, for `git am`
        tdmpc2-lean patch revert ~/src/tdmpc2
    """


@patch.command("list")
@UPSTREAM
@SERIES
@AS_JSON
def list_(upstream, folder, as_json):
    """List the series in its order.

    `fix` marks a patch that changes what the official code does at its default settings; all others leave
    that bit-identical. `only by name` marks one that is not meant where no patches are named, as a fix for older
    commits; add it with `patches=all,NAME` or by applying it.
    """
    from tdmpc2_lean.patching import read_series

    print_series(read_series(upstream, folder), as_json)


@patch.command()
@click.argument("name")
@UPSTREAM
@click.option(
    "--checkout", type=click.Path(path_type=Path), help="Render against this one (default: the pin)."
)
@SERIES
def show(name, upstream, checkout, folder):
    """Print what patch NAME is for, and the diff it makes.

    The diff is rendered here and now from a checkout, on top of the patches that NAME needs; nothing is
    written.

    \b
    Example:
        tdmpc2-lean patch show device --checkout ~/src/tdmpc2
    """
    from tdmpc2_lean.patching import read_series, series_of, show

    if checkout is not None and folder is None:
        series = series_of(checkout)
    else:
        series = read_series(upstream, folder)
    one = series[name]
    if checkout is None:
        from tdmpc2_lean.upstreams import find_checkout

        checkout = find_checkout(upstream).root
    text = show(name, checkout, series)
    click.secho(one.title, bold=True)
    click.echo(f"\n{one.why}\n")
    for label, value in (("Fixes", one.fix), ("Issue", one.issue), ("Needs", ", ".join(one.needs))):
        if value:
            click.echo(f"{label}: {value}")
    if not one.default:
        click.echo(f"Used only by name, as in `patches=all,{name}`")
    if text:
        print_diff(text)
    else:
        click.echo(f"Nothing to do in {checkout}: its own code has this already.")


@patch.command()
@CHECKOUT
@NAMES
@SERIES
@AS_JSON
def check(checkout, names, folder, as_json):
    """Say what applies to CHECKOUT, and what does not and which anchor was lost. Touches nothing.

    Without NAMEs, the whole series, but for patches that are used only by name. Exit code 1 if something does
    not apply.
    """
    from tdmpc2_lean.patching import check, read_series

    found = check(checkout, read_series(folder=folder) if folder else None, names or None)
    print_check(found, as_json)
    raise SystemExit(0 if found.ok else 1)


@patch.command()
@CHECKOUT
@NAMES
@DRY_RUN
@click.option(
    "--allow-local-changes", is_flag=True, help="Patch files as they are, with changes of yours in them."
)
@SERIES
def apply(checkout, names, dry_run, allow_local_changes, folder):
    """Apply the NAMEd patches, with what they need, to CHECKOUT; without NAMEs, the whole series.

    Patches that are used only by name (see `patch list`) are not applied without it; `all` as a NAME means the others.
    Either all is applied or nothing is changed, also if the call is interrupted. Applying again changes
    nothing. Patches always go on in the order of the series, whatever the order of the calls.

    \b
    Example:
        tdmpc2-lean patch apply ~/src/tdmpc2 plan-vec --dry-run
    """
    from tdmpc2_lean.patching import apply, read_series

    series = read_series(folder=folder) if folder else None
    done = apply(checkout, names or None, series, dry_run, allow_local_changes)
    print_recovered(done.recovered)
    idle = f"nothing to do: {', '.join(done.applied)} applied already" if done.applied else ""
    print_outcome(done, "applied", done.added, idle)
    if done.added and not dry_run and folder is None:
        click.echo(f"next: `tdmpc2-lean patch try {quoted(done.root)}` sees in seconds whether they act in your script")


@patch.command()
@CHECKOUT
@NAMES
@DRY_RUN
@click.option(
    "--forget",
    is_flag=True,
    help="Only delete the record, for a checkout that git has moved on; touch no file.",
)
@SERIES
def revert(checkout, names, dry_run, forget, folder):
    """Take the NAMEd patches off CHECKOUT; without NAMEs, all, which gives back every byte as it was.

    Refuses if a patch that stays needs one that goes, or if you changed a patched file since.
    """
    from tdmpc2_lean.patching import read_series, revert

    series = read_series(folder=folder) if folder else None
    done = revert(checkout, names or None, series, dry_run, forget)
    print_recovered(done.recovered)
    if forget and not dry_run:
        click.echo(
            f"forgot {', '.join(done.removed) or 'nothing'}; the files of {done.root} are as they were"
        )
        return
    idle = f"nothing to do: {', '.join(names) + ' not applied' if names else 'no patch is applied'}"
    print_outcome(done, "reverted", done.removed, idle)


@patch.command()
@CHECKOUT
@SERIES
@AS_JSON
def status(checkout, folder, as_json):
    """Say which patches are on CHECKOUT and whether its patched files are as they were left.

    Changes nothing, but finishes or undoes a change that was interrupted, and says so. Files of a git working tree that
    you changed yourself are listed too.

    \b
    Example:
        tdmpc2-lean patch status ~/src/tdmpc2
    """
    from tdmpc2_lean.patching import read_series, status

    found = status(checkout, read_series(folder=folder) if folder else None)
    print_status(found, as_json)


@patch.command("try")
@CHECKOUT
@AS_JSON
def try_(checkout, as_json):
    """Run the script of CHECKOUT for seconds, on the CPU, and see whether each setting of its patches acts.

    An agent is made, plans, is updated, saved and loaded; then the settings that the applied patches brought are given
    other values, and what they promise is counted. Exit code 1 if something does not act. Nothing of CHECKOUT changes.

    \b
    Example:
        tdmpc2-lean patch try ~/my-fork
    """
    from tdmpc2_lean.trying import try_checkout

    tried = try_checkout(checkout)
    print_tried(tried, as_json)
    raise SystemExit(0 if tried.ok else 1)


@patch.command()
@CHECKOUT
@NAMES
@click.option(
    "--to", required=True, type=click.Path(path_type=Path), metavar="DIR", help="New or empty folder."
)
@click.option("--force", is_flag=True, help="Write into DIR even if it is not empty, replacing mails in it.")
@SERIES
def export(checkout, names, to, force, folder):
    """Write one `git am`-able file per patch into DIR, as a series on CHECKOUT's HEAD, by your git identity.

    Without NAMEs, the patches that are applied to CHECKOUT; where none is, the whole series, which is then said.
    Before anything is written the mails are tried with `git am` on a clean clone; the tree must be exactly
    the one that `apply` gives.

    \b
    Example, from patches to commits of your own:
        tdmpc2-lean patch export ~/src/tdmpc2 --to ~/mails
        git -C ~/src/tdmpc2 am ~/mails/*.patch
    """
    from tdmpc2_lean.patching import export, read_series

    done = export(checkout, to, names or None, read_series(folder=folder) if folder else None, force)
    print_exported(done, checkout)


@patch.command()
@CHECKOUT
@AGAINST
def diff(checkout, against):
    """Print the diff from CHECKOUT's upstream commit to its files as they are now, patches and your own changes alike.

    The upstream commit is the newest official one that the checkout builds on; of a folder without git, what our record
    of its patches or its tree hash says.

    \b
    Example:
        tdmpc2-lean patch diff ~/src/tdmpc2 > all-changes.diff
        tdmpc2-lean patch diff ~/src/tdmpc2 --against HEAD
    """
    from tdmpc2_lean.patching import diff

    print_diff(diff(checkout, against))


@patch.command()
@CHECKOUT
@AGAINST
@click.option("--function", metavar="NAME", help="Ask about one function: `_plan`, or `TDMPC2._plan`.")
@AS_JSON
def audit(checkout, against, function, as_json):
    """Say function by function what is untouched, changed, added and removed in CHECKOUT.

    A class's own statements (bases, attributes, docstring) go by the class's name, a module's by `<module>`.

    \b
    Example:
        tdmpc2-lean patch audit ~/src/tdmpc2 --function _plan
    """
    from tdmpc2_lean.patching import audit

    found = audit(checkout, against)
    if function:
        print_audit_of_one(found, function, as_json)
        return
    print_audit(found, as_json)
