"""The parts of DreamerV3's gates that can be judged without official code."""

import os
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from tdmpc2_lean.commands.gate import gate as gate_command
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.validation.gates import (
    dreamerv3,
    dreamerv3_determinism,
    jax_shim,
    process,
    resuming_dreamerv3,
    trace,
    trace_dreamerv3,
)
from tdmpc2_lean.validation.gates.results import FAIL, NOT_JUDGED, PASS
from tdmpc2_lean.validation.gates.subjects import controls_of, find_subject, read_config, upstream_of
from tdmpc2_lean.validation.gates.suites import SUITES, chosen

GATES = SUITES["dreamerv3"].gates


# ------------------------------------------------------------------------------------------ the runner


@pytest.mark.parametrize("name", GATES)
def test_every_gate_has_negative_controls(name):
    assert len(controls_of(name, "dreamerv3")) >= (5 if name == "default-identity" else 1)


def test_the_gates_of_each_upstream_are_listed():
    for upstream in ("tdmpc2", "dreamerv3"):
        done = CliRunner().invoke(gate_command, ["list", "--upstream", upstream])
        assert [line.split()[0] for line in done.output.splitlines()] == ["gate", *SUITES[upstream].gates]
    assert "strip" in done.output and "plan-vec-one" not in done.output


def test_unknown_upstreams_and_gates_are_told_with_the_nearest():
    with pytest.raises(UserError, match="dreamerv3"):
        chosen([], "dreamer3")
    with pytest.raises(UserError, match="Did you mean .strip"):
        chosen(["stripp"], "dreamerv3")


def test_the_miniature_is_no_dreamer():
    assert upstream_of(None) == "tdmpc2"
    with pytest.raises(UserError, match="miniature"):
        find_subject("miniature", upstream="dreamerv3")


def test_defaults_are_read_with_dots(tmp_path):
    (tmp_path / "dreamerv3").mkdir()
    (tmp_path / "dreamerv3" / "configs.yaml").write_text(
        "defaults:\n  seed: 0\n  run: {clock: steps}\n  a: {b: {c: 1}}\n"
    )
    assert read_config(tmp_path) == {"seed": 0, "run.clock": "steps", "a.b.c": 1}


# -------------------------------------------------------------------------------- processes and cores


