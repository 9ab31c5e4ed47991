# ruff: noqa: E501 (sources and what becomes of them, on one line each)
"""What a patch requires of a checkout beyond its places: met, or refused with what was found. Small sources."""

import textwrap

import pytest

from tdmpc2_lean.patching import LostAnchors, SeriesError, apply, check, render
from tests.patching.conftest import snapshot, write_files, write_series

LOOP = "class Loop(Base):\n    def __init__(self, cfg):\n        self.cfg = cfg\n\n    def run(self, env, n=1):\n        env.step()\n"
CODE = {
    "code/loop.py": LOOP,
    "code/base.py": "from torch import nn\n\n\nclass Base(nn.Module):\n    pass\n",
    "code/main.py": "from loop import Loop\n\n\ndef main(cfg):\n    Loop(cfg).run(None)\n",
}
CODE["code/loop.py"] = "from base import Base\n\n\n" + LOOP
EDIT = '\n[[edit]]\nfile = "code/loop.py"\ninside = "Loop.run"\nfind = "env.step()"\ndo = "replace"\ntext = "env.step(2)"\n'


def patch(tmp_path, requires: str, edits: str = EDIT, code: str = ""):
    toml = f'title = "t"\nwhy = "w"\n{textwrap.dedent(requires)}\n{edits}'
    return write_series(tmp_path / "one", {"p": {"patch.toml": toml, "code.py": textwrap.dedent(code)}})["p"]


def requires(what: str, inside: str | None = None, file="code/loop.py", **more) -> str:
    lines = [f'file = "{file}"', what, 'why = "it would do nothing"']
    lines += [f'inside = "{inside}"'] * (inside is not None) + [f"{key} = {value}" for key, value in more.items()]
    return "[[requires]]\n" + "\n".join(lines)


MET = {
    "derives": requires('derives = "torch.nn.Module"', "Loop"),
    "arguments": requires('arguments = "env"', "Loop.run"),
    "find": requires('find = ["env.stop()", "env.step()"]', "Loop.run"),
    "lacks": requires('lacks = "env.stop()"', "Loop.run"),
    "free": requires('free = ["count", "other"]', "Loop"),
    "free in a function": requires('free = ["count"]', "Loop.run"),
    "reaches": requires('reaches = "code/loop.py:Loop.run"', file="code/main.py"),
}
UNMET = {
    "derives": ("code/base.py", "nn.Module", "object", "it is Loop(Base), Base(object)"),
    "arguments": ("code/loop.py", "env, n=1", "env, n", "it takes `env, n`"),
    "find": ("code/loop.py", "env.step()", "env.go()", "it is not"),
    "lacks": ("code/loop.py", "env.step()", "env.step(); env.stop()", "it is, at line 9"),
    "free": ("code/loop.py", "self.cfg = cfg", "self.count = cfg", "`count` is taken: Loop has it at line 6"),
    "free in a function": ("code/loop.py", "env.step()", "count = 1; env.step()", "`count` is taken: line 9"),
    "reaches": ("code/main.py", "Loop(cfg)", "print(cfg)", "it makes no Loop"),
}


@pytest.mark.parametrize("kind", MET)
def test_what_is_required_is_met_or_the_refusal_says_what_was_found_and_why_it_matters(tmp_path, kind):
    one = patch(tmp_path, MET[kind])
    files = {name: text.encode() for name, text in CODE.items()}
    render(one, files)
    name, old, new, says = UNMET[kind]
    assert old in CODE[name]
    files[name] = CODE[name].replace(old, new).encode()
    with pytest.raises(LostAnchors) as refused:
        render(one, files)
    anchor = next(anchor for anchor in refused.value.anchors if anchor.edit is None)
    assert says in str(anchor) and "Why: it would do nothing" in str(anchor)
    assert "requirement is not met" in refused.value.message


