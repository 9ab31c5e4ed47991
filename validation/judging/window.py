"""An interval of env steps at which runs are judged."""

from typing import NamedTuple

import numpy as np


class Window(NamedTuple):
    """An interval of env steps, open below and closed above: (above, upto]."""

    name: str
    above: int
    upto: int

    def holds(self, steps: np.ndarray) -> np.ndarray:
        """Which of the env steps (T,) lie in the window: (T,) bool."""
        return (np.asarray(steps) > self.above) & (np.asarray(steps) <= self.upto)

    def __str__(self) -> str:
        return f"({self.above / 1000:g}K, {self.upto / 1000:g}K]"
