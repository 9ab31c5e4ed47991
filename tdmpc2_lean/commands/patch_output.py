"""What `tdmpc2-lean patch` prints: its answers as lines for people or as JSON for scripts."""

import json
import sys
import textwrap

import click

from tdmpc2_lean.errors import UserError, quoted


def print_series(series, as_json: bool) -> None:
    """The series, one line per patch."""
    if as_json:
        rows = [
            {
                "name": one.name,
                "title": one.title,
                "why": one.why,
                "issue": one.issue,
                "fix": one.fix,
                "needs": list(one.needs),
                "default": one.default,
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
        off = "" if one.default else "  (only by name)"
        click.echo(f"{one.name:<{width}}  {mark}  {one.title}{needs}{off}")


def print_check(found, as_json: bool) -> None:
    """What applies, one line per patch, and below it the anchors that are lost."""
    if as_json:
        rows = [
            {
                "name": fit.patch.name,
                "applies": fit.ok,
                "applied": fit.applied,
                "already": fit.already,
                "needs": list(fit.blocked_by),
                "problem": fit.problem,
                "lost": [vars(anchor) for anchor in fit.lost],
                "passed_over": list(fit.passed_over),
            }
            for fit in found.fits
        ]
        click.echo(json.dumps({"root": str(found.root), "ok": found.ok, "patches": rows}, indent=1))
        return
    print_recovered(found.recovered)
    width = max((len(fit.patch.name) for fit in found.fits), default=0)
    for fit in found.fits:
        if fit.already:
            verdict = "already there: the checkout's own code has what it does"
        elif fit.ok:
            verdict = "applied" if fit.applied else "applies"
            if fit.passed_over:
                verdict += f", but for {', '.join(fit.passed_over)}, which the release lacks"
        elif fit.blocked_by:
            verdict = f"needs {', '.join(fit.blocked_by)}"
        elif fit.problem:
            verdict = f"DOES NOT APPLY: {fit.problem}"
        else:
            lost = sum(anchor.edit is not None for anchor in fit.lost)
            unmet = len(fit.lost) - lost
            parts = [f"{lost} lost anchor{'s' * (lost > 1)}"] * bool(lost)
            parts += [f"{unmet} requirement{'s' * (unmet > 1)} not met"] * bool(unmet)
            verdict = f"DOES NOT APPLY, {', '.join(parts)}:"
        click.echo(f"{fit.patch.name:<{width}}  {verdict}")
        for anchor in fit.lost:
            click.echo(f"    {anchor}")
            if anchor.by_hand:
                click.echo(textwrap.indent(anchor.by_hand, " " * 8))
    fits = [fit for fit in found.fits if not fit.already]
    click.echo(f"{sum(fit.ok for fit in fits)} of {len(fits)} patches apply to {found.root}")


def print_tried(tried, as_json: bool) -> None:
    """What was observed, one line each, and what to do where something does not act."""
    if as_json:
        rows = [vars(one) for one in tried.observations]
        row = {"root": str(tried.root), "ok": tried.ok, "observations": rows, "untried": tried.untried}
        click.echo(json.dumps(row, indent=1))
        return
    width = max(len(one.what) for one in tried.observations)
    by = max(len(one.patch) for one in tried.observations)
    for one in tried.observations:
        verdict = "seen" if one.seen else f"NOT SEEN: expected {one.expected}; found"
        click.echo(f"{one.what:<{width}}  {one.patch:<{by}}  {verdict}{': ' if one.seen else ' '}{one.found}")
    for name in tried.untried:
        click.echo(f"{name}: of this setting nothing can be seen in seconds on a CPU")
    if not tried.patches:
        click.echo("no patch is applied: this is the code as it is, and there are no settings of patches to be seen")
    missing = [one for one in tried.observations if not one.seen]
    click.echo(f"{len(tried.observations) - len(missing)} of {len(tried.observations)} seen in {tried.root}")
    if missing:
        patches = " ".join(dict.fromkeys(one.patch for one in missing if one.patch))
        off = f"`tdmpc2-lean patch revert {quoted(tried.root)} {patches}` takes off what does not act, or "
        audit = f"`tdmpc2-lean patch audit {quoted(tried.root)}`"
        click.echo(f"next: {off * bool(patches)}see what the code does otherwise: {audit}")


def print_status(found, as_json: bool) -> None:
    """What is on a checkout."""
    if as_json:
        row = vars(found) | {"root": str(found.root), "applied": [list(pair) for pair in found.applied]}
        click.echo(json.dumps(row, indent=1))
        return
    print_recovered(found.recovered)
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
    if found.optional:
        click.echo(f"only by name: {', '.join(found.optional)}")
    for name in found.local_changes:
        click.echo(f"local change: {name}")


def print_audit(found, as_json: bool) -> None:
    """What became of each function of each file."""
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
                click.echo(wrapped(f"  {verdict} {len(names)}: ", names))
        if file.patched:
            click.echo(wrapped(f"  of these by our patches alone {len(file.patched)}: ", file.patched))
    click.echo(f"{len(found.untouched_files)} other Python files are untouched")


def print_audit_of_one(found, function: str, as_json: bool) -> None:
    from tdmpc2_lean.nearest import did_you_mean

    rows = found.about(function)
    if not rows:
        raise UserError(
            f"Neither {found.root} nor {found.base} has a function {function!r}."
            f"{did_you_mean(function, found.names())}",
            f"`tdmpc2-lean patch audit {quoted(found.root)}` lists the functions of changed files",
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


def wrapped(label: str, names) -> str:
    return textwrap.fill(
        label + ", ".join(names),
        width=100,
        subsequent_indent=" " * 4,
        break_long_words=False,
        break_on_hyphens=False,
    )


def print_exported(done, root) -> None:
    """Which mails were written, why these, and what was proved of them."""
    for path in done.files:
        click.echo(path)
    why = {
        "named": f"{_patches(done)}: those named, with what they need",
        "applied": f"{_patches(done)}: those applied to {root}",
        "all": f"{_patches(done)}: the whole series, as no patch is applied to {root}",
    }
    click.echo(why[done.chosen])
    click.echo(f"`git am` of these on {done.base[:12]} gives tree {done.tree[:12]}, as apply does (tried)")


def _patches(done) -> str:
    return f"{len(done.patches)} patch{'es' * (len(done.patches) != 1)}"


def print_recovered(what: str | None) -> None:
    if what:
        click.echo(what, err=True)


def print_outcome(done, verb: str, names, idle: str) -> None:
    from tdmpc2_lean.patching.compare import unified

    if done.dry_run:
        print_diff(unified(done.changes))
        click.echo(
            f"dry run: {', '.join(names) or 'nothing'} would be {verb}, {_files(done)} changed", err=True
        )
    elif names or done.changes:
        click.echo(f"{verb} {', '.join(names) or 'the files again'}: {_files(done)} changed in {done.root}")
    elif idle:
        click.echo(idle)
    if done.already:
        click.echo(f"already there: the code of {done.root} has by itself what {', '.join(done.already)} does")


def _files(done) -> str:
    return f"{len(done.changes)} file{'s' * (len(done.changes) != 1)}"


def print_diff(text: str) -> None:
    """Colours on a terminal; bytes that are no UTF-8 leave as they came."""
    if not sys.stdout.isatty():
        click.echo(text.encode("utf-8", "surrogateescape"), nl=False)
        return
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in text.splitlines(keepends=True):
        colour = None if line.startswith(("+++", "---")) else colours.get(line[0])
        click.secho(line.encode("utf-8", "replace").decode(), fg=colour, nl=False)
