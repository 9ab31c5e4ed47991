"""A run that deviates from its protocol in anything that decides what is computed is known by it, and not judged."""

import json

import pytest
import written_runs
from recorded import changed, parsed

from tdmpc2_lean.upstreams import UPSTREAMS
from tdmpc2_lean.validation.judging import official_code, protocols, variants
from tdmpc2_lean.validation.judging.agents import agent_named
from tdmpc2_lean.validation.judging.agents.tdmpc2 import RESOLVED
from tdmpc2_lean.validation.judging.deviations import deviations

WALKER = protocols.protocol("tdmpc2-walker-walk")
DREAMER = protocols.protocol("dreamerv3-dmc_ball_in_cup_catch")
ENTRIES = {"tdmpc2": WALKER, "dreamerv3": DREAMER}


def record(entry, **more):
    return written_runs.record_of(entry, entry.seeds[1], **more)


def keys(said):
    return [deviation.key for deviation in deviations(parsed(said))]


def differing(value):
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return [*value, 1] if isinstance(value, list) else f"{value}x" if value is not None else 3


@pytest.mark.parametrize("agent", ENTRIES)
def test_a_run_on_protocol_has_no_deviations(agent):
    assert keys(record(ENTRIES[agent])) == []


@pytest.mark.parametrize("agent", ENTRIES)
def test_any_changed_or_missing_setting_is_a_deviation(agent):
    """Every setting that decides, of both agents."""
    entry = ENTRIES[agent]
    said = record(entry)
    due = protocols.expected_settings(entry, entry.seeds[1])
    for key, value in due.items():
        assert keys(changed(said, "settings", key, to=differing(value))) == [key]
        # What the code resolves is recorded at a run's end.
        resolved = agent == "tdmpc2" and key in RESOLVED
        assert keys(changed(said, "settings", key, to=...)) == ([] if resolved else [key])


@pytest.mark.parametrize(
    ("key", "value"),
    [("agent.opt.lr", 1.0), ("batch_size", 999), ("agent.loss_scales.dyn", 0), ("seed", 4), ("agent.new", 1),
     ("size", "size400m"), ("train_ratio", 1), ("run.from_checkpoint", "/elsewhere")],
)  # fmt: skip
def test_what_dreamerv3s_protocol_let_pass_is_a_deviation(key, value):
    assert keys(changed(record(DREAMER), "settings", key, to=value)) == [key]


@pytest.mark.parametrize("agent", ENTRIES)
def test_where_and_how_a_run_is_made_is_no_deviation(agent):
    said = record(ENTRIES[agent])
    for name in (*agent_named(agent).where_and_how, *agent_named(agent).not_read):
        key = f"{name}anything" if name.endswith(".") else name
        assert keys(changed(said, "settings", key, to="anything")) == []


def test_dreamerv3_computes_in_float32_on_a_cpu_and_nowhere_else():
    said = changed(record(DREAMER), "settings", "jax.compute_dtype", to="float32")
    assert keys(said) == ["jax.compute_dtype"]
    assert keys(changed(said, "settings", "jax.platform", to="cpu")) == []


def test_a_number_is_compared_by_its_value_however_it_is_written():
    assert keys(changed(record(WALKER), "settings", "lr", to="3e-4")) == []


