"""A report says what the criteria say of the runs that a folder holds, and shows what it left out."""

import dataclasses
import json
import random
import re
from html.parser import HTMLParser

import pytest
import written_runs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.validation import report
from tdmpc2_lean.validation.judging import criteria, findings, protocols, reading, synthetic, verdicts
from tdmpc2_lean.validation.judging.criteria import FAIL, INCOMPLETE, PASS
from tdmpc2_lean.validation.report import layout, markdown, page

DREAMER = criteria.criterion("dreamerv3-dm_control")
TDMPC2 = criteria.criterion("tdmpc2-dm_control")
# Criteria of few tasks, where what is tested does not depend on how many there are.
TWO_TASKS = dataclasses.replace(TDMPC2, tasks=("cheetah-run", "walker-run"))
OF_FIVE_SEEDS = dataclasses.replace(criteria.criterion("dreamerv3-dm_control"), tasks=("dmc_cheetah_run",))
FEW = {"resamples": 20}


def found(runs, of=TWO_TASKS, **options):
    """The findings on a folder of runs of a criterion."""
    known = {of.name: of}
    return findings.report(reading.read(runs), known, **FEW | options)


def write_all(runs, of=TWO_TASKS, some=None, **changed):
    for run in synthetic.runs(of) if some is None else some:
        written_runs.write(runs, of, run, **changed)


def texts(runs, of=TWO_TASKS):
    """The report as markdown and as a page."""
    document = layout.document(found(runs, of), **FEW)
    return markdown.markdown(document), page.page(document)


def curve_of(run, of=TWO_TASKS):
    return written_runs.lines(run, written_runs.entry(of, run.task))


def append(folder, *lines):
    with open(folder / "curve.jsonl", "a") as file:
        file.writelines(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)


# The verdict


@pytest.mark.parametrize(
    ("shift", "tasks", "state", "code"),
    [(0, None, PASS, 0), (-300, None, FAIL, 1), (0, DREAMER.tasks[:-1], INCOMPLETE, 2)],
)
def test_a_report_ends_with_its_verdict_and_says_it_first(tmp_path, shift, tasks, state, code):
    write_all(tmp_path / "runs", DREAMER, synthetic.runs(DREAMER, shift=shift, tasks=tasks))
    verdict = report.write(tmp_path / "runs", tmp_path / "out", **FEW)
    assert (verdict.state, verdict.exit_code) == (state, code)
    text = (tmp_path / "out" / report.MARKDOWN).read_text()
    assert text.split("\n\n")[1].startswith(f"**{state}**: DreamerV3 on dm_control")
    order = ["## Windows", "## Tasks, early", "## Tasks, late", "## Curves", "## Aggregate curve", "## Provenance"]
    assert [text.index(heading) for heading in order] == sorted(text.index(heading) for heading in order)
    html = (tmp_path / "out" / report.PAGE).read_text()
    assert re.search(r"<strong>(\w+)</strong>", html)[1] == state


def test_the_numbers_are_those_of_the_criteria(tmp_path):
    runs = synthetic.runs(TWO_TASKS, shift=-10)
    write_all(tmp_path, TWO_TASKS, runs)
    judgement = found(tmp_path).judgements[0]
    due = verdicts.judge(TWO_TASKS, runs)
    assert [dataclasses.replace(w, tasks=()) for w in judgement.verdict.windows] == [
        dataclasses.replace(w, tasks=()) for w in due.windows
    ]
    text, _ = texts(tmp_path)
    for window in due.windows:
        for task in window.tasks:
            row = next(
                line
                for line in text.split(f"Tasks, {window.name}")[1].splitlines()
                if line.startswith(f"| {task.task} ")
            )
            cells = [cell.strip() for cell in row.strip("|").split("|")]
            expected = [task.mean, task.reference_mean, min(task.reference.values()), task.bar]
            assert cells[:6] == [task.task, PASS, *(f"{value:.1f}" for value in expected)]
            assert cells[7:] == ["3", *(f"{task.ours[seed]:.1f}" for seed in (1, 2, 3))]


