"""DreamerV3 before the judge: its points are means over the training episodes of a chunk."""

import math
from collections.abc import Mapping
from typing import Any

from tdmpc2_lean import places
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.references.tasks import Task
from tdmpc2_lean.validation.judging.agents.agent import FLOAT, JudgedAgent
from tdmpc2_lean.validation.judging.configuration import FOLDER, stated
from tdmpc2_lean.validation.judging.entry import ACTION_REPEAT, EPISODE, EPISODE_ENV_STEPS, SMOKE, Protocol
from tdmpc2_lean.validation.judging.window import Window

BUDGET = 500_000

# What the bridge sets in every run, and why: see dreamer_bridge/settings.py.
BRIDGE: Mapping[str, Any] = {
    "env.dmc.image": False,
    "env.dmc.use_seed": True,
    "jax.prefetch": False,
    "replay.separate_report": True,
    "run.clock": "steps",
    "run.resume_exact": True,
}
# On a CPU, which has no fast bfloat16, the bridge sets the first; elsewhere the official second stands.
ON_CPU: Mapping[str, Any] = {"jax.compute_dtype": "float32"}


class JudgedDreamerV3(JudgedAgent):
    """See `JudgedAgent`."""

    name = "dreamerv3"
    baselines = ("dreamerv3_dmc_proprio_vs_ppo",)
    seeds = (0, 1, 2, 3, 4)
    every = 20_000  # two of the reference's bins; each has 16 episodes or 32
    episodes = 0
    is_shared = False
    has_variants = False
    presets = places.bridge_dir() / "presets"
    parameters = 12_000_000
    where_and_how = (
        "clock_addr", "clock_port", "env.dmc.log_image", "errfile", "ipv6", "jax.coordinator_address", "jax.platform",
        "jax.prealloc", "jax.profiler", "logdir", "logger.", "method", "run.actor_addr", "run.log_every",
        "run.logger_addr", "run.replay_addr", "run.save_every", "run.save_on_exit", "run.usage.",
    )  # fmt: skip
    # Of other suites, of pictures that no agent sees, of scripts that are not run, and of reports, which draw batches
    # of their own (replay.separate_report).
    not_read = (
        "env.atari.", "env.atari100k.", "env.crafter.", "env.dmlab.", "env.loconav.", "env.minecraft.", "env.procgen.",
        "env.dmc.camera", "env.dmc.size", "run.actor_batch", "run.actor_threads", "run.eval_envs", "run.eval_eps",
        "run.remote_envs", "run.remote_replay", "run.report_batches", "run.report_every",
    )  # fmt: skip
    words = {
        "envs": "run.envs", "action_repeat": "env.dmc.repeat", "train_ratio": "run.train_ratio", "size": "size",
    }  # fmt: skip

    def budget(self, task: Task) -> int:
        return BUDGET

    def windows(self, task: Task) -> tuple[Window, Window]:
        return Window("early", 200_000, 300_000), Window("late", 400_000, self.budget(task))

    def given(self, task: str, agent_steps: int, chunk: int) -> dict[str, Any]:
        return {"size": "size12m", "envs": 16, "action_repeat": ACTION_REPEAT, "train_ratio": 512}

    def smoke(self) -> Protocol:
        """A minute or two on one CPU core: three chunks of two episodes each on cartpole-balance."""
        repeat, steps = 4, EPISODE
        return Protocol(
            name=f"{self.name}-{SMOKE}",
            agent=self.name,
            task=SMOKE,
            physics="dm_control",
            environment="cartpole/balance",
            env_steps=3 * steps * repeat,
            chunk=steps,
            episodes=0,
            seeds=(0,),
            settings={
                "size": "size1m",
                "envs": 1,
                "action_repeat": repeat,
                "train_ratio": 16,
                "batch_size": 4,
                "batch_length": 16,
                "replay.size": 1e5,
                "agent.report": False,
                "run.report_every": 0,
            },
            action_repeat=repeat,
            judged=False,
        )

    def expected(self, entry: Protocol, given: Mapping[str, Any], on_cpu: bool) -> dict[str, Any]:
        given = {**given, **(ON_CPU if on_cpu else {})}
        found = self.resolved(entry.environment, given) | {"run.steps": entry.agent_steps}
        # What the protocol gives is compared even if it does not decide, such as how often a smoke run reports.
        return found | {self.words.get(key, key): value for key, value in given.items() if key != "size"}

    def resolved(self, environment: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Every deciding setting of a run but its seed.

        environment: `domain/task` of dm_control; of another physics the task's official name is not known.
        given: what the protocol sets, in official names but for `words`.
        """
        known = stated(self.name)
        given = dict(given)
        size = given.pop("size", "size1m")
        if size not in known["sizes"]:
            raise UserError(f"The settings of {size!r} are not stated.", f"add them to {FOLDER / 'dreamerv3.json'}")
        named = {self.words.get(key, key): value for key, value in given.items()}
        found = {**known["defaults"], **known["patches"], **known["dmc_proprio"], **known["sizes"][size], **BRIDGE}
        found |= named
        found.pop("task")
        if "/" in environment:
            found["task"] = official_task(environment)
        return self.deciding(found)

    def names_of_task(self, entry: Protocol) -> set[str]:
        return {entry.task} | ({official_task(entry.environment)} if "/" in entry.environment else set())

    def compared(
        self, entry: Protocol, due: Mapping[str, Any], found: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """A protocol's own words, where a record has them, are compared too."""
        return {**due, **{word: entry.settings.get(word) for word in self.words if word in found}}, dict(found)

    def updates_by(self, settings: Mapping[str, Any], agent_steps: int) -> tuple[int, int]:
        """It makes train_ratio / (batch_size * batch_length) updates a step, from when its replay holds a batch."""
        envs, batch, length = (int(settings[key]) for key in ("run.envs", "batch_size", "batch_length"))
        ratio = float(settings["run.train_ratio"]) / (batch * length)
        # Sequences for a batch, and in each environment's stream one more that is not whole yet.
        until_a_batch = batch * length + envs * (length + int(settings["replay_context"]) + 1)
        most = math.ceil(ratio * (agent_steps + 2 * envs)) + 1
        return max(0, math.floor(ratio * (agent_steps - until_a_batch))), most

    def environments(self, settings: Mapping[str, Any]) -> int:
        return int(settings["run.envs"])

    def episodes_by(self, settings: Mapping[str, Any], agent_steps: int, action_repeat: int) -> int:
        """Its environments take turns, and each counts the observation of a reset as a step: at action repeat 2 an
        episode is 501 of them."""
        envs = self.environments(settings)
        rounds, rest = divmod(agent_steps, envs)
        return sum((rounds + (env < rest)) // (EPISODE_ENV_STEPS // action_repeat + 1) for env in range(envs))

    def step_bytes(self, settings: Mapping[str, Any], observation: int, action: int) -> int:
        """Its observation, action, reward and flags, and its latent state."""
        latent = int(settings["agent.dyn.rssm.deter"])
        latent += int(settings["agent.dyn.rssm.stoch"]) * int(settings["agent.dyn.rssm.classes"])
        # reward; is_first, is_last, is_terminal; consec in 32 bits; stepid of 20 bytes
        return FLOAT * (observation + action + 1 + latent) + 3 + 4 + 20

    def steps_in_replay(self, settings: Mapping[str, Any], agent_steps: int) -> int:
        """Resets count as steps."""
        return min(int(float(settings["replay.size"])), agent_steps)


def official_task(environment: str) -> str:
    """What the official code calls dm_control's `domain/task`."""
    from tdmpc2_lean.environments.names import TaskName

    domain, _, task = environment.partition("/")
    return str(TaskName(domain, task).spelled("dreamerv3"))


DREAMERV3 = JudgedDreamerV3()