@pytest.mark.parametrize("agent", ENTRIES)
@pytest.mark.parametrize(
    ("path", "to", "found"),
    [
        (("specification", "seed"), 77, ["seed", "seed"]),
        (("specification", "tasks"), ["walker-run"], ["task"]),
        (("specification", "protocol"), "tdmpc2-walker-wlak", ["protocol"]),
        (("specification", "protocol"), None, ["protocol"]),
        (("specification", "agent_steps"), 1000, ["agent_steps"]),
        (("specification", "action_repeat"), 1, ["action_repeat"]),
        (("specification", "chunk"), 1000, ["chunk"]),
        (("specification", "source"), "playground", ["source"]),
        (("specification", "arm"), "strip", ["arm"]),
        (("kind",), "evaluate", ["kind"]),
        (("checkpoint",), {"path": "/elsewhere.pt"}, ["checkpoint"]),
        (("protocol_entry",), None, ["protocol_entry"]),
        (("protocol_entry", "env_steps"), 1000, ["protocol_entry.env_steps"]),
        (("protocol_entry", "defaults", "batch_size"), 999, ["protocol_entry.defaults.batch_size"]),
        (("starts", 0, "provenance"), "ffff0000", ["provenances"]),
    ],
)
def test_another_run_than_the_protocols_is_a_deviation(agent, path, to, found):
    assert keys(changed(record(ENTRIES[agent]), *path, to=to)) == list(dict.fromkeys(found))


def test_an_entry_of_a_registry_that_fixed_less_is_none_as_long_as_the_settings_are_all_right():
    said = record(WALKER)
    fewer = {key: value for key, value in WALKER.defaults.items() if key != "lr"}
    assert keys(changed(said, "protocol_entry", "defaults", to=fewer)) == []


# The code


def code(**others):
    return {"provenance": written_runs.provenance(code=others)}


PATCHES = written_runs.code_of("tdmpc2")["patches"]
OTHER = [{**PATCHES[0], "sha256": "0" * 64}, *PATCHES[1:]]


@pytest.mark.parametrize(
    ("others", "found"),
    [
        ({"upstream": "miniature"}, ["upstream"]),
        ({"commit": "0" * 40}, ["commit"]),
        ({"tree": "0" * 40}, ["tree"]),
        ({"local_changes": ["tdmpc2/tdmpc2.py"]}, ["local_changes"]),
        ({"patches": []}, [f"patch {one['name']}" for one in PATCHES]),
        ({"patches": None}, ["patches"]),
        ({"patches": [one["name"] for one in PATCHES]}, ["patches"]),
        ({"patches": PATCHES[:-1]}, [f"patch {PATCHES[-1]['name']}"]),
        ({"patches": [*PATCHES, {"name": "mine", "sha256": "1" * 64}]}, ["patch mine"]),
        ({"patches": OTHER}, [f"patch {PATCHES[0]['name']}"]),
        ({"patches": [*PATCHES[1:], PATCHES[0]]}, ["patches"]),
    ],
)
def test_other_code_is_a_deviation_that_is_named(others, found):
    assert keys(record(WALKER, **code(**others))) == sorted(found)


def test_the_code_of_every_start_is_held_against_the_protocol():
    here, other = written_runs.provenance(), written_runs.provenance(code={"tree": "0" * 40})
    both = {"ffff0000": other, written_runs.name_of(here): here}
    assert keys(record(WALKER, provenances=both)) == ["tree"]


@pytest.mark.parametrize("upstream", ["tdmpc2", "dreamerv3"])
@pytest.mark.official
def test_the_patched_tree_is_what_pin_and_series_make_as_the_cache_makes_it(upstream, tried_commits, shared_folders):
    checkout = tried_commits(upstream).get(UPSTREAMS[upstream].pin)
    if checkout is None:
        pytest.skip("not at the pin")
    from tdmpc2_lean.patched import materialise

    due = official_code.expected(upstream)
    made = materialise(checkout)
    assert (due.patched_tree, list(due.patches)) == (made.tree, list(made.patches))
    assert due.differences(json.loads(json.dumps(made.provenance()))) == {}


@pytest.mark.official
def test_official_code_that_comes_later_is_seen(tried_commits, monkeypatch, tmp_path):
    if tried_commits("dreamerv3").get(UPSTREAMS["dreamerv3"].pin) is None:
        pytest.skip("not at the pin")
    official_code._rendered_tree.cache_clear()
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TDMPC2_LEAN_CACHE", str(tmp_path))
        assert official_code.expected("dreamerv3").patched_tree is None
    assert official_code.expected("dreamerv3").patched_tree is not None


