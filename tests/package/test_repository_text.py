"""What no file of this project may hold: text of an upstream, or a path of the machine it was written on."""

import re
import subprocess
from pathlib import Path

import pytest

from tdmpc2_lean.upstreams import UPSTREAMS

PROJECT = Path(__file__).parents[2]
RUN = 4
TEXT = tuple(".py .yaml .yml .toml .cfg .md .txt .sh .rst .json .patch .diff".split())
# Written so that this file does not match itself.
MACHINE = re.compile(r"(?<![\w.])/(?:roo[t]|wor[k]|hom[e]|User[s]|tm[p])/\w")
# Lines that anybody's code has.
COMMON = re.compile(r"(import |from \S+ import |return\b.{0,12}$|else:|try:|pass$|continue$|break$|[^\w]*$)")


@pytest.fixture(scope="module")
def project_files():
    """{path: text} of the project's text files that are, or would be, committed."""
    command = ["git", "-C", str(PROJECT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git working tree")
    paths = [path for path in listed if path.endswith(TEXT) and (PROJECT / path).is_file()]
    return {path: (PROJECT / path).read_text("utf-8", "replace") for path in paths}


def runs(text):
    """{RUN telling lines one after another, white space folded: line number of the first}."""
    folded = ((number, " ".join(line.split())) for number, line in enumerate(text.splitlines(), 1))
    telling = [(number, line) for number, line in folded if len(line) > 8 and not COMMON.match(line)]
    windows = (telling[start : start + RUN] for start in range(len(telling) - RUN + 1))
    return {tuple(line for _, line in window): window[0][0] for window in windows}


def text_of(root):
    """{path: text} of the text files below a folder."""
    return {
        path.relative_to(root).as_posix(): path.read_text("utf-8", "replace")
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name.endswith(TEXT) and ".tdmpc2-lean" not in path.parts
    }


def repeated(ours, theirs):
    """Where our files repeat a run of lines of theirs: ['our file:line stands at their file:line']."""
    known = {}
    for path, text in theirs.items():
        for window, line in runs(text).items():
            known.setdefault(window, f"{path}:{line}")
    return [
        f"{path}:{line} stands at {known[window]}"
        for path, text in ours.items()
        for window, line in runs(text).items()
        if window in known
    ]


@pytest.mark.official
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_no_file_repeats_official_text(upstream, tried_commits, project_files):
    for found in tried_commits(upstream).values():
        assert repeated(project_files, text_of(found.root)) == []


def test_no_file_repeats_the_official_release(official_release, project_files):
    assert repeated(project_files, text_of(official_release.root)) == []


def test_a_copied_run_of_lines_is_noticed_however_it_is_indented(official):
    theirs = text_of(official.root)
    lines = theirs["tdmpc2/tdmpc2.py"].splitlines()
    middle = len(lines) // 2
    copied = "\n".join("    " + line.strip() for line in lines[middle : middle + 25])
    assert repeated({"ours.py": "x = 1\n" + copied}, theirs)
    assert not repeated({"ours.py": "import torch\nx = 1\n"}, theirs)


def test_no_file_names_a_path_of_one_machine(project_files):
    found = [
        f"{path}:{number}: {line.strip()[:80]}"
        for path, text in project_files.items()
        for number, line in enumerate(text.splitlines(), 1)
        if MACHINE.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("path", ["roo" + "t/x", "hom" + "e/me/code", "tm" + "p/a"])
def test_a_path_of_one_machine_is_noticed(path):
    assert MACHINE.search(f"see '/{path}'")
    assert not MACHINE.search(f"see https://host.invalid/{path}")
