"""What a folder without git is: known by its tree, near to a commit, or no checkout, decided without reading it.

The official code is stood for by a made repository with a history: the pin is its newest official commit.
"""

import json
import os
import shutil
import sys

import pytest

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.patched import materialise
from tdmpc2_lean.upstreams import add, describe, find_checkout, origin, tree_id, verify
from tdmpc2_lean.validation.gates.subjects import find_subject, reference_of

MANY = 20_000


@pytest.fixture
def archive(clone, git, tmp_path):
    """A function that unpacks a commit as an archive without git."""

    def archive(commit):
        git(clone, "checkout", "--quiet", commit)
        return shutil.copytree(clone, tmp_path / f"a-{commit[:7]}", symlinks=True, ignore=lambda *_: [".git"])

    return archive


@pytest.fixture
def opened():
    """opened(folder, call): the files below a folder that the call opens, but for our own note that may lie there."""
    seen = None

    def hook(event, arguments):
        if event == "open" and seen is not None and isinstance(arguments[0], str | bytes):
            seen.append(os.fsdecode(arguments[0]))

    def opened(folder, call):
        nonlocal seen
        seen = []
        try:
            call()
        finally:
            found, seen = seen, None
        return [path for path in found if path.startswith(f"{folder}/") and origin.FOLDER not in path]

    sys.addaudithook(hook)  # there is no way to remove it: it stays, and hears nothing
    return opened


def test_an_archive_of_another_official_commit_than_the_pin_is_that_commit(history, archive):
    older, pin = history
    found = find_checkout(where=archive(older))
    assert (found.commit, found.verified, found.nearest) == (older, True, False)
    assert found.provenance()["commit"] == older != pin and reference_of(found) == older


def test_an_archive_that_is_no_commits_is_told_with_the_nearest_and_compared_with_that_not_with_the_pin(
    history, archive
):
    older, pin = history
    folder = archive(older)
    (folder / "tdmpc2/train.py").write_text("changed\n")
    with pytest.raises(UserError, match=f"not an official commit's tree. The nearest is {older[:7]}.* 1 file") as told:
        find_checkout(where=folder)
    assert "tdmpc2/train.py" in told.value.message and older[:7] in told.value.next_step
    found = find_checkout(where=folder, allow_local_changes=True)
    assert (found.commit, found.local_changes) == (older, ("tdmpc2/train.py",))
    assert found.nearest and not found.verified and json.loads(json.dumps(found.provenance()))["nearest"] is True
    assert reference_of(found) == older
    assert find_subject(str(folder), allow_local_changes=True).reference.commit == older
    result = verify(folder)
    assert not result["verified"] and result["reason"] == f"not an official commit's tree; the nearest is {older[:7]}"


def test_a_missing_and_an_added_file_that_would_be_loaded_are_differences_and_the_users_own_files_are_not(
    history, archive
):
    folder = archive(history[0])
    (folder / "tdmpc2/logs").mkdir()
    (folder / "tdmpc2/logs/eval.csv").write_text("step\n")
    (folder / "notes.txt").write_text("mine\n")
    assert find_checkout(where=folder).verified
    (folder / "README.md").unlink()
    (folder / "tdmpc2/common/math.py").write_text("")
    found = find_checkout(where=folder, allow_local_changes=True)
    assert found.local_changes == ("README.md", "tdmpc2/common/math.py") and found.commit == history[0]


def test_a_copy_of_an_archive_has_the_commits_files_and_none_of_the_users_own(history, archive, own_cache):
    folder = archive(history[0])
    (folder / "tdmpc2/runs").mkdir()
    (folder / "tdmpc2/runs/model.pt").write_text("large\n")
    made = materialise(find_checkout(where=folder), [])
    assert not (made.root / "tdmpc2/runs").exists() and made.tree == made.checkout.tree == tree_id(made.root)


def test_a_folder_that_is_far_from_every_commit_is_compared_with_none(history, archive):
    folder = archive(history[0])
    for path in folder.rglob("*.py"):
        path.write_text(f"# {path.name}\n")
    found = find_checkout(where=folder, allow_local_changes=True)
    assert found.commit is None and "tdmpc2/train.py" in found.local_changes and not found.verified
    with pytest.raises(UserError, match="nothing to compare it with"):
        reference_of(found)
    with pytest.raises(UserError, match="nothing vouches for its") as told:
        find_checkout(where=folder)
    assert "upstream fetch" in told.value.next_step


def test_a_patched_copy_of_the_miniature_is_compared_with_the_miniature(miniature):
    assert reference_of(miniature) == "miniature"


# ------------------------------------------------------------------------------------------ no checkout at all


