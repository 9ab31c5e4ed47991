"""The second way to official code: a release on a package index, found through pip's configuration."""

import dataclasses
import hashlib
import io
import json
import os
import shutil
import socket
import sys
import tarfile
import time
from pathlib import Path

import pytest

from tdmpc2_lean.cli import main
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.upstreams import (
    UPSTREAMS,
    Release,
    add,
    describe,
    fetch,
    find_checkout,
    listing,
    registry,
    repository,
    tree_id,
    upstream_of,
    verify,
)

KNOWN = UPSTREAMS["dreamerv3"]
FILES = {
    "PKG-INFO": b"made for a test\n",
    "LICENSE": b"made for a test\n",
    "dreamerv3/__init__.py": b"",
    "dreamerv3/main.py": b"print('made for a test')\n",
    "embodied/__init__.py": b"from . import envs\n",
}


def archive(members):
    """A .tar.gz of {path: bytes, or a TarInfo that stands for itself}."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for path, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
                continue
            member = tarfile.TarInfo(path)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return made.getvalue()


def put_in_index(folder, content):
    """Lay a file down as the release's sdist in a folder that pip can take for an index."""
    project = folder / "dreamer"
    project.mkdir(parents=True, exist_ok=True)
    name = f"dreamer-{KNOWN.release.version}.tar.gz"
    (project / name).write_bytes(content)
    (project / "index.html").write_text(f'<!DOCTYPE html><a href="{name}">{name}</a>')


def made_known(monkeypatch, content, files=FILES):
    """Put a release with that sdist in the place of the real one."""
    manifest = {path: ("100644", registry_blob(data)) for path, data in files.items()}
    made = Release(
        project="dreamer",
        version=KNOWN.release.version,
        sha256=hashlib.sha256(content).hexdigest(),
        tree=repository.tree.tree_of_manifest(manifest),
        commit=KNOWN.release.commit,
        left_out=("dreamerv3/configs.yaml", "embodied/envs/"),
        supplied="dreamer_bridge",
    )
    monkeypatch.setitem(registry.UPSTREAMS, "dreamerv3", dataclasses.replace(KNOWN, release=made))


def registry_blob(data):
    return repository.tree.object_id("blob", data)


@pytest.fixture
def sdist():
    """The bytes of a small release's sdist."""
    top = f"dreamer-{KNOWN.release.version}"
    return archive({f"{top}/{path}": data for path, data in FILES.items()})


