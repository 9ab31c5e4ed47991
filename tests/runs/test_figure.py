"""A figure says what it shows: whose code, n and seeds of both sides, what the steps are, and only what can be seen."""

import json
import math

import numpy as np
import pytest

from tdmpc2_lean import references
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import curve, figure, panels, record
from tdmpc2_lean.runs.figure import MINIATURE, FigureRun, Published, caption, published
from tdmpc2_lean.runs.specification import PresetUse, Specification
from tdmpc2_lean.upstreams import UPSTREAMS

CODE = "official TD-MPC2 e9f5932, 9 patches"


def made(seed=1, task="cheetah-run", code=CODE, settings=("fast",), state="finished", **more):
    return FigureRun(task, seed, (0, 100_000), (10.0, 500.0), 10, code, tuple(settings), state, **more)


def beside(run):
    return figure.beside([run])


def official(upstream, **changed):
    code = {"upstream": upstream, "commit": UPSTREAMS[upstream].pin, "local_changes": [], "verified": True}
    return code | {"patches": [{"name": "device", "sha256": "0" * 64}]} | changed


def run_folder(
    folder, upstream="tdmpc2", task="cheetah-run", lines=((100_000, 300.0),), code=None, kind="train", **asked
):
    """A run's folder as a command leaves it."""
    fields = {"seed": 1, "agent_steps": 500_000, "action_repeat": 2, "chunk": 20_000} | asked
    provenance = record.Provenance(code=code or official(upstream))
    start = record.Start(command="c", cwd="/", started="2026-11-28T12:00:00+00:00", provenance=provenance.short_hash)
    kept = record.RunRecord(
        kind=kind,
        specification=Specification(upstream=upstream, tasks=(task,), **fields),
        state="finished",
        starts=(start,),
        provenances={provenance.short_hash: provenance},
        settings={"eval_episodes": 2},
    )
    folder.mkdir(parents=True, exist_ok=True)
    record.write(folder, kept)
    for number, (step, value) in enumerate(lines, 1):
        line = {"chunk": number, "agent_steps": step // 2, "env_steps": step, "value": value, "episodes": 2}
        curve.append(folder / curve.FILE, line)
    return folder


# The caption


def test_a_single_seed_is_labelled_as_a_hypothesis():
    text = caption([made()], beside(made()))
    assert "n=1 (seed 1)" in text and "hypothesis" in text


def test_n_counts_the_seeds_of_one_setting_and_lists_them():
    text = caption([made(3), made(1), made(2), made(1, settings=["default"])], [])
    assert "settings fast: n=3 (seeds 1, 2, 3)" in text
    assert "settings default: n=1 (seed 1)" in text


def test_the_published_side_has_its_n_and_seeds_too():
    text = caption([made()], beside(made()))
    assert "Published TD-MPC2" in text and "n=3 (seeds 1, 2, 3)" in text


def test_the_miniature_is_called_so_and_stands_beside_no_published_curve(tmp_path):
    run = figure.read_run(run_folder(tmp_path, code=official("tdmpc2") | {"upstream": "miniature", "commit": None}))
    assert run.code == MINIATURE and figure.beside([run], baselines=True) == []
    assert "miniature (not TD-MPC2)" in caption([run], []) and "Published" not in caption([run], [])


def test_a_run_shorter_than_the_published_spacing_is_not_set_beside_a_line_that_nobody_measured():
    short = FigureRun("cheetah-run", 1, (1000, 6000), (1.0, 2.0), 2, "code", ("smoke",), "finished")
    shown = panels.panel("cheetah-run", [short], beside(short))
    assert "second point, which is at 100,000" in shown.caption
    assert not any(line.joined for line in panels.lines_of(shown, *looks([short])) if line.published)
    long = panels.panel("cheetah-run", [made()], beside(made()))
    assert "second point" not in long.caption
    assert all(line.joined for line in panels.lines_of(long, *looks([made()])))


def test_the_unit_of_steps_is_stated():
    assert "Steps are env steps, 2 per agent step" in caption([made()], [])
    assert "1 per agent step" in caption([made(repeat=1)], [])


def test_an_interrupted_run_is_marked():
    assert "interrupted" in caption([made(state="interrupted")], [])


def test_a_task_without_published_curve_says_so():
    run = made(task="stacker-stack")
    assert beside(run) == [] and "no published curve" in caption([run], [])


def test_a_caption_uses_the_width_of_the_figure():
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(8, 1))
    renderer = FigureCanvasAgg(drawn).get_renderer()
    width = 7.7 * drawn.dpi
    lines = panels.wrapped(drawn, caption([made()], beside(made())) * 3, width).split("\n")
    from matplotlib.font_manager import FontProperties

    font = FontProperties(size=panels.CAPTION["fontsize"])
    widths = [renderer.get_text_width_height_descent(line, font, ismath=False)[0] for line in lines]
    assert len(lines) > 3 and max(widths) <= width and min(widths[:-1]) > 0.85 * width


