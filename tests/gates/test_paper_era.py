"""Paper-era code as subject and reference: read for this machine only as far as it needs it, and judged by itself."""

import ast

import pytest

from tdmpc2_lean.validation.gates import cpu_shim, names_tdmpc2, run
from tdmpc2_lean.validation.gates.cases import Case, verdict
from tdmpc2_lean.validation.gates.results import NOT_JUDGED, PASS
from tdmpc2_lean.validation.gates.subjects import find_subject

FILES = {
    "config.yaml": "task: x\n",
    "tdmpc2.py": "device = torch.device('cuda')\n",
    "common/buffer.py": "import torch\nbuffer = ReplayBuffer(pin_memory=True, prefetch=1)\n",
    "envs/__init__.py": "import gym\nfrom envs.maniskill import make_env as make_maniskill_env\n",
}
COMMITS = ("a19f91c", "5f6fade", "b67b21c")


@pytest.fixture
def old_code(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def read(code_dir, name):
    reading = cpu_shim.ReadForCPU(cpu_shim.needs(code_dir))
    return ast.unparse(ast.fix_missing_locations(reading.visit(ast.parse((code_dir / name).read_text()))))


def test_unpatched_old_code_is_read_for_this_machine(old_code, monkeypatch):
    monkeypatch.setattr(cpu_shim.importlib.util, "find_spec", lambda name: None)
    assert read(old_code, "tdmpc2.py") == "device = torch.device('cpu')"
    assert "ReplayBuffer(pin_memory=False, prefetch=0)" in read(old_code, "common/buffer.py")
    found = read(old_code, "envs/__init__.py")
    assert f"import {cpu_shim.STAND_IN} as gym" in found
    assert "except ImportError" in found and "raise UnknownTaskError" in found
    assert len(cpu_shim.needs(old_code)) == 4 and "its 'cuda' read as 'cpu'" in cpu_shim.needs(old_code).values()


def test_what_a_patch_has_changed_is_read_as_it_is_written(old_code, monkeypatch):
    monkeypatch.setattr(cpu_shim.importlib.util, "find_spec", lambda name: None)
    (old_code / "config.yaml").write_text("device: cuda:0\n")
    (old_code / "common/buffer.py").write_text("import torch\nbuffer = ReplayBuffer(pin_memory=True, prefetch=0)\n")
    (old_code / "envs/__init__.py").write_text("try:\n\timport gym\nexcept ImportError:\n\timport gymnasium as gym\n")
    assert cpu_shim.needs(old_code) == {}
    for name in FILES.keys() - {"config.yaml"}:
        assert read(old_code, name) == ast.unparse(ast.parse((old_code / name).read_text()))


def test_gym_itself_is_used_where_it_is_installed(old_code, monkeypatch):
    monkeypatch.setattr(cpu_shim.importlib.util, "find_spec", lambda name: object())
    assert "import gym\n" in read(old_code, "envs/__init__.py")


def test_a_batch_without_terminations_has_its_own_names():
    assert names_tdmpc2.batch((1, 2, 3, None)) == {"obs": 1, "action": 2, "reward": 3}
    assert list(names_tdmpc2.batch((1, 2, 3, 4, 5))) == ["obs", "action", "reward", "terminated", "task"]


def test_a_case_says_what_the_checkout_lacks_and_that_the_rest_was_compared():
    case = Case()
    case.lack("terminations")
    case.record("value", x=1)
    side = {"events": case.events, "lacks": None, "raised": None, "seconds": 0.0, "without": case.without}
    result = verdict("functions/one", side, side, "the reference")
    assert result.outcome == PASS and "without terminations, which the checkout lacks" in result.detail
    assert verdict("functions/one", side, side | {"events": [], "without": []}, "the reference").outcome != PASS


def test_a_reference_that_does_not_run_is_said_not_to_and_is_never_a_pass():
    side = {"events": [], "lacks": None, "raised": "ImportError: gym", "seconds": 0.0, "without": []}
    result = verdict("functions/one", side, side, "the reference")
    assert result.outcome == NOT_JUDGED and result.detail.startswith("cannot run on this stack: ")


@pytest.mark.slow
@pytest.mark.official
@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("gate", ["default-identity", "utd-count", "plan-vec-one", "resume", "seed"])
def test_the_patched_paper_era_code_passes_the_gate_against_itself_unpatched(tried_commits, commit, gate):
    checkouts = tried_commits("tdmpc2")
    found = [name for name in checkouts if name.startswith(commit)] or pytest.skip(f"no official code at {commit}")
    report = run.run(find_subject(found[0], upstream="tdmpc2"), [gate])
    assert report.ok, [(one.gate, one.detail) for one in report.results if one.outcome != PASS]
    if gate == "default-identity":
        assert "to unpatched tdmpc2" in report.results[0].detail