@pytest.fixture
def pip_conf(own_cache, tmp_path, monkeypatch):
    """pip_conf(lines): pip is set up by these lines of the user's configuration file and by nothing else."""
    pytest.importorskip("unearth")
    for name in list(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    # Neither a git host nor, until a test says so, an index is there.
    monkeypatch.setenv(KNOWN.url_variable, "http://127.0.0.1:9/dreamerv3")
    file = tmp_path / "pip.conf"

    def write(lines):
        file.write_text("[global]\ncert =\n" + lines)
        monkeypatch.setenv("PIP_CONFIG_FILE", str(file))

    write("no-index = true\n")
    return write


@pytest.fixture
def index(tmp_path, monkeypatch, pip_conf, sdist):
    """A package index on this machine that has the small release, for which pip is set up. Its folder."""
    made_known(monkeypatch, sdist)
    put_in_index(tmp_path / "simple", sdist)
    pip_conf(f"index-url = file://{tmp_path}/simple\n")
    return tmp_path / "simple"


def test_the_release_is_found_through_pips_configuration_and_unpacked(index):
    found = find_checkout("dreamerv3", "release")
    release = UPSTREAMS["dreamerv3"].release
    assert (found.source, found.release, found.commit) == ("release", "3.3.1", release.commit)
    assert found.label == "dreamerv3 release 3.3.1" and found.verified
    assert {path: (found.root / path).read_bytes() for path in FILES} == FILES
    recorded = found.provenance()
    assert (recorded["source"], recorded["release"]) == ("release", "3.3.1")
    assert recorded["sdist_sha256"] == release.sha256 and recorded["verified"] is True
    assert json.loads(json.dumps(recorded)) == recorded
    assert describe(found.root).release == "3.3.1"


@pytest.mark.parametrize("setting", ["extra-index-url", "find-links", "variable"])
def test_pips_other_ways_to_name_an_index_count_too(index, pip_conf, monkeypatch, setting):
    dead = "index-url = http://127.0.0.1:9/simple\n"
    if setting == "extra-index-url":
        pip_conf(f"{dead}{setting} = http://127.0.0.1:9/other file://{index}\n")
    elif setting == "find-links":
        pip_conf(f"no-index = true\n{setting} = {index}/dreamer\n")
    else:
        pip_conf(dead)
        monkeypatch.setenv("PIP_INDEX_URL", f"file://{index}")
    assert find_checkout("dreamerv3", "release").verified


def test_another_file_under_the_releases_name_is_refused(index, sdist, own_cache):
    put_in_index(index, sdist + b" ")
    with pytest.raises(UserError, match="(?i)hash"):
        find_checkout("dreamerv3", "release")
    assert not any((own_cache / "checkouts").glob("*"))


LINK = tarfile.TarInfo("dreamer-3.3.1/link")
LINK.type, LINK.linkname = tarfile.SYMTYPE, "/etc/passwd"
DEVICE = tarfile.TarInfo("dreamer-3.3.1/device")
DEVICE.type = tarfile.CHRTYPE


@pytest.mark.parametrize(
    "bad",
    [
        {"dreamer-3.3.1/../../outside.py": b""},
        {"/dreamer-3.3.1/absolute.py": b""},
        {"elsewhere/a.py": b""},
        {"dreamer-3.3.1/.git/config": b""},
        {"dreamer-3.3.1/.tdmpc2-lean/origin.json": b"{}"},
        {"dreamer-3.3.1/a\\b.py": b""},
        {"dreamer-3.3.1/link": LINK},
        {"dreamer-3.3.1/device": DEVICE},
    ],
    ids=lambda bad: next(iter(bad)),
)
def test_an_archive_that_would_write_elsewhere_is_refused_even_if_its_hash_is_right(
    index, monkeypatch, tmp_path, own_cache, bad
):
    content = archive({"dreamer-3.3.1/LICENSE": b"", **bad})
    made_known(monkeypatch, content)
    put_in_index(index, content)
    with pytest.raises(UserError, match="no release may|is no file"):
        find_checkout("dreamerv3", "release")
    assert not any((own_cache / "checkouts").glob("*")) and not list(tmp_path.glob("**/outside.py"))


def test_a_damaged_copy_is_unpacked_anew_and_said_so(index, capsys):
    root = find_checkout("dreamerv3", "release").root
    (root / "dreamerv3/main.py").write_text("damaged\n")
    (root / "added.py").write_text("")
    assert find_checkout("dreamerv3", "release").root == root
    assert tree_id(root) == UPSTREAMS["dreamerv3"].release.tree
    assert "unpacked anew" in capsys.readouterr().err


def test_a_cached_release_needs_no_index(index, pip_conf):
    root = find_checkout("dreamerv3", "release").root
    pip_conf("no-index = true\n")
    assert find_checkout("dreamerv3", "release").root == root
    assert find_checkout("dreamerv3", may_clone=False).release == "3.3.1"


# ------------------------------------------------------------------------------------ the order of finding


def test_the_release_stands_in_for_the_pin_only_where_git_cannot_reach_it_and_says_so(index, capsys):
    found = find_checkout("dreamerv3")
    assert found.source == "release" and found.label == "dreamerv3 release 3.3.1"
    said = capsys.readouterr().err
    assert "release 3.3.1 is used" in said and KNOWN.pin[:7] in said


def test_the_release_needs_no_git(index, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_checkout("dreamerv3").release == "3.3.1"
    assert verify("release")["verified"]


def test_a_clone_that_can_be_reached_comes_before_the_release_and_a_cached_pin_before_both(index, clone, monkeypatch):
    made = UPSTREAMS["tdmpc2"]
    mixed = dataclasses.replace(UPSTREAMS["dreamerv3"], pin=made.pin, trees=made.trees)
    monkeypatch.setitem(registry.UPSTREAMS, "dreamerv3", mixed)
    monkeypatch.setenv(KNOWN.url_variable, f"file://{clone}")
    assert find_checkout("dreamerv3").source == "clone"
    assert find_checkout("dreamerv3", "release").source == "release"
    assert find_checkout("dreamerv3").source == "cache"


def test_a_commit_that_was_asked_for_is_never_replaced_by_the_release(index, monkeypatch):
    find_checkout("dreamerv3", "release")
    for where in (KNOWN.pin, KNOWN.release.commit):
        with pytest.raises(UserError, match="no contact"):
            find_checkout("dreamerv3", where)
    monkeypatch.setenv(KNOWN.environment_variable, KNOWN.pin)
    with pytest.raises(UserError, match="no contact"):
        find_checkout("dreamerv3")


def test_the_words_come_before_folders_of_their_names(index, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("release", "miniature"):
        (tmp_path / name).mkdir()
    assert upstream_of("release") == "dreamerv3" and find_checkout("dreamerv3", "release").release == "3.3.1"
    assert find_checkout("tdmpc2", "miniature").root != tmp_path / "miniature"
    for folder in ("./release", Path("release"), "./miniature", Path("miniature")):
        assert upstream_of(folder) == "tdmpc2"
        with pytest.raises(UserError, match="is no checkout"):
            find_checkout("dreamerv3", folder)


def test_the_environment_can_ask_for_the_release(index, monkeypatch):
    monkeypatch.setenv(KNOWN.environment_variable, "release")
    assert find_checkout("dreamerv3").source == "release"


def test_an_upstream_without_a_release_says_so(own_cache):
    with pytest.raises(UserError, match="tdmpc2 has no release"):
        find_checkout("tdmpc2", "release")


@pytest.mark.parametrize("kind", ["refused", "silent"])
def test_nothing_reachable_is_told_within_15_seconds_with_the_ways_out(pip_conf, monkeypatch, kind):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1] if kind == "silent" else 9
        monkeypatch.setenv(KNOWN.url_variable, f"http://127.0.0.1:{port}/x")
        pip_conf(f"index-url = http://127.0.0.1:{port}/simple\n")
        started = time.monotonic()
        with pytest.raises(UserError) as error:
            find_checkout("dreamerv3")
        assert time.monotonic() - started < 15
    words = str(error.value)
    assert "no contact" in words and "cannot be downloaded" in words
    for way in ("upstream add PATH", KNOWN.environment_variable, "fetch --upstream dreamerv3", "fetch release"):
        assert way in words


# --------------------------------------------------------------------------------------- files and commands


def test_the_sdist_can_be_brought_by_hand_and_an_unpacked_one_is_known(own_cache, tmp_path, monkeypatch, sdist):
    made_known(monkeypatch, sdist)
    file = tmp_path / "dreamer-3.3.1.tar.gz"
    file.write_bytes(sdist)
    assert add(file) == {"upstream": "dreamerv3", "path": str(file), "release": "3.3.1"}
    assert find_checkout("dreamerv3", "release", may_clone=False).verified
    shutil.unpack_archive(file, tmp_path / "mine")
    found = find_checkout("dreamerv3", tmp_path / "mine/dreamer-3.3.1")
    assert (found.release, found.source, found.verified) == ("3.3.1", "argument", True)
    (found.root / "dreamerv3/main.py").write_text("changed\n")
    with pytest.raises(UserError, match="not an official tree"):
        find_checkout("dreamerv3", found.root)
    file.write_bytes(sdist + b" ")
    with pytest.raises(UserError, match="is not the source distribution"):
        add(file)
    other = tmp_path / "other.tar.gz"
    other.write_bytes(sdist)
    with pytest.raises(UserError, match="neither a git repository"):
        add(other)


def test_without_unearth_the_extra_is_named(index, monkeypatch):
    monkeypatch.setitem(sys.modules, "unearth", None)
    with pytest.raises(UserError) as error:
        find_checkout("dreamerv3", "release")
    assert "tdmpc2_lean[dreamer]" in str(error.value)


def test_the_commands_show_and_handle_both_ways(index, capsys):
    def command(*words):
        with pytest.raises(SystemExit) as exit_:
            main(["upstream", *words])
        return exit_.value.code, capsys.readouterr().out

    release = UPSTREAMS["dreamerv3"].release
    code, out = command("list")
    assert code == 0 and "or release 3.3.1" in out and KNOWN.url in out
    assert command("verify", "release")[0] == 2
    code, out = command("fetch", "release")
    assert code == 0 and release.sha256 in out and release.commit in out
    code, out = command("list")
    assert code == 0 and "dreamerv3: dreamerv3 release 3.3.1" in out
    (row,) = (row for row in listing() if row["upstream"] == "dreamerv3")
    assert row["source"] == "release" and row["release"]["root"] == row["root"]
    code, out = command("verify", "release")
    assert code == 0 and "verified" in out and release.sha256 in out
    assert verify("release")["compared"] is None  # its commit is not in this cache
    assert fetch("dreamerv3", "release").release == "3.3.1"


# ------------------------------------------------------------------------------------------ the real release


def test_the_real_releases_files_are_its_commits_as_far_as_that_commit_is_here(official_release):
    assert official_release.verified and tree_id(official_release.root) == KNOWN.release.tree
    compared = repository_comparison(official_release)
    if compared is None:
        pytest.skip("the release's commit is not on this machine")
    assert compared["missing"] == []
    code = [path for path in compared["other"] if path.startswith(("dreamerv3/", "embodied/"))]
    assert code == [] and compared["equal"] == 33
    assert all(path.startswith(("PKG-INFO", "dreamer.egg-info/", "setup.cfg")) for path in compared["other"])


def repository_comparison(found):
    from tdmpc2_lean.upstreams.release import compared_with_commit

    return compared_with_commit(KNOWN, found.root)
