"""Records of the three earlier forms are read as ones of today; their runs can be shown, gone on with and judged."""

import copy
import json

import counting
import old_records
import pytest

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import find, making, record, status
from tdmpc2_lean.validation.judging import protocols

SMOKE = protocols.protocol("tdmpc2-smoke")
OLD = {
    "training": old_records.TRAINING,
    "evaluation": old_records.EVALUATION,
    "dreamer": old_records.DREAMER,
    "protocol": old_records.of_protocol(SMOKE.as_json()),
}


def read(folder, document):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / record.FILE).write_text(json.dumps(document))
    return record.read(folder)


@pytest.mark.parametrize("name", OLD)
def test_reading_an_old_record_writes_nothing_and_what_is_written_next_is_of_today(tmp_path, name):
    kept = read(tmp_path, OLD[name])
    assert json.loads((tmp_path / record.FILE).read_text()) == json.loads(json.dumps(OLD[name]))
    record.write(tmp_path, kept)
    assert json.loads((tmp_path / record.FILE).read_text())["schema"] == record.SCHEMA
    assert record.read(tmp_path) == kept


def test_a_training_run_of_tdmpc2(tmp_path):
    kept = read(tmp_path, OLD["training"])
    what = kept.specification
    assert (what.upstream, what.tasks, what.seed, what.agent_steps) == ("tdmpc2", ("cartpole-balance",), 3, 1000)
    assert (what.action_repeat, what.chunk, what.env_steps, what.variant) == (2, 1000, 2000, "depth")
    assert what.arm == "full" and what.regime == "on_policy" and what.overrides["iterations"] == 1
    assert kept.state == "interrupted" and kept.start.exit_code == 130 and kept.start.host == "a-machine"
    assert kept.seconds == 600.0 and kept.timing.learning_steps_per_second == 4.1
    assert [one.step for one in kept.evaluations] == [0, 500] and kept.settings["lr"] == 0.0003
    assert kept.provenance.versions["mujoco"] == "3.2.3" and kept.provenance.versions["python"] == "3.11.7"
    assert kept.code["commit"].startswith("e9f5932") and "source" not in kept.code
    assert kept.start.command.startswith("tdmpc2-lean train") and kept.details["hydra"][0] == "exp_name=depth"


def test_an_evaluation(tmp_path):
    kept = read(tmp_path, OLD["evaluation"])
    assert kept.kind == "evaluate" and kept.checkpoint.sha256 == "ab" * 32
    assert kept.evaluations[0].task == "cartpole-balance" and kept.evaluations[0].episode_success == 0.0


def test_a_training_run_of_dreamerv3(tmp_path):
    kept = read(tmp_path, OLD["dreamer"])
    what = kept.specification
    assert (what.upstream, what.tasks, what.agent_steps) == ("dreamerv3", ("dmc_walker_walk",), 280)
    assert (what.action_repeat, what.chunk, what.arm) == (2, 200, "strip, rep=alike")
    assert kept.configured["env.dmc.repeat"] == 2 and kept.settings["run.train_ratio"] == 64.0
    assert len(kept.starts) == 3 and kept.start.resumed_at == 200
    assert kept.details["loss_scales"]["dyn"] == 0.0 and kept.timing.updates == 200
    assert kept.provenance.threads.cores == (0,) and kept.code["release"] == "3.3.1"


def test_a_run_of_a_protocol(tmp_path):
    kept = read(tmp_path, OLD["protocol"])
    what = kept.specification
    assert (what.protocol, what.upstream, what.source, what.seed) == ("tdmpc2-smoke", "tdmpc2", "dm_control", 1)
    assert (what.agent_steps, what.env_steps, what.chunk) == (SMOKE.agent_steps, SMOKE.env_steps, 2 * SMOKE.chunk)
    assert kept.protocol_entry == json.loads(json.dumps(SMOKE.as_json())) and kept.settings["iterations"] == 2
    assert len(kept.starts) == 2 and set(kept.provenances) == {"11111111", "57251260"}
    assert kept.start.provenance == "57251260" and kept.provenance.threads.number == 1
    assert kept.provenance.device.name == "NVIDIA H200" and kept.provenance.compile is True


@pytest.mark.parametrize("name", OLD)
def test_an_old_run_is_shown_by_status(tmp_path, name):
    read(tmp_path / "a" / "run", OLD[name])
    assert list(find.run_folders(tmp_path).folders) == [tmp_path / "a" / "run"]
    assert status.line_of(tmp_path / "a" / "run").startswith(OLD[name]["state"])


@pytest.mark.parametrize("name", OLD)
def test_an_old_record_that_lacks_a_key_or_has_it_of_another_type_is_told(tmp_path, name):
    for key in OLD[name]:
        for value in (None, 5, "x", [], [3], {}, {"a": 1}, True):
            try:
                read(tmp_path, OLD[name] | {key: value})
            except UserError as error:
                assert "run.json" in error.message and error.next_step
        without = {other: found for other, found in OLD[name].items() if other != key}
        try:
            read(tmp_path, without)
        except UserError as error:
            assert "run.json" in error.message and error.next_step


def old_counting_run(plan, kept, **changed):
    """The record that an earlier version would have kept of a counting run."""
    document = copy.deepcopy(old_records.TRAINING) | {
        "task": "count", "seed": 1, "presets": [], "upstream": plan.patched.provenance(), "state": "interrupted",
        "overrides": dict(plan.specification.overrides), "timing": {"steps": 20}, "evaluations": [
            {"step": one.step, "episode_reward": one.episode_reward, "episodes": 1} for one in kept.evaluations
        ],
    }  # fmt: skip
    document["config"] = {**counting.DEFAULTS, **plan.configured}
    return document | changed


def test_an_old_run_goes_on_and_is_of_today_then(counted):
    whole = making.carry_out(counted("exp_name=whole", "lr=1"), quiet=True).folder
    with pytest.raises(making.RunFailed):
        making.carry_out(counted("lr=1", "fails_at=23"), quiet=True)
    plan = counted("lr=1")
    document = old_counting_run(plan, record.read(plan.folder))
    (plan.folder / record.FILE).write_text(json.dumps(document))
    for words, differs in (("lr=2",), "lr .1, now 2"), (("lr=1", "eval_freq=20"), "chunk"):
        with pytest.raises(UserError, match=differs):
            making.carry_out(counted(*words), quiet=True)
    outcome = making.carry_out(plan, quiet=True)
    assert (plan.folder / "models/final.json").read_text() == (whole / "models/final.json").read_text()
    assert [one.step for one in outcome.record.evaluations] == [10, 20, 30, 40]
    assert len(outcome.record.starts) == 2 and len(outcome.record.provenances) == 2
    assert json.loads((plan.folder / record.FILE).read_text())["schema"] == 2
