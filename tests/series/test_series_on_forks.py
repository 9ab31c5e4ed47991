# ruff: noqa: E501 (sources and what becomes of them, on one line each)
"""The series on code that a fork has changed: each patch is refused by name, or is right. Nothing is run here."""

import ast
import re

import pytest

from tdmpc2_lean import patching
from tdmpc2_lean.patching import check
from tests.conftest import official_checkout
from tests.patching.conftest import write_files

TRAINER = "tdmpc2/trainer/online_trainer.py"
AGENT = "tdmpc2/tdmpc2.py"
OF_THE_LOOP = {"seeding", "utd", "artifacts"}  # and checkpoint, which needs seeding


def fork_of(checkout, folder, changes: dict):
    """The checkout's Python and YAML with {file: function of its text, or its text} changed."""
    files = {}
    for path in checkout.root.rglob("*"):
        name = path.relative_to(checkout.root).as_posix()
        if path.suffix in (".py", ".yaml") and path.is_file() and ".git" not in path.parts:
            files[name] = path.read_bytes()
    for name, change in changes.items():
        old = files.get(name, b"").decode()
        new = change(old) if callable(change) else change
        assert new != old, f"{name}: the change changes nothing"
        files[name] = new.encode()
    return write_files(folder, files)


def put(old: str, new: str, count: int = 1):
    def change(text: str) -> str:
        assert text.count(old) >= count, f"{old!r} is not there"
        return text.replace(old, new)

    return change


def refused(root, upstream="tdmpc2") -> dict:
    """{patch: what is said of it} of those that do not apply, needed ones apart."""
    fits = check(root, patching.read_series(upstream)).fits
    return {fit.patch.name: " ".join(map(str, fit.lost)) + (fit.problem or "") for fit in fits if fit.lost or fit.problem}


def test_one_blank_line_on_top_changes_nothing_else(official, tmp_path):
    plain = check_and_render(fork_of(official, tmp_path / "plain", {}))
    shifted = check_and_render(fork_of(official, tmp_path / "fork", {TRAINER: lambda text: "\n" + text}))
    assert shifted[TRAINER] == b"\n" + plain[TRAINER]


def test_code_in_a_folder_of_another_name_takes_every_patch(official, tmp_path):
    root = fork_of(official, tmp_path / "fork", {})
    (root / "tdmpc2").rename(root / "agent")
    fits = check(root).fits
    assert {fit.patch.name for fit in fits} >= {patch.name for patch in patching.read_series("tdmpc2").patches}
    assert [(fit.patch.name, fit.lost, fit.problem) for fit in fits if fit.lost or fit.problem] == []


def check_and_render(root):
    from tdmpc2_lean.patching.record import original_files, store_of

    store = store_of(root)
    return patching.render_series(patching.read_series("tdmpc2").patches, original_files(store, store.state()))


@pytest.mark.parametrize(
    ("changes", "names", "says"),
    [
        # Another trainer, a derived one, and one whose updates are gone.
        ({"tdmpc2/train.py": put("trainer.online_trainer import OnlineTrainer", "trainer.my_trainer import OnlineTrainer"),
          "tdmpc2/trainer/my_trainer.py": "class OnlineTrainer:\n    def train(self):\n        pass\n"},
         OF_THE_LOOP, "OnlineTrainer (tdmpc2/trainer/my_trainer.py)"),
        ({"tdmpc2/train.py": put("trainer.online_trainer import OnlineTrainer", "trainer.my_trainer import MyTrainer as OnlineTrainer"),
          "tdmpc2/trainer/my_trainer.py": "from trainer.online_trainer import OnlineTrainer\n\n\n"
          "class MyTrainer(OnlineTrainer):\n    def train(self):\n        pass\n"},
         OF_THE_LOOP, "which has a `train` of its own (tdmpc2/trainer/my_trainer.py)"),
        ({TRAINER: put("\t\t\t\tfor _ in range(num_updates):\n\t\t\t\t\t_train_metrics = self.agent.update(self.buffer)\n",
                       "\t\t\t\t# for _ in range(num_updates):\n\t\t\t\t# \t_train_metrics = self.agent.update(self.buffer)\n")},
         {"utd"}, "the number of updates would be computed, and nothing made of it"),
        # Names that are there already.
        ({"tdmpc2/config.yaml": put("batch_size:", "utd: 2\nbatch_size:")}, {"utd"}, "the key `utd` is there already, at line"),
        ({"tdmpc2/config.yaml": put("compile:", "device: cuda\ncompile:")}, {"device"}, "the key `device` is there already"),
        ({AGENT: put("\t@torch.no_grad()\n\tdef _plan(", "\tdef plan_vec(self, obs):\n\t\treturn obs\n\n\t@torch.no_grad()\n\tdef _plan(")},
         {"plan-vec"}, "`plan_vec` is taken: TDMPC2 has it"),
        ({"tdmpc2/common/buffer.py": put("\tdef _init(", "\tdef state_dict(self):\n\t\treturn {}\n\n\tdef _init(")},
         {"checkpoint"}, "`state_dict` is taken: Buffer has it"),
        ({TRAINER: put("self._ep_idx = 0", "self._ep_idx = 0\n\t\tself.checkpoint = None")},
         {"checkpoint"}, "`checkpoint` is taken: OnlineTrainer has it"),
        ({"tdmpc2/envs/wrappers/tensor.py": put("super().__init__(env)", "super().__init__(env)\n\t\tself.max_episode_steps = 3")},
         {"current-stack"}, "`max_episode_steps` is taken: TensorWrapper has it"),
        # The planner's own interfaces.
        ({AGENT: put("def _estimate_value(self, z, actions, task)", "def _estimate_value(self, z, actions, task, scale)")},
         {"plan-vec"}, "it takes `z, actions, task, scale`"),
        # An agent that is something else, or another agent.
        ({AGENT: put("class TDMPC2(torch.nn.Module)", "class TDMPC2(Agent)")}, {"checkpoint"}, "it is TDMPC2(Agent)"),
        ({"tdmpc2/train.py": put("from tdmpc2 import TDMPC2", "from mine import TDMPC2"), "tdmpc2/mine.py": "class TDMPC2:\n    pass\n"},
         {"device"}, "it makes no TDMPC2"),
    ],
    ids=["another-trainer", "derived-trainer", "no-updates", "key-utd", "key-device", "plan_vec", "state_dict", "attribute",
         "property", "one-argument-more", "no-module", "another-agent"],
)  # fmt: skip
def test_a_patch_that_would_be_wrong_is_refused_by_name_and_the_others_apply(official, tmp_path, changes, names, says):
    found = refused(fork_of(official, tmp_path / "fork", changes))
    assert set(found) == names, found
    assert all(says in text for text in found.values()), found


