"""A small git repository that stands for an upstream, so that much can be tested without one."""

import subprocess
from dataclasses import replace

import pytest

from tdmpc2_lean.upstreams import UPSTREAMS, add, checkout, registry, repository, tree

FILES = {
    "README.md": b"made for a test\n",
    "data/run.sh": b"#!/bin/sh\n",
    "tdmpc2/__init__.py": b"",
    "tdmpc2/train.py": b"from common import layers\n",
    "tdmpc2/tdmpc2.py": b"import common\n",
    "tdmpc2/config.yaml": b"seed: 1\r\n",
    "tdmpc2/common/__init__.py": b"name = 'made'\n",
    "tdmpc2/common/layers.py": b"size = 1\n",
    "tdmpc2/envs/__init__.py": b"",
    "tdmpc2/trainer/__init__.py": b"",
    # Attributes by which `git archive` and `git checkout` would change files.
    ".gitattributes": b"*.sh export-ignore\n*.yaml text eol=lf\ntdmpc2/common/*.py export-subst\n",
    ".gitignore": b"logs/\nsecret*.py\n",
}


@pytest.fixture(scope="session", name="git")
def git_():
    """git(folder, *words): what git printed in that folder."""
    return git


def git(where, *words):
    """What git printed in that folder."""
    identity = ("-c", "user.name=Tester", "-c", "user.email=tester@example.invalid")
    command = ["git", "-C", str(where), "-c", "core.autocrlf=false", *identity, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def clone(tmp_path, own_cache, monkeypatch):
    """A working tree with two commits, the first of which is the pin of an upstream in place of tdmpc2."""
    root = tmp_path / "clone"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main")
    # Raw blobs whatever the attributes say, as a repository may hold them.
    (root / ".git/info/attributes").write_text("* -text\n")
    for path, content in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    (root / "data/run.sh").chmod(0o755)
    (root / "link").symlink_to("README.md")
    git(root, "add", "--all", "--force")
    git(root, "commit", "--quiet", "--message=first")
    git(root, "tag", "v1")
    pin = git(root, "rev-parse", "HEAD")
    git(root, "checkout", "--quiet", "-b", "topic")
    (root / "tdmpc2/common/layers.py").write_bytes(b"size = 2\n")
    git(root, "commit", "--quiet", "--all", "--message=second")
    git(root, "checkout", "--quiet", "main")
    made = replace(
        UPSTREAMS["tdmpc2"],
        url="https://host.invalid/tdmpc2",
        pin=pin,
        trees={pin: git(root, "rev-parse", "HEAD^{tree}")},
        copyright="nobody",
        issues=(),
    )
    monkeypatch.setitem(registry.UPSTREAMS, "tdmpc2", made)
    assert checkout.UPSTREAMS is registry.UPSTREAMS and repository.UPSTREAMS is registry.UPSTREAMS
    assert tree.tree_id(root) == made.pin_tree
    return root


@pytest.fixture
def history(clone, git, monkeypatch):
    """(older official commit, pin) of an upstream whose history is in the cache."""
    older, pin = git(clone, "rev-parse", "main"), git(clone, "rev-parse", "topic")
    known = replace(UPSTREAMS["tdmpc2"], pin=pin, trees={pin: git(clone, "rev-parse", "topic^{tree}")})
    monkeypatch.setitem(registry.UPSTREAMS, "tdmpc2", known)
    add(clone)
    return older, pin
