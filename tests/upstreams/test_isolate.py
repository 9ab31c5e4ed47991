"""Official code in this process: any number of times, patched and unpatched, without a trace of its names."""

import copy
import pickle
import sys
import traceback
import types

import pytest

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.upstreams import UPSTREAMS
from tdmpc2_lean.upstreams.isolate import load

BARE = (*UPSTREAMS["tdmpc2"].modules, "train", "evaluate")


def configuration(isolated, task, monkeypatch):
    """The official default configuration for a task, parsed by the official code."""
    import hydra
    from omegaconf import OmegaConf

    raw = OmegaConf.load(isolated.code_dir / "config.yaml")
    raw.pop("defaults", None)
    ours = {"task": task, "model_size": 1, "checkpoint": "", "data_dir": "", "compile": False}
    raw = OmegaConf.merge(raw, ours)
    monkeypatch.setattr(hydra.utils, "get_original_cwd", lambda: ".")
    return isolated.module("common.parser").parse_cfg(raw)


def bare_names():
    """Which of sys.modules' names are the official code's own."""
    return {name for name in sys.modules if name.split(".")[0] in BARE}


def test_three_loads_live_in_one_process_and_leave_the_users_modules_alone(
    any_checkout, monkeypatch, tmp_path
):
    import shutil

    from dm_control import suite

    users = types.ModuleType("common")
    users.mine = "untouched"
    monkeypatch.setitem(sys.modules, "common", users)
    before, tasks, path = bare_names(), suite.ALL_TASKS, list(sys.path)
    changed = tmp_path / "changed"
    shutil.copytree(any_checkout.root, changed, ignore=shutil.ignore_patterns("__pycache__"))
    changed_code = changed / any_checkout.code_dir.relative_to(any_checkout.root)
    with open(changed_code / "common/seed.py", "a") as file:
        file.write("\nchanged = True\n")
    loads = [load(code_dir) for code_dir in (any_checkout.code_dir, any_checkout.code_dir, changed_code)]
    for isolated in loads:
        cfg = configuration(isolated, "cartpole-balance", monkeypatch)
        env = isolated.module("envs").make_env(cfg)
        observation = env.reset()
        assert tuple(observation.shape) == (5,) and cfg.action_dim == 1
        assert isolated.module("tdmpc2").TDMPC2.__module__ == f"{isolated.package}.tdmpc2"
        isolated.module("trainer.online_trainer")
    assert [hasattr(isolated.module("common.seed"), "changed") for isolated in loads] == [False, False, True]
    assert len({isolated.module("common.layers").SimNorm for isolated in loads}) == 3
    assert sys.modules["common"] is users and users.mine == "untouched"
    assert bare_names() == before
    assert sys.path == path and suite.ALL_TASKS == tasks


def test_the_tasks_that_the_official_code_adds_to_dm_control_exist_in_every_load(official, monkeypatch):
    for isolated in (load(official.code_dir), load(official.code_dir)):
        cfg = configuration(isolated, "cheetah-jump", monkeypatch)
        env = isolated.module("envs").make_env(cfg)
        env.reset()
        assert cfg.obs_shape == {"state": (17,)}
        assert env.unwrapped.task.__class__.__module__ == f"{isolated.package}.envs.tasks.cheetah"


def test_objects_of_isolated_classes_can_be_copied_and_pickled(any_checkout, monkeypatch):
    isolated = load(any_checkout.code_dir)
    cfg = configuration(isolated, "cartpole-balance", monkeypatch)
    norm = isolated.module("common.layers").SimNorm(cfg)
    assert type(copy.deepcopy(norm)) is type(pickle.loads(pickle.dumps(norm))) is type(norm)


def test_torch_compile_traces_isolated_functions_in_one_graph(any_checkout):
    import torch

    math = load(any_checkout.code_dir).module("common.math")
    values = torch.linspace(-3, 3, 7)
    compiled = torch.compile(math.symlog, backend="eager", fullgraph=True)
    assert torch.equal(compiled(values), math.symlog(values))


# ---------------------------------------------------------------------------------- import statements


@pytest.fixture
def code_dir(tmp_path):
    """A folder with modules that import each other in every way Python has."""
    files = {
        "common/__init__.py": "where = 'here'\n",
        "common/layers.py": "from . import math\nfrom .math import number\n",
        "common/math.py": "number = 7\n",
        "envs/wrappers/inner.py": "from common.math import number\n",
        "plain.py": "import common\nimport math, common.layers\nimport common.math as m\n"
        "from common import layers as l, math as n\nimport envs.wrappers.inner\n",
        "late.py": "def number():\n    import common.math\n    from common import layers\n"
        "    return common.math.number + layers.number\nclass A:\n    import common.math as m\n",
        "suites.py": "from dm_control import mjcf, suite\nimport dm_control.suite as one\n"
        "import dm_control.suite\nfrom dm_control.suite import cartpole\n",
        "broken.py": "x = 1\n\n\nimport common\n\nraise ValueError('line six')\n",
    }
    for path, text in files.items():
        (tmp_path / "code" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "code" / path).write_text(text)
    return tmp_path / "code"


def test_every_form_of_import_statement_finds_the_loads_own_module(code_dir):
    isolated = load(code_dir)
    own = isolated.module
    plain = own("plain")
    assert plain.common is own("common") and plain.common.layers is own("common.layers")
    assert plain.m is plain.n is own("common.math") and plain.l is own("common.layers")
    assert plain.math is __import__("math")
    assert plain.envs.wrappers.inner.number == 7
    assert own("late").number() == 14 and own("late").A.m is own("common.math")


def test_a_load_has_a_dm_control_suite_of_its_own_and_shares_the_rest(code_dir):
    import dm_control.mjcf
    import dm_control.suite

    suites = load(code_dir).module("suites")
    assert suites.suite is suites.one is suites.dm_control.suite
    assert suites.suite is not dm_control.suite
    assert suites.suite.cartpole is suites.cartpole
    assert suites.suite.ALL_TASKS == dm_control.suite.ALL_TASKS
    assert suites.mjcf is suites.dm_control.mjcf is dm_control.mjcf


def test_a_traceback_shows_the_official_file_and_line(code_dir):
    with pytest.raises(ValueError) as error:
        load(code_dir).module("broken")
    last = traceback.extract_tb(error.value.__traceback__)[-1]
    assert (last.filename, last.lineno) == (str(code_dir / "broken.py"), 6)


def test_nothing_is_written_into_the_code_folder(code_dir):
    load(code_dir).module("plain")
    assert not list(code_dir.rglob("__pycache__"))


def test_a_folder_without_code_is_refused(tmp_path, code_dir):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError):
        load(tmp_path / "empty")
    with pytest.raises(UserError, match="trainer"):
        load(code_dir, ("common", "trainer"))
