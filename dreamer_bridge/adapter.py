"""What making a run needs to know of DreamerV3. `ADAPTER` is what `tdmpc2_lean.runs.adapter.adapter_of` gives."""

import re
import signal
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dreamer_bridge import OF_THE_EXTRA, checkpoints, config, curve, returns, schema, settings, trust
from dreamer_bridge.progress import DreamerProgress
from tdmpc2_lean import patching, places
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.patched import materialise
from tdmpc2_lean.runs import curve as curves
from tdmpc2_lean.runs import making
from tdmpc2_lean.runs.adapter import Adapter
from tdmpc2_lean.runs.plan import EVALUATE, Conditions, FixedRun, Plan, Request
from tdmpc2_lean.runs.presets import Shelf
from tdmpc2_lean.runs.progress import Progress
from tdmpc2_lean.runs.record import Evaluation, RunRecord
from tdmpc2_lean.runs.watching import Log, RunFailed
from tdmpc2_lean.settings.schema import Schema
from tdmpc2_lean.upstreams import find_checkout

CHILD = "dreamer_bridge.child"
# What JAX says where jax.platform= names an accelerator for which it has no plugin or driver.
NO_ACCELERATOR = ("Unable to initialize backend", "_default_backend is not None", "Unknown backend")
# A protocol's names of settings and the official keys; other settings of a protocol are official keys themselves.
KEYS = {"envs": "run.envs", "action_repeat": "env.dmc.repeat", "train_ratio": "run.train_ratio"}
BUDGET = "run.steps"  # which may be raised when a run goes on
FULL_DISK = ("No space left on device", "Disk quota exceeded", "File too large")
# What the official code says where a checkpoint's parameters do not fit.
ANOTHER_NETWORK = ("assert_trees_all_equal_shapes", "Trees do not have the same structure", "PyTreeDef")
GOES_ON = "the same command goes on from the last checkpoint"


