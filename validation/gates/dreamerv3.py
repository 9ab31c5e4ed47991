"""The gates on DreamerV3.

`default-identity` and `per-patch-identity` are those of `identity`, on arms that are made deterministic from outside.
`seed`, `no-hidden-render` and `resume` judge the patches' own settings; `strip` judges an arm of an ablation.
"""

import dataclasses
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tdmpc2_lean.validation.gates import identity, process, trace
from tdmpc2_lean.validation.gates.results import FAIL, NOT_JUDGED, PASS, Result
from tdmpc2_lean.validation.gates.subjects import Subject

MODULE = "tdmpc2_lean.validation.gates.dreamerv3"
# What official code leaves to threads and wall clocks, decided by the patch `seeding`.
SEEDED = {"jax.prefetch": False, "run.clock": "steps", "replay.separate_report": True}
DIFFER_BY_SEED = ("parameters", "environment 0", "environment 1", "policy")


def lacking(subject: Subject, gate: str, *settings: str) -> list[Result]:
    """A result that says which of the settings a gate is about the checkout does not have."""
    missing = [f"`{name}`" for name in settings if name not in subject.config]
    return [Result(gate, NOT_JUDGED, f"the checkout has no setting {', '.join(missing)}")] if missing else []


def failed(gate: str, failure: process.ChildFailed, started: float) -> Result:
    return Result(gate, FAIL, failure.message, {"output": failure.output[-4000:]}, time.time() - started)


def seed(subject: Subject, arms: identity.Arms) -> Iterator[Result]:
    """One seed determines a run, another seed gives another, and reports do not touch training."""
    if missing := lacking(subject, "seed", *SEEDED):
        yield from missing
        return
    code = subject.code_dir

    def case(name: str, first: dict, second: dict, judge, **arguments) -> Result:
        started, gate = time.time(), f"seed/{name}"
        sides = [{"from_outside": False, "overrides": SEEDED | own} | arguments for own in (first, second)]
        try:
            events, here = arms.compare(code, code, *sides)
            answers = [arms.answer_of(code, **side) for side in sides]
            outcome, detail = judge(events, here, answers, [arms.trace_of(code, **side) for side in sides])
        except process.ChildFailed as failure:
            return failed(gate, failure, started)
        return Result(gate, outcome, detail, {"events": events}, time.time() - started)

    def equal(events, here, answers, traces):
        found = f"{events} events equal" if here is None else str(here)
        return PASS if here is None else FAIL, f"{found} (equality expected)"

    def equal_and_on_time(events, here, answers, traces):
        due = arms.budget.steps // arms.budget.report_every
        made = [answer["reports"] for answer in answers]
        if here is None and made != [due, due]:
            return FAIL, f"first divergence at the reports: {made[0]} and {made[1]} made, {due} due by env steps"
        return equal(events, here, answers, traces)

    def different(events, here, answers, traces):
        first, second = (firsts(path) for path in traces)
        same = [what for what in DIFFER_BY_SEED if first.get(what) == second.get(what)]
        if same:
            return FAIL, f"first divergence at none of: {', '.join(same)} (a difference in each expected)"
        return PASS, f"{', '.join(DIFFER_BY_SEED)} differ from the first on (a difference in each expected)"

    # `method` is a label; it only makes the second run a run of its own, not the first one's trace.
    yield case("same-seed-twice", {}, {"method": "again"}, equal_and_on_time)
    yield case("other-seed", {}, {"seed": arms.budget.seed + 1}, different)
    often, never = {"run.report_every": 20}, {"run.report_every": 0}
    yield case("reports-apart", often, never, equal, record_reports=False)


def firsts(path: Path) -> dict[str, str]:
    """The digest of each quantity's first event in a trace."""
    found = {}
    for event in trace.read_events(path):
        found.setdefault(event["what"], event["digest"])
    return found


