"""What a gate compares: the subject, the reference, and the checkouts between them."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from tdmpc2_lean import patched, places, upstreams
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.patching import Patch, Series, read_series, render
from tdmpc2_lean.upstreams import MINIATURE, UPSTREAMS, upstream_of
from tdmpc2_lean.validation.gates import accounting


@dataclass(frozen=True)
class GateSubject:
    """Code under test and the official code beside it.

    name: for tables. code_dir: the folder from which it is run. reference: the unpatched official checkout.
    series: the patches that lead from the reference to the subject, empty where the subject is the user's own fork.
    why: of a fork, why it is this reference.
    """

    name: str
    code_dir: Path
    reference: upstreams.Checkout
    series: Series | None
    why: str = field(default="", compare=False)

    @property
    def upstream(self) -> str:
        """The upstream whose gates apply; the miniature is judged as TD-MPC2 is."""
        return "tdmpc2" if self.reference.upstream == MINIATURE else self.reference.upstream

    @cached_property
    def config(self) -> dict:
        """The subject's own configuration."""
        return read_config(self.code_dir)

    @property
    def can_plan_vec(self) -> bool:
        return "plan_vec" in self.functions

    @cached_property
    def functions(self) -> set[str]:
        """Names of the functions and methods in the subject's main modules, without their classes'."""
        return names_of_functions(self.files)

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The subject's files that can matter, by path from its code folder."""
        return accounting.read_code(self.code_dir, self.official)

    @cached_property
    def official(self) -> dict[str, bytes]:
        """The same of its reference, unpatched."""
        code_dir = self.prefix(0)
        return accounting.read_code(code_dir, accounting.data_in(code_dir))

    @cached_property
    def expected(self) -> tuple[dict[str, bytes], tuple[str, ...]]:
        """(files, names): the reference with those of our patches that the subject has, and their names."""
        known = UPSTREAMS[self.upstream]
        prefix = f"{known.code}/" if known.code else ""
        series = self.series or read_series(self.reference.upstream)
        if not self.reference.release:
            return accounting.patched_alike(self.files, self.official, series, prefix)
        if self.series is not None:
            names = [patch.name for patch in read_series(self.reference.upstream).patches]
            whole = patched.materialise(self.reference, names)
            return accounting.read_code(whole.code_dir, self.official), tuple(name for name, _ in whole.patches)
        # Files of ours that stand where the release leaves some out are not patched: they are made for the patches.
        ours = patched.supplied_files(known.release, ())
        bare = {path: data for path, data in self.official.items() if prefix + path not in ours}
        files, names = accounting.patched_alike(self.files, bare, series, prefix, known.release.left_out)
        supplied = patched.supplied_files(known.release, names)
        return files | {path.removeprefix(prefix): data for path, data in supplied.items()}, names

    @cached_property
    def accounting(self) -> accounting.Accounting:
        """Every difference of the subject from its reference with our patches."""
        files, names = self.expected
        return accounting.account(self.files, files, UPSTREAMS[self.upstream].scripts, names)

    @cached_property
    def lacking(self) -> frozenset[str]:
        """Names of functions and settings that the reference with our patches has, and the subject has not."""
        gone = [change for change in self.accounting.changes if change.kind == accounting.REMOVED]
        functions = {change.name.rpartition(".")[2] for change in gone if change.what == "function"}
        keys = {change.name for change in gone if change.what == "key"}
        return frozenset(functions | keys | {key.partition(".")[2] for key in keys if "." in key})

    def prefix(self, length: int) -> Path:
        """Code folder of the reference with the first `length` patches of the series.

        A release lacks files without which it does not run: also without patches it is a copy with ours in their place.
        """
        if length == 0 and not self.reference.release:
            return self.reference.code_dir
        names = [patch.name for patch in self.series.patches[:length]] if self.series else []
        return patched.materialise(self.reference, names, self.series).code_dir


def read_config(code_dir: Path) -> dict:
    """A checkout's defaults: TD-MPC2's config.yaml, or DreamerV3's with dots in its keys, as `run.steps`."""
    from omegaconf import OmegaConf

    path = code_dir / "config.yaml"
    if path.exists():
        return OmegaConf.to_container(OmegaConf.load(path))
    from dreamer_bridge import config as of_dreamer

    return of_dreamer.flat(of_dreamer.read(code_dir)[of_dreamer.DEFAULTS])


def names_of_functions(files) -> set[str]:
    """The last parts of the names of all functions in Python files that parse."""
    found = set()
    for path, data in files.items():
        if path.endswith(".py"):
            try:
                found |= {name.rpartition(".")[2] for name in accounting.forms_of(data)}
            except (SyntaxError, ValueError):
                continue
    return found


