"""Runs of DreamerV3's protocol, as `validate run` makes them."""

import dataclasses
import json
import subprocess
import sys

import acting
import pytest

from dreamer_bridge import checkpoints, settings
from dreamer_bridge.adapter import ADAPTER
from dreamer_bridge.plan import DreamerPlanner
from tdmpc2_lean.campaigns import protocol_runs
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import curve, jobs, making, record
from tdmpc2_lean.runs import folder as folders
from tdmpc2_lean.runs.plan import Conditions
from tdmpc2_lean.validation.judging import protocols
from tdmpc2_lean.validation.judging.protocols import Protocol

ENTRY = protocols.registry()["dreamerv3-dmc_walker_walk"]
ON_CPU = Conditions(device="cpu", threads=1)
# A run of six chunks that the acting code makes in a moment, and of the official one in less than a minute.
TINY = Protocol(
    name="dreamerv3-tiny", agent="dreamerv3", task="tiny", physics="dm_control", environment="cartpole/balance",
    env_steps=2400, chunk=100, episodes=0, seeds=(0, 1), action_repeat=4, judged=False,
    settings={"envs": 1, "action_repeat": 4, "train_ratio": 4, "size": "size1m"},
)  # fmt: skip


def planned(protocol, folder, seed=2, presets=(), conditions=ON_CPU):
    return protocol_runs.plan(protocol, seed, folder, presets, conditions)


def test_a_run_is_what_its_protocol_says(code, tmp_path):
    plan = planned(ENTRY, tmp_path)
    what = plan.specification
    assert what.agent_steps == 250_000 and what.seed == 2 and what.protocol == ENTRY.name
    assert what.chunk == 20_000 == ENTRY.chunk * ENTRY.action_repeat
    assert plan.details["updates_per_agent_step"] == 0.5 and not what.presets
    found = ADAPTER.resolved(plan)
    for key, value in {"size": "size12m", "envs": 16, "action_repeat": 2, "train_ratio": 512}.items():
        assert found[key] == value
    assert set(ENTRY.settings) <= set(found) and all(found[key] == value for key, value in ENTRY.settings.items())


@pytest.mark.parametrize("word", ["size=size1m", "run.envs=1", "run.train_ratio=1024", "env.dmc.repeat=1"])
def test_a_run_by_other_words_records_what_it_is(code, tmp_path, monkeypatch, word):
    """The judge compares what is recorded with the protocol."""
    words_of = ADAPTER.words_of
    monkeypatch.setattr(type(ADAPTER), "words_of", lambda self, *asked: [*words_of(*asked), word])
    found = ADAPTER.resolved(planned(ENTRY, tmp_path))
    assert [key for key, value in ENTRY.settings.items() if found[key] != value]


@pytest.mark.parametrize("name", [name for name in protocols.registry() if name.startswith("dreamerv3-dmc_")])
def test_every_task_of_the_protocol_has_an_official_name(name, tmp_path):
    from dreamer_bridge import tasks

    entry = protocols.registry()[name]
    words = ADAPTER.words_of(entry, 0, (), {}, ON_CPU, tmp_path)
    (word,) = [word for word in words if word.startswith("task=")]
    assert tasks.of_reference(tasks.official(word.removeprefix("task="))) == entry.task


def test_without_an_accelerator_a_run_is_refused_unless_a_cpu_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "has_accelerator", lambda: False)
    with pytest.raises(UserError, match="accelerator") as told:
        planned(ENTRY, tmp_path, conditions=Conditions())
    assert "--device cpu" in told.value.next_step and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "presets, conditions",
    [(["smoke"], Conditions(device="cpu")), ([], Conditions(device="cpu", compile=False)),
     ([], Conditions(device="cpu", checkpoint_minutes=1))],
)  # fmt: skip
def test_what_only_tdmpc2_has_is_refused(code, tmp_path, presets, conditions):
    with pytest.raises(UserError):
        planned(ENTRY, tmp_path / "runs", presets=presets, conditions=conditions)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name, platform", [("dreamerv3-smoke", "cpu"), (ENTRY.name, None)])
def test_a_smoke_run_is_on_the_cpu_also_where_there_is_an_accelerator(code, tmp_path, monkeypatch, name, platform):
    asked = []

    def plan(planner):
        asked.extend(planner.request.words)
        raise UserError("planned", "nothing")

    monkeypatch.setattr(DreamerPlanner, "plan", plan)
    with pytest.raises(UserError, match="planned"):
        planned(protocols.registry()[name], tmp_path, seed=0, conditions=Conditions())
    assert [word for word in asked if "platform" in word] == ([f"jax.platform={platform}"] if platform else [])


