"""Runs of DreamerV3's protocol, as `validate run` makes them."""

import json

import pytest

from dreamer_bridge import curve, plan, protocol, settings
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import Surroundings, making
from tdmpc2_lean.runs import folder as folders
from tdmpc2_lean.validation.judging import protocols

ENTRY = protocols.registry()["dreamerv3-dmc_walker_walk"]
ON_CPU = Surroundings(device="cpu", threads=1)


def record_of(planned):
    """run.json of a run of the protocol as it starts."""
    asked, settings = making.asked_of(ENTRY, 2, (), {}), protocol.run_settings(ENTRY, planned)
    return json.loads(json.dumps(making.new_record(ENTRY, asked, settings, making.provenance_of(planned), {})))


def test_a_run_is_what_its_protocol_says(code, tmp_path):
    planned = plan.training(protocol.words_of(ENTRY, 2, ON_CPU), cwd=tmp_path, folder=tmp_path / "logs")
    assert planned.config["run"]["steps"] == 250_000 and planned.seed == 2 and planned.chunk == 100_000
    assert planned.ratio.per_agent_step == 0.5
    record = record_of(planned)
    assert protocols.departures(record) == ()
    for key, value in (("size", "size1m"), ("envs", 1), ("train_ratio", 1024), ("action_repeat", 1)):
        changed = record | {"settings": record["settings"] | {key: value}}
        assert protocols.departures(changed) == (key,)


def test_a_run_by_other_words_departs(code, tmp_path):
    words = [word for word in protocol.words_of(ENTRY, 2, ON_CPU) if not word.startswith("run.train_ratio")]
    planned = plan.training(words, cwd=tmp_path, folder=tmp_path / "logs")
    record = record_of(planned)
    assert protocols.departures(record) == ("train_ratio",)


@pytest.mark.parametrize("name", [name for name in protocols.registry() if name.startswith("dreamerv3-dmc_")])
def test_every_task_of_the_protocol_has_an_official_name(name):
    from dreamer_bridge import tasks

    entry = protocols.registry()[name]
    (word,) = [word for word in protocol.words_of(entry, 0, ON_CPU) if word.startswith("task=")]
    assert tasks.of_reference(tasks.official(word.removeprefix("task="))) == entry.task


def test_without_an_accelerator_a_run_is_refused_unless_a_cpu_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "has_accelerator", lambda: False)
    with pytest.raises(UserError, match="accelerator") as told:
        making.make(ENTRY, 0, tmp_path)
    assert "--device cpu" in told.value.next_step and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "presets, surroundings",
    [(["smoke"], Surroundings(device="cpu")), ([], Surroundings(device="cpu", compile=False)),
     ([], Surroundings(device="cpu", checkpoint_minutes=1))],
)  # fmt: skip
def test_what_only_tdmpc2_has_is_refused(tmp_path, presets, surroundings):
    with pytest.raises(UserError):
        making.make(ENTRY, 0, tmp_path, presets, surroundings)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name, platform", [("dreamerv3-smoke", "cpu"), (ENTRY.name, None)])
def test_a_smoke_run_is_on_the_cpu_also_where_there_is_an_accelerator(tmp_path, monkeypatch, name, platform):
    planned = []

    def training(words, **_):
        planned.extend(words)
        raise UserError("planned", "nothing")

    monkeypatch.setattr(settings, "has_accelerator", lambda: True)
    monkeypatch.setattr(plan, "training", training)
    with pytest.raises(UserError, match="planned"):
        making.make(protocols.registry()[name], 0, tmp_path)
    assert [word for word in planned if "platform" in word] == ([f"jax.platform={platform}"] if platform else [])


@pytest.fixture
def made(code, tmp_path, monkeypatch):
    """Makes a run whose child does no more than write lines of a curve; gives what becomes of it, and its record."""

    def make(lines, exit_code=0, interrupted=False):
        def watch(command, cwd, environment, log, progress, *_):
            (cwd / curve.FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
            if not exit_code:
                progress.take({"event": "end"})
            return exit_code, interrupted

        monkeypatch.setattr(protocol.running, "watch", watch)
        try:
            became = making.make(ENTRY, 0, tmp_path, surroundings=ON_CPU, quiet=True)
        except (KeyboardInterrupt, UserError) as error:
            became = error
        return became, folders.read_record(folders.folder_of(tmp_path, ENTRY.name, (), 0))

    return make


def curve_of(chunks):
    """The last of three chunks has an episode's end in it."""
    return [{"chunk": n, "agent_steps": 50_000 * n, "value": None if n % 3 else 1.0} for n in range(1, chunks + 1)]


def test_a_chunk_in_which_no_episode_ended_is_one_all_the_same(made):
    became, record = made(curve_of(ENTRY.chunks))
    assert became is True and record["state"] == "finished" and record["attempts"] == 1
    assert made([])[0] is False  # nothing is left to do


def test_a_run_that_ended_early_or_was_stopped_or_failed_is_not_finished(made):
    became, record = made(curve_of(ENTRY.chunks - 1))
    assert isinstance(became, UserError) and record["state"] == "failed" and "lines of" in record["error"]
    became, record = made(curve_of(1), 130, True)
    assert isinstance(became, KeyboardInterrupt) and record["state"] == "interrupted" and record["attempts"] == 2
    became, record = made(curve_of(1), 1)
    assert isinstance(became, UserError) and record["state"] == "failed" and "log" in record["error"]
    assert made(curve_of(ENTRY.chunks))[1]["state"] == "finished"
