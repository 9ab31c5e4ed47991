"""Mutants differ from the code in exactly one place, always the same ones, and none where nothing could change."""

import ast
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.validation.gates.strength import scope
from tdmpc2_lean.validation.gates.strength.leaves import edits_of_yaml
from tdmpc2_lean.validation.gates.strength.mutants import OF_PATCHES, OFFICIAL, in_order, mutants_of
from tdmpc2_lean.validation.gates.strength.operators import edits_of_python
from tdmpc2_lean.validation.gates.subjects import find_subject

SOURCE = b'''"""A module."""
import torch
import torch.nn.functional as F

SIZES = {1: {"width": 8}, 5: {'width': 16, "depth": 2}}  # caf\xc3\xa9


class Thing:
\t"""A docstring with 3 and 'words'."""

\tdef __repr__(self):
\t\treturn f"{self.x + 1}"

\t@torch.no_grad()
\tdef go(self, z: int = 3, *rest, mode="min", **more) -> "float":
\t\t\'\'\'Another.\'\'\'
\t\tassert mode in {"min", "avg"}
\t\tif z > 1 and not (self.on or rest):  # one > two
\t\t\tz = (z - (1 + self.a)) / 2.5
\t\telif len(rest) == 0:
\t\t\traise ValueError("no 7")
\t\twith torch.no_grad():
\t\t\ty = F.softmax(z.detach()[:, 1:-1], dim=-1)
\t\tfor t in range(self.n):
\t\t\ty += self.f(t, z, key=(t*2),
\t\t\t\tother=-y)
\t\t\tif t is not None: continue
\t\tself.state = y.clamp(-1, 1)
\t\tprint("not 5 of these", y + 1)
\t\tself.g(*rest)
\t\treturn max(y, z), self.h(x for x in rest if x)
'''


def mutated(source=SOURCE):
    return [(edit, edit.applied(source)) for edit in edits_of_python(source)]


def same_but_in_one_place(edit, source, made):
    return (
        made != source
        and made[: edit.start] == source[: edit.start]
        and made[edit.start + len(edit.text) :] == source[edit.end :]
    )


def test_every_mutant_parses_differs_in_one_place_and_in_its_syntax():
    official = ast.dump(ast.parse(SOURCE))
    for edit, made in mutated():
        assert same_but_in_one_place(edit, SOURCE, made), edit
        assert ast.dump(ast.parse(made)) != official, edit
        assert edit.lines[0] <= edit.line <= edit.lines[1]


def test_no_two_mutants_are_the_same_edit():
    assert len({(edit.start, edit.end, edit.text) for edit, _ in mutated()}) == len(mutated())


EXPRESSIONS = st.recursive(
    st.sampled_from(["a", "b.c", "1", "0.5", "-2", "True", "'key'", "f(a)", "x[1:]", "g(a, b, k=3)", "z.detach()"]),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+ - * / // % ** < <= == !=".split()), inner),
        st.builds("{} {} {}".format, inner, st.sampled_from("+ - * /".split()), inner),
        st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or", "is not", "not in"]), inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("h({}, {})".format, inner, inner),
        st.builds("h(\n  ({}),\n  k=({}),\n)".format, inner, inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("(not {})".format, inner),
        st.builds("(-{})".format, inner),
        st.builds("y[{}:, :({})]".format, inner, inner),
        st.builds("{{'k': {}, 'l': ({})}}".format, inner, inner),
    ),
    max_leaves=8,
)
STATEMENTS = st.sampled_from(["x = {}", "self.x = {}", "x += {}", "return {}", "if {}:\n  y = 1", "while {}:\n  break"])


@given(STATEMENTS, EXPRESSIONS)
def test_mutants_of_any_statement_parse_and_differ_in_one_place(statement, expression):
    lines = statement.replace("{}", expression).splitlines()
    source = ("def f(self, x, a):\n" + "\n".join(f"  {line}" for line in lines) + "\n").encode()
    official = ast.dump(ast.parse(source))
    for edit, made in mutated(source):
        assert same_but_in_one_place(edit, source, made)
        assert ast.dump(ast.parse(made)) != official, (edit.what, source, made)


