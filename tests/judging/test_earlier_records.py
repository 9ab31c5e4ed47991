"""Records of earlier versions are read, shown and judged by what they say; what they do not say counts against them."""

import copy
import json

import pytest
import written_runs
from recorded import parsed

from tdmpc2_lean.validation.judging import criteria, findings, protocols, reading, synthetic
from tdmpc2_lean.validation.judging.deviations import deviations

WALKER = protocols.protocol("tdmpc2-walker-walk")
DREAMER = protocols.protocol("dreamerv3-dmc_walker_walk")


def version_less(entry, seed, **changed):
    """The run.json that runs of protocols had before there was one schema, with all that was then recorded."""
    described = written_runs.provenance(entry.agent)
    made = {**described["code"], "packages": described["versions"], "device": "NVIDIA H100", "threads": 4}
    return {
        "protocol": entry.name, "agent": entry.agent, "task": entry.task, "physics": entry.physics, "seed": seed,
        "settings": written_runs.settings_of(entry, seed), "spec": entry.as_json(), "presets": [],
        "preset_settings": {}, "provenance": made, "state": "finished", "error": None,
        "started": "2026-11-28T12:00:00+00:00", "ended": "2026-11-29T12:00:00+00:00", "attempts": 1,
    } | changed  # fmt: skip


@pytest.mark.parametrize("entry", [WALKER, DREAMER])
def test_a_run_of_before_that_recorded_all_is_on_protocol(entry):
    assert deviations(parsed(version_less(entry, entry.seeds[0]))) == ()


def test_an_entry_that_fixed_fewer_settings_is_judged_by_the_settings():
    spec = copy.deepcopy(WALKER.as_json())
    for name in ("multitask", "bin_size", "tasks", "obs_shape.state"):
        del spec["defaults"][name]
    assert deviations(parsed(version_less(WALKER, 1, spec=spec))) == ()
    fewer = {key: value for key, value in written_runs.settings_of(WALKER, 1).items() if key != "lr"}
    assert [one.key for one in deviations(parsed(version_less(WALKER, 1, spec=spec, settings=fewer)))] == ["lr"]


def test_a_dreamerv3_run_in_chunks_of_before_deviates_by_its_chunk():
    spec = {**DREAMER.as_json(), "chunk": 50_000}
    keys = [one.key for one in deviations(parsed(version_less(DREAMER, 0, spec=spec)))]
    assert keys == ["chunk", "protocol_entry.chunk"]


@pytest.mark.parametrize(
    ("provenance", "found"),
    [({}, ["upstream"]), ({"upstream": "tdmpc2"}, ["commit", "patched_tree", "patches", "tree"])],
)
def test_code_that_is_not_said_is_a_deviation(provenance, found):
    keys = [one.key for one in deviations(parsed(version_less(WALKER, 1, provenance=provenance)))]
    assert set(keys) == set(found) or set(keys) == set(found) - {"patched_tree"}


def test_runs_of_before_get_their_verdict_and_their_lines_speak_of_the_one_provenance(tmp_path):
    of = criteria.criterion("tdmpc2-dm_control")
    for run in synthetic.runs(of, tasks=["walker-walk"]):
        lines = written_runs.lines(run, WALKER, of="a1b2c3d4")
        written_runs.write_as(tmp_path / f"{run.seed}", version_less(WALKER, run.seed), lines)
    found = findings.report(reading.read(tmp_path), resamples=2)
    windows = found.judgements[0].verdict.windows
    assert [[task.state for task in window.tasks if task.task == "walker-walk"] for window in windows] == [["PASS"]] * 2
    assert found.off_protocol == () and found.complaints == ()
    assert [(origin.lines, origin.facts["device.kind"]) for origin in found.origins] == [(120, "NVIDIA H100")]


def test_a_training_runs_record_is_of_no_protocol(tmp_path):
    said = {
        "schema": 1, "kind": "train", "config": {"steps": 1000, "eval_freq": 500, "task": "walker-walk"},
        "upstream": written_runs.code_of("tdmpc2"), "python": "3.12", "packages": {}, "device": {"kind": "cpu"},
        "threads": {"number": 1}, "environment": {}, "platform": "Linux", "tdmpc2_lean": None, "hydra": [],
        "resumed_at": None, "attempts": 1, "command": "", "cwd": "", "started": "2026-11-28T12:00:00+00:00",
        "ended": None, "state": "running", "exit_code": None, "pid": 1, "host": "here", "task": "walker-walk",
        "presets": [], "seed": 1, "overrides": {}, "error": None, "checkpoint": None, "timing": None,
        "evaluations": [],
    }  # fmt: skip
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text(json.dumps(said))
    (one,) = findings.report(reading.read(tmp_path)).off_protocol
    assert [(deviation.key, deviation.found) for deviation in one.deviations] == [("protocol", "absent")]
