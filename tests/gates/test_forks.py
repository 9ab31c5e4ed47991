"""A fork is not its own judge, and no wrong edit of it goes without a name: on copies of the official TD-MPC2."""

import dataclasses
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tdmpc2_lean.commands.gate import gate as gate_command
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.patching import read_series
from tdmpc2_lean.upstreams import UPSTREAMS, find_checkout
from tdmpc2_lean.validation.gates.accounting import importable
from tdmpc2_lean.validation.gates.results import NOT_JUDGED, PASS, UNPROVED
from tdmpc2_lean.validation.gates.run import run, same_text
from tdmpc2_lean.validation.gates.subjects import GateSubject, find_subject
from tdmpc2_lean.validation.gates.trace_tdmpc2 import TDMPC2Budget
from tests.upstreams.conftest import git

pytestmark = [pytest.mark.official, pytest.mark.usefixtures("forked")]
SHORT = TDMPC2Budget(steps=90)

# Wrong edits that training with small networks and short episodes does not notice: id of the change -> (after which
# text, was, now).
UNNOTICED = {
    "tdmpc2.py:TDMPC2.update_pi": ("def update_pi", "self.cfg.grad_clip_norm", "1e9"),
    "tdmpc2.py:TDMPC2._update": ("def _update", "self.cfg.grad_clip_norm", "1e9"),
    "tdmpc2.py:TDMPC2._get_discount": ("def _get_discount", "frac-1", "frac-1.5"),
    "tdmpc2.py:TDMPC2.save": ("def save", "self.model.state_dict()", "dict(self.model.named_parameters())"),
    "common/math.py:two_hot": ("def two_hot(", "+ 1) % cfg.num_bins", "+ 1).clamp(max=cfg.num_bins - 1)"),
    "common/scale.py:RunningScale.update": ("def update", "self.cfg.tau", "0.02"),
    "trainer/online_trainer.py:OnlineTrainer.eval": ("def eval", "t0=t==0", "t0=t==0 and i==0"),
    "common/logger.py:Logger.log": ("def log(", "d[keys[0]]", "d[keys[0]]+1"),
    "envs/__init__.py:make_env": ("def make_env(", "max(1000,", "max(500,"),
    "config.yaml:discount_max": ("", "discount_max: 0.995", "discount_max: 0.99"),
    "common/__init__.py:MODEL_SIZE": ("MODEL_SIZE", "'mlp_dim': 512", "'mlp_dim': 513"),
    "evaluate.py:evaluate": ("def evaluate", "set_seed(cfg.seed)", "set_seed(cfg.seed + 1)"),
}  # fmt: skip


def edit(code_dir: Path, ids) -> None:
    for name in ids:
        path = code_dir / name.partition(":")[0]
        text = path.read_text()
        after, was, now = UNNOTICED[name]
        at = text.index(was, text.index(after))
        path.write_text(text[:at] + now + text[at + len(was) :])


@pytest.fixture
def fork(official, tmp_path) -> Path:
    """A copy of the official files that knows nothing of where it comes from."""
    root = tmp_path / "fork"
    shutil.copytree(official.root, root, ignore=shutil.ignore_patterns(".tdmpc2-lean"))
    return root


@pytest.fixture
def cloned(fork) -> Path:
    """The same as a repository of somebody, with one commit of their own."""
    git(fork, "init", "--quiet", "--initial-branch=main")
    git(fork, "add", "--all")
    git(fork, "commit", "--quiet", "--message=mine")
    return fork


def test_edits_that_training_does_not_notice_are_unproved_by_name(official, fork):
    edit(fork / "tdmpc2", UNNOTICED)
    subject = GateSubject("fork", fork / "tdmpc2", official, None)
    assert {change.id for change in subject.accounting.changes} == set(UNNOTICED)
    report = run(subject, ["default-identity"], SHORT)
    assert report.results[0].outcome == PASS, report.results[0]
    rows = {row.gate.partition("/")[2]: row for row in report.results[1:]}
    assert {name: row.outcome for name, row in rows.items()} == dict.fromkeys(UNNOTICED, UNPROVED)
    assert report.exit_code == 3 and "stays at 1" in rows["common/scale.py:RunningScale.update"].detail


def test_a_harmless_change_that_is_executed_is_equal_and_says_on_what(official, fork):
    path = fork / "tdmpc2" / "common" / "layers.py"
    text = path.read_text()
    at = text.index("def forward", text.index("class NormedLinear"))
    end = text.index("):", at) + 2
    path.write_text(text[:end] + "\n\t\tkept = x.shape" + text[end:])
    subject = GateSubject("fork", fork / "tdmpc2", official, None)
    report = run(subject, ["default-identity"], SHORT)
    assert [row.outcome for row in report.results] == [PASS, PASS] and report.exit_code == 0
    assert report.results[1].gate == "change/common/layers.py:NormedLinear.forward"
    assert "default-identity" in report.results[1].detail and "events equal" in report.results[1].detail


