"""What a gate executes and yet could not see: changes there need another gate before anything is said of them.

A statement that was executed on inputs that never reach its bound, its edge or its second episode has proved nothing.
What is known of that of a gate on training stands here, found by wrong edits that it let pass.
"""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch

from tdmpc2_lean.validation.gates.accounting import CodeChange


@dataclass(frozen=True)
class BlindSpot:
    """Changes whose id (a pattern, as in a shell) and changed lines (a regular expression) are such.

    why: what of the gate's inputs is to blame.
    """

    ids: str
    lines: str
    why: str

    def hides(self, change: CodeChange) -> bool:
        return fnmatch(change.id, self.ids) and re.search(self.lines, change.changed_lines) is not None


@dataclass(frozen=True)
class AddedBound(BlindSpot):
    """Of every gate: a bound that the official code does not have. Inputs bite at the bounds that it has."""

    def hides(self, change: CodeChange) -> bool:
        before, after = (bounds_in(form.nodes if form else ()) for form in (change.before, change.after))
        return after > before


ADDED_BOUND = AddedBound("*", "", "it adds a bound that nothing is known to reach")
BOUNDING = {"clamp", "clamp_", "clamp_min", "clamp_max", "clip", "minimum", "maximum", "nan_to_num", "fmin", "fmax"}


def bounds_in(nodes: Iterable[ast.AST]) -> int:
    """How many calls bound a value: by a method or function of that name, or the less or the greater of several."""
    calls = [one for node in nodes for one in ast.walk(node) if isinstance(one, ast.Call)]
    names = [(one, getattr(one.func, "attr", getattr(one.func, "id", ""))) for one in calls]
    several = [one for one, name in names if name in ("min", "max") and isinstance(one.func, ast.Name)]
    return sum(name in BOUNDING for _, name in names) + sum(len(one.args) > 1 for one in several)


BOUNDS = BlindSpot("*", r"clamp|clip|minimum|maximum|nan_to_num|isfinite", "it is not known to reach that bound")

TRAINING_TDMPC2 = (
    BlindSpot("tdmpc2.py:*", r"clip_grad|grad_clip", "its gradients stay far below the norm where clipping begins"),
    BlindSpot("*", r"discount", "its short episodes put the discount at its lower bound"),
    BlindSpot("common/math.py:two_hot*", "", "its values stay within the inner bins"),
    BlindSpot("common/math.py:soft_ce", "", "its values stay within the inner bins"),
    BlindSpot("common/scale.py:*", "", "its running scale stays at 1"),
    BlindSpot("tdmpc2.py:*", r"\bscale\b", "its running scale stays at 1"),
    BlindSpot("*", r"terminat", "no episode of it terminates"),
    BlindSpot("tdmpc2.py:*", r"action_dim\s*[<>=]", "its actions have fewer than 20 numbers"),
    BlindSpot("trainer/*:*.eval", "", "each of its evaluations is one episode"),
    BlindSpot(
        "trainer/*", r"common_metrics|elapsed|time\(|eval_metrics|logger", "what is logged is not compared whole"
    ),
    BlindSpot("trainer/*:*.common_metrics", "", "what is logged is not compared whole"),
    BlindSpot("common/logger.py:*", "", "what the logger writes is not compared"),
    BlindSpot("common/parser.py:*", r"size|task|seed", "it is given its sizes, one task and one seed"),
    BlindSpot("common/buffer.py:*", r"capacity|buffer_size|\bsteps\b", "its capacity is given, below its steps"),
    BlindSpot("envs/*", r"seed|episode_length|max_episode", "its phases and seeds are set from outside"),
    BOUNDS,
)

NETWORKS_DREAMERV3 = (
    BlindSpot("embodied/jax/utils.py:Normalize*", "", "its scales stay at their limit"),
    BlindSpot("embodied/jax/outs.py:TwoHot*", "", "its values stay within the inner bins"),
    BlindSpot("embodied/jax/opt.py:*", r"agc|pmin|warmup|anneal|decay", "its updates are few and small"),
    BlindSpot("*", r"terminal|contdisc|horizon", "no episode of it terminates"),
    BOUNDS,
)

TRAINING_DREAMERV3 = (
    *NETWORKS_DREAMERV3,
    BlindSpot("embodied/core/logger*", "", "what the logger writes is not compared"),
    BlindSpot(
        "embodied/run/*", r"\blog|\bsave|usage|report_stats|print", "what is logged and saved is not compared whole"
    ),
    BlindSpot("dreamerv3/main.py:*", r"seed|size|online|fracs|logger", "it is given its seed and sizes"),
)

# Of networks it looks at shapes, and at initial values; losses and updates are traced for that and never compared.
DEFAULTS_DREAMERV3 = tuple(
    BlindSpot(ids, "", "of networks it compares shapes and initial values")
    for ids in ("embodied/jax/*", "dreamerv3/agent.py:*", "dreamerv3/rssm.py:*")
)

OUTPUTS_DREAMERV3 = NETWORKS_DREAMERV3
