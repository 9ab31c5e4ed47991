"""The settings of a patch stand in its patch.toml, and agree with what it writes into a configuration."""

import pytest

from tdmpc2_lean import patching
from tdmpc2_lean.patching import read_series
from tdmpc2_lean.patching.series import SeriesError
from tdmpc2_lean.settings import tdmpc2

HEAD = 'title = "t"\nwhy = "w"\n'
SPEED = '[settings.speed]\ntype = "rational"\nabove = 0\ndefault = 1\nunit = "per step"\nmeaning = "How fast."\n'
ADDS = '[[edit]]\nfile = "code/config.yaml"\nkey = "seed"\ndo = "after"\ncode = "config.yaml:new"\n'
NESTED = '[[edit]]\nfile = "configs.yaml"\nfind = "dmc: {$$$KEYS}"\ndo = "replace"\ntext = "dmc: {$KEYS, fast: True}"\n'


@pytest.fixture
def series(tmp_path):
    """A function from {patch: text of its patch.toml} to the series, whose snippet `new` adds speed: 1."""

    def read(new="new:\n  # how fast\n  speed: 1\n", **patches):
        for name, text in patches.items():
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / "patch.toml").write_text(text)
            (tmp_path / name / "config.yaml").write_text(new)
        (tmp_path / "series").write_text("".join(f"{name}\n" for name in patches))
        return read_series(folder=tmp_path)

    return read


def test_a_patchs_settings_are_read_with_it(series):
    found = series(one=HEAD + SPEED + ADDS)
    setting = found["one"].settings["speed"]
    assert setting.said() == "a rational number above 0 (per step)" and setting.patch == "one"
    assert found.settings() == {"speed": "one"}


def test_a_key_added_to_a_mapping_is_a_setting_by_its_whole_name(series):
    table = '[settings."env.dmc.fast"]\ntype = "boolean"\ndefault = true\nmeaning = "m"\n'
    assert series(one=HEAD + table + NESTED).settings() == {"env.dmc.fast": "one"}


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        (HEAD + ADDS, "it adds the setting 'speed', of which it has 0 tables"),
        (HEAD + NESTED, "it adds the setting 'dmc.fast', of which it has 0 tables"),
        (HEAD + SPEED.replace("default = 1", "default = 2") + ADDS, "its default is 2, and the patch writes 1"),
        (HEAD + SPEED.replace("default = 1\n", "") + ADDS, "its default is none, and the patch writes 1"),
        (HEAD + SPEED.replace("default = 1", "default = 1.0") + ADDS, "its default is 1.0, and the patch writes 1"),
        (HEAD + SPEED.replace("rational", "fraction") + ADDS, "setting 'speed': `type` is one of integer"),
        (HEAD + SPEED.replace("above", "abvoe") + ADDS, "unknown key 'abvoe'. Did you mean 'above'"),
        (HEAD + SPEED.replace("above = 0", "above = 1") + ADDS, "its default, 1, is not a rational number above 1"),
        (HEAD + SPEED.replace("above = 0", 'above = "0"') + ADDS, "`above` is a number"),
        (HEAD + SPEED.replace('"How fast."', '" "') + ADDS, "setting 'speed': `meaning` is missing"),
        (HEAD + SPEED.replace('"per step"', "1") + ADDS, "`unit` is a text"),
        (HEAD + SPEED + "decides = 1\n" + ADDS, "`decides` is true or false"),
        (HEAD + SPEED + "items = 'text'\n" + ADDS, "`items`, a type, goes with `type` list"),
        (HEAD + SPEED + "pattern = '('\n" + ADDS, "`pattern` is no regular expression"),
        (HEAD + "settings = 1\n" + ADDS, "`settings` holds a table for each setting"),
    ],
)
def test_a_table_that_is_wrong_is_told_with_the_patch(series, toml, told):
    with pytest.raises(SeriesError) as refused:
        series(one=toml)
    assert refused.value.message.startswith("Patch 'one': ") and told in refused.value.message


def test_two_patches_do_not_bring_one_setting(series):
    with pytest.raises(SeriesError, match="'one' and 'two' both bring the setting 'speed'"):
        series(one=HEAD + SPEED + ADDS, two=HEAD + SPEED + ADDS)


def test_null_is_a_default_where_it_is_allowed(series):
    table = '[settings.speed]\ntype = "number"\nnullable = true\ndefault = "null"\nmeaning = "m"\n'
    assert series(new="new:\n  speed: null\n", one=HEAD + table + ADDS)["one"].settings["speed"].default is None


def test_what_a_replacement_repeats_is_not_added(series):
    edit = '[[edit]]\nfile = "config.yaml"\nfind = "steps: $N"\ndo = "replace"\ntext = "steps: [$N]"\n'
    assert series(one=HEAD + edit).settings() == {}


def test_a_setting_without_an_edit_is_an_official_one():
    """Only `seed_steps`: what the patch changes is that a value of it is respected."""
    from tdmpc2_lean.patching.added import settings_added

    for patch in read_series("tdmpc2"):
        assert {name for name in patch.settings if name in tdmpc2.official()} == (
            set(patch.settings) - set(settings_added(patch.edits))
        )
    assert patching.read_series("tdmpc2").settings()["seed_steps"] == "seed-steps"
