"""Edits with alternatives for code of another age: the first whose place is found is carried out, none in silence."""

import pytest

from tdmpc2_lean.patching import LostAnchors, SeriesError, apply, check, revert
from tests.patching.conftest import FILES, snapshot, write_files, write_series

EDIT = """\
title = "Make it slow"
why = "Fast is wrong."

[[edit]]
file = "code/agent.py"
inside = "Agent.__init__"
find = "fast=True"
count = 2
do = "replace"
text = "fast=False"

[[edit.or]]
find = "quick=True"
text = "quick=False"

[[edit.or]]
do = "nothing"
find = "optimiser($CFG.lr)"

[[edit.or]]
file = "code/old.py"
find = "FAST = True"
do = "replace"
text = "FAST = False"
"""
GIVEN = """\
title = "Say what it does"
why = "Nobody knows."

[[edit]]
file = "code/loop.py"
inside = "loop"
given = { find = "env.tick($$$)" }
do = "append"
code = "ticks"
whole = false

[[edit.or]]
code = "steps"
whole = false
"""
CODE = 'def ticks(count):\n    print("ticks", count)\n\n\ndef steps(count):\n    print("steps", count)\n'
NEW_AGENT = FILES["code/agent.py"]
OLD_AGENT = NEW_AGENT.replace("optimiser(fast=True)", "optimiser(1)").replace(
    "optimiser(lr=cfg.lr, fast=True)", "optimiser(lr=cfg.lr, quick=True)"
)

BARE_AGENT = "class Agent:\n\tdef __init__(self):\n\t\tpass\n"


@pytest.fixture
def slow(tmp_path):
    return write_series(tmp_path / "series", {"slow": {"patch.toml": EDIT}})


@pytest.fixture
def said(tmp_path):
    return write_series(tmp_path / "series", {"said": {"patch.toml": GIVEN, "code.py": CODE}})


def agent_after(plain, series, **files):
    write_files(plain, files)
    before = snapshot(plain)
    apply(plain, series=series)
    text = (plain / "code/agent.py").read_text()
    revert(plain)
    assert snapshot(plain) == before
    return text


def test_the_edit_itself_is_carried_out_where_its_place_is_found(slow, plain):
    assert agent_after(plain, slow).count("fast=False") == 2


def test_an_alternative_takes_over_where_the_edits_place_is_not_found(slow, plain):
    text = agent_after(plain, slow, **{"code/agent.py": OLD_AGENT})
    assert "quick=False" in text and text == OLD_AGENT.replace("quick=True", "quick=False")


def test_the_first_alternative_that_fits_is_taken_and_no_other(slow, plain):
    both = OLD_AGENT.replace("optimiser(1)", "optimiser(cfg.lr)")
    assert agent_after(plain, slow, **{"code/agent.py": both}) == both.replace("quick=True", "quick=False")


def test_nothing_is_done_only_where_the_code_shows_that_nothing_is_to_be_done(slow, plain):
    settled = OLD_AGENT.replace("optimiser(1)", "optimiser(cfg.lr)").replace(", quick=True", "")
    write_files(plain, {"code/agent.py": settled})
    before = snapshot(plain)
    assert check(plain, slow).ok
    done = apply(plain, series=slow)
    assert done.already == ("slow",) and done.applied == () and not done.changes
    revert(plain)
    assert snapshot(plain) == before


def test_an_alternative_may_be_about_another_file(slow, plain):
    write_files(plain, {"code/agent.py": BARE_AGENT, "code/old.py": "FAST = True\n"})
    apply(plain, series=slow)
    assert (plain / "code/old.py").read_text() == "FAST = False\n"


def test_where_nothing_fits_every_place_that_was_looked_for_is_named(slow, plain):
    write_files(plain, {"code/agent.py": BARE_AGENT})
    before = snapshot(plain)
    with pytest.raises(LostAnchors) as lost:
        apply(plain, series=slow)
    (anchor,) = lost.value.anchors
    assert anchor.pattern == "fast=True"
    for looked_for in ("found 0 times, expected 2", "`quick=True`", "`optimiser($CFG.lr)`", "old.py: `FAST = True`"):
        assert looked_for in anchor.reason, looked_for
    assert snapshot(plain) == before