def fill(folder, number):
    for start in range(0, number, 500):
        (folder / f"part-{start}").mkdir(parents=True)
        for index in range(start, start + 500):
            (folder / f"part-{start}" / f"{index}.py").touch()


def test_a_large_folder_that_is_no_checkout_is_refused_without_reading_a_file_and_says_where_it_looked(
    tmp_path, own_cache, opened
):
    folder = tmp_path / "large folder"
    fill(folder, MANY)

    def ask_all():
        for ask in (describe, lambda folder: find_checkout(where=folder), verify):
            with pytest.raises(UserError) as told:
                ask(folder)
            assert f"{folder} is no checkout of tdmpc2" in told.value.message
            assert "tdmpc2/common, tdmpc2/envs, tdmpc2/trainer, tdmpc2/tdmpc2" in told.value.message
        with pytest.raises(UserError, match="dreamerv3: dreamerv3, embodied"):
            find_checkout("dreamerv3", folder)

    assert opened(folder, ask_all) == []


def test_of_a_checkout_with_many_files_of_the_users_own_only_the_upstreams_are_read(history, archive, opened):
    folder = archive(history[0])
    fill(folder / "logs", MANY)

    def find():
        found = find_checkout(where=folder)
        assert found.commit == history[0] and found.verified

    read = opened(folder, find)
    assert 0 < len(read) < 30 and not [path for path in read if "/logs/" in path]


def test_the_checkout_inside_a_folder_is_hinted_at_as_a_shell_takes_it(clone, tmp_path):
    inside = shutil.copytree(clone, tmp_path / "outer" / "my checkout", symlinks=True)
    with pytest.raises(UserError) as told:
        find_checkout(where=tmp_path / "outer")
    assert f"'{inside}'" in told.value.next_step


def test_hints_name_a_git_directory_with_spaces_as_a_shell_takes_it(clone, tmp_path, git):
    bare = tmp_path / "my repositories" / "bare.git"
    git(clone, "clone", "--quiet", "--bare", "--branch", "main", "--single-branch", str(clone), str(bare))
    with pytest.raises(UserError) as told:
        describe(bare)
    assert f"add '{bare}'" in told.value.next_step
    other = tmp_path / "my repositories" / "other"
    other.mkdir()
    git(other, "init", "--quiet", "--bare")
    with pytest.raises(UserError) as told:
        find_checkout(where=other)
    assert f"add '{other}'" in told.value.next_step
    with pytest.raises(UserError) as told:
        find_checkout(where="my branch", may_clone=False)
    assert "fetch 'my branch'" in told.value.next_step


# ------------------------------------------------------------------------------------------- notes of origin


def damage(**fields):
    return lambda note: {**note, **fields}


DAMAGES = {
    "no JSON": lambda note: "{",
    "not UTF-8": lambda note: b"\xff\xfe",
    "nested too deep": lambda note: "[" * 100_000,
    "a list": lambda note: [],
    "nothing said": lambda note: {},
    "another upstream": damage(upstream="tdmpc3"),
    "an upstream that is no text": damage(upstream=["tdmpc2"]),
    "a commit that is no hash": damage(commit="main"),
    "a tree that is no hash": damage(tree=7),
    "files that are none": damage(files=[1]),
    "a file's hash that is none": lambda note: {**note, "files": {**note["files"], "x.py": ["100644", "xyz"]}},
    "a file's mode that is none": lambda note: {**note, "files": {**note["files"], "x.py": ["7", "0" * 40]}},
    "patches that are none": damage(patches=["device"]),
    "patches by number": damage(patches=[[1, 2]]),
    "a release that is none": damage(release="9.9"),
    "another tree under the commit": damage(tree="0" * 40),
    "files that are not its tree's": lambda note: {**note, "files": {}},
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_note_of_origin_is_named_with_what_to_do_and_an_export_made_anew(clone, tmp_path, name, capsys):
    add(clone)
    found = find_checkout(may_clone=False)
    copy = shutil.copytree(found.root, tmp_path / "my copy", symlinks=True)
    for root in (copy, found.root):
        path = origin.path_in(root)
        note = DAMAGES[name](json.loads(path.read_text()))
        note = note if isinstance(note, str | bytes) else json.dumps(note)
        path.write_bytes(note.encode() if isinstance(note, str) else note)
    with pytest.raises(UserError, match="origin.json.* is damaged") as told:
        find_checkout(where=copy)
    assert f"'{copy / '.tdmpc2-lean'}'" in told.value.next_step
    assert find_checkout(may_clone=False) == found and "exported anew" in capsys.readouterr().err
    shutil.rmtree(copy / ".tdmpc2-lean")
    assert find_checkout(where=copy).commit == found.commit