# What is drawn


def looks(runs):
    groups = list(figure.grouped(runs))
    return {key: f"C{number}" for number, key in enumerate(groups)}, panels.names_of(runs)


def test_a_mean_is_over_the_seeds_that_have_the_point():
    reference = Published("t", "a", (1, 2), (0, 1, 2), ((1.0, 2.0, math.nan), (3.0, math.nan, math.nan)))
    assert reference.means()[:2] == [2.0, 2.0] and math.isnan(reference.means()[2])


def test_the_mean_of_runs_is_where_all_of_them_have_a_point():
    longer = FigureRun("t", 2, (0, 100_000, 200_000), (20.0, 100.0, 9.0), 1, CODE, ("fast",), "running")
    assert figure.mean_of([made(), longer]) == ([0.0, 100_000.0], [15.0, 300.0])


def test_a_legend_names_only_what_has_a_point_in_the_figure():
    short = FigureRun("dmc_walker_run", 0, (4000,), (1.0,), 0, "code", ("smoke",), "finished",
                      upstream="dreamerv3", chunk=4000, reference="dreamerv3_dmc_proprio")  # fmt: skip
    shown = panels.panel(short.task, [short], figure.beside([short], baselines=True))
    lines = panels.lines_of(shown, *looks([short]))
    assert any("DreamerV3" in line.label for line in lines)
    assert panels.legend_of(lines, shown.end) == ["published PPO, mean", "code, smoke"]
    assert "The runs end before its first point" in shown.caption


def test_a_dreamer_that_copies_the_reference_lies_on_it(tmp_path):
    steps, returns = references.curve("dreamerv3_dmc_proprio", "dmc_ball_in_cup_catch").of_seed(2)
    chunked = [(upto, float(returns[(steps > upto - 20_000) & (steps <= upto)].mean())) for upto in
               range(20_000, 500_001, 20_000)]  # fmt: skip
    run = figure.read_run(run_folder(tmp_path, "dreamerv3", "dmc_cup_catch", chunked, seed=2))
    reference = published(run.task, run.reference, run.chunk, run.averaged)
    assert run.places == reference.places and run.places[0] == 10_000
    assert run.returns == pytest.approx(reference.returns[reference.seeds.index(2)])


def test_a_part_of_a_chunk_stands_in_its_middle():
    run = FigureRun("t", 0, (20_000, 26_000), (1.0, 2.0), 0, CODE, (), "finished", upstream="dreamerv3", chunk=20_000)
    assert run.places == (10_000.0, 23_000.0)


def test_an_evaluation_stands_where_it_was_made_and_so_does_the_published_one():
    run = made(chunk=30_000)
    (reference,) = beside(run)
    assert run.places == (0.0, 100_000.0)
    assert reference.places == tuple(references.curve("tdmpc2_dmc", "cheetah-run").steps)


def test_baselines_are_drawn_if_asked_for():
    assert [one.agent for one in figure.beside([made()])] == ["TD-MPC2"]
    assert {one.agent for one in figure.beside([made()], baselines=True)} == {"TD-MPC2", "DreamerV3", "SAC", "TD-MPC"}


def test_a_figure_of_several_runs_is_drawn(tmp_path):
    figure.draw([made(1), made(2), made(1, settings=["default"])], tmp_path / "curve.png")
    image = (tmp_path / "curve.png").read_bytes()
    assert image.startswith(b"\x89PNG") and b"n=2 (seeds 1, 2)" in image


def test_runs_of_two_tasks_are_not_mixed(tmp_path):
    with pytest.raises(UserError):
        figure.draw([made(), made(task="dog-run")], tmp_path / "curve.png")


