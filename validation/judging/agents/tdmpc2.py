"""TD-MPC2 before the judge: its points are evaluations."""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tdmpc2_lean import places
from tdmpc2_lean.references.tasks import Task
from tdmpc2_lean.validation.judging.agents.agent import FLOAT, JudgedAgent
from tdmpc2_lean.validation.judging.configuration import stated
from tdmpc2_lean.validation.judging.entry import ACTION_REPEAT, EPISODE, SMOKE, Protocol
from tdmpc2_lean.validation.judging.window import Window

BUDGET = 4_000_000
LONG_BUDGET = 14_000_000
# The published dog curves reach 14M too; the protocol runs and judges dogs at 4M, like against like.
LONG_DOMAINS = ("humanoid",)

# What the code resolves from the environment, which is known for dm_control alone, and from other settings. A record
# has them once its run has ended; where it has, they are compared.
OF_ENVIRONMENT = ("action_dim", "obs_shape.state")
RESOLVED = (*OF_ENVIRONMENT, "bin_size", "episode_length", "multitask", "seed_steps", "tasks")

SPARE_UPDATES = 2  # how many more or fewer it may have made where its line is written

# The official code, model_size 5, one GPU, cheetah-run, measured by others: presets/default.yaml.
STEPS_PER_SECOND = 36.0
# The share of that time in which actions are planned, measured by others there: evaluation plans and does no more.
PLANNING = 0.35


class JudgedTdmpc2(JudgedAgent):
    """See `JudgedAgent`."""

    name = "tdmpc2"
    baselines = ("tdmpc2_dmc_vs_dreamerv3", "tdmpc2_dmc_vs_sac", "tdmpc2_dmc_vs_tdmpc")
    seeds = (1, 2, 3)
    every = 100_000
    episodes = 10
    is_shared = True
    has_variants = True
    presets = places.presets_dir()
    parameters = 5_000_000
    where_and_how = (
        "checkpoint",  # training does not read it
        "checkpoint_mid_episode", "checkpoint_minutes", "compile", "data_dir", "device", "enable_wandb", "exp_name",
        "save_agent", "save_agent_every_eval", "save_csv", "save_video", "save_video_files",
        "task_dim", "task_title",  # computed, for sets of tasks and for people
        "wandb_entity", "wandb_project", "wandb_silent", "work_dir",
    )  # fmt: skip
    not_read = ("num_channels",)

    def budget(self, task: Task) -> int:
        return LONG_BUDGET if task.domain in LONG_DOMAINS else BUDGET

    def windows(self, task: Task) -> tuple[Window, Window]:
        end = self.budget(task)
        return Window("early", 500_000, 1_000_000), Window("late", end - 1_000_000, end)

    def given(self, task: str, agent_steps: int, chunk: int) -> dict[str, Any]:
        return {
            "task": task,
            "model_size": 5,
            "steps": agent_steps,
            "eval_freq": chunk,
            "eval_episodes": self.episodes,
            "utd": 1,
            "separate_eval": True,
        }

    def smoke(self) -> Protocol:
        """A minute or so on one CPU core: three chunks of one episode each on cartpole-balance."""
        settings = {
            "task": "cartpole-balance",
            "steps": 3 * EPISODE,
            "eval_freq": EPISODE,
            "eval_episodes": 1,
            "utd": 0.2,
            "separate_eval": True,
            "seed_steps": EPISODE,
            "pretrain_updates": 50,
            "batch_size": 32,
            "iterations": 2,
            "num_samples": 64,
            "num_elites": 8,
            "num_pi_trajs": 8,
            "enc_dim": 32,
            "mlp_dim": 32,
            "latent_dim": 32,
            "num_q": 2,
        }
        return Protocol(
            name=f"{self.name}-{SMOKE}",
            agent=self.name,
            task=SMOKE,  # no reference's, so that no criterion can take it for a run of its own
            physics="dm_control",
            environment="cartpole/balance",
            env_steps=3 * EPISODE * ACTION_REPEAT,
            chunk=EPISODE,
            episodes=1,
            seeds=(1,),
            settings=settings,
            judged=False,
        )

    def expected(self, entry: Protocol, given: Mapping[str, Any], on_cpu: bool) -> dict[str, Any]:
        return self.resolved(str(entry.settings["task"]), entry.physics, given)

    def resolved(self, task: str, physics: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Every deciding setting of a run but its seed, as the code resolves it. task: the official name.

        given: what protocol and presets set. A model size wins over what it sets, as in the official code.
        """
        known = stated(self.name)
        found = {**known["defaults"], **known["patches"], **given, "task": task}
        size = found.get("model_size")
        if size is not None:
            found |= known["model_size"][str(size)]
        found.setdefault("seed_steps", 5 * 500)  # five episodes; set by the environment if nobody gives it
        found |= {
            "multitask": False,
            "tasks": [task],
            "episode_length": 500,
            "bin_size": (found["vmax"] - found["vmin"]) / (found["num_bins"] - 1),
        }
        if physics == "dm_control":
            observation, action = known["shapes"][task]
            found |= {"obs_shape.state": [observation], "action_dim": action}
        return self.deciding(found)

    def names_of_task(self, entry: Protocol) -> set[str]:
        return {entry.task, str(entry.settings["task"])}

    def compared(
        self, entry: Protocol, due: Mapping[str, Any], found: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        due, found = dict(due), dict(found)
        for key in RESOLVED:
            if key not in found and key not in entry.settings:
                due.pop(key, None)
            elif key not in due:  # of an environment whose shapes are not known
                found.pop(key)
        return due, found

    def updates_by(self, settings: Mapping[str, Any], agent_steps: int) -> tuple[int, int]:
        """It evaluates between two steps: it has updated after each step but the one to come, `utd` times, and at the
        end of seeding as often as it has steps, or `pretrain_updates`."""
        seeding, pretraining = int(settings["seed_steps"]), settings["pretrain_updates"]
        if agent_steps <= seeding:
            return 0, 0
        beyond = Fraction(str(settings["utd"])) * (agent_steps - 1 - seeding)
        due = (seeding if pretraining is None else int(pretraining)) + math.floor(beyond)
        return max(0, due - SPARE_UPDATES), due + SPARE_UPDATES

    def step_bytes(self, settings: Mapping[str, Any], observation: int, action: int) -> int:
        """Its observation, action, reward and terminated, and the episode's number in 64 bits."""
        return FLOAT * (observation + action + 2) + 8

    def steps_in_replay(self, settings: Mapping[str, Any], agent_steps: int) -> int:
        """One an episode is a reset."""
        with_resets = agent_steps + agent_steps // EPISODE
        return min(int(settings["buffer_size"]), int(settings["steps"]), with_resets)

    def gpu_hours(self, entry: Protocol) -> float | None:
        evaluated = entry.chunks * entry.episodes * EPISODE
        return (entry.agent_steps + PLANNING * evaluated) / STEPS_PER_SECOND / 3600


TDMPC2 = JudgedTdmpc2()
