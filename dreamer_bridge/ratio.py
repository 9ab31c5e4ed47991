"""Train ratio and what it means: how many updates are made per step.

The official `run.train_ratio` is the number of replayed steps per agent step: of what all sampled batches hold
together. A batch holds batch_size x batch_length steps, so

    updates per agent step = train_ratio / (batch_size * batch_length)
    updates per env step   = updates per agent step / action repeat

An agent step is one decision of one environment (the trainer counts each environment's steps; their number does not
matter); with action repeat R it is R env steps. The trainer makes updates once the replay holds enough for a batch.
(embodied/run/train.py: `Ratio` of that quotient, asked at each environment's step.)
"""

from dataclasses import dataclass

from tdmpc2_lean.errors import UserError


@dataclass(frozen=True)
class Ratio:
    """A train ratio with what it takes to understand it."""

    train_ratio: float
    batch_size: int = 16
    batch_length: int = 64
    repeat: int = 1

    def __post_init__(self):
        for name in ("batch_size", "batch_length", "repeat"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}.", "give a whole number from 1 on")
        if self.train_ratio < 0:
            raise UserError(
                f"a train ratio of {self.train_ratio:g}: the official code then makes one update per agent step.",
                "give that ratio, batch_size x batch_length, if it is meant",
            )

    @property
    def per_agent_step(self) -> float:
        """Updates per agent step."""
        return self.train_ratio / (self.batch_size * self.batch_length)

    @property
    def per_env_step(self) -> float:
        """Updates per env step."""
        return self.per_agent_step / self.repeat

    def line(self) -> str:
        """All of it, to be read."""
        return (
            f"train ratio {self.train_ratio:g} (replayed steps per agent step) with batches of {self.batch_size} x "
            f"{self.batch_length}: {self.per_agent_step:g} updates per agent step, {self.per_env_step:g} per env step "
            f"at action repeat {self.repeat}"
        )


def of_updates(per_agent_step: float, batch_size: int = 16, batch_length: int = 64, repeat: int = 1) -> Ratio:
    """The ratio that makes so many updates per agent step."""
    return Ratio(per_agent_step * batch_size * batch_length, batch_size, batch_length, repeat)
