"""`tdmpc2-lean gate`: list and run the equivalence gates."""

import dataclasses
from pathlib import Path

import click

from tdmpc2_lean.files import atomic_write, check_writable
from tdmpc2_lean.tables import table, terminal_width


@click.group()
def gate():
    """Prove that a checkout computes what the official code computes.

    Each gate runs two versions of the code on this machine's CPU, the subject and its reference, and compares them,
    with zero tolerance unless it says otherwise. A gate that fails names the first divergence: step, quantity, largest
    difference, both values. Official is what git's hashes say, whoever names the folder; every difference of anything
    else is accounted for, and what no gate could judge is UNPROVED.
    """


UPSTREAM = click.option(
    "--upstream",
    metavar="NAME",
    help="tdmpc2 or dreamerv3; default: the upstream of the folder that --checkout names, else tdmpc2.",
)


@gate.command("list")
@UPSTREAM
def list_gates(upstream):
    """The gates: how many mutants each is known to reject, the least --steps it takes, and what it proves."""
    from tdmpc2_lean.validation.gates.subjects import controls_of
    from tdmpc2_lean.validation.gates.suites import least_steps, suite_of

    upstream = upstream or "tdmpc2"
    suite = suite_of(upstream)
    budget = suite.budget()
    rows = [
        (
            name,
            str(len(controls_of(name, upstream))),
            str(least_steps(this, budget)) if this.lacks else "",
            this.proves,
        )
        for name, this in suite.gates.items()
    ]
    columns = ("gate", "mutants", "least steps", "proves")
    click.echo(table(columns, rows, right=columns[1:3], width=terminal_width()))


@gate.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@UPSTREAM
@click.option(
    "--checkout",
    metavar="WHERE",
    help="A folder, a commit of the official repository, or `miniature`; default: the pinned official code. "
    "Unpatched code is judged with the whole series applied (in a copy); patched or changed code as it is.",
)
@click.option(
    "--steps",
    type=click.IntRange(1),
    help="Steps that the training gates compare: agent steps, or env steps of DreamerV3. Each gate has a least number, "
    "below which it would not see all that it promises to compare (`gate list`).",
)
@click.option("--task", help="Task of the training gates, such as walker-walk, or dmc_walker_walk of DreamerV3.")
@click.option("--against", metavar="COMMIT", help="The official commit to compare with; default: see below.")
@click.option("--account-only", is_flag=True, help="Only say what differs from the reference; run no gate.")
@click.option("--anew", is_flag=True, help="Run everything again, whatever is on record from earlier runs here.")
@click.option("--controls", is_flag=True, help="Run the gates on mutants, each of which must be rejected.")
@click.option(
    "--at-once", type=click.IntRange(1), help="Processes of gates at a time; default: the physical cores usable here."
)
@click.option("--allow-local-changes", is_flag=True, help="Judge a checkout that differs from its commit.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write the report to this file.")
def run(
    names,
    upstream,
    checkout,
    steps,
    task,
    against,
    account_only,
    anew,
    controls,
    at_once,
    allow_local_changes,
    json_file,
):
    """Run gates; all of them unless NAMEs are given.

    \b
    tdmpc2-lean gate run                                  on the pinned official code
    tdmpc2-lean gate run --checkout ~/my-fork --allow-local-changes
    tdmpc2-lean gate run --checkout ~/my-fork --account-only
    tdmpc2-lean gate run --controls                       can the gates fail? mutants must be rejected
    tdmpc2-lean gate run --upstream dreamerv3 seed

    Before anything runs it says of every function, class and setting of the checkout whether it has the syntax tree,
    or value, of the official code with our patches. What has not is a change. Official code with all its patches, and
    a fork without a change, are answered from the record of an earlier run here where there is one.

    \b
    pass        equal, bit for bit, on everything that was tried; a change: its statements were executed there
    FAIL        different; the first divergence is named
    UNPROVED    a change that no gate executed, or a gate that the official code has and the checkout made impossible
    not judged  the gate is about something that neither the checkout nor its reference has

    A fork is compared with the official commit that it is of; else with the newest one among its ancestors, by the
    history in the cache; else with the pin.

    Exit code 0 if everything was judged and passes (with --controls: if every mutant is rejected), 1 if a gate fails,
    3 if none fails but something is UNPROVED.
    """
    from tdmpc2_lean.validation.gates import results
    from tdmpc2_lean.validation.gates import run as running
    from tdmpc2_lean.validation.gates.subjects import find_subject, upstream_of
    from tdmpc2_lean.validation.gates.suites import check_steps, chosen, suite_of

    if json_file is not None:
        check_writable(json_file, "--json")
    upstream = upstream or upstream_of(checkout)
    suite = suite_of(upstream)
    budget = suite.budget(**({"steps": steps} if steps else {}))
    gates = chosen(names, upstream)
    check_steps(gates, budget)
    subject = find_subject(checkout, allow_local_changes, upstream, against)
    if task:
        budget = dataclasses.replace(budget, task=suite.task(task, subject.code_dir))
    click.echo(f"subject    {subject.name}")
    click.echo(f"reference  {subject.reference.label}{f' ({subject.why})' if subject.why else ''}, {suite.where}")
    if not controls:
        patches = subject.accounting.patches
        click.echo(
            f"           with {len(patches)} patches of ours: {', '.join(patches)}" if patches else "", nl=bool(patches)
        )
        click.echo("\n".join(subject.accounting.lines()))
    if account_only:
        return 0 if not subject.accounting.changes else results.EXIT_CODES[results.UNPROVED]

    def tell(result):
        click.echo(f"  {result.outcome:<10}  {result.gate}  ({result.seconds:.0f} s)", err=True)

    report = None
    if not controls and not anew:
        report = running.same_text(subject, budget) or running.recalled(subject, gates, budget)
    if report is None:
        recalling = not anew and not controls
        report = running.run(subject, names, budget, controls, tell, at_once, recalling)
        if not controls:
            running.keep(subject, gates, budget, report)
    elif report.recorded:
        click.echo(
            f"nothing has changed since a run here on {report.recorded}, whose record this is; --anew runs again"
        )
    click.echo(results.results_table(report.results, terminal_width()))
    click.echo(results.summary(report.results))
    if json_file is not None:
        atomic_write(json_file, report.as_json() + "\n")
    return report.exit_code