def no_hidden_render(subject: Subject, arms: identity.Arms) -> Iterator[Result]:
    """`env.dmc.log_image False` computes what True computes, `log/image` apart, and asks for no picture."""
    if missing := lacking(subject, "no-hidden-render", "env.dmc.log_image"):
        yield from missing
        return
    code = subject.code_dir
    blind = {"overrides": {"env.dmc.log_image": False}, "without_pictures": True}
    seeing = {"overrides": {"env.dmc.log_image": True}, "without_pictures": True}

    def case(name: str, what: str, **rendering) -> Result:
        started, gate = time.time(), f"no-hidden-render/{name}"
        try:
            events, here = arms.compare(code, code, seeing | rendering, blind)
            pictures = [arms.answer_of(code, **side)["pictures"] for side in (seeing | rendering, blind)]
        except process.ChildFailed as failure:
            return failed(gate, failure, started)
        figures = {"events": events, "pictures": pictures} | (dataclasses.asdict(here) if here else {})
        seconds = time.time() - started
        if here is not None:
            return Result(gate, FAIL, f"{here}; reference: {what}", figures, seconds)
        steps = arms.budget.steps
        if pictures[0] < steps or pictures[1] != 0:
            asked = f"{pictures[0]} pictures asked for with it, {pictures[1]} without"
            detail = f"first divergence at the pictures: {asked}; at least {steps} and none expected"
            return Result(gate, FAIL, detail, figures, seconds)
        detail = f"{events} events equal, bit for bit, to {what}: {pictures[0]} pictures with it, none without"
        return Result(gate, PASS, detail, figures, seconds)

    yield case("counted", "code that asks for pictures, a stand-in making them")
    backend = os.environ.get("MUJOCO_GL", "egl")
    try:
        why = process.call(f"{MODULE}:unable_to_render", code, stack=process.JAX, backend=backend)["why"]
    except process.ChildFailed as failure:
        why = failure.reason
    if why:
        detail = f"MUJOCO_GL={backend} renders nothing here: {why}"
        yield Result("no-hidden-render/rendered", NOT_JUDGED, detail)
        return
    yield case("rendered", f"code that renders them with OpenGL ({backend})", rendering=backend)


def unable_to_render(code_dir: Path, backend: str) -> dict:
    """Runs in a process of its own: why a picture cannot be rendered here, or nothing."""
    os.environ["MUJOCO_GL"] = backend
    try:
        from dm_control import suite

        picture = suite.load("cartpole", "balance").physics.render(64, 64, camera_id=0)
        return {"why": "" if picture.any() else "the picture is black"}
    except Exception as error:  # whatever a driver raises is the answer
        return {"why": f"{type(error).__name__}: {error}"}


def strip(subject: Subject, arms: identity.Arms) -> Iterator[Result]:
    """With `agent.loss_scales.dyn` 0 no parameter of the dynamics' prior moves; with 1 every one does."""
    if missing := lacking(subject, "strip", "agent.loss_scales.dyn"):
        yield from missing
        return
    started, sides = time.time(), {"0": {"overrides": {"agent.loss_scales.dyn": 0.0}}, "1": {}}
    with ThreadPoolExecutor(2) as pool:
        answers = {scale: pool.submit(arms.answer_of, subject.code_dir, **side) for scale, side in sides.items()}
    for scale, answer in answers.items():
        gate = f"strip/dyn={scale}"
        try:
            moved = answer.result()["moved"]
        except process.ChildFailed as failure:
            yield failed(gate, failure, started)
            continue
        yield judged_prior(gate, moved, scale == "1", answer.result()["updates"], time.time() - started)


def judged_prior(gate: str, moved: dict[str, bool], should_move: bool, updates: int, seconds: float) -> Result:
    """moved: for each parameter of the networks whether training moved it."""
    prior = {name: did for name, did in moved.items() if name.startswith("dyn/prior")}
    others = [name for name, did in moved.items() if did and name not in prior]
    wrong = [name for name, did in prior.items() if did != should_move]
    figures = {"updates": updates, "prior": len(prior), "moved": sum(prior.values()), "others moved": len(others)}
    if not prior or not others:
        detail = f"first divergence at the parameters: {len(prior)} of the prior, {len(others)} others moved"
        return Result(gate, FAIL, detail, figures, seconds)
    did = "moved" if should_move else "stayed, bit for bit"
    if wrong:
        found = "stayed" if should_move else "moved"
        detail = f"first divergence at {wrong[0]}: it {found} in {updates} updates, {len(wrong)} of {len(prior)} did"
        return Result(gate, FAIL, detail, figures, seconds)
    detail = f"all {len(prior)} parameters of the prior {did} in {updates} updates; {len(others)} others moved"
    return Result(gate, PASS, detail, figures, seconds)


# ------------------------------------------------------------------------------------------------ resume

RESUMED = SEEDED | {"run.resume_exact": True}
SAVING = 30  # env steps between checkpoints
# Each process: the env step at which it ends and by which signal, and that at which the next goes on. SIGTERM is a
# clean stop: it saves when the ten steps in progress are made. SIGKILL leaves the checkpoint before it.
STOPS = (
    (45, signal.SIGKILL, 30, "while the replay fills"),
    (107, signal.SIGTERM, 110, "while it trains, by a clean stop"),
    (147, signal.SIGKILL, 120, "while it trains and evicts"),
)


def resume(subject: Subject, arms: identity.Arms) -> Iterator[Result]:
    """A run that is killed three times, and resumed each time, against the uninterrupted run that never saves."""
    if missing := lacking(subject, "resume", *RESUMED):
        yield from missing
        return
    with tempfile.TemporaryDirectory(prefix="tdmpc2-lean-resume-") as folder:
        chain = Chain(subject.code_dir, arms, Path(folder))
        with ThreadPoolExecutor(1) as pool:
            reference = pool.submit(arms.trace_of, subject.code_dir, **chain.reference)
            first = 0
            for number in range(len(STOPS) + 1):
                started = time.time()
                try:
                    result = chain.judged(number, first, reference)
                except process.ChildFailed as failure:
                    yield failed(f"resume/{number}", failure, started)
                    return
                yield result
                if result.outcome == FAIL or number == len(STOPS):
                    return
                first = STOPS[number][2]


