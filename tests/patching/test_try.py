"""`patch try`: a script is run for seconds, and what does not act is named."""

import shutil
import subprocess
import sys

import pytest

from tdmpc2_lean import patching
from tdmpc2_lean.cli import main
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.trying import try_checkout
from tdmpc2_lean.trying.tdmpc2 import LOOKS
from tests.patching.conftest import snapshot

TRAINER = "tdmpc2/trainer/online_trainer.py"
SETTINGS = {"device", "utd", "pretrain_updates", "seed_steps", "separate_eval", "save_agent_every_eval",
            "save_video_files", "checkpoint_minutes", "checkpoint_mid_episode"}  # fmt: skip


@pytest.fixture
def fork(official, tmp_path):
    """The official code with all patches on it."""
    folder = tmp_path / "fork"
    shutil.copytree(official.root, folder, ignore=shutil.ignore_patterns(".git", ".tdmpc2-lean", "__pycache__"))
    patching.apply(folder)
    return folder


def test_every_setting_that_a_patch_brings_can_be_seen_to_act():
    brought = {name for patch in patching.read_series("tdmpc2").patches for name in patch.settings}
    assert brought == SETTINGS == set(LOOKS)


@pytest.mark.slow
def test_code_in_a_folder_of_another_name_is_tried_where_it_lies(fork):
    patching.revert(fork)
    (fork / "tdmpc2").rename(fork / "agent")
    patching.apply(fork)
    tried = try_checkout(fork)
    assert tried.ok, [one for one in tried.observations if not one.seen]


@pytest.mark.slow
def test_on_the_official_code_everything_is_seen_and_nothing_of_it_changes(fork):
    before = snapshot(fork)
    tried = try_checkout(fork)
    assert tried.ok, [one for one in tried.observations if not one.seen]
    seen = {one.what.partition("=")[0] for one in tried.observations}
    assert seen == SETTINGS | {"agent made", "one plan", "one update", "save and load", "act_vec"}
    assert tried.untried == () and snapshot(fork) == before


def test_a_setting_that_does_not_act_is_named_with_what_was_expected_and_found(fork, capsys):
    path = fork / TRAINER
    text = path.read_text()
    assert "for _ in range(num_updates):" in text
    path.write_text(text.replace("for _ in range(num_updates):", "for _ in range(1):"))
    with pytest.raises(SystemExit) as ended:
        main(["patch", "try", str(fork)])
    out = capsys.readouterr().out
    assert ended.value.code == 1
    (line,) = [line for line in out.splitlines() if line.startswith("utd=0.5")]
    assert "NOT SEEN: expected 15 updates; found 26" in line
    assert any(line.startswith("device=cpu") and "seen: cpu" in line for line in out.splitlines())
    assert "next: `tdmpc2-lean patch revert" in out and " utd" in out.splitlines()[-1]


@pytest.mark.slow
def test_code_without_a_patch_is_tried_and_told_apart(fork, capsys):
    patching.revert(fork)
    with pytest.raises(SystemExit) as ended:
        main(["patch", "try", str(fork)])
    out = capsys.readouterr().out
    assert ended.value.code == 0 and "4 of 4 seen" in out and "no patch is applied" in out


@pytest.mark.slow
def test_a_full_disk_is_told_as_one_and_says_nothing_about_the_code(fork):
    """A limit on the size of files stands in for it."""
    words = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
    words += "from tdmpc2_lean.cli import main; main(sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", words, "patch", "try", str(fork)], capture_output=True, text=True)
    assert done.returncode == 2 and "There is no room in" in done.stderr and "SEEN" not in done.stdout


def test_an_upstream_whose_code_cannot_be_tried_is_told(official_dreamerv3, tmp_path):
    folder = tmp_path / "fork"
    shutil.copytree(official_dreamerv3.root, folder, ignore=shutil.ignore_patterns(".git", "__pycache__"))
    with pytest.raises(UserError, match="how to try DreamerV3"):
        try_checkout(folder)