@gate.command()
@UPSTREAM
@click.option("--checkout", metavar="WHERE", help="As of `gate run`.")
@click.option("--allow-local-changes", is_flag=True, help="Measure on a checkout that differs from its commit.")
@click.option("--sample", type=click.IntRange(1), default=100, show_default=True, help="How many mutants to judge.")
@click.option("--all", "every", is_flag=True, help="Judge all of them.")
@click.option("--seed", default=0, show_default=True, help="Which ones: the first of an order that this decides.")
@click.option("--file", "files", multiple=True, metavar="FILE", help="Only mutants of this file, such as tdmpc2.py.")
@click.option("--gate", "names", multiple=True, metavar="GATE", help="Only this gate judges; default: all gates.")
@click.option("--at-once", type=click.IntRange(1), default=1, show_default=True, help="Mutants judged at a time.")
@click.option("--at-least", type=click.FloatRange(0, 100), help="Exit code 1 if fewer than so many % are rejected.")
@click.option("--list", "listing", is_flag=True, help="List the mutants that would be judged, and judge none.")
@click.option("--show", metavar="ID", help="Show a mutant's diff, and what names it in a list of harmless ones.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write scores and survivors here.")
def strength(upstream, checkout, allow_local_changes, json_file, **asked):
    """Measure how many mutants of the code the gates reject.

    A mutant is the code with one systematic wrong edit. Only what gates see when they run it counts. Every outcome is
    kept; the same command goes on where it was ended, and does nothing twice.

    \b
    tdmpc2-lean gate strength --sample 100           a sample, with a 95 % interval
    tdmpc2-lean gate strength --all --at-once 2      every mutant: hours
    tdmpc2-lean gate strength --file common/math.py --gate default-identity --all
    tdmpc2-lean gate strength --show common/math.py:12:8:number:1
    """
    from tdmpc2_lean.validation.gates.strength import command
    from tdmpc2_lean.validation.gates.subjects import find_subject, upstream_of

    if json_file is not None:
        check_writable(json_file, "--json")
    subject = find_subject(checkout, allow_local_changes, upstream or upstream_of(checkout))
    return command.answer(subject, json_file=json_file, **asked)
