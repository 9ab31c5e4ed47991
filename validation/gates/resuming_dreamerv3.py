"""The gate `resume` on DreamerV3: does a run that was killed and resumed compute what the uninterrupted one computes?

One run is never interrupted and saves nothing: the reference. Another is ended by signals in every phase of training,
and goes on in a new process each time. What each process computed is compared with that part of the reference.
"""

import dataclasses
import json
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tdmpc2_lean.validation.gates import process, trace
from tdmpc2_lean.validation.gates.dreamerv3 import SEEDED
from tdmpc2_lean.validation.gates.results import FAIL, PASS, Result, failed_to_run, without_settings
from tdmpc2_lean.validation.gates.subjects import GateSubject
from tdmpc2_lean.validation.gates.trace_dreamerv3 import DRIVE, DreamerV3Budget
from tdmpc2_lean.validation.gates.traced_runs import TracedRuns

RESUMED = SEEDED | {"run.resume_exact": True}
SAVING = 30  # env steps between checkpoints


@dataclasses.dataclass(frozen=True)
class Stop:
    """The end of one process of the run.

    step: env step at which it sends itself the signal. SIGTERM is a clean stop: it saves when the drive in progress
    is made. SIGKILL leaves the checkpoint before it. when: the phase of training.
    """

    step: int
    signal: signal.Signals
    when: str

    @property
    def resumed_at(self) -> int:
        """The env step at which the next process goes on."""
        begun = self.step // DRIVE * DRIVE
        return begun + DRIVE if self.signal == signal.SIGTERM else begun // SAVING * SAVING


def planned(budget: DreamerV3Budget) -> tuple[list[Stop], list[str]]:
    """Where the run is ended, in order, and what of this so few steps do not reach.

    Environments step together: `envs` env steps before its end the run makes the last step at which it can be ended.
    """
    last = budget.end - budget.envs
    fills = range(SAVING + 1, min(budget.first_update, last + 1))
    trains = range(budget.first_update + 1, last + 1)
    evicts = range(max(budget.full, trains.start) + 1, last + 1)
    # A while into each phase, where there is room: something of it is done, and lost.
    places = [
        (fills[: SAVING // 2], signal.SIGKILL, "while the replay fills"),
        (trains[: DRIVE + 1], signal.SIGTERM, "while it trains, by a clean stop"),
        (evicts[: SAVING // 2], signal.SIGKILL, "while it trains and evicts"),
    ]
    stops = [Stop(steps[-1], with_signal, when) for steps, with_signal, when in places if steps]
    return stops, [f"a stop {when}" for steps, _, when in places if not steps]


def resume(subject: GateSubject, runs: TracedRuns) -> Iterator[Result]:
    """A run that is ended three times, and resumed each time, against the uninterrupted run that never saves."""
    if missing := without_settings("resume", subject.config, *RESUMED):
        yield from missing
        return
    with tempfile.TemporaryDirectory(prefix="tdmpc2-lean-resume-") as folder:
        run = InterruptedRun(subject.code_dir, runs, Path(folder))
        with ThreadPoolExecutor(1) as pool:
            reference = pool.submit(runs.trace_of, subject.code_dir, **run.reference)
            for number in range(len(run.stops) + 1):
                started = time.time()
                try:
                    result = run.judged(number, reference)
                except process.ChildFailed as failure:
                    yield failed_to_run(f"resume/{number}", failure, started)
                    return
                yield result
                if result.outcome == FAIL:
                    return


class InterruptedRun:
    """One run in several processes, one after another, in one folder; each but the last is ended by a signal."""

    reference = {"from_outside": False, "overrides": RESUMED}

    def __init__(self, code_dir: Path, runs: TracedRuns, folder: Path):
        self.code_dir, self.runs, self.folder = code_dir, runs, folder
        self.stops, _ = planned(runs.budget)
        self.logdir = folder / "run"

    def judged(self, number: int, reference) -> Result:
        """Runs process `number` and compares what it computed. reference: a future of the uninterrupted run's trace."""
        started, gate = time.time(), f"resume/{number}"
        first = self.stops[number - 1].resumed_at if number else 0
        stop = self.stops[number] if number < len(self.stops) else None
        what = f"from step {first}" if first else "from the start"
        if stop:
            what += f" until {stop.signal.name} at step {stop.step}, {stop.when}"
        else:
            what += f" to the end at step {self.runs.budget.end}"
        path = self.folder / f"{number}.jsonl"
        before = self.folder / f"before-{number}"
        if self.logdir.exists():
            shutil.copytree(self.logdir, before)
        self.run(path, self.logdir, stop)
        tail = self.folder / f"reference-{number}.jsonl"
        events = list(trace.read_events(path))
        begun = events[0]["step"] if events else None
        if begun != first:
            detail = f"{what}: first divergence at the start: it began at step {begun}, {first} expected"
            return Result(gate, FAIL, detail, {"began": begun}, time.time() - started)
        skipped = cut_trace(reference.result(), tail, first, len(events) if stop else None)
        count, here = trace.compare(tail, path)
        if here is not None and here.largest is None and not here.reference:
            here = self.with_values(here, skipped, number, before)
        figures = {"events": count} | (dataclasses.asdict(here) if here else {})
        if here is not None:
            return Result(gate, FAIL, f"{what}: {here}", figures, time.time() - started)
        detail = f"{what}: {count} events equal, bit for bit, to the uninterrupted run"
        return Result(gate, PASS, detail, figures, time.time() - started)

    def run(self, path: Path, logdir: Path, stop: Stop | None = None, dump_at: int | None = None) -> None:
        """One process; raises ChildFailed unless it ends as it should."""
        arguments = {
            "trace": str(path),
            "budget": dataclasses.asdict(self.runs.budget),
            "from_outside": False,
            "overrides": RESUMED | {"run.save_every": SAVING},
            "logdir": str(logdir),
            "stop": {"step": stop.step, "signal": int(stop.signal)} if stop else None,
            "dump_at": dump_at,
        }
        tracing = self.runs.tracing
        try:
            process.call(tracing.function, self.code_dir, None, tracing.stack, **arguments)
        except process.ChildFailed as failure:
            if stop is None or failure.code not in (-stop.signal, 128 + stop.signal):
                raise
            return
        if stop is not None and stop.signal == signal.SIGKILL:
            why = f"the process outlived its SIGKILL at {stop.step}"
            raise process.ChildFailed(tracing.function, self.code_dir, why)

    def with_values(self, here: trace.Divergence, skipped: int, number: int, before: Path) -> trace.Divergence:
        """`here` with the values: both sides run again up to it."""
        reference = self.runs.trace_of(self.code_dir, here.event + skipped, **self.reference)
        again, logdir = self.folder / f"{number}-again.jsonl", self.folder / f"{number}-again"
        if before.exists():
            shutil.copytree(before, logdir)
        self.run(again, logdir, dump_at=here.event)
        return trace.compare_dumps(here, reference.with_suffix(".dump"), again.with_suffix(".dump"))


def cut_trace(trace_file: Path, tail: Path, first: int, count: int | None) -> int:
    """Writes the events of a trace from the drive that begins at step `first`; returns how many are before it.

    count: how many to write; None: all.
    """
    skipped, kept = 0, []
    with open(trace_file, encoding="utf-8") as lines:
        header = next(lines)
        for line in lines:
            if not kept:
                event = json.loads(line)
                if (event["what"], event["step"]) != ("drive", first):
                    skipped += 1
                    continue
            kept.append(line)
    tail.write_text(header + "".join(kept[:count]), encoding="utf-8")
    return skipped
