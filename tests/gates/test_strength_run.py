"""Mutants of the miniature are judged by what gates see when they run them, and measuring goes on where it ended."""

import json
import os
import time
from dataclasses import replace

import pytest
from click.testing import CliRunner

from tdmpc2_lean.commands.gate import gate as gate_command
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.validation.gates import process, results
from tdmpc2_lean.validation.gates.strength import measuring, trials
from tdmpc2_lean.validation.gates.strength.forks import Instructions, names_a_place, serving
from tdmpc2_lean.validation.gates.strength.mutants import made, mutants_of
from tdmpc2_lean.validation.gates.strength.trials import KILLED, NO_IMPORT, RAISED, SURVIVED, how_it_failed
from tdmpc2_lean.validation.gates.subjects import find_subject
from tdmpc2_lean.validation.gates.suites import SUITES, Gate
from tdmpc2_lean.validation.gates.trace_tdmpc2 import TDMPC2Budget

GATES = SUITES["tdmpc2"].gates
SHORT = TDMPC2Budget(steps=90)
PROBE = """
import os, sys, time

def answer(code_dir, number=1, **_):
    import probed
    return {"number": probed.value(number), "pid": os.getpid()}

def chance(code_dir):
    import random, numpy
    return {"numpy": numpy.random.rand(), "python": random.random(), "variable": os.environ.get("FORK_PROBE", "")}

def turn(code_dir):
    while True:
        pass

def sleep(code_dir):
    time.sleep(60)
"""
PROBED = "def value(number):\n    if number > 1:\n        return 2\n    return 1\n"


@pytest.fixture
def probe(tmp_path, monkeypatch):
    """A folder of code, and a function on the path of gates' processes that runs it."""
    for name, text in (("on_path/fork_probe.py", PROBE), ("code/probed.py", PROBED)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "on_path"), prepend=os.pathsep)
    monkeypatch.setattr("tdmpc2_lean.validation.gates.strength.forks.LIBRARIES", {True: "json", False: "json"})
    return (tmp_path / "code").resolve()


NO_TORCH = process.Stack(torch=False)


