"""What `tdmpc2-lean gate strength` prints."""

import difflib
import sys
from collections import Counter
from pathlib import Path

import click

from tdmpc2_lean.files import atomic_write
from tdmpc2_lean.tables import terminal_width
from tdmpc2_lean.validation.gates.strength.measuring import Strength, measure, mutant_named
from tdmpc2_lean.validation.gates.strength.mutants import Mutant, in_order, mutants_of
from tdmpc2_lean.validation.gates.strength.score import score_table
from tdmpc2_lean.validation.gates.subjects import GateSubject


def answer(
    subject: GateSubject,
    sample: int,
    every: bool,
    seed: int,
    files: tuple[str, ...],
    names: tuple[str, ...],
    at_once: int,
    at_least: float | None,
    listing: bool,
    show: str | None,
    json_file: Path | None,
) -> int:
    """Carries the command out and returns its exit code."""
    if show:
        click.echo(shown(subject, mutant_named(subject, show)))
        return 0
    number = None if every else sample
    if listing:
        for mutant in in_order(mutants_of(subject, files), seed)[:number]:
            click.echo(f"{mutant.id}  {mutant.what}")
        return 0
    click.echo(f"subject    {subject.name}")
    click.echo(f"reference  {subject.reference.label}")

    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    found = measure(subject, number, seed, files, names, at_once=at_once, tell=tell)
    click.echo(report(found))
    if json_file is not None:
        atomic_write(json_file, found.as_json() + "\n")
    return int(at_least is not None and (found.total.share or 0) * 100 < at_least)


def report(found: Strength) -> str:
    """The survivors, what cannot be judged here, how the others were rejected, and the score of each file."""
    lines = [f"judged by   {', '.join(found.gates)}"]
    if found.survivors:
        lines += ["", "not rejected:"]
        for mutant, outcome in found.survivors:
            where = f" in {mutant.edit.function}" if mutant.edit.function else ""
            why = f"{outcome.how}: {outcome.detail}" if outcome.detail else outcome.how
            lines.append(f"  {mutant.id}{where}: {mutant.what}  ({why}; {mutant.structure})")
    if found.unreachable:
        lines += ["", "not reachable here:"]
        lines += [f"  {count:5}  {reason}" for reason, count in found.unreachable.items()]
    hows = Counter(f"{outcome.outcome}, {outcome.how}" for _, outcome in found.judged)
    lines += ["", *(f"  {count:5}  {how}" for how, count in sorted(hows.items()))]
    lines += ["", score_table(found.tallies, terminal_width())]
    return "\n".join(lines)


def shown(subject: GateSubject, mutant: Mutant) -> str:
    """A mutant's diff against the subject, and its entry for a list of harmless mutants."""
    was = (subject.code_dir / mutant.file).read_bytes()
    sides = (text.decode("utf-8").splitlines() for text in (was, mutant.edit.applied(was)))
    diff = difflib.unified_diff(*sides, mutant.file, f"{mutant.file}, mutant {mutant.id}", lineterm="")
    entry = [
        f"[[{subject.upstream}]]",
        f'file = "{mutant.file}"',
        f'function = "{mutant.edit.function}"',
        f'operator = "{mutant.edit.operator}"',
        f'structure = "{mutant.structure}"',
        'reason = ""',
    ]
    where = "In harmless.toml, if nothing that can be observed is changed, with the reason:"
    return "\n".join([*diff, "", where, *entry])
