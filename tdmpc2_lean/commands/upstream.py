"""`tdmpc2-lean upstream`: which official code is on this machine, and how more of it gets here."""

import json

import click

from tdmpc2_lean.errors import CheckFailed

WHICH = click.option("--upstream", metavar="NAME", help="Which upstream: tdmpc2 or dreamerv3.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")


@click.group()
def upstream():
    """Find, fetch, add and verify official code.

    Where another command needs the official code, it takes the first of these: what you name (upstream=PATH,
    or a commit, tag or branch), the environment variable TDMPC2_LEAN_TDMPC2 (TDMPC2_LEAN_DREAMERV3), the
    cache, a git clone of the public repository. What is used is verified by git's own hashes.

    \b
    Example, on a machine without a network that has a clone:
        tdmpc2-lean upstream add ~/src/tdmpc2
        tdmpc2-lean upstream verify
    """


@upstream.command("list")
@AS_JSON
def list_(as_json):
    """Show each upstream: its pin, licence, whether it is here and where from. Asks no network."""
    from tdmpc2_lean.upstreams import listing

    rows = listing()
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        here = "not on this machine"
        if row["available"]:
            here = f"from the {row['source']}" if row["source"] != "argument" else "as named"
            here += f", commit {(row['commit'] or 'unknown')[:7]}" + (
                f" ({row['problem']})" if row["problem"] else ""
            )
        click.echo(f"{row['upstream']}: {here}")
        click.echo(f"    {row['url']} at {row['pin']}")
        click.echo(f"    licence {row['licence']}, {row['copyright']}")
        if row["root"]:
            click.echo(f"    files in {row['root']}")
        if row["tried"]:
            click.echo(f"    tried commits in the cache: {', '.join(commit[:7] for commit in row['tried'])}")
        if not row["available"]:
            click.echo(f"    {row['problem']}")
    click.echo("miniature: comes with this package; not official code, used only where it is named")


@upstream.command()
@click.argument("ref", required=False)
@WHICH
def fetch(ref, upstream):
    """Fetch from the public repository: the pin, or the commit, tag or branch REF.

    \b
    Examples:
        tdmpc2-lean upstream fetch
        tdmpc2-lean upstream fetch 8bbc14e
        tdmpc2-lean upstream fetch --upstream dreamerv3
    """
    from tdmpc2_lean.upstreams import fetch

    found = fetch(upstream or "tdmpc2", ref)
    official = "" if found.verified else "; it is not in the history of an official branch or tag"
    click.echo(f"{found.upstream} {found.commit} is in the cache{official}")
    click.echo(f"    tree {found.tree}, verified by its hash; files in {found.root}")


@upstream.command()
@click.argument("path")
@WHICH
def add(path, upstream):
    """Take a clone or a bare git directory that you have into the cache. Needs no network.

    Only what is committed is taken. Which upstream it is shows from its commits; --upstream says it where it
    does not, as for a shallow clone of another commit.

    \b
    Example:
        tdmpc2-lean upstream add ~/src/tdmpc2
    """
    from tdmpc2_lean.upstreams import UPSTREAMS, add

    result = add(path, upstream)
    known = UPSTREAMS[result["upstream"]]
    click.echo(
        f"{known.name}: {result['new']} new commits from {result['path']}; {result['commits']} in the cache"
    )
    if result["tried"]:
        click.echo(
            f"    commits this project was tried on: {', '.join(commit[:7] for commit in result['tried'])}"
        )
    if not result["pin"]:
        click.echo(f"    note: the pinned commit {known.pin[:7]} is not among them; name a commit that is")


@upstream.command()
@click.argument("path_or_ref", required=False)
@WHICH
@AS_JSON
def verify(path_or_ref, upstream, as_json):
    """Compare a checkout's files with git's hashes. Exit code 1 if they are not an official commit's.

    Without PATH_OR_REF the checkout is verified that other commands would use. Recorded patches of ours do
    not count as local changes. Asks no network.

    \b
    Examples:
        tdmpc2-lean upstream verify
        tdmpc2-lean upstream verify ~/src/tdmpc2
    """
    from tdmpc2_lean.upstreams import verify

    result = verify(path_or_ref, upstream)
    if as_json:
        click.echo(json.dumps(result, indent=1))
        if not result["verified"]:
            raise SystemExit(1)
        return
    click.echo(f"{result['upstream']} in {result['root']}")
    click.echo(f"    commit {result['commit'] or 'unknown'}")
    click.echo(f"    tree   {result['tree'] or 'unknown'}")
    if result["patches"]:
        click.echo(f"    patches applied: {', '.join(patch['name'] for patch in result['patches'])}")
    for path in result["local_changes"][:20]:
        click.echo(f"    changed: {path}")
    if len(result["local_changes"]) > 20:
        click.echo(f"    changed: and {len(result['local_changes']) - 20} more")
    if not result["verified"]:
        raise CheckFailed(
            f"not verified: {result['reason']}.",
            "`tdmpc2-lean upstream list` shows the official commits at hand",
        )
    click.echo(
        "verified: every file is the official commit's" + (", patches aside" if result["patches"] else "")
    )