@pytest.mark.parametrize("name", [r"$\frac{1}$", "$x", "<b>"])
def test_no_setting_breaks_a_figure(tmp_path, name):
    figure.draw([made(settings=["fast", f"exp={name}"])], tmp_path / "curve.png")


# Reading a run


def test_a_run_of_either_agent_is_read_from_its_record_and_its_curve(tmp_path):
    lines = [(20_000, 1.5), (40_000, None), (60_000, 300.0)]
    one = figure.read_run(run_folder(tmp_path / "a", "tdmpc2", "walker-walk", lines))
    other = figure.read_run(run_folder(tmp_path / "b", "dreamerv3", "dmc_walker_walk", lines))
    assert one.steps == other.steps == (20_000, 60_000) and one.returns == other.returns == (1.5, 300.0)
    assert (one.task, other.task) == ("walker-walk", "dmc_walker_walk")
    assert "2 episodes" in one.each_point() and "training episodes" in other.each_point()
    assert one.code.startswith("official TD-MPC2 e9f5932, 1 patch")
    assert other.code.startswith("official DreamerV3 e3f0224")


@pytest.mark.parametrize("task", ["dmc_ball_in_cup_catch", "dmc_cup_catch", "cup-catch", "ball-in-cup-catch"])
def test_a_task_is_found_in_whatever_spelling(task):
    assert figure.published_name(task, "dreamerv3_dmc_proprio") == "dmc_ball_in_cup_catch"
    assert figure.published_name(task, "tdmpc2_dmc") == "cup-catch"


def test_every_task_of_a_reference_is_found_as_itself():
    for name in (known.reference for known in UPSTREAMS.values()):
        for task in references.load(name).tasks:
            assert figure.published_name(task, name) == task


def test_a_run_from_before_there_were_curves_is_drawn_from_its_evaluations(tmp_path):
    old = {
        "schema": 1, "kind": "train", "task": "cheetah-run", "seed": 1, "state": "finished", "error": None,
        "upstream": official("tdmpc2"), "python": "3.11", "packages": {}, "device": {"kind": "cpu", "name": None},
        "threads": None, "environment": {}, "platform": "p", "tdmpc2_lean": None, "hydra": [], "command": "c",
        "cwd": "/", "started": "2026-11-28T12:00:00+00:00", "ended": None, "exit_code": 0, "pid": 1, "host": "h",
        "presets": [], "overrides": {}, "checkpoint": None, "timing": None, "config": {"steps": 50, "eval_episodes": 2},
        "evaluations": [{"step": 0, "episode_reward": 1.5}, {"step": 50_000, "episode_reward": 300.0}],
    }  # fmt: skip
    (tmp_path / record.FILE).write_text(json.dumps(old))
    run = figure.read_run(tmp_path)
    assert run.steps == (0, 100_000) and run.returns == (1.5, 300.0) and run.episodes == 2


def test_a_run_without_a_point_gets_no_figure(tmp_path):
    assert figure.draw_run(run_folder(tmp_path, lines=[])) is None
    assert figure.draw_run(run_folder(tmp_path / "null", lines=[(20_000, None)])) is None
    assert not list(tmp_path.rglob("curve.png"))


def test_an_evaluations_folder_gets_no_figure(tmp_path):
    assert figure.read_run(run_folder(tmp_path, kind="evaluate")) is None


def test_the_figure_of_a_dreamer_says_n_seed_and_what_a_point_is_beside_the_published_curve(tmp_path):
    folder = run_folder(tmp_path, "dreamerv3", "dmc_cartpole_balance", [(20_000, 1.0), (40_000, 100.0)], seed=3)
    assert figure.draw_run(folder) == folder / "curve.png"
    image = (folder / "curve.png").read_bytes()
    for text in (b"n=1 (seed 3)", b"a single seed is a hypothesis", b"Published DreamerV3", b"training episodes"):
        assert text in image
    assert b"n=5 (seeds" in image and b"20,000 env steps" in image


def test_a_release_is_named(tmp_path):
    run = figure.read_run(
        run_folder(tmp_path, "dreamerv3", "dmc_walker_run", code=official("dreamerv3", release="3.3.1"))
    )
    assert run.code == "official DreamerV3 release 3.3.1, 1 patch"


