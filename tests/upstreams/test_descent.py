"""Which official commit code comes from, and where in a folder it lies; on a made repository that stands for one."""

import json
import shutil

import pytest

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.patched import materialise
from tdmpc2_lean.patching import audit, check
from tdmpc2_lean.upstreams import describe, find_checkout
from tdmpc2_lean.upstreams.layout import checkout_with, layout_of
from tdmpc2_lean.validation.gates.subjects import find_subject


@pytest.fixture
def copy(clone, git, tmp_path):
    """copy(commit, to): the files of a commit in a folder, without git."""

    def copy(commit, to="copy"):
        git(clone, "checkout", "--quiet", commit)
        return shutil.copytree(clone, tmp_path / to, symlinks=True, ignore=lambda *_: [".git"])

    return copy


def committed(git, root):
    git(root, "init", "--quiet", "--initial-branch=main")
    (root / ".git/info/attributes").write_text("* -text\n")
    git(root, "add", "--all", "--force")
    git(root, "commit", "--quiet", "--message=mine")
    return root


def test_three_commits_of_ones_own_are_judged_and_audited_against_the_merge_base(history, clone, git):
    older, pin = history
    git(clone, "checkout", "--quiet", "-b", "mine", older)
    for number in range(3):
        (clone / "tdmpc2/train.py").write_text(f"from common import layers\ndef mine(): return {number}\n")
        git(clone, "commit", "--quiet", "--all", f"--message={number}")
    subject = find_subject(str(clone))
    assert subject.reference.commit == older and "newest official ancestor" in subject.why
    found = audit(clone)
    assert older[:12] in found.base and found.about("mine") == [("tdmpc2/train.py", "mine", "added")]
    record = json.loads(json.dumps(materialise(describe(clone), []).provenance()))
    assert record["descends_from"]["commit"] == older and record["descends_from"]["how"] == "history"
    assert not record["verified"]
    assert find_subject(str(clone), against=pin).reference.commit == pin


@pytest.mark.parametrize("older_or_pin", [0, 1])
def test_without_a_history_in_common_it_is_the_commit_to_which_the_files_come_nearest(history, copy, git, older_or_pin):
    commit = history[older_or_pin]
    root = committed(git, copy(commit))
    (root / "tdmpc2/train.py").write_text("from common import layers\nmine = 1\n")
    git(root, "commit", "--quiet", "--all", "--message=more")
    subject = find_subject(str(root))
    assert subject.reference.commit == commit and "of their lines" in subject.why
    found = audit(root)
    assert commit[:12] in found.base and [file.path for file in found.files] == ["tdmpc2/train.py"]
    assert find_subject(str(root), against=history[0]).reference.commit == history[0]


def test_a_shallow_clone_says_that_it_is_shallow(history, clone, git, tmp_path):
    git(clone, "checkout", "--quiet", "-b", "mine", history[0])
    (clone / "tdmpc2/train.py").write_text("from common import layers\nmine = 1\n")
    git(clone, "commit", "--quiet", "--all", "--message=mine")
    git(tmp_path, "clone", "--quiet", "--depth=1", "--branch=mine", f"file://{clone}", "shallow")
    descent = describe(tmp_path / "shallow").descent
    assert (descent.commit, descent.how) == (history[0], "files") and "shallow" in descent.why


def test_other_line_ends_and_indentation_are_no_distance(history, copy):
    root = copy(history[1])
    for path in root.rglob("*.py"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    found = find_checkout(where=root, allow_local_changes=True)
    assert found.commit == history[1] and found.descent.near == 1 and not found.verified


def test_code_in_another_repository_is_compared_by_its_code_alone(history, copy, git, tmp_path):
    root = copy(history[0], "outer/third_party")
    for path in ("README.md", "link", "data/run.sh", ".gitattributes", ".gitignore"):
        (root / path).unlink()
    (tmp_path / "outer/notes.py").write_text("x = 1\n")
    committed(git, tmp_path / "outer")
    assert find_checkout(where=root).verified
    (root / "tdmpc2/train.py").write_text("mine = 1\n")
    for named in (root, root / "tdmpc2"):
        assert [file.path for file in audit(named).files] == ["tdmpc2/train.py"]
    assert [file.path for file in audit(root, "HEAD").files] == ["tdmpc2/train.py"]


def test_a_code_folder_of_another_name_is_the_code_folder(history, copy):
    root = copy(history[0])
    (root / "tdmpc2").rename(root / "agent")
    found = find_checkout(where=root)
    assert found.code_dir == root / "agent" and found.commit == history[0] and checkout_with(root / "agent") == root
    assert find_checkout(where=root / "agent").root == root
    assert materialise(found, []).code_dir.name == "agent" and found.provenance()["code_folder"] == "agent"


def test_a_folder_that_is_no_checkout_is_told_once_and_every_copy_in_it_is_named(history, copy, tmp_path):
    root = copy(history[0], "outer/one")
    shutil.copytree(root, tmp_path / "outer/two", symlinks=True)
    assert layout_of(tmp_path / "outer") is None
    for ask in (describe, check, audit):
        with pytest.raises(UserError, match="is no checkout of tdmpc2") as told:
            ask(tmp_path / "outer")
        assert str(tmp_path / "outer/one") in told.value.next_step
        assert str(tmp_path / "outer/two") in told.value.next_step and "anchor" not in str(told.value)
