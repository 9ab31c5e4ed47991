"""Each series on every commit it claims: it applies, comes off byte for byte, and exports."""

import subprocess

import pytest

from tdmpc2_lean import patching
from tdmpc2_lean.upstreams import UPSTREAMS, tree_id

pytestmark = pytest.mark.official


TRIED = [(name, commit) for name, upstream in UPSTREAMS.items() for commit in upstream.trees]


@pytest.fixture(params=TRIED, ids=[f"{name}-{commit[:7]}" for name, commit in TRIED])
def tried(request, tried_commits):
    """(upstream, commit, its checkout) of every commit in the README's table."""
    upstream, commit = request.param
    if commit not in (found := tried_commits(upstream)):
        pytest.fail(f"{commit[:7]} is not in the cache: tdmpc2-lean upstream fetch --upstream {upstream}")
    return upstream, commit, found[commit]


def test_the_series_applies_and_comes_off_byte_for_byte_on_every_commit(tried, clone):
    upstream, _, checkout = tried
    folder = clone(checkout)
    before = tree_id(folder)
    assert before == checkout.tree
    assert patching.series_of(folder).names == patching.read_series(upstream).names
    assert patching.check(folder).ok
    patching.apply(folder)
    assert tree_id(folder) != before
    patching.revert(folder)
    assert tree_id(folder) == before


def test_exported_patches_give_by_git_am_the_tree_that_apply_gives(tried, clone, tmp_path):
    upstream, _, checkout = tried
    folder = clone(checkout)
    files = patching.export(folder, tmp_path / "patches").files
    assert len(files) == len(patching.read_series(upstream).patches)
    subprocess.run(["git", "-C", folder, "am", "-q", *files], check=True, capture_output=True)
    by_am = tree_id(folder)
    subprocess.run(["git", "-C", folder, "reset", "-q", "--hard", f"HEAD~{len(files)}"], check=True)
    patching.apply(folder)
    assert tree_id(folder) == by_am


def test_patches_used_only_by_name_do_the_same_on_top_of_the_series_where_the_code_has_not_their_effect(
    tried, clone, tmp_path
):
    upstream, commit, checkout = tried
    optional = [patch.name for patch in patching.read_series(upstream).optional]
    if not optional:
        pytest.skip("none in this series")
    lacking = {issue.patch: issue.commits for issue in UPSTREAMS[upstream].issues}
    folder = clone(checkout)
    before = tree_id(folder)
    done = patching.apply(folder, ["all", *optional])
    assert list(done.already) == [name for name in optional if commit not in lacking[name]]
    assert [name for name in optional if name not in done.applied] == list(done.already)
    applied = tree_id(folder)
    mails = patching.export(folder, tmp_path / "patches")
    assert mails.chosen == "applied" and mails.patches == done.applied and mails.tree == applied
    patching.revert(folder)
    assert tree_id(folder) == before
    subprocess.run(["git", "-C", folder, "am", "-q", *mails.files], check=True, capture_output=True)
    assert tree_id(folder) == applied
