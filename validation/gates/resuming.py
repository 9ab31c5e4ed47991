"""The gate `resume`: does a run that was killed and resumed compute what the uninterrupted run computes, bit for bit?

One run is never interrupted and saves nothing: the reference. A second one saves at every step, which may not change
what it computes. Copies of what it saved, at steps in every phase of training, are then resumed, and each must go on
as the reference did: actions, transitions, batches, losses, parameters, optimisers, running scale, evaluations and
random states are compared (see `traced`).
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

from tdmpc2_lean.validation.gates import process, trace
from tdmpc2_lean.validation.gates.results import FAIL, NOT_JUDGED, PASS, Result
from tdmpc2_lean.validation.gates.subjects import Subject
from tdmpc2_lean.validation.gates.trace import Dumped, Recorder
from tdmpc2_lean.validation.gates.trace_tdmpc2 import Budget

MODULE = "tdmpc2_lean.validation.gates.resuming"


def stops(budget: Budget) -> dict[str, int]:
    """Agent steps at which a run is resumed, by what is going on there; episodes end at multiples of their length."""
    length = budget.episode_length
    return {
        "within the first episode, nothing stored yet": length // 2,
        "within an episode, an evaluation due": budget.eval_freq + 3,
        "between episodes, an evaluation due": 2 * length,
        "within the last episode, the buffer full": budget.steps // length * length + 3,
        "finished": budget.steps + 1,
    }


def resume(subject: Subject, budget: Budget) -> Iterator[Result]:
    """One result for saving, and one for each step at which the run is resumed."""
    if "checkpoint_minutes" not in subject.config:
        yield Result("resume", NOT_JUDGED, "the checkout has no setting `checkpoint_minutes`")
        return
    with tempfile.TemporaryDirectory(prefix="tdmpc2-lean-resume-") as folder:
        arms = Arms(subject.code_dir, budget, Path(folder))
        yield arms.judged("resume/saving", "a run that saves at every step", lambda: arms.saving())
        for name, step in stops(budget).items():
            what = f"resumed at step {step}, {name}"
            yield arms.judged(f"resume/{step}", what, lambda step=step: arms.resumed(step))


class Arms:
    """The runs of the gate, made in two processes: the two from the start, then all that are resumed."""

    def __init__(self, code_dir: Path, budget: Budget, folder: Path):
        self.code_dir, self.budget, self.folder = code_dir, budget, folder

    def judged(self, gate: str, what: str, compare) -> Result:
        started = time.time()
        try:
            events, here = compare()
        except process.ChildFailed as failure:
            return Result(gate, FAIL, failure.message, {"output": failure.output[-4000:]}, time.time() - started)
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
        copied = list(stops(self.budget).values())
        self.make({"reference": {}, "saving": {"saving": True, "copied": copied}})

    @cached_property
    def from_copies(self) -> None:
        """Makes all runs that are resumed."""
        steps = stops(self.budget).values()
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


class Switched(Recorder):
    """Records only while it is on: bringing an environment back is no part of the run."""

    on = True

    def record(self, step, what, tensors):
        if self.on:
            super().record(step, what, tensors)


def train_all(code_dir: Path, folder: str, budget: dict, runs: dict[str, dict]) -> dict:
    """Makes several runs, one after another; each has a folder <name> and a trace <name>.jsonl."""
    for name, arguments in runs.items():
        train(code_dir, Path(folder), name, Budget(**budget), **arguments)
    return {}


def train(
    code_dir: Path,
    folder: Path,
    name: str,
    budget: Budget,
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
    recorder = Switched(folder / f"{name}.jsonl", {}, dump_at)
    set_seed(cfg.seed)
    env, agent, buffer, logger = make_env(cfg, budget), TDMPC2(cfg), Buffer(cfg), Logger(cfg)
    online_trainer.make_env = lambda cfg: make_env(cfg, budget)
    trainer = online_trainer.OnlineTrainer(cfg=cfg, env=env, agent=agent, buffer=buffer, logger=logger)
    watch(trainer, recorder)
    if start is None:
        # Values are too small here to move the running scale from where a new one starts.
        agent.scale.value.fill_(3.0)
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
