"""What is counted, and how: outcomes survive a kill, the harmless are apart, shares and intervals are right."""

import json
from types import SimpleNamespace

import pytest

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.validation.gates.strength import score
from tdmpc2_lean.validation.gates.strength.mutants import mutants_of
from tdmpc2_lean.validation.gates.strength.profile import GateProfile
from tdmpc2_lean.validation.gates.strength.score import Results, Tally, read_harmless, score_table, wilson
from tdmpc2_lean.validation.gates.strength.trials import (
    DIFFERENT,
    EQUAL,
    GATE_FAILED,
    KILLED,
    NOT_EXECUTED,
    NOT_JUDGED,
    SURVIVED,
    TrialOutcome,
    executing,
)
from tdmpc2_lean.validation.gates.subjects import find_subject


def mutant(name="a.py:1:0:number:1", file="a.py", lines=(3, 4), **edit):
    return SimpleNamespace(id=name, file=file, edit=SimpleNamespace(lines=lines, **edit), structure="0" * 12)


def test_outcomes_are_there_again_and_a_line_cut_by_a_kill_is_not(tmp_path):
    path = tmp_path / "results.jsonl"
    results = Results(path)
    whole = TrialOutcome("one", KILLED, DIFFERENT, "seed", "first divergence", 1.5, ("default-identity", "seed"))
    results.add(whole)
    results.close()
    path.write_bytes(path.read_bytes() + b'{"id": "two", "outco')
    again = Results(path)
    assert again.outcomes == {"one": whole}
    again.add(TrialOutcome("three", SURVIVED, EQUAL, tried=("seed",)))
    again.close()
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["one", "three"]


def test_an_outcome_counts_only_for_the_gates_that_gave_it(tmp_path):
    results = Results(tmp_path / "results.jsonl")
    results.add(TrialOutcome("killed", KILLED, DIFFERENT, "seed", tried=("default-identity", "seed")))
    results.add(TrialOutcome("survived", SURVIVED, EQUAL, tried=("default-identity",)))
    killed, survived = mutant("killed"), mutant("survived")
    assert results.of(killed, ["seed", "resume"]) and results.of(killed, ["resume"]) is None
    assert results.of(survived, ["default-identity"]) and results.of(survived, ["default-identity", "seed"]) is None
    assert results.of(mutant("never"), ["seed"]) is None
    results.close()


def outcomes(*hows):
    return tuple(TrialOutcome(str(number), *how) for number, how in enumerate(hows))


def test_the_score_is_killed_over_all_that_count():
    judged = outcomes((KILLED, DIFFERENT), (KILLED, "raised"), (SURVIVED, EQUAL), (SURVIVED, NOT_EXECUTED))
    tally = Tally("x.py", 9, 3, 2, judged)
    assert (tally.n, tally.killed, tally.share, tally.is_whole) == (4, 2, 0.5, True)
    assert not Tally("x.py", 10, 3, 2, judged).is_whole and tally.as_dict()["interval"] is None
    assert tally.counted(NOT_EXECUTED) == 1


def test_a_gate_that_failed_itself_is_neither_a_kill_nor_in_the_score():
    tally = Tally("x.py", 2, 0, 0, outcomes((KILLED, DIFFERENT), (NOT_JUDGED, GATE_FAILED)))
    assert (tally.n, tally.killed) == (1, 1) and not tally.is_whole


def test_a_score_of_nothing_is_none_and_no_hundred():
    assert Tally("x.py", 5, 0, 0, ()).share is None
    assert "100" not in score_table([Tally("x.py", 5, 0, 0, ())])


# From Newcombe 1998, Statistics in Medicine 17:857-872, table I, method 3.
@pytest.mark.parametrize(
    "killed, n, low, high",
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_the_interval_is_wilsons(killed, n, low, high):
    found = wilson(killed, n)
    assert found == pytest.approx((low, high), abs=6e-5)
    assert wilson(n - killed, n) == pytest.approx((1 - high, 1 - low), abs=6e-5)


def test_a_sample_shows_its_interval_and_a_whole_does_not():
    judged = outcomes(*[(KILLED, DIFFERENT)] * 8, *[(SURVIVED, EQUAL)] * 2)
    assert "80.0  49-94" in score_table([Tally("x.py", 100, 0, 0, judged)])
    assert "80.0" in score_table([Tally("x.py", 10, 0, 0, judged)]) and "49-94" not in score_table(
        [Tally("x.py", 10, 0, 0, judged)]
    )


def harmless_file(tmp_path, reason='reason = "why"'):
    path = tmp_path / "harmless.toml"
    entry = ['file = "a.py"', 'function = "f"', 'operator = "number"', f'structure = "{"0" * 12}"', reason]
    path.write_text("[[tdmpc2]]\n" + "\n".join(entry) + "\n")
    return path


def test_a_harmless_mutant_is_found_wherever_its_line_is_and_nothing_else_is(tmp_path):
    known = read_harmless("tdmpc2", harmless_file(tmp_path))
    assert score.harmless(mutant(lines=(70, 70), function="f", operator="number"), known).reason == "why"
    assert score.harmless(mutant(function="f", operator="string"), known) is None
    assert score.harmless(mutant(function="g", operator="number"), known) is None
    assert read_harmless("dreamerv3", tmp_path / "harmless.toml") == {}


@pytest.mark.parametrize("reason", ["", 'reason = " "', 'reason = "why"\nmore = 1'])
def test_a_harmless_mutant_without_a_reason_is_refused(tmp_path, reason):
    with pytest.raises(UserError, match="harmless.toml"):
        read_harmless("tdmpc2", harmless_file(tmp_path, reason))


def test_every_entry_of_the_committed_list_can_be_read():
    for upstream in ("tdmpc2", "dreamerv3"):
        assert all(entry.reason for entry in read_harmless(upstream).values())


@pytest.mark.official
def test_every_entry_of_the_committed_list_is_a_mutant_of_the_pin(official):
    subject, known = find_subject(official.commit), read_harmless("tdmpc2")
    files = sorted({entry.file for entry in known.values()})
    found = {score.harmless(mutant, known) for mutant in mutants_of(subject, files)}
    assert set(known.values()) <= found


def profile(seconds, lines, expected=(), applies=True):
    return GateProfile(seconds, seconds, lines, dict.fromkeys(expected, ""), {}, {}, applies)


def test_only_gates_that_execute_the_statement_judge_and_the_cheapest_is_first():
    gates = [SimpleNamespace(name=name) for name in ("slow", "elsewhere", "fast", "ends-early", "not-on-it")]
    profiles = {
        "slow": profile(60, {"a.py": [4]}),
        "elsewhere": profile(1, {"a.py": [5], "b.py": [3]}),
        "fast": profile(9, {"a.py": [3]}),
        "ends-early": profile(20, {"a.py": [3, 4]}, ["run"]),
        "not-on-it": profile(1, {}, applies=False),
    }
    names = [gate.name for gate in executing(mutant(lines=(3, 4)), gates, profiles)]
    assert names == ["ends-early", "fast", "slow"]
    settings = [gate.name for gate in executing(mutant(file="config.yaml", lines=(3, 3)), gates, profiles)]
    assert set(settings) == {"slow", "elsewhere", "fast", "ends-early"}
