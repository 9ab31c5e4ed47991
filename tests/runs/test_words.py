"""Words on the command line are sorted, checked and quoted."""

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as some

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import words

KNOWN = {"task", "seed", "batch_size", "lr"}


def test_our_words_are_kept_from_hydra_and_all_others_reach_it_as_written():
    asked = words.read(
        ["lean=smoke,fast", "task=cheetah-run", "hydra.verbose=true", "~lr", "threads=2", "+new=1"]
    )
    assert asked.own == {"lean": "smoke,fast", "threads": "2"}
    assert asked.hydra == ("task=cheetah-run", "hydra.verbose=true", "~lr", "+new=1")
    assert asked.listed("lean") == ("smoke", "fast")


def test_only_official_settings_with_a_value_count_as_settings():
    asked = words.read(["task=a", "task=b", "hydra.run.dir=x", "hydra/launcher=basic", "~lr", "++seed=3"])
    assert asked.settings() == {"task": "b", "seed": "3"}


@pytest.mark.parametrize("word", ["cheetah-run", "--", "=3", "+=3"])
def test_a_word_that_is_no_setting_is_refused(word):
    with pytest.raises(UserError):
        words.read([word])


def test_a_misspelt_setting_is_told_with_the_nearest():
    with pytest.raises(UserError, match="Did you mean 'batch_size'"):
        words.check_keys(["bacth_size"], KNOWN, {})
    with pytest.raises(UserError, match="Did you mean 'overwrite'"):
        words.check_keys(["overwrit"], KNOWN, {})


def test_hydras_own_syntax_passes_the_check():
    words.check_keys(["+brand_new", "hydra.run.dir", "hydra/launcher", "~lr", "++seed", "task"], KNOWN, {})
    with pytest.raises(UserError):
        words.check_keys(["~brand_new"], KNOWN, {})


def test_settings_of_patches_left_out_are_told_with_every_patch_that_is_needed():
    with pytest.raises(UserError) as told:
        words.check_keys(
            ["utd", "device", "task"], KNOWN, {"utd": "utd", "device": "dev-patch"}, "preset 'x': "
        )
    assert "utd,dev-patch" in told.value.next_step
    assert "preset 'x'" in told.value.message


def test_a_flag_is_true_false_or_an_error():
    assert words.read(["overwrite=True"]).flag("overwrite") is True
    assert words.read([]).flag("overwrite") is False
    with pytest.raises(UserError):
        words.read(["overwrite=maybe"]).flag("overwrite")


VALUES = some.recursive(
    some.none()
    | some.booleans()
    | some.integers(-(10**9), 10**9)
    | some.floats(allow_nan=False, allow_infinity=False)
    | some.text(some.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12)
    | some.sampled_from(["true", "null", "1e3", "a,b", "it's", "\\", "\\'", "x=1", "${task}", " ", "1/3"]),
    lambda inner: some.lists(inner, max_size=3),
    max_leaves=4,
)


@given(VALUES)
def test_hydra_reads_back_exactly_the_value_that_was_quoted(value):
    read = OverridesParser.create().parse_override(words.hydra_word("key", value)).value()

    def plain(item):
        if isinstance(item, list):
            return [plain(inner) for inner in item]
        return getattr(item, "text", item) if type(item).__name__ == "QuotedString" else item

    back = plain(read)
    assert back == value and type(back) is type(value)
