"""Known issues of older commits are said wherever the code is named, until a patch mends them."""

import json
from dataclasses import replace

import pytest

from tdmpc2_lean.cli import main
from tdmpc2_lean.patched import materialise
from tdmpc2_lean.patching import read_series
from tdmpc2_lean.upstreams import UPSTREAMS, KnownIssue, add, find_checkout, registry, verify


def said(capsys, *words):
    with pytest.raises(SystemExit):
        main(list(words))
    return capsys.readouterr().out


def test_every_issue_is_about_tried_commits_and_mended_by_a_patch_that_is_used_only_by_name():
    for known in UPSTREAMS.values():
        for issue in known.issues:
            assert issue.commits and set(issue.commits) < set(known.trees) and issue.mended not in issue.commits
            assert issue.patch in [patch.name for patch in read_series(known.name).optional]


@pytest.mark.official
def test_older_commits_say_so_in_their_provenance_and_the_pin_does_not(tried_commits):
    known = UPSTREAMS["tdmpc2"]
    for commit, checkout in tried_commits("tdmpc2").items():
        facts = json.loads(json.dumps(checkout.provenance()))
        told = any("Q-functions" in text and "patch q-init" in text for text in facts["known_issues"])
        # Of 2023 to March 2024, before the commit that brought it
        earlier = commit.startswith(("b67b21c", "5715828", "5f6fade"))
        assert told == (commit in known.issues[0].commits) == (commit != known.pin and not earlier)


@pytest.mark.official
def test_a_patched_copy_says_so_until_the_patch_is_applied(tried_commits):
    older = next(checkout for commit, checkout in tried_commits("tdmpc2").items() if commit.startswith("75212c3"))
    assert materialise(older).provenance()["known_issues"] == older.known_issues != []
    assert materialise(older, ["all", "q-init"]).provenance()["known_issues"] == []


@pytest.mark.official
def test_history_tells_of_commits_that_were_not_tried(official):
    """The commit that brought the issue has it, the one before it not, nor a fork of the pin."""
    from tdmpc2_lean.upstreams import repository
    from tdmpc2_lean.upstreams.known_issues import issues_of

    cached = repository.repository(UPSTREAMS["tdmpc2"])
    since = UPSTREAMS["tdmpc2"].issues[0].since
    if cached is None or not repository.git.has_commit(cached, since):
        pytest.skip("no history of the official TD-MPC2 code on this machine")
    assert issues_of("tdmpc2", since) and not issues_of("tdmpc2", since, mended=["q-init"])
    before = repository.git.commit_named(cached, f"{since}^")
    assert issues_of("tdmpc2", before) == [] == issues_of("tdmpc2", "0" * 40)


@pytest.fixture
def with_issue(clone, git, monkeypatch):
    """The made upstream, whose pin has an issue that the commit `mended` mends; the clone is a fork of the pin."""
    pin = UPSTREAMS["tdmpc2"].pin
    git(clone, "checkout", "--quiet", "topic")
    issue = KnownIssue("it steps once", "twice", (pin,), since=pin, mended=git(clone, "rev-parse", "topic"))
    monkeypatch.setitem(registry.UPSTREAMS, "tdmpc2", replace(UPSTREAMS["tdmpc2"], issues=(issue,)))
    return clone


def test_list_and_verify_say_it(with_issue, capsys):
    add(with_issue)
    out = said(capsys, "upstream", "list")
    assert f"known issue of {UPSTREAMS['tdmpc2'].pin[:7]}: it steps once" in out and "patches=all,twice" in out
    assert "known issue: it steps once (patch twice)" in said(capsys, "upstream", "verify")
    assert verify()["known_issues"] == ["it steps once (patch twice)"]


def test_a_fork_that_the_cache_does_not_have_is_told_by_its_own_history(with_issue, git):
    assert find_checkout(where=with_issue).known_issues == []
    git(with_issue, "checkout", "--quiet", "main")
    (with_issue / "tdmpc2/train.py").write_text("forked\n")
    git(with_issue, "commit", "--quiet", "--all", "--message=fork")
    assert find_checkout(where=with_issue).known_issues == ["it steps once (patch twice)"]