def test_a_run_one_chunk_short_is_unjudged_and_named(tmp_path):
    runs = synthetic.runs(TWO_TASKS)
    folders = [written_runs.write(tmp_path, TWO_TASKS, run) for run in runs]
    curve = folders[0] / "curve.jsonl"
    curve.write_text("".join(curve.read_text().splitlines(keepends=True)[:-1]))
    result = found(tmp_path)
    assert result.state == INCOMPLETE
    text, _ = texts(tmp_path)
    assert "seed 1 is at 3900000 of 4000000 env steps" in text
    assert "| cheetah-run | 1 | finished | 3.9M | 4M | 98 % |" in text


def test_wall_time_is_that_of_the_runs_at_their_end_by_device(tmp_path):
    runs = synthetic.runs(TWO_TASKS)
    write_all(tmp_path, TWO_TASKS, runs[:4])
    short = written_runs.lines(runs[4], written_runs.entry(TWO_TASKS, runs[4].task))[:-1]
    written_runs.write(tmp_path, TWO_TASKS, runs[4], curve=short)
    assert "| ours | 4M | NVIDIA H100 | 4 | 20.0 h | 20.0 h | 20.0 h |" in texts(tmp_path)[0]


def test_tasks_without_a_run_are_named(tmp_path):
    write_all(tmp_path, TWO_TASKS, synthetic.runs(TWO_TASKS, tasks=["walker-run"]))
    text, html = texts(tmp_path)
    assert text.count("No run on protocol yet: cheetah-run.") == html.count("No run on protocol yet: cheetah-run.") == 2


def test_no_runs_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(UserError, match="holds no run"):
        report.write(tmp_path, tmp_path / "out")
    with pytest.raises(UserError, match="no folder"):
        report.write(tmp_path / "nowhere", tmp_path / "out")


# What never changes a verdict


@pytest.fixture(scope="module")
def near_the_bar():
    """Runs of which some tasks pass and some fail: a verdict that a lost or doubled line would change."""
    runs = synthetic.runs(TWO_TASKS)
    return [dataclasses.replace(r, values=[v - 60 * (r.task == "walker-run") for v in r.values]) for r in runs]


def shown(result):
    """What a report says of the verdicts, apart from where things lie."""
    return [
        (
            judgement.criterion.name,
            judgement.variant,
            judgement.verdict.state,
            judgement.verdict.windows,
            judgement.rows,
        )
        for judgement in result.judgements
    ], result.state


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(draw=st.randoms(use_true_random=False))
def test_shuffled_lines_resumes_and_renamed_folders_never_change_a_verdict(tmp_path_factory, near_the_bar, draw):
    plain, changed = tmp_path_factory.mktemp("plain"), tmp_path_factory.mktemp("changed")
    for number, run in enumerate(near_the_bar):
        written_runs.write(plain, TWO_TASKS, run)
        lines, starts = written_runs.lines(run, written_runs.entry(TWO_TASKS, run.task)), {}
        if draw.random() < 0.5:
            lines, starts = resumed(lines, draw)
        if draw.random() < 0.5:
            draw.shuffle(lines)
        folder = written_runs.write(changed, TWO_TASKS, run, curve=lines, **starts)
        if draw.random() < 0.5:
            folder.rename(changed / f"{draw.choice(['a', 'z/y', 'seed-1', '+'])} {number}".replace("/", "-"))
    assert shown(found(changed, resamples=5)) == shown(found(plain, resamples=5))


def resumed(lines, draw):
    """The lines as processes that took over from one another leave them, some repeated, and their provenances."""
    left = []
    start = 0
    made = {}
    for part in range(draw.randint(1, 4)):
        on = written_runs.provenance(device={"kind": "cuda:0", "name": f"card {part}"})
        name = written_runs.name_of(on)
        made[name] = on
        end = draw.randint(start, len(lines))
        left += [{**line, "provenance": name, "seconds": draw.random()} for line in lines[start:end]]
        start = max(0, end - draw.randint(0, 3))
    first = written_runs.provenance()
    return left + lines[start:], {"provenances": {**made, written_runs.name_of(first): first}}