def test_an_edit_may_be_only_for_code_that_has_something(said, plain):
    apply(plain, series=said)
    assert (plain / "code/loop.py").read_text() == FILES["code/loop.py"] + '  print("steps", count)\n'
    revert(plain)
    ticking = FILES["code/loop.py"].replace("env.step()", "env.tick()")
    write_files(plain, {"code/loop.py": ticking})
    apply(plain, series=said)
    assert (plain / "code/loop.py").read_text() == ticking + '  print("ticks", count)\n'


def test_what_an_edit_was_only_for_is_named_where_it_is_not_there(tmp_path, plain):
    alone = GIVEN.partition("[[edit.or]]")[0]
    series = write_series(tmp_path / "series", {"said": {"patch.toml": alone, "code.py": CODE}})
    (fit,) = check(plain, series).fits
    assert not fit.ok and "is only for code with `env.tick($$$)` in code/loop.py" in str(fit.lost[0])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("[[edit.or]]", "[edit.or]"), "tables \\[\\[edit.or\\]\\]"),
        (('find = "quick=True"', 'fid = "quick=True"'), "alternative 1: unknown key 'fid'"),
        (('find = "quick=True"\n', ""), "alternative 1: `replace` takes a `find`"),
        (('find = "optimiser($CFG.lr)"\n', ""), "alternative 2: `nothing` takes `find`"),
        (('do = "nothing"', 'do = "nothing"\ntext = "x"'), "alternative 2: `nothing` takes `find`"),
        (('do = "nothing"', 'do = "nothing"\ngiven = "x"'), "alternative 2: `given` holds texts"),
        (('do = "nothing"', 'do = "nothing"\ngiven = { file = "README.md", find = "x" }'), "neither Python nor YAML"),
        (('do = "nothing"', 'do = "nothing"\nor = []'), "alternative 2: an alternative has none itself"),
    ],
)
def test_what_is_wrong_in_an_alternative_is_named(tmp_path, change, says):
    old, new = change
    one = EDIT.partition("[[edit.or]]")[0] + "[[edit.or]]\nfind = 'x'\n"  # a table and an array have not one name
    toml = (one if new == "[edit.or]" else EDIT).replace(old, new, 1)
    with pytest.raises(SeriesError, match=f"Patch 'slow': edit 1: .*{says}"):
        write_series(tmp_path / "s", {"slow": {"patch.toml": toml}})


def test_alternatives_that_add_other_settings_than_the_edit_are_refused(tmp_path):
    toml = """\
title = "Choose the place"
why = "It is written into the code."

[settings.place]
type = "text"
default = "here"
meaning = "Where it runs."

[[edit]]
file = "code/config.yaml"
key = "seed"
do = "after"
text = "place: here"

[[edit.or]]
key = "steps"
text = "place: there"
"""
    with pytest.raises(SeriesError, match="edit 1: its alternatives add other settings"):
        write_series(tmp_path / "s", {"place": {"patch.toml": toml}})
    fine = toml.replace("place: there", "place: here")
    write_series(tmp_path / "t", {"place": {"patch.toml": fine}})


def test_what_a_patch_does_may_be_there_already_in_several_ways(tmp_path, plain):
    toml = """\
title = "Step twice"
why = "Older code stepped once."

[[already]]
file = "code/loop.py"
find = "env.step(2)"

[[already]]
file = "code/agent.py"
find = "self.twice($$$)"

[[edit]]
file = "code/loop.py"
inside = "loop"
find = "env.step()"
do = "replace"
text = "env.step(2)"
"""
    series = write_series(tmp_path / "series", {"twice": {"patch.toml": toml}})
    assert not check(plain, series).fits[0].already
    write_files(plain, {"code/agent.py": NEW_AGENT.replace("return obs\n", "return self.twice(obs)\n")})
    assert check(plain, series).fits[0].already
    write_files(plain, {"code/agent.py": NEW_AGENT, "code/loop.py": FILES["code/loop.py"].replace("step()", "step(2)")})
    assert check(plain, series).fits[0].already