REACHES = requires('reaches = "code/loop.py:Loop.run"', file="code/main.py")
OTHER = "from base import Base\n\n\nclass Other(Base):\n    def run(self, env):\n        env.go()\n"
DERIVED = "from loop import Loop\n\n\nclass Derived(Loop):\n    def {}(self, env):\n        {}\n"


@pytest.mark.parametrize(
    ("files", "says"),
    [
        # Another class, imported beside the one.
        ({"main.py": "from loop import Loop\nfrom other import Other\nOther(1).run(2)\n", "other.py": OTHER},
         "it makes no Loop, but Other (code/other.py)"),
        # A class derived from it: with its own method, with one that calls its, without one.
        ({"main.py": "from mine import Derived\nDerived(1).run(2)\n", "mine.py": DERIVED.format("run", "env.go()")},
         "Derived, which has a `run` of its own (code/mine.py)"),
        ({"main.py": "from mine import Derived\nDerived(1).run(2)\n",
          "mine.py": DERIVED.format("run", "super().run(env)")}, None),
        ({"main.py": "from mine import Derived\nDerived(1).run(2)\n", "mine.py": DERIVED.format("stop", "pass")}, None),
        # By way of another module, as a module, under another name, relative, by a package's name.
        ({"main.py": "from make import make\nmake(1).run(2)\n", "make.py": "from loop import Loop\nmake = Loop\n"}, None),
        ({"main.py": "import loop\nloop.Loop(1).run(2)\n"}, None),
        ({"main.py": "from loop import Loop as L\nL(1).run(2)\n"}, None),
        ({"main.py": "from .loop import Loop\nLoop(1).run(2)\n", "__init__.py": ""}, None),
        ({"main.py": "from code.loop import Loop\nLoop(1).run(2)\n"}, None),
        # Only imported; only derived from.
        ({"main.py": "from loop import Loop\n"}, "it makes no Loop"),
        ({"main.py": "from loop import Loop\nclass Mine(Loop):\n  pass\n"}, "it makes no Loop"),
        # By a name in a text: any class may be meant.
        ({"main.py": "import hydra\nhydra.utils.instantiate(cfg.loop)\n"}, None),
        ({"main.py": None}, "the file is missing"),
    ],
)  # fmt: skip
def test_a_script_reaches_a_method_by_what_it_makes_not_by_what_it_imports(tmp_path, files, says):
    one = patch(tmp_path, REACHES)
    every = CODE | {f"code/{name}": text for name, text in files.items()}
    every = {name: text.encode() for name, text in every.items() if text is not None}
    if says is None:
        render(one, every)
    else:
        with pytest.raises(LostAnchors) as refused:
            render(one, every)
        assert says in str(refused.value.anchors[0])


def test_what_is_required_of_the_patched_code_is_looked_for_there(tmp_path):
    files = {name: text.encode() for name, text in CODE.items()}
    needs = requires('find = "env.step(2)"', "Loop.run", after="true")
    render(patch(tmp_path, needs), files)
    optional = EDIT.replace("env.step()", "env.go()").replace("do =", "count = [0, 1]\ndo =")
    with pytest.raises(LostAnchors, match=r"`env.step\(2\)` is needed there; it is not"):
        render(patch(tmp_path, needs, optional), files)
    files["code/loop.py"] += b"ENOUGH = True\n"
    render(patch(tmp_path, needs + '\nunless = "ENOUGH = True"\n', optional), files)


METHOD = '[[edit]]\nfile = "code/loop.py"\ninside = "Loop"\ndo = "append"\ncode = "Loop.count"\n'
COUNT = "class Loop:\n    @property\n    def count(self):\n        return 1\n"
LATER = LOOP.replace("    def run", "    def count(self):\n        return 0\n\n    def run")