# Off protocol


ENTRY = written_runs.entry(TWO_TASKS, "cheetah-run").as_json()
SETTINGS = written_runs.settings_of(written_runs.entry(TWO_TASKS, "cheetah-run"), 1)
ELSEWHERE = written_runs.provenance(code={"commit": "abc"})


@pytest.mark.parametrize(
    ("changed", "key", "sides"),
    [
        ({"agent_steps": 4_000_000}, "agent_steps", ("2000000", "4000000")),
        ({"protocol_entry": {**ENTRY, "env_steps": 8_000_000}}, "protocol_entry.env_steps", ("4000000", "8000000")),
        ({"protocol_entry": {**ENTRY, "extra": 1}}, "protocol_entry.extra", ("absent", "1")),
        ({"settings": {**SETTINGS, "horizon": 5}}, "horizon", ("3", "5")),
        ({"seed": 7, "settings": {**SETTINGS, "seed": 7}}, "seed", ("one of 1, 2, 3", "7")),
        ({"tasks": ["walker-run"]}, "task", ("cheetah-run", "walker-run")),
        ({"protocol": "tdmpc2-cheetah-rum"}, "protocol", ("a registered one", "tdmpc2-cheetah-rum")),
        ({"provenance": ELSEWHERE}, "commit", (written_runs.code_of("tdmpc2")["commit"], "abc")),
    ],
)
def test_a_run_that_differs_from_the_registry_is_listed_with_the_key_and_not_judged(tmp_path, changed, key, sides):
    runs = synthetic.runs(TWO_TASKS)
    odd, rest = runs[0], runs[1:]
    write_all(tmp_path, TWO_TASKS, rest)
    written_runs.write(tmp_path, TWO_TASKS, odd, **changed)
    result = found(tmp_path)
    assert result.state == INCOMPLETE
    assert [[deviation.key for deviation in one.deviations] for one in result.off_protocol] == [[key]]
    text, _ = texts(tmp_path)
    assert "1 run off protocol, listed below and not judged." in text
    assert f"| {key} | {sides[0]} | {sides[1]} |\n" in text.partition("## Off protocol")[2]


def test_a_chosen_seed_beside_the_protocols_does_not_count(tmp_path):
    runs = synthetic.runs(TWO_TASKS, shift=-60)
    write_all(tmp_path, TWO_TASKS, runs)
    before = found(tmp_path)
    lucky = dataclasses.replace(runs[0], seed=9, values=[1000.0] * len(runs[0].values))
    written_runs.write(tmp_path, TWO_TASKS, lucky)
    after = found(tmp_path)
    assert before.state == after.state == FAIL
    assert before.judgements[0].verdict.windows == after.judgements[0].verdict.windows


def test_a_folder_without_a_run_json_is_listed_and_not_judged(tmp_path):
    write_all(tmp_path)
    (tmp_path / "stray").mkdir()
    (tmp_path / "stray" / "curve.jsonl").write_text("")
    result = found(tmp_path)
    assert result.state == PASS
    assert [one.folder.name for one in result.off_protocol] == ["stray"]
    assert ("stray/run.json", 0, "is missing") in [dataclasses.astuple(fault) for fault in result.complaints]


def test_smoke_runs_are_shown_and_never_judged(tmp_path):
    smoke = protocols.protocol("tdmpc2-smoke")
    run = verdicts.ScoredRun(smoke.task, 1, [1000, 2000, 3000], [110.0, 202.0, 188.0])
    written_runs.write_as(tmp_path / "smoke", written_runs.record_of(smoke, 1), written_runs.lines(run, smoke))
    result = found(tmp_path)
    assert (result.state, result.exit_code, result.judgements) == (INCOMPLETE, 2, ())
    assert [deviation.key for deviation in result.off_protocol[0].deviations] == ["smoke"]
    text, html = texts(tmp_path)
    assert "nothing was judged" in text and html.count("<img ") == 1


