"""Extraction gives the committed bytes from the official files, and refuses files that are not them.

The official files are not carried here: most tests write result files in the authors' formats from the
committed references and extract them again.
"""

import gzip
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from tdmpc2_lean import references
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.references import extract as extraction

COMMIT = "0" * 40
UPSTREAM_NAMES = {"tdmpc2": "TD-MPC2", "dreamerv3": "DreamerV3"}
FOLDER = Path(references.__file__).parent


def source(name: str) -> extraction.Publication:
    return next(source for source in extraction.PUBLICATIONS if source.name == name)


def csv_of(reference: references.Reference, task: str) -> str:
    """The task's curve in the format of TD-MPC2's authors, seeds falling as there."""
    lines = ["step,reward,seed"]
    curve = reference.curve(task)
    for seed in reversed(curve.seeds):
        lines += [f"{step},{value},{seed}" for step, value in zip(*curve.of_seed(seed), strict=True)]
    for run in reference.further_runs(task):
        lines += [f"{s},{v},{run.seed}" for s, v in zip(run.steps, run.returns, strict=True)]
    return "\n".join(lines) + "\n"


def records_of(reference: references.Reference) -> list[dict]:
    """The curves in the format of DreamerV3's author."""
    found = []
    for task in reference.tasks:
        curve = reference.curve(task)
        for seed in curve.seeds:
            steps, values = curve.of_seed(seed)
            record = {"task": task, "method": "any", "seed": seed}
            found.append(record | {"xs": steps.tolist(), "ys": values.tolist()})
    return found


@pytest.fixture
def tdmpc2_files(tmp_path):
    """A folder laid out as an official checkout, with TD-MPC2's own curves only."""
    folder = tmp_path / "checkout" / "results" / "tdmpc2"
    folder.mkdir(parents=True)
    reference = references.load("tdmpc2_dmc")
    for task in reference.tasks:
        (folder / f"{task}.csv").write_text(csv_of(reference, task))
    return folder


def write_dreamerv3(folder, records):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dmc_proprio-dreamerv3.json.gz").write_bytes(gzip.compress(json.dumps(records).encode()))


@pytest.mark.parametrize("name", ["tdmpc2_dmc", "tdmpc2_dmc_vs_tdmpc", "tdmpc2_dmc_vs_dreamerv3"])
def test_curves_written_as_csv_come_back_as_they_were(name):
    reference, of = references.load(name), source(name)
    files = {f"{of.folder}/{task}.csv": csv_of(reference, task).encode() for task in reference.tasks}
    document = extraction.document(of, files, COMMIT)
    committed = json.loads((FOLDER / f"{name}.json").read_text())
    assert document["curves"] == committed["curves"]
    assert document["notes"] == committed["notes"]
    assert document["commit"] == COMMIT


@pytest.mark.parametrize("name", ["dreamerv3_dmc_proprio", "dreamerv3_dmc_proprio_vs_ppo"])
def test_curves_written_as_records_come_back_as_they_were_in_any_order(name):
    reference, of = references.load(name), source(name)
    records = records_of(reference)
    np.random.default_rng(0).shuffle(records)
    files = {f"{of.folder}/{of.files[0]}": gzip.compress(json.dumps(records).encode())}
    committed = json.loads((FOLDER / f"{name}.json").read_text())
    assert extraction.document(of, files, COMMIT)["curves"] == committed["curves"]


@pytest.mark.parametrize("name", references.names())
def test_a_committed_file_is_written_as_extraction_writes_it(name):
    text = (FOLDER / f"{name}.json").read_text()
    assert extraction.render(json.loads(text)) == text


@pytest.mark.parametrize("name", references.names())
def test_a_committed_file_names_files_with_the_known_digest(name):
    lines = sorted(f"{blob} {path}\n" for path, blob in references.load(name).files.items())
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == source(name).digest


def test_extracting_again_changes_no_byte_and_touches_no_file(tdmpc2_files, tmp_path):
    to = tmp_path / "out"
    first = extraction.extract(tdmpc2_files.parents[1], to, COMMIT)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in to.iterdir()}
    again = extraction.extract(tdmpc2_files.parents[1], to, COMMIT)
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in to.iterdir()} == before
    assert [written.changed for written in first + again] == [True, False]
    assert list(before) == ["tdmpc2_dmc.json"]


def test_both_layouts_give_the_same_bytes(tdmpc2_files, tmp_path):
    beside = tmp_path / "files" / "tdmpc2" / "tdmpc2"
    beside.parent.mkdir(parents=True)
    beside.symlink_to(tdmpc2_files)
    extraction.extract(tdmpc2_files.parents[1], tmp_path / "a", COMMIT)
    extraction.extract(tmp_path / "files", tmp_path / "b", COMMIT)
    assert (tmp_path / "a/tdmpc2_dmc.json").read_bytes() == (tmp_path / "b/tdmpc2_dmc.json").read_bytes()


