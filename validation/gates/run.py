"""Runs gates, and the mutants that they must reject; `tdmpc2-lean gate run` is its face."""

import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tdmpc2_lean.patching import Patch, read_series
from tdmpc2_lean.runs.threads import usable_cores
from tdmpc2_lean.validation.gates import executed, kept, process, traced_runs, verdicts
from tdmpc2_lean.validation.gates.results import FAIL, PASS, GateReport, Result, report_of_json, result_of_json
from tdmpc2_lean.validation.gates.strength import forks
from tdmpc2_lean.validation.gates.subjects import GateSubject, controls_of, mutated
from tdmpc2_lean.validation.gates.suites import Gate, check_steps, chosen, suite_of
from tdmpc2_lean.validation.gates.traced_runs import TracedRuns
from tdmpc2_lean.versions import versions


def run(
    subject: GateSubject,
    names: Sequence[str] = (),
    budget=None,
    controls: bool = False,
    tell: Callable[[Result], None] = lambda result: None,
    at_once: int | None = None,
    recalling: bool = False,
) -> GateReport:
    """Runs gates on a subject, or on the mutants that are their controls; `tell` hears of each result as it comes.

    Of a fork the report also has a result for each of its changes: see `verdicts`.
    budget: of its upstream's kind; default: that kind's defaults. UserError where it is too small for the gates.
    at_once: how many processes of gates run at the same time, each with one thread; default: the cores usable here.
    recalling: whether references may be taken from the cache, where an earlier run has kept them; and what gates found
    on the code without the changes, if all changes are within functions that they do not execute.
    Called in a main thread it ends in order by SIGINT, SIGTERM and SIGHUP (see `process.ended_by_signals`).
    """
    suite = suite_of(subject.upstream)
    budget = budget or suite.budget()
    gates = chosen(names, subject.upstream)
    check_steps(gates, budget)
    changes = () if controls else subject.accounting.changes
    marks = executed.marks_of(changes)
    if not controls and not changes:
        marks = executed.all_functions(subject.files)
    lacking = frozenset() if controls else subject.lacking
    results: list[Result] = []
    with (
        process.ended_by_signals(),
        forks.sharing(suite.tracing.stack),
        process.at_once(at_once or usable_cores()),
        executed.watching(subject.code_dir, marks) as watch,
    ):
        runs = TracedRuns(budget, suite.tracing, references_of(subject) if recalling else (), suite.packages)

        def results_of(gate: Gate) -> list[Result]:
            found = []
            before = kept_of_gate(subject, gate, budget) if recalling and changes else None
            if before is not None:
                for result in before:
                    found.append(result)
                    tell(result)
                return found
            executed.gate.set(gate.name)
            traced_runs.early.set(controls)
            tried = (rejected(gate, subject, control, runs) for control in controls_of(gate.name, subject.upstream))
            for result in tried if controls else gate.run(subject, runs):
                result = verdicts.of_what_is_missing(result, lacking)
                found.append(result)
                tell(result)
            return found

        try:
            # Gates wait for each other's processes, not for each other. No thread of theirs is where signals arrive.
            with ThreadPoolExecutor(len(gates)) as pool:
                try:
                    for found in pool.map(results_of, gates):
                        results.extend(found)
                except BaseException:
                    process.interrupt()
                    raise
        finally:
            runs.close()
    if not controls:
        comparing = {gate.name: gate.blind for gate in suite.gates.values() if gate.with_reference}
        results += verdicts.judged_changes(subject, results, comparing, marks, watch.by_gate)
    by_number = {mark.number: mark.change for mark in marks}
    functions = {} if changes else {name: sorted({by_number[n] for n in met}) for name, met in watch.by_gate.items()}
    return GateReport(
        surroundings_of(subject, budget),
        tuple(results),
        {} if controls else subject.accounting.as_dict(),
        executed=functions,
    )


def surroundings_of(subject: GateSubject, budget) -> dict:
    """What a report says of its results: what was compared, with which versions."""
    return {
        "subject": subject.name,
        "reference": subject.reference.provenance(),
        "why": subject.why,
        "patches": [[p.name, p.sha256] for p in subject.series.patches] if subject.series else None,
        "budget": dataclasses.asdict(budget),
        "versions": versions(suite_of(subject.upstream).packages),
        "device": "cpu",
    }


def references_of(subject: GateSubject) -> list[Path]:
    """The code folders that are no subject's own: the reference, and what lies between it and a patched subject."""
    between = len(subject.series.patches) if subject.series else 1
    found = [subject.prefix(0)] + [subject.prefix(length) for length in range(1, between)]
    return [folder for folder in found if folder.resolve() != subject.code_dir.resolve()]


