"""Traced training runs of TD-MPC2: the official trainer on a real dm_control task, recorded from outside.

Runs in a process of its own (see `process`), whose import path holds one checkout's code. Nothing of the checkout is
changed: objects are made by its own constructors in the order of its own train.py, and the calls that matter are
wrapped on the instances.
"""

import dataclasses
import random
from pathlib import Path

from tdmpc2_lean.validation.gates import names_tdmpc2, stand_ins
from tdmpc2_lean.validation.gates.trace import Dumped, TraceRecorder


@dataclasses.dataclass(frozen=True)
class TDMPC2Budget:
    """How much of a run a gate looks at. Small networks and few samples; everything else is the official default.

    steps, seed_steps, eval_freq, buffer_size and episode_length count agent steps. The defaults see random actions
    (0-45), pretraining at step 45, planned actions and one update per step, ends of episodes every 40 steps,
    evaluations at 0, 80 and 120, and a buffer that wraps around in the second episode.
    """

    task: str = "cheetah-run"
    seed: int = 3
    steps: int = 130
    seed_steps: int = 45
    episode_length: int = 40
    eval_freq: int = 60
    eval_episodes: int = 1
    buffer_size: int = 70
    batch_size: int = 16
    mlp_dim: int = 32
    enc_dim: int = 32
    latent_dim: int = 32
    num_samples: int = 48
    num_elites: int = 8
    num_pi_trajs: int = 6

    def overrides(self) -> dict:
        """As configuration keys of the official code."""
        return {k: v for k, v in dataclasses.asdict(self).items() if k not in {"seed_steps", "episode_length"}}

    def stored(self, step: int) -> int:
        """Rows in the replay buffer, if it were unbounded, when `step` agent steps were taken.

        An episode is stored when the step after it begins, with a row more than it has steps.
        """
        return max(0, step - 1) // self.episode_length * (self.episode_length + 1)

    def is_full(self, step: int) -> bool:
        """Whether the replay buffer has begun to overwrite its oldest rows when `step` agent steps were taken."""
        return self.stored(step) > min(self.buffer_size, self.steps)

    def lacks(self) -> list[str]:
        """What of all that the gates on training promise to compare a run of so few steps does not reach."""
        end, length = self.steps + 1, self.episode_length  # the official loop takes a step more than it is told
        evaluated = -(-self.eval_freq // length) * length  # at the end of the episode in which it is due
        reached = {
            "planned actions after seeding": end > self.seed_steps + 1,
            "an evaluation while it trains": end > evaluated,
            "an update from a full replay buffer": self.is_full(end),
        }
        return [what for what, is_reached in reached.items() if not is_reached]


def configuration(code_dir: Path, work_dir: Path, overrides: dict):
    """The checkout's own configuration with overrides, as its own parser makes it of one that Hydra has composed.

    compile, W&B and files other than eval.csv are off; the device is the CPU where the checkout has a setting for it.
    """
    import hydra
    from common import parser
    from omegaconf import MissingMandatoryValue, OmegaConf

    config = OmegaConf.load(code_dir / "config.yaml")
    del config["defaults"]
    off = {"compile": False, "save_agent": False, "save_video": False} | names_tdmpc2.without_wandb(config)
    if "device" in config:
        off["device"] = "cpu"
    hydra.utils.get_original_cwd = lambda: str(work_dir)
    given = OmegaConf.merge(config, off, {k: v for k, v in overrides.items()})
    sizes = parser.MODEL_SIZE
    if isinstance(config.get("model_size"), int) and "model_size" not in overrides:
        # The first commits insist on a model size, and would put its sizes in place of those that are given.
        parser.MODEL_SIZE = {config.model_size: {}}
    try:
        return parser.parse_cfg(given)
    except MissingMandatoryValue:  # until October 2024, of a set of tasks, to be told a model size
        given.model_size, parser.MODEL_SIZE = 5, {5: {}}
        return parser.parse_cfg(given)
    finally:
        parser.MODEL_SIZE = sizes


def make_env(cfg, budget: TDMPC2Budget):
    """The official environment, with the budget's episode length and seeding phase."""
    from envs import make_env as official_make_env

    env = official_make_env(cfg)
    names_tdmpc2.shorten_episodes(env, budget.episode_length)
    cfg.episode_length = budget.episode_length
    cfg.seed_steps = budget.seed_steps
    return env


def train(
    code_dir: Path,
    trace: str,
    budget: dict,
    overrides: dict | None = None,
    seed_actions: bool = True,
    record_evaluations: bool = True,
    dump_at: int | None = None,
) -> dict:
    """Trains within a budget and writes the trace; returns {"events", "updates", "versions"}.

    seed_actions: seed the action space from outside, as official code never does, unless the checkout has seeded it.
    record_evaluations: False records training only, for comparing runs that are evaluated differently.
    """
    from common.buffer import Buffer
    from common.logger import Logger
    from common.seed import set_seed
    from tdmpc2 import TDMPC2
    from trainer import online_trainer

    from tdmpc2_lean.versions import versions

    budget = TDMPC2Budget(**budget)
    cfg = configuration(code_dir, Path.cwd(), budget.overrides() | (overrides or {}))
    recorder = TraceRecorder(Path(trace), {"versions": versions()}, dump_at)
    set_seed(cfg.seed)
    env = make_env(cfg, budget)
    if seed_actions:
        stand_ins.seed_where_unseeded(env, cfg.seed)
    agent, buffer, logger = TDMPC2(cfg), Buffer(cfg), Logger(cfg)
    if hasattr(online_trainer, "make_env"):  # patched: makes environments for evaluation
        online_trainer.make_env = lambda cfg: make_env(cfg, budget)
    trainer = online_trainer.OnlineTrainer(cfg=cfg, env=env, agent=agent, buffer=buffer, logger=logger)
    counts = watch(trainer, recorder, record_evaluations)
    try:
        recorder.record(0, "parameters", learned_state(agent))
        trainer.train()
    except Dumped:
        pass
    recorder.close()
    return {"events": recorder.events, "updates": counts["updates"], "versions": versions()}


def watch(trainer, recorder: TraceRecorder, record_evaluations: bool = True) -> dict:
    """Wraps what the trainer calls so that each result is recorded; returns live counts."""
    agent, env, buffer, logger = trainer.agent, trainer.env, trainer.buffer, trainer.logger
    counts = {"updates": 0, "evaluating": False}

    def record(what, tensors):
        if record_evaluations or not counts["evaluating"]:
            recorder.record(trainer._step, what, tensors)

    def wrap(owner, name, what, contents):
        call = getattr(owner, name)

        def wrapped(*args, **kwargs):
            result = call(*args, **kwargs)
            record(what, contents(result))
            return result

        setattr(owner, name, wrapped)

    wrap(env, "reset", "first observation", lambda obs: {"obs": obs})
    wrap(env, "step", "transition", transition)
    wrap(agent, "act", "planned action", lambda action: {"action": action, "prev_mean": agent._prev_mean})
    sample = buffer.sample
    # Of early commits a generator, which can be looked at once only
    buffer.sample = lambda *args, **kwargs: tuple(sample(*args, **kwargs))
    wrap(buffer, "sample", "batch", names_tdmpc2.batch)

    rand_act = env.rand_act

    def recorded_rand_act():
        action = rand_act()
        # `to_td` also asks for a random action, for its shape only; that draw belongs to the stream all the same.
        record("random action", {"action": action})
        return action

    env.rand_act = recorded_rand_act

    update = agent.update

    def recorded_update(*args, **kwargs):
        info = update(*args, **kwargs)
        counts["updates"] += 1
        record("losses", {name: info[name] for name in sorted(info.keys())})
        record("parameters", learned_state(agent))
        record("optimisers", optimiser_state(agent))
        record("running scale", agent.scale.state_dict())
        record("random states", random_states())
        return info

    agent.update = recorded_update

    evaluate = trainer.eval

    def recorded_eval():
        counts["evaluating"] = True
        try:
            metrics = evaluate()
        finally:
            counts["evaluating"] = False
        if record_evaluations:
            record("evaluation", {name: metrics[name] for name in sorted(metrics)})
        return metrics

    trainer.eval = recorded_eval
    log = logger.log

    def recorded_log(metrics, category="train"):
        kept = {k: v for k, v in sorted(metrics.items()) if k not in names_tdmpc2.TIMES}
        if category != "eval":
            record(f"logged {category}", kept)
        return log(metrics, category)

    logger.log = recorded_log
    return counts


def transition(result) -> dict:
    """What `env.step` returned."""
    obs, reward, done, info = result
    return {"obs": obs, "reward": reward, "done": done, "terminated": info["terminated"], "success": info["success"]}


def learned_state(agent) -> dict:
    """Every parameter and buffer of the model, targets included, by name."""
    state = {k: v for k, v in agent.model.state_dict().items() if hasattr(v, "detach")}
    targets = names_tdmpc2.targets_of(agent.model).items()
    return dict(sorted(state.items())) | {f"target.{k}": v for k, v in targets}


def optimiser_state(agent) -> dict:
    """Steps and moments of both optimisers."""
    state = {}
    for name in ("optim", "pi_optim"):
        for number, slots in sorted(getattr(agent, name).state_dict()["state"].items()):
            state |= {f"{name}.{number}.{slot}": value for slot, value in sorted(slots.items())}
    return state


def random_states() -> dict:
    """States of Torch's, NumPy's and Python's global generators."""
    import numpy as np
    import torch

    numpy_state = np.random.get_state()
    python_state = random.getstate()
    return {
        "torch": torch.get_rng_state(),
        "numpy": numpy_state[1],
        "numpy position": numpy_state[2],
        "python": np.array(python_state[1]),
    }