def test_files_other_than_the_known_ones_are_refused_by_name_unless_a_commit_is_given(tdmpc2_files, tmp_path):
    changed = tdmpc2_files / "acrobot-swingup.csv"
    changed.write_text(changed.read_text().replace("711.5", "711.6"))
    with pytest.raises(UserError, match="not those of https://github.com/nicklashansen/tdmpc2") as refusal:
        extraction.extract(tdmpc2_files.parents[1], tmp_path / "out")
    assert "acrobot-swingup.csv" in refusal.value.message and "--commit" in refusal.value.next_step
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_named(tdmpc2_files, tmp_path):
    (tdmpc2_files / "dog-run.csv").unlink()
    with pytest.raises(UserError, match="dog-run.csv"):
        extraction.extract(tdmpc2_files.parents[1], tmp_path / "out", COMMIT)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("step,reward,seed\n0,nan,1\n", "line 2: expected a finite number"),
        ("step,reward,seed\n0,1.0,1\n100000,,1\n", "line 3: expected a finite number"),
        ("step,reward,seed\n0,1.0\n", "line 2"),
        ("step,reward,seed\n-5,1.0,1\n", "line 2: expected a whole number"),
        ("reward,seed\n", "expected the columns"),
    ],
)
def test_a_malformed_csv_is_named_with_its_line(tdmpc2_files, tmp_path, text, what):
    (tdmpc2_files / "cup-spin.csv").write_text(text)
    with pytest.raises(UserError, match=what) as refusal:
        extraction.extract(tdmpc2_files.parents[1], tmp_path / "out", COMMIT)
    assert "cup-spin.csv" in refusal.value.message


def test_malformed_records_are_named(tmp_path):
    records = records_of(references.load("dreamerv3_dmc_proprio"))
    records[7]["ys"] = records[7]["ys"][:-1]
    write_dreamerv3(tmp_path / "scores", records)
    with pytest.raises(UserError, match="record 7"):
        extraction.extract(tmp_path, tmp_path / "out", COMMIT)
    (tmp_path / "scores" / "dmc_proprio-dreamerv3.json.gz").write_bytes(b"not gzip")
    with pytest.raises(UserError, match="not gzipped JSON"):
        extraction.extract(tmp_path, tmp_path / "out", COMMIT)


def test_an_unknown_task_in_the_files_is_refused(tmp_path):
    records = records_of(references.load("dreamerv3_dmc_proprio"))
    records[0]["task"] = "dmc_dog_run"
    for record in records[1:5]:
        record["task"] = "dmc_dog_run"
    write_dreamerv3(tmp_path / "scores", records)
    with pytest.raises(UserError, match="unknown .*dmc_dog_run"):
        extraction.extract(tmp_path, tmp_path / "out", COMMIT)


def test_a_folder_without_result_files_and_no_folder_are_refused(tmp_path):
    with pytest.raises(UserError, match="holds no result files"):
        extraction.extract(tmp_path, tmp_path / "out")
    with pytest.raises(UserError, match="no folder"):
        extraction.extract(tmp_path / "absent", tmp_path / "out")


def test_the_run_that_gets_farthest_is_the_curve_of_a_seed_listed_twice():
    runs = [
        extraction.ListedRun(1, ((0, 1.0), (100, 2.0))),
        extraction.ListedRun(1, ((0, 3.0), (100, 4.0), (200, 5.0))),
        extraction.ListedRun(2, ((0, 6.0), (200, 7.0))),
    ]
    curve, oddities = extraction.curve_of("task", runs, 1)
    assert curve["steps"] == {"every": 100, "first": 0, "last": 200}
    assert curve["returns"] == [[3, 4, 5], [6, None, 7]]
    assert curve["further_runs"][0]["returns"] == [1, 2]
    assert {kind for kind, _ in oddities} == {"has holes", "is listed twice"}


@pytest.mark.official
@pytest.mark.parametrize("upstream", ["tdmpc2", "dreamerv3"])
def test_the_official_files_give_the_committed_bytes(upstream, tmp_path):
    from tdmpc2_lean.upstreams import find_checkout

    try:
        checkout = find_checkout(upstream, may_clone=False)
    except UserError:
        pytest.skip(f"no official {UPSTREAM_NAMES[upstream]} code on this machine")
    if checkout.release:
        pytest.skip("a release has no result files")
    written = extraction.extract(checkout.root, tmp_path)
    assert len(written) == sum(upstream in source.repository for source in extraction.PUBLICATIONS)
    for new in written:
        committed = FOLDER / new.path.name
        assert new.path.read_bytes() == committed.read_bytes()
