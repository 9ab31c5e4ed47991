"""Forks of official code with somebody's edits, and the gates' verdict on them (see `edits_tdmpc2`).

An edit is found by structure: a file, a function in it, an anchor of one expression or statement. It is made on a copy
of the official files with our series applied, which is how a user's patched clone looks that went on being edited.
"""

import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tdmpc2_lean import patched
from tdmpc2_lean.patching import Edit, Patch, render
from tdmpc2_lean.upstreams import UPSTREAMS, Checkout
from tdmpc2_lean.validation.gates import cases
from tdmpc2_lean.validation.gates.results import GateReport
from tdmpc2_lean.validation.gates.run import run
from tdmpc2_lean.validation.gates.subjects import GateSubject, ReadFiles


@dataclass(frozen=True)
class ForkEdit:
    """Somebody's edit of one function, table or setting.

    name: in the field's words. change: its id, as the accounting is to have it: a path from the code folder, a colon,
    a dotted name or key. steps: (find, now[, verb[, count]]) each, as `patching.series` has them; of YAML the new
    value alone, of any other file the bytes before and after.
    judge: the gate that is to reject it, with its case after a slash if it is one of cases; or `results.UNPROVED`.
    """

    name: str
    change: str
    steps: tuple[tuple, ...]
    judge: str

    @property
    def file(self) -> str:
        return self.change.partition(":")[0]

    @property
    def gate(self) -> str:
        return self.judge.partition("/")[0]

    @property
    def case(self) -> str:
        return self.judge.partition("/")[2]


def edit(name: str, change: str, *step, judge: str, more: Sequence[tuple] = ()) -> ForkEdit:
    """An edit of one step, with `more` after it."""
    return ForkEdit(name, change, (step, *more), judge)


def make(root: Path, code: str, edits: Iterable[ForkEdit]) -> None:
    """Makes edits in a checkout. code: the code folder's path in it. Every anchor must be there as often as it says."""
    for one in edits:
        path = root / code / one.file
        inside = one.change.partition(":")[2]
        if path.suffix == ".yaml":
            set_key(path, inside, *one.steps[0])
        elif path.suffix != ".py":
            data = path.read_bytes()
            was, now = one.steps[0]
            assert data.count(was) == 1, (one.name, was)
            path.write_bytes(data.replace(was, now))
        else:
            file = f"{code}/{one.file}" if code else one.file
            place = None if inside == "<module>" or inside.isupper() else inside
            for find, now, *verb in one.steps:
                do, times = (*verb, "replace", 1)[:2] if not verb else (verb[0], (*verb, 1)[1])
                step = Edit(1, file, do, place, find, None, (times, times), None, None if do == "delete" else now)
                patch = Patch(one.name, one.name, "", None, None, (), (step,), root, "")
                for name, content in render(patch, ReadFiles(root)).items():
                    (root / name).write_bytes(content)


def set_key(path: Path, key: str, value: str) -> None:
    """Gives a key of a YAML file, dotted where it is nested, another value; all other bytes stay."""
    lines, parts, at = path.read_text().splitlines(keepends=True), key.split("."), 0
    for depth, part in enumerate(parts):
        at = next(i for i in range(at, len(lines)) if lines[i].strip().startswith(f"{part}:"))
        if depth == len(parts) - 1:
            head = lines[at][: lines[at].index(":") + 1]
            lines[at] = f"{head} {value}\n"
    path.write_text("".join(lines))


class EditedForks:
    """Copies of an official checkout with the whole series, or without a patch, each with edits of its own.

    folder: where they are made.
    """

    def __init__(self, official: Checkout, folder: Path):
        self.official, self.folder, self.count = official, folder, 0
        self.code = UPSTREAMS[official.upstream].code
        self.patched = patched.materialise(official).root

    @contextmanager
    def with_edits(self, edits: Collection[ForkEdit], with_patches: bool = True) -> Iterator[GateSubject]:
        """A fork with edits, as the subject that `gate run --checkout` makes of it; removed afterwards."""
        self.count += 1
        root = self.folder / f"fork-{self.count}"
        source = self.patched if with_patches else self.official.root
        shutil.copytree(source, root, ignore=shutil.ignore_patterns("__pycache__", ".git", ".tdmpc2-lean"))
        try:
            make(root, self.code, edits)
            yield GateSubject("fork", root / self.code, self.official, None)
        finally:
            shutil.rmtree(root)


def judged(subject: GateSubject, judge: str, budget, monkeypatch) -> GateReport:
    """`gate run` on a fork with one gate and, of a gate of cases, one case alone.

    What the reference answers to single cases goes into no cache, from which it would drive what users need.
    """
    gate, _, case = judge.partition("/")
    with monkeypatch.context() as patch:
        judged_by_cases, answer = cases.judged, cases.process.call

        def one_case(*args, **given):
            names = [case] if case else None
            yield from judged_by_cases(*args, **{**given, "names": names})

        def unkept(function, code_dir, tracing, names):
            return answer(function, code_dir, tracing.shim_for(code_dir), tracing.stack, names=names)

        patch.setattr(cases, "judged", one_case)
        patch.setattr(cases, "kept", unkept)
        return run(subject, [gate], budget, recalling=True)
