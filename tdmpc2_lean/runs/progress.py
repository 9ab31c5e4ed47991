"""How far a run is, for a person: a bar with steps/s and time left on a terminal, plain lines elsewhere."""

import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

LINE_EVERY = 30.0  # seconds between plain lines
WINDOW = 60.0  # seconds over which the speed shown is averaged


@dataclass
class Progress:
    """What the child has reported so far. All steps are agent steps, all times seconds of training.

    samples: (step, seconds, evaluation_seconds), about two a second. news: lines to be shown, each once.
    resumed_at: the agent step at which this start went on; None for one from nothing.
    updates: gradient updates so far, of an agent that counts them. compile_seconds: what compiling it took.
    """

    steps: int | None = None
    seed_steps: int | None = None
    device: str | None = None
    device_name: str | None = None
    evaluating: bool = False
    cpu_seconds: float | None = None
    updates: int | None = None
    compile_seconds: float | None = None
    resumed_at: int | None = None
    ended: bool = False
    broken: Mapping[str, Any] | None = None
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    samples: list[tuple[int | None, float, float]] = field(default_factory=list)
    news: list[str] = field(default_factory=list)

    def take(self, event: Mapping[str, Any]) -> None:
        """Account for one event of the child's (see `channel`); those of an unknown kind are none of ours."""
        kind = event.get("event")
        if kind == "start":
            self.steps = event["steps"]
            self.seed_steps = event["seed_steps"] if isinstance(event["seed_steps"], int) else None
            self.device, self.device_name = event["device"], event["device_name"]
        elif kind == "step":
            self.evaluating = event["evaluating"]
            self.cpu_seconds = event["cpu_seconds"]
            self.updates = event.get("updates", self.updates)
            self.samples.append((event["step"], event["seconds"], event["evaluation_seconds"]))
        elif kind == "resumed":
            self.resumed_at = event["step"]
            self.news.append(f"going on at agent step {event['step']:,}")
        elif kind == "evaluation":
            self.evaluations.append({key: event[key] for key in ("step", "episode_reward", "episodes")})
            self.news.append(evaluation_line(event))
        elif kind == "broken":
            self.broken = event
        elif kind == "end":
            self.ended = True

    def phase(self) -> str:
        """What is being done besides training; empty if nothing."""
        if self.evaluating:
            return "evaluating"
        if self.seed_steps is not None and self.step == self.seed_steps:
            return "pretraining"
        return "seeding" if self.seed_steps is not None and (self.step or 0) < self.seed_steps else ""

    @property
    def step(self) -> int | None:
        """The last step heard of."""
        return self.samples[-1][0] if self.samples else None

    def speed(self, window: float = WINDOW) -> float | None:
        """Agent steps a second over the last `window` seconds, evaluations not counted; None if unknown.

        Once the agent learns, the seeding phase no longer counts: random actions are far quicker.
        """
        if not self.samples:
            return None
        end = self.samples[-1]
        alike = self.learning() or self.samples
        return rate(next(sample for sample in alike if sample[1] >= end[1] - window), end)

    def learning(self) -> list[tuple[int | None, float, float]]:
        """The samples after seeding and pretraining."""
        if self.seed_steps is None:
            return []
        return [sample for sample in self.samples if sample[0] is not None and sample[0] > self.seed_steps]

    def timing(self) -> dict[str, Any]:
        """What run.json records as `timing`."""
        if not self.samples:
            return {}
        # What was done before this start took none of its time.
        first, last = (self.resumed_at or 0, 0.0, 0.0), self.samples[-1]
        learning = self.learning()
        return {
            "steps": self.done(),
            "train_seconds": round(last[1], 2),
            "evaluation_seconds": round(last[2], 2),
            "cpu_seconds": rounded(self.cpu_seconds),
            "compile_seconds": self.compile_seconds,
            "steps_per_second": rounded(rate(first, last)),
            "learning_steps_per_second": rounded(rate(learning[0], last)) if learning else None,
            "updates": self.updates,
        }

    def done(self) -> int | None:
        """Agent steps so far; an official loop's counter may end one beyond its budget."""
        return self.step if self.step is None or self.steps is None else min(self.step, self.steps)


def rate(start: tuple[int | None, float, float], end: tuple[int | None, float, float]) -> float | None:
    """Steps a second between two samples, evaluations not counted."""
    if start[0] is None or end[0] is None:
        return None
    seconds = (end[1] - start[1]) - (end[2] - start[2])
    return (end[0] - start[0]) / seconds if seconds > 0 else None


def rounded(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.4g}")


def duration(seconds: float) -> str:
    """'1:02:03' or '2:03'."""
    minutes, seconds = divmod(int(round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class Display:
    """Shows a Progress as it grows. quiet: shows nothing."""

    def __init__(self, progress: Progress, stream: TextIO | None = None, quiet: bool = False):
        self.progress = progress
        self.stream = stream or sys.stderr
        self.quiet = quiet
        self.bar = None
        self.on_terminal = not quiet and self.stream.isatty()
        self.shown = 0
        self.last_line = time.monotonic()

    def update(self) -> None:
        """Show what is new. Called often; costs little."""
        if self.quiet:
            return
        for news in self.progress.news[self.shown :]:
            self.say(news)
            self.shown += 1
        if self.progress.step is None:
            return
        if self.on_terminal:
            self.draw_bar()
        elif time.monotonic() - self.last_line >= LINE_EVERY:
            self.last_line = time.monotonic()
            self.say(line(self.progress))

    def say(self, text: str) -> None:
        if self.quiet:
            return
        if self.bar is not None:
            self.bar.write(text, file=self.stream)
        else:
            print(text, file=self.stream, flush=True)

    def draw_bar(self) -> None:
        from tqdm import tqdm

        if self.bar is None:
            form = "{percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt} agent steps, {elapsed}{postfix}"
            # Some terminals, such as those of log collectors, say that they have no columns at all.
            width = shutil.get_terminal_size().columns
            total = self.progress.steps
            self.bar = tqdm(total=total, file=self.stream, bar_format=form, ncols=width, leave=False)
        self.bar.n = self.progress.done()
        self.bar.set_postfix_str(state(self.progress), refresh=False)
        self.bar.refresh()

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None


def state(progress: Progress) -> str:
    """Speed, time left and what is being done."""
    words = []
    speed = progress.speed()
    if speed:
        words.append(f"{speed:.1f} steps/s")
        left = (progress.steps or 0) - (progress.step or 0)
        if left > 0:
            words.append(f"{duration(left / speed)} left")
    if progress.phase():
        words.append(progress.phase())
    return ", ".join(words)


def line(progress: Progress) -> str:
    """One plain line."""
    of = f"/{progress.steps}" if progress.steps else ""
    return f"agent step {progress.done()}{of}, {state(progress)}".rstrip(", ")


def evaluation_line(evaluation: Mapping[str, Any]) -> str:
    """What an evaluation found, with its n."""
    at = "" if evaluation["step"] is None else f" at agent step {evaluation['step']}"
    episodes = evaluation["episodes"]
    mean = f"mean of {episodes} episode{'s' * (episodes != 1)}"
    return f"evaluation{at}: return {evaluation['episode_reward']:.1f} ({mean})"