PROBE = """
import os, sys

def where(code_dir):
    return {
        "cores": sorted(os.sched_getaffinity(0)),
        "torch": "torch" in sys.modules,
        "cache": os.environ["JAX_COMPILATION_CACHE_DIR"],
        "read": "otherwise" in sys.modules and sys.modules["otherwise"].read,
    }
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system pins no processes")
def test_a_process_that_compiles_has_one_core_a_cache_of_its_own_and_no_torch(tmp_path, monkeypatch, own_cache):
    (tmp_path / "child_probe.py").write_text(PROBE)
    (tmp_path / "otherwise.py").write_text(
        "read = ''\ndef install(code_dir):\n    global read\n    read = str(code_dir)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    seen = process.call("child_probe:where", tmp_path, "otherwise", process.JAX)
    assert len(seen["cores"]) == 1 and not seen["torch"]
    assert Path(seen["cache"]).parent == own_cache and seen["read"] == str(tmp_path)


def test_no_two_processes_share_a_core(monkeypatch):
    cores = process.queue.SimpleQueue()
    for core in (0, 1):
        cores.put(core)
    monkeypatch.setattr(process, "free_cores", cores)
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None, raising=False)
    held, lock, both, most = [], threading.Lock(), threading.Barrier(2), []

    def hold(meet):
        with process.core_for(process.JAX) as core:
            with lock:
                held.append(core)
                most.append(sorted(held))
            if meet:
                both.wait(10)
            with lock:
                held.remove(core)

    threads = [threading.Thread(target=hold, args=(number < 2,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert [0, 1] in most and all(len(set(cores)) == len(cores) for cores in most)
    with process.core_for(process.TORCH) as core:
        assert core is None


# ------------------------------------------------------------------------ official code on a newer JAX


def test_positional_calls_are_counted(tmp_path):
    folder = tmp_path / "embodied" / "jax"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text(
        "import jax\nf = jax.jit(g, None, None)\nh = jax.jit(g)\nk = jax.jit(g, inline=True)\n"
    )
    (folder / "b.py").write_text("import jax\nf = jax.jit(lambda x: x, (s,), m).lower(x)\n# jax.jit(g, 1, 2)\n")
    assert jax_shim.positional_calls(tmp_path) == 2


@pytest.mark.parametrize(("version", "needed"), [("0.5.3", False), ("0.6.0", True), ("0.10.2", True), ("1.0", True)])
def test_only_a_newer_jax_and_positional_calls_need_the_shim(tmp_path, monkeypatch, version, needed):
    monkeypatch.setattr(jax_shim.metadata, "version", lambda name: version)
    assert not jax_shim.is_needed(tmp_path)
    folder = tmp_path / "embodied" / "jax"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text("import jax\nf = jax.jit(g, None, None)\n")
    assert jax_shim.is_needed(tmp_path) is needed


def test_positions_become_the_names_they_had():
    def jit(fun, *, in_shardings=0, out_shardings=0, static_argnums=0, static_argnames=0, donate_argnums=0, inline=0):
        return fun, in_shardings, out_shardings, static_argnums, static_argnames, donate_argnums, inline

    accepting = jax_shim.by_position(jit)
    assert accepting("f", 1, 2, 3, None, [0], inline=True) == ("f", 1, 2, 3, None, [0], True)
    assert accepting("f", static_argnums=3) == ("f", 0, 0, 3, 0, 0, 0)
    with pytest.raises(TypeError, match="in_shardings both"):
        accepting("f", 1, in_shardings=2)
    with pytest.raises(TypeError, match="at most"):
        accepting("f", *range(20))


def test_the_jax_at_hand_takes_positions_again(monkeypatch):
    jax = pytest.importorskip("jax")
    monkeypatch.setattr(jax, "jit", jax.jit)
    jax_shim.install(Path())
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    doubled = jax.jit(lambda x, n: x * n, sharding, sharding, (1,), None, [0])
    assert doubled(np.float32(3), 2) == 6


# -------------------------------------------------------------------------------------- traced training


def test_clocks_are_driven_by_steps():
    embodied = SimpleNamespace(streams=SimpleNamespace(Prefetch=object))
    elements = SimpleNamespace(UUID=SimpleNamespace(reset=lambda debug: None))
    dreamerv3_determinism.deterministic(elements, embodied)
    clock, never, always = (embodied.LocalClock(every) for every in (40, 0, -1))
    assert [step for step in range(0, 130, 10) if clock(step)] == [40, 80, 120]
    assert not any(never(step) for step in range(100)) and all(always(step) for step in range(3))
    assert embodied.LocalClock(40)(100, skip=True) is False
    late = embodied.LocalClock(40)
    assert [late(step) for step in (130, 140, 160)] == [True, False, True]


def test_a_batch_is_drawn_when_it_is_asked_for():
    embodied = SimpleNamespace(streams=SimpleNamespace(Prefetch=object))
    names = []
    elements = SimpleNamespace(UUID=SimpleNamespace(reset=lambda debug: names.append(debug)))
    dreamerv3_determinism.deterministic(elements, embodied)
    drawn = []
    stream = iter(embodied.streams.Prefetch(lambda: iter(drawn.append(n) or n for n in range(3)), lambda x: 10 * x))
    assert drawn == [] and next(stream) == 0 and drawn == [0] and next(stream) == 10 and names == [True]


@pytest.fixture
def suite(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "disable")
    from dm_control import suite

    monkeypatch.setattr(suite, "load", suite.load)
    return suite


def first_observation(env):
    return np.concatenate([np.ravel(x) for x in env.reset().observation.values()])


def test_episodes_are_shortened_and_seeded_from_outside_whatever_the_code_asks_for(suite):
    index = dreamerv3_determinism.limit_episodes(5, seed=7)
    first = suite.load("cartpole", "balance", task_kwargs={"random": 1})
    again = suite.load("cartpole", "balance")
    index["index"] = 1
    other = suite.load("cartpole", "balance")
    starts = [first_observation(env) for env in (first, again, other)]
    assert np.array_equal(starts[0], starts[1]) and not np.array_equal(starts[0], starts[2])
    steps = [first.step(np.zeros(1)).last() for _ in range(5)]
    assert steps == [False] * 4 + [True]


def test_without_a_seed_the_code_decides(suite):
    dreamerv3_determinism.limit_episodes(5, seed=None)
    starts = [first_observation(suite.load("cartpole", "balance", {"random": seed})) for seed in (1, 1, 2)]
    assert np.array_equal(starts[0], starts[1]) and not np.array_equal(starts[0], starts[2])


def test_pictures_are_counted(suite, monkeypatch):
    from dm_control.mujoco import Physics

    monkeypatch.setattr(Physics, "render", Physics.render)
    pictures = dreamerv3_determinism.Pictures(rendering=False)
    physics = suite.load("cartpole", "balance").physics
    assert physics.render(64, 48, camera_id=0).shape == (64, 48, 3) and pictures.count == 1


# ------------------------------------------------------------------------------------------------ gates


def test_a_gate_about_a_setting_that_is_not_there_is_not_judged():
    subject = SimpleNamespace(config={"run.clock": "steps"}, code_dir=Path())
    for name in ("seed", "resume", "no-hidden-render", "strip"):
        (result,) = GATES[name].run(subject, None)
        assert result.outcome == NOT_JUDGED and "no setting" in result.detail


@pytest.mark.parametrize(
    ("moved", "should_move", "outcome"),
    [
        ({"dyn/prior0/kernel": False, "enc/x": True}, False, PASS),
        ({"dyn/prior0/kernel": True, "enc/x": True}, True, PASS),
        ({"dyn/prior0/kernel": True, "enc/x": True}, False, FAIL),
        ({"dyn/prior0/kernel": False, "enc/x": True}, True, FAIL),
        ({"dyn/prior0/kernel": True, "dyn/priorlogit/bias": False, "enc/x": True}, True, FAIL),
        ({"dyn/prior0/kernel": False, "enc/x": False}, False, FAIL),  # nothing was trained
        ({"enc/x": True}, False, FAIL),  # there is no prior
    ],
)
def test_a_stripped_prior_stays_and_all_else_moves(moved, should_move, outcome):
    assert dreamerv3.judged_prior("strip", moved, should_move, 3, 0.0).outcome == outcome


def write(path, *events):
    recorder = trace.TraceRecorder(path, {})
    for step, what, value in events:
        recorder.record(step, what, {"x": value} if value is not None else {})
    recorder.close()
    return path


def test_a_reference_is_cut_where_a_resumed_run_goes_on(tmp_path):
    """Of the step at which a run was saved, what came before the next drive was computed before it."""
    whole = write(
        tmp_path / "whole",
        (0, "drive", None), (0, "policy", 1.0), (10, "losses", 2.0),
        (10, "drive", None), (10, "policy", 3.0), (20, "losses", 4.0),
    )  # fmt: skip
    resumed = write(tmp_path / "resumed", (10, "drive", None), (10, "policy", 3.0), (20, "losses", 4.0))
    assert resuming_dreamerv3.cut_trace(whole, tmp_path / "tail", 10, None) == 3
    assert trace.compare(tmp_path / "tail", resumed) == (3, None)
    killed = write(tmp_path / "killed", (10, "drive", None), (10, "policy", 3.0))
    resuming_dreamerv3.cut_trace(whole, tmp_path / "tail", 10, 2)
    assert trace.compare(tmp_path / "tail", killed) == (2, None)


def test_the_first_of_each_quantity_is_told(tmp_path):
    firsts = [
        dreamerv3.first_digests(write(tmp_path / str(number), (0, "policy", 1.0), (1, "policy", float(number))))
        for number in range(2)
    ]
    assert firsts[0] == firsts[1] and list(firsts[0]) == ["policy"]


class ProcessThatEnds:
    """Stands for a run in a process that ends as it is told."""

    def __init__(self, monkeypatch, code):
        def call(function, code_dir, *_, **__):
            if code is not None:
                raise process.ChildFailed(function, code_dir, "output", code)
            return {}

        monkeypatch.setattr(process, "call", call)


@pytest.mark.parametrize(
    ("stop", "code", "accepted"),
    [
        ((45, signal.SIGKILL), -signal.SIGKILL, True),
        ((45, signal.SIGTERM), 143, True),
        ((45, signal.SIGTERM), -signal.SIGTERM, True),
        ((45, signal.SIGTERM), 1, False),
        ((45, signal.SIGKILL), None, False),
        (None, None, True),
        (None, -signal.SIGKILL, False),
    ],
)
def test_a_process_ends_as_it_should_or_the_gate_fails(tmp_path, monkeypatch, stop, code, accepted):
    ProcessThatEnds(monkeypatch, code)
    runs = SimpleNamespace(budget=trace_dreamerv3.DreamerV3Budget(), tracing=SUITES["dreamerv3"].tracing)
    run = resuming_dreamerv3.InterruptedRun(tmp_path, runs, tmp_path)
    stop = stop and resuming_dreamerv3.Stop(*stop, "in a test")
    if accepted:
        run.run(tmp_path / "0.jsonl", tmp_path / "run", stop)
    else:
        with pytest.raises(process.ChildFailed):
            run.run(tmp_path / "0.jsonl", tmp_path / "run", stop)
