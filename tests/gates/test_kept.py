"""What is kept is found again only by all that it depends on, whole, and never instead of the subject's own run."""

import json
from pathlib import Path

import pytest

from tdmpc2_lean import places
from tdmpc2_lean.validation.gates import kept, process
from tdmpc2_lean.validation.gates.trace_tdmpc2 import TDMPC2Budget
from tdmpc2_lean.validation.gates.traced_runs import TracedRuns


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "cache_dir", lambda: tmp_path / "cache")
    return tmp_path / "cache"


def keep(facts, text="kept"):
    kept.keep("things", facts, lambda folder: (folder / "it.txt").write_text(text))


def test_what_is_kept_is_found_by_all_that_it_depends_on():
    keep({"code": "a", "steps": 3})
    folder, when = kept.recall("things", {"steps": 3, "code": "a"})
    assert (folder / "it.txt").read_text() == "kept" and when[:2] == "20"
    for facts in ({"code": "b", "steps": 3}, {"code": "a", "steps": 4}, {"code": "a"}):
        assert kept.recall("things", facts) is None
    keep({"code": "a", "steps": 3}, "newer")
    assert (kept.recall("things", {"code": "a", "steps": 3})[0] / "it.txt").read_text() == "newer"


def test_what_was_changed_since_it_was_kept_is_not_found():
    keep({"code": "a"})
    folder, _ = kept.recall("things", {"code": "a"})
    (folder / "it.txt").write_text("other")
    assert kept.recall("things", {"code": "a"}) is None
    (folder / "it.txt").unlink()
    assert kept.recall("things", {"code": "a"}) is None


def test_writing_that_fails_keeps_nothing(cache):
    with pytest.raises(ZeroDivisionError):
        kept.keep("things", {"code": "a"}, lambda folder: 1 / 0)
    assert kept.recall("things", {"code": "a"}) is None and not list((cache / "gates" / "things").iterdir())


def test_the_oldest_go_first(monkeypatch):
    monkeypatch.setattr(kept, "MOST", 2)
    for number in range(4):
        keep({"code": number})
    assert sum(kept.recall("things", {"code": number}) is not None for number in range(4)) == 2


def test_surroundings_are_our_code_the_packages_and_the_processor():
    found = kept.surroundings(["numpy"])
    assert set(found["versions"]) == {"python", "numpy"} and found["processor"] and len(found["gates"]) == 64


def test_the_trace_of_a_reference_is_made_once_and_a_subjects_every_time(tmp_path, monkeypatch):
    made = []

    def call(function, code_dir, shim, stack, trace, **arguments):
        made.append(Path(code_dir).name)
        Path(trace).write_text(json.dumps({"made": len(made)}) + "\n")
        return {"updates": len(made)}

    monkeypatch.setattr(process, "call", call)
    for name in ("reference", "subject"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text("steps: 1\n")
    for _ in range(2):
        runs = TracedRuns(TDMPC2Budget(), kept=[tmp_path / "reference"])
        assert runs.answer_of(tmp_path / "reference") == {"updates": 1}
        assert json.loads(runs.trace_of(tmp_path / "reference").read_text()) == {"made": 1}
        runs.trace_of(tmp_path / "subject")
        runs.close()
    assert made == ["reference", "subject", "subject"]
    (tmp_path / "reference" / "config.yaml").write_text("steps: 2\n")
    TracedRuns(TDMPC2Budget(), kept=[tmp_path / "reference"]).trace_of(tmp_path / "reference")
    TracedRuns(TDMPC2Budget(steps=90), kept=[tmp_path / "reference"]).trace_of(tmp_path / "reference")
    assert made[3:] == ["reference", "reference"]
