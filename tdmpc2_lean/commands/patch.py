"""`tdmpc2-lean patch`: list, show, check, apply, revert, export, diff and audit patches."""

import json
from pathlib import Path

import click

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
    folder with
    the official files: your clone, or one from the cache. Everything is done whole or not at all, and
    `revert` gives back every byte.

    \b
    Example:
        tdmpc2-lean patch check ~/src/tdmpc2
        tdmpc2-lean patch apply ~/src/tdmpc2 device utd
        tdmpc2-lean patch audit ~/src/tdmpc2
        tdmpc2-lean patch revert ~/src/tdmpc2
    """


@patch.command("list")
@UPSTREAM
@SERIES
@AS_JSON
def list_(upstream, folder, as_json):
    """List the series in its order.

    `fix` marks a patch that changes what the official code does at its default settings; all others leave
    that bit-identical.
    """
    from tdmpc2_lean.patching import read_series

    series = read_series(upstream, folder)
    if as_json:
        rows = [
            {
                "name": one.name,
                "title": one.title,
                "why": one.why,
                "issue": one.issue,
                "fix": one.fix,
                "needs": list(one.needs),
                "files": list(one.files),
                "sha256": one.sha256,
            }
            for one in series
        ]
        click.echo(json.dumps(rows, indent=1))
        return
    width = max((len(name) for name in series.names), default=0)
    for one in series:
        mark = "fix" if one.fix else "   "
        needs = f"  (needs {', '.join(one.needs)})" if one.needs else ""
        click.echo(f"{one.name:<{width}}  {mark}  {one.title}{needs}")


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
    _print_diff(text)


@patch.command()
@CHECKOUT
@NAMES
@SERIES
@AS_JSON
def check(checkout, names, folder, as_json):
    """Say what applies to CHECKOUT, and what does not and which anchor was lost. Touches nothing.

    Without NAMEs, the whole series. Exit code 1 if something does not apply.
    """
    from tdmpc2_lean.patching import check, read_series

    found = check(checkout, read_series(folder=folder) if folder else None, names or None)
    if as_json:
        rows = [
            {
                "name": fit.patch.name,
                "applies": fit.ok,
                "applied": fit.applied,
                "needs": list(fit.blocked_by),
                "problem": fit.problem,
                "lost": [vars(anchor) for anchor in fit.lost],
                "passed_over": list(fit.passed_over),
            }
            for fit in found.fits
        ]
        click.echo(json.dumps({"root": str(found.root), "ok": found.ok, "patches": rows}, indent=1))
        raise SystemExit(0 if found.ok else 1)
    _say_recovered(found.recovered)
    width = max((len(fit.patch.name) for fit in found.fits), default=0)
    for fit in found.fits:
        if fit.ok:
            verdict = "applied" if fit.applied else "applies"
            if fit.passed_over:
                verdict += f", but for {', '.join(fit.passed_over)}, which the release lacks"
        elif fit.blocked_by:
            verdict = f"needs {', '.join(fit.blocked_by)}"
        elif fit.problem:
            verdict = f"DOES NOT APPLY: {fit.problem}"
        else:
            verdict = f"DOES NOT APPLY, {len(fit.lost)} lost anchor{'s' * (len(fit.lost) > 1)}:"
        click.echo(f"{fit.patch.name:<{width}}  {verdict}")
        for anchor in fit.lost:
            click.echo(f"    {anchor}")
    bad = sum(not fit.ok for fit in found.fits)
    click.echo(f"{len(found.fits) - bad} of {len(found.fits)} patches apply to {found.root}")
    raise SystemExit(1 if bad else 0)


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

    Either all is applied or nothing is changed, also if the call is interrupted. Applying again changes
    nothing. Patches always go on in the order of the series, whatever the order of the calls.

    \b
    Example:
        tdmpc2-lean patch apply ~/src/tdmpc2 plan-vec --dry-run
    """
    from tdmpc2_lean.patching import apply, read_series

    series = read_series(folder=folder) if folder else None
    done = apply(checkout, names or None, series, dry_run, allow_local_changes)
    _say_recovered(done.recovered)
    _say_outcome(done, "applied", done.added, f"nothing to do: {', '.join(done.applied)} applied already")


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
    _say_recovered(done.recovered)
    if forget and not dry_run:
        click.echo(
            f"forgot {', '.join(done.removed) or 'nothing'}; the files of {done.root} are as they were"
        )
        return
    idle = f"nothing to do: {', '.join(names) + ' not applied' if names else 'no patch is applied'}"
    _say_outcome(done, "reverted", done.removed, idle)


