"""What a report draws and lays out: numbers where they belong, axes with units, keys that name what can be seen."""

import csv
import dataclasses
import io
import math
import re
import xml.dom.minidom

import numpy as np
import pytest
import written_runs

from tdmpc2_lean import references
from tdmpc2_lean.runs import chunks
from tdmpc2_lean.validation.judging import criteria, findings, protocols, reading, synthetic, verdicts
from tdmpc2_lean.validation.report import document, layout, markdown, page
from tdmpc2_lean.validation.report.drawing import (
    BAR,
    OURS,
    REFERENCE,
    WINDOW,
    Axis,
    Drawing,
    DrawnSeries,
    Target,
    keys_of,
)
from tdmpc2_lean.validation.report.layout import aggregates, curves, method, provenance, verdict

DREAMER = criteria.criterion("dreamerv3-dm_control")
TDMPC2 = criteria.criterion("tdmpc2-dm_control")
TWO_TASKS = dataclasses.replace(TDMPC2, tasks=("cheetah-run", "walker-run"))
FEW = {"resamples": 20}


def judgement(criterion, runs=None, **changed):
    """The judgement on runs that need no folder."""
    runs = synthetic.runs(criterion) if runs is None else runs
    folder = reading.Folder("there", None, ())
    of = [findings.Subject(folder, (criterion.name,), findings.DEFAULT, (), run, ()) for run in runs]
    fields = {
        "criterion": criterion,
        "variant": findings.DEFAULT,
        "verdict": verdicts.judge(criterion, runs),
        "subjects": tuple(of),
        "rows": (),
        "aggregate": findings.aggregate(criterion, runs),
    }
    return findings.Judgement(**fields | changed)


def found(runs, of=TWO_TASKS):
    return findings.report(reading.read(runs), {of.name: of}, **FEW)


def shortened(criterion, tasks, every):
    """The criterion of few tasks, with chunks of that many env steps."""
    return dataclasses.replace(criterion, tasks=tuple(tasks), every=every)


# Where points stand


@pytest.mark.parametrize("every", [20_000, 50_000, 100_000])
def test_a_copy_of_the_reference_lies_on_the_reference_point_by_point(every):
    criterion = shortened(DREAMER, ["dmc_walker_run", "dmc_hopper_hop"], every)
    for task in criterion.tasks:
        drawing = curves.drawn(judgement(criterion), task)
        band = next(one for one in drawing.series if one.look == REFERENCE)
        ours = [one for one in drawing.series if one.name.startswith("ours")]
        assert [one.xs for one in ours] == [band.xs] * 5
        assert np.mean([one.ys for one in ours], axis=0) == pytest.approx(band.ys)
        assert np.min([one.ys for one in ours], axis=0) == pytest.approx(band.low)
        assert np.max([one.ys for one in ours], axis=0) == pytest.approx(band.high)


def test_the_mean_of_training_episodes_stands_in_the_middle_of_its_chunk():
    criterion = shortened(DREAMER, ["dmc_walker_run"], 20_000)
    drawing = curves.drawn(judgement(criterion), "dmc_walker_run")
    assert all(one.xs[:2] == (10_000.0, 30_000.0) and one.xs[-1] == 490_000.0 for one in drawing.series)


def test_an_evaluation_stands_where_it_was_made():
    drawing = curves.drawn(judgement(TWO_TASKS), "cheetah-run")
    ours = next(one for one in drawing.series if one.name == "ours, seed 1")
    steps, returns = references.curve("tdmpc2_dmc", "cheetah-run").of_seed(1)
    assert list(ours.xs) == list(steps[1:]) and list(ours.ys) == list(returns[1:])
    band = next(one for one in drawing.series if one.look == REFERENCE)
    assert list(band.xs) == list(steps)  # from 0 on


def test_aggregates_of_a_copy_lie_on_the_references():
    criterion = shortened(DREAMER, ["dmc_walker_run", "dmc_hopper_hop", "dmc_finger_spin"], 20_000)
    drawings = aggregates.along_training(judgement(criterion), FEW)
    assert set(drawings) == {"mean", "median", "iqm"}
    for drawing in drawings.values():
        theirs, ours = (next(s for s in drawing.series if s.name.startswith(name)) for name in ("DreamerV3", "ours"))
        assert ours.xs == theirs.xs and ours.ys == pytest.approx(theirs.ys)
        assert ours.low == pytest.approx(theirs.low)


def test_a_published_point_is_in_the_chunk_that_holds_its_step():
    curve = references.Curve(np.array([0, 5, 10, 11, 20]), np.array([[9.0, 1.0, 3.0, 5.0, 7.0]]), (1,))
    binned = chunks.binned(curve, 10, 30, averaged=True)
    assert binned.ends.tolist() == [10, 20, 30] and binned.places.tolist() == [5, 15, 25]
    assert binned.returns[0, :2].tolist() == [2.0, 6.0] and math.isnan(binned.returns[0, 2])