@pytest.fixture
def made(code, tmp_path, monkeypatch):
    """Makes a run whose child does no more than write lines of a curve; gives what becomes of it, and its record."""

    def make(lines, exit_code=0, interrupted=False):
        def watch(command, cwd, environment, log, progress, *_):
            (cwd / curve.FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
            if not exit_code:
                progress.take({"event": "end"})
            return exit_code, interrupted

        monkeypatch.setattr(making, "watch", watch)
        try:
            became = making.carry_out(planned(ENTRY, tmp_path), quiet=True).made
        except (KeyboardInterrupt, UserError) as error:
            became = error
        return became, record.read(folders.folder_of(tmp_path, ENTRY.name, (), 2))

    return make


def curve_of(chunks):
    """The last of three chunks has an episode's end in it."""
    return [
        {"chunk": n, "agent_steps": 10_000 * n, "env_steps": 20_000 * n, "episodes": 0 if n % 3 else 1,
         "value": None if n % 3 else 1.0}
        for n in range(1, chunks + 1)
    ]  # fmt: skip


def test_a_chunk_in_which_no_episode_ended_is_one_all_the_same(made):
    became, kept = made(curve_of(ENTRY.chunks))
    assert became is True and kept.state == "finished" and len(kept.starts) == 1
    assert made([])[0] is False  # nothing is left to do


def test_a_run_that_ended_early_or_was_stopped_or_failed_is_not_finished(made):
    became, kept = made(curve_of(ENTRY.chunks - 1))
    assert isinstance(became, UserError) and kept.state == "failed" and "lines of" in kept.error
    became, kept = made(curve_of(1), 130, True)
    assert isinstance(became, KeyboardInterrupt) and kept.state == "interrupted" and len(kept.starts) == 2
    became, kept = made(curve_of(1), 1)
    assert isinstance(became, UserError) and kept.state == "failed" and "log" in kept.error
    assert made(curve_of(ENTRY.chunks))[1].state == "finished"


def test_many_runs_are_made_in_turn_and_one_that_was_killed_goes_on(code, tmp_path):
    """Through the same jobs as `validate run`; the official code's files lie in a folder of their own."""
    acting.write(code)
    killed = tmp_path / "runs" / TINY.name / "default" / "seed-1"
    script = (
        "import sys, acting\n"
        "from pathlib import Path\n"
        "from tdmpc2_lean.runs import making\n"
        "import test_protocol\n"
        "acting.replace(Path(sys.argv[1]))\n"
        "making.carry_out(test_protocol.planned(test_protocol.TINY, Path(sys.argv[2]), 1), quiet=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(code), str(tmp_path / "runs")],
        env=acting.environment(STEP_SECONDS=0.01, PYTHONPATH=acting.search_path()),
    )
    acting.until(lambda: (checkpoints.latest(killed / "logs") or code).name.endswith(("150", "200", "250", "300")))
    process.kill()
    process.wait()
    todo = [protocol_runs.job(TINY, seed, tmp_path / "runs", (), ON_CPU) for seed in TINY.seeds]
    results = jobs.run_all(todo, quiet=True, tell=lambda text: None)
    assert [result.became for result in results] == [jobs.MADE, jobs.MADE]
    assert record.read(killed).start.resumed_at >= 150 and len(record.read(killed).starts) == 2
    for seed in TINY.seeds:
        lines = curve.lines_of(folders.folder_of(tmp_path / "runs", TINY.name, (), seed) / curve.FILE)
        assert [line.agent_steps for line in lines] == [100 * n for n in range(1, 7)]
    results = jobs.run_all(todo, quiet=True, tell=lambda text: None)
    assert [result.became for result in results] == [jobs.SKIPPED, jobs.SKIPPED]


def test_a_protocol_of_other_settings_does_not_go_on_with_a_run(code, tmp_path):
    acting.write(code)
    todo = [protocol_runs.job(TINY, 0, tmp_path, (), ON_CPU)]
    assert jobs.run_all(todo, quiet=True, tell=lambda text: None)[0].became == jobs.MADE
    other = dataclasses.replace(TINY, settings={**TINY.settings, "batch_size": 8})
    with pytest.raises(UserError, match="batch_size") as told:
        jobs.run_all([protocol_runs.job(other, 0, tmp_path, (), ON_CPU)], quiet=True, tell=lambda text: None)
    assert "--out" in told.value.next_step
