"""How far a run is, in a line of words: for `validate status`."""

from pathlib import Path

from tdmpc2_lean.runs import curve, folder, record
from tdmpc2_lean.runs.record import FAILED, RUNNING


def line_of(path: Path) -> str:
    """State, chunks, last value and who makes it. UserError if the run's record cannot be read."""
    kept = record.read(path)
    lines = curve.lines_of(path / curve.FILE)
    last = lines[-1] if lines else None
    what = kept.specification
    state = str(kept.state)
    if state == RUNNING and not folder.is_held(path):
        state = "killed"
    words = [f"{state:<11}", f"chunk {last.chunk if last else 0}/{what.env_steps // what.chunk}"]
    if last and last.value is not None:
        episodes = f"{last.episodes} episode{'s' * (last.episodes != 1)}"
        words.append(f"return {last.value:.1f} (mean of {episodes}) at {last.env_steps} env steps")
    if state == RUNNING:
        words.append(folder.holder(path))
    if state == FAILED and kept.error:
        words.append(kept.error.splitlines()[0])
    return "  ".join(words)


def problems_of(path: Path) -> list[str]:
    """What is wrong with the files of a run, each with its place."""
    _, faults = curve.read(path / curve.FILE)
    name = path / curve.FILE
    return [f"{name}:{fault.number}: {fault.what}" if fault.number else f"{name}: {fault.what}" for fault in faults]
