"""`atomic_write` replaces a file in one step: the old one or the new one, whatever happens."""

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tdmpc2_lean.files import atomic_write


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("content", [b"bytes\r\n\0", "text \N{GREEK SMALL LETTER ALPHA}\r\nas it is\n", "", b""])
def test_the_content_is_written_as_it_is_and_nothing_else_stays(tmp_path, content):
    path = tmp_path / "file"
    atomic_write(path, "an older one")
    atomic_write(str(path), content)
    assert path.read_bytes() == (content.encode("utf-8") if isinstance(content, str) else content)
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("step", ["write", "fsync", "replace", "chmod"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()])
def test_a_full_disk_or_an_interrupt_at_any_step_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, step, error):
    path = tmp_path / "file"
    path.write_text("old")

    def refuse(*arguments):
        raise error

    monkeypatch.setattr(os, step, refuse)
    with pytest.raises(type(error)) as caught:
        atomic_write(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old" and names(tmp_path) == ["file"]
    if isinstance(error, OSError):
        assert caught.value.filename == str(path) and caught.value.errno == errno.ENOSPC


def test_a_write_that_gets_part_of_its_way_is_gone_on_with(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:3]))
    atomic_write(tmp_path / "file", "more than three")
    assert (tmp_path / "file").read_text() == "more than three"


def test_the_content_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    order, replace = [], os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: order.append(os.fstat(handle).st_ino))
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append(("renamed", os.stat(a).st_ino)), replace(a, b)))
    atomic_write(tmp_path / "file", "new")
    inode = (tmp_path / "file").stat().st_ino
    assert order == [inode, ("renamed", inode), tmp_path.stat().st_ino]


def test_a_replaced_file_keeps_its_permissions_and_a_new_one_has_the_usual_ones(tmp_path):
    old_mask = os.umask(0o027)
    try:
        atomic_write(tmp_path / "new", "")
    finally:
        os.umask(old_mask)
    kept = tmp_path / "kept"
    kept.write_text("")
    kept.chmod(0o600)
    atomic_write(kept, "secret")
    atomic_write(tmp_path / "named", "", mode=0o755)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"new": 0o640, "kept": 0o600, "named": 0o755}


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "target", tmp_path / "link"
    link.symlink_to(target)
    for text in ("first", "second"):
        atomic_write(link, text)
        assert link.is_symlink() and target.read_text() == text and names(target.parent) == ["target"]


def test_what_is_no_regular_file_is_written_to(tmp_path):
    script = "from tdmpc2_lean.files import atomic_write; atomic_write('/dev/stdout', 'said\\n')"
    said = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True)
    assert said.stdout == b"said\n"
    with pytest.raises(IsADirectoryError):
        atomic_write(tmp_path, "")


def test_what_a_kill_left_under_a_given_temporary_name_is_no_obstacle(tmp_path):
    (tmp_path / "file.new").write_text("half of it")
    atomic_write(tmp_path / "file", "all", temporary=tmp_path / "file.new")
    assert names(tmp_path) == ["file"] and (tmp_path / "file").read_text() == "all"


def test_a_name_as_long_as_names_may_be_is_no_obstacle(tmp_path):
    atomic_write(tmp_path / ("n" * 255), "x")
    assert names(tmp_path) == ["n" * 255]


def test_writers_at_the_same_time_leave_one_of_their_contents_and_readers_see_no_part(tmp_path):
    path = tmp_path / "file"
    contents = {bytes([65 + i]) * 5000 for i in range(4)}
    atomic_write(path, min(contents))
    seen = set()

    def write(content):
        for _ in range(25):
            atomic_write(path, content)
            seen.add(path.read_bytes())

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen <= contents and names(tmp_path) == ["file"]
