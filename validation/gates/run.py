"""Runs gates, and the mutants that they must reject; `tdmpc2-lean gate run` is its face."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tdmpc2_lean.patching import Patch
from tdmpc2_lean.validation.gates import process
from tdmpc2_lean.validation.gates.results import FAIL, PASS, GateReport, Result
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
) -> GateReport:
    """Runs gates on a subject, or on the mutants that are their controls; `tell` hears of each result as it comes.

    budget: of its upstream's kind; default: that kind's defaults. UserError where it is too small for the gates.
    at_once: how many gates run at the same time, for machines with cores to spare.
    Called in a main thread it ends in order by SIGINT, SIGTERM and SIGHUP (see `process.ended_by_signals`).
    """
    suite = suite_of(subject.upstream)
    budget = budget or suite.budget()
    gates = chosen(names, subject.upstream)
    check_steps(gates, budget)
    results: list[Result] = []
    with process.ended_by_signals():
        runs = TracedRuns(budget, suite.tracing)

        def results_of(gate: Gate) -> list[Result]:
            found = []
            tried = (rejected(gate, subject, control, runs) for control in controls_of(gate.name, subject.upstream))
            for result in tried if controls else gate.run(subject, runs):
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
    provenance = {
        "subject": subject.name,
        "reference": subject.reference.provenance(),
        "patches": [[p.name, p.sha256] for p in subject.series.patches] if subject.series else None,
        "budget": dataclasses.asdict(budget),
        "versions": versions(suite.packages),
        "device": "cpu",
    }
    return GateReport(provenance, tuple(results))


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
