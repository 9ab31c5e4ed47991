"""What making a run needs to know of TD-MPC2. `ADAPTER` is what `runs.adapter.adapter_of` gives."""

import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tdmpc2_lean import patching, places
from tdmpc2_lean.environments import rendering
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import curve, making
from tdmpc2_lean.runs.adapter import Adapter
from tdmpc2_lean.runs.plan import EVALUATE, Conditions, FixedRun, Plan, Request
from tdmpc2_lean.runs.presets import Shelf
from tdmpc2_lean.runs.progress import Progress
from tdmpc2_lean.runs.record import Evaluation
from tdmpc2_lean.runs.watching import Log, RunFailed
from tdmpc2_lean.runs.words import hydra_word
from tdmpc2_lean.settings.schema import Schema
from tdmpc2_lean.settings.tdmpc2 import schema

CHILD = "tdmpc2_lean.tdmpc2.child"
CHECKPOINT_FILE = "checkpoint.pt"
CHECKPOINT_MINUTES = 15.0
SMOKE_CHECKPOINT_MINUTES = 0.02
EXPERIMENT = "run"  # the official code's name for a protocol's run; its folder's name says more
# What may differ when a run goes on, besides the settings that do not decide what it computes: its budget, its place.
BUDGET_AND_PLACE = ("steps", "work_dir", "hydra")
FULL_DISK = ("No space left on device", "File too large", "Disk quota exceeded")
GOES_ON = "the same command goes on from the last checkpoint"


