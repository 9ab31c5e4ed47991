"""Every difference is accounted for, what was executed is known, and what nobody executed is UNPROVED by its name."""

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from tdmpc2_lean.commands.gate import gate as gate_command
from tdmpc2_lean.upstreams import UPSTREAMS
from tdmpc2_lean.validation.gates import accounting, executed, suites, verdicts
from tdmpc2_lean.validation.gates import run as running
from tdmpc2_lean.validation.gates.accounting import account, importable, read_code
from tdmpc2_lean.validation.gates.blind_spots import BlindSpot
from tdmpc2_lean.validation.gates.results import (
    FAIL,
    NOT_JUDGED,
    PASS,
    UNPROVED,
    GateReport,
    Result,
    report_of_json,
)
from tdmpc2_lean.validation.gates.subjects import find_subject

FILES = {
    "train.py": b"from common import math\nimport agent\n\ndef train():\n    return agent.act(math.two(1))\n",
    "agent.py": b"def act(x, scale=1):\n    y = x * 2\n    if y > 3:\n        y = 3\n    return y if y else scale\n",
    "common/__init__.py": b"SIZES = {1: {'dim': 2}}\n",
    "common/math.py": b"def two(x):\n    return x + 2\n\ndef _unused(x):\n    return x\n",
    "apart.py": b"print('by hand')\n",
    "config.yaml": b"steps: 10\nlr: 1e-3\n",
}


def changed(**edits) -> accounting.Accounting:
    """The accounting of FILES with edits: name of the file -> (was, now)."""
    after = dict(FILES)
    for path, (was, now) in edits.items():
        assert was in after[path]
        after[path] = after[path].replace(was, now)
    return account(after, FILES, ["train.py"])


def test_every_difference_has_a_file_and_a_name():
    found = changed(
        **{
            "agent.py": (b"* 2", b"* 3"),
            "common/__init__.py": (b"2}", b"3}"),
            "common/math.py": (b"def two(x):", b"def three(x):"),
            "config.yaml": (b"steps: 10", b"steps: 11\nmore: 1"),
        }
    )
    assert {(one.id, one.kind) for one in found.changes} == {
        ("agent.py:act", "changed"),
        ("common/__init__.py:SIZES", "changed"),
        ("common/math.py:two", "removed"),
        ("common/math.py:three", "added"),
        ("config.yaml:steps", "changed"),
        ("config.yaml:more", "added"),
    }
    told = "\n".join(found.lines())
    assert "6 changes" in told and "x * 2 -> y = x * 3" in told and "10 -> 11" in told


def test_neutral_edits_are_no_changes_and_what_no_script_imports_stands_beside():
    found = changed(**{"agent.py": (b"y", b"z"), "apart.py": (b"hand", b"foot")})
    assert found.changes == () and found.aside == ("apart.py",)
    assert "no change" in found.lines()[0]


def test_a_file_that_shadows_a_package_or_a_built_module_is_a_change():
    files = FILES | {"train.py": b"import random\n" + FILES["train.py"]}
    shadowed = files | {"random.py": b"def random():\n    return 0.5\n", "agent.cpython-311.so": b"\x7fELF"}
    found = {one.id for one in account(shadowed, files, ["train.py"]).changes}
    assert found == {"random.py:random", "agent.cpython-311.so:<file>"}


@pytest.mark.official
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_what_the_official_scripts_can_import_is_found(tried_commits, upstream):
    code_dir = next(iter(tried_commits(upstream).values())).code_dir
    found = importable(read_code(code_dir), UPSTREAMS[upstream].scripts)
    some = {
        "tdmpc2": {"tdmpc2.py", "common/layers.py", "envs/tasks/cheetah.py", "trainer/offline_trainer.py"},
        "dreamerv3": {"dreamerv3/agent.py", "embodied/envs/dmc.py", "embodied/run/train.py", "embodied/core/replay.py"},
    }[upstream]
    assert some <= found
    assert not any("tests/" in path or path == "plot.py" for path in found)


