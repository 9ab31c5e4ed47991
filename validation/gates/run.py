"""Runs gates, and the mutants that they must reject; `tdmpc2-lean gate run` is its face."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tdmpc2_lean.patching import Patch, read_series
from tdmpc2_lean.validation.gates import executed, kept, process, verdicts
from tdmpc2_lean.validation.gates.results import FAIL, PASS, GateReport, Result, report_of_json
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
    at_once: int = 1,
    recalling: bool = False,
) -> GateReport:
    """Runs gates on a subject, or on the mutants that are their controls; `tell` hears of each result as it comes.

    Of a fork the report also has a result for each of its changes: see `verdicts`.
    budget: of its upstream's kind; default: that kind's defaults. UserError where it is too small for the gates.
    at_once: how many gates run at the same time, for machines with cores to spare.
    recalling: whether references may be taken from the cache, where an earlier run has kept them.
    Called in a main thread it ends in order by SIGINT, SIGTERM and SIGHUP (see `process.ended_by_signals`).
    """
    suite = suite_of(subject.upstream)
    budget = budget or suite.budget()
    gates = chosen(names, subject.upstream)
    check_steps(gates, budget)
    marks = [] if controls else executed.marks_of(subject.accounting.changes)
    lacking = frozenset() if controls else subject.lacking
    results: list[Result] = []
    with process.ended_by_signals(), executed.watching(subject.code_dir, marks) as watch:
        runs = TracedRuns(budget, suite.tracing, references_of(subject) if recalling else (), suite.packages)

        def results_of(gate: Gate) -> list[Result]:
            found = []
            executed.gate.set(gate.name)
            tried = (rejected(gate, subject, control, runs) for control in controls_of(gate.name, subject.upstream))
            for result in tried if controls else gate.run(subject, runs):
                result = verdicts.of_what_is_missing(result, lacking)
                found.append(result)
                tell(result)
            return found

        try:
            # In threads also where there is one at a time: none of them is where signals arrive.
            with ThreadPoolExecutor(at_once) as pool:
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
    return GateReport(
        surroundings_of(subject, budget), tuple(results), {} if controls else subject.accounting.as_dict()
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
    if facts is not None and report.ok:
        text = report.as_json()
        kept.keep("reports", facts, lambda folder: (folder / "report.json").write_text(text, encoding="utf-8"))


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
