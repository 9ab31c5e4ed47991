"""Patched copies in the cache: made once, whole, checked at every use; the checkout is never touched."""

import json
import shutil

import pytest

from tdmpc2_lean import patching
from tdmpc2_lean.patched import materialise
from tdmpc2_lean.upstreams import describe, find_checkout, tree_id


@pytest.fixture
def series(tmp_path):
    """Two patches of a test's own: one appends a function to common/seed.py, one needs it and adds a file."""
    folder = tmp_path / "series"
    for name, needs, edit, code in (
        (
            "first",
            "[]",
            'file = "tdmpc2/common/seed.py"\ndo = "append"\ncode = "first"',
            "def first():\n    return 1\n",
        ),
        (
            "second",
            '["first"]',
            'file = "tdmpc2/common/second.py"\ndo = "create"\ncode = "code.py"',
            "second = 2\n",
        ),
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / "patch.toml").write_text(
            f'title = "Add {name}"\nwhy = """For a test."""\nneeds = {needs}\n\n[[edit]]\n{edit}\n'
        )
        (folder / name / "code.py").write_text(code)
    (folder / "series").write_text("first\nsecond\n")
    return patching.read_series("tdmpc2", folder)


def names_of(found):
    """The patches applied in a checkout."""
    return [patch["name"] for patch in found.provenance()["patches"]]


def test_a_patched_copy_has_the_patches_and_those_they_need(any_checkout, own_cache, series):
    before = tree_id(any_checkout.root)
    made = materialise(any_checkout, ["second"], series)
    assert [name for name, _ in made.patches] == ["first", "second"]
    assert (made.code_dir / "common/second.py").read_text() == "second = 2\n"
    assert "def first" in (made.code_dir / "common/seed.py").read_text()
    assert made.tree == tree_id(made.root) != before == tree_id(any_checkout.root)
    assert own_cache in made.root.parents


def test_no_patches_give_the_official_tree_and_other_patches_another_folder(any_checkout, own_cache, series):
    none, one, both = (materialise(any_checkout, names, series) for names in ([], ["first"], None))
    assert none.tree == tree_id(any_checkout.root)
    assert len({none.root, one.root, both.root}) == 3


def test_an_intact_copy_is_used_again_and_a_changed_one_made_anew(any_checkout, own_cache, series, capsys):
    made = materialise(any_checkout, None, series)
    written = (made.code_dir / "train.py").stat().st_ino
    assert materialise(any_checkout, None, series) == made
    assert (made.code_dir / "train.py").stat().st_ino == written
    (made.code_dir / "train.py").write_text("changed\n")
    assert materialise(any_checkout, None, series) == made
    assert tree_id(made.root) == made.tree
    assert "made anew" in capsys.readouterr().err


def test_provenance_names_commit_tree_patches_and_hashes_and_is_json(any_checkout, own_cache, series):
    facts = json.loads(json.dumps(materialise(any_checkout, None, series).provenance()))
    assert (facts["commit"], facts["tree"]) == (any_checkout.commit, any_checkout.tree)
    assert facts["patches"] == [{"name": patch.name, "sha256": patch.sha256} for patch in series.patches]
    assert facts["local_changes"] == []


def test_a_patched_copy_describes_itself(any_checkout, own_cache, series):
    made = materialise(any_checkout, None, series)
    found = describe(made.root)
    assert (found.upstream, found.commit) == (any_checkout.upstream, any_checkout.commit)
    assert found.patches == made.patches
    assert found.local_changes == ()
    (made.code_dir / "train.py").write_text("changed\n")
    assert describe(made.root).local_changes == ("tdmpc2/train.py",)


def test_a_checkout_with_our_patches_applied_has_no_local_changes_and_is_copied_as_it_was(clone, git, series):
    (clone / "tdmpc2/common/seed.py").write_text("seed = 1\n")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message=seed")
    patching.apply(clone, series=series)
    found = find_checkout(where=clone)
    assert found.local_changes == () and names_of(found) == ["first", "second"]
    assert materialise(found, [], series).tree == found.tree
    (clone / "tdmpc2/train.py").write_text("changed\n")
    found = find_checkout(where=clone, allow_local_changes=True)
    assert found.local_changes == ("tdmpc2/train.py",)
    made = materialise(found, ["first"], series)
    assert (made.code_dir / "train.py").read_text() == "changed\n"
    assert (made.code_dir / "common/seed.py").read_text().count("def first") == 1
    assert not (made.code_dir / "common/second.py").exists()
    assert made.provenance()["local_changes"] == ["tdmpc2/train.py"]


def test_an_archive_with_our_patches_applied_is_still_known_by_its_tree(
    official, own_cache, series, tmp_path
):
    archive = tmp_path / "archive"
    shutil.copytree(official.root, archive, symlinks=True, ignore=shutil.ignore_patterns(".tdmpc2-lean"))
    patching.apply(archive, series=series)
    found = find_checkout(where=archive)
    assert (found.commit, found.tree) == (official.commit, official.tree)
    assert names_of(found) == ["first", "second"]
    assert found.verified
    assert materialise(found, [], series).tree == official.tree


def test_patches_applied_to_and_taken_off_an_export_leave_it_an_export(official, own_cache, series, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(official.root, copy, symlinks=True)
    patching.apply(copy, series=series)
    assert names_of(describe(copy)) == ["first", "second"] and describe(copy).local_changes == ()
    patching.revert(copy, series=series)
    assert describe(copy).commit == official.commit and describe(copy).patches == ()


def test_a_patch_that_does_not_fit_leaves_nothing_behind(any_checkout, own_cache, series, tmp_path):
    toml = series.patches[0].folder / "patch.toml"
    toml.write_text(toml.read_text().replace("seed.py", "nowhere.py"))
    with pytest.raises(patching.LostAnchors):
        materialise(any_checkout, None, patching.read_series("tdmpc2", tmp_path / "series"))
    assert not list(own_cache.glob("patched/*"))
