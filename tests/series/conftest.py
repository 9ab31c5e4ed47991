"""What the tests of both series share."""

import shutil
import subprocess

import pytest


@pytest.fixture
def clone(tmp_path):
    """Makes a git repository with one commit of a checkout's files."""

    def make(checkout, name="clone"):
        folder = tmp_path / name
        shutil.copytree(checkout.root, folder, ignore=shutil.ignore_patterns(".tdmpc2-lean", "__pycache__"))
        for words in (
            ["init", "-q"],
            ["config", "user.name", "A Researcher"],
            ["config", "user.email", "researcher@example.org"],
            ["config", "core.autocrlf", "false"],
            ["add", "-A", "-f"],
            ["commit", "-q", "-m", "as upstream"],
        ):
            subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True)
        return folder

    return make
