"""The measure of a run: returns of the episodes that ended in a chunk, weighted by episodes, in env steps."""

import json
import math

import pytest

from dreamer_bridge import returns
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.references import tasks as references
from tdmpc2_lean.validation.judging import criteria, verdicts


def written(folder, *lines):
    text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    (folder / returns.FILE).write_text(text)
    return folder


def score(step, value):
    return {"step": step, "episode/score": value}


def test_an_episode_belongs_to_the_chunk_that_it_ends_in_the_end_included(tmp_path):
    found = returns.read(written(tmp_path, score(1, 1.0), score(20_000, 3.0), score(20_001, 10.0), score(45_000, 5.0)))
    assert found == returns.Returns((20_000, 40_000, 60_000), (2.0, 10.0, 5.0), (2, 1, 1))


def test_a_chunk_in_which_no_episode_ended_has_no_point(tmp_path):
    assert returns.read(written(tmp_path, score(10, 1.0), score(50_000, 2.0))).steps == (20_000, 60_000)


def test_the_mean_weighs_by_episodes_and_not_by_chunks():
    found = returns.Returns((20_000, 40_000, 60_000), (1.0, 4.0, 100.0), (3, 1, 1))
    assert found.mean(upto=40_000) == pytest.approx(7 / 4)
    assert found.mean(above=20_000) == pytest.approx(52.0)
    assert math.isnan(found.mean(above=60_000))


def test_a_window_of_the_criterion_has_the_same_mean_whatever_the_chunk(tmp_path):
    scores = [score(1000 * n, float(n * n % 97)) for n in range(1, 501)]
    written(tmp_path, *scores)
    of = criteria.criterion("dreamerv3-dm_control")
    assert of.by_episodes and of.every % 20_000 == 0
    for window in of.windows("dmc_walker_walk"):
        held = [line["episode/score"] for line in scores if window.above < line["step"] <= window.upto]
        for chunk in (20_000, of.every):
            found = returns.read(tmp_path, chunk)
            assert found.mean(window.above, window.upto) == pytest.approx(sum(held) / len(held))


def test_the_criterion_takes_the_points(tmp_path):
    written(tmp_path, *(score(1000 * n, 600.0) for n in range(1, 501)))
    found = returns.read(tmp_path)
    of = criteria.criterion("dreamerv3-dm_control")
    run = verdicts.ScoredRun("dmc_walker_walk", 0, found.steps, found.values, found.episodes)
    assert run.end == of.budget("dmc_walker_walk") and len(found.steps) == 25


def test_what_a_kill_cut_short_and_lines_of_other_things_are_passed_over(tmp_path):
    found = returns.read(
        written(
            tmp_path, score(10, 1.0), "{\"step\": 5, \"epis\n", "[]\n", {"step": 11}, score(12, math.nan),
            score(20, 3.0), '{"step": 30, "episode/score": 9',
        )
    )  # fmt: skip
    assert found.values == (2.0,) and found.episodes == (2,)


def test_where_the_steps_fall_back_the_resumed_run_counts(tmp_path):
    found = returns.read(written(tmp_path, score(10, 1.0), score(20, 2.0), score(30, 3.0), score(20, 5.0)))
    assert found.values == (3.0,) and found.episodes == (2,)


def test_the_chunk_is_the_callers(tmp_path):
    assert returns.read(written(tmp_path, score(10, 1.0), score(11, 2.0)), chunk=10).steps == (10, 20)
    with pytest.raises(UserError):
        returns.read(tmp_path, chunk=0)


def test_a_folder_without_scores_is_told(tmp_path):
    with pytest.raises(UserError, match="scores.jsonl"):
        returns.read(tmp_path)


def test_every_reference_task_has_an_official_name_and_back():
    from dreamer_bridge import tasks

    for name in references.DREAMERV3:
        assert tasks.of_reference(tasks.official(name)) == name