class Tdmpc2Adapter(Adapter):
    """See `Adapter`."""

    upstream = "tdmpc2"
    # Its replay is made as large as the budget.
    of_raised_budget = (
        "where the replay had dropped steps before, this is not bit for bit the run that had the budget from the start"
    )

    @property
    def shelf(self) -> Shelf:
        """The lean presets."""
        own, users = places.presets_dir(), places.config_dir() / "presets"
        return Shelf(own, users, "tdmpc2-lean train --list-presets")

    def schema(self) -> Schema:
        return schema(patching.read_series(self.upstream))

    # ------------------------------------------------------------------------------------------- configured

    def plan(self, request: Request) -> Plan:
        from tdmpc2_lean.tdmpc2.evaluation import EvaluationPlanner
        from tdmpc2_lean.tdmpc2.plan import Planner

        planner = EvaluationPlanner if request.kind == EVALUATE else Planner
        return planner(request, self.shelf).plan()

    def words_of(
        self, fixed: FixedRun, seed: int, presets: Sequence[str], preset_settings: Mapping[str, Any],
        conditions: Conditions, folder: Path,
    ) -> list[str]:  # fmt: skip
        if not fixed.judged and presets:
            raise UserError("a smoke run has no lean variants.", "leave --lean away")
        device, compiled = conditions.device, conditions.compile
        if not fixed.judged:
            device, compiled = "cpu", False
        minutes = conditions.checkpoint_minutes
        if minutes is None:
            minutes = CHECKPOINT_MINUTES if fixed.judged else SMOKE_CHECKPOINT_MINUTES
        settings = {key: value for key, value in fixed.settings.items() if key not in preset_settings}
        settings |= {
            "seed": seed,
            "exp_name": EXPERIMENT,
            "enable_wandb": False,
            "save_video": False,
            "checkpoint_minutes": minutes,
            # A run may go on on another machine, whose simulator need not compute the same bits within an episode.
            "checkpoint_mid_episode": not fixed.judged,
        }
        settings |= {key: value for key, value in (("device", device), ("compile", compiled)) if value is not None}
        words = [hydra_word(key, value) for key, value in settings.items()]
        if presets:
            words.append("lean=" + ",".join(presets))
        if conditions.threads is not None:
            words.append(f"threads={conditions.threads}")
        if conditions.upstream is not None:
            words.append(f"upstream={conditions.upstream}")
        return words

    def deciding(self, configured: Mapping[str, Any]) -> dict[str, Any]:
        known = schema(patching.read_series(self.upstream))
        at_will = {setting.name for setting in known if not setting.decides and setting.type != "computed"}
        return {key: value for key, value in configured.items() if key not in {*at_will, *BUDGET_AND_PLACE}}

    # ---------------------------------------------------------------------------------------------- started

    def child(self, plan: Plan, common: Mapping[str, Any]) -> list[str]:
        request = {
            **common,
            "script": plan.launch["script"],
            "words": list(plan.launch["words"]),
            "probe": plan.launch["probe"],
            "stop_within_episode": plan.fixed is None or not plan.fixed.judged,
        }
        return [sys.executable, "-P", "-m", CHILD, making.write_request(plan, request)]

    def progress(self) -> Progress:
        return Progress()

    # ----------------------------------------------------------------------------------------- checkpointed

    def checkpoint_step(self, plan: Plan) -> int | None:
        return checkpoint_step(plan.code_folder / CHECKPOINT_FILE)

    def drop_computed_again(self, plan: Plan, step: int | None) -> None:
        # eval.csv is written anew by the official logger, from what the checkpoint holds of it.
        curve.keep_lines_before(plan.folder / curve.FILE, step or 0)

    # ------------------------------------------------------------------------------------------------- read

    def resolved(self, plan: Plan) -> dict[str, Any]:
        from omegaconf import OmegaConf

        try:
            return OmegaConf.to_container(OmegaConf.load(plan.folder / making.CONFIG))
        except OSError:
            return {}

    def evaluations(self, plan: Plan, earlier: Sequence[Evaluation], progress: Progress, log: Log) -> list[Evaluation]:
        if plan.kind == EVALUATE:
            from tdmpc2_lean.tdmpc2.evaluation import results

            return results(log, plan.configured.get("eval_episodes"))
        from_step = progress.resumed_at or 0
        kept = [one for one in earlier if one.step is not None and one.step < from_step]
        return kept + [Evaluation(**one) for one in progress.evaluations]

    def explained(self, plan: Plan, exit_code: int, progress: Progress, log: Log) -> RunFailed:
        if progress.broken is not None:
            told = rendering.explained(progress.broken["module"], progress.broken["why"], plan.launch["draws"])
            return RunFailed(f"{told.message}\n  log: {log.path}", told.next_step)
        if plan.kind == EVALUATE:
            failure = explained_evaluation(plan, log)
            if failure is not None:
                return failure
        text = log.text
        diverged = next((line for line in reversed(log.last) if line.startswith("FloatingPointError")), "")
        if diverged:
            return RunFailed(
                f"training has diverged: {diverged.partition(': ')[2]}\n  log: {log.path}",
                "the last checkpoint is from before that, and the same settings diverge again: choose others",
            )
        too_large = next((line for line in reversed(log.last) if line.startswith("MemoryError: the replay")), "")
        if too_large:
            return RunFailed(
                f"{too_large.partition(': ')[2]}.\n  log: {log.path}", "a smaller buffer_size=, or a machine with more"
            )
        if any(said in text for said in FULL_DISK):
            return RunFailed(f"the disk is full.\n  log: {log.path}", f"make room; {GOES_ON}")
        if exit_code == -signal.SIGKILL:
            return RunFailed(f"the process was killed, perhaps for want of memory.\n  log: {log.path}", GOES_ON)
        if "another observation than before" in text:
            return RunFailed(
                f"the environment computes other bits here than where the state was saved.\n  log: {log.path}",
                "go on with the run on a machine like that one, or move its folder away to start anew",
            )
        next_step = "read the log; the run's folder stays as it is"
        if "Failed to make environment" in text or "Missing dependencies" in text:
            next_step = "install what the task's suite needs; the official docker/environment.yaml lists it"
        elif "out of memory" in text:
            next_step = "smaller batch_size=, num_samples= or model_size=, or another device="
        shown = log.shown(exit_code)
        return RunFailed(f"the run failed. The end of its log:\n{shown}\n  log: {log.path}", next_step)


def explained_evaluation(plan: Plan, log: Log) -> RunFailed | None:
    """What an evaluation is known to fail of; None if it is none of that."""
    text, path = log.text, plan.checkpoint.path if plan.checkpoint else "the checkpoint"
    if "Weights only load failed" in text:
        return RunFailed(
            f"{path} holds more than tensors; loading it would execute code from it.\n  log: {log.path}",
            "only if you trust where the file comes from: tdmpc2-lean evaluate --trust-checkpoint …",
        )
    if "CheckpointMisfit" in text:
        return RunFailed(
            f"{path} is of another network than the settings make.\n  log: {log.path}",
            "give the network settings it was trained with, such as model_size=5 or lean=smoke, and its task",
        )
    if "EOFError" in text or "PytorchStreamReader" in text or "UnpicklingError" in text:
        return RunFailed(f"{path} is no whole checkpoint.\n  log: {log.path}", "name another checkpoint=")
    return None


def checkpoint_step(path: Path) -> int | None:
    """The agent step at which a saved state goes on; None if there is none. UserError if it cannot be read."""
    if not path.exists():
        return None
    import torch

    try:
        return int(torch.load(path, map_location="cpu", weights_only=True, mmap=True)["step"])
    except Exception as error:
        raise UserError(
            f"{path} cannot be read: {error}", "move the run's folder away to start anew, or bring that file back"
        ) from None


ADAPTER = Tdmpc2Adapter()
