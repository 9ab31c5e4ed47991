"""A protocol fixes everything, and a run that departs from it in anything is known by it."""

import copy
import json

import pytest
from omegaconf import OmegaConf

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.references import tasks
from tdmpc2_lean.upstreams import UPSTREAMS
from tdmpc2_lean.validation.judging import criteria, protocols

WALKER = protocols.protocol("tdmpc2-walker-walk")
# Official settings that do not decide what a run of one task from states computes, or that a protocol gives.
OF_NO_ACCOUNT = set(
    "task checkpoint steps exp_name data_dir model_size num_channels task_dim wandb_project wandb_entity wandb_silent "
    "enable_wandb save_csv compile save_video save_agent seed".split()
)


def record(entry=WALKER, seed=1, **changed):
    """The run.json of a run that is on protocol."""
    upstream = UPSTREAMS[entry.agent]
    return {
        "protocol": entry.name,
        "agent": entry.agent,
        "task": entry.task,
        "physics": entry.physics,
        "seed": seed,
        "presets": [],
        "preset_settings": {},
        "spec": json.loads(json.dumps(entry.as_json())),
        "settings": {**entry.defaults, **entry.settings, "seed": seed, "work_dir": "/somewhere"},
        "provenance": {"upstream": entry.agent, "commit": upstream.pin, "local_changes": []},
    } | changed


def test_every_task_of_every_criterion_has_a_protocol_with_its_budget_and_seeds():
    for criterion in criteria.criteria().values():
        for task in criterion.tasks:
            entry = protocols.protocol(protocols.name_of(criterion.agent, task, criterion.physics))
            assert (entry.env_steps, entry.seeds) == (criterion.budget(task), criterion.seeds)
            assert entry.chunk * entry.action_repeat == criterion.every
    of = [entry for entry in protocols.registry().values() if entry.agent == "tdmpc2" and entry.judged]
    assert sum(entry.physics == "dm_control" for entry in of) == len(tasks.TDMPC2) == 39
    assert sum(entry.physics == "playground" for entry in of) == 22


def test_tdmpc2_is_run_as_published():
    assert WALKER.settings == {
        "task": "walker-walk", "model_size": 5, "steps": 2_000_000, "eval_freq": 50_000, "eval_episodes": 10, "utd": 1,
        "separate_eval": True,
    }  # fmt: skip
    assert (WALKER.chunks, WALKER.episodes, WALKER.action_repeat) == (40, 10, 2)
    assert protocols.protocol("tdmpc2-humanoid-run").settings["steps"] == 7_000_000


def test_what_cannot_be_run_yet_says_why():
    for name, entry in protocols.registry().items():
        assert bool(entry.missing) == (entry.physics == "playground"), name


def test_the_defaults_are_those_of_the_pinned_code(official):
    config = OmegaConf.to_container(OmegaConf.load(official.code_dir / "config.yaml"))
    theirs = {key: value for key, value in config.items() if value != "???" and key != "defaults"}
    ours = {**protocols.TDMPC2_DEFAULTS, **WALKER.settings}
    missing = set(theirs) - set(protocols.TDMPC2_DEFAULTS) - OF_NO_ACCOUNT
    assert not missing, f"settings of the official code that the registry does not fix: {missing}"
    differ = [key for key in theirs if key in protocols.TDMPC2_DEFAULTS and not protocols.same(ours[key], theirs[key])]
    assert not differ


def test_a_run_on_protocol_has_no_departures():
    assert protocols.departures(record()) == ()
    as_text = record()
    as_text["settings"]["lr"] = "3e-4"  # YAML's way to write it
    assert protocols.departures(as_text) == ()


@pytest.mark.parametrize("key", sorted({**WALKER.defaults, **WALKER.settings}))
def test_any_changed_setting_is_a_departure(key):
    changed = copy.deepcopy(record())
    changed["settings"][key] = "something else"
    assert protocols.departures(changed) == (key,)
    del changed["settings"][key]
    assert protocols.departures(changed) == (key,)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"seed": 4}, ("seed",)),
        ({"task": "walker-run"}, ("task",)),
        ({"protocol": "tdmpc2-walker-wlak"}, ("protocol",)),
        ({"provenance": {"upstream": "miniature"}}, ("upstream",)),
        ({"provenance": {"upstream": "tdmpc2", "commit": "0" * 40}}, ("commit",)),
        ({"provenance": {"upstream": "tdmpc2", "commit": UPSTREAMS["tdmpc2"].pin, "local_changes": ["a.py"]}},
         ("local_changes",)),
        ({"spec": {**WALKER.as_json(), "env_steps": 1000}}, ("spec.env_steps",)),
    ],
)  # fmt: skip
def test_another_seed_task_code_or_budget_is_a_departure(changed, found):
    this = record(**changed)
    if "seed" in changed:
        this["settings"]["seed"] = changed["seed"]
    assert protocols.departures(this) == found


def test_a_variant_is_compared_with_what_its_presets_make_of_the_protocol():
    variant = record(presets=["depth"], preset_settings={"iterations": 3})
    assert protocols.departures(variant) == ("iterations",)
    variant["settings"]["iterations"] = 3
    assert protocols.departures(variant) == ()
    without_preset = record(presets=[], preset_settings={"iterations": 3})
    without_preset["settings"]["iterations"] = 3
    assert protocols.departures(without_preset) == ("iterations",)
    shorter = record(presets=["mine"], preset_settings={"steps": 10})
    shorter["settings"]["steps"] = 10
    assert protocols.departures(shorter) == ("steps",)


def test_a_smoke_run_is_never_on_protocol():
    smoke = protocols.protocol("tdmpc2-smoke")
    assert protocols.departures(record(smoke)) == ("smoke",)
    assert all(smoke.task not in criterion.tasks for criterion in criteria.criteria().values())


def test_an_unknown_protocol_is_told_with_the_nearest():
    with pytest.raises(UserError, match="tdmpc2-walker-walk"):
        protocols.protocol("tdmpc2-walker-wlak")


def test_an_integer_beyond_all_floats_is_compared_as_it_is():
    assert protocols.same(10**400, 10**400) and not protocols.same(10**400, 1)
