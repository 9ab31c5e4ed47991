"""The gate `resume` on TD-MPC2: does a run that was killed and resumed compute what the uninterrupted one computes?

One run is never interrupted and saves nothing: the reference. A second one saves at every step, which may not change
what it computes. Copies of what it saved, at steps in every phase of training, are then resumed, and each must go on
as the reference did: actions, transitions, batches, losses, parameters, optimisers, running scale, evaluations and
random states are compared (see `trace_tdmpc2`).
"""

import dataclasses
import itertools
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from tdmpc2_lean.validation.gates import names_tdmpc2, process, trace
from tdmpc2_lean.validation.gates.results import FAIL, PASS, Result, failed_to_run, without_settings
from tdmpc2_lean.validation.gates.subjects import GateSubject
from tdmpc2_lean.validation.gates.trace import Dumped, SwitchedRecorder
from tdmpc2_lean.validation.gates.trace_tdmpc2 import TDMPC2Budget

MODULE = "tdmpc2_lean.validation.gates.resuming_tdmpc2"


def planned(budget: TDMPC2Budget) -> tuple[dict[str, int], list[str]]:
    """Agent steps at which a run is resumed, by what is going on there, and what of this so few steps do not reach.

    Every step named is one after which the run saves. Episodes end at multiples of their length; an evaluation that
    is due is made when the next one begins.
    """
    length, within = budget.episode_length, range(1, budget.steps + 1)

    def is_due(step: int) -> bool:
        """Whether the run waits for the end of its episode to evaluate."""
        asked = (step - 1) // budget.eval_freq * budget.eval_freq
        return asked > 0 and -(-asked // length) * length >= step

    full = [step for step in within if budget.is_full(step) and step % length]
    places = {
        "within the first episode, nothing stored yet": [step for step in within if length // 2 <= step < length][:1],
        "within an episode, an evaluation due": [step for step in within if is_due(step) and step % length][:3],
        "between episodes, an evaluation due": [step for step in within if is_due(step) and step % length == 0][:1],
        "within the last episode, the buffer full": [step for step in full if step // length == full[-1] // length][:3],
    }
    # Of the first three steps of a place the last: some of the episode is behind, where there is room for it.
    stops = {what: steps[-1] for what, steps in places.items() if steps} | {"finished": budget.steps + 1}
    return stops, [f"a stop {what}" for what, steps in places.items() if not steps]


def resume(subject: GateSubject, budget: TDMPC2Budget) -> Iterator[Result]:
    """One result for saving, and one for each step at which the run is resumed."""
    if missing := without_settings("resume", subject.config, "checkpoint_minutes"):
        yield from missing
        return
    with tempfile.TemporaryDirectory(prefix="tdmpc2-lean-resume-") as folder:
        runs = ResumedRuns(subject.code_dir, budget, Path(folder))
        yield runs.judged("resume/saving", "a run that saves at every step", lambda: runs.saving())
        for what, step in runs.stops.items():
            told = f"resumed at step {step}, {what}"
            yield runs.judged(f"resume/{step}", told, lambda step=step: runs.resumed(step))


class ResumedRuns:
    """The runs of the gate, made in two processes: the two from the start, then all that are resumed."""

    def __init__(self, code_dir: Path, budget: TDMPC2Budget, folder: Path):
        self.code_dir, self.budget, self.folder = code_dir, budget, folder
        self.stops, _ = planned(budget)

    def judged(self, gate: str, what: str, compare) -> Result:
        started = time.time()
        try:
            events, here = compare()
        except process.ChildFailed as failure:
            return failed_to_run(gate, failure, started)
        figures = {"events": events} | (dataclasses.asdict(here) if here else {})
        if here is not None:
            return Result(gate, FAIL, f"{what}: {here}", figures, time.time() - started)
        detail = f"{what}: {events} events equal, bit for bit, to the uninterrupted run"
        return Result(gate, PASS, detail, figures, time.time() - started)

    def make(self, runs: dict[str, dict]) -> None:
        """Make runs in one process: name -> arguments of `train`. Traces are <name>.jsonl in the folder."""
        budget = dataclasses.asdict(self.budget)
        process.call(f"{MODULE}:train_all", self.code_dir, folder=str(self.folder), budget=budget, runs=runs)

    def trace_of(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    @cached_property
    def from_start(self) -> None:
        """Makes the uninterrupted run, and the one that saves, with copies <step>.pt of what it saved."""
        copied = list(self.stops.values())
        self.make({"reference": {}, "saving": {"saving": True, "copied": copied}})

    @cached_property
    def from_copies(self) -> None:
        """Makes all runs that are resumed."""
        steps = self.stops.values()
        self.make({f"resumed-at-{step}": {"saving": True, "start": f"{step}.pt"} for step in steps})

    def saving(self) -> tuple[int, trace.Divergence | None]:
        """Events compared and the first divergence of the run that saves."""
        _ = self.from_start
        return self.compared(self.trace_of("reference"), "saving", 0, {"saving": True})

    def resumed(self, step: int) -> tuple[int, trace.Divergence | None]:
        """Events compared and the first divergence of the run resumed at a step."""
        _ = self.from_start, self.from_copies
        tail, skipped = self.folder / f"reference-from-{step}.jsonl", 0
        with open(self.trace_of("reference"), encoding="utf-8") as whole, open(tail, "w", encoding="utf-8") as file:
            file.write(next(whole))
            for line in whole:
                if json.loads(line)["step"] >= step:
                    file.write(line)
                else:
                    skipped += 1
        return self.compared(tail, f"resumed-at-{step}", skipped, {"saving": True, "start": f"{step}.pt"})

    def compared(
        self, reference: Path, subject: str, skipped: int, arguments: dict
    ) -> tuple[int, trace.Divergence | None]:
        """As trace.compare; where the traces hold digests only, both runs are repeated up to there for the values.

        skipped: events of the uninterrupted run before the first one of `reference`.
        """
        events, here = trace.compare(reference, self.trace_of(subject))
        if here is not None and here.largest is None and not here.reference:
            runs = {"was": {"dump_at": here.event + skipped}, "is": {"dump_at": here.event} | arguments}
            self.make(runs)
            here = trace.compare_dumps(here, *(self.trace_of(name).with_suffix(".dump") for name in runs))
        return events, here


# What follows runs in a process of its own, on the checkout's code.


def train_all(code_dir: Path, folder: str, budget: dict, runs: dict[str, dict]) -> dict:
    """Makes several runs, one after another; each has a folder <name> and a trace <name>.jsonl."""
    for name, arguments in runs.items():
        train(code_dir, Path(folder), name, TDMPC2Budget(**budget), **arguments)
    return {}


def train(
    code_dir: Path,
    folder: Path,
    name: str,
    budget: TDMPC2Budget,
    saving: bool = False,
    copied: Sequence[int] = (),
    start: str | None = None,
    dump_at: int | None = None,
) -> None:
    """Trains within a budget, evaluating apart, and writes the trace.

    saving: save at every step.        copied: steps at which to keep a copy of what is saved, as <step>.pt.
    start: the copy to resume from; the trace then begins where the run goes on.
    """
    from common.buffer import Buffer
    from common.logger import Logger
    from common.seed import set_seed
    from tdmpc2 import TDMPC2
    from trainer import online_trainer

    from tdmpc2_lean.validation.gates.trace_tdmpc2 import configuration, learned_state, make_env, watch

    settings = {"separate_eval": True}
    if saving:
        settings |= {"checkpoint_minutes": 0, "checkpoint_mid_episode": True}
    cfg = configuration(code_dir, folder / name, budget.overrides() | settings)
    recorder = SwitchedRecorder(folder / f"{name}.jsonl", {}, dump_at)
    set_seed(cfg.seed)
    env, agent, buffer, logger = make_env(cfg, budget), TDMPC2(cfg), Buffer(cfg), Logger(cfg)
    online_trainer.make_env = lambda cfg: make_env(cfg, budget)
    trainer = online_trainer.OnlineTrainer(cfg=cfg, env=env, agent=agent, buffer=buffer, logger=logger)
    watch(trainer, recorder)
    if start is None:
        # Values are too small here to move the running scale from where a new one starts.
        names_tdmpc2.set_scale(agent, 3.0)
    else:
        recorder.on = False
        shutil.copyfile(folder / start, trainer.checkpoint.path)
    load, save = trainer.checkpoint.load, trainer.checkpoint.save

    def switching_load(*args):
        state = load(*args)
        recorder.on = True
        return state

    def copying_save(*args):
        save(*args)
        if trainer._step in copied:
            shutil.copyfile(trainer.checkpoint.path, folder / f"{trainer._step}.pt")

    trainer.checkpoint.load, trainer.checkpoint.save = switching_load, copying_save
    try:
        trainer.train()
        recorder.record(trainer._step, "parameters at the end", learned_state(agent))
        recorder.record(trainer._step, "replay at the end", dict(stored(buffer)))
        evaluations = list(itertools.chain.from_iterable(logger._eval))
        recorder.record(trainer._step, "evaluations", {"evaluations": evaluations})
    except Dumped:
        pass
    recorder.close()


def stored(buffer) -> Iterator[tuple[str, object]]:
    """All that lies in a replay buffer, in its order."""
    yield from sorted(buffer._buffer._storage[:].items())
    yield "episodes", buffer.num_eps
    yield "cursor", buffer._buffer._writer._cursor
