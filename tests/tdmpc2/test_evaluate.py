"""A checkpoint is evaluated by the official script, with its run's settings, and executes no code."""

import pickle

import pytest
import torch
from click.testing import CliRunner

from tdmpc2_lean import training
from tdmpc2_lean.commands.evaluate import evaluate
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import record, run
from tdmpc2_lean.tdmpc2 import plan
from tdmpc2_lean.training import RunFailed


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
    assert (
        kept["state"] == "finished"
        and kept["config"]["latent_dim"] == 16
        and kept["seed"] == 2
        and not kept["config"]["mpc"]
    )
    assert kept["config"]["save_video"] is False and kept["checkpoint"]["path"] == str(checkpoint)
    (result,) = kept["evaluations"]
    assert result["episodes"] == 1 and 0 <= result["episode_reward"] <= 1000
    assert f"return {result['episode_reward']:.1f}" in told.output and "mean of 1 episodes" in told.output
    assert ("miniature" in told.output) == (any_checkout.upstream == "miniature")
    # The next evaluation has a folder of its own.
    assert plan.evaluation(words, cwd=workplace).folder.name == "evaluation-2"
    if any_checkout.upstream == "miniature":
        refuses_code(trained, workplace, words)


def refuses_code(trained, workplace, words):
    """A file that would execute code is refused unless trusted, and then says so."""
    poisoned, mark = trained.folder / "models/poisoned.pt", workplace / "executed"
    state = torch.load(trained.folder / "models/final.pt", weights_only=True)
    torch.save(state | {"more": Bad(mark)}, poisoned)
    words = [f"checkpoint={poisoned}", *words[1:]]
    with pytest.raises(RunFailed, match="execute code") as told:
        run.carry_out(plan.evaluation(words, cwd=workplace), quiet=True)
    assert "--trust-checkpoint" in told.value.next_step and not mark.exists()
    trusted = plan.evaluation(words, cwd=workplace, trust_checkpoint=True)
    assert any("may execute code" in note for note in trusted.notes)
    run.carry_out(trusted, quiet=True)
    assert mark.exists()


def where_of(checkout):
    return "miniature" if checkout.upstream == "miniature" else checkout.root


def test_a_checkpoint_that_is_not_there_is_told_with_those_that_are(workplace):
    (workplace / "final.pt").write_bytes(pickle.dumps({}))
    with pytest.raises(UserError, match="Did you mean 'final.pt'"):
        plan.evaluation(["checkpoint=fianl.pt", "upstream=miniature"], cwd=workplace)
    with pytest.raises(UserError, match="which checkpoint"):
        plan.evaluation(["task=cheetah-run"], cwd=workplace)


def test_words_win_over_the_settings_of_the_run(workplace):
    folder = workplace / "somewhere"
    (folder / "models").mkdir(parents=True)
    (folder / "models/final.pt").write_bytes(b"")
    code = {"upstream": "miniature", "commit": None, "local_changes": []}
    settings = {"latent_dim": 16, "device": "cpu", "task": "cup-catch", "exp_name": "x", "utd": "1/3"}
    record.write(
        folder, record.new(kind="train", task="cup-catch", seed=7, upstream=code, overrides=settings)
    )
    found = plan.evaluation(["checkpoint=somewhere/models/final.pt", "latent_dim=32"], cwd=workplace)
    assert (
        found.config["latent_dim"] == 32 and found.config["seed"] == 7 and found.config["task"] == "cup-catch"
    )
    assert found.checkout.upstream == "miniature"
    assert found.folder == workplace / "logs/cup-catch/7/evaluation-1"


def test_the_official_line_of_results_is_read():
    class Printed:
        last = [
            "Evaluating",
            "  mw-push               \tR: -1.5  \tS: 0.25",
            "  cheetah-run   R: 12.34  (miniature)",
        ]

    class Planned:
        config = {"eval_episodes": 3}

    assert run.results(Printed(), Planned()) == [
        {"task": "mw-push", "episode_reward": -1.5, "episode_success": 0.25, "episodes": 3},
        {"task": "cheetah-run", "episode_reward": 12.34, "episode_success": None, "episodes": 3},
    ]
