"""`tdmpc2-lean patch …`: what is printed, and with which exit code."""

import json
import shlex

import pytest

from tdmpc2_lean.cli import main
from tests.patching.conftest import FILES, SERIES, snapshot, write_files, write_series


@pytest.fixture
def run(capsys, tmp_path):
    write_series(tmp_path / "series", SERIES)

    def run(*words, series=True):
        more = ["--series", str(tmp_path / "series")] if series else []
        with pytest.raises(SystemExit) as ended:
            main(["patch", words[0], *more, *map(str, words[1:])])
        out = capsys.readouterr()
        return ended.value.code, out.out, out.err

    return run


def test_list_shows_names_titles_needs_and_fixes(run):
    code, out, _ = run("list")
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        "place Choose the place by name".split(),
        "count fix Count differently".split(),
        "many Act for many (needs place)".split(),
    ]
    assert [row["name"] for row in json.loads(run("list", "--json")[1])] == ["place", "count", "many"]


def test_check_ends_with_1_and_names_the_lost_anchor(run, plain):
    assert run("check", plain)[0] == 0
    write_files(plain, {"code/agent.py": FILES["code/agent.py"].replace("pick(", "choose(")})
    code, out, _ = run("check", plain)
    assert code == 1
    assert "place, edit 1: code/agent.py, Agent.__init__: `self.place = pick($WHERE)` found 0 times" in out
    assert "many   needs place" in out and "count  applies" in out and "1 of 3 patches apply" in out
    code, out, _ = run("check", plain, "--json")
    assert code == 1 and json.loads(out)["patches"][0]["lost"][0]["edit"] == 1
    assert run("check", plain, "count")[0] == 0


def test_apply_status_revert(run, checkout):
    before = snapshot(checkout)
    code, out, _ = run("apply", checkout, "many")
    assert code == 0 and "applied place, many: 3 files changed" in out
    assert "nothing to do" in run("apply", checkout, "many")[1]
    code, out, _ = run("status", checkout)
    assert code == 0 and "place  sha256" in out and "not applied: count" in out
    assert json.loads(run("status", checkout, "--json")[1])["available"] == ["count"]
    code, _, err = run("revert", checkout, "place")
    assert code == 2 and "many needs place" in err
    code, out, _ = run("revert", checkout)
    assert code == 0 and "reverted place, many" in out
    assert snapshot(checkout) == before
    assert run("status", checkout)[0] == 0


def test_a_dry_run_prints_the_diff_and_does_nothing(run, plain):
    before = snapshot(plain)
    code, out, err = run("apply", plain, "count", "--dry-run")
    assert code == 0 and "-  count = 1\n+  count = 2\n" in out and "would be applied" in err
    assert snapshot(plain) == before


def test_mistakes_are_told_without_a_traceback(run, plain, tmp_path):
    for words, code, says in (
        (("apply", plain, "plce"), 2, "Did you mean 'place'"),
        (("apply", tmp_path / "nowhere"), 2, "not a folder"),
        (("audit", plain), 2, ""),
        (("export", plain, "--to", tmp_path / "mails"), 2, "git -C"),
        (("show", "plce", "--checkout", plain), 2, "Did you mean 'place'"),
    ):
        got, out, err = run(*words, series=words[0] != "audit")
        assert (got, out) == (code, "") and err.startswith("error: ") and says in err and "next: " in err


def test_show_prints_why_and_the_diff(run, plain):
    code, out, _ = run("show", "count", "--checkout", plain)
    assert code == 0
    assert out.startswith("Count differently\n\nOne is not enough.\n\nTwo are.\n\nFixes: loops run twice\n")
    assert out.endswith("   for _ in range(count):\n     env.step()\n   return count\n")


def test_export_names_its_files(run, clone, tmp_path):
    code, out, _ = run("export", clone, "--to", tmp_path / "mails")
    assert code == 0 and out.count(".patch\n") == 3 and "3 patches: the whole series, as no patch is applied" in out
    assert run("export", clone, "--to", tmp_path / "mails")[0] == 2
    run("apply", clone, "many")
    code, out, _ = run("export", clone, "--to", tmp_path / "applied")
    assert code == 0 and out.count(".patch\n") == 2 and f"2 patches: those applied to {clone}" in out


def test_diff_and_audit_of_a_patched_checkout(run, checkout):
    run("apply", checkout, "place")
    code, out, _ = run("diff", checkout, series=False)
    assert code == 0 and "+\t\t# Any place will do." in out
    code, out, _ = run("audit", checkout, series=False)
    assert (
        code == 0 and "changed 1: Agent.__init__" in out and "untouched 4: <module>, Agent, Agent.act" in out
    )
    assert (
        run("audit", checkout, "--function", "act", series=False)[1]
        == "code/agent.py  Agent.act: untouched\n"
    )
    code, _, err = run("audit", checkout, "--function", "atc", series=False)
    assert code == 2 and "Did you mean 'act'" in err
    assert json.loads(run("audit", checkout, "--json", series=False)[1])["files"][0]["changed"] == [
        "Agent.__init__"
    ]


def test_every_help_text_says_something(capsys):
    for name in ("list", "show", "check", "apply", "revert", "status", "export", "diff", "audit"):
        with pytest.raises(SystemExit) as ended:
            main(["patch", name, "--help"])
        assert ended.value.code == 0 and len(capsys.readouterr().out) > 200


def test_the_groups_help_names_every_verb_with_an_example(capsys):
    with pytest.raises(SystemExit):
        main(["patch", "--help"])
    out = capsys.readouterr().out
    for verb in ("check", "apply", "status", "diff", "audit", "export", "revert"):
        assert f"tdmpc2-lean patch {verb} ~/src/tdmpc2" in out


def test_commands_to_copy_name_paths_with_spaces_in_quotes(run, tmp_path):
    """Every `tdmpc2-lean ...` and `git ...` of a hint names the checkout as a shell takes it."""
    root = write_files(tmp_path / "my folder" / "check out", FILES)
    hints = [run("export", root, "--to", tmp_path / "mails")[2]]
    run("apply", root, "many", "count")
    hints.append(run("revert", root, "place")[2])
    hints.append(run("audit", root, "--function", "actt", series=False)[2])
    (root / "code/agent.py").write_text("mine = 1\n")
    hints.append(run("revert", root)[2])
    toml = tmp_path / "series" / "count" / "patch.toml"
    toml.write_text(toml.read_text() + "# newer\n")
    hints.append(run("apply", root)[2])
    for hint in hints:
        assert "error: " in hint and " next: " in hint
    named = [hint.split(" next: ")[1] for hint in hints if str(root) in hint.split(" next: ")[1]]
    assert len(named) >= 4, hints
    for step in named:
        assert step.replace(shlex.quote(str(root)), "").count(str(root)) == 0, step
