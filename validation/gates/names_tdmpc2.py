"""Where commits of TD-MPC2 have the same thing under other names, or in another form.

The gates look at agents, buffers and environments of every official commit, and of forks of them. What those of
September 2024 and later have, earlier ones have too, otherwise: the planner is `plan` and is given a latent state, the
policy returns a tuple, targets are modules, settings are OmegaConf's. Here, and nowhere else, is written which; what a
checkout has in no form at all is None, or `Lacking` where a case cannot do without.

For processes of gates, on a checkout's code.
"""

from collections.abc import Mapping

TIMES = ("elapsed_time", "total_time", "steps_per_second")  # metrics that no two runs share
WARM_START = "_prev_mean"


def settings_of(cfg) -> dict:
    """Key -> value of a parsed configuration, which is a dataclass, or OmegaConf's; `???` stands for no value."""
    from omegaconf import DictConfig, OmegaConf

    return OmegaConf.to_container(cfg) if isinstance(cfg, DictConfig) else dict(vars(cfg))


def without_wandb(keys) -> dict:
    """The setting by which W&B is off."""
    return {"disable_wandb": True} if "disable_wandb" in keys else {"enable_wandb": False}


def is_episodic(cfg) -> bool:
    """Whether the agent is to expect terminations, of which early commits know nothing."""
    return bool(cfg.get("episodic", False))


def targets_of(model) -> Mapping:
    """Name -> tensor of the target networks where the model's state dict does not have them as such; else {}."""
    params = getattr(model, "_target_Qs_params", None)
    return {} if params is None else dict(sorted(params.flatten_keys(".").items()))


def target_tensors(model) -> list:
    """The tensors of the target networks."""
    params = getattr(model, "_target_Qs_params", None)
    return list(model._target_Qs.parameters()) if params is None else list(params.values(True, True))


def warm_start(agent):
    """The mean of the latest plan, from which the next one starts; None before there is any."""
    return getattr(agent, WARM_START, None)


def planner_of(agent):
    """(name, function) of planning for one observation: obs (1, …), t0, eval_mode -> action (A,)."""
    if hasattr(agent, "_plan"):
        return "_plan", agent._plan

    def plan(obs, t0=False, eval_mode=False, task=None):
        return agent.plan(agent.model.encode(obs, task), t0=t0, eval_mode=eval_mode, task=task)

    return "plan", plan


def drawn(model, z, task):
    """(action, what else the policy says of it by name)."""
    found = model.pi(z, task)
    if len(found) == 2:
        return found
    mean, action, log_prob, log_std = found
    return action, {"mean": mean, "log_prob": log_prob, "log_std": log_std}


def set_scale(agent, value: float) -> None:
    """Puts the running scale where a gate wants it."""
    scale = agent.scale
    (scale._value if hasattr(scale, "_value") else scale.value).fill_(value)


def batch(result) -> dict:
    """What `buffer.sample` returned, by name; early commits know no terminations. The task is left out if None."""
    names = ["obs", "action", "reward", "terminated", "task"]
    if len(result) == 4:
        names.remove("terminated")
    return {name: value for name, value in zip(names, result, strict=True) if value is not None}


def shorten_episodes(env, length: int) -> None:
    """Makes the episodes of an environment end after so many agent steps."""
    layer = env
    while True:
        for name in ("_max_episode_steps", "max_episode_steps"):
            if name in vars(layer):
                setattr(layer, name, length)
                return
        layer = layer.env
