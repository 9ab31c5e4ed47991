"""The lines of curve.jsonl, made from the official training loop: training episodes' returns, and losses, by chunks.

The format is `tdmpc2_lean.runs.curve`'s. The value of a line is the mean return of the training episodes that ended in
its chunk (env_steps - length, env_steps]; the decoder's losses stand under the names of the observations, and share the
scale `rec`. `ChunkRecorder` writes them, in the child, as the run goes.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tdmpc2_lean.files import atomic_write
from tdmpc2_lean.runs.curve import append, finite

CHUNK = 20_000  # env steps, as the protocol of the published curves has it


class ChunkRecorder:
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
            "losses": {name: finite(total / n) for name, (total, n) in self.sums.items()},
            "scales": self.scales,
            "complete": complete,
            "seconds": round(self.seconds(), 3),
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        } | self.extra
        append(self.path, line)
        self.returns, self.sums = [], {}
        self.tell(line)

    def save(self) -> dict[str, Any]:
        """What a later start needs to go on in the middle of a chunk."""
        return {"number": self.number, "returns": self.returns, "sums": self.sums}

    def load(self, saved: Mapping[str, Any]) -> None:
        self.number, self.returns, self.sums = saved["number"], list(saved["returns"]), dict(saved["sums"])


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a JSON-lines file that are JSON objects; one cut short by a kill is passed over."""
    return [line for _, line in lines_with_text(path)]


def lines_with_text(path: Path) -> list[tuple[bytes, dict[str, Any]]]:
    """(text without its end, content) of each line that `read_lines` gives."""
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
            found.append((text, line))
    return found


def keep_lines_until(path: Path, key: str, last: int) -> None:
    """Drop the lines beyond an env step, and all that cannot be read: what a resumed run computes again.

    Those that stay keep their bytes: where the official code resumes exactly, it cuts the files back to their sizes.
    """
    if not path.is_file():
        return
    kept = [
        text
        for text, line in lines_with_text(path)
        if isinstance(line.get(key), int | float) and line[key] <= last
    ]
    atomic_write(path, b"".join(text + b"\n" for text in kept))
