"""`tdmpc2-lean settings` says of every setting what it may be; an unknown word is told with the nearest name."""

import pytest
from click.testing import CliRunner

from tdmpc2_lean.commands.settings import settings
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.settings import tdmpc2


def output(*words: str) -> str:
    done = CliRunner().invoke(settings, words, catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_every_setting_is_listed():
    names = [line.split()[0] for line in output().splitlines() if not line.startswith(" ")]
    assert set(tdmpc2.official()) < set(names) and "utd" in names


def test_a_setting_says_its_range_default_and_patch():
    assert output("utd").splitlines()[:2] == [
        "utd  [patch utd]",
        "  a rational number above 0 (updates per agent step); by default 1",
    ]
    assert "by default null" in output("pretrain_updates")


def test_a_word_finds_settings_by_their_meaning():
    names = [line.split()[0] for line in output("planner").splitlines() if not line.startswith(" ")]
    assert "iterations" in names and "batch_size" not in names


def test_an_unknown_word_is_told_with_the_nearest():
    with pytest.raises(UserError, match="no setting 'horizn'. Did you mean 'horizon'"):
        output("horizn")


@pytest.mark.official("dreamerv3")
def test_the_settings_of_dreamerv3_are_those_of_its_code(official_dreamerv3, monkeypatch, tmp_path):
    pytest.importorskip("elements", reason="needs the extra [dreamer]")
    monkeypatch.setenv("TDMPC2_LEAN_CACHE", str(tmp_path))
    monkeypatch.setenv("TDMPC2_LEAN_DREAMERV3", str(official_dreamerv3.root))
    assert output("--upstream", "dreamerv3", "run.clock").splitlines()[:2] == [
        "run.clock  [patch seeding]",
        "  one of seconds, steps; by default seconds",
    ]
