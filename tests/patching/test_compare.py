"""diff, show and audit: what differs from the upstream commit, function by function."""

import subprocess

import pytest

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.patching import apply, audit, compare, diff, show
from tdmpc2_lean.patching.compare import audit_file, functions, unified
from tests.patching.conftest import FILES, commit_all, git, snapshot, write_files


def git_apply(root, text):
    """The files after git has applied this diff to a copy of the small checkout."""
    write_files(root, FILES)
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    done = subprocess.run(["git", "-C", str(root), "apply", "-"], input=text.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr
    return {name: data for name, (data, _) in snapshot(root).items()}


def test_diff_is_from_the_upstream_commit_to_the_files_and_git_can_apply_it(checkout, series, tmp_path):
    assert diff(checkout, "HEAD") == "" if (checkout / ".git").exists() else True
    apply(checkout, series=series)
    got = git_apply(tmp_path / "copy", diff(checkout))
    assert got == {name: data for name, (data, _) in snapshot(checkout).items()}


def test_diff_of_a_git_checkout_has_the_users_changes_and_commits_too(clone, series):
    apply(clone, ["count"], series)
    git(clone, "commit", "--quiet", "--all", "--message", "mine")
    write_files(clone, {"code/new.py": "x = 1\n"})
    (clone / "README.md").unlink()
    against = git(clone, "rev-parse", "HEAD~1").strip()
    assert set(compare(clone, against).changed) == {"code/loop.py", "code/new.py", "README.md"}
    assert set(compare(clone).changed) == {"code/new.py", "README.md"}
    with pytest.raises(UserError, match="no commit 'gone'"):
        diff(clone, "gone")


def test_comparing_leaves_the_git_checkout_alone(clone, series):
    apply(clone, series=series)
    before = snapshot(clone), git(clone, "status", "--porcelain"), git(clone, "count-objects")
    audit(clone)
    assert (snapshot(clone), git(clone, "status", "--porcelain"), git(clone, "count-objects")) == before


def test_an_ignored_created_file_is_seen(tmp_path, series):
    clone = commit_all(write_files(tmp_path / "clone", FILES | {".gitignore": "new/\n"}))
    apply(clone, series=series)
    assert "code/new/many.py" in compare(clone).changed


def test_show_is_one_patch_on_top_of_what_it_needs(checkout, series, tmp_path):
    text = show("many", checkout, series)
    assert "act_many" in text and "place" not in text.replace("code/", "")
    assert text == show("many", apply(checkout, series=series).root, series)
    with pytest.raises(UserError, match="Did you mean"):
        show("mny", checkout, series)


def test_a_unified_diff_tells_a_missing_final_newline_and_carriage_returns(tmp_path):
    changes = {"a.py": (b"x = 1\r\ny = 2", b"x = 1\r\ny = 3"), "b.py": (None, b"z"), "c.py": (b"z\n", None)}
    text = unified(changes)
    assert "-y = 2\n\\ No newline at end of file\n+y = 3\n\\ No newline at end of file\n" in text
    assert " x = 1\r\n" in text
    root = tmp_path / "copy"
    write_files(root, {"a.py": changes["a.py"][0], "c.py": b"z\n"})
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    done = subprocess.run(["git", "-C", str(root), "apply", "-"], input=text.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr
    assert {name: data for name, (data, _) in snapshot(root).items()} == {
        "a.py": b"x = 1\r\ny = 3",
        "b.py": b"z",
    }


def test_audit_tells_function_by_function(checkout, series):
    apply(checkout, series=series)
    found = {file.path: file for file in audit(checkout).files}
    agent = found["code/agent.py"]
    assert agent.changed == ("Agent.__init__",)
    assert agent.added == ("Agent.act_many",)
    assert agent.untouched == ("<module>", "Agent", "Agent.act", "Agent.plan")
    assert not agent.removed
    assert found["code/loop.py"].changed == ("loop",)
    assert found["code/new/many.py"].kind == "added" and found["code/new/many.py"].added == (
        "<module>",
        "many",
    )
    assert (found["code/config.yaml"].lines_added, found["code/config.yaml"].lines_removed) == (2, 0)
    assert "code/empty.py" in audit(checkout).untouched_files


def test_audit_answers_about_one_function_in_changed_and_unchanged_files(checkout, series):
    apply(checkout, ["place"], series)
    found = audit(checkout)
    assert found.about("act") == [("code/agent.py", "Agent.act", "untouched")]
    assert found.about("Agent.__init__") == [("code/agent.py", "Agent.__init__", "changed by our patches")]
    assert found.about("loop") == [("code/loop.py", "loop", "untouched")]
    assert found.about("ct") == []


BASE = b"""import a
X = 1
@deco
def f(x):
    # why
    return x
class A(B):
    y = 1
    def g(self):
        def inner():
            return 1
        return inner
    @property
    def h(self): return 1
    @h.setter
    def h(self, v): pass
"""


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        (b"return x", b"return x + 1", "f"),
        (b"@deco", b"@other", "f"),
        (b"f(x)", b"f(x, y=1)", "f"),
        (b"return 1\n        return inner", b"return 2\n        return inner", "A.g"),
        (b"v): pass", b"v): go()", "A.h"),
        (b"y = 1", b"y = 2", "A"),
        (b"A(B)", b"A(C)", "A"),
        (b"X = 1", b"X = 2", "<module>"),
        (b"import a", b"import b", "<module>"),
    ],
)
def test_any_change_is_told_for_the_function_that_holds_it_and_no_other(old, new, changed):
    assert BASE.count(old) == 1
    found = audit_file("f.py", BASE, BASE.replace(old, new))
    assert found.changed == (changed,) and not found.added and not found.removed
    assert set(found.untouched) == {"<module>", "f", "A", "A.g", "A.h"} - {changed}


def test_moving_code_and_changing_line_ends_touches_no_function():
    assert audit_file("f.py", BASE, b"\n# new\n" + BASE).changed == ()
    assert audit_file("f.py", BASE, BASE.replace(b"\n", b"\r\n")).changed == ()


def test_what_does_the_same_is_untouched_however_it_is_written():
    """A comment, spaces, another name of a local variable, another place in the file: no function is touched."""
    for was, now in ((b"# why", b"# for no reason"), (b"y = 1", b"y=1"), (b"return x", b"return (x)")):
        found = audit_file("f.py", BASE, BASE.replace(was, now))
        assert found.changed == () and found.kind == "changed"
    one, two = b"def f():\n    a = 1\n    return a\n", b"def g(x): return x\n"
    found = audit_file("f.py", one + two, two + one.replace(b"a", b"b"))
    assert found.changed == () and set(found.untouched) == {"<module>", "f", "g"}


def test_a_removed_function_and_a_file_that_is_no_python_are_told():
    assert audit_file("f.py", b"def f(): pass\ndef g(): pass\n", b"def g(): pass\n").removed == ("f",)
    assert audit_file("f.py", b"x = 1\n", b"x =\n").kind == "other"
    assert audit_file("f.py", b"x = 1\n", None).removed == ("<module>",)


def test_functions_below_if_and_try_are_found():
    assert set(functions(b"if x:\n    def f(): pass\ntry:\n    pass\nexcept E:\n    def g(): pass\n")) == {
        "<module>",
        "f",
        "g",
    }