# Variants


def test_a_variant_is_reported_as_one_with_the_defaults_runs_beside_it(tmp_path):
    write_all(tmp_path)
    write_all(tmp_path, TWO_TASKS, synthetic.runs(TWO_TASKS, shift=-400), presets=["ratio", "depth"])
    result = found(tmp_path)
    assert [(j.variant, j.verdict.state) for j in result.judgements] == [("default", PASS), ("ratio+depth", FAIL)]
    assert result.state == PASS  # the protocol's own runs decide
    variant = result.judgements[1]
    assert len(variant.default) == 6 and [row.name for row in variant.against_default] == ["default"] * 2
    assert all(row.improvement.value < 0.2 for row in variant.against_default)
    text, html = texts(tmp_path)
    assert "Not part of the verdict: TD-MPC2 on dm_control, variant ratio+depth: FAIL." in text
    row = re.search(r"\| cheetah-run \| FAIL \| [\d.]+ \| ([\d.]+) \(3\) \| ([\d.]+) \|", text)
    assert row[1] == row[2]  # the default's runs are the reference's own


def test_a_variant_alone_is_judged_and_said_to_be_one(tmp_path):
    write_all(tmp_path, presets=["fast"])
    result = found(tmp_path)
    assert result.state == PASS and result.judgements[0].variant == "fast"
    assert "This is a verdict on a variant" in texts(tmp_path)[0].split("\n\n")[1]


def test_an_off_protocol_default_does_not_stand_in_for_a_variant(tmp_path):
    write_all(tmp_path, presets=["fast"])
    written_runs.write(tmp_path, TWO_TASKS, synthetic.runs(TWO_TASKS)[0], seed=8)
    result = found(tmp_path)
    assert [judgement.variant for judgement in result.deciding] == ["fast"]
    assert not result.judgements[1].default


def test_presets_of_the_users_own_of_one_name_that_set_different_things_are_different_variants(tmp_path):
    runs = synthetic.runs(TWO_TASKS)
    for run in runs:
        mine = {"name": "mine", "sha256": "0" * 64, "overrides": {"iterations": 3 if run.seed < 3 else 4}}
        written_runs.write(tmp_path, TWO_TASKS, run, presets=[mine])
    result = found(tmp_path)
    assert len({judgement.variant for judgement in result.judgements}) == 2
    assert [[(c.setting, c.default, c.variant) for c in j.changed] for j in result.judgements] in (
        [[("iterations", 6, 3)], [("iterations", 6, 4)]],
        [[("iterations", 6, 4)], [("iterations", 6, 3)]],
    )
    assert all(judgement.variant.startswith("mine@") for judgement in result.judgements)
    assert result.state == INCOMPLETE


def test_a_preset_named_default_that_sets_something_is_not_the_default(tmp_path):
    write_all(tmp_path, presets=[{"name": "default", "overrides": {"iterations": 1}}])
    result = found(tmp_path)
    assert result.state == INCOMPLETE
    assert {deviation.key for one in result.off_protocol for deviation in one.deviations} == {"preset default"}


def test_our_default_preset_is_the_default(tmp_path):
    write_all(tmp_path, presets=["default"])
    result = found(tmp_path)
    assert [(judgement.variant, judgement.verdict.state) for judgement in result.judgements] == [("default", PASS)]


def test_the_report_shows_what_a_variant_changed_of_the_protocol(tmp_path):
    write_all(tmp_path, presets=["fast"])
    for text in texts(tmp_path):
        assert "What the variant changes" in text
    for row in ("| `batch_size` | 256 | 512 |", "| `iterations` | 6 | 3 |", "| `utd` | 1 | 0.5 |"):
        assert row in texts(tmp_path)[0]


def test_the_caveat_of_a_criterion_stands_beside_its_verdict(tmp_path):
    playground = dataclasses.replace(criteria.criterion("tdmpc2-playground"), tasks=("cheetah-run",))
    write_all(tmp_path, playground)
    beside = texts(tmp_path, playground)[0].replace("\\", "").split("\n\n")[1:4]
    assert playground.caveat in " ".join(beside)


