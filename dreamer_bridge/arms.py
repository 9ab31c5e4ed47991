"""Arms of the ablation: how strongly the world model's prior is trained.

    arm=full        the official scale of the loss `dyn`, which trains the prior towards the posterior
    arm=strip       scale 0: the prior stays as it was initialised
    arm=dyn=0.25    any other scale

`dyn` moves the prior alone. Its counterpart `rep` (official scale 0.1) pulls the posterior towards the prior, and
goes on to do so when the prior is not trained. rep=alike scales both by the same factor, rep=keep (the default)
leaves `rep` as it is.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tdmpc2_lean.errors import UserError

DYN, REP = "agent.loss_scales.dyn", "agent.loss_scales.rep"
CAVEAT = (
    "the loss `rep` still pulls the posterior towards a prior that is trained with another weight; "
    "rep=alike scales both alike"
)


@dataclass(frozen=True)
class Arm:
    """name: as written. dyn: the scale, None for the official one. alike: whether `rep` is scaled alike."""

    name: str = "full"
    dyn: float | None = None
    alike: bool = False

    def settings(self, official: Mapping[str, float]) -> dict[str, float]:
        """What it sets. official: the loss scales without the arm, by name."""
        if self.dyn is None:
            return {}
        if not self.alike:
            return {DYN: self.dyn}
        if not official["dyn"]:
            raise UserError("rep=alike: the scale of dyn is 0 already.", "leave rep= away")
        return {DYN: self.dyn, REP: official["rep"] * self.dyn / official["dyn"]}

    def record(self, scales: Mapping[str, float]) -> dict:
        """What run.json says of it."""
        return {"name": self.name, "rep": "alike" if self.alike else "keep", "loss_scales": dict(scales)}


def chosen(word: str | None, rep: str | None) -> Arm:
    """The arm of the words arm= and rep=."""
    if rep not in (None, "keep", "alike"):
        raise UserError(f"rep={rep} is neither keep nor alike.", "write rep=alike, or leave it away")
    alike = rep == "alike"
    if word in (None, "full"):
        return Arm("full", None, alike)
    if word == "strip":
        return Arm(word, 0.0, alike)
    name, _, value = word.partition("=")
    try:
        scale = float(value) if name == "dyn" else math.nan
    except ValueError:
        scale = math.nan
    if not math.isfinite(scale) or scale < 0:
        raise UserError(f"arm={word} is no arm.", "write arm=full, arm=strip or arm=dyn=0.25")
    return Arm(word, scale, alike)