def test_forked_processes_answer_as_new_ones_do_note_lines_and_stay_within_their_time(probe, tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    with serving() as forks:
        assert process.start == forks.start
        forks.instructions[str(probe)] = told = Instructions(notes=notes)
        assert process.call("fork_probe:answer", probe, stack=NO_TORCH, number=1)["number"] == 1
        note = json.loads(next(notes.iterdir()).read_text())
        assert note["lines"] == {"probed.py": [1, 2, 4]} and note["seconds"] >= 0
        told.notes, told.seconds, told.wall = None, 1.0, 100.0
        with pytest.raises(process.ChildFailed):
            process.call("fork_probe:turn", probe, stack=NO_TORCH)
        assert told.ended == "of the processor's time"
        told.ended, told.wall = "", 2.0
        with pytest.raises(process.ChildFailed, match="too much of the clock"):
            process.call("fork_probe:sleep", probe, stack=NO_TORCH)
        with pytest.raises(process.ChildFailed, match="AttributeError"):
            process.call("fork_probe:nothing", probe, stack=NO_TORCH)
        parents = [parent for parent, _ in forks.parents.values()]
    assert process.start is process.in_a_new_process
    assert all(parent.poll() is not None for parent in parents)


def test_what_nobody_seeds_is_another_in_every_fork_and_variables_are_those_of_the_moment(probe, monkeypatch):
    """A fork shares NumPy's global state with its parent: a run that nobody seeds would seem to repeat itself."""
    monkeypatch.setattr("tdmpc2_lean.validation.gates.strength.forks.LIBRARIES", {True: "json", False: "numpy"})
    with serving():
        first = process.call("fork_probe:chance", probe, stack=NO_TORCH)
        monkeypatch.setenv("FORK_PROBE", "now")
        second = process.call("fork_probe:chance", probe, stack=NO_TORCH)
    assert first["numpy"] != second["numpy"] and first["python"] != second["python"]
    assert (first["variable"], second["variable"]) == ("", "now")


def test_what_stays_as_it_is_answers_once_and_a_mutant_every_time(probe, tmp_path):
    with serving(tmp_path / "kept") as forks:
        first, again = (process.call("fork_probe:answer", probe, stack=NO_TORCH) for _ in range(2))
        other = process.call("fork_probe:answer", probe, stack=NO_TORCH, number=3)
        placed = [process.call("fork_probe:answer", probe, stack=NO_TORCH, to=str(tmp_path)) for _ in range(2)]
        forks.instructions[str(probe)] = Instructions()
        judged = [process.call("fork_probe:answer", probe, stack=NO_TORCH)["pid"] for _ in range(2)]
    assert first == again and other["number"] == 2
    assert placed[0]["pid"] != placed[1]["pid"], "a file may be written there"
    assert len({first["pid"], *judged}) == 3
    assert names_a_place({"a": [{"b": "/x"}]}) and not names_a_place({"a": ["x/y", 3, None]})


def named(subject, file, what, function=None):
    (found,) = [
        mutant
        for mutant in mutants_of(subject, [file])
        if mutant.what == what and function in (None, mutant.edit.function)
    ]
    return found


def test_a_mutant_is_a_copy_with_one_edit_that_is_gone_afterwards(miniature):
    subject = find_subject("miniature")
    mutant = mutants_of(subject, ["common/math.py"])[5]
    with made(subject, mutant) as changed:
        folder = changed.code_dir
        here = {p.relative_to(folder).as_posix() for p in folder.rglob("*.py")}
        assert here == {p.relative_to(subject.code_dir).as_posix() for p in subject.code_dir.rglob("*.py")}
        other = [name for name in here if (folder / name).read_bytes() != (subject.code_dir / name).read_bytes()]
        assert other == ["common/math.py"] and changed.series == subject.series
    assert not folder.exists()


def looking_at(text):
    """A gate of one look at the subject's files, which rejects where `text` is missing from common/scale.py."""

    def run(subject, runs):
        process.call("tdmpc2_lean.validation.gates.updates:count", subject.code_dir, ratios=[], steps=9,
                     seed_steps=2, episode=5)  # fmt: skip
        there = text in (subject.code_dir / "trainer/online_trainer.py").read_text()
        yield results.Result("looking", results.PASS if there else results.FAIL, "looked")

    return Gate("looking", "nothing", run)


class Ended(Exception):
    """What ends a measurement in a test."""


def test_a_measurement_goes_on_where_it_was_ended(miniature, tmp_path, monkeypatch):
    """One call is ended after two mutants; the next judges only what is left, and a third one nothing."""
    monkeypatch.setitem(GATES, "looking", looking_at("class OnlineTrainer"))
    subject, told = find_subject("miniature"), []
    of_training = [
        mutant
        for mutant in mutants_of(subject, ["trainer/online_trainer.py"])
        if mutant.edit.function == "OnlineTrainer.train" and mutant.edit.operator in ("number", "statement", "return")
    ]
    monkeypatch.setattr(measuring, "mutants_of", lambda *_: of_training[:5])
    asked = {"names": ["looking"], "budget": SHORT, "folder": tmp_path}

    def end_after_two(line):
        if line.startswith("2/"):
            raise Ended

    with pytest.raises(Ended):
        measuring.measure(subject, tell=end_after_two, **asked)
    first = (tmp_path / "results.jsonl").read_text().splitlines()
    assert len(first) == 2
    profiled = (tmp_path / "profile.json").stat().st_mtime_ns
    found = measuring.measure(subject, tell=told.append, **asked)
    assert (tmp_path / "results.jsonl").read_text().splitlines()[:2] == first
    assert (tmp_path / "profile.json").stat().st_mtime_ns == profiled
    assert len(told) == 3 and found.total.n == len(found.judged) == 5
    assert measuring.measure(subject, tell=pytest.fail, **asked).as_json() == found.as_json()


@pytest.mark.slow
def test_mutants_of_what_training_uses_are_rejected_by_what_training_shows(miniature, tmp_path):
    subject = find_subject("miniature")
    found = measuring.measure(
        subject, 8, files=["tdmpc2.py"], names=["default-identity"], folder=tmp_path, budget=SHORT
    )
    executed = [outcome for _, outcome in found.judged if outcome.how != trials.NOT_EXECUTED]
    assert found.total.killed >= len(executed) / 2 > 0
    for outcome in executed:
        assert outcome.outcome != KILLED or outcome.gate.startswith("default-identity") and outcome.detail


def test_a_gate_that_fails_without_a_mutant_measures_nothing(miniature, tmp_path, monkeypatch):
    monkeypatch.setitem(GATES, "looking", looking_at("no such text"))
    with pytest.raises(UserError, match="fails on the code without a mutant"):
        measuring.measure(find_subject("miniature"), 1, names=["looking"], folder=tmp_path, budget=SHORT)


def test_what_no_gate_executes_survives_without_being_run(miniature, tmp_path, monkeypatch):
    monkeypatch.setitem(GATES, "looking", looking_at("class OnlineTrainer"))
    subject = find_subject("miniature")
    found = measuring.measure(subject, 5, files=["common/scale.py"], names=["looking"], folder=tmp_path, budget=SHORT)
    inside = [outcome for mutant, outcome in found.judged if mutant.edit.function.startswith("RunningScale.")]
    assert inside and {(o.outcome, o.how) for o in inside} == {(SURVIVED, trials.NOT_EXECUTED)}
    assert found.total.share == 0


def test_that_its_text_differs_kills_no_mutant(miniature, tmp_path, monkeypatch):
    monkeypatch.setitem(GATES, "looking", looking_at("class OnlineTrainer"))
    subject = find_subject("miniature")
    mutants = [
        mutant
        for mutant in mutants_of(subject, ["trainer/online_trainer.py"])
        if mutant.edit.function == "OnlineTrainer.eval" and mutant.edit.operator == "off-by-one"
    ]
    monkeypatch.setattr(measuring, "mutants_of", lambda *_: mutants)
    found = measuring.measure(subject, names=["looking"], folder=tmp_path, budget=SHORT)
    assert found.total.n == len(mutants) > 0 and found.total.killed == 0


@pytest.mark.parametrize(
    "output, how",
    [
        ('Traceback\n  File "/m/tdmpc2/a.py", line 3, in <module>\nNameError: x', NO_IMPORT),
        ("SyntaxError: invalid syntax", NO_IMPORT),
        ('  File "/m/tdmpc2/a.py", line 1, in <module>\n  File "/m/tdmpc2/b.py", line 9, in update\nTypeError', RAISED),
        ('  File "/else/where.py", line 3, in <module>\nTypeError: x', RAISED),
    ],
)
def test_code_that_cannot_be_imported_is_a_class_of_its_own(output, how):
    failure = results.Result("gate", results.FAIL, "", {"output": output})
    assert how_it_failed(failure, Instructions(), "/m/tdmpc2") == how
    assert how_it_failed(failure, Instructions(ended="of the clock"), "/m/tdmpc2") == trials.TIME
    assert how_it_failed(replace(failure, figures={}), Instructions(), "/m/tdmpc2") == trials.DIFFERENT


def test_the_command_shows_and_lists_mutants_and_judges_none():
    def ask(*words):
        started = time.time()
        done = CliRunner().invoke(gate_command, ["strength", "--checkout", "miniature", *words], standalone_mode=False)
        assert done.return_value == 0 and time.time() - started < 30, done.output
        return done.output

    listed = ask("--list", "--file", "common/math.py", "--sample", "3").splitlines()
    assert len(listed) == 3
    shown = ask("--show", listed[0].split()[0])
    assert "+++ common/math.py, mutant" in shown and 'structure = "' in shown and "[[tdmpc2]]" in shown


def test_a_mutant_that_is_none_is_told():
    words = ["strength", "--checkout", "miniature", "--show", "common/math.py:1:0:number:1"]
    done = CliRunner().invoke(gate_command, words)
    assert isinstance(done.exception, UserError)