# Lines


GOOD = {"chunk": 1, "agent_steps": 50_000, "env_steps": 100_000, "value": 1.0, "episodes": 10}
BAD_LINES = [
    ("nonsense\n", "is no JSON; left out"),
    ("[1]\n", "is no JSON object; left out"),
    (json.dumps({**GOOD, "value": "high"}) + "\n", "value is 'high' (input should be a valid number); left out"),
    (json.dumps({**GOOD, "value": True}) + "\n", "value is True (input should be a valid number); left out"),
    (json.dumps({**GOOD, "env_steps": 1.5}) + "\n", "env_steps is 1.5 (input should be a valid integer); left out"),
    (json.dumps({"value": 1.0, "episodes": 1}) + "\n",
     "chunk is missing; agent_steps is missing; env_steps is missing; left out"),
    ("\n", "is empty; left out"),
    ('{"chunk": 41, "agent_st', "is cut short; left out"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "what"), BAD_LINES, ids=[what for _, what in BAD_LINES])
def test_an_unusable_line_is_named_with_file_and_line_and_the_rest_is_judged(tmp_path, line, what):
    folders = [written_runs.write(tmp_path, TWO_TASKS, run) for run in synthetic.runs(TWO_TASKS)]
    append(folders[0], line)
    result = found(tmp_path)
    assert result.state == PASS
    name = f"{folders[0].relative_to(tmp_path)}/curve.jsonl"
    assert [dataclasses.astuple(fault) for fault in result.complaints] == [(name, 41, what)]


def test_a_line_that_is_not_utf_8_is_named(tmp_path):
    folders = [written_runs.write(tmp_path, TWO_TASKS, run) for run in synthetic.runs(TWO_TASKS)]
    with open(folders[0] / "curve.jsonl", "ab") as file:
        file.write(b"\xff\xfe\n")
    result = found(tmp_path)
    assert result.state == PASS
    assert [(fault.line, fault.what) for fault in result.complaints] == [(41, "is no JSON; left out")]


def test_a_repeated_line_counts_once(tmp_path):
    folders = [written_runs.write(tmp_path, TWO_TASKS, run) for run in synthetic.runs(TWO_TASKS)]
    append(folders[0], (folders[0] / "curve.jsonl").read_text().splitlines(keepends=True)[9])
    result = found(tmp_path)
    assert result.state == PASS
    assert [fault.what for fault in result.complaints] == ["repeats line 10 (1000000 env steps); left out"]
    name = folders[0].relative_to(tmp_path).as_posix()
    assert f"| `{name}/curve.jsonl` | 41 | repeats line 10 (1000000 env steps); left out |" in texts(tmp_path)[0]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_a_value_that_is_no_number_is_named_and_leaves_its_task_unjudged(tmp_path, value):
    runs = synthetic.runs(TWO_TASKS)
    write_all(tmp_path, TWO_TASKS, runs[1:])
    lines = curve_of(runs[0])
    lines[9]["value"] = value
    written_runs.write(tmp_path, TWO_TASKS, runs[0], curve=lines)
    result = found(tmp_path)
    assert result.state == INCOMPLETE
    assert 10 in [fault.line for fault in result.complaints]
    told = "has no finite value at 1000000" if value is None else "there is no line of 1 of 40 chunks"
    assert told in texts(tmp_path)[0]


def test_a_contradicted_line_is_named_and_leaves_its_task_unjudged(tmp_path):
    folders = [written_runs.write(tmp_path, TWO_TASKS, run) for run in synthetic.runs(TWO_TASKS)]
    line = curve_of(synthetic.run(TWO_TASKS, "cheetah-run", 1))[9]
    append(folders[0], {**line, "value": 999.0, "returns": [999.0] * 10})
    result = found(tmp_path)
    assert result.state == INCOMPLETE
    assert result.complaints[0].line == 41 and result.complaints[0].what.startswith("contradicts line 10: ")


