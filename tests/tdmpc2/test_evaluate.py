"""A checkpoint is evaluated by the official script, with its run's settings, and executes no code."""

import json
import pickle

import pytest
import torch
from click.testing import CliRunner

from tdmpc2_lean import training
from tdmpc2_lean.commands.evaluate import evaluate
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import making, record
from tdmpc2_lean.runs.plan import EVALUATE, Request
from tdmpc2_lean.runs.record import Evaluation
from tdmpc2_lean.runs.specification import Specification
from tdmpc2_lean.tdmpc2.adapter import ADAPTER
from tdmpc2_lean.tdmpc2.evaluation import results
from tdmpc2_lean.training import RunFailed


def planned(words, workplace, **options):
    return ADAPTER.plan(Request(tuple(map(str, words)), kind=EVALUATE, cwd=workplace, **options))


@pytest.fixture
def trained(any_checkout, tiny, workplace):
    """A finished run of any checkout, by the policy alone, which is quicker than planning."""
    words = [*tiny, f"upstream={where_of(any_checkout)}", "seed=2", "steps=500", "eval_freq=500", "mpc=false"]
    return training.train(words, quiet=True)


class Bad:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_checkpoint_of_a_run_is_evaluated_as_it_was_trained(trained, any_checkout, workplace, monkeypatch):
    if any_checkout.upstream != "miniature":
        # A run records the commit; that is enough where the cache holds it.
        monkeypatch.setenv("TDMPC2_LEAN_TDMPC2", str(any_checkout.root))
    checkpoint = trained.folder / "models/final.pt"
    words = [
        f"checkpoint={checkpoint.relative_to(workplace)}",
        "eval_episodes=1",
        f"upstream={where_of(any_checkout)}",
    ]
    told = CliRunner().invoke(evaluate, [*words, "--quiet"], catch_exceptions=False)
    assert told.exit_code == 0, told.output
    folder = workplace / "logs/cartpole-balance/2/evaluation-1"
    kept = record.read(folder)
    assert kept.state == "finished" and kept.specification.seed == 2
    assert kept.configured["latent_dim"] == 16 and not kept.configured["mpc"]
    assert kept.configured["save_video"] is False and kept.checkpoint.path == str(checkpoint)
    (result,) = kept.evaluations
    assert result.episodes == 1 and 0 <= result.episode_reward <= 1000
    assert f"return {result.episode_reward:.1f}" in told.output and "mean of 1 episode" in told.output
    assert ("miniature" in told.output) == (any_checkout.upstream == "miniature")
    # The next evaluation has a folder of its own.
    assert planned(words, workplace).folder.name == "evaluation-2"
    if any_checkout.upstream == "miniature":
        refuses_code(trained, workplace, words)
        tells_what_does_not_fit(trained, workplace, words)


def refuses_code(trained, workplace, words):
    """A file that would execute code is refused unless trusted, and then says so."""
    poisoned, mark = trained.folder / "models/poisoned.pt", workplace / "executed"
    state = torch.load(trained.folder / "models/final.pt", weights_only=True)
    torch.save(state | {"more": Bad(mark)}, poisoned)
    words = [f"checkpoint={poisoned}", *words[1:]]
    with pytest.raises(RunFailed, match="execute code") as told:
        making.carry_out(planned(words, workplace), quiet=True)
    assert "--trust-checkpoint" in told.value.next_step and not mark.exists()
    trusted = planned(words, workplace, trust_checkpoint=True)
    assert any("may execute code" in note for note in trusted.notes)
    making.carry_out(trusted, quiet=True)
    assert mark.exists()


def tells_what_does_not_fit(trained, workplace, words):
    """One message for another network, be it by its size or by the task, and for half a file."""
    for word in ("latent_dim=24", "task=cheetah-run"):
        with pytest.raises(RunFailed, match="of another network than the settings make") as told:
            making.carry_out(planned([*words, word], workplace), quiet=True)
        assert "and its task" in told.value.next_step and "size mismatch" not in told.value.message
        assert len(str(told.value).splitlines()) == 3
    half = trained.folder / "models/half.pt"
    half.write_bytes((trained.folder / "models/final.pt").read_bytes()[:2000])
    with pytest.raises(RunFailed, match="half.pt is no whole checkpoint"):
        making.carry_out(planned([f"checkpoint={half}", *words[1:]], workplace), quiet=True)


def where_of(checkout):
    return "miniature" if checkout.upstream == "miniature" else checkout.root


def test_a_checkpoint_that_is_not_there_is_told_with_those_that_are(workplace):
    (workplace / "final.pt").write_bytes(pickle.dumps({}))
    with pytest.raises(UserError, match="Did you mean 'final.pt'"):
        planned(["checkpoint=fianl.pt", "upstream=miniature"], workplace)
    with pytest.raises(UserError, match="which checkpoint"):
        planned(["task=cheetah-run"], workplace)


