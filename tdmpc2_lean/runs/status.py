"""How far a run is, in a line of words: for `validate status`."""

from tdmpc2_lean.runs import folder as folders
from tdmpc2_lean.runs.folder import RunFolder


def state_of(run: RunFolder) -> str:
    """State, chunks, last value and who makes it."""
    record, last = run.record, run.lines[-1] if run.lines else None
    spec = record.get("spec") if isinstance(record.get("spec"), dict) else {}
    chunk, budget, repeat = (spec.get(key) for key in ("chunk", "env_steps", "action_repeat"))
    chunks = f"/{budget // repeat // chunk}" if all(isinstance(x, int) and x for x in (chunk, budget, repeat)) else ""
    state = str(record.get("state", "unknown"))
    if state == "running" and not folders.is_held(run.path):
        state = "killed"
    words = [f"{state:<11}", f"chunk {last['chunk'] if last else 0}{chunks}"]
    if last:
        episodes = f"{last['episodes']} episode{'s' * (last['episodes'] != 1)}"
        words.append(f"return {last['value']:.1f} (mean of {episodes}) at {last['env_steps']} env steps")
    if state == "running":
        words.append(folders.holder(run.path))
    if state == "failed" and record.get("error"):
        words.append(str(record["error"]).splitlines()[0])
    return "  ".join(words)
