"""What processes that judge mutants leave out changes no verdict."""

import json
import sys
from types import SimpleNamespace

import pytest

from tdmpc2_lean.validation.gates import cases, trace
from tdmpc2_lean.validation.gates.strength import watching


@pytest.fixture
def code():
    """Three cases; `code.value` is what the second one finds, and it rests on the first where `code.rests` is set."""
    return SimpleNamespace(value=2, rests=False, begun=False, ran=[])


@pytest.fixture
def table(code):
    def first(case):
        code.begun = True
        code.ran.append("first")
        case.record("found", {"x": 1})

    def second(case):
        code.ran.append("second")
        case.record("found", {"x": code.value if code.begun or not code.rests else 0})

    def third(case):
        code.ran.append("third")
        case.record("found", {"x": 3})

    return {"first": first, "second": second, "third": third}


@pytest.fixture
def expected(table, code, monkeypatch):
    """The answers of the code as it is; afterwards nothing was begun."""
    monkeypatch.setattr(cases, "recorded", cases.recorded)  # put back at the end of the test
    answers = json.loads(json.dumps(cases.recorded(table)))
    code.begun = False
    code.ran.clear()
    return answers


def parts(answers):
    return {name: (answer["events"], answer["raised"]) for name, answer in answers.items()}


def test_cases_that_answer_as_expected_are_run_alone_and_nothing_else_is_run(table, code, expected, tmp_path):
    notes = tmp_path / "ran.txt"

    def noting(name):
        def case_of(case):
            with notes.open("a") as file:
                file.write(f"{name} ")
            table[name](case)

        return case_of

    watching.end_at_first_case_that_differs(expected, ["second"])
    assert parts(cases.recorded({name: noting(name) for name in table})) == parts(expected)
    assert notes.read_text() == "second " and code.ran == []


def test_the_first_case_that_differs_is_seen_and_the_cheapest_is_tried_first(table, code, expected):
    watching.end_at_first_case_that_differs(expected, ["first", "second", "third"])
    expected["second"]["seconds"] = -1.0  # the cheapest
    code.value = 5

    def third(case):
        raise RuntimeError("is not reached")

    answers = cases.recorded(table | {"third": third})
    assert [name for name in table if parts(answers)[name] != parts(expected)[name]] == ["second"]


def test_a_case_is_never_alone_with_what_another_left_behind(table, code, expected):
    code.rests = True
    watching.end_at_first_case_that_differs(expected, ["first", "second"])
    assert parts(cases.recorded(table))["second"] != parts(expected)["second"]


def test_a_case_that_ends_its_process_raised(table, code, expected):
    def second(case):
        raise KeyboardInterrupt

    watching.end_at_first_case_that_differs(expected, ["second"])
    assert "ended with 1" in cases.recorded(table | {"second": second})["second"]["raised"]


def test_lines_are_noted_by_case_and_together(table, expected, tmp_path):
    (tmp_path / "module.py").write_text("def one():\n    return 1\n\n\ndef two():\n    return 2\n")
    source = compile((tmp_path / "module.py").read_text(), str(tmp_path / "module.py"), "exec")
    before = sys.gettrace()
    with watching.counting(tmp_path) as lines:
        by_case, answers = watching.note_cases(lines)
        names: dict = {}
        exec(source, names)
        cases.recorded({"one": lambda case: names["one"](), "two": lambda case: names["two"]()})
    sys.settrace(before)
    assert lines == {"module.py": {1, 2, 5, 6}}
    assert by_case == {"one": {"module.py": [1, 2, 5]}, "two": {"module.py": [1, 5, 6]}}
    assert set(answers) == {"one", "two"}


def written(path, *values):
    recorder = trace.TraceRecorder(path, {"versions": {}})
    for step, value in enumerate(values):
        recorder.record(step, "value", {"x": value})
    recorder.close()


class Ended(Exception):
    """Stands for the end of a process."""


@pytest.mark.parametrize(
    "values, events",
    [((1.0, 2.5, 3.0, 4.0), 2), ((1.0, 2.0, 3.0, 4.0), 4), ((1.0, 2.0, 3.0), None), ((1.0, 2.0), None)],
)
def test_a_trace_ends_with_an_answer_where_it_first_parts_from_the_one_expected(values, events, tmp_path, monkeypatch):
    expected, found, answer = tmp_path / "expected.jsonl", tmp_path / "found.jsonl", tmp_path / "answer.json"
    written(expected, 1.0, 2.0, 3.0)
    monkeypatch.setattr(trace.TraceRecorder, "record", trace.TraceRecorder.record)

    def leave(code):
        raise Ended

    monkeypatch.setattr(watching.os, "_exit", leave)
    watching.end_at_first_difference({"arguments": {"trace": str(found)}, "answer": str(answer)}, expected)
    written(tmp_path / "other.jsonl", 7.0)  # another trace than the one that is asked for is left alone
    if events is None:
        written(found, *values)
    else:
        with pytest.raises(Ended):
            written(found, *values)
        assert len(found.read_text().splitlines()) == 1 + events and json.loads(answer.read_text())
    same = values == (1.0, 2.0, 3.0)
    assert (trace.compare(expected, found)[1] is None) == same, "the verdict is the one of the whole trace"


def test_requests_that_differ_in_where_they_write_only_are_the_same():
    def asked(**arguments):
        return watching.asked({"function": "f", "arguments": {"budget": {"steps": 1}, **arguments}})

    assert asked(trace="/a", dump_at=None) == asked(trace="/b", dump_at=None) != asked(trace="/a", overrides={"x": 1})