@pytest.mark.official
def test_the_official_branch_that_plans_for_many_environments_gets_no_second_way_to_do_so(tmp_path):
    checkout = official_checkout("tdmpc2", "97c1447", ": its branch vectorized_env")
    found = refused(fork_of(checkout, tmp_path / "fork", {}))
    assert "plans for many environments by itself" in found["plan-vec"]


def test_a_device_that_the_checkout_lets_choose_is_there_already(official, tmp_path):
    def chosen(text):
        return text.replace("'cuda:0'", "cfg.device")

    changes = {"tdmpc2/config.yaml": put("compile:", "device: cuda\ncompile:")}
    changes |= {name: chosen for name in (AGENT, "tdmpc2/common/scale.py")}
    assert refused(fork_of(official, tmp_path / "fork", changes)) == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"tdmpc2/train.py": put("\tassert torch.cuda.is_available()\n", "")},
        {AGENT: put("self.cfg = cfg", "self.cfg: dict = cfg")},
        {TRAINER: put("num_updates = 1", "num_updates: int = 1")},
        {TRAINER: put("import numpy as np\n", "import numpy as np, os\n")},
        {TRAINER: put("import numpy as np\n", "try:\n\timport numpy as np\nexcept ImportError:\n\tnp = None\n")},
        {AGENT: put(", capturable=True)", ",\n\t\t\tcapturable=True, # for graphs\n\t\t)", 2)},
        {TRAINER: lambda text: text.rstrip("\n")},
        {"tdmpc2/config.yaml": lambda text: text.rstrip("\n")},
    ],
    ids=["no-assert", "annotated", "annotated-local", "import-of-two", "import-in-try", "comment", "no-newline", "no-newline-yaml"],
)  # fmt: skip
def test_ordinary_editing_loses_no_anchor(official, tmp_path, changes):
    assert refused(fork_of(official, tmp_path / "fork", changes)) == {}


# --------------------------------------------------------------------------------------------------------- DreamerV3


def test_keywords_for_jit_that_are_there_already_are_no_lost_anchors(official_dreamerv3, tmp_path):
    root = fork_of(official_dreamerv3, tmp_path / "fork", {})
    patching.apply(root, ["current-jax"], patching.read_series("dreamerv3"))
    patching.revert(root, forget=True)
    first = check(root, patching.read_series("dreamerv3")).fits[0]
    assert first.patch.name == "current-jax" and first.already and first.ok


def test_a_setting_that_nothing_reads_is_not_added(official_dreamerv3, tmp_path):
    name = "embodied/run/train.py"
    gone = {name: lambda text: re.sub(r"  if args\.from_checkpoint:\n(    .*\n)+", "", text)}
    found = refused(fork_of(official_dreamerv3, tmp_path / "fork", gone), "dreamerv3")
    assert set(found) == {"from-checkpoint"} and "nothing would read" in found["from-checkpoint"]


def test_an_import_that_a_fork_uses_elsewhere_stays(official_dreamerv3, tmp_path):
    name = "embodied/run/train.py"
    used = {name: lambda text: text.replace("import collections\n", "import collections\nimport pickle\n")
            + "\n\ndef keep(x):\n  return pickle.dumps(x)\n"}  # fmt: skip
    root = fork_of(official_dreamerv3, tmp_path / "fork", used)
    patching.apply(root, ["from-checkpoint"], patching.read_series("dreamerv3"))
    text = (root / name).read_text()
    assert "import pickle\n" in text
    ast.parse(text)


def test_another_loop_than_the_patched_one_is_told(official_dreamerv3, tmp_path):
    other = {"dreamerv3/main.py": put("embodied.run.train(", "mine.train(")}
    found = refused(fork_of(official_dreamerv3, tmp_path / "fork", other), "dreamerv3")
    assert {"save-on-exit", "from-checkpoint"} <= set(found) and "another loop" in found["save-on-exit"]