def find_subject(
    where: str | None = None,
    allow_local_changes: bool = False,
    upstream: str | None = None,
    against: str | None = None,
    patching: bool = False,
) -> GateSubject:
    """What `gate run --checkout WHERE` is about.

    Unpatched official code (also by default, and the miniature): the subject is that code with the whole series.
    Everything else, whoever names it, is the subject as it is, and the reference is an official commit, unpatched: see
    `named_judge`. What is official is said by hashes alone.
    upstream: default: that of the folder that `where` names, else tdmpc2. against: names the official commit.
    patching: for benchmarks: what has no patches yet is meant with the whole series, official or not.
    """
    upstream = upstream or upstream_of(where)
    checkout = upstreams.find_checkout(upstream, where, allow_local_changes=allow_local_changes)
    if checkout.upstream == MINIATURE and not UPSTREAMS[upstream].has_miniature:
        raise UserError(f"The miniature stands for TD-MPC2, not for {upstream}.", "name a checkout, or nothing")
    series = read_series(checkout.upstream)
    is_whole = not checkout.patches and not checkout.local_changes
    if is_whole and against is None and (checkout.verified or checkout.upstream == MINIATURE):
        whole = patched.materialise(checkout, None, series)
        return GateSubject(f"{checkout.label} + {len(series.patches)} patches", whole.code_dir, checkout, series)
    reference, why = judge_of(checkout, against)
    if is_whole and reference.commit == checkout.commit and reference.root == checkout.root:
        return find_subject(where, allow_local_changes, upstream)
    if patching and is_whole:
        whole = patched.materialise(checkout, None, series)
        name = f"{checkout.label} + {len(series.patches)} patches"
        return GateSubject(name, whole.code_dir, reference, None, why)
    return GateSubject(f"{checkout.label} as it is in {checkout.root}", checkout.code_dir, reference, None, why)


def judge_of(checkout: upstreams.Checkout, against: str | None = None) -> tuple[upstreams.Checkout, str]:
    """(official checkout, why it): what a fork, or a checkout with patches or local changes, is compared with.

    The commit that `against` names, which has to be official; else what `named_judge` says.
    """
    if against is None or checkout.upstream == MINIATURE:
        name, why = named_judge(checkout)
        return upstreams.find_checkout(checkout.upstream, name), why
    known = UPSTREAMS[checkout.upstream]
    found = upstreams.find_checkout(known.name, against, allow_local_changes=True)
    if not found.verified or found.patches:
        raise UserError(
            f"{against} is {found.label}, which hashes do not say to be official: it cannot be a judge.",
            f"name an official commit, such as {known.pin[:7]}; `tdmpc2-lean upstream list` shows those here",
        )
    return found, "named by --against"


def reference_of(checkout: upstreams.Checkout) -> str:
    """What names the unpatched official code of a checkout; UserError where nothing says which that is."""
    return named_judge(checkout)[0]


def named_judge(checkout: upstreams.Checkout) -> tuple[str, str]:
    """(what names an official checkout, why that one), for a checkout that is anything else.

    Its own commit where that is official; else the newest official one among its ancestors; else the one to which its
    files come nearest; else the pin: see `upstreams.ancestry`. UserError for an archive that comes near to no commit.
    """
    if checkout.upstream == MINIATURE:
        return MINIATURE, "its own files"
    if checkout.release:
        return "release", "the release that it is of"
    known = UPSTREAMS[checkout.upstream]
    if checkout.commit is None:
        raise UserError(
            f"{checkout.root} is no official commit's tree and comes near to none in the cache: there is nothing to "
            "compare it with.",
            f"`tdmpc2-lean upstream fetch --upstream {known.name}` brings the history by which it may be known; or "
            "name an official commit: gate run --against COMMIT",
        )
    descent = checkout.descent
    return descent.commit, descent.why


def controls_of(gate: str, upstream: str = "tdmpc2") -> tuple[Patch, ...]:
    """The negative controls of an upstream's gate: each makes a mutant of a subject, which the gate must reject."""
    folder = places.validation_dir() / "gates" / "controls" / upstream / gate
    return tuple(read_series(upstream, folder).patches) if (folder / "series").exists() else ()


class ReadFiles(dict):
    """The files of a folder by posix path, read when asked for."""

    def __init__(self, root: Path):
        self.root = root

    def __missing__(self, name: str) -> bytes:
        path = self.root / name
        if not path.is_file():
            raise KeyError(name)
        return path.read_bytes()

    def __contains__(self, name) -> bool:
        return (self.root / name).is_file()

    def get(self, name, default=None):
        return self[name] if name in self else default


@contextmanager
def mutated(subject: GateSubject, control: Patch) -> Iterator[GateSubject]:
    """The mutant of a subject: the control's edit on top, in a folder that is removed afterwards.

    The control also stands at the end of its series, where it has one.
    """
    code = UPSTREAMS[subject.upstream].code
    with tempfile.TemporaryDirectory(prefix="tdmpc2-lean-control-") as folder:
        root = Path(folder)
        shutil.copytree(
            subject.code_dir, root / code, ignore=shutil.ignore_patterns("__pycache__", ".git"), dirs_exist_ok=True
        )
        for name, content in render(control, ReadFiles(root)).items():
            (root / name).write_bytes(content)
        series = subject.series and replace(subject.series, patches=(*subject.series.patches, control))
        name = f"{subject.name} + mutation {control.name}"
        yield replace(subject, name=name, code_dir=root / code, series=series)
