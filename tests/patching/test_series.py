"""Reading a series: order, needs, hashes, and a clear word for everything that is not well formed."""

import pytest

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.patching import SeriesError, read_series
from tests.patching.conftest import SERIES, write_series

EDIT = '[[edit]]\nfile = "f.py"\nfind = "a"\ndo = "delete"\n'
HEAD = 'title = "t"\nwhy = "w"\n'


def read_one(tmp_path, toml, **files):
    return write_series(tmp_path / "s", {"p": {"patch.toml": toml, **files}})["p"]


def test_a_series_has_its_patches_in_order_with_comments_ignored(tmp_path):
    write_series(tmp_path / "s", SERIES)
    (tmp_path / "s" / "series").write_text("# all\nplace # first\n\ncount\nmany\n")
    assert read_series(folder=tmp_path / "s").names == ("place", "count", "many")


def test_closure_adds_what_is_needed_in_series_order(series):
    assert [patch.name for patch in series.closure(["many"])] == ["place", "many"]
    assert [patch.name for patch in series.closure(["many", "count"])] == ["place", "count", "many"]
    assert series.closure() == series.patches


def test_an_unknown_name_is_told_with_the_nearest_one(series):
    with pytest.raises(UserError, match="Did you mean 'place'"):
        series.closure(["plcae"])


def test_the_hash_is_over_names_and_bytes_and_nothing_else(tmp_path):
    one = write_series(tmp_path / "a", SERIES)["place"].sha256
    other = write_series(tmp_path / "b", SERIES)
    assert one == other["place"].sha256
    (tmp_path / "b" / "place" / "__pycache__").mkdir()
    (tmp_path / "b" / "place" / "__pycache__" / "code.pyc").write_bytes(b"x")
    assert one == read_series(folder=tmp_path / "b")["place"].sha256
    (tmp_path / "b" / "place" / "code.py").write_bytes(SERIES["place"]["code.py"].encode() + b"\n")
    assert one != read_series(folder=tmp_path / "b")["place"].sha256


def test_the_packages_own_series_reads(tmp_path):
    assert read_series("miniature").names == read_series("tdmpc2").names


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("title = ", "not TOML"),
        ('why = "w"\n' + EDIT, "`title` is missing"),
        ('title = "t"\n' + EDIT, "`why` is missing"),
        ('title = "a\\nb"\nwhy = "w"\n' + EDIT, "one line"),
        (HEAD, "no .*edit"),
        (HEAD + "issues = 1\n" + EDIT, "unknown key 'issues'. Did you mean 'issue'"),
        (HEAD + EDIT + 'fnd = "x"\n', "edit 1: unknown key 'fnd'. Did you mean 'find'"),
        (HEAD + EDIT.replace("delete", "remove"), "`do` is one of"),
        (HEAD + EDIT.replace('find = "a"\n', ""), "takes a `find`"),
        (HEAD + EDIT.replace('"a"', '"a b c"'), "is no pattern"),
        (HEAD + EDIT.replace('"a"', '"a; b"'), "is no pattern"),
        (HEAD + EDIT + 'count = "2"\n', "`count`"),
        (HEAD + EDIT + "count = 0\n", "at least 1"),
        (HEAD + EDIT + "count = [2, 1]\n", "`count`"),
        (HEAD + EDIT + 'text = "x"\n', "neither `code` nor `text`"),
        (HEAD + EDIT.replace("delete", "replace"), "`code` or `text`"),
        (
            HEAD + EDIT.replace("delete", "replace") + 'code = "nwe"\n',
            "0 definitions of 'nwe'. Did you mean 'new'",
        ),
        (HEAD + EDIT.replace("delete", "replace") + 'code = "other.py:new"\n', "no file 'other.py'"),
        (HEAD + EDIT.replace("delete", "replace") + 'code = "empty"\n', "no statement"),
        (HEAD + EDIT.replace("delete", "replace") + 'code = "short"\n', "on the line of its header"),
        (HEAD + EDIT + 'key = "x"\n', "takes a `find`, or a `key`"),
        (HEAD + EDIT + 'inside = "a b"\n', "dotted name"),
        (HEAD + EDIT.replace("f.py", "f.cfg"), "can only be created"),
        (HEAD + EDIT.replace("delete", "create"), "`create` takes `code`"),
        (HEAD + 'needs = ["gone"]\n' + EDIT, "needs 'gone'"),
        (HEAD + 'needs = ["p"]\n' + EDIT, "needs 'p'"),
    ],
)
def test_what_is_wrong_in_a_patch_is_named(tmp_path, toml, says):
    code = 'def new():\n    x()\n\n\ndef empty():\n    """Doc."""\n\n\ndef short(): x()\n'
    with pytest.raises(SeriesError, match=says):
        read_one(tmp_path, toml, **{"code.py": code})


@pytest.mark.parametrize(
    "path",
    ["/etc/f.py", "../f.py", "a/../../f.py", "a//f.py", "./f.py", "C:/f.py", "c:f.py", "a\\f.py",
     ".git/hooks/f.py", "a/.GIT/f.py", ".git./f.py", "GIT~1/f.py", ".tdmpc2-lean/f.py", "", "a/", "a\nb.py"],
)  # fmt: skip
def test_a_path_that_could_leave_the_checkout_is_refused_on_reading(tmp_path, path):
    quoted = path.replace("\\", "\\\\").replace("\n", "\\n")
    with pytest.raises(SeriesError, match="edit 1"):
        read_one(tmp_path, HEAD + EDIT.replace("f.py", quoted))


def test_code_cannot_come_from_outside_the_patch(tmp_path):
    create = HEAD + '[[edit]]\nfile = "f.py"\ndo = "create"\ncode = "{}"\n'
    with pytest.raises(SeriesError, match="could leave"):
        read_one(tmp_path, create.format("../secret.py"))
    series = write_series(tmp_path / "s", {"p": {"patch.toml": create.format("link.py"), "link.py": ""}})
    secret = tmp_path / "secret.py"
    secret.write_text("x = 1\n")
    (series.folder / "p" / "link.py").unlink()
    (series.folder / "p" / "link.py").symlink_to(secret)
    with pytest.raises(SeriesError, match="link out of"):
        read_series(folder=series.folder)


def test_a_folder_that_is_no_series_and_a_patch_without_its_folder_are_named(tmp_path):
    with pytest.raises(SeriesError, match="no file named `series`"):
        read_series(folder=tmp_path / "nowhere")
    (tmp_path / "series").write_text("gone\n")
    with pytest.raises(SeriesError, match="'gone' has no"):
        read_series(folder=tmp_path)
    for name in ("../up", "a/b", ".hidden"):
        (tmp_path / "series").write_text(f"{name}\n")
        with pytest.raises(SeriesError, match="no name for a patch"):
            read_series(folder=tmp_path)
    write_series(tmp_path / "s", {"p": {"patch.toml": HEAD + EDIT}})
    (tmp_path / "s" / "series").write_text("p\np\n")
    with pytest.raises(SeriesError, match="twice"):
        read_series(folder=tmp_path / "s")