def test_neutral_edits_need_no_run(official, fork):
    path = fork / "tdmpc2" / "tdmpc2.py"
    text = path.read_text()
    assert "pi_grad_norm" in text
    path.write_text("# mine\n" + text.replace("pi_grad_norm =", "norm_of_pi ="))
    subject = GateSubject("fork", fork / "tdmpc2", official, None)
    assert same_text(subject, SHORT) is None, "one of its uses still has the old name"
    path.write_text(
        "# mine\n" + text.replace("pi_grad_norm =", "norm_of_pi =").replace(": pi_grad_norm", ": norm_of_pi")
    )
    subject = GateSubject("fork", fork / "tdmpc2", official, None)
    assert same_text(subject, SHORT).exit_code == 0


def test_a_fork_with_an_edit_in_every_file_never_passes(official, fork):
    """Whatever gates run: an edit of each function that the gates do not execute has its name."""
    edit(fork / "tdmpc2", UNNOTICED)
    done = CliRunner().invoke(
        gate_command,
        ["run", "utd-count", "plan-vec-one", "--checkout", str(fork), "--allow-local-changes"],
        standalone_mode=False,
    )
    assert done.return_value == 3, done.output
    assert all(name.rpartition(".")[2] in done.output for name in UNNOTICED)


# ------------------------------------------------------------------------------------------- who is the judge of a fork


def test_a_clean_fork_named_by_the_environment_is_judged_by_official_code_and_called_not_official(cloned, monkeypatch):
    """A reward that counts twice, committed: the fork's own commit is no reference, whoever names it."""
    path = cloned / "tdmpc2" / "tdmpc2.py"
    text = path.read_text()
    at = text.index("return reward", text.index("def _td_target"))
    path.write_text(text[:at] + "return 2*reward" + text[at + len("return reward") :])
    git(cloned, "commit", "--quiet", "--all", "--message=twice")
    monkeypatch.setenv(UPSTREAMS["tdmpc2"].environment_variable, str(cloned))
    subject = find_subject()
    assert "not official" in subject.name and subject.reference.verified
    assert subject.reference.commit == UPSTREAMS["tdmpc2"].pin and "come nearest" in subject.why
    assert [change.id for change in subject.accounting.changes] == ["tdmpc2.py:TDMPC2._td_target"]
    report = run(subject, ["default-identity"], SHORT)
    assert report.exit_code == 1 and "first divergence" in report.results[0].detail
    assert report.results[1].outcome == NOT_JUDGED and "default-identity" in report.results[1].detail


def test_the_judge_is_the_newest_official_ancestor_or_the_one_that_is_named(tried_commits, cloned, tmp_path):
    """The history of a clone leads to an official commit; --against takes another, and no fork."""
    official = tried_commits("tdmpc2")
    cache = find_checkout("tdmpc2")  # the cache has the repository
    from tdmpc2_lean.upstreams import repository

    source = repository.repository(UPSTREAMS["tdmpc2"])
    if source is None:
        pytest.skip("the cache has files of the official code and no history")
    clone = tmp_path / "clone"
    older = "8bbc14ebabdb32ea7ada5c801dc525d0dc73bafe"
    if older not in official:
        pytest.skip("commit 8bbc14e is not on this machine")
    git(tmp_path, "init", "--quiet", str(clone))
    # The repository may be partial, so that it cannot be cloned; its objects are lent.
    (clone / ".git" / "objects" / "info" / "alternates").write_text(f"{source / 'objects'}\n")
    git(clone, "checkout", "--quiet", "-b", "mine", older)
    (clone / "tdmpc2" / "mine.py").write_text("x = 1\n")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message=mine")
    subject = find_subject(str(clone))
    assert subject.reference.commit == older and "newest official ancestor" in subject.why
    assert "not official" in subject.name and subject.accounting.changes == ()
    named = find_subject(str(clone), against=cache.commit)
    assert named.reference.commit == cache.commit and named.accounting.changes
    with pytest.raises(UserError, match="cannot be a judge"):
        find_subject(str(clone), against=str(cloned))


def test_the_refusal_of_local_changes_does_not_advise_to_commit(cloned):
    (cloned / "tdmpc2" / "train.py").write_text("")
    with pytest.raises(UserError) as refusal:
        find_checkout("tdmpc2", cloned)
    assert "commit or undo" not in str(refusal.value) and "not official" in refusal.value.next_step


def test_what_is_judged_without_our_patches_is_only_what_the_fork_has(official, fork):
    """No patch is taken to be in a fork that has none, and each in one that has all."""
    assert GateSubject("fork", fork / "tdmpc2", official, None).accounting.patches == ()
    patched = find_subject(official.commit)
    as_it_is = dataclasses.replace(patched, series=None)
    assert as_it_is.accounting.patches == tuple(patch.name for patch in read_series("tdmpc2").patches)
    assert importable(patched.files, ["train.py"]) > importable(as_it_is.official, ["train.py"])