@patch.command()
@CHECKOUT
@SERIES
@AS_JSON
def status(checkout, folder, as_json):
    """Say which patches are on CHECKOUT and whether its patched files are as they were left."""
    from tdmpc2_lean.patching import read_series, status

    found = status(checkout, read_series(folder=folder) if folder else None)
    if as_json:
        row = vars(found) | {"root": str(found.root), "applied": [list(pair) for pair in found.applied]}
        click.echo(json.dumps(row, indent=1))
        return
    _say_recovered(found.recovered)
    if not found.applied:
        click.echo(f"{found.root}: no patch is applied; there are {', '.join(found.available) or 'none'}")
    else:
        on = f" on commit {found.commit[:12]}" if found.commit else ""
        click.echo(f"{found.root}: patched by tdmpc2_lean {found.version}{on}")
        for name, sha in found.applied:
            old = "  (from another version of the series)" if name in found.outdated else ""
            click.echo(f"  {name}  sha256 {sha[:12]}{old}")
        if found.available:
            click.echo(f"not applied: {', '.join(found.available)}")
        odd = {name: what for name, what in found.files.items() if what != "patched"}
        click.echo(f"{len(found.files) - len(odd)} of {len(found.files)} patched files are as they were left")
        for name, what in odd.items():
            click.echo(f"  {name}: {what}")
    for name in found.local_changes:
        click.echo(f"local change: {name}")


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

    Before anything is written the mails are tried with `git am` on a clean clone; the tree must be exactly
    the one that `apply` gives.

    \b
    Example, from patches to commits of your own:
        tdmpc2-lean patch export ~/src/tdmpc2 --to ~/mails
        git -C ~/src/tdmpc2 am ~/mails/*.patch
    """
    from tdmpc2_lean.patching import export, read_series

    done = export(checkout, to, names or None, read_series(folder=folder) if folder else None, force)
    for path in done.files:
        click.echo(path)
    click.echo(f"`git am` of these on {done.base[:12]} gives tree {done.tree[:12]}, as apply does (tried)")


@patch.command()
@CHECKOUT
@AGAINST
def diff(checkout, against):
    """Print the diff from CHECKOUT's upstream commit to its files as they are now."""
    from tdmpc2_lean.patching import diff

    _print_diff(diff(checkout, against))


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
        _audit_of_one(found, function, as_json)
        return
    if as_json:
        row = {
            "root": str(found.root),
            "base": found.base,
            "files": [vars(file) for file in found.files],
            "untouched_files": found.untouched_files,
        }
        click.echo(json.dumps(row, indent=1))
        return
    click.echo(f"{found.root} against {found.base}")
    for file in found.files:
        click.secho(f"{file.path}  {'' if file.kind == 'other' else file.kind} ", bold=True, nl=False)
        click.echo(f"+{file.lines_added} -{file.lines_removed}")
        for verdict in ("changed", "added", "removed", "untouched"):
            names = getattr(file, verdict)
            if names:
                click.echo(_wrapped(f"  {verdict} {len(names)}: ", names))
    click.echo(f"{len(found.untouched_files)} other Python files are untouched")


def _audit_of_one(found, function: str, as_json: bool) -> None:
    from tdmpc2_lean.errors import UserError
    from tdmpc2_lean.nearest import did_you_mean

    rows = found.about(function)
    if not rows:
        raise UserError(
            f"Neither {found.root} nor {found.base} has a function {function!r}."
            f"{did_you_mean(function, found.names())}",
            f"`tdmpc2-lean patch audit {found.root}` lists the functions of changed files",
        )
    if as_json:
        click.echo(
            json.dumps(
                [dict(zip(("path", "function", "verdict"), row, strict=True)) for row in rows], indent=1
            )
        )
        return
    for path, name, verdict in rows:
        click.echo(f"{path}  {name}: {verdict}")


def _wrapped(label: str, names) -> str:
    import textwrap

    return textwrap.fill(
        label + ", ".join(names),
        width=100,
        subsequent_indent=" " * 4,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _say_recovered(what: str | None) -> None:
    if what:
        click.echo(what, err=True)


def _say_outcome(done, verb: str, names, idle: str) -> None:
    from tdmpc2_lean.patching.compare import unified

    if done.dry_run:
        _print_diff(unified(done.changes))
        click.echo(
            f"dry run: {', '.join(names) or 'nothing'} would be {verb}, {_files(done)} changed", err=True
        )
    elif names or done.changes:
        click.echo(f"{verb} {', '.join(names) or 'the files again'}: {_files(done)} changed in {done.root}")
    else:
        click.echo(idle)


def _files(done) -> str:
    return f"{len(done.changes)} file{'s' * (len(done.changes) != 1)}"


def _print_diff(text: str) -> None:
    """Colours on a terminal; bytes that are no UTF-8 leave as they came."""
    import sys

    if not sys.stdout.isatty():
        click.echo(text.encode("utf-8", "surrogateescape"), nl=False)
        return
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in text.splitlines(keepends=True):
        colour = None if line.startswith(("+++", "---")) else colours.get(line[0])
        click.secho(line.encode("utf-8", "replace").decode(), fg=colour, nl=False)