def same_text(subject: GateSubject, budget) -> GateReport | None:
    """The report on a fork that does not differ from unpatched official code, for which nothing needs to run."""
    account = subject.accounting
    if subject.series is not None or account.changes or account.patches:
        return None
    words = f"the same syntax tree in {account.definitions} places as {subject.reference.label}; nothing needs to run"
    result = Result("same-text", PASS, words)
    return GateReport(surroundings_of(subject, budget), (result,), account.as_dict())


def facts_of(subject: GateSubject, gates: Sequence[Gate], budget) -> dict | None:
    """What the report on code without a change depends on; None for code with one, which nothing else stands for."""
    if subject.accounting.changes:
        return None
    series = {patch.name: patch.sha256 for patch in read_series(subject.reference.upstream)}
    return kept.surroundings(suite_of(subject.upstream).packages) | {
        "reference": kept.hash_of_files(subject.official),
        "commit": subject.reference.commit,
        "patches": [[name, series[name]] for name in subject.accounting.patches],
        "as a series": subject.series is not None,
        "gates of": [gate.name for gate in gates],
        "budget": dataclasses.asdict(budget),
    }


def recalled(subject: GateSubject, gates: Sequence[Gate], budget) -> GateReport | None:
    """The report of an earlier run here on the same code, every gate of which passed."""
    facts = facts_of(subject, gates, budget)
    found = kept.recall("reports", facts) if facts is not None else None
    if found is None:
        return None
    try:
        report = report_of_json((found[0] / "report.json").read_text(encoding="utf-8"), found[1])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return report if report.ok else None


def keep(subject: GateSubject, gates: Sequence[Gate], budget, report: GateReport) -> None:
    """Keeps a report in which every gate passed, if it is on code without a change."""
    facts = facts_of(subject, gates, budget)
    if facts is None:
        return
    for gate in gates:
        found = [one for one in report.results if one.gate.partition("/")[0] == gate.name]
        if any(one.outcome == PASS for one in found) and all(one.ok for one in found):
            record = {"results": [one.as_dict() for one in found], "executed": report.executed.get(gate.name, [])}
            written = json.dumps(record)
            kept.keep(
                "functions",
                facts_of_gate(subject, gate, budget),
                lambda folder, written=written: (folder / "gate.json").write_text(written, encoding="utf-8"),
            )
    if report.ok:
        text = report.as_json()
        kept.keep("reports", facts, lambda folder: (folder / "report.json").write_text(text, encoding="utf-8"))


def facts_of_gate(subject: GateSubject, gate: Gate, budget) -> dict:
    """What the results of a gate depend on, on the subject's reference with those of our patches that it has."""
    files, names = subject.expected
    return kept.surroundings(suite_of(subject.upstream).packages) | {
        "reference": kept.hash_of_files(subject.official),
        "commit": subject.reference.commit,
        "expected": kept.hash_of_files(files),
        "patches": list(names),
        "gate": gate.name,
        "budget": dataclasses.asdict(budget),
    }


def kept_of_gate(subject: GateSubject, gate: Gate, budget) -> list[Result] | None:
    """What an earlier run of a gate here found on the code without the subject's changes, if that is the same run.

    It is where all changes are within bodies of functions, and the gate executed none of these. None elsewhere.
    """
    changes = subject.accounting.changes
    if not all(executed.only_bodies_differ(change) for change in changes):
        return None
    found = kept.recall("functions", facts_of_gate(subject, gate, budget))
    if found is None:
        return None
    try:
        record = json.loads((found[0] / "gate.json").read_text(encoding="utf-8"))
        results, names = [result_of_json(one) for one in record["results"]], set(record["executed"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not names or names & {change.id for change in changes}:
        return None
    said = f"as on {found[1]} without the changes, none of which it executes: "
    return [dataclasses.replace(one, detail=said + one.detail, seconds=0.0) for one in results]


def rejected(gate: Gate, subject: GateSubject, control: Patch, runs: TracedRuns) -> Result:
    """A control passes when the gate, run on the mutant that it makes of the subject, fails."""
    started, name = time.time(), f"{gate.name}/control/{control.name}"
    with mutated(subject, control) as mutant:
        # One failure is a rejection; the gate need not go on.
        failure = next((result for result in gate.run(mutant, runs) if result.outcome == FAIL), None)
    seconds = time.time() - started
    if failure is None:
        return Result(name, FAIL, f"NOT rejected: {control.title}", {}, seconds)
    if "output" in failure.figures:
        detail = f"the mutant does not even run: {failure.detail}"
        return Result(name, FAIL, detail, failure.figures, seconds)
    return Result(name, PASS, f"rejected ({control.title}): {failure.detail}", failure.figures, seconds)
