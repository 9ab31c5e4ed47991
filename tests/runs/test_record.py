"""run.json is written whole, read back as it was, and whatever stands in it is told in words."""

import json
import os

import pytest
from pydantic import ValidationError

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import record
from tdmpc2_lean.runs.specification import Specification
from tdmpc2_lean.versions import changed

WHAT = Specification(
    upstream="tdmpc2", tasks=("cheetah-run",), seed=1, agent_steps=100, action_repeat=2, chunk=20,
    overrides={"lr": 3e-4, "name": "Ähre"},
)  # fmt: skip


def made(**fields):
    provenance = record.provenance_of({"upstream": "tdmpc2", "source": "here"}, device=None, threads=None)
    start = record.this_start("tdmpc2-lean train", record.Path("here"), provenance, "train.log", 100)
    known = {"kind": "train", "specification": WHAT, "starts": (start,), "packages": record.packages()}
    return record.RunRecord(schema=2, provenances={start.provenance: provenance}, **(known | fields))


def written(folder, **replaced):
    """run.json of a record in which keys, such as 'specification.seed', have other values; ... removes one."""
    document = json.loads(made().model_dump_json(by_alias=True))
    for place, value in replaced.items():
        *path, key = place.split(".")
        inner = document
        for part in path:
            inner = inner[int(part) if isinstance(inner, list) else part]
        if value is ...:
            del inner[key]
        else:
            inner[key] = value
    (folder / record.FILE).write_text(json.dumps(document))


def test_a_record_survives_the_disk(tmp_path):
    kept = made()
    record.write(tmp_path, kept)
    assert record.read(tmp_path) == kept
    assert [path.name for path in tmp_path.iterdir()] == [record.FILE]


def test_it_says_what_ran_where_with_which_versions():
    kept = made()
    assert kept.state == "running" and kept.start.ended is None and kept.start.pid == os.getpid()
    assert kept.packages["torch"] and kept.provenance.tdmpc2_lean.version
    assert kept.provenance.versions["python"] and kept.provenance.versions["mujoco"]
    assert "source" not in kept.code  # where the code was found says nothing about what it is


def test_a_key_outside_the_schema_is_refused():
    with pytest.raises(ValidationError):
        made(mistake=1)


def test_the_end_adds_state_exit_code_and_duration():
    done = made().ended("failed", 1, "why")
    assert (done.state, done.start.state, done.start.exit_code, done.error) == ("failed", "failed", 1, "why")
    assert done.seconds >= 0 and done.start.ended >= done.start.started


def test_a_failure_to_write_leaves_the_earlier_record(tmp_path, monkeypatch):
    kept = made()
    record.write(tmp_path, kept)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError):
        record.write(tmp_path, kept.ended("finished", 0))
    assert record.read(tmp_path) == kept
    assert [path.name for path in tmp_path.iterdir()] == [record.FILE]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "holds no run.json"),
        (b"", "cannot be read"),
        (b"{", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"[]", "is no JSON object"),
        (b'"x"', "is no JSON object"),
        (b'{"schema": 0}', "no schema that was ever written"),
        (b'{"schema": 1}', "no schema that was ever written"),
        (b'{"schema": "2"}', "no schema that was ever written"),
        (b'{"schema": 3}', "is of schema 3, and this version of tdmpc2_lean knows 2"),
        (b'{"schema": 2}', "kind is missing"),
        (b'{"schema": 1, "kind": "train"}', "is no run record"),
        (b'{"protocol": 1, "spec": 2}', "is no run record"),
        (b'{"schema": 2, "kind": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"schema": 2, "kind": ' + b"[" * 500 + b"]" * 500 + b"}", "recursion limit|nested too deeply"),
        (b'{"schema": 2, "kind": ' + b"9" * 5000 + b"}", "cannot be read"),
    ],
)
def test_what_is_no_record_is_told(tmp_path, content, told):
    if content is not None:
        (tmp_path / record.FILE).write_bytes(content)
    with pytest.raises(UserError, match=told) as error:
        record.read(tmp_path)
    assert error.value.next_step and len(error.value.message) < 600


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ("specification.seed", 1.0, "specification.seed is 1.0"),
        ("specification.seed", True, "specification.seed is True"),
        ("specification.seed", "1", "specification.seed is '1'"),
        ("specification.seed", ..., "specification.seed is missing"),
        ("specification.agent_steps", -1, "specification.agent_steps is -1"),
        ("specification.tasks", "cheetah-run", "specification.tasks is 'cheetah-run'"),
        ("specification.chunk", 0, "specification.chunk is 0"),
        ("specification", [], "specification is"),
        ("unheard_of", 1, "unheard_of is unknown"),
        ("kind", "training", "kind is 'training'"),
        ("state", "dead", "state is 'dead'"),
        ("starts", [], "starts is"),
        ("starts", {}, "starts is"),
        ("starts.0.started", "yesterday", "starts.0.started: Invalid isoformat"),
        ("starts.0.started", "2026-01-01T00:00:00", "without its zone"),
        ("provenances", {"x": {"code": 5}}, "provenances.x.code is 5"),
        ("timing", {"steps": float("nan")}, "timing.steps"),
        ("timing", {"train_seconds": float("inf")}, "timing.train_seconds"),
        ("evaluations", [{"episode_reward": 10**400}], "evaluations.0.episode_reward"),
        ("evaluations", 5, "evaluations is 5"),
        ("error", "\ud800", "is no run record"),
        ("configured", [], "configured is"),
    ],
)
def test_a_value_of_a_wrong_type_is_told_with_its_place(tmp_path, place, value, told):
    written(tmp_path, **{place: value})
    with pytest.raises(UserError) as error:
        record.read(tmp_path)
    assert told in error.value.message and "move the folder away" in error.value.next_step
    assert len(error.value.message) < 600


@pytest.mark.parametrize("code", [{"upstream": 3}, {"patches": 5}, {"local_changes": "yes"}])
def test_code_is_described_or_the_record_is_none(tmp_path, code):
    hash_of = made().start.provenance
    written(tmp_path, **{f"provenances.{hash_of}.code": code})
    with pytest.raises(UserError, match="code"):
        record.read(tmp_path)


def test_a_start_that_is_not_described_says_nothing_of_what_it_ran_with(tmp_path):
    """The record can be read, and whoever judges it or goes on with the run finds that the code is not the same."""
    written(tmp_path, provenances={})
    kept = record.read(tmp_path)
    assert kept.code == {} and kept.provenance.versions == {} and kept.start.provenance


def test_the_short_hash_names_a_provenance_whatever_the_order_of_its_keys_and_the_core_it_ran_on():
    def provenance(code, **threads):
        return record.provenance_of(code, device=None, threads=record.Threads(number=1, **threads))

    one = provenance({"a": 1, "b": {"c": 2, "d": 3}}, why="asked for", cores=(0,))
    other = provenance(json.loads('{"b": {"d": 3, "c": 2}, "a": 1}'), why="found", cores=(1,))
    assert one.short_hash == other.short_hash != provenance({"a": 2}).short_hash


def test_only_versions_of_packages_that_decide_what_is_computed_count_as_changed():
    then = {"dm-control": "1.0.16", "mujoco": "3.1.2", "torch": "2.7.1", "tqdm": "1", "python": "3.9.0"}
    now = {"dm_control": "1.0.50", "mujoco": "3.1.2", "tqdm": "2", "python": "3.11.7"}
    assert changed(then, now) == ["dm_control 1.0.16, now 1.0.50", "torch 2.7.1, now absent",
                                  "python 3.9.0, now 3.11.7"]  # fmt: skip
