"""Words of `dreamer-bridge evaluate` become a plan: code and settings come from the run that made the checkpoint.

The official script is eval_only: the agent acts as `mode='eval'` has it, on its own, until enough episodes have ended;
the official code would go on. One environment acts, so that the episodes are those of its seed in order, and short ones
are not preferred.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dreamer_bridge import checkpoints, checks, config
from dreamer_bridge.layers import Layers
from dreamer_bridge.plan import DreamerPlanner, whole_number
from tdmpc2_lean import versions
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import record
from tdmpc2_lean.runs.plan import EVALUATE, TRAIN, Request
from tdmpc2_lean.runs.presets import Shelf
from tdmpc2_lean.runs.record import LoadedCheckpoint, RunRecord
from tdmpc2_lean.runs.specification import Specification

# Words that `evaluate` takes for itself, besides the official keys.
EVALUATION_WORDS = (
    "checkpoint", "episodes", "task", "size", "seed", "lean", "upstream", "patches", "threads", "exp_name", "overwrite",
)  # fmt: skip
EPISODES = 10
LONGEST_EPISODE = 10_000  # agent steps; an evaluation whose episodes do not end comes to its end
# Whose versions decide what an evaluation computes.
OF_THE_COMPUTATION = ("python", *versions.DREAMERV3)
# What the script eval_only is given. It counts seconds between two logs, of which there is one, at its end.
OF_EVALUATIONS = {
    "script": "eval_only", "run.envs": 1, "run.debug": True, "run.log_every": -1, "run.resume_exact": False,
}  # fmt: skip
# Of a training run's settings, those that say nothing about its agent and environment.
NOT_INHERITED = (
    "logdir", "task", "seed", "script", "configs", "replica", "replicas", "jax.profiler", "logger.outputs",
    "run.steps", "run.envs", "run.eval_envs", "run.debug", "run.log_every", "run.report_every", "run.save_every",
    "run.from_checkpoint", "run.from_checkpoint_regex", "run.resume_exact", "run.save_on_exit", "run.clock",
)  # fmt: skip


class DreamerEvaluationPlanner(DreamerPlanner):
    """An evaluation's plan."""

    kind = EVALUATE
    own_words = EVALUATION_WORDS

    def __init__(self, request: Request, shelf: Shelf):
        super().__init__(request, shelf)
        written = self.words.own.get("checkpoint")
        if not written:
            raise UserError("which checkpoint?", "add checkpoint=FOLDER, such as logs/dmc_cheetah_run/1/paper")
        self.checkpoint = checkpoints.find(written, self.cwd)
        self.episodes = whole_number(self.words.own.get("episodes", str(EPISODES)), "episodes", 1)
        self.training_run = run_of(self.checkpoint)
        if self.training_run is not None:
            self.compare_versions(self.training_run)

    def compare_versions(self, run: RunRecord) -> None:
        then = {name: version for name, version in run.provenance.versions.items() if name in OF_THE_COMPUTATION}
        if others := versions.changed(then, versions.versions()):
            self.notes.append(
                f"the run was made with other versions than are installed: {'; '.join(others)}; its returns may differ"
            )

    # ------------------------------------------------------------------------------------ what is asked for

    def chosen_seed(self) -> int:
        if "seed" in self.words.own or self.training_run is None:
            return super().chosen_seed()
        return self.training_run.specification.seed

    def chosen_task(self) -> str:
        if "task" in self.words.own:
            return super().chosen_task()
        if self.training_run is None:
            raise UserError(
                f"{self.checkpoint} is in no folder of a run, so its task is not known.",
                "add task=, and size= or what else its agent was made with",
            )
        return self.training_run.specification.task

    def default_presets(self) -> tuple[str, ...]:
        return ()

    def chosen_code(self) -> str | None:
        where = super().chosen_code()
        if where or self.training_run is None:
            return where
        code = self.training_run.code
        if code.get("local_changes"):
            self.notes.append("the run's code had local changes, which this evaluation does not have")
        return "release" if code.get("release") else code.get("commit")

    def find_code(self) -> None:
        super().find_code()
        run = self.training_run
        if run is not None and run.code.get("patched_tree") not in (None, self.patched.tree):
            self.notes.append("the code with its patches is another than the run's, so returns may differ")

    def patch_names(self) -> list[str] | None:
        """The run's own patches, unless the user names others."""
        if "patches" in self.words.own or self.training_run is None:
            return super().patch_names()
        return [patch["name"] for patch in self.training_run.code.get("patches") or ()]

    def configs(self, size: str | None) -> tuple[str, ...]:
        """The run's own, and what the user adds."""
        if self.training_run is None:
            return super().configs(size)
        of_run = self.training_run.details.get("configs") or super().configs(None)
        return (*of_run, *([str(size)] if size else []), *self.more_configs)

    def chosen_chunk(self, default: Any) -> int:
        return self.training_run.specification.chunk if self.training_run else super().chosen_chunk(default)

    def settings_of_the_run(self) -> dict[str, Any]:
        """Every setting of the run that is about its agent and environment, and that the official configs do not give.

        An official config that the user adds, such as size=, must win, so what it sets is left to it.
        """
        if self.training_run is None:
            return {}
        of_run = self.training_run.details.get("configs") or super().configs(None)
        base = config.flat(config.resolved(self.document, of_run, []))
        size = self.words.own.get("size")
        of_users = self.keys_of([*([size] if size else []), *self.more_configs])
        return {
            key: value
            for key, value in self.training_run.configured.items()
            if key in base and key not in NOT_INHERITED and value != base[key] and key not in of_users
        }

    def keys_of(self, configs: Sequence[str]) -> set[str]:
        """The settings that official configs name, some of them by a pattern."""
        written = [key for name in configs for key in config.flat(self.document.get(name, {}))]
        return {known for known in self.known for key in written if config.means(key, known)}

    def bridge_settings(self, layers: Layers) -> tuple[dict[str, Any], list[str]]:
        ours, lacking = super().bridge_settings(layers)
        of_script = OF_EVALUATIONS | {
            "run.steps": self.episodes * LONGEST_EPISODE,
            "run.from_checkpoint": str(self.checkpoint),
        }
        return ours | {key: value for key, value in of_script.items() if key in self.known}, lacking

    def with_arm(self, layers: Layers) -> Layers:
        self.check_types(layers)
        return layers  # no loss is computed

    # ------------------------------------------------------------------------------------- what is resolved

    def folders(self, layers: Layers) -> tuple[Path, Path]:
        folder, code_folder = super().folders(layers)
        if "exp_name" in self.words.own or self.request.folder:
            return folder, code_folder
        numbered = (folder.with_name(f"evaluation-{number}") for number in itertools.count(1))
        free = next(path for path in numbered if not path.exists())
        return free, free

    def experiment(self, given: Mapping[str, str]) -> str:
        return "evaluation-0"

    def say_obstacles(self, obstacles: Sequence[str]) -> None:
        """An evaluation is never resumed."""

    def check(self, layers: Layers, found: Mapping[str, Any]) -> None:
        checks.decided(
            found,
            {**self.decided(), "seed": self.seed, "script": "eval_only", "run.from_checkpoint": str(self.checkpoint)},
        )
        if found["run"]["envs"] != 1:
            raise UserError(
                f"run.envs={found['run']['envs']}: of several environments the short episodes end first, and would "
                "count more.",
                "leave run.envs away: an evaluation has one environment",
            )
        self.check_ranges(layers, found)

    def checkpoint_record(self, found: Mapping[str, Any]) -> LoadedCheckpoint:
        return checkpoints.loaded(self.checkpoint, self.request.trust_checkpoint)

    # ------------------------------------------------------------------------------------- what the plan says

    def arm_name(self) -> str:
        return self.training_run.specification.arm if self.training_run else super().arm_name()

    def launch(self, layers, found, chosen) -> dict[str, Any]:
        return super().launch(layers, found, chosen) | {"episodes": self.episodes}

    def details(self, layers, found, environment, flags) -> dict[str, Any]:
        of_any = super().details(layers, found, environment, flags)
        return of_any | {"checkpoint_step": checkpoints.state_of(self.checkpoint).get("agent_steps")}

    def rows_of_its_kind(self, what: Specification, found: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        step = checkpoints.state_of(self.checkpoint).get("agent_steps")
        trained = "" if step is None else f", of agent step {step:,}"
        whose = "" if self.training_run is None else "; settings of the run that made it"
        return (("checkpoint", f"{self.checkpoint}{trained}{whose}"), ("episodes", str(self.episodes)))


def run_of(checkpoint: Path) -> RunRecord | None:
    """The record of the training run in whose folder a checkpoint lies, if it is one of ours.

    A run of a protocol has the official code's files in a folder of their own, below the run's.
    """
    for folder in list(checkpoint.parents)[1:3]:
        if (folder / record.FILE).is_file():
            found = record.read(folder)
            of_ours = found.kind == TRAIN and found.specification.upstream == "dreamerv3"
            return found if of_ours else None
    return None