@pytest.mark.parametrize(
    "operator, made",
    [
        ("number", b"SIZES = {2: "),
        ("entry", b"5: {'width': 16, }}"),
        ("string", b"'width_'"),
        ("choice", b"mode='avg'"),
        ("decorator", b"\t\treturn f\"{self.x + 1}\"\n\n\tdef go("),
        ("comparison", b"if z >= 1 and"),
        ("logical", b"((z > 1) or (not (self.on or rest)))"),
        ("operand", b"if (z > 1):  # one > two"),
        ("sign", b"and (self.on or rest)"),
        ("condition", b"if (not (z > 1 and not (self.on or rest))):"),
        ("arithmetic", b"(((z - (1 + self.a))) * (2.5))"),
        ("operands", b"(((1 + self.a)) - (z))"),
        ("statement", b"for t in range(self.n):\n\t\t\tpass\n"),
        ("statement", b"\t\tpass\n\t\tprint("),
        ("guard", b"\t\t\tpass\n\t\twith"),
        ("context", b"with __import__('contextlib').nullcontext():"),
        ("call", b"F.softmax((z)[:, 1:-1], dim=-1)"),
        ("call", b"y = (z.detach()[:, 1:-1])\n"),
        ("call", b"self.state = (y)\n"),
        ("bound", b"[:, :-1]"),
        ("bound", b"[:, 1:]"),
        ("off-by-one", b"range(((self.n) - 1))"),
        ("argument", b"F.softmax(z.detach()[:, 1:-1])"),
        ("argument", b"self.f(t, z, other=-y)"),
        ("order", b"self.f(z, t, key"),
        ("loop", b"if t is not None: break"),
        ("return", b"\t\treturn None\n"),
        ("order", b"return self.h(x for x in rest if x), max(y, z)"),
    ],
)  # fmt: skip
def test_each_kind_of_mutant_is_made(operator, made):
    assert any(edit.operator == operator and made in text for edit, text in mutated()), operator


@pytest.mark.parametrize(
    "kept",
    [b'"""A module."""', b"A docstring with 3", b"z: int", b'-> "float"', b"self.x + 1", b'"no 7"', b"not 5 of these"],
)
def test_what_cannot_change_behaviour_is_left_alone(kept):
    start = SOURCE.index(kept) + (kept == b"z: int") * 3
    end = SOURCE.index(kept) + len(kept)
    assert not [edit for edit, _ in mutated() if start <= edit.start and edit.end <= end]


def test_leaves_of_a_configuration_are_changed_one_at_a_time():
    source = b"defaults:\n  - override x: y\n\n# 5\nlr: 3e-4\nsteps: 1_000\nmpc: true\nname: fast\nodd: ???\n"
    made = {edit.applied(source).decode() for edit in edits_of_yaml(source)}
    changed = {line for text in made for line in set(text.splitlines()) - set(source.decode().splitlines())}
    assert changed == {"lr: 0.0006", "steps: 2000", "steps: 1001", "mpc: false", "name: fast_"}
    assert all(len(set(text.splitlines()) - set(source.decode().splitlines())) == 1 for text in made)


def test_presets_that_no_run_is_made_with_are_left_alone():
    source = b"defaults:\n  a: 1\n  b: {c: 2, d: [x, y]}\natari:\n  a: 7\n"
    assert {edit.function for edit in edits_of_yaml(source, ("defaults",))} == {
        "defaults.a", "defaults.b.c", "defaults.b.d.0", "defaults.b.d.1",
    }  # fmt: skip


def test_ids_are_unique_and_the_same_at_every_call(miniature):
    subject = find_subject("miniature")
    first, again = mutants_of(subject), mutants_of(subject)
    assert [mutant.id for mutant in first] == [mutant.id for mutant in again]
    assert len({mutant.id for mutant in first}) == len(first) > 1000
    assert {mutant.file for mutant in first} >= {"tdmpc2.py", "config.yaml", "common/buffer.py", "train.py"}


def test_mutants_elsewhere_in_a_file_do_not_change_what_names_a_harmless_one(miniature):
    lines = SOURCE.splitlines(keepends=True)
    moved = b"".join([*lines[:3], b"# a comment\n", b"EARLIER = 3\n", *lines[3:]])
    now = {(edit.function, edit.operator, edit.structure) for edit in edits_of_python(moved)}
    assert {(edit.function, edit.operator, edit.structure) for edit in edits_of_python(SOURCE)} <= now