def test_an_empty_checkpoint_is_told(workplace):
    (workplace / "final.pt").write_bytes(b"")
    with pytest.raises(UserError, match="final.pt is no whole checkpoint: it is empty"):
        planned(["checkpoint=final.pt", "upstream=miniature"], workplace)


@pytest.fixture
def run(workplace):
    """A folder of a training run with a checkpoint, of which no more is read than that it is there."""
    folder = workplace / "somewhere"
    (folder / "models").mkdir(parents=True)
    (folder / "models/final.pt").write_bytes(b"weights")
    settings = {"latent_dim": 16, "device": "cpu", "task": "cup-catch", "exp_name": "x", "utd": "1/3"}
    what = Specification(
        upstream="tdmpc2", tasks=("cup-catch",), seed=7, agent_steps=9, action_repeat=2, chunk=2, overrides=settings
    )
    code = {"upstream": "miniature", "commit": None, "local_changes": [], "patches": []}
    provenance = record.provenance_of(code, device=None, threads=None)
    start = record.this_start("train", workplace, provenance, "train.log")
    known = {"starts": (start,), "provenances": {start.provenance: provenance}}
    record.write(folder, record.RunRecord(schema=2, kind="train", specification=what, **known))
    return folder


def test_words_win_over_the_settings_of_the_run(run, workplace):
    found = planned(["checkpoint=somewhere/models/final.pt", "latent_dim=32"], workplace)
    assert found.configured["latent_dim"] == 32 and found.specification.seed == 7
    assert found.configured["task"] == "cup-catch"
    assert found.checkout.upstream == "miniature"
    assert found.folder == workplace / "logs/cup-catch/7/evaluation-1"
    assert not any("other versions" in note for note in found.notes)


def test_versions_that_differ_from_the_runs_are_said(run, workplace):
    kept = record.read(run)
    older = kept.provenance.model_copy(update={"versions": {**kept.provenance.versions, "mujoco": "3.2.3"}})
    record.write(run, kept.changed(provenances={kept.start.provenance: older}))
    notes = planned(["checkpoint=somewhere/models/final.pt"], workplace).notes
    assert any("other versions" in note and "mujoco 3.2.3, now 3." in note and "torch" not in note for note in notes)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"schema": 2, "kind": "train", "specification": 5}', "[" * 100_000, '{"schema": 1}', "\ud800"],
)
def test_a_runs_record_that_is_none_is_told(run, workplace, content):
    (run / "run.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(UserError, match="run.json"):
        planned(["checkpoint=somewhere/models/final.pt"], workplace)


def test_a_checkpoint_in_another_agents_run_is_told(run, workplace):
    kept = record.read(run)
    record.write(run, kept.changed(specification=kept.specification.model_copy(update={"upstream": "dreamerv3"})))
    with pytest.raises(UserError, match="of a run of DreamerV3"):
        planned(["checkpoint=somewhere/models/final.pt"], workplace)


@pytest.mark.parametrize("code", [{}, {"upstream": "tdmpc2", "commit": None}, {"commit": "e" * 40}])
def test_a_record_that_says_little_of_its_code_gives_no_traceback(run, workplace, code):
    document = json.loads((run / "run.json").read_text())
    (hash_of,) = document["provenances"]
    document["provenances"][hash_of]["code"] = code
    (run / "run.json").write_text(json.dumps(document))
    try:
        planned(["checkpoint=somewhere/models/final.pt", "upstream=miniature"], workplace)
    except UserError:
        pass


def test_the_official_line_of_results_is_read():
    class Printed:
        last = [
            "Evaluating",
            "  mw-push               \tR: -1.5  \tS: 0.25",
            "  cheetah-run   R: 12.34  (miniature)",
            "  cup-spin   R: nan  \tS: nan",
        ]

    assert results(Printed(), 3) == [
        Evaluation(task="mw-push", episode_reward=-1.5, episode_success=0.25, episodes=3),
        Evaluation(task="cheetah-run", episode_reward=12.34, episodes=3),
        Evaluation(task="cup-spin", episode_reward=None, episodes=3),
    ]


@pytest.mark.parametrize("patches", ["all", "all,plan-vec", "safe-load,device"])
def test_a_trusted_checkpoint_is_loaded_without_the_patch_that_would_refuse_it_whatever_words_named_it(
    run, workplace, patches
):
    words = ["checkpoint=somewhere/models/final.pt", f"patches={patches}", "utd=1"]
    words = words if patches.startswith("all") else [*words[:2], "task=cup-catch"]
    plan = planned([*words, "upstream=miniature"], workplace, trust_checkpoint=True)
    kept = {name for name, _ in plan.patched.patches}
    assert "device" in kept and "safe-load" not in kept