def test_a_run_that_began_with_other_code_says_so(tmp_path):
    kept = record.read(run_folder(tmp_path))
    other = record.Provenance(code=official("tdmpc2", patches=[]))
    record.write(tmp_path, kept.changed(provenances={**kept.provenances, other.short_hash: other}))
    assert figure.read_run(tmp_path).code.endswith("begun with other code")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "official TD-MPC2 e9f5932"),
        ({"verified": False}, "not official TD-MPC2 (fork at e9f5932)"),
        ({"commit": "abcdef0" + 33 * "0", "verified": False}, "not official TD-MPC2 (fork at abcdef0)"),
        ({"commit": None, "verified": False}, "not official TD-MPC2 (a fork)"),
        ({"local_changes": ["a.py"]}, "not official TD-MPC2 (fork at e9f5932 + local changes)"),
    ],
)
def test_code_is_called_official_only_where_the_provenance_says_so(tmp_path, changed, words):
    assert figure.read_run(run_folder(tmp_path, code=official("tdmpc2", **changed))).code == f"{words}, 1 patch"


def test_code_that_was_never_verified_is_official_only_at_the_pinned_commit(tmp_path):
    code = official("tdmpc2")
    del code["verified"]
    assert figure.is_official(code, "tdmpc2")
    assert not figure.is_official(code | {"commit": "abc"}, "tdmpc2")


def test_the_users_own_overrides_stand_with_the_presets(tmp_path):
    smoke = PresetUse(name="smoke", overrides={"lr": "1e-3", "horizon": 2, "batch_size": 128})
    overrides = {"lr": 0.001, "horizon": 2, "batch_size": 64, "tau": 0.5, "task": "cheetah-run", "seed": 1, "steps": 9}
    run = figure.read_run(run_folder(tmp_path, presets=(smoke,), overrides=overrides, arm="strip"))
    assert run.settings == ("smoke", "arm strip", "batch_size=64", "tau=0.5")
    assert "settings smoke, arm strip, batch_size=64, tau=0.5:" in caption([run], [])


# Sweeps


def test_a_sweep_of_one_task_is_one_panel_with_a_colour_for_each_setting(tmp_path):
    folders = [
        run_folder(tmp_path / f"{lr}-{seed}", seed=seed, overrides={"lr": lr, "tau": 0.5})
        for lr in (0.1, 0.2) for seed in (1, 2, 3)
    ]  # fmt: skip
    assert figure.draw_together(folders, tmp_path / "all.png") == tmp_path / "all.png"
    image = (tmp_path / "all.png").read_bytes()
    assert image.count(b"n=3 (seeds 1, 2, 3), each point") == 2
    runs = [figure.read_run(folder) for folder in folders]
    lines = panels.lines_of(panels.panel("cheetah-run", runs, []), *looks(runs))
    assert len(lines) == 8 and len({line.colour for line in lines}) == 2
    assert {line.label for line in lines} == {f"lr={lr}, {of}" for lr in (0.1, 0.2) for of in ("each seed", "mean")}


def test_a_sweep_of_several_tasks_has_a_panel_each(tmp_path, monkeypatch):
    tasks = ("walker-run", "walker-walk", "cheetah-run")
    folders = [run_folder(tmp_path / f"{task}-{seed}", task=task, seed=seed) for task in tasks for seed in (1, 2)]
    drawn = []
    monkeypatch.setattr(panels, "draw_panel", lambda axes, one, lines, handles, draw=panels.draw_panel: (
        drawn.append((one.task, len(one.runs))), draw(axes, one, lines, handles)))  # fmt: skip
    figure.draw_together(folders, tmp_path / "all.png")
    assert drawn == [("cheetah-run", 2), ("walker-run", 2), ("walker-walk", 2)]
    assert b"n=2 on each of 3 tasks (seeds 1, 2)" in (tmp_path / "all.png").read_bytes()


def test_a_sweep_in_which_nothing_got_anywhere_has_no_figure(tmp_path):
    assert figure.draw_together([run_folder(tmp_path, lines=[])], tmp_path / "all.png") is None
    assert not (tmp_path / "all.png").exists()


def test_the_pngs_of_the_same_runs_are_the_same(tmp_path):
    for name in ("a.png", "b.png"):
        figure.draw([made(1), made(2)], tmp_path / name, baselines=True)
    assert np.array_equal(*(np.frombuffer((tmp_path / name).read_bytes(), np.uint8) for name in ("a.png", "b.png")))
