"""Which checkout is found, in which order, and what is refused."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.upstreams import UPSTREAMS, add, describe, fetch, find_checkout, listing, tree_id, verify
from tdmpc2_lean.upstreams import git as git_module

VARIABLE = UPSTREAMS["tdmpc2"].environment_variable


def pin():
    return UPSTREAMS["tdmpc2"].pin


def test_what_is_named_comes_before_the_environment_before_the_cache(clone, tmp_path, monkeypatch):
    add(clone)
    assert find_checkout(may_clone=False).source == "cache"
    other = tmp_path / "other"
    shutil.copytree(clone, other, symlinks=True)
    monkeypatch.setenv(VARIABLE, str(other))
    found = find_checkout(may_clone=False)
    assert (found.source, found.root) == ("environment", other)
    found = find_checkout(where=clone, may_clone=False)
    assert (found.source, found.root) == ("argument", clone)


def test_an_export_is_the_commits_files_byte_for_byte_whatever_the_attributes_say(clone):
    add(clone)
    found = find_checkout(may_clone=False)
    assert tree_id(found.root) == found.tree == UPSTREAMS["tdmpc2"].pin_tree
    assert (found.root / "tdmpc2/config.yaml").read_bytes() == b"seed: 1\r\n"
    assert os.access(found.root / "data/run.sh", os.X_OK)
    assert os.readlink(found.root / "link") == "README.md"


def test_a_damaged_export_is_written_anew_and_said_so(clone, capsys):
    add(clone)
    root = find_checkout(may_clone=False).root
    (root / "tdmpc2/train.py").write_text("damaged\n")
    (root / "tdmpc2/added.py").write_text("")
    assert find_checkout(may_clone=False).root == root
    assert tree_id(root) == UPSTREAMS["tdmpc2"].pin_tree
    assert "exported anew" in capsys.readouterr().err


@pytest.mark.parametrize("ref", ["topic", "v1", "origin/main"])
def test_a_branch_or_tag_of_the_cached_repository_can_be_named(clone, ref, git):
    git(clone, "update-ref", "refs/remotes/origin/main", "topic")
    add(clone)
    found = find_checkout(where=ref, may_clone=False)
    assert found.commit == git(clone, "rev-parse", ref)
    assert tree_id(found.root) == found.tree == git(clone, "rev-parse", f"{ref}^{{tree}}")


def test_a_short_hash_can_be_named_and_a_commit_of_a_fork_is_not_called_official(clone, git):
    add(clone)
    ours = git(clone, "rev-parse", "topic")
    assert find_checkout(where=pin()[:9], may_clone=False).verified
    found = find_checkout(where=ours[:9], may_clone=False)
    assert found.commit == ours and not found.verified
    assert find_checkout(where="topic", may_clone=False).provenance()["verified"] is False


def test_a_commit_in_the_environments_clone_can_be_named_without_adding_it(clone, monkeypatch, git):
    monkeypatch.setenv(VARIABLE, str(clone))
    wanted = git(clone, "rev-parse", "topic")
    assert find_checkout(where=wanted, may_clone=False).commit == wanted


def test_a_bare_repository_gives_the_pin_even_if_its_head_is_elsewhere(clone, tmp_path, git):
    git(clone, "checkout", "--quiet", "topic")
    bare = tmp_path / "bare.git"
    git(clone, "clone", "--quiet", "--bare", str(clone), str(bare))
    found = find_checkout(where=bare, may_clone=False)
    assert found.commit == pin() and tree_id(found.root) == found.tree


def test_the_code_folder_stands_for_its_checkout(clone):
    assert find_checkout(where=clone / "tdmpc2").root == clone
    add(clone)
    export = find_checkout(may_clone=False)
    assert find_checkout(where=export.code_dir).root == export.root


# ----------------------------------------------------------------------------------------- local changes


def change_tracked(root, git):
    (root / "tdmpc2/train.py").write_text("changed\n")
    return "tdmpc2/train.py"


def delete_tracked(root, git):
    (root / "tdmpc2/envs/__init__.py").unlink()
    return "tdmpc2/envs/__init__.py"


def stage_and_restore(root, git):
    (root / "tdmpc2/train.py").write_text("staged\n")
    git(root, "add", "tdmpc2/train.py")
    (root / "tdmpc2/train.py").write_bytes(b"from common import layers\n")
    return "tdmpc2/train.py"


def add_importable(root, git):
    (root / "tdmpc2/common/math.py").write_text("")
    return "tdmpc2/common/math.py"


def add_ignored_importable(root, git):
    (root / "tdmpc2/common/secret.py").write_text("")
    return "tdmpc2/common/secret.py"


def hide_from_git_status(root, git):
    git(root, "update-index", "--assume-unchanged", "tdmpc2/train.py")
    return change_tracked(root, git)


def make_executable(root, git):
    (root / "tdmpc2/train.py").chmod(0o755)
    return "tdmpc2/train.py"


CHANGES = [
    change_tracked, delete_tracked, stage_and_restore, add_importable, add_ignored_importable,
    hide_from_git_status, make_executable,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_local_change_is_refused_with_its_file_and_recorded_where_it_is_allowed(clone, change, git):
    path = change(clone, git)
    with pytest.raises(UserError, match=path) as refusal:
        find_checkout(where=clone)
    assert "--allow-local-changes" in refusal.value.next_step
    found = find_checkout(where=clone, allow_local_changes=True)
    assert found.local_changes == (path,)
    assert found.provenance()["local_changes"] == [path] and found.provenance()["verified"] is False
    assert "local changes" in found.label


def test_files_that_nothing_would_import_are_no_local_changes(clone):
    (clone / "tdmpc2/logs/run").mkdir(parents=True)
    (clone / "tdmpc2/logs/run/notes.py").write_text("")
    (clone / "tdmpc2/notes.txt").write_text("")
    (clone / "elsewhere.py").write_text("")
    (clone / "tdmpc2/common/__pycache__").mkdir()
    (clone / "tdmpc2/common/__pycache__/secret.py").write_text("")
    assert find_checkout(where=clone).local_changes == ()


def test_line_ends_that_git_converts_are_no_local_change(clone, tmp_path):
    (clone / ".git/info/attributes").write_text("tdmpc2/*.py text eol=crlf\n")
    (clone / "tdmpc2/train.py").write_bytes(b"from common import layers\r\n")
    assert find_checkout(where=clone).local_changes == ()


def test_a_committed_fork_is_used_but_never_called_official(clone, git):
    git(clone, "checkout", "--quiet", "topic")
    found = find_checkout(where=clone)
    assert found.commit == git(clone, "rev-parse", "topic")
    assert found.local_changes == () and found.verified is False


def test_an_unpacked_archive_is_known_by_its_tree_and_refused_when_it_is_not(clone, tmp_path):
    archive = tmp_path / "archive"
    shutil.copytree(clone, archive, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    found = find_checkout(where=archive)
    assert (found.commit, found.tree, found.verified) == (pin(), UPSTREAMS["tdmpc2"].pin_tree, True)
    (archive / "tdmpc2/train.py").write_text("changed\n")
    with pytest.raises(UserError, match="not an official tree"):
        find_checkout(where=archive)
    found = find_checkout(where=archive, allow_local_changes=True)
    assert found.commit is None and "tdmpc2/train.py" in found.local_changes and not found.verified


def test_an_archive_inside_another_repository_is_not_taken_for_that_repository(clone, tmp_path, git):
    outer = tmp_path / "outer"
    shutil.copytree(clone, outer / "vendor", symlinks=True, ignore=shutil.ignore_patterns(".git"))
    git(outer, "init", "--quiet")
    git(outer, "commit", "--quiet", "--allow-empty", "--message=outer")
    assert find_checkout(where=outer / "vendor").commit == pin()


# ---------------------------------------------------------------------------------- nothing to be found


def test_nothing_reachable_is_told_within_15_seconds_with_three_ways_out(clone, monkeypatch):
    monkeypatch.setenv(UPSTREAMS["tdmpc2"].url_variable, "http://127.0.0.1:9/tdmpc2")
    started = time.monotonic()
    with pytest.raises(UserError) as error:
        find_checkout()
    assert time.monotonic() - started < 15
    words = str(error.value)
    assert "tdmpc2-lean upstream add PATH" in words
    assert VARIABLE in words
    assert "tdmpc2-lean upstream fetch" in words
    assert "miniature" in words


def test_a_host_that_takes_the_call_and_says_nothing_is_given_up_within_15_seconds(clone, monkeypatch):
    import socket

    assert git_module.CONTACT_SECONDS < 14
    monkeypatch.setattr(git_module, "CONTACT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv(
            UPSTREAMS["tdmpc2"].url_variable, f"http://127.0.0.1:{server.getsockname()[1]}/tdmpc2"
        )
        started = time.monotonic()
        with pytest.raises(UserError, match="no answer"):
            find_checkout()
        assert time.monotonic() - started < 3


def test_another_commit_in_the_cache_never_stands_in_for_the_one_asked_for(clone, monkeypatch):
    add(clone)
    monkeypatch.setenv(UPSTREAMS["tdmpc2"].url_variable, "http://127.0.0.1:9/tdmpc2")
    with pytest.raises(UserError, match="no contact"):
        find_checkout(where="f" * 40)
    with pytest.raises(UserError, match="Did you mean 'topic'"):
        find_checkout(where="topik", may_clone=False)


def test_a_bad_environment_variable_is_an_error_and_not_a_fallback(clone, monkeypatch):
    add(clone)
    monkeypatch.setenv(VARIABLE, str(clone / "nowhere"))
    with pytest.raises(UserError, match=VARIABLE):
        find_checkout()


def test_without_git_the_error_says_so_and_an_exported_pin_still_works(clone, monkeypatch, tmp_path):
    add(clone)
    find_checkout(may_clone=False)
    shutil.rmtree(tmp_path / "cache/upstreams")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_checkout(may_clone=False).commit == pin()
    with pytest.raises(UserError, match="no git was found"):
        find_checkout(where=clone)


def test_a_misspelt_upstream_is_told_the_right_one(own_cache):
    with pytest.raises(UserError, match="Did you mean 'dreamerv3'"):
        find_checkout("dreamer3")


def test_the_miniature_comes_only_when_it_is_named(own_cache, miniature):
    for found in (find_checkout("miniature"), find_checkout("tdmpc2", "miniature"), miniature):
        assert (found.upstream, found.source, found.commit) == ("miniature", "package", None)
        assert found.tree == tree_id(found.root)
        assert found.verified is False
    with pytest.raises(UserError):
        find_checkout(may_clone=False)


def test_a_copy_of_the_miniature_is_known_as_such(own_cache, miniature, tmp_path):
    shutil.copytree(miniature.root, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__"))
    assert describe(tmp_path / "copy").upstream == "miniature"


def test_a_clone_that_git_refuses_to_read_is_told_in_gits_words(clone, monkeypatch):
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    for use in (lambda: find_checkout(where=clone), lambda: add(clone), lambda: verify(clone)):
        with pytest.raises(UserError, match="dubious ownership"):
            use()


# --------------------------------------------------------------------------------------- add and fetch


def test_add_takes_what_is_committed_and_needs_no_clean_working_tree(clone, git):
    change_tracked(clone, git)
    result = add(clone)
    assert result["pin"] and result["upstream"] == "tdmpc2"
    assert (result["new"], result["commits"]) == (2, 2)
    assert add(clone)["new"] == 0
    assert (
        find_checkout(may_clone=False).root / "tdmpc2/train.py"
    ).read_bytes() == b"from common import layers\n"


def test_add_takes_a_shallow_clone_and_a_linked_working_tree(clone, tmp_path, git):
    shallow = tmp_path / "shallow"
    git(clone, "clone", "--quiet", "--depth=1", "--branch=topic", f"file://{clone}", str(shallow))
    result = add(shallow, "tdmpc2")
    assert not result["pin"] and result["commits"] == 1
    assert find_checkout(where="topic", may_clone=False).commit == git(clone, "rev-parse", "topic")
    git(clone, "worktree", "add", "--quiet", str(tmp_path / "linked"), "topic")
    result = add(tmp_path / "linked")
    assert result["pin"] and result["commits"] == 2
    assert find_checkout(may_clone=False).verified


def test_add_takes_a_damaged_repository_as_far_as_it_goes(clone, tmp_path, git):
    damaged = tmp_path / "damaged"
    shutil.copytree(clone, damaged, symlinks=True)
    lost = git(clone, "rev-parse", "topic:tdmpc2/common/layers.py")
    (damaged / ".git/objects" / lost[:2] / lost[2:]).unlink()
    assert add(damaged)["tried"] == [pin()]
    assert find_checkout(may_clone=False).commit == pin()
    with pytest.raises(UserError, match="layers.py"):
        find_checkout(where="topic", may_clone=False)


def test_add_refuses_what_it_cannot_recognise_unless_told(clone, tmp_path, git):
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    git(stranger, "init", "--quiet")
    with pytest.raises(UserError, match="without a commit"):
        add(stranger, "tdmpc2")
    git(stranger, "commit", "--quiet", "--allow-empty", "--message=x")
    with pytest.raises(UserError, match="--upstream"):
        add(stranger)
    assert add(stranger, "tdmpc2")["pin"] is False
    for wrong in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(UserError):
            add(wrong)


def test_a_killed_add_leaves_nothing_that_is_taken_for_a_repository(clone, own_cache):
    code = (
        "import sys, time\n"
        "from tdmpc2_lean.upstreams import repository, registry\n"
        "repository.copy_objects = lambda *_: (print('copying', flush=True), time.sleep(60))\n"
        f"repository.copy_in(repository.Path({str(clone)!r}), registry.UPSTREAMS['tdmpc2'])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"copying\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not (own_cache / "upstreams/tdmpc2.git").exists()
    with pytest.raises(UserError, match="not on this machine"):
        find_checkout(may_clone=False)
    assert add(clone)["pin"]
    assert [path.name for path in (own_cache / "upstreams").iterdir()] == ["tdmpc2.git"]


def test_fetch_takes_the_pin_a_branch_and_a_commit_that_no_branch_leads_to(clone, monkeypatch, git):
    hidden = git(clone, "commit-tree", "-m", "hidden", "HEAD^{tree}")
    git(clone, "update-ref", "refs/pull/7/head", hidden)
    monkeypatch.setenv(UPSTREAMS["tdmpc2"].url_variable, f"file://{clone}")
    found = find_checkout()
    assert (found.source, found.commit) == ("clone", pin())
    assert find_checkout().source == "cache"
    assert fetch(ref="topic").commit == git(clone, "rev-parse", "topic")
    assert fetch(ref=hidden).commit == hidden
    assert fetch(ref="pull/7/head").commit == hidden
    with pytest.raises(UserError, match="Did you mean 'topic'"):
        fetch(ref="topi")
    with pytest.raises(UserError, match="not a commit"):
        fetch(ref="--upload-pack=touch")


# ------------------------------------------------------------------------------- listing and verifying


def test_listing_says_what_is_here_and_where_from(clone, monkeypatch):
    before = {row["upstream"]: row for row in listing()}
    assert not before["tdmpc2"]["available"] and not before["dreamerv3"]["available"]
    add(clone)
    after = {row["upstream"]: row for row in listing()}
    assert after["tdmpc2"]["available"] and after["tdmpc2"]["source"] == "cache"
    assert after["tdmpc2"]["licence"] == "MIT"


def test_verify_says_why_a_checkout_does_not_verify(clone, git):
    assert verify(clone)["verified"] and verify(clone)["reason"] == ""
    path = change_tracked(clone, git)
    result = verify(clone)
    assert (
        not result["verified"] and result["local_changes"] == [path] and result["reason"] == "local changes"
    )
    git(clone, "commit", "--quiet", "--all", "--message=fork")
    assert "official" in verify(clone)["reason"]


@pytest.mark.official
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_the_tried_commits_have_the_trees_written_down_for_them(upstream, tried_commits):
    for commit, found in tried_commits(upstream).items():
        assert found.commit == commit
        assert tree_id(found.root) == found.tree == UPSTREAMS[upstream].trees[commit]
        assert found.verified