def test_a_run_in_progress_is_compared_over_its_own_tasks():
    criterion = shortened(DREAMER, ["dmc_walker_run", "dmc_hopper_hop"], 100_000)
    runs = synthetic.runs(criterion)
    for index, run in enumerate(runs):
        if run.task == "dmc_hopper_hop":
            begun = {key: getattr(run, key)[:2] for key in ("steps", "values", "episodes")}
            runs[index] = dataclasses.replace(run, **begun)
    drawings = aggregates.along_training(judgement(criterion, runs), FEW)
    assert drawings["tasks"].series[0].ys == (2.0, 2.0, 1.0, 1.0, 1.0)
    theirs, ours = (next(s for s in drawings["iqm"].series if s.name.startswith(n)) for n in ("DreamerV3", "ours"))
    assert ours.ys == pytest.approx(theirs.ys)


# What is shown


def drawings_of(laid_out):
    return [picture.drawing for picture in laid_out.pictures()]


def test_every_picture_says_what_its_axes_are(tmp_path):
    for run in synthetic.runs(TWO_TASKS):
        written_runs.write(tmp_path, TWO_TASKS, run)
    laid_out = layout.document(found(tmp_path), **FEW)
    assert len(laid_out.pictures()) == 7  # two tasks, mean, median, iqm, two profiles
    for picture in laid_out.pictures():
        for axis in (picture.drawing.x, picture.drawing.y):
            assert axis.label and f">{axis.label}<" in picture.svg
        assert picture.drawing.x.label in ("env steps", "return τ")


def test_the_baselines_are_drawn_beside_the_reference():
    of = judgement(TWO_TASKS)
    profiles = aggregates.performance_profiles(of, FEW)
    drawings = [curves.drawn(of, "cheetah-run"), aggregates.along_training(of, FEW)["iqm"], *profiles.values()]
    for drawing in drawings:
        names = " ".join(name for _, name in drawing.key())
        for agent in ("ours", "TD-MPC2, the reference", "DreamerV3, baseline", "SAC, baseline", "TD-MPC, baseline"):
            assert agent in names


def test_a_published_curve_of_other_tasks_is_not_passed_off_as_comparable():
    of = judgement(TWO_TASKS)
    there = {task: np.ones(40, dtype=bool) for task in TWO_TASKS.tasks}
    ends = np.arange(100_000, 4_000_001, 100_000)
    lacking = aggregates.published_in_chunks("tdmpc2_dmc_vs_dreamerv3", TWO_TASKS, there, ends)
    few = np.sum([~np.isnan(rows).all(axis=0) for rows in lacking.values()], axis=0) < 2
    drawn = next(one for one in aggregates.iqm_series(of, FEW) if one.name == "DreamerV3, baseline")
    assert few.any() and np.isnan(drawn.ys)[few].all() and np.isfinite(drawn.ys)[~few].all()


def test_a_key_names_only_what_can_be_seen():
    axes = (Axis("env steps", "env_steps", 0, 100, steps=True), Axis("return", "return", 0, 1000))
    seen, beyond = DrawnSeries("seen", OURS[0], (50.0,), (1.0,)), DrawnSeries("beyond", OURS[1], (150.0,), (1.0,))
    empty, twin = DrawnSeries("empty", OURS[2], (50.0,), (math.nan,)), DrawnSeries("seen", OURS[0], (60.0,), (1.0,))
    drawing = Drawing("t", *axes, (seen, beyond, empty, twin))
    assert drawing.key() == [(OURS[0], "seen")]
    barred = Drawing("t", *axes, (seen,), (Target("early", 10, 20, 500.0),))
    assert keys_of([barred, drawing]) == [(OURS[0], "seen"), (BAR, "bar"), (WINDOW, "window")]


def test_a_csv_holds_the_numbers_that_are_drawn():
    drawing = curves.drawn(judgement(TWO_TASKS), "cheetah-run")
    rows = list(csv.DictReader(io.StringIO(drawing.csv())))
    assert list(rows[0]) == ["series", "env_steps", "return", "low", "high"]
    for one in drawing.series:
        mine = [(float(row["env_steps"]), float(row["return"])) for row in rows if row["series"] == one.name]
        assert np.array(mine) == pytest.approx(np.array(one.finite()))
    bars = [row for row in rows if row["series"].startswith("bar")]
    assert [float(row["env_steps"]) for row in bars] == [500_000, 1_000_000, 3_000_000, 4_000_000]


