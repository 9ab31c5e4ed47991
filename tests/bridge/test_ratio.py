"""What a train ratio means."""

import pytest
from click.testing import CliRunner

from dreamer_bridge.cli import dreamer_bridge
from dreamer_bridge.ratio import Ratio, of_updates
from tdmpc2_lean.errors import UserError


def test_the_papers_ratio_is_half_an_update_per_agent_step():
    ratio = Ratio(512, 16, 64, 2)
    assert ratio.per_agent_step == 0.5 and ratio.per_env_step == 0.25
    assert of_updates(0.5, 16, 64, 2) == ratio


def test_it_is_what_the_official_counter_makes():
    """elements' Ratio, asked at each agent step, as embodied/run/train.py asks it."""
    import elements

    for ratio in (Ratio(512), Ratio(1024), Ratio(32, 4, 16), Ratio(100, 4, 16)):
        should_train = elements.when.Ratio(ratio.train_ratio / (ratio.batch_size * ratio.batch_length))
        made = sum(should_train(step) for step in range(1, 4001))
        assert made == pytest.approx(4000 * ratio.per_agent_step, abs=2)


@pytest.mark.parametrize("wrong", [dict(batch_size=0), dict(batch_length=-1), dict(repeat=0), dict(train_ratio=-1)])
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(UserError):
        Ratio(**{"train_ratio": 1} | wrong)


def test_the_command_converts_both_ways():
    said = CliRunner().invoke(dreamer_bridge, ["ratio", "512", "--repeat", "2"]).output
    assert "0.5 updates per agent step, 0.25 per env step" in said
    said = CliRunner().invoke(dreamer_bridge, ["ratio", "--updates", "1", "--batch-size", "4"]).output
    assert "train ratio 256 " in said
    assert isinstance(CliRunner().invoke(dreamer_bridge, ["ratio"]).exception, UserError)
    assert isinstance(CliRunner().invoke(dreamer_bridge, ["ratio", "1", "--updates", "1"]).exception, UserError)
