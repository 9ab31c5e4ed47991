"""Small checkouts and series made up for the tests of the patch engine; no upstream text in them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tdmpc2_lean.patching import read_series

AGENT = '''\
"""An agent."""
import torch
from tools import make_tool


class Agent(Base):
\t"""Acts."""

\tdef __init__(self, cfg):
\t\tself.cfg = cfg
\t\tself.place = pick('here') # chosen
\t\tself.first = optimiser(fast=True)
\t\tself.second = optimiser(lr=cfg.lr, fast=True)

\t@no_grad()
\tdef act(self, obs):
\t\tassert torch.ready()
\t\tif obs is None:
\t\t\treturn 0
\t\t\t# nothing seen
\t\tsize, _ = torch.size_of(obs)
\t\treturn self.plan(obs) * size

\tdef plan(self, obs):
\t\treturn obs
'''
LOOP = "def loop(env):\n  count = 1\n  for _ in range(count):\n    env.step()\n  return count\n"
CONFIG = "# all settings\nseed: 1 # of everything\n\nnested:\n  deep: 2\n\nsteps: 10_000\n"
FILES = {
    "code/agent.py": AGENT,
    "code/loop.py": LOOP,
    "code/config.yaml": CONFIG,
    "code/empty.py": "",
    "README.md": "An agent.\n",
}

PLACE = {
    "patch.toml": """\
title = "Choose the place by name"
why = "It is written into the code today."

[settings.place]
type = "text"
nullable = true
default = "null"
meaning = "Where it runs."

[[edit]]
file = "code/agent.py"
inside = "Agent.__init__"
find = "self.place = pick($WHERE)"
do = "replace"
code = "place"

[[edit]]
file = "code/agent.py"
find = "fast=True"
count = 2
do = "replace"
text = "fast=self.place.fast"

[[edit]]
file = "code/config.yaml"
key = "seed"
do = "after"
code = "config.yaml:place"
""",
    "code.py": """\
def place(self, cfg, WHERE):
    # Any place will do.
    self.place = pick(cfg.place or WHERE)
""",
    "config.yaml": "place:\n  # where it runs\n  place: null\n",
}
COUNT = {
    "patch.toml": """\
title = "Count differently"
why = "One is not enough.\\n\\nTwo are."
fix = "loops run twice"
issue = "https://example.org/issues/7"

[[edit]]
file = "code/loop.py"
inside = "loop"
find = "count = 1"
do = "replace"
text = "count = 2"
""",
}
MANY = {
    "patch.toml": """\
title = "Act for many"
why = "One at a time is slow."
needs = ["place"]

[[edit]]
file = "code/agent.py"
inside = "Agent"
do = "append"
code = "Agent.act_many"

[[edit]]
file = "code/new/many.py"
do = "create"
code = "many.py"
like = "code/agent.py"
""",
    "code.py": '''\
class Agent:
    # Batched.
    @no_grad()
    def act_many(self, obs):
        """Actions for many observations.

            obs: (N, D)
        """
        return [self.act(one) for one in obs]
''',
    "many.py": "def many(n):\n    if n:\n        return n\n",
}
SERIES = {"place": PLACE, "count": COUNT, "many": MANY}


def write_files(root: Path, files) -> Path:
    """Files of text or bytes below root."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def write_series(folder: Path, patches):
    """A series folder with {name: {file: text}}, read."""
    if folder.exists():
        shutil.rmtree(folder)
    for name, files in patches.items():
        write_files(folder / name, files)
    (folder / "series").write_text("".join(f"{name}\n" for name in patches))
    return read_series(folder=folder)


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def commit_all(root: Path) -> Path:
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "upstream")
    return root


def snapshot(root: Path) -> dict:
    """Every file's bytes and permissions, and every folder, but for what git and the engine keep."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if name.split("/")[0] not in (".git", ".tdmpc2-lean"):
            data = os.readlink(path) if path.is_symlink() else None if path.is_dir() else path.read_bytes()
            found[name] = (data, path.lstat().st_mode)
    return found


@pytest.fixture(autouse=True)
def git_identity(tmp_path_factory, monkeypatch):
    """A git that knows its user and nothing of this machine's settings."""
    home = tmp_path_factory.mktemp("home")
    (home / "gitconfig").write_text(
        "[user]\n\tname = Ada\n\temail = ada@example.org\n[core]\n\tautocrlf = false\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("TDMPC2_LEAN_CACHE", str(home / "cache"))
    for name in list(os.environ):
        if name.startswith(("GIT_AUTHOR", "GIT_COMMITTER")) or name == "EMAIL":
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch):
    """What fsync is for, a power cut, no test here can make; a kill is seen by the page cache as well."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture
def series(tmp_path):
    return write_series(tmp_path / "series", SERIES)


@pytest.fixture
def plain(tmp_path):
    """A checkout without git."""
    return write_files(tmp_path / "plain", FILES)


@pytest.fixture
def clone(tmp_path):
    """A checkout with git."""
    return commit_all(write_files(tmp_path / "clone", FILES))


@pytest.fixture(params=["plain", "clone"])
def checkout(request):
    """A checkout, once without and once with git."""
    return request.getfixturevalue(request.param)
