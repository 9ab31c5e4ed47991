"""`git am` of what export writes, on a clean clone, gives exactly the tree that apply gives."""

import importlib
import re
import subprocess

import pytest

from tdmpc2_lean.errors import CheckFailed, UserError
from tdmpc2_lean.patching import LostAnchors, apply, compare, export
from tests.patching.conftest import COUNT, FILES, SERIES, commit_all, git, snapshot, write_files, write_series


def am(clone, to, mails):
    """The tree after `git am` of the mails on a clean clone."""
    subprocess.run(["git", "clone", "--quiet", str(clone), str(to)], check=True)
    git(to, "am", "--quiet", *map(str, mails))
    return git(to, "rev-parse", "HEAD^{tree}").strip()


def tree_of_files(root):
    git(root, "add", "--all")
    return git(root, "write-tree").strip()


def with_habits(text, newline, bom, final):
    text = text if final else text.removesuffix("\n")
    return b"\xef\xbb\xbf" * bom + text.replace("\n", newline).encode()


@pytest.mark.parametrize(
    ("newline", "bom", "final"),
    [("\n", False, True), ("\r\n", True, False), ("\r\n", False, True), ("\n", True, False)],
)
def test_git_am_of_the_export_gives_the_tree_of_apply(tmp_path, series, newline, bom, final):
    files = {name: with_habits(text, newline, bom and bool(text), final) for name, text in FILES.items()}
    clone = commit_all(write_files(tmp_path / "clone", files))
    done = export(clone, tmp_path / "mails", series=series)
    assert [path.name for path in done.files] == [
        "0001-Choose-the-place-by-name.patch",
        "0002-Count-differently.patch",
        "0003-Act-for-many.patch",
    ]
    got = am(clone, tmp_path / "other", done.files)
    apply(clone, series=series)
    assert got == done.tree == tree_of_files(clone)
    files = snapshot(tmp_path / "other")
    assert {name: data for name, (data, _) in files.items()} == {
        n: d for n, (d, _) in snapshot(clone).items()
    }


def test_a_mail_is_by_the_users_identity_with_title_why_fix_and_issue(clone, series, tmp_path):
    mails = export(clone, tmp_path / "mails", ["count"], series).files
    am(clone, tmp_path / "other", mails)
    assert git(tmp_path / "other", "log", "-1", "--format=%an <%ae>%n%B") == (
        "Ada <ada@example.org>\nCount differently\n\nOne is not enough.\n\nTwo are.\n\n"
        "Changes the default behaviour: loops run twice\n\nIssue: https://example.org/issues/7\n\n"
    )
    assert re.search(r"^Subject: \[PATCH 1/1\] Count differently$", mails[0].read_text(), re.MULTILINE)


def test_export_brings_what_a_patch_needs(clone, series, tmp_path):
    assert len(export(clone, tmp_path / "mails", ["many"], series).files) == 2


def test_export_leaves_the_checkout_alone_and_stands_on_head_even_if_patches_are_applied(
    clone, series, tmp_path
):
    first = export(clone, tmp_path / "one", series=series)
    apply(clone, series=series)
    before = snapshot(clone), git(clone, "count-objects"), git(clone, "status", "--porcelain")
    second = export(clone, tmp_path / "two", series=series)
    assert (snapshot(clone), git(clone, "count-objects"), git(clone, "status", "--porcelain")) == before
    assert (first.base, first.tree) == (second.base, second.tree)


def test_names_and_texts_that_are_not_ascii_survive(tmp_path):
    count = {
        "patch.toml": COUNT["patch.toml"].replace("Count", "Zähle").replace("Two are", "Zwei schon: 日本")
    }
    series = write_series(tmp_path / "series", {"count": count})
    files = {"code/loop.py": FILES["code/loop.py"].replace("\n", "  # größer\r\n", 1).encode("utf-8")}
    clone = commit_all(write_files(tmp_path / "clone", files))
    git(clone, "config", "user.name", "Åsa Ö")
    done = export(clone, tmp_path / "mails", series=series)
    assert am(clone, tmp_path / "other", done.files) == done.tree
    said = git(tmp_path / "other", "log", "-1", "--format=%an%n%B")
    assert said.startswith("Åsa Ö\nZähle differently\n") and "Zwei schon: 日本" in said


def test_the_users_own_git_settings_do_not_spoil_the_mails(clone, series, tmp_path):
    for key, value in {
        "diff.noprefix": "true", "diff.mnemonicPrefix": "true", "format.coverLetter": "true",
        "format.subjectPrefix": "RFC", "format.attach": "x", "diff.renames": "copies", "color.ui": "always",
        "format.signature": "bye", "commit.gpgSign": "true", "diff.context": "0", "format.thread": "true",
        "core.hooksPath": "/nowhere", "diff.external": "false", "format.outputDirectory": "/nowhere",
        "core.quotePath": "true",
    }.items():  # fmt: skip
        git(clone, "config", key, value)
    done = export(clone, tmp_path / "mails", series=series)
    assert len(done.files) == 3
    assert am(clone, tmp_path / "other", done.files) == done.tree


