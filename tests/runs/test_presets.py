"""Presets are read, checked, found and composed from left to right."""

import pytest

from tdmpc2_lean import places
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs.presets import Preset, Shelf, compose
from tdmpc2_lean.runs.presets import read as read_of
from tdmpc2_lean.tdmpc2.adapter import ADAPTER

OFFICIAL = {"iterations": 6, "batch_size": 256, "utd": 1, "lr": 3e-4, "task": "dog-run", "compile": True}


def shelf() -> Shelf:
    """TD-MPC2's, as the test's folders have it."""
    return ADAPTER.shelf


def find(name):
    return shelf().find(name)


def read(path):
    return read_of(path, places.presets_dir())


def made(name="made", **fields):
    return Preset(name, None, "a title", **fields)


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_the_five_presets_are_there_and_each_states_evidence_and_cost(workplace):
    assert {"default", "depth", "ratio", "fast", "smoke"} <= set(shelf().available())
    for path in places.presets_dir().glob("*.yaml"):
        preset = read(path)
        assert preset.evidence and preset.cost and preset.title


def test_on_the_official_defaults_the_presets_are_the_published_cheap_settings(workplace):
    assert compose([find("default")], OFFICIAL) == {}
    assert compose([find("depth")], OFFICIAL) == {"iterations": 3}
    assert compose([find("ratio")], OFFICIAL) == {"utd": 0.5, "batch_size": 512}
    assert compose([find("fast")], OFFICIAL) == {"iterations": 3, "utd": 0.5, "batch_size": 512}


def test_fast_makes_smoke_cheaper_by_the_same_factors(workplace):
    smoke = compose([find("smoke")], OFFICIAL)
    both = compose([find("smoke"), find("fast")], OFFICIAL)
    assert both["iterations"] * 2 == smoke["iterations"] and both["batch_size"] == 2 * smoke["batch_size"]
    assert both == smoke | {key: both[key] for key in ("iterations", "batch_size", "utd")}


def test_smoke_leaves_the_networks_to_its_own_widths(workplace):
    # A model_size would replace them.
    assert "model_size" not in find("smoke").overrides


def test_later_presets_win():
    one, two = made(overrides={"lr": 1.0, "seed": 1}), made(overrides={"lr": 2.0})
    assert compose([one, two], OFFICIAL) == {"lr": 2.0, "seed": 1}
    assert compose([two, one], OFFICIAL) == {"lr": 1.0, "seed": 1}


@pytest.mark.parametrize(
    "key, factor, product",
    [("iterations", 0.5, 3), ("batch_size", 2, 512), ("lr", 10, 0.003), ("utd", 0.25, 0.25), ("utd", 3, 3)],
)
def test_factors_are_exact_and_keep_whole_numbers_whole(key, factor, product):
    result = compose([made(times={key: factor})], OFFICIAL)[key]
    assert result == product and type(result) is type(product)


def test_a_factor_on_a_fraction_stays_a_fraction():
    assert compose([made(times={"utd": 0.5})], OFFICIAL | {"utd": "1/3"}) == {"utd": "1/6"}


@pytest.mark.parametrize("key, factor", [("iterations", 0.4), ("task", 2), ("compile", 2), ("absent", 2)])
def test_a_factor_that_makes_no_sense_is_refused(key, factor):
    with pytest.raises(UserError, match="made"):
        compose([made(times={key: factor})], OFFICIAL)


def test_a_misspelt_preset_is_told_with_the_nearest(workplace):
    with pytest.raises(UserError, match="Did you mean 'smoke'"):
        find("smok")


def test_a_preset_of_the_users_is_found_by_name_and_by_path(workplace):
    folder = places.config_dir() / "presets"
    folder.mkdir(parents=True, exist_ok=True)
    path = written(folder / "mine.yaml", "title: Mine\noverrides: {lr: 3e-4}\n")
    assert find("mine") == find(str(path)) == read(path)
    assert read(path).overrides == {"lr": 3e-4}
    assert "mine" in shelf().available()


@pytest.mark.parametrize(
    "text, told",
    [
        ("- a\n", "mapping"),
        ("title: x\noverides: {}\n", "Did you mean 'overrides'"),
        ("overrides: {}\n", "title"),
        ("title: x\noverrides: [1]\n", "overrides must be"),
        ("title: x\ntimes: {lr: fast}\n", "positive number"),
        ("title: x\ntimes: {lr: -1}\n", "positive number"),
        ("title: x\noverrides: {lr: 1}\ntimes: {lr: 2}\n", "under times"),
        ("title: [\n", "YAML"),
    ],
)
def test_a_malformed_preset_is_told_with_its_file(tmp_path, text, told):
    path = written(tmp_path / "bad.yaml", text)
    with pytest.raises(UserError, match=told) as error:
        read(path)
    assert str(path) in str(error.value)