def test_lines_out_of_order_are_named_and_counted(tmp_path):
    runs = synthetic.runs(TWO_TASKS)
    write_all(tmp_path, TWO_TASKS, runs[1:])
    lines = curve_of(runs[0])
    lines[3], lines[4] = lines[4], lines[3]
    written_runs.write(tmp_path, TWO_TASKS, runs[0], curve=lines)
    result = found(tmp_path)
    assert result.state == PASS
    assert [(fault.line, fault.what) for fault in result.complaints] == [
        (5, "is out of order: 400000 env steps after 500000")
    ]


# Provenance


def test_lines_of_several_provenances_are_flagged_with_what_differs(tmp_path):
    runs = synthetic.runs(TWO_TASKS)
    write_all(tmp_path, TWO_TASKS, runs[1:])
    here = written_runs.provenance()
    there = written_runs.provenance(device={"kind": "cpu", "name": "CPU"}, versions={"torch": "2.13.0"})
    both = {written_runs.name_of(one): one for one in (here, there)}
    lines = curve_of(runs[0])
    for line in lines[20:]:
        line["provenance"] = written_runs.name_of(there)
    written_runs.write(tmp_path, TWO_TASKS, runs[0], curve=lines, provenances=both)
    result = found(tmp_path)
    assert result.state == PASS
    assert [flag.runs for flag in flags_of(result)] == [("cheetah-run seed 1",)]
    for word in (*both, "device", "versions.torch"):
        assert word in flags_of(result)[0].what
    assert {origin.name: origin.lines for origin in result.origins} == dict(zip(both, (5 * 40 + 20, 20), strict=True))
    for text in texts(tmp_path):
        assert "flagged" in text and "NVIDIA H100" in text and "CPU" in text


def flags_of(result):
    """The flags, but for that of a machine without the official code."""
    return [flag for flag in result.flags if "not checkable here" not in flag.what]


def test_a_dirty_tree_of_our_own_is_flagged_and_changes_no_verdict(tmp_path):
    dirty = {"version": "0.1.0", "commit": "38fd515", "local_changes": True}
    write_all(tmp_path, provenance=written_runs.provenance(tdmpc2_lean=dirty))
    result = found(tmp_path)
    assert result.state == PASS
    flags = flags_of(result)
    assert len(flags) == 1 and "a dirty tree" in flags[0].what and len(flags[0].runs) == 6


def test_a_run_that_was_ever_made_with_other_code_is_off_protocol(tmp_path):
    runs = synthetic.runs(TWO_TASKS)
    write_all(tmp_path, TWO_TASKS, runs[1:])
    other = written_runs.provenance(code={"commit": "b" * 40, "local_changes": ["tdmpc2/tdmpc2.py"]})
    here = written_runs.provenance()
    written_runs.write(tmp_path, TWO_TASKS, runs[0], provenances={"ffff0000": other, written_runs.name_of(here): here})
    result = found(tmp_path)
    assert [deviation.key for deviation in result.off_protocol[0].deviations] == ["commit", "local_changes"]


def test_lines_of_a_provenance_that_nobody_describes_are_not_judged(tmp_path):
    runs = synthetic.runs(TWO_TASKS)
    write_all(tmp_path, TWO_TASKS, runs[1:])
    lines = curve_of(runs[0])
    lines[7]["provenance"] = "ffff0000"
    written_runs.write(tmp_path, TWO_TASKS, runs[0], curve=lines)
    result = found(tmp_path)
    assert result.state == INCOMPLETE
    assert [deviation.key for deviation in result.off_protocol[0].deviations] == ["provenances"]
    assert any("ffff0000" in flag.what and flag.runs == ("cheetah-run seed 1",) for flag in result.flags)


def test_clean_runs_have_no_flag(tmp_path):
    write_all(tmp_path)
    assert flags_of(found(tmp_path)) == []
    if not found(tmp_path).flags:
        assert "No flags" in texts(tmp_path)[0]


