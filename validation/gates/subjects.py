"""What a gate compares: the subject, the reference, and the checkouts between them."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from tdmpc2_lean import patched, places, upstreams
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.patching import Patch, Series, read_series, render
from tdmpc2_lean.upstreams import MINIATURE, UPSTREAMS, upstream_of


@dataclass(frozen=True)
class GateSubject:
    """Code under test and the official code beside it.

    name: for tables. code_dir: the folder from which it is run. reference: the unpatched official checkout.
    series: the patches that lead from the reference to the subject, empty where the subject is the user's own fork.
    """

    name: str
    code_dir: Path
    reference: upstreams.Checkout
    series: Series | None

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
        return "def plan_vec" in (self.code_dir / "tdmpc2.py").read_text(encoding="utf-8")

    def prefix(self, length: int) -> Path:
        """Code folder of the reference with the first `length` patches of the series.

        A release lacks files without which it does not run: also without patches it is a copy with ours in their place.
        """
        if length == 0 and not self.reference.release:
            return self.reference.code_dir
        names = [patch.name for patch in self.series.patches[:length]]
        return patched.materialise(self.reference, names, self.series).code_dir


def read_config(code_dir: Path) -> dict:
    """A checkout's defaults: TD-MPC2's config.yaml, or DreamerV3's with dots in its keys, as `run.steps`."""
    from omegaconf import OmegaConf

    path = code_dir / "config.yaml"
    if path.exists():
        return OmegaConf.to_container(OmegaConf.load(path))
    from dreamer_bridge import config as of_dreamer

    return of_dreamer.flat(of_dreamer.read(code_dir)[of_dreamer.DEFAULTS])


def find_subject(
    where: str | None = None, allow_local_changes: bool = False, upstream: str | None = None
) -> GateSubject:
    """What `gate run --checkout WHERE` is about.

    Unpatched official code (also by default, and the miniature): the subject is that code with the whole series.
    A folder with patches applied or with local changes: the subject is the folder as it is, and the reference is its
    own upstream commit without them.
    upstream: default: that of the folder that `where` names, else tdmpc2.
    """
    upstream = upstream or upstream_of(where)
    checkout = upstreams.find_checkout(upstream, where, allow_local_changes=allow_local_changes)
    if checkout.upstream == MINIATURE and not UPSTREAMS[upstream].has_miniature:
        raise UserError(f"The miniature stands for TD-MPC2, not for {upstream}.", "name a checkout, or nothing")
    series = read_series(checkout.upstream)
    if checkout.patches or checkout.local_changes:
        reference = upstreams.find_checkout(upstream, reference_of(checkout))
        return GateSubject(f"{checkout.label} as it is in {checkout.root}", checkout.code_dir, reference, None)
    whole = patched.materialise(checkout, None, series)
    return GateSubject(f"{checkout.label} + {len(series.patches)} patches", whole.code_dir, checkout, series)


def reference_of(checkout: upstreams.Checkout) -> str:
    """What names the unpatched code of a checkout; UserError where nothing says which that is."""
    if checkout.release:
        return "release"
    if checkout.upstream == MINIATURE:
        return MINIATURE
    if checkout.commit is None:
        raise UserError(
            f"{checkout.root} is no official commit's tree and comes near to none in the cache: there is nothing to "
            "compare it with.",
            f"`tdmpc2-lean upstream fetch --upstream {checkout.upstream}` brings the history by which it may be known",
        )
    return checkout.commit


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
