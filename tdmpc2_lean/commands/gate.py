"""`tdmpc2-lean gate`: list and run the equivalence gates."""

from pathlib import Path

import click

from tdmpc2_lean.errors import UserError


@click.group()
def gate():
    """Prove that a checkout computes what the official code computes.

    Each gate runs two versions of the code on this machine's CPU and compares them, with zero tolerance unless it
    says otherwise. A gate that fails names the first divergence: step, quantity, largest difference, both values.
    """


UPSTREAM = click.option(
    "--upstream",
    metavar="NAME",
    help="tdmpc2 or dreamerv3; default: the upstream of the folder that --checkout names, else tdmpc2.",
)


@gate.command("list")
@UPSTREAM
def list_gates(upstream):
    """The gates, what each proves, and how many wrong patches it is known to reject."""
    from tdmpc2_lean.validation.gates.run import suite_of
    from tdmpc2_lean.validation.gates.subjects import controls_of

    upstream = upstream or "tdmpc2"
    gates = suite_of(upstream).gates
    width = max(map(len, gates))
    for name, this in gates.items():
        click.echo(f"{name:<{width}}  {len(controls_of(name, upstream))} controls  {this.proves}")


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
    type=click.IntRange(60),
    help="Steps that the training gates compare: agent steps, or env steps of DreamerV3.",
)
@click.option("--task", help="Task of the training gates, such as walker-walk, or dmc_walker_walk of DreamerV3.")
@click.option("--controls", is_flag=True, help="Run the gates on wrong patches, each of which must be rejected.")
@click.option("--allow-local-changes", is_flag=True, help="Judge a checkout that differs from its commit.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write the report to this file.")
def run(names, upstream, checkout, steps, task, controls, allow_local_changes, json_file):
    """Run gates; all of them unless NAMEs are given.

    \b
    tdmpc2-lean gate run                                  on the pinned official code
    tdmpc2-lean gate run default-identity --checkout ~/my-fork --allow-local-changes
    tdmpc2-lean gate run --controls                       can the gates fail? wrong patches must be rejected
    tdmpc2-lean gate run --upstream dreamerv3 seed

    Exit code 0 if every gate passes (with --controls: if every wrong patch is rejected), 1 if one does not.
    """
    from tdmpc2_lean.validation.gates import results
    from tdmpc2_lean.validation.gates.run import chosen, suite_of
    from tdmpc2_lean.validation.gates.run import run as run_gates
    from tdmpc2_lean.validation.gates.subjects import find_subject, upstream_of

    upstream = upstream or upstream_of(checkout)
    chosen(names, upstream)
    if json_file is not None and not json_file.parent.is_dir():
        raise UserError(f"The folder of --json {json_file} does not exist.", f"mkdir -p {json_file.parent}")
    subject = find_subject(checkout, allow_local_changes, upstream)
    suite = suite_of(subject.upstream)
    wanted = ({"steps": steps} if steps else {}) | ({"task": suite.task(task, subject.code_dir)} if task else {})
    budget = suite.budget(**wanted)
    click.echo(f"subject    {subject.name}")
    click.echo(f"reference  {subject.reference.label}, {suite.where}")

    def tell(result):
        click.echo(f"  {result.outcome:<10}  {result.gate}  ({result.seconds:.0f} s)", err=True)

    report = run_gates(subject, names, budget, controls, tell)
    click.echo(results.table(report.results))
    click.echo(results.summary(report.results))
    if json_file is not None:
        json_file.write_text(report.as_json() + "\n", encoding="utf-8")
    return 0 if report.ok else 1