def test_a_program_stays_one(tmp_path, series):
    clone = write_files(tmp_path / "clone", FILES)
    (clone / "code" / "loop.py").chmod(0o755)
    commit_all(clone)
    done = export(clone, tmp_path / "mails", series=series)
    apply(clone, series=series)
    assert tree_of_files(clone) == done.tree


def test_without_an_identity_the_command_to_give_one_is_named(clone, series, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("EMAIL", "guessed@example.org")  # git would take this and the account's name
    with pytest.raises(UserError, match="git config --global user.name"):
        export(clone, tmp_path / "mails", series=series)
    assert not (tmp_path / "mails").exists()


def test_a_plain_folder_is_told_how_to_become_a_clone(plain, series, tmp_path):
    with pytest.raises(UserError, match="git -C .* init"):
        export(plain, tmp_path / "mails", series=series)


def test_a_folder_in_use_is_refused_unless_forced_and_then_keeps_other_files(clone, series, tmp_path):
    write_files(tmp_path / "mails", {"notes.txt": "mine", "0007-old.patch": "old"})
    with pytest.raises(UserError, match="not empty"):
        export(clone, tmp_path / "mails", series=series)
    export(clone, tmp_path / "mails", ["count"], series, force=True)
    assert sorted(path.name for path in (tmp_path / "mails").iterdir()) == [
        "0001-Count-differently.patch",
        "notes.txt",
    ]


def test_a_patch_that_does_not_fit_writes_no_mail(tmp_path, series):
    clone = commit_all(write_files(tmp_path / "clone", FILES | {"code/loop.py": "x = 1\n"}))
    with pytest.raises(LostAnchors, match="count, edit 1"):
        export(clone, tmp_path / "mails", series=series)
    assert not (tmp_path / "mails").exists()


@pytest.mark.parametrize("why", ["Cut here:\n---\nand lose this.", "Shown:\ndiff --git a/x b/x\n"])
def test_a_message_that_git_am_would_not_keep_is_refused_loudly(tmp_path, clone, why):
    toml = COUNT["patch.toml"].replace("One is not enough.\\n\\nTwo are.", why.replace("\n", "\\n"))
    series = write_series(tmp_path / "series", SERIES | {"count": {"patch.toml": toml}})
    with pytest.raises(CheckFailed, match="count|exported"):
        export(clone, tmp_path / "mails", series=series)
    assert not (tmp_path / "mails").exists()


def test_a_difference_between_mail_and_apply_is_refused_loudly(clone, series, tmp_path, monkeypatch):
    exporting = importlib.import_module("tdmpc2_lean.patching.export")
    mails = exporting._mails

    def spoilt(*arguments):
        return {name: mail.replace(b"count = 2", b"count = 9") for name, mail in mails(*arguments).items()}

    monkeypatch.setattr(exporting, "_mails", spoilt)
    with pytest.raises(CheckFailed, match="does not give the tree"):
        export(clone, tmp_path / "mails", series=series)
    assert not (tmp_path / "mails").exists()


@pytest.mark.parametrize("how", ["attributes", "autocrlf"])
def test_a_clone_whose_git_turns_line_ends_over_gets_the_same_tree(tmp_path, series, how):
    """The working tree has CRLF, the commits have not: edits keep the one, mails the other."""
    more = {".gitattributes": "*.py text eol=crlf\n"} if how == "attributes" else {}
    origin = commit_all(write_files(tmp_path / "origin", FILES | more))
    setting = ["-c", "core.autocrlf=true"] if how == "autocrlf" else []
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", *setting, str(origin), str(clone)], check=True)
    if how == "autocrlf":
        git(clone, "config", "core.autocrlf", "true")
    assert b"\r\n" in (clone / "code" / "agent.py").read_bytes()
    done = export(clone, tmp_path / "mails", series=series)
    assert am(origin, tmp_path / "other", done.files) == done.tree
    apply(clone, series=series)
    agent = (clone / "code" / "agent.py").read_bytes()
    assert agent.count(b"\n") == agent.count(b"\r\n")
    assert tree_of_files(clone) == done.tree
    assert set(compare(clone).changed) == {
        "code/agent.py",
        "code/loop.py",
        "code/config.yaml",
        "code/new/many.py",
    }
    assert b"\r" not in compare(clone).changed["code/agent.py"][1]


def test_without_names_those_applied_are_exported_and_all_where_none_is(clone, series, tmp_path):
    assert export(clone, tmp_path / "all", series=series).chosen == "all"
    apply(clone, ["many"], series)
    done = export(clone, tmp_path / "applied", series=series)
    assert (done.patches, done.chosen, len(done.files)) == (("place", "many"), "applied", 2)
    assert am(clone, tmp_path / "other", done.files) == done.tree == tree_of_files(clone)
    assert export(clone, tmp_path / "named", ["count"], series).chosen == "named"


def test_patches_applied_from_another_version_of_the_series_are_not_exported_as_if_they_were_these(
    clone, series, tmp_path
):
    apply(clone, ["count"], series)
    newer = COUNT | {"patch.toml": COUNT["patch.toml"].replace("count = 2", "count = 3")}
    series = write_series(tmp_path / "newer", SERIES | {"count": newer})
    with pytest.raises(UserError, match="count: applied from another version"):
        export(clone, tmp_path / "mails", series=series)
