"""Words of `tdmpc2-lean evaluate` become a plan: code and settings come from the run that made the checkpoint."""

import hashlib
import itertools
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean
from tdmpc2_lean.runs import record
from tdmpc2_lean.runs.adapter import adapter_of
from tdmpc2_lean.runs.plan import EVALUATE, TRAIN, Request
from tdmpc2_lean.runs.presets import Shelf
from tdmpc2_lean.runs.record import Evaluation, LoadedCheckpoint, RunRecord
from tdmpc2_lean.runs.watching import Log
from tdmpc2_lean.runs.words import hydra_word
from tdmpc2_lean.tdmpc2.configuration import official_settings
from tdmpc2_lean.tdmpc2.plan import UPSTREAM, Planner
from tdmpc2_lean.versions import changed, versions

SAFE_LOAD = "safe-load"
# Of a training run's overrides, those that say nothing about its agent and environment.
NOT_FOR_EVALUATION = (
    "exp_name", "checkpoint", "enable_wandb", "save_video", "save_video_files", "checkpoint_minutes",
    "checkpoint_mid_episode",
)  # fmt: skip
RESULT = re.compile(r"^\s*(?P<task>\S+)\s.*R: *(?P<reward>-?[\d.]+|nan)(?:\s+S: *(?P<success>-?[\d.]+|nan))?")


class EvaluationPlanner(Planner):
    """An evaluation's plan: where settings, code and patches come from the run that made the checkpoint."""

    kind = EVALUATE

    def __init__(self, request: Request, shelf: Shelf):
        super().__init__(request, shelf)
        self.trusted = request.trust_checkpoint
        if self.trusted:
            self.command = self.command.replace("evaluate", "evaluate --trust-checkpoint", 1)
        path = self.words.settings().get("checkpoint")
        if not path:
            raise UserError(
                "which checkpoint?", "add checkpoint=PATH, such as logs/cheetah-run/1/fast/models/final.pt"
            )
        self.checkpoint = (self.cwd / Path(path.strip("'\"")).expanduser()).resolve()
        if not self.checkpoint.is_file():
            raise UserError(
                f"there is no checkpoint {self.checkpoint}.{self.others()}", "name another checkpoint="
            )
        if self.checkpoint.stat().st_size == 0:
            raise UserError(f"{self.checkpoint} is no whole checkpoint: it is empty.", "name another checkpoint=")
        self.words = replace(
            self.words,
            hydra=tuple(word for word in self.words.hydra if word.partition("=")[0] != "checkpoint"),
        )
        self.training_run = run_of(self.checkpoint)
        if self.training_run is not None:
            self.inherit(self.training_run)

    def others(self) -> str:
        """A hint at the checkpoints that are in that folder."""
        folder = self.checkpoint.parent
        names = [path.name for path in folder.glob("*.pt")] if folder.is_dir() else []
        return did_you_mean(self.checkpoint.name, names) or (
            f" There: {', '.join(sorted(names))}." if names else ""
        )

    def inherit(self, run: RunRecord) -> None:
        was = run.specification
        if was.upstream != UPSTREAM:
            raise UserError(
                f"{self.checkpoint} lies in the folder of a run of {adapter_of(was.upstream).title}.",
                f"name a checkpoint of TD-MPC2's; {adapter_of(was.upstream).command} is about that run",
            )
        taken = {key: value for key, value in was.overrides.items() if key not in NOT_FOR_EVALUATION}
        self.inherited = {"task": was.task, "seed": was.seed} | taken
        said = [hydra_word(key, value) for key, value in self.inherited.items()]
        self.notes.append("settings taken from the run that made the checkpoint: " + " ".join(said))
        code = run.code
        if not self.words.own.get("upstream"):
            where = "miniature" if code.get("upstream") == "miniature" else code.get("commit")
            if where:
                self.words = replace(self.words, own={**self.words.own, "upstream": where})
            if code.get("local_changes"):
                self.notes.append("the run's code had local changes, which this evaluation does not have")
        others = changed(run.provenance.versions, versions())
        if others:
            self.notes.append(f"the run was made with other versions than are installed: {'; '.join(others)}")

    def default_presets(self) -> tuple[str, ...]:
        return ()

    def patch_names(self) -> list[str] | None:
        names = super().patch_names()
        if not self.trusted:
            return names
        from tdmpc2_lean import patching

        # Only among all that the words stand for can it be missed: `all` holds it too.
        patches = patching.read_series(self.checkout.upstream).closure(names)
        return [patch.name for patch in patches if patch.name != SAFE_LOAD]

    def check_settings(self) -> None:
        super().check_settings()
        known = official_settings(self.patched.code_dir)
        self.inherited = {key: value for key, value in self.inherited.items() if key in known}
        names = [name for name, _ in self.patched.patches]
        if SAFE_LOAD not in names:
            self.notes.append("loading the checkpoint may execute code that it contains")

    def own_defaults(self) -> dict[str, Any]:
        return {"save_video": False, "checkpoint": str(self.checkpoint), "exp_name": "evaluation-0"}

    def code_folder(self, config: Mapping[str, Any]) -> Path:
        folder = super().code_folder(config)
        if "exp_name" in self.words.settings():
            return folder
        return next(
            path
            for path in (folder.with_name(f"evaluation-{number}") for number in itertools.count(1))
            if not path.exists()
        )

    def run_dir(self, folder: Path) -> list[str]:
        return [hydra_word("exp_name", folder.name), *super().run_dir(folder)]

    def checkpoint_record(self) -> LoadedCheckpoint:
        with open(self.checkpoint, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return LoadedCheckpoint(path=str(self.checkpoint), sha256=digest, trusted=self.trusted)


def run_of(checkpoint: Path) -> RunRecord | None:
    """The record of the training run in whose folder the checkpoint lies, if it is one of ours."""
    for folder in (checkpoint.parent.parent, checkpoint.parent):
        if (folder / record.FILE).is_file():
            found = record.read(folder)
            return found if found.kind == TRAIN else None
    return None


def results(log: Log, episodes: int | None) -> list[Evaluation]:
    """What the official evaluation printed: a line for each task."""
    found = []
    for line in log.last:
        match = RESULT.match(line)
        if match:
            success = match["success"]
            found.append(
                Evaluation(
                    task=match["task"],
                    episode_reward=number(match["reward"]),
                    episode_success=None if success is None else number(success),
                    episodes=episodes,
                )
            )
    return found


def number(text: str) -> float | None:
    """A printed number; None for nan."""
    return None if text == "nan" else float(text)
