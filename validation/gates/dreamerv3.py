"""Gates on settings of DreamerV3: `seed` and `no-hidden-render`, which patches add, and `strip`, an ablation's arm.

`default-identity` and `per-patch-identity` are those of `identity`, `resume` is in `resuming_dreamerv3`.
"""

import dataclasses
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tdmpc2_lean.validation.gates import process, trace
from tdmpc2_lean.validation.gates.results import FAIL, NOT_JUDGED, PASS, Result, failed_to_run, without_settings
from tdmpc2_lean.validation.gates.subjects import GateSubject
from tdmpc2_lean.validation.gates.traced_runs import TracedRuns

MODULE = "tdmpc2_lean.validation.gates.dreamerv3"
# What official code leaves to threads and wall clocks, decided by the patch `seeding`.
SEEDED = {"jax.prefetch": False, "run.clock": "steps", "replay.separate_report": True}
DIFFER_BY_SEED = ("parameters", "environment 0", "environment 1", "policy")


def seed(subject: GateSubject, runs: TracedRuns) -> Iterator[Result]:
    """One seed determines a run, another seed gives another, and reports do not touch training."""
    if missing := without_settings("seed", subject.config, *SEEDED):
        yield from missing
        return
    code = subject.code_dir

    def case(name: str, first: dict, second: dict, judge, **arguments) -> Result:
        started, gate = time.time(), f"seed/{name}"
        sides = [{"from_outside": False, "overrides": SEEDED | own} | arguments for own in (first, second)]
        try:
            events, here = runs.compare(code, code, *sides)
            answers = [runs.answer_of(code, **side) for side in sides]
            outcome, detail = judge(events, here, answers, [runs.trace_of(code, **side) for side in sides])
        except process.ChildFailed as failure:
            return failed_to_run(gate, failure, started)
        return Result(gate, outcome, detail, {"events": events}, time.time() - started)

    def equal(events, here, answers, traces):
        found = f"{events} events equal" if here is None else str(here)
        return PASS if here is None else FAIL, f"{found} (equality expected)"

    def equal_and_on_time(events, here, answers, traces):
        due = runs.budget.end // runs.budget.report_every
        made = [answer["reports"] for answer in answers]
        if here is None and made != [due, due]:
            return FAIL, f"first divergence at the reports: {made[0]} and {made[1]} made, {due} due by env steps"
        return equal(events, here, answers, traces)

    def different(events, here, answers, traces):
        first, second = (first_digests(path) for path in traces)
        same = [what for what in DIFFER_BY_SEED if first.get(what) == second.get(what)]
        if same:
            return FAIL, f"first divergence at none of: {', '.join(same)} (a difference in each expected)"
        return PASS, f"{', '.join(DIFFER_BY_SEED)} differ from the first on (a difference in each expected)"

    # `method` is a label; it only makes the second run a run of its own, not the first one's trace.
    yield case("same-seed-twice", {}, {"method": "again"}, equal_and_on_time)
    yield case("other-seed", {}, {"seed": runs.budget.seed + 1}, different)
    often, never = {"run.report_every": 20}, {"run.report_every": 0}
    yield case("reports-apart", often, never, equal, record_reports=False)


def first_digests(path: Path) -> dict[str, str]:
    """The digest of each quantity's first event in a trace."""
    found = {}
    for event in trace.read_events(path):
        found.setdefault(event["what"], event["digest"])
    return found


def no_hidden_render(subject: GateSubject, runs: TracedRuns) -> Iterator[Result]:
    """`env.dmc.log_image False` computes what True computes, `log/image` apart, and asks for no picture."""
    if missing := without_settings("no-hidden-render", subject.config, "env.dmc.log_image"):
        yield from missing
        return
    code = subject.code_dir
    blind = {"overrides": {"env.dmc.log_image": False}, "without_pictures": True}
    seeing = {"overrides": {"env.dmc.log_image": True}, "without_pictures": True}

    def case(name: str, what: str, **rendering) -> Result:
        started, gate = time.time(), f"no-hidden-render/{name}"
        try:
            events, here = runs.compare(code, code, seeing | rendering, blind)
            pictures = [runs.answer_of(code, **side)["pictures"] for side in (seeing | rendering, blind)]
        except process.ChildFailed as failure:
            return failed_to_run(gate, failure, started)
        figures = {"events": events, "pictures": pictures} | (dataclasses.asdict(here) if here else {})
        seconds = time.time() - started
        if here is not None:
            return Result(gate, FAIL, f"{here}; reference: {what}", figures, seconds)
        steps = runs.budget.end
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


def strip(subject: GateSubject, runs: TracedRuns) -> Iterator[Result]:
    """With `agent.loss_scales.dyn` 0 no parameter of the dynamics' prior moves; with 1 every one does."""
    if missing := without_settings("strip", subject.config, "agent.loss_scales.dyn"):
        yield from missing
        return
    started, sides = time.time(), {"0": {"overrides": {"agent.loss_scales.dyn": 0.0}}, "1": {}}
    with ThreadPoolExecutor(2) as pool:
        answers = {scale: pool.submit(runs.answer_of, subject.code_dir, **side) for scale, side in sides.items()}
    for scale, answer in answers.items():
        gate = f"strip/dyn={scale}"
        try:
            moved = answer.result()["moved"]
        except process.ChildFailed as failure:
            yield failed_to_run(gate, failure, started)
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