def test_an_edited_patched_tree_is_a_deviation_where_the_official_code_is_here():
    due = official_code.expected("tdmpc2")
    known = official_code.ExpectedCode(due.upstream, due.commit, due.tree, due.patches, "a" * 40)
    said = parsed(record(WALKER, **code(patched_tree="b" * 40)))
    assert [one.key for one in deviations(said, known)] == ["patched_tree"]
    assert deviations(parsed(record(WALKER, **code(patched_tree="a" * 40))), known) == ()


# Presets


def made_of(*uses, entry=WALKER):
    return record(entry, presets=list(uses))


def test_a_variant_is_compared_with_what_our_own_preset_makes_of_the_protocol():
    assert keys(made_of("fast")) == []
    assert keys(made_of("ratio", "depth")) == []
    said = made_of("fast")
    assert keys(changed(said, "settings", "iterations", to=6)) == ["iterations"]
    assert keys(changed(said, "settings", "batch_size", to=256)) == ["batch_size"]
    without = changed(said, "specification", "presets", to=[])
    assert keys(without) == ["batch_size", "iterations", "utd"]


def test_what_a_run_says_that_a_preset_of_ours_sets_is_not_believed():
    fast = written_runs.preset("fast")
    lies = {"model_size": 1, "utd": 0.1, "lr": 1.0}
    said = made_of({**fast, "overrides": lies})
    said["settings"] |= lies
    assert "preset fast" in keys(said)
    shadowing = made_of({**fast, "sha256": "0" * 64})
    assert keys(shadowing) == ["preset fast"]
    recorded = changed(made_of("fast"), "preset_settings", to=lies)
    recorded["settings"] |= lies
    assert keys(recorded) == ["lr", "model_size", "utd"]


def test_a_record_that_names_a_preset_of_ours_and_no_more_is_held_to_the_preset():
    said = changed(made_of("fast"), "specification", "presets", to=[{"name": "fast"}])
    assert keys(said) == []
    assert keys(changed(said, "settings", "utd", to=0.25)) == ["utd"]


def test_a_preset_of_the_users_own_is_a_variant_of_its_own_name_and_must_do_what_it_says():
    mine = {"name": "mine", "sha256": "0" * 64, "overrides": {"iterations": 1}}
    assert keys(made_of(mine)) == []
    variant = variants.of_presets(WALKER, parsed(made_of(mine)).specification.presets)
    assert variant.name.startswith("mine@")
    assert variants.changes(WALKER, variant) == (variants.Change("iterations", 6, 1),)
    assert keys(changed(made_of(mine), "settings", "iterations", to=2)) == ["iterations"]
    assert keys(made_of({"name": "mine"})) == ["preset mine"]


def test_a_preset_may_not_touch_what_the_protocol_fixes():
    shorter = {"name": "shorter", "sha256": "0" * 64, "overrides": {"steps": 10}}
    said = changed(made_of(shorter), "settings", "steps", to=10)
    assert keys(said) == ["preset shorter", "steps"]


@pytest.mark.parametrize("name", ["../../x", "$\\frac{1}$", "a b", "", "x" * 300])
def test_a_presets_odd_name_is_a_deviation_and_names_no_variant(name):
    said = made_of({"name": name, "sha256": "0" * 64, "overrides": {"iterations": 1}})
    assert "preset" in keys(said)
    assert variants.of_presets(WALKER, parsed(said).specification.presets).name == "unnamed"


def test_dreamerv3s_protocols_have_no_variants_but_its_preset_that_sets_nothing():
    assert keys(made_of("default", entry=DREAMER)) == []
    assert "preset paper" in keys(made_of("paper", entry=DREAMER))


def test_an_integer_beyond_all_floats_is_compared_as_it_is():
    assert protocols.same(10**400, 10**400) and not protocols.same(10**400, 1)
