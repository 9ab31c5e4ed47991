"""The page on the patches' reach, written from the results."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tdmpc2_lean.files import atomic_write
from tdmpc2_lean.upstreams import UPSTREAMS

PAGE = Path(__file__).parent / "README.md"
SIGNS = {"applies": "yes", "already there": "has it", "lost": "no"}


def totals(rows: Sequence[dict]) -> list[str]:
    """A line for each upstream."""
    lines = []
    for known in UPSTREAMS.values():
        these = [row for row in rows if row["upstream"] == known.name]
        if not these:
            continue
        whole = sum("lost" not in row["outcomes"].values() for row in these)
        half = sum(2 * list(row["outcomes"].values()).count("lost") <= len(row["outcomes"]) for row in these)
        lines.append(
            f"{known.title}: of {len(these)} public derivatives {whole} take every patch that is on by default or have "
            f"its effect already, and {half} at least half of them."
        )
    return lines


def text(rows: Sequence[dict]) -> str:
    """The page."""
    out = [
        "# The reach of the patches",
        "",
        "What `tdmpc2-lean patch check` says on public derivatives of the upstreams, at the commits named here. It is",
        "about whether every place of a patch is found; nothing was run. `yes`: it applies; `has it`: the code has by",
        "itself what the patch does; `no`: a place is gone. Code that replaced what a patch is about cannot take it.",
        "The list is `derivatives.txt`; the places that are gone are in `results.json`. Written by",
        "`python -m tdmpc2_lean.validation.reach`.",
        "",
        *(f"* {line}" for line in totals(rows)),
    ]
    for known in UPSTREAMS.values():
        these = [row for row in rows if row["upstream"] == known.name]
        if not these:
            continue
        names = list(dict.fromkeys(name for row in these for name in row["outcomes"]))
        out += ["", f"## {known.title}", "", f"| repository | commit | from | {' | '.join(names)} |"]
        out += ["|---" * (len(names) + 3) + "|"]
        for row in these:
            origin = "none is near"
            if from_ := row["descends_from"]:
                origin = from_["commit"][:7] + (f" ({from_['near']:.0%} of lines)" if "near" in from_ else "")
            cells = [SIGNS[row["outcomes"][name]] for name in names]
            out.append(f"| {row['repository']} | {row['commit'][:7]} | {origin} | {' | '.join(cells)} |")
        counts = {name: Counter(row["outcomes"][name] for row in these) for name in names}
        sums = [f"{count['applies'] + count['already there']} of {len(these)}" for count in counts.values()]
        out.append(f"| all | | | {' | '.join(sums)} |")
    others = [row for row in rows if row["upstream"] is None]
    if others:
        out += ["", "## Not recognised as a checkout", ""]
        out += [f"* {row['repository']} {row['commit'][:7]}" for row in others]
    return "\n".join(out) + "\n"


def write(rows: Sequence[dict]) -> None:
    """Write the page beside this module."""
    atomic_write(PAGE, text(rows))