# The pages


class Resources(HTMLParser):
    """Everything that a page would load, and its words."""

    def __init__(self):
        super().__init__()
        self.loaded, self.linked, self.words, self.cells, self.opened = [], [], [], [], []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "link", "img"):
            self.opened.append(tag)
        found = [value for name, value in attributes if name in ("src", "href", "srcset", "data", "action")]
        (self.linked if tag == "a" else self.loaded).extend(found)
        self.cells += [tag] if tag == "td" else []

    def handle_endtag(self, tag):
        assert self.opened.pop() == tag

    def handle_data(self, data):
        if "main" in self.opened:
            self.words.append(data)


def test_the_page_is_whole_and_loads_nothing(tmp_path):
    write_all(tmp_path)
    _, html = texts(tmp_path)
    parser = Resources()
    parser.feed(html)
    assert parser.opened == []
    assert len(parser.loaded) > 3 and all(value.startswith("data:") for value in parser.loaded)
    assert parser.linked and all(link.startswith("report-pictures/") for link in parser.linked)
    assert not re.search(r"https?://|url\(|@import|<script", html)


def test_markdown_and_page_say_the_same(tmp_path):
    write_all(tmp_path, TWO_TASKS, synthetic.runs(TWO_TASKS, tasks=["cheetah-run"]))
    folder = written_runs.write(tmp_path, TWO_TASKS, synthetic.runs(TWO_TASKS)[-1], seed=5)
    append(folder, "x\n")
    text, html = texts(tmp_path)
    parser = Resources()
    parser.feed(html)

    def words(some):
        return re.findall(r"\w+", some)

    signs = r"</?(?:details|summary)>|!\[(.*?)\]\(.*?\)|\]\(report-pictures/.*?\)|\|[ -:|]*---[ -:|]*\||\\"
    plain = re.sub(signs, "", text)
    assert sorted(words(plain)) == sorted(words(" ".join(parser.words)))


def test_names_from_a_file_cannot_break_the_pages(tmp_path):
    evil = '<script>alert("x")</script> | ![x](http://e.x) `'
    write_all(tmp_path)
    run = synthetic.runs(TWO_TASKS)[0]
    folder = written_runs.write(tmp_path / "odd", TWO_TASKS, run)
    record = json.loads((folder / "run.json").read_text())
    record["specification"] |= {"protocol": evil, "tasks": [evil], "presets": [{"name": evil}, {"name": "../../x"}]}
    (folder / "run.json").write_text(json.dumps(record))
    text, html = texts(tmp_path)
    assert "<script" not in html
    outside_code = re.sub(r"`[^`]*`", "", text)
    assert "<script" not in outside_code.replace("\\<script", "")
    assert "](http" not in outside_code.replace("\\](http", "")
    document = layout.document(found(tmp_path), **FEW)
    assert all(re.fullmatch(r"[A-Za-z0-9_.+-]+", picture.name) for picture in document.pictures())


@pytest.mark.parametrize("odd", ["$\\frac{1}$", "\ud800", "a\x00b\x1b[31m", "_".join("x" * 300)], ids=ascii)
def test_no_odd_name_or_number_of_a_run_keeps_a_report_from_being_written(tmp_path, odd):
    write_all(tmp_path / "runs", TWO_TASKS, synthetic.runs(TWO_TASKS, tasks=["cheetah-run"]))
    run = synthetic.runs(TWO_TASKS)[-1]
    curve = curve_of(run)
    curve[0] |= {"value": 1e308, "returns": [1e308] * 10, "seconds": 1e308}
    curve[1] |= {"env_steps": 2**53 - 1}
    good = written_runs.record(TWO_TASKS, run)
    said = good["specification"]
    mine = {"name": odd, "sha256": "0" * 64, "overrides": {"iterations": 3, odd: odd}}
    changes = [{"tasks": [odd]}, {"protocol": odd}, {"arm": odd}, {"presets": [mine]}, {"seed": 2**70}, {}]
    for number, change in enumerate(changes):
        path = tmp_path / "runs" / f"odd-{number}"
        written_runs.write_as(path, {**good, "specification": {**said, **change}, "error": odd}, curve)
    written_runs.write_as(tmp_path / "runs" / "deep", {**good, "settings": {odd: 1, "lr": odd}}, curve)
    assert report.write(tmp_path / "runs", tmp_path / "out", **FEW).state == INCOMPLETE