@pytest.mark.parametrize(
    ("edit", "code", "source", "says"),
    [
        (METHOD, COUNT, "from base import Base\n\n\n" + LATER, "`count` is taken: Loop has it at line 8"),
        (METHOD, COUNT, LOOP.replace("self.cfg =", "self.count ="), "`count` is taken: Loop has it at line 3"),
        (METHOD, COUNT, LOOP.replace("    def __init__", "    count = 3\n\n    def __init__"), "Loop has it at line 2"),
        (METHOD, COUNT, "class Base:\n    def count(self): ...\n\n\n" + LOOP, "Base has it at line 2"),
        ('[[edit]]\nfile = "code/loop.py"\ndo = "append"\ncode = "count"\nwhole = true\n', "def count():\n    pass\n",
         "count = 1\n" + LOOP, "`count` is there already, at line 1"),
        ('[[edit]]\nfile = "code/loop.py"\nfind = "class Loop(Base): $$$BODY"\ndo = "before"\ncode = "imports"\n',
         "def imports():\n    from copy import deepcopy\n", "def deepcopy(x):\n    return x\n\n\n" + LOOP,
         "`deepcopy` is there already, at line 1, and is not copy.deepcopy"),
        ('[[edit]]\nfile = "code/loop.py"\ninside = "Loop.run"\nfind = "n=$N"\ndo = "replace"\ntext = "n=$N, seed=0"\n', "",
         LOOP.replace("env, n", "env, seed, n"), "the parameter `seed` is there already, of Loop.run at line 5"),
        ('[[edit]]\nfile = "code/loop.py"\nfind = "step(n=$N)"\ndo = "replace"\ntext = "step(n=$N, seed=0)"\n', "",
         "step(n=1)\nf(a=1)\n", None),
        ('[[edit]]\nfile = "code/loop.py"\nfind = "n=$N"\ndo = "replace"\ntext = "n=$N, seed=0"\n', "",
         "step(seed=3, n=1)\n", "the argument `seed` is there already, of step at line 1"),
    ],
)  # fmt: skip
def test_a_name_that_is_there_already_is_not_given_to_a_second_thing(tmp_path, edit, code, source, says):
    one = patch(tmp_path, "", edit, code)
    if says is None:
        render(one, {"code/loop.py": source.encode()})
        return
    with pytest.raises(LostAnchors) as refused:
        render(one, {"code/loop.py": source.encode()})
    assert says in str(refused.value)


def test_the_same_import_twice_is_no_collision(tmp_path):
    edit = '[[edit]]\nfile = "f.py"\nfind = "import torch"\ndo = "before"\ncode = "imports"\n'
    one = patch(tmp_path, "", edit, "def imports():\n    from copy import deepcopy\n")
    assert render(one, {"f.py": b"from copy import deepcopy\nimport torch\n"})


SEED = """
[settings.seed]
type = "integer"
default = 1
meaning = "Of everything."

[[edit]]
file = "code/config.yaml"
key = "steps"
do = "before"
code = "config.yaml:seed"
"""


@pytest.mark.parametrize(
    ("config", "line"),
    [("seed: 7 # mine\nsteps: 1\n", 1), ("steps: 1\n'seed': 7\n", 1), ("a:\n  seed: 2\nsteps: 1\n", None)],
)
def test_a_key_of_a_configuration_is_never_written_twice(tmp_path, config, line):
    toml = f'title = "t"\nwhy = "w"\n{SEED}'
    one = write_series(tmp_path / "s", {"p": {"patch.toml": toml, "config.yaml": "seed:\n    seed: 1\n"}})["p"]
    files = {"code/config.yaml": config.encode()}
    if line is None:
        assert render(one, files)["code/config.yaml"].count(b"seed") == 2
    else:
        with pytest.raises(LostAnchors, match=f"the key `seed` is there already, at line {line}"):
            render(one, files)


def test_a_key_that_was_there_twice_before_is_not_the_patchs_doing(tmp_path):
    toml = f'title = "t"\nwhy = "w"\n{SEED}'
    one = write_series(tmp_path / "s", {"p": {"patch.toml": toml, "config.yaml": "seed:\n    seed: 1\n"}})["p"]
    assert render(one, {"code/config.yaml": b"a: 1\na: 2\nsteps: 1\n"})


