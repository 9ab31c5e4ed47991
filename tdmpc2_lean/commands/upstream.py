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

    DreamerV3 has a second way for machines that reach no git hosting: its author's release on package indexes
    (upstream=release). It is taken by itself only where the repository cannot be reached, which is then said.

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
            here = f"from the {row['source']}" if row["source"] not in ("argument", "release") else "as named"
            here = row["label"] if row["source"] == "release" else f"{here}, commit {(row['commit'] or 'unknown')[:7]}"
            here += f" ({row['problem']})" if row["problem"] else ""
        click.echo(f"{row['upstream']}: {here}")
        click.echo(f"    {row['url']} at {row['pin']}")
        if row["release"]:
            known = row["release"]
            click.echo(
                f"    or release {known['version']} ({known['project']} on package indexes), files of "
                f"{known['commit']}: " + ("in " + known["root"] if known["root"] else "not on this machine")
            )
        click.echo(f"    licence {row['licence']}, {row['copyright']}")
        if row["root"]:
            click.echo(f"    files in {row['root']}")
        if row["tried"]:
            click.echo(f"    tried commits in the cache: {', '.join(commit[:7] for commit in row['tried'])}")
        for issue in row["issues"]:
            which, mending = ", ".join(commit[:7] for commit in issue["commits"]), issue["patch"]
            click.echo(f"    known issue of {which}: {issue['text']}")
            click.echo(f"        the patch {mending} mends it where it is named, as in patches=all,{mending}")
        if not row["available"]:
            click.echo(f"    {row['problem']}")
    click.echo("miniature: comes with this package; not official code, used only where it is named")


@upstream.command()
@click.argument("ref", required=False)
@WHICH
def fetch(ref, upstream):
    """Fetch from the public repository: the pin, or the commit, tag or branch REF.

    The word `release` as REF fetches the author's release from the package index that pip is set up for.

    \b
    Examples:
        tdmpc2-lean upstream fetch
        tdmpc2-lean upstream fetch 8bbc14e
        tdmpc2-lean upstream fetch --upstream dreamerv3
        tdmpc2-lean upstream fetch release --upstream dreamerv3
    """
    from tdmpc2_lean.upstreams import fetch

    found = fetch(upstream, ref)
    if found.release:
        click.echo(f"{found.label} is in the cache: files of commit {found.commit}, without what a package leaves out")
        click.echo(f"    sdist {found.provenance()['sdist_sha256']}, verified by its hash; files in {found.root}")
        return
    official = "" if found.verified else "; it is not in the history of an official branch or tag"
    click.echo(f"{found.upstream} {found.commit} is in the cache{official}")
    click.echo(f"    tree {found.tree}, verified by its hash; files in {found.root}")


@upstream.command()
@click.argument("path")
@WHICH
def add(path, upstream):
    """Take a clone or a bare git directory that you have into the cache. Needs no network.

    PATH may also be the file of the author's release (dreamer-3.3.1.tar.gz), got by any way.

    Of a clone, only what is committed is taken. Which upstream it is shows from its commits; --upstream says it
    where it does not, as for a shallow clone of another commit.

    \b
    Example:
        tdmpc2-lean upstream add ~/src/tdmpc2
    """
    from tdmpc2_lean.upstreams import UPSTREAMS, add

    result = add(path, upstream)
    known = UPSTREAMS[result["upstream"]]
    if "release" in result:
        click.echo(f"{known.name}: release {result['release']} from {result['path']}, verified by its hash")
        return
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
    not count as local changes. An unpacked archive is known by its tree hash, among the tried commits and the history
    in the cache; of one that is no commit's, the nearest commit is named with what differs. Known issues of older
    commits are listed. Asks no network.

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
    if "release" in result:
        click.echo(f"    release {result['release']}, sdist {result['sdist_sha256']}")
    part = ", in part" if "release" in result else ", the nearest" if result.get("nearest") else ""
    click.echo(f"    commit {result['commit'] or 'unknown'}{part}")
    click.echo(f"    tree   {result['tree'] or 'unknown'}")
    if result["patches"]:
        click.echo(f"    patches applied: {', '.join(patch['name'] for patch in result['patches'])}")
    for issue in result["known_issues"]:
        click.echo(f"    known issue: {issue}")
    for path in result["local_changes"][:20]:
        click.echo(f"    changed: {path}")
    if len(result["local_changes"]) > 20:
        click.echo(f"    changed: and {len(result['local_changes']) - 20} more")
    if not result["verified"]:
        raise CheckFailed(
            f"not verified: {result['reason']}.",
            "`tdmpc2-lean upstream list` shows the official commits at hand",
        )
    aside = ", patches aside" if result["patches"] else ""
    if "release" not in result:
        click.echo(f"verified: every file is the official commit's{aside}")
        return
    compared = result["compared"]
    if compared:
        other = compared["other"]
        click.echo(f"    {compared['equal']} files are the commit's; {len(other)} are metadata of the package:")
        click.echo(f"        {', '.join(other)}")
        if compared["missing"]:
            raise CheckFailed(f"not verified: the release lacks {', '.join(compared['missing'])}.")
    click.echo(f"verified: every file is the release's, by the hash of its source distribution{aside}")
