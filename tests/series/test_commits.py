"""Each series on every commit it claims: it applies, comes off byte for byte, and exports."""

import subprocess

import pytest

from tdmpc2_lean import patching
from tdmpc2_lean.upstreams import UPSTREAMS, tree_id

pytestmark = pytest.mark.official


@pytest.fixture(params=list(UPSTREAMS))
def upstream(request):
    return request.param


@pytest.fixture
def commits(upstream, tried_commits):
    """{commit: checkout} of every commit in the README's table."""
    found = tried_commits(upstream)
    missing = set(UPSTREAMS[upstream].trees) - set(found)
    assert not missing, f"tdmpc2-lean upstream fetch --upstream {upstream}: {missing} are not in the cache"
    return found


def test_the_series_applies_and_comes_off_byte_for_byte_on_every_commit(upstream, commits, clone):
    for commit, checkout in commits.items():
        folder = clone(checkout, commit[:7])
        before = tree_id(folder)
        assert before == checkout.tree
        assert patching.series_of(folder).names == patching.read_series(upstream).names
        assert patching.check(folder).ok
        patching.apply(folder)
        assert tree_id(folder) != before
        patching.revert(folder)
        assert tree_id(folder) == before


def test_exported_patches_give_by_git_am_the_tree_that_apply_gives(upstream, commits, clone, tmp_path):
    for commit, checkout in commits.items():
        folder = clone(checkout, commit[:7])
        files = patching.export(folder, tmp_path / f"{commit[:7]}-patches").files
        assert len(files) == len(patching.read_series(upstream).patches)
        subprocess.run(["git", "-C", folder, "am", "-q", *files], check=True, capture_output=True)
        by_am = tree_id(folder)
        subprocess.run(["git", "-C", folder, "reset", "-q", "--hard", f"HEAD~{len(files)}"], check=True)
        patching.apply(folder)
        assert tree_id(folder) == by_am


def test_patches_used_only_by_name_do_the_same_on_top_of_the_series_where_the_code_has_not_their_effect(
    upstream, commits, clone, tmp_path
):
    optional = [patch.name for patch in patching.read_series(upstream).optional]
    if not optional:
        pytest.skip("none in this series")
    there = {commit: [] for commit in commits}
    for commit, checkout in commits.items():
        folder = clone(checkout, commit[:7])
        before = tree_id(folder)
        done = patching.apply(folder, ["all", *optional])
        there[commit] = list(done.already)
        assert [name for name in optional if name not in done.applied] == there[commit]
        applied = tree_id(folder)
        mails = patching.export(folder, tmp_path / f"{commit[:7]}-patches")
        assert mails.chosen == "applied" and mails.patches == done.applied and mails.tree == applied
        patching.revert(folder)
        assert tree_id(folder) == before
        subprocess.run(["git", "-C", folder, "am", "-q", *mails.files], check=True, capture_output=True)
        assert tree_id(folder) == applied
    lacking = {issue.patch: issue.commits for issue in UPSTREAMS[upstream].issues}
    assert there == {commit: [name for name in optional if commit not in lacking[name]] for commit in commits}
