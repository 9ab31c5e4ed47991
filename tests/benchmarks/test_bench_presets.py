"""`bench presets` times a whole number of update periods, and says how many steps and updates that were."""

import json
from fractions import Fraction

import pytest
import torch
from click.testing import CliRunner

from tdmpc2_lean.commands.bench import bench
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.validation.benchmarks.tdmpc2 import LONGEST_PERIOD, Round, TrainingRound, round_of
from tdmpc2_lean.validation.gates import process

SMALL = (
    "overrides: {utd: UTD, mlp_dim: 16, enc_dim: 16, latent_dim: 16, num_samples: 16, num_elites: 4, num_pi_trajs: 4, "
    "iterations: 1, horizon: 2, batch_size: 8}\n"
)


def preset(path, utd):
    path.write_text(f"title: Small\nevidence: none\ncost: all\n{SMALL.replace('UTD', utd)}")
    return str(path)


@pytest.mark.parametrize("utd", ["1", 1, 1.0, "0.5", "1/4", "0.1", "7/5", 3, "1/100", "99/100"])
def test_a_round_has_as_many_updates_as_its_steps_call_for(utd):
    steps, updates = round_of(utd).steps, round_of(utd).updates
    assert updates == steps * Fraction(str(utd)) > 0 and 2 <= steps <= LONGEST_PERIOD


@pytest.mark.parametrize("utd", ["0.123", "1/101", 0, -1])
def test_updates_that_cannot_be_timed_are_refused(utd):
    with pytest.raises(ValueError, match=f"utd={utd}"):
        round_of(utd)


def test_a_round_takes_its_steps_and_begins_an_episode_where_one_ends():
    class Trainer:
        """Environment with episodes of three steps, agent and buffer in one."""

        made = []

        def __init__(self):
            self.env = self.agent = self.buffer = self

        def reset(self):
            self.made.append("reset")
            self.t = 0

        def step(self, _):
            self.t += 1
            return None, 0.0, torch.tensor(self.t == 3), {}

        def act(self, _, t0):
            self.made.append(f"act {t0}")

        def update(self, _):
            self.made.append("update")

    training = TrainingRound(Trainer(), Round(4, 2))
    training()
    training()
    first = ["act True", "act False", "act False", "reset", "act True", "update", "update"]
    second = ["act False", "act False", "reset", "act True", "act False", "update", "update"]
    assert Trainer.made == ["reset", *first, *second]


def test_the_command_says_how_many_steps_and_updates_it_timed(miniature, tmp_path):
    """At one update every four steps."""
    first, second = preset(tmp_path / "quarter.yaml", "'1/4'"), preset(tmp_path / "half.yaml", "0.5")
    words = ["presets", first, second, "--checkout", "miniature", "--rounds", "2", "--model-size", "1"]
    done = CliRunner().invoke(bench, [*words, "--json", str(tmp_path / "seen.json")], standalone_mode=False)
    assert done.exception is None, done.exception
    seen = json.loads((tmp_path / "seen.json").read_text())
    rows = [line for line in done.output.splitlines() if " / " not in line]
    for name, utd, steps in ((first, Fraction(1, 4), 4), (second, Fraction(1, 2), 2)):
        assert seen["updates"][name] == seen["steps"][name] * utd > 0 and seen["steps"][name] % (2 * steps) == 0
        assert len(seen["seconds"][name]) == 2 and min(seen["seconds"][name]) > 0
        (row,) = [line.split() for line in rows if line.startswith(f"{name} ")]
        assert row[3:] == [str(seen["steps"][name]), str(seen["updates"][name])]
    assert "updates timed" in done.output and f"{second} / {first}: " in done.output


def test_a_preset_whose_updates_come_too_rarely_is_refused_before_anything_runs(miniature, tmp_path, monkeypatch):
    monkeypatch.setattr(process, "output_of", lambda *_, **__: pytest.fail("something ran"))
    words = ["presets", "default", preset(tmp_path / "odd.yaml", "0.123"), "--checkout", "miniature"]
    done = CliRunner().invoke(bench, words)
    assert isinstance(done.exception, UserError) and "123 updates every 1000 steps" in done.exception.message