class DreamerAdapter(Adapter):
    """See `Adapter`."""

    upstream = "dreamerv3"
    patience = 120.0  # an interrupted run still writes a checkpoint, with all of its replay

    @property
    def shelf(self) -> Shelf:
        """The lean presets."""
        own, users = Path(__file__).parent / "presets", places.config_dir() / "dreamer-presets"
        return Shelf(own, users, "dreamer-bridge train --list-presets")

    def schema(self) -> Schema:
        """Names and types are in the code's own configuration."""
        patched = materialise(find_checkout(self.upstream), None)
        return schema.schema(config.read(patched.code_dir), patching.read_series(self.upstream))

    # ------------------------------------------------------------------------------------------- configured

    def plan(self, request: Request) -> Plan:
        from dreamer_bridge.evaluation import DreamerEvaluationPlanner
        from dreamer_bridge.plan import DreamerPlanner

        planner = DreamerEvaluationPlanner if request.kind == EVALUATE else DreamerPlanner
        return planner(request, self.shelf).plan()

    def words_of(
        self, fixed: FixedRun, seed: int, presets: Sequence[str], preset_settings: Mapping[str, Any],
        conditions: Conditions, folder: Path,
    ) -> list[str]:  # fmt: skip
        if presets:
            raise UserError(
                "DreamerV3's protocol has no lean variants.", "leave --lean away; dreamer-bridge train has them"
            )
        if conditions.compile is not None or conditions.checkpoint_minutes is not None:
            raise UserError(
                "--compile and --checkpoint-minutes are TD-MPC2's: DreamerV3 is always compiled, and saves every "
                "20,000 agent steps and when it is stopped.",
                "leave them away",
            )
        device = conditions.device if fixed.judged else "cpu"
        if device is None and not settings.has_accelerator():
            raise UserError(
                "no plugin of JAX for an accelerator is installed, and a run is to use one.",
                "run it where there is one; on a CPU it takes weeks: --device cpu. Try: validate run --smoke",
            )
        chosen = dict(fixed.settings)
        words = [f"task={fixed.environment.replace('/', '-')}", f"seed={seed}", f"size={chosen.pop('size')}"]
        words += [f"{KEYS.get(key, key)}={value}" for key, value in chosen.items()]
        words += [f"run.steps={fixed.agent_steps}", f"chunk={fixed.chunk * fixed.action_repeat}"]
        if device is not None:
            words.append(f"jax.platform={device.partition(':')[0]}")
        if conditions.threads is not None:
            words.append(f"threads={conditions.threads}")
        if conditions.upstream is not None:
            words.append(f"upstream={conditions.upstream}")
        return words

    def deciding(self, configured: Mapping[str, Any]) -> dict[str, Any]:
        known = schema.schema({config.DEFAULTS: configured})
        # Another platform rounds otherwise: what goes on there does not end with the bits of a run that never stopped.
        at_will = {each.name for each in known if not each.decides and not each.name.startswith("jax.")}
        return {key: value for key, value in configured.items() if key not in at_will and key != BUDGET}

    # ---------------------------------------------------------------------------------------------- started

    def child(self, plan: Plan, common: Mapping[str, Any]) -> list[str]:
        request = {**common, **plan.launch, "logdir": str(plan.code_folder)}
        return [sys.executable, "-P", "-m", CHILD, making.write_request(plan, request)]

    def progress(self) -> Progress:
        return DreamerProgress()

    # ----------------------------------------------------------------------------------------- checkpointed

    def checkpoint_step(self, plan: Plan) -> int | None:
        checkpoint = checkpoints.latest(plan.code_folder)
        if checkpoint is None:
            return None
        if not plan.launch["trust"]:
            trust.check(checkpoint)
        # The official code saves before its first step too: there is nothing yet to go on with.
        return int(checkpoints.state_of(checkpoint).get("agent_steps", 0)) or None

    def drop_computed_again(self, plan: Plan, step: int | None) -> None:
        """Where the official code resumes exactly, it cuts its own files back itself."""
        checkpoint = checkpoints.latest(plan.code_folder)
        state = checkpoints.state_of(checkpoint) if checkpoint is not None else {}
        chunks = state.get("curve", {}).get("number", 1) - 1
        curve.keep_lines_until(plan.folder / curves.FILE, "chunk", chunks)
        if checkpoint is None or not plan.configured.get("run.resume_exact"):
            steps = (step or 0) * plan.specification.action_repeat
            for name in ("metrics.jsonl", returns.FILE):
                curve.keep_lines_until(plan.code_folder / name, "step", steps)

    # ------------------------------------------------------------------------------------------------- read

    def resolved(self, plan: Plan) -> dict[str, Any]:
        """Every official setting, and those that protocols have names of their own for."""
        found = dict(plan.configured)
        sizes = [name for name in plan.details["configs"] if name.startswith("size")]
        named = {name: found[key] for name, key in KEYS.items() if key in found}
        return found | named | {"size": sizes[-1] if sizes else None}

    def evaluations(self, plan: Plan, earlier: Sequence[Evaluation], progress: Progress, log: Log) -> list[Evaluation]:
        if plan.kind == EVALUATE:
            return evaluation_of(plan, progress.returns)
        lines = curves.lines_of(plan.folder / curves.FILE)
        return [Evaluation(step=one.agent_steps, episode_reward=one.value, episodes=one.episodes) for one in lines]

    def details(self, plan: Plan, kept: RunRecord) -> dict[str, Any]:
        cache = dict(kept.details["compile_cache"])
        return {**kept.details, "compile_cache": cache | {"entries_after": settings.entries(cache["folder"])}}

    def explained(self, plan: Plan, exit_code: int, progress: Progress, log: Log) -> RunFailed:
        text = log.text
        next_step = f"read the log; {GOES_ON}" if plan.kind != EVALUATE else "read the log"
        missing = re.search(r"No module named '([A-Za-z0-9_]+)", text)
        if "trust.Untrusted" in text:
            said = next(line for line in reversed(log.last) if "trust.Untrusted" in line)
            return RunFailed(f"{said.partition(': ')[2]}\n  log: {log.path}", "--trust-checkpoint, only if you do")
        if too_few := re.search(r"TooFewEpisodes: (.*)", text):
            return RunFailed(f"{too_few[1]}\n  log: {log.path}", "name another task=, or fewer episodes=")
        if any(said in text for said in FULL_DISK):
            return RunFailed(f"the disk is full.\n  log: {log.path}", f"make room; {GOES_ON}")
        if plan.kind == EVALUATE and any(said in text for said in ANOTHER_NETWORK):
            return RunFailed(
                f"{plan.checkpoint.path} is of another network than the settings make.\n  log: {log.path}",
                "give the task and what else its agent was made with, such as task= and size=",
            )
        if exit_code == -signal.SIGKILL:
            return RunFailed(f"the process was killed, perhaps for want of memory.\n  log: {log.path}", GOES_ON)
        if missing:
            next_step = what_brings(missing[1])
        elif any(said in text for said in NO_ACCELERATOR):
            next_step = "jax.platform=cpu, or install JAX's plugin for the accelerator"
        elif "RESOURCE_EXHAUSTED" in text or "out of memory" in text.lower():
            next_step = "a smaller size= or batch_size="
        shown = log.shown(exit_code)
        return RunFailed(f"the run failed. The end of its log:\n{shown}\n  log: {log.path}", next_step)


def what_brings(module: str) -> str:
    """What to install where a module is missing."""
    if module in OF_THE_EXTRA:
        return "pip install 'tdmpc2_lean[dreamer]'"
    if module in ("dm_control", "mujoco"):
        return f"pip install {module}"
    return f"install what brings {module}: the task's suite or a setting needs it, and tdmpc2_lean does not bring it"


def evaluation_of(plan: Plan, found: Sequence[float]) -> list[Evaluation]:
    """What an evaluation found; nothing if no episode ended."""
    if not found:
        return []
    return [
        Evaluation(
            task=plan.specification.task,
            step=plan.details["checkpoint_step"],
            episode_reward=statistics.fmean(found),
            episodes=len(found),
            returns=tuple(found),
        )
    ]


ADAPTER = DreamerAdapter()
