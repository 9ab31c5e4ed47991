"""Patches that are used only by name, and patches whose effect a checkout's own code has already."""

import json

import pytest

from tdmpc2_lean.cli import main
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.patching import SeriesError, apply, check, export, read_series, revert, show, status
from tests.patching.conftest import FILES, PLACE, SERIES, snapshot, write_files, write_series

ONCE_MORE = {
    "patch.toml": """\
title = "Step twice"
why = "Older code stepped once."
fix = "steps are made twice"
default = false

[already]
file = "code/loop.py"
inside = "loop"
find = "env.step(2)"

[[edit]]
file = "code/loop.py"
inside = "loop"
find = "env.step()"
do = "replace"
text = "env.step(2)"
"""
}
HAS_IT = FILES["code/loop.py"].replace("env.step()", "env.step(2)")


@pytest.fixture
def series(tmp_path):
    return write_series(tmp_path / "series", {**SERIES, "twice": ONCE_MORE})


@pytest.fixture
def command(tmp_path, series, capsys):
    def command(name, *words):
        with pytest.raises(SystemExit) as ended:
            main(["patch", name, "--series", str(series.folder), *map(str, words)])
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return command


def test_it_is_not_meant_where_no_patch_is_named(series, plain):
    assert series.names == ("place", "count", "many", "twice")
    assert [patch.name for patch in series.patches] == ["place", "count", "many"]
    assert [patch.name for patch in series.optional] == ["twice"]
    assert series.closure() == series.closure(["all"]) == series.patches
    assert [patch.name for patch in series.closure(["twice", "all"])] == list(series.names)
    assert [fit.patch.name for fit in check(plain, series).fits] == ["place", "count", "many"]
    assert apply(plain, series=series).applied == ("place", "count", "many")
    assert (status(plain, series).available, status(plain, series).optional) == ((), ("twice",))


def test_by_name_it_goes_on_and_comes_off_like_any_other(series, plain, clone, tmp_path):
    before = snapshot(plain)
    assert apply(plain, ["twice"], series).applied == ("twice",)
    assert "env.step(2)" in (plain / "code/loop.py").read_text()
    assert apply(plain, series=series).applied == series.names
    assert revert(plain, ["count"], series).applied == ("place", "many", "twice")
    revert(plain)
    assert snapshot(plain) == before
    assert export(clone, tmp_path / "mails", ["twice"], series).patches == ("twice",)


def test_where_the_code_has_it_already_nothing_is_done_and_that_is_said(series, plain, command):
    write_files(plain, {"code/loop.py": HAS_IT})
    before = snapshot(plain)
    fit = check(plain, series, ["twice"]).fits[0]
    assert fit.already and fit.ok
    done = apply(plain, ["twice"], series)
    assert (done.applied, done.already) == ((), ("twice",)) and snapshot(plain) == before
    assert not status(plain, series).applied and show("twice", plain, series) == ""
    assert "twice  already there" in command("check", plain, "twice")[1]
    assert "already there" in command("apply", plain, "twice")[1]
    assert "has this already" in command("show", "twice", "--checkout", plain)[1]
    done = apply(plain, ["twice", "count"], series)
    assert (done.applied, done.already) == (("count",), ("twice",))
    assert "already there" not in command("apply", plain, "count")[1]


def test_an_already_there_patch_counts_as_there_for_those_that_need_it(tmp_path, plain):
    needing = {"patch.toml": PLACE["patch.toml"].replace('why =', 'needs = ["twice"]\ndefault = false\nwhy ='),
               "code.py": PLACE["code.py"], "config.yaml": PLACE["config.yaml"]}  # fmt: skip
    series = write_series(tmp_path / "other", {"twice": ONCE_MORE, "needing": needing})
    write_files(plain, {"code/loop.py": HAS_IT})
    before = snapshot(plain)
    assert all(fit.ok for fit in check(plain, series, ["needing"]).fits)
    assert apply(plain, ["needing"], series).applied == ("needing",)
    revert(plain)
    assert snapshot(plain) == before


def test_nothing_is_exported_of_what_is_there_already(series, clone, tmp_path):
    write_files(clone, {"code/loop.py": HAS_IT})
    from tests.patching.conftest import git

    git(clone, "commit", "-aqm", "has it")
    with pytest.raises(UserError, match="twice already"):
        export(clone, tmp_path / "mails", ["twice"], series)
    assert not (tmp_path / "mails").exists()
    assert export(clone, tmp_path / "mails", ["twice", "count"], series).patches == ("count",)


def test_the_list_marks_it(command):
    lines = command("list")[1].splitlines()
    assert [line for line in lines if "(only by name)" in line] == [lines[-1]] and "fix" in lines[-1]
    assert [row["default"] for row in json.loads(command("list", "--json")[1])] == [True, True, True, False]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("default = false", "default = 0"), "`default` is true or false"),
        (("[already]", "[already.more]"), r"\[already\] holds texts"),
        (('find = "env.step(2)"', ""), r"\[already\] needs `file` and `find`"),
        (("inside =", "insid ="), "unknown key 'insid'. Did you mean 'inside'"),
        (("code/loop.py", "../loop.py"), "could leave the checkout"),
        (("code/loop.py", "README.md"), "neither Python nor YAML"),
    ],
)
def test_what_is_not_well_formed_is_named(tmp_path, change, says):
    toml = ONCE_MORE["patch.toml"].replace(*change, 1)
    with pytest.raises(SeriesError, match=f"Patch 'twice': .*{says}"):
        write_series(tmp_path / "s", {"twice": {"patch.toml": toml}})


def test_those_used_only_by_name_come_last_and_no_patch_is_called_as_a_word(tmp_path):
    with pytest.raises(SeriesError, match="'count' is on by default, and 'twice' before it is not"):
        write_series(tmp_path / "s", {"twice": ONCE_MORE, "count": SERIES["count"]})
    for word in ("all", "none"):
        with pytest.raises(SeriesError, match="means other things"):
            write_series(tmp_path / "s", {word: SERIES["count"]})
    assert read_series("dreamerv3").optional == ()