@pytest.mark.official
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_official_code_with_our_patches_has_no_change_and_without_them_what_they_change(tried_commits, upstream):
    commit = next(iter(tried_commits(upstream)))
    subject = find_subject(commit, upstream=upstream)
    assert subject.accounting.changes == ()
    assert subject.accounting.patches == tuple(patch.name for patch in subject.series.patches)
    bare = account(subject.files, subject.official, UPSTREAMS[upstream].scripts)
    assert len(bare.changes) > 20


# ------------------------------------------------------------------------------------------------- what was executed

BEFORE = b'''
def f(x, flag=False, n=1):
    """Text."""
    y = x + n if flag else x
    if y > 10:
        y = 10
    prepare(y)
    values = [v for v in range(y) if v > 1]
    return y and values
'''
CALL = "from module import f; prepare = None; f({})"


def met_by(tmp_path: Path, after: bytes, call: str) -> tuple[set[str], set[str]]:
    """(words of the marks of the change from BEFORE, words of those that are met by a call)."""
    change = account({"module.py": after}, {"module.py": BEFORE}, ["module.py"]).changes
    marks = executed.marks_of(change)
    (tmp_path / "module.py").write_bytes(after)
    script = (
        "import sys, json\nfrom tdmpc2_lean.validation.gates import executed\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        f"marks = {[vars(mark) for mark in marks]!r}\n"
        f"executed.install({str(tmp_path)!r}, {{'met': {str(tmp_path / 'met')!r}, 'marks': marks}})\n"
        f"import module\nmodule.prepare = lambda y: None\nprint(repr({call}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    plain: dict = {"prepare": lambda y: None}
    exec(compile(after, "plain", "exec"), plain)
    assert done.stdout.strip() == repr(eval(call.replace("module.", ""), plain)), "marks change what is computed"
    numbers = {int(line) for line in (tmp_path / "met").read_text().split()}
    return {mark.words for mark in marks}, {mark.words for mark in marks if mark.number in numbers}


@pytest.mark.parametrize(
    "edit, unseen, seen",
    [
        ((b"y = 10", b"y = 11"), "module.f(3)", "module.f(30)"),
        ((b"        y = 10\n", b"        y = 10\n        prepare(0)\n"), "module.f(3)", "module.f(30)"),
        ((b"x + n if", b"x - n if"), "module.f(3)", "module.f(3, True)"),
        ((b"flag=False", b"flag=True"), "module.f(3, False)", "module.f(3)"),
        ((b"y and values", b"y and values[:1]"), "module.f(0)", "module.f(4)"),
        ((b"[v for", b"[v + 1 for"), "module.f(1)", "module.f(5)"),
        ((b"    prepare(y)\n", b""), None, "module.f(1)"),
        ((b"y > 10", b"y >= 10"), "module.f(1)", "[module.f(1), module.f(30)]"),
        ((b"y = 10", b"y = 10 + (y > 50)"), "module.f(30)", "[module.f(30), module.f(60)]"),
        ((b"flag else", b"flag and x else"), "module.f(3, True)", "[module.f(3, True), module.f(0, 1), module.f(3)]"),
        ((b"if v > 1", b"if v > 1 and v != 9"), "module.f(3)", "module.f(30)"),
    ],
)  # fmt: skip
def test_a_changed_statement_branch_or_default_is_executed_only_by_what_reaches_it(tmp_path, edit, unseen, seen):
    assert edit[0] in BEFORE
    after = BEFORE.replace(*edit)
    if unseen:
        marks, met = met_by(tmp_path, after, unseen)
        assert met < marks
        (tmp_path / "met").unlink()
    marks, met = met_by(tmp_path, after, seen)
    assert marks and met == marks


def test_an_added_function_is_executed_only_if_all_of_it_is(tmp_path):
    after = BEFORE + b"\ndef g(x):\n    if x:\n        return 1\n    return 2\n"
    marks, met = met_by(tmp_path, after, "module.g(0)")
    assert marks - met == {"line 13", "line 12 with its condition (column 8) met"}


# -------------------------------------------------------------------------------------------------------- verdicts


def verdict_of(edits: dict, met: dict, results, comparing=("identity",), spots=()) -> dict[str, Result]:
    """Verdicts by id on FILES with edits. met: by gate, `all` or the marks' numbers."""
    found = changed(**edits)
    marks = executed.marks_of(found.changes)
    subject = SimpleNamespace(accounting=found, official=FILES)
    numbers = {gate: {mark.number for mark in marks} if which == "all" else which for gate, which in met.items()}
    comparing = dict.fromkeys(comparing, spots)
    rows = verdicts.judged_changes(subject, results, comparing, marks, numbers)
    return {row.gate.partition("/")[2]: row for row in rows}


ACT = {"agent.py": (b"* 2", b"* 3")}
IDENTITY = Result("identity", PASS, "9 events equal")


def test_a_change_is_judged_only_by_gates_that_executed_it_and_compare_with_the_reference():
    judged = verdict_of(ACT, {"identity": "all"}, [IDENTITY])["agent.py:act"]
    assert judged.outcome == PASS and "9 events equal" in judged.detail and "x * 3" in judged.detail
    assert verdict_of(ACT, {}, [IDENTITY])["agent.py:act"].outcome == UNPROVED
    itself = [Result("seed", PASS, "equal to itself")]
    judged = verdict_of(ACT, {"seed": "all"}, itself)["agent.py:act"]
    assert judged.outcome == UNPROVED and "only by seed" in judged.detail
    different = [Result("identity", FAIL, "first divergence")]
    assert verdict_of(ACT, {"identity": "all"}, different)["agent.py:act"].outcome == NOT_JUDGED


@pytest.mark.parametrize(
    "now, outcome",
    [(b"min(x * 2, 9)", UNPROVED), (b"(x * 2).clamp(-1, 1)", UNPROVED), (b"max([x * 2])", PASS), (b"x * 2 + 0", PASS)],
)
def test_a_bound_that_is_new_is_unproved_because_nothing_is_known_to_reach_it(now, outcome):
    judged = verdict_of({"agent.py": (b"x * 2", now)}, {"identity": "all"}, [IDENTITY])["agent.py:act"]
    assert judged.outcome == outcome and ("bound" in judged.detail) == (outcome == UNPROVED), judged


def test_a_change_that_a_gate_executes_blindly_is_unproved_with_the_reason():
    blind = [BlindSpot("agent.py:*", r"\* 3", "it doubles nothing")]
    judged = verdict_of(ACT, {"identity": "all"}, [IDENTITY], spots=blind)["agent.py:act"]
    assert judged.outcome == UNPROVED and "it doubles nothing" in judged.detail
    blind = [BlindSpot("agent.py:*", r"\* 4", "")]
    assert verdict_of(ACT, {"identity": "all"}, [IDENTITY], spots=blind)["agent.py:act"].outcome == PASS


def test_a_default_is_unproved_unless_a_gate_says_that_it_compared_it():
    edits = {"config.yaml": (b"steps: 10", b"steps: 11"), "common/__init__.py": (b"2}", b"3}")}
    rows = verdict_of(edits, {"identity": "all"}, [IDENTITY])
    assert {row.outcome for row in rows.values()} == {UNPROVED} and len(rows) == 2
    covers = frozenset({"config.yaml:*", "common/__init__.py:SIZES"})
    resolved = Result("defaults/sizes", PASS, "12 keys equal", covers=covers)
    rows = verdict_of(edits, {}, [resolved], comparing=["defaults"])
    assert {row.outcome for row in rows.values()} == {PASS}
    failed = Result("defaults/sizes", FAIL, "steps", covers=covers)
    assert UNPROVED in {row.outcome for row in verdict_of(edits, {}, [failed], comparing=["defaults"]).values()}


def test_what_is_gone_is_unproved_unless_nothing_names_it():
    rows = verdict_of({"common/math.py": (b"def _unused(x):\n    return x\n", b"")}, {}, [IDENTITY])
    assert rows["common/math.py:_unused"].outcome == PASS
    rows = verdict_of({"common/math.py": (b"def two(x):\n    return x + 2\n", b"")}, {}, [IDENTITY])
    assert rows["common/math.py:two"].outcome == UNPROVED


def test_a_gate_that_cannot_judge_what_the_official_code_with_our_patches_has_is_unproved():
    result = Result("plan-vec-one", NOT_JUDGED, "no method `plan_vec`", missing=frozenset({"plan_vec"}))
    assert verdicts.of_what_is_missing(result, {"plan_vec", "x"}).outcome == UNPROVED
    assert verdicts.of_what_is_missing(result, {"x"}).outcome == NOT_JUDGED


def test_the_exit_code_tells_failed_unproved_and_passed_apart():
    def code(*outcomes):
        return GateReport({}, tuple(Result("gate", outcome, "") for outcome in outcomes)).exit_code

    assert code(PASS) == code(PASS, NOT_JUDGED) == 0
    assert code(PASS, UNPROVED) == code(NOT_JUDGED) == code() == 3
    assert code(PASS, UNPROVED, FAIL) == 1


def test_a_kept_report_is_read_as_it_was():
    row = Result("a", PASS, "b", {"n": 1}, 2.0, frozenset({"c"}), frozenset({"d"}))
    report = GateReport({"subject": "s"}, (row,), {"changes": []})
    again = report_of_json(report.as_json(), "today")
    assert again.results == report.results and again.recorded == "today" and again.ok


# --------------------------------------------------------------------------------------------- a fork on the miniature


def fork_of(miniature, tmp_path, patched: bool, *edits) -> Path:
    """A copy of the miniature, with the whole series or without, and edits (path, was, now)."""
    root = tmp_path / "fork"
    source = find_subject("miniature").code_dir.parent if patched else miniature.root
    shutil.copytree(source, root, ignore=shutil.ignore_patterns(".tdmpc2-lean", "__pycache__"))
    for path, was, now in edits:
        text = (root / "tdmpc2" / path).read_text()
        assert was in text, (path, was)
        (root / "tdmpc2" / path).write_text(text.replace(was, now))
    return root


def judge(monkeypatch, root: Path, *words):
    """What `gate run` gives on a fork of the miniature, which no git vouches for."""
    from tdmpc2_lean import upstreams
    from tdmpc2_lean.upstreams import MINIATURE, Checkout

    found = Checkout(MINIATURE, root, None, None, "argument", ("tdmpc2/tdmpc2.py",))
    official = upstreams.find_checkout

    def find(upstream, where=None, **more):
        return found if str(where) == str(root) else official(upstream, where, **more)

    monkeypatch.setattr(upstreams, "find_checkout", find)
    words = ["run", *words, "--checkout", str(root), "--allow-local-changes"]
    return CliRunner().invoke(gate_command, words, standalone_mode=False)


def test_a_renamed_plan_vec_is_no_pass(miniature, tmp_path, monkeypatch):
    """Both gates on it judge nothing; that the official code with our patches has it makes this unproved."""
    root = fork_of(miniature, tmp_path, True, ("tdmpc2.py", "def plan_vec(", "def plan_many("))
    done = judge(monkeypatch, root, "plan-vec-one", "plan-vec-many")
    assert done.return_value == 3, done.output
    assert "plan_vec" in done.output and "UNPROVED" in done.output and "0 passed" in done.output


def test_a_fork_with_neutral_edits_is_answered_at_once(miniature, tmp_path, monkeypatch):
    from tdmpc2_lean.validation.gates import process

    monkeypatch.setattr(process, "start", lambda *_: pytest.fail("something ran"))
    root = fork_of(miniature, tmp_path, False, ("tdmpc2.py", "class TDMPC2(", "# a comment\nclass TDMPC2("))
    done = judge(monkeypatch, root)
    assert done.return_value == 0 and "nothing needs to run" in done.output


def test_what_passed_is_answered_from_the_record_until_something_is_run_anew(miniature, tmp_path, monkeypatch):
    from tdmpc2_lean import places
    from tdmpc2_lean.validation.gates import process

    subject = find_subject("miniature")  # made before the cache is another
    monkeypatch.setattr("tdmpc2_lean.validation.gates.subjects.find_subject", lambda *_, **__: subject)
    monkeypatch.setattr(places, "cache_dir", lambda: tmp_path)
    calls = []
    real = process.start
    monkeypatch.setattr(process, "start", lambda *words: calls.append(1) or real(*words))
    words = ["run", "utd-count", "--checkout", "miniature"]
    run = lambda *more: CliRunner().invoke(gate_command, [*words, *more], standalone_mode=False)  # noqa: E731
    assert run().return_value == 0 and len(calls) == 1
    done = run()
    assert done.return_value == 0 and len(calls) == 1 and "a run here on 2" in done.output
    assert run("--anew").return_value == 0 and len(calls) == 2


def test_a_gate_that_executes_nothing_of_the_changes_answers_as_without_them(miniature, tmp_path, monkeypatch):
    from tdmpc2_lean import places
    from tdmpc2_lean.validation.gates import process

    subject = find_subject("miniature")  # made before the cache is another
    monkeypatch.setattr(places, "cache_dir", lambda: tmp_path / "cache")
    gates = suites.chosen(["utd-count"])
    budget = suites.suite_of("tdmpc2").budget()
    report = running.run(subject, ["utd-count"], budget)
    assert "trainer/online_trainer.py:OnlineTrainer.train" in report.executed["utd-count"]
    assert "common/math.py:symlog" not in report.executed["utd-count"]
    running.keep(subject, gates, budget, report)
    monkeypatch.setattr(process, "start", lambda *_: ("it ran", 1))

    def fork(name, *edits):
        root = fork_of(miniature, tmp_path / name, True, *edits)
        return dataclasses.replace(subject, code_dir=root / "tdmpc2", series=None)

    def is_run(fork):
        report = running.run(fork, ["utd-count"], budget, recalling=True)
        results = [one for one in report.results if one.gate.startswith("utd-count")]
        if any("it ran" in one.detail for one in results):
            return True
        assert len(results) == 9 and all(one.ok and "none of which it executes" in one.detail for one in results)
        assert report.outcome == UNPROVED, "nobody has judged the change itself"
        return False

    elsewhere = ("common/math.py", "x.sign() * x.abs().log1p()", "x.sign() * x.abs().log1p() + 1")
    assert not is_run(fork("elsewhere", elsewhere))
    there = ("trainer/online_trainer.py", "def train(self):", "def train(self):\n\t\tprint('hello')")
    assert is_run(fork("there", there))
    at_import = ("common/math.py", "def symlog(x):", "def symlog(x, y=print('hello')):")
    assert is_run(fork("at import", at_import)), "a default is evaluated without a call"
    beside = ("common/math.py", "import torch\n", "import torch, time\n")
    assert is_run(fork("beside a function", elsewhere, beside))


def test_what_is_imported_as_a_package_is_accounted_for():
    """Else a fork that is run by `python -m agent.train` could change anything unseen."""
    files = {
        "train.py": b"from agent.common.math import two_hot\nimport agent.trainer.online\n",
        "common/__init__.py": b"",
        "common/math.py": b"def two_hot(): return 1\n",
        "trainer/online.py": b"",
    }
    assert importable(files, ["train.py"]) == set(files)
