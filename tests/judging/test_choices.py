"""The page of our choices says what the code does, and what a run takes follows from its pieces."""

import json

import pytest

from tdmpc2_lean.validation.judging import choices, configuration, cost, criteria, protocols

WALKER = protocols.protocol("tdmpc2-walker-walk")
DREAMER = protocols.protocol("dreamerv3-dmc_walker_walk")


def test_the_figures_of_the_page_are_those_of_the_code():
    text = choices.PAGE.read_text(encoding="utf-8")
    assert choices.page(text) == text, "python -m tdmpc2_lean.validation.judging.choices"
    assert [found[2] for found in choices.BLOCK.finditer(text)] == list(choices.GENERATED)


def test_the_page_names_every_exit_code_and_number_that_decides():
    text = choices.PAGE.read_text(encoding="utf-8")
    for state, code in criteria.EXIT_CODES.items():
        assert f"| {code} | {state}" in text
    share = 100 * criteria.SHARE_NUMERATOR // criteria.SHARE_DENOMINATOR
    for said in (f"less {criteria.MARGIN:g}", f"{share} % of the tasks", f"At least {criteria.LEAST_SEEDS}"):
        assert said in text


def test_a_step_of_tdmpc2_takes_what_its_tensors_take():
    # observation 24, action 6, reward and terminated in float32, and the episode's number in int64
    assert cost.step_bytes(WALKER) == 4 * (24 + 6 + 1 + 1) + 8
    assert cost.cost(WALKER).replay == 1_000_000 * cost.step_bytes(WALKER)  # the buffer is full long before the end


def test_a_run_of_tdmpc2_takes_as_long_as_its_steps_and_the_planning_of_its_evaluations():
    hours = cost.cost(WALKER).gpu_hours
    assert hours == pytest.approx((2_000_000 + 0.35 * 40 * 10 * 500) / 36 / 3600)
    assert cost.cost(DREAMER).gpu_hours is None


def test_a_step_of_dreamerv3_is_mostly_its_latent_state():
    expected = protocols.expected_settings(DREAMER, 0)
    latent = expected["agent.dyn.rssm.deter"] + expected["agent.dyn.rssm.stoch"] * expected["agent.dyn.rssm.classes"]
    assert latent == 2048 + 32 * 16
    assert 0 < cost.step_bytes(DREAMER) - 4 * latent < 200
    assert abs(cost.cost(DREAMER).updates - 125_000) < 2000


def test_what_is_stated_names_its_source_and_holds_no_more_than_names_and_values():
    for agent in ("tdmpc2", "dreamerv3"):
        stated = configuration.stated(agent)
        assert set(stated["source"]) == {"repository", "commit", "file", "licence"}
        assert json.dumps(stated).count("\\n") == 0
