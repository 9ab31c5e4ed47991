"""The patch engine: read a series, render it against a checkout, plan, act.

series, snippets, requirements   reads patches from their folders (no checkout)
source, anchors, render   bytes in, bytes out                     (no disk)
suitability, collisions   what keeps a patch from being right     (no disk)
record                    what is recorded of a checkout          (reads the checkout, as `upstreams.applied` does)
planning, refusals        what to write; what is refused before   (reads the checkout)
verbs                     check, apply, revert, status            (reads the checkout)
disk                      carries a plan out, all or nothing      (the one place that writes to a checkout)
plumbing, export          a series as mails for `git am`          (writes the folder it is given)
compare                   diff, show, audit                       (reads the checkout)
"""

from tdmpc2_lean.patching.anchors import LostAnchor, LostAnchors
from tdmpc2_lean.patching.compare import Audit, Comparison, FileAudit, audit, compare, diff, show
from tdmpc2_lean.patching.export import Exported, export
from tdmpc2_lean.patching.render import RenderError, render, render_series
from tdmpc2_lean.patching.series import Edit, Patch, Series, SeriesError, Snippet, read_series
from tdmpc2_lean.patching.verbs import (
    Check,
    Fit,
    PatchOutcome,
    Status,
    apply,
    check,
    revert,
    series_of,
    status,
)
from tdmpc2_lean.upstreams.applied import recorded

__all__ = [
    "Audit",
    "Check",
    "Comparison",
    "Edit",
    "Exported",
    "FileAudit",
    "Fit",
    "LostAnchor",
    "LostAnchors",
    "Patch",
    "PatchOutcome",
    "RenderError",
    "Series",
    "SeriesError",
    "Snippet",
    "Status",
    "apply",
    "audit",
    "check",
    "compare",
    "diff",
    "export",
    "read_series",
    "recorded",
    "render",
    "render_series",
    "revert",
    "series_of",
    "show",
    "status",
]
