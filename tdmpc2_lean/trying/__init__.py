"""`patch try`: whether a checkout's own script, as it is patched, does in a few seconds what its patches promise.

A patch that finds its places may still do nothing: the script makes another trainer, or a fork's code goes another way.
Here the script trains for some dozens of steps on the CPU, with networks as small as they can be, once with the
settings of the patches at their defaults and once with others, and what happens is counted. Nothing of the checkout is
changed.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tdmpc2_lean.errors import UserError, quoted
from tdmpc2_lean.patching.record import store_of
from tdmpc2_lean.patching.verbs import find_root

SECONDS = 300  # after which a try has hung
LAST_LINES = 15  # of what was printed, where the code of the checkout ends by an error


@dataclass(frozen=True)
class Observation:
    """One thing that was tried.

    what: a setting, as `utd=0.5`, or a thing that every agent does. patch: whose it is, '' for the latter.
    seen: it acts. expected, found: in words.
    """

    what: str
    patch: str
    seen: bool
    expected: str
    found: str


@dataclass(frozen=True)
class Tried:
    """All that was observed of a checkout. untried: settings of its patches of which nothing can be observed here."""

    root: Path
    patches: tuple[str, ...]
    observations: tuple[Observation, ...]
    untried: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return all(one.seen for one in self.observations)


def try_checkout(root: str | Path, names: Sequence[str] | None = None) -> Tried:
    """Run a checkout's script for some seconds and look at what its patches' settings do.

    names: the patches of which settings are tried; None for all that are applied. UserError where there is no way to
    try this upstream's code.
    """
    from tdmpc2_lean.patching import series_of
    from tdmpc2_lean.upstreams.layout import layout_of, no_checkout
    from tdmpc2_lean.upstreams.registry import UPSTREAMS

    root = find_root(root)
    series = series_of(root)
    upstream = "tdmpc2" if series.upstream not in UPSTREAMS else series.upstream
    module = f"{__name__}.{upstream}"
    if importlib.util.find_spec(module) is None:
        raise UserError(
            f"Nothing is known here of how to try {UPSTREAMS[upstream].title}'s code.",
            f"`{UPSTREAMS[upstream].command} train` with small settings shows whether it runs",
        )
    applied = store_of(root).state().names
    asked = [name for name in applied if names is None or name in names]
    settings = {setting: name for name in asked for setting in series[name].settings}
    layout = layout_of(root, upstream)
    if layout is None:
        raise no_checkout(root, upstream)
    with tempfile.TemporaryDirectory(prefix="tdmpc2-lean-try-") as folder:
        request = {
            "code_dir": str(root / layout.code), "folder": folder, "applied": list(applied), "settings": settings,
        }  # fmt: skip
        path = Path(folder) / "request.json"
        path.write_text(json.dumps(request))
        answer = _answer([sys.executable, "-P", "-m", module, str(path)], Path(folder), root)
    observations = tuple(Observation(**row) for row in answer["observations"])
    return Tried(root, tuple(applied), observations, tuple(answer["untried"]))


def _answer(words: list[str], folder: Path, root: Path) -> dict:
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "CUDA_VISIBLE_DEVICES": "", "MUJOCO_GL": "disable"}
    try:
        done = subprocess.run(
            words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS
        )
        printed, ended = done.stdout, f"with exit code {done.returncode}"
    except subprocess.TimeoutExpired as error:
        printed, ended = error.stdout or b"", f"no answer after {SECONDS} s"
    try:
        answer = json.loads((folder / "answer.json").read_text())
    except (OSError, ValueError):
        lines = printed.decode("utf-8", "replace").splitlines()[-LAST_LINES:]
        raise UserError(
            f"The code of {root} could not be tried: it ended {ended}:\n  " + "\n  ".join(lines),
            f"see what `tdmpc2-lean patch diff {quoted(root)}` shows, or try without the patches: "
            f"`tdmpc2-lean patch revert {quoted(root)}`",
        ) from None
    if "no_room" in answer:
        raise UserError(
            f"There is no room in {folder.parent} for what the code of {root} writes ({answer['no_room']}); "
            "nothing was found out about it.",
            "make room there, or name another folder in TMPDIR, then repeat the command",
        )
    return answer
