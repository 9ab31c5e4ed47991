"""curve.jsonl: what a run's training episodes returned and its losses, a line for every chunk of env steps.

    chunk                    number of the chunk that ends here, from 1
    env_steps, agent_steps   where it ends: the chunk is (env_steps - length, env_steps]
    value                    mean return of the training episodes that ended in it; null if none did
    episodes, returns        how many, and the return of each
    updates                  gradient updates so far
    replay_bytes             bytes that the steps in the replay take
    losses                   {loss: mean, unscaled} over the chunk's updates; the decoder's stand under the names of
                             the observations, and share the scale `rec`
    scales                   {loss: scale} of all losses
    complete                 false for what came after the last whole chunk when the run reached its end
    seconds                  wall time of this start of the run, since the agent was compiled
    time                     ISO 8601

`Recorder` writes it, in the child, as the run goes.
"""

import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FILE = "curve.jsonl"
CHUNK = 20_000  # env steps, as the protocol of the published curves has it


class Recorder:
    """Collects returns and losses, and writes a line once the run is beyond a chunk.

    chunk: env steps. repeat: env steps of an agent step. updates, seconds: tell how many, and how long so far.
    replay_bytes: tells how many. tell: is handed each line. extra: what each line holds besides.
    """

    def __init__(
        self,
        path: Path,
        chunk: int,
        repeat: int,
        scales: Mapping[str, float],
        updates: Callable[[], int | None],
        seconds: Callable[[], float],
        replay_bytes: Callable[[], int] = lambda: 0,
        tell: Callable[[dict], None] = lambda line: None,
        extra: Mapping[str, Any] | None = None,
    ):
        self.path, self.chunk, self.repeat, self.scales = path, chunk, repeat, dict(scales)
        self.updates, self.seconds, self.replay_bytes = updates, seconds, replay_bytes
        self.tell, self.extra = tell, dict(extra or {})
        self.number = 1
        self.returns: list[float] = []
        self.sums: dict[str, list[float]] = {}

    def episode(self, env_step: int, score: float) -> None:
        """A training episode of that return ended at that env step."""
        self.advance(env_step)
        self.returns.append(float(score))

    def update(self, env_step: int, metrics: Mapping[str, Any]) -> None:
        """An update was made at that env step; metrics hold its unscaled losses under `loss/`."""
        self.advance(env_step)
        for key, value in metrics.items():
            if key.startswith("loss/"):
                pair = self.sums.setdefault(key.removeprefix("loss/"), [0.0, 0])
                pair[0] += float(value)
                pair[1] += 1

    def advance(self, env_step: int) -> None:
        """Write the lines of the chunks that end before an env step."""
        while env_step > self.number * self.chunk:
            self.write(self.number * self.chunk, True)
            self.number += 1

    def end(self, env_step: int) -> None:
        """The run came to its end at that env step."""
        self.advance(env_step)
        if env_step == self.number * self.chunk:
            self.write(env_step, True)
        elif self.returns or self.number == 1:
            self.write(env_step, False)

    def write(self, env_steps: int, complete: bool) -> None:
        line = {
            "chunk": self.number,
            "env_steps": env_steps,
            "agent_steps": env_steps // self.repeat,
            "value": sum(self.returns) / len(self.returns) if self.returns else None,
            "episodes": len(self.returns),
            "returns": self.returns,
            "updates": self.updates(),
            "replay_bytes": self.replay_bytes(),
            "losses": {name: total / n for name, (total, n) in self.sums.items()},
            "scales": self.scales,
            "complete": complete,
            "seconds": round(self.seconds(), 3),
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        } | self.extra
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.returns, self.sums = [], {}
        self.tell(line)

    def save(self) -> dict[str, Any]:
        """What a later start needs to go on in the middle of a chunk."""
        return {"number": self.number, "returns": self.returns, "sums": self.sums}

    def load(self, saved: Mapping[str, Any]) -> None:
        self.number, self.returns, self.sums = saved["number"], list(saved["returns"]), dict(saved["sums"])


def read_run(folder: Path):
    """What is drawn of a run: the returns of its training episodes, chunk by chunk; None if no episode ended."""
    from dreamer_bridge import tasks
    from tdmpc2_lean.runs import figure, record

    kept = record.read(folder)
    lines = [line for line in read_lines(folder / FILE) if line.get("episodes")]
    if not lines:
        return None
    arm = kept["arm"]["name"] + (", rep alike" if kept["arm"]["rep"] == "alike" else "")
    presets = "+".join(preset["name"] for preset in kept["presets"])
    return figure.Run(
        task=tasks.of_reference(kept["task"]) or kept["task"],
        seed=kept["seed"],
        steps=tuple(line["env_steps"] for line in lines),
        returns=tuple(line["value"] for line in lines),
        episodes=0,
        code=figure.code_of(kept),
        settings=presets if arm == "full" else f"{presets}, arm {arm}",
        state=kept["state"],
        reference=tasks.REFERENCE,
        points=f"the mean of the training episodes that ended in the {kept['chunk']:,} env steps before it",
        unit=f"Env steps, {kept['action_repeat']} per agent step.",
    )


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a JSON-lines file that are JSON objects; one cut short by a kill is passed over."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    found = []
    for text in content.split(b"\n")[:-1]:
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            found.append(line)
    return found


def keep_lines_until(path: Path, key: str, last: int) -> None:
    """Drop the lines beyond an env step, and all that cannot be read: what a resumed run computes again."""
    if not path.is_file():
        return
    kept = [line for line in read_lines(path) if isinstance(line.get(key), int | float) and line[key] <= last]
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
    os.replace(beside, path)
