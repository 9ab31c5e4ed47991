"""How far a run of DreamerV3 is: what its child reports besides what that of TD-MPC2 does."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tdmpc2_lean.runs.progress import Progress


@dataclass
class DreamerProgress(Progress):
    """seed_steps: agent steps before the first update, known once it was made.

    returns: of the episodes of an evaluation that have ended.
    """

    returns: list[float] = field(default_factory=list)

    def take(self, event: Mapping[str, Any]) -> None:
        kind = event.get("event")
        if kind == "compiling":
            self.news.append("building and compiling the agent (a minute or two; far less with a warm compile cache)")
        elif kind == "compiled":
            self.compile_seconds = event["seconds"]
            self.news.append(f"compiled in {event['seconds']:.0f} s")
        elif kind == "resumed":
            super().take(event)
            # Looks from before the checkpoint was loaded: steps of earlier starts are no speed of this one.
            self.samples = [sample for sample in self.samples if (sample[0] or 0) >= event["step"]]
        elif kind == "episode":
            self.returns.append(event["return"])
            self.news.append(f"episode {len(self.returns)} of {event['of']}: return {event['return']:.1f}")
        elif kind == "saved" and event["step"]:
            self.news.append(f"checkpoint at agent step {event['step']}")
        elif kind == "chunk":
            self.evaluations.append(
                {"step": event["agent_steps"], "episode_reward": event["value"], "episodes": event["episodes"]}
            )
            self.news.append(chunk_line(event))
        else:
            super().take(event)
            if kind == "step":
                if self.updates and self.seed_steps is None:
                    self.seed_steps = event["step"]

    def phase(self) -> str:
        return "" if self.updates is None or self.updates else "filling the replay"

    def timing(self) -> dict[str, Any]:
        """As of any run; evaluations are none of this loop's."""
        return super().timing() | {"evaluation_seconds": None} if self.samples else {}


def chunk_line(line: Mapping[str, Any]) -> str:
    """What a line of curve.jsonl says, with its n."""
    n = line["episodes"]
    returns = f"return {line['value']:.1f} (mean of {n} training episode{'s' * (n != 1)})" if n else "no episode ended"
    losses = [f"{name} {line['losses'][name]:.3g}" for name in ("dyn", "rep", "rew") if name in line["losses"]]
    told = f"; unscaled losses: {', '.join(losses)}" if losses else ""
    return f"env step {line['env_steps']}: {returns}, {line['updates']} updates{told}"