def test_what_patches_add_is_told_from_official_code(miniature):
    origins = {}
    for mutant in mutants_of(find_subject("miniature")):
        origins.setdefault(mutant.origin, set()).add(f"{mutant.file}:{mutant.edit.function}")
    assert "tdmpc2.py:TDMPC2._plan_vec" in origins[OF_PATCHES] and "config.yaml:utd" in origins[OF_PATCHES]
    assert "tdmpc2.py:TDMPC2._plan_vec" not in origins[OFFICIAL]
    assert "common/math.py:two_hot" in origins[OFFICIAL] and "config.yaml:rho" in origins[OFFICIAL]


def test_a_seed_decides_the_order_and_a_smaller_sample_is_part_of_a_larger(miniature):
    mutants = mutants_of(find_subject("miniature"), ["common/math.py"])
    assert in_order(mutants, 1) == in_order(list(reversed(mutants)), 1) != in_order(mutants, 2)
    assert Counter(in_order(mutants, 1)) == Counter(mutants)


def test_a_file_that_is_none_is_told_with_those_that_are(miniature):
    with pytest.raises(UserError, match="no_such.py"):
        mutants_of(find_subject("miniature"), ["no_such.py"])


def reason(source, piece, executed=True, operator=None):
    (edit,) = {
        scope.why_unreachable(edit, executed)
        for edit in edits_of_python(source)
        if piece in edit.what and (operator is None or edit.operator == operator)
    }
    return edit


def test_what_only_cuda_could_show_is_counted_apart_with_its_reason():
    assert "CUDA" in reason(b"torch.cuda.manual_seed_all(s)\n", "without torch.cuda")
    assert "CUDA" in reason(b"x = f(a, eps=1, capturable=True)\n", "True -> False")
    assert "W&B" in reason(b"if self._wandb:\n  self.n = 5\n", "5 -> 6", executed=False)


@pytest.mark.parametrize(
    "source, piece",
    [
        (b"x = f(a, eps=1, capturable=True)\n", "1 -> 2"),
        (b"x = f(a, eps=1, capturable=True)\n", "without the argument a"),
        (b"ok = kind == 'cuda'\n", "== -> !="),
        (b"obs = obs.to(d, non_blocking=True).unsqueeze(0)\n", "0 -> 1"),
    ],
)
def test_what_a_cpu_could_show_is_not_counted_apart(source, piece):
    assert reason(source, piece) == ""


def test_what_is_executed_after_all_is_judged_after_all():
    assert reason(b"if self._wandb:\n  self.n = 5\n", "5 -> 6", executed=True) == ""


def test_text_for_a_terminal_is_left_alone():
    (edit, *_) = edits_of_python(b"class Logger:\n  def _print(self, d):\n    d.x = 3\n")
    assert scope.is_shown_only("common/logger.py", edit) and not scope.is_shown_only("common/math.py", edit)
    assert not scope.is_shown_only("common/logger.py", SimpleNamespace(function="Logger.log"))


@pytest.mark.parametrize(
    "source, reason",
    [
        (b"def f(self, x):\n    return x.to(self.device, non_blocking=True)\n", "devices"),
        (b"def f(self, x):\n    return x.cpu()\n", "devices"),
        (b"def f(self, x):\n    return x.to(x.dtype)\n", ""),
        (b"def f(self, x):\n    return x.detach()\n", ""),
    ],
)
def test_a_tensor_that_is_left_where_it_lies_cannot_be_judged_on_a_cpu(source, reason):
    dropped = [edit for edit in edits_of_python(source) if edit.operator == "call" and edit.start > 20]
    assert {scope.why_unreachable(edit, True).partition(":")[0] for edit in dropped} == {reason}


def test_an_argument_that_names_another_tensors_device_cannot_be_judged_on_a_cpu():
    edits = edits_of_python(b"def f(x, cfg):\n    return g(x, device=x.device), g(x, device=cfg.device)\n")
    without = [edit for edit in edits if "device=" in edit.what]
    dropped = {edit.what.rpartition(" ")[2]: scope.why_unreachable(edit, True) for edit in without}
    assert dropped["device=x.device"].startswith("devices") and dropped["device=cfg.device"] == ""


def test_the_arguments_of_a_maximum_are_not_exchanged():
    found = edits_of_python(b"def f(a, b):\n    return max(a, b) - g(a, b)\n")
    assert [edit.start for edit in found if edit.operator == "order"] == [38]
