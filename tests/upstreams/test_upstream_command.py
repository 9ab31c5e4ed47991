"""`tdmpc2-lean upstream`: what a user reads and what a script gets."""

import json

import pytest

from tdmpc2_lean.cli import main
from tdmpc2_lean.upstreams import UPSTREAMS


@pytest.fixture
def command(capsys):
    """command(*words): (exit code, what was printed, what was said on stderr)."""

    def run(*words):
        with pytest.raises(SystemExit) as exit_:
            main(["upstream", *map(str, words)])
        return exit_.value.code, *capsys.readouterr()

    return run


def test_add_then_list_then_verify(command, clone):
    pin = UPSTREAMS["tdmpc2"].pin
    code, out, _ = command("add", clone)
    assert code == 0 and "2 new commits" in out and pin[:7] in out
    code, out, _ = command("list")
    assert code == 0 and f"tdmpc2: from the cache, commit {pin[:7]}" in out
    assert "dreamerv3: not on this machine" in out and "licence MIT" in out
    code, out, _ = command("verify")
    assert code == 0 and "verified" in out and UPSTREAMS["tdmpc2"].pin_tree in out


def test_add_says_when_the_pin_is_not_among_the_commits(command, clone, git, tmp_path):
    git(
        clone, "clone", "--quiet", "--depth=1", "--branch=topic", f"file://{clone}", str(tmp_path / "shallow")
    )
    code, out, _ = command("add", tmp_path / "shallow", "--upstream", "tdmpc2")
    assert code == 0 and "not among them" in out


def test_verify_exits_with_1_and_names_the_changed_files(command, clone):
    (clone / "tdmpc2/train.py").write_text("changed\n")
    code, out, err = command("verify", clone)
    assert code == 1 and "tdmpc2/train.py" in out and "local changes" in err
    code, out, _ = command("verify", clone, "--json")
    assert code == 1 and json.loads(out)["local_changes"] == ["tdmpc2/train.py"]


def test_list_as_json_is_a_list_with_one_object_an_upstream(command, own_cache):
    code, out, _ = command("list", "--json")
    rows = json.loads(out)
    assert code == 0 and [row["upstream"] for row in rows] == list(UPSTREAMS)
    assert not any(row["available"] for row in rows)


@pytest.mark.parametrize(
    "words",
    [
        ("verify",),
        ("verify", "no-such-ref"),
        ("verify", "./nowhere"),
        ("add", "./nowhere"),
        ("fetch", "--upstream", "x"),
    ],
)
def test_a_users_mistake_exits_with_2_and_names_the_next_step(command, own_cache, words):
    code, _, err = command(*words)
    assert code == 2 and err.startswith("error: ") and "next: " in err


def test_fetch_without_a_network_exits_with_2_and_names_the_ways_out(command, own_cache, monkeypatch):
    monkeypatch.setenv(UPSTREAMS["dreamerv3"].url_variable, "http://127.0.0.1:9/x")
    code, _, err = command("fetch", "--upstream", "dreamerv3")
    assert code == 2 and "upstream add PATH" in err and UPSTREAMS["dreamerv3"].environment_variable in err
    assert "miniature" not in err