def test_a_png_stands_alone_with_its_key_and_is_the_same_each_time():
    picture = document.Picture("p", curves.drawn(judgement(TWO_TASKS), "cheetah-run"), "")
    again = document.Picture("p", curves.drawn(judgement(TWO_TASKS), "cheetah-run"), "")
    assert picture.png.startswith(b"\x89PNG") and picture.png == again.png and picture.svg == again.svg


@pytest.mark.parametrize("name", [r"$\frac{1}$", "a\ud800b", "nul\0", "$x", "line\nbreak", "<b>&"])
def test_no_name_breaks_a_picture(name):
    drawing = dataclasses.replace(curves.drawn(judgement(TWO_TASKS), "cheetah-run"), title=name)
    drawing = dataclasses.replace(drawing, series=(DrawnSeries(name, OURS[0], (1.0,), (2.0,)),))
    picture = document.Picture("p", drawing, name)
    xml.dom.minidom.parseString(picture.svg)
    assert picture.png


def test_smoke_runs_of_two_agents_are_told_apart(tmp_path):
    for agent in ("tdmpc2", "dreamerv3"):
        smoke = protocols.protocol(f"{agent}-smoke")
        every = smoke.chunk * smoke.action_repeat
        run = verdicts.ScoredRun(smoke.task, smoke.seeds[0], [every, 2 * every], [110.0, 202.0])
        said = written_runs.record_of(smoke, run.seed)
        written_runs.write_as(tmp_path / smoke.name, said, written_runs.lines(run, smoke))
    result = found(tmp_path)
    assert sorted(one.label for one in result.off_protocol) == ["dreamerv3 smoke seed 0", "tdmpc2 smoke seed 1"]
    assert {run for origin in result.origins for run in origin.runs} == {one.label for one in result.off_protocol}
    titles = [drawing.title for drawing in drawings_of(layout.document(result, **FEW))]
    assert sorted(titles) == ["DreamerV3 smoke", "TD-MPC2 smoke"]


def test_what_limits_a_verdict_stands_beside_it():
    assert not verdict.caveats_of(judgement(TWO_TASKS, []))
    for name in ("tdmpc2-playground", "dreamerv3-playground"):
        of = judgement(criteria.criterion(name), [])
        (answer,) = [block for block in verdict.heading(of) if isinstance(block, document.Answer)]
        assert "measured on dm_control" in answer.caveats[0]
        text = document.Document("t", [answer])
        for written in (markdown.markdown(text), page.page(text)):
            assert "measured on dm\\_control" in written or "measured on dm_control" in written


def test_what_a_variant_changes_is_shown_beside_what_the_protocol_has(tmp_path):
    mine = {"name": "mine", "sha256": "0" * 64, "overrides": {"iterations": 3, "num_samples": 256}}
    for run in synthetic.runs(TWO_TASKS):
        written_runs.write(tmp_path, TWO_TASKS, run, presets=[mine])
    text = markdown.markdown(layout.document(found(tmp_path), **FEW))
    assert "What the variant changes" in text
    assert re.search(r"\| `iterations` \| 6 \| 3 \|", text)
    assert re.search(r"\| `num_samples` \| 512 \| 256 \|", text)


def origins_of(number, keys=47):
    return [
        provenance.Origin(f"{index:08x}", {f"key{key}": f"{index:064x}" for key in range(keys)}, ("r seed 1",), 1)
        for index in range(number)
    ]


@pytest.mark.parametrize("number", [2, 4, 5, 30])
def test_provenances_fit_the_page_however_many_differ_in_however_much(number):
    origins = origins_of(number)
    table = provenance.differences(origins, [f"key{key}" for key in range(47)])
    assert len(table.columns) <= 1 + provenance.SIDE_BY_SIDE
    assert table.folded  # they are many rows
    assert max(len(cell) for row in table.rows for cell in row) < 40
    named = {name for row in [*table.rows, table.columns] for cell in row for name in re.findall(r"`(\w+)`", cell)}
    assert named == {origin.name for origin in origins}


def test_the_rules_on_the_page_are_those_of_the_criteria(tmp_path):
    written_runs.write(tmp_path, TWO_TASKS, synthetic.runs(TWO_TASKS)[0])
    rules = " ".join(method.how_it_is_judged(found(tmp_path))[1].items)
    assert f"minus {criteria.MARGIN:g}" in rules and f"at least {criteria.LEAST_SEEDS} seeds" in rules


def test_the_page_escapes_every_text():
    odd = '<script>alert("x")</script>'
    blocks = [
        document.Heading(1, odd), document.Paragraph(odd), document.Answer("FAIL", odd, [odd]),
        document.Listing([odd]), document.Table([odd], [[odd]], odd),
        document.Gallery([], [(dataclasses.replace(OURS[0], said=odd), odd)]),
    ]  # fmt: skip
    html = page.page(document.Document(odd, blocks))
    assert "<script" not in html and html.count("&lt;script&gt;") == 11
