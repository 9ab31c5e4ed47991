"""What an upstream's adapter does: all that making a run needs to know of one upstream, and of no other.

`adapter_of` is the one place where an upstream's name leads to its code. A new upstream is a new adapter.
"""

import abc
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs.plan import Conditions, FixedRun, Plan, Request
from tdmpc2_lean.runs.presets import Shelf
from tdmpc2_lean.runs.progress import Progress
from tdmpc2_lean.runs.record import Evaluation, RunRecord
from tdmpc2_lean.runs.watching import Log, RunFailed
from tdmpc2_lean.settings.schema import Schema
from tdmpc2_lean.upstreams.registry import UPSTREAMS

ADAPTERS = {"tdmpc2": "tdmpc2_lean.tdmpc2.adapter", "dreamerv3": "dreamer_bridge.adapter"}


class Adapter(abc.ABC):
    """How an upstream's agent is configured, started, watched, checkpointed and read.

    upstream: its name.
    patience: seconds that an interrupted run gets to save its state and end.
    of_raised_budget: in what a run that goes on to a larger budget need not be the one that had it from the start;
        empty if they are the same to the bit.
    """

    upstream: str
    patience: float = 20.0
    of_raised_budget: str = ""

    @property
    def command(self) -> str:
        """The command line that is about it."""
        return UPSTREAMS[self.upstream].command

    @property
    def title(self) -> str:
        """The agent's name for people."""
        return UPSTREAMS[self.upstream].title

    # ------------------------------------------------------------------------------------------- configured

    @abc.abstractmethod
    def plan(self, request: Request) -> Plan:
        """All decisions about a run, taken and checked; nothing is written. UserError if it cannot be made."""

    @abc.abstractmethod
    def words_of(
        self, fixed: FixedRun, seed: int, presets: Sequence[str], preset_settings: Mapping[str, Any],
        conditions: Conditions, folder: Path,
    ) -> list[str]:  # fmt: skip
        """The words that make a protocol's run. UserError for conditions or presets that the agent does not know."""

    @abc.abstractmethod
    def deciding(self, configured: Mapping[str, Any]) -> dict[str, Any]:
        """Of a run's settings those that must not change when it goes on, the budget left out."""

    @property
    @abc.abstractmethod
    def shelf(self) -> Shelf:
        """The lean presets."""

    @abc.abstractmethod
    def schema(self) -> Schema:
        """All settings of the agent with all patches. UserError if they cannot be known here."""

    # ---------------------------------------------------------------------------------------------- started

    @abc.abstractmethod
    def child(self, plan: Plan, common: Mapping[str, Any]) -> list[str]:
        """The command line of the child. common: what every child is told, see `making.common_request`."""

    @abc.abstractmethod
    def progress(self) -> Progress:
        """What takes the child's events."""

    # ----------------------------------------------------------------------------------------- checkpointed

    @abc.abstractmethod
    def checkpoint_step(self, plan: Plan) -> int | None:
        """The agent step at which the run in the plan's folder would go on; None without a checkpoint.

        UserError if there is one that cannot be read, or that is not trusted.
        """

    @abc.abstractmethod
    def drop_computed_again(self, plan: Plan, step: int | None) -> None:
        """Before a run goes on: drop what it computes again from the curve and from the code's own files."""

    # ------------------------------------------------------------------------------------------------- read

    @abc.abstractmethod
    def resolved(self, plan: Plan) -> dict[str, Any]:
        """Every setting, flat, as the code resolved it; empty if it did not get so far."""

    @abc.abstractmethod
    def evaluations(self, plan: Plan, earlier: Sequence[Evaluation], progress: Progress, log: Log) -> list[Evaluation]:
        """Those of the run so far. earlier: of the starts before."""

    def details(self, plan: Plan, kept: RunRecord) -> dict[str, Any]:
        """What its part of the record says once the run has ended."""
        return dict(kept.details)

    @abc.abstractmethod
    def explained(self, plan: Plan, exit_code: int, progress: Progress, log: Log) -> RunFailed:
        """Why a run failed, as far as its events and its log tell."""


def adapter_of(upstream: str) -> Adapter:
    """The adapter of an upstream. UserError if what it needs is not installed."""
    try:
        module = importlib.import_module(ADAPTERS[upstream])
    except ImportError as error:
        if isinstance(error, UserError):
            raise
        raise UserError(
            f"{upstream} cannot be run here: {error}.",
            "pip install 'tdmpc2_lean[dreamer]', which brings what both agents need",
        ) from None
    return module.ADAPTER


def is_available(upstream: str) -> bool:
    """Whether all that the upstream's runs need is installed."""
    try:
        adapter_of(upstream)
    except UserError:
        return False
    return True