class Chain:
    """One run in several processes, one after another, in one folder; each but the last is ended by a signal."""

    reference = {"from_outside": False, "overrides": RESUMED}

    def __init__(self, code_dir: Path, arms: identity.Arms, folder: Path):
        self.code_dir, self.arms, self.folder = code_dir, arms, folder
        self.logdir = folder / "run"

    def judged(self, number: int, first: int, reference) -> Result:
        """Runs process `number`, which is to go on at step `first`, and compares what it computed."""
        started, gate = time.time(), f"resume/{number}"
        what = f"from step {first}" if first else "from the start"
        if number < len(STOPS):
            step, with_signal, _, when = STOPS[number]
            what += f" until {signal.Signals(with_signal).name} at step {step}, {when}"
        else:
            what += f" to the end at step {self.arms.budget.steps}"
        path = self.folder / f"{number}.jsonl"
        before = self.folder / f"before-{number}"
        if self.logdir.exists():
            shutil.copytree(self.logdir, before)
        self.run(path, self.logdir, STOPS[number][:2] if number < len(STOPS) else None)
        whole = reference.result()
        tail, skipped = self.folder / f"reference-{number}.jsonl", 0
        events = list(trace.read_events(path))
        begun = events[0]["step"] if events else None
        if begun != first:
            detail = f"{what}: first divergence at the start: it began at step {begun}, {first} expected"
            return Result(gate, FAIL, detail, {"began": begun}, time.time() - started)
        skipped = cut(whole, tail, first, len(events) if number < len(STOPS) else None)
        count, here = trace.compare(tail, path)
        if here is not None and here.largest is None and not here.reference:
            here = self.with_values(here, skipped, number, before)
        figures = {"events": count} | (dataclasses.asdict(here) if here else {})
        if here is not None:
            return Result(gate, FAIL, f"{what}: {here}", figures, time.time() - started)
        detail = f"{what}: {count} events equal, bit for bit, to the uninterrupted run"
        return Result(gate, PASS, detail, figures, time.time() - started)

    def run(self, path: Path, logdir: Path, stop: tuple | None = None, dump_at: int | None = None) -> None:
        """One process; raises ChildFailed unless it ends as it should."""
        arguments = {
            "trace": str(path),
            "budget": dataclasses.asdict(self.arms.budget),
            "from_outside": False,
            "overrides": RESUMED | {"run.save_every": SAVING},
            "logdir": str(logdir),
            "stop": {"step": stop[0], "signal": int(stop[1])} if stop else None,
            "dump_at": dump_at,
        }
        training = self.arms.training
        try:
            process.call(training.function, self.code_dir, None, training.stack, **arguments)
        except process.ChildFailed as failure:
            if stop is None or failure.code not in (-stop[1], 128 + stop[1]):
                raise
            return
        if stop is not None and stop[1] == signal.SIGKILL:
            why = f"the process outlived its SIGKILL at {stop[0]}"
            raise process.ChildFailed(training.function, self.code_dir, why)

    def with_values(self, here: trace.Divergence, skipped: int, number: int, before: Path) -> trace.Divergence:
        """`here` with the values: both sides run again up to it."""
        whole = self.arms.trace_of(self.code_dir, here.event + skipped, **self.reference)
        again, logdir = self.folder / f"{number}-again.jsonl", self.folder / f"{number}-again"
        if before.exists():
            shutil.copytree(before, logdir)
        self.run(again, logdir, dump_at=here.event)
        return trace.compare_dumps(here, whole.with_suffix(".dump"), again.with_suffix(".dump"))


def cut(whole: Path, tail: Path, first: int, count: int | None) -> int:
    """Writes the events of a trace from the drive that begins at step `first`; returns how many are before it.

    count: how many to write; None: all.
    """
    skipped, kept = 0, []
    with open(whole, encoding="utf-8") as lines:
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


GATES = {
    "default-identity": (
        "patched code at default settings trains as the unpatched does, bit for bit",
        identity.default_identity,
    ),
    "per-patch-identity": (
        "so does each patch alone, against the patches before it",
        identity.per_patch_identity,
    ),
    "no-hidden-render": (
        "without the hidden picture training is the same, and no picture is asked for",
        no_hidden_render,
    ),
    "seed": (
        "one seed determines a run, and reports leave training alone",
        seed,
    ),
    "resume": (
        "a run that was killed three times and resumed goes on as the uninterrupted one, bit for bit",
        resume,
    ),
    "strip": (
        "with loss_scales.dyn 0 no parameter of the dynamics' prior moves, with 1 all do",
        strip,
    ),
}