DELETE = '[[edit]]\nfile = "f.py"\nfind = "import pickle"\ncount = [{}, 1]\ndo = "delete"\n'
CALL = '[[edit]]\nfile = "f.py"\ninside = "f"\nfind = "pickle.loads($X)"\ncount = [0, 1]\ndo = "replace"\ntext = "g($X)"\n'
USED = "import pickle\n\n\ndef f(x):\n    return pickle.loads(x)\n\n\ndef h(x):\n    return pickle.dumps(x)\n"
INSIDE = USED.replace("def h(x):", "def h(x):\n    import pickle")


def test_an_import_that_is_still_used_is_not_deleted(tmp_path):
    optional, needed = patch(tmp_path, "", DELETE.format(0) + CALL), patch(tmp_path, "", DELETE.format(1) + CALL)
    kept = USED.replace("pickle.loads", "g").encode()
    assert render(optional, {"f.py": USED.encode()}) == {"f.py": kept}
    with pytest.raises(LostAnchors, match="`import pickle` cannot go: what it imports is used at line 8"):
        render(needed, {"f.py": USED.encode()})
    for one in (optional, needed):  # a function has its own
        assert b"import pickle\n\n\ndef f" not in render(one, {"f.py": INSIDE.encode()})["f.py"]


@pytest.mark.parametrize(
    ("source", "rest"),
    [
        ("import os, pickle\n", "import os\n"),
        ("import pickle, os\n", "import os\n"),
        ("import a, pickle, b\n", "import a, b\n"),
        ("import pickle5\n", "import pickle5\n"),
        ("import pickle as p\n", "import pickle as p\n"),
    ],
)
def test_of_an_import_of_several_only_the_one_is_deleted(tmp_path, source, rest):
    one = patch(tmp_path, "", DELETE.format(0))
    assert render(one, {"f.py": source.encode()}).get("f.py", source.encode()).decode() == rest


def test_nothing_is_written_where_a_requirement_is_not_met_and_check_says_which(tmp_path, capsys):
    series = write_series(
        tmp_path / "s", {"p": {"patch.toml": f'title = "t"\nwhy = "w"\n{REACHES}\n{EDIT}', "code.py": ""}}
    )
    root = write_files(tmp_path / "checkout", CODE | {"code/main.py": "print(1)\n"})
    before = snapshot(root)
    with pytest.raises(LostAnchors):
        apply(root, series=series)
    assert snapshot(root) == before
    (fit,) = check(root, series).fits
    assert not fit.ok and fit.lost[0].edit is None


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ('[[requires]]\nfile = "f.py"\nwhy = "w"\n', "takes one of find, lacks"),
        ('[[requires]]\nfile = "f.py"\nfind = "a"\nlacks = "b"\nwhy = "w"\n', "has find, lacks"),
        ('[[requires]]\nfile = "f.py"\nfind = "a"\n', "`file`, `why` and `find` are texts"),
        ('[[requires]]\nfile = "f.py"\nfind = "a"\nwhy = " "\n', "`why` is missing"),
        ('[[requires]]\nfile = "f.py"\nderive = "A"\nwhy = "w"\n', "unknown key 'derive'. Did you mean 'derives'"),
        ('[[requires]]\nfile = "f.py"\nderives = "A"\nwhy = "w"\n', "`derives` takes `inside`"),
        ('[[requires]]\nfile = "f.yaml"\nreaches = "f.py:A.b"\nwhy = "w"\n', "`reaches` is about Python"),
        ('[[requires]]\nfile = "f.py"\nreaches = "A.b"\nwhy = "w"\n', "`reaches` is `file.py:Class.method`"),
        ('[[requires]]\nfile = "../f.py"\nfind = "a"\nwhy = "w"\n', "could leave the checkout"),
        ('[requires]\nfile = "f.py"\n', "two brackets"),
    ],
)
def test_a_requirement_that_is_not_well_formed_is_named(tmp_path, toml, says):
    with pytest.raises(SeriesError, match=f"Patch 'p': .*{says}"):
        patch(tmp_path, toml)