def test_odd_run_jsons_are_listed_and_nothing_raises(tmp_path):
    write_all(tmp_path)
    odd = [
        [],
        1,
        {},
        {"protocol": ["x"]},
        {"protocol": "tdmpc2-cheetah-run", "presets": 3, "seed": "one", "provenance": 4},
        {"schema": 2},
        {"schema": "2"},
        {"schema": 99},
    ]
    good = written_runs.record(TWO_TASKS, synthetic.runs(TWO_TASKS)[0])
    odd += [{**good, "specification": None}, {**good, "provenances": {}}, {**good, "starts": []}]
    said = good["specification"]
    odd += [{**good, "specification": {**said, "seed": seed}} for seed in (True, 1.0, "1", None, 1e308)]
    odd += [{**good, "specification": {**said, "tasks": ["x"]}}]
    for number, record in enumerate(odd):
        (tmp_path / f"odd-{number}").mkdir()
        (tmp_path / f"odd-{number}" / "run.json").write_text(json.dumps(record))
    result = found(tmp_path)
    assert result.state == PASS and len(result.off_protocol) == len(odd)
    texts(tmp_path)


def test_a_report_inside_the_folder_of_runs_is_no_run_and_repeats_itself_byte_for_byte(tmp_path):
    write_all(tmp_path, DREAMER, synthetic.runs(DREAMER, tasks=DREAMER.tasks[:2]))
    out = tmp_path / "report"

    def written():
        report.write(tmp_path, out, **FEW)
        return {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}

    first = written()
    random.seed(1)
    (out / report.PICTURES / "of-an-earlier-report.svg").write_text("")
    assert written() == first
    linked = re.findall(r"\((report-pictures/.*?)\)", first[next(p for p in first if p.name == "report.md")].decode())
    pictures = {path.as_posix() for path in first if path.parent.name == report.PICTURES}
    assert set(linked) == pictures and {path.rpartition(".")[2] for path in pictures} == set(report.KINDS)
    page = Resources()
    page.feed(first[next(p for p in first if p.name == "report.html")].decode())
    assert set(page.linked) == pictures


def test_a_folder_that_cannot_be_written_is_an_error_that_says_what_to_do(tmp_path):
    write_all(tmp_path / "runs", TWO_TASKS, synthetic.runs(TWO_TASKS, tasks=["cheetah-run"]))
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        report.write(tmp_path / "runs", tmp_path / "file" / "out", **FEW)


@pytest.mark.parametrize("spoiled", [{"iterations": 1}, None])
def test_spoiling_the_runs_of_low_seeds_makes_no_pass(tmp_path, spoiled):
    """Five seeds of which two are low; without these two the three others would do."""
    runs = synthetic.runs(OF_FIVE_SEEDS, shift=-40.0)
    low = [dataclasses.replace(run, values=[0.0] * len(run.values)) if run.seed > 2 else run for run in runs]
    write_all(tmp_path, OF_FIVE_SEEDS, low)
    assert found(tmp_path, OF_FIVE_SEEDS).state == FAIL
    for path in sorted(tmp_path.rglob("run.json")):
        if json.loads(path.read_text())["specification"]["seed"] > 2:
            if spoiled is None:
                path.write_text("{")
            else:
                record = json.loads(path.read_text())
                record["settings"]["batch_size"] = 1
                path.write_text(json.dumps(record))
    result = found(tmp_path, OF_FIVE_SEEDS)
    assert result.state == INCOMPLETE
    assert ("run off protocol" if spoiled else "cannot be read") in texts(tmp_path, OF_FIVE_SEEDS)[0]
