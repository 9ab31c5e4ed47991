"""Patching a folder that lies in another repository, or one that git is in the midst of changing."""

import pytest

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.patching import apply, check, export, revert
from tests.patching.conftest import FILES, commit_all, git, snapshot, write_files


@pytest.fixture
def nested(tmp_path):
    """A checkout in the folder third_party/agent of a repository."""
    root = tmp_path / "outer" / "third_party" / "agent"
    write_files(root, FILES)
    commit_all(tmp_path / "outer")
    return root


def test_our_record_ends_in_nobodys_commit_and_goes_with_the_last_patch(nested, series):
    outer = nested.parents[1]
    apply(nested, ["count"], series)
    git(outer, "add", "--all")
    assert (nested / ".tdmpc2-lean").is_dir() and ".tdmpc2-lean" not in git(outer, "status", "--porcelain")
    git(outer, "reset", "--quiet")
    revert(nested)
    assert not (nested / ".tdmpc2-lean").exists() and git(outer, "status", "--porcelain") == ""


def test_nothing_stays_after_a_refused_apply(nested, series):
    (nested / "code/loop.py").write_text("def loop(env):\n  return 0\n")
    commit_all(nested.parents[1])
    before = snapshot(nested)
    with pytest.raises(UserError, match="lost"):
        apply(nested, ["count"], series)
    assert snapshot(nested) == before and not (nested / ".tdmpc2-lean").exists()


def test_uncommitted_changes_count_in_a_folder_of_another_repository(nested, series):
    (nested / "code/loop.py").write_text(FILES["code/loop.py"] + "# mine\n")
    with pytest.raises(UserError, match=r"local changes:\n  code/loop.py"):
        apply(nested, ["place"], series)


def test_an_export_stands_on_the_commit_of_the_repository_around(nested, series, tmp_path):
    done = export(nested, tmp_path / "mails", ["count"], series)
    assert "third_party/agent/code/loop.py" in done.files[0].read_text()
    git(nested.parents[1], "-c", "user.name=x", "-c", "user.email=x@x.invalid", "am", "--quiet", str(done.files[0]))
    assert git(nested.parents[1], "rev-parse", "HEAD^{tree}").strip() == done.tree


def test_an_export_of_what_the_repository_around_does_not_have_says_to_commit_it_there(nested, series, tmp_path):
    other = write_files(nested.parent / "untracked", FILES)
    with pytest.raises(UserError, match="in none of its commits") as told:
        export(other, tmp_path / "mails", ["count"], series)
    assert "init" not in told.value.next_step and not (tmp_path / "mails").exists()


@pytest.mark.parametrize("name", ["rebase-merge", "MERGE_HEAD"])
def test_nothing_is_written_while_git_is_in_the_midst_of_something(clone, series, name):
    (clone / ".git" / name).mkdir()
    before = snapshot(clone)
    with pytest.raises(UserError, match="in the midst of a (rebase|merge)") as told:
        apply(clone, series=series)
    assert "--abort" in told.value.next_step and snapshot(clone) == before


def test_the_marks_of_a_merge_are_named_with_their_line(plain, series):
    text = FILES["code/loop.py"]
    (plain / "code/loop.py").write_text(text + "<<<<<<< ours\nx = 1\n=======\nx = 2\n>>>>>>> theirs\n")
    before = snapshot(plain)
    for ask in (check, lambda root, series: apply(root, ["count"], series)):
        with pytest.raises(UserError, match=f"code/loop.py, line {text.count(chr(10)) + 1}"):
            ask(plain, series)
    assert snapshot(plain) == before
