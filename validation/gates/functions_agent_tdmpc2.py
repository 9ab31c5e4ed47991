"""Cases of the gate `functions` on the agent: planning, updates, targets, saving (see `functions_tdmpc2`)."""

import inspect
from pathlib import Path

from tdmpc2_lean.validation.gates import names_tdmpc2
from tdmpc2_lean.validation.gates.cases import Case, Lacking, seeded
from tdmpc2_lean.validation.gates.functions_tdmpc2 import (
    PIXELS,
    make_agent,
    observations,
    record_learned,
    tasks_of,
)
from tdmpc2_lean.validation.gates.subjects import read_config

TRUE_SIZE = {"mlp_dim": 512, "enc_dim": 256, "latent_dim": 512, "num_samples": 512, "num_elites": 64}
TRUE_SIZE |= {"num_pi_trajs": 24, "batch_size": 256}
# Every setting of planning and learning at another value than its default, so that none can be written into code.
OTHER = {
    "horizon": 4, "iterations": 3, "temperature": 2.0, "min_std": 0.2, "max_std": 0.7, "num_elites": 5, "rho": 0.8,
    "tau": 0.2, "consistency_coef": 3.0, "reward_coef": 0.7, "value_coef": 0.4, "termination_coef": 2.5, "lr": 0.01,
    "enc_lr_scale": 0.6, "grad_clip_norm": 3.0, "discount_denom": 2, "discount_min": 0.3, "discount_max": 0.999,
    "log_std_min": -5, "log_std_max": 1, "entropy_coef": 0.3, "num_bins": 21, "vmin": -4, "vmax": 6, "num_q": 3,
    "dropout": 0.3, "simnorm_dim": 4, "num_enc_layers": 3, "episodic": True,
}  # fmt: skip
# Losses so large that the model's gradient is far above the default clipping norm, 20
LOUD = {"consistency_coef": 20_000, "reward_coef": 100, "value_coef": 100}
# Overrides, and dimensions of the action
PLANS = {
    "state": ({}, 6),
    "no-policy-trajectories": ({"num_pi_trajs": 0}, 6),
    "no-mpc": ({"mpc": False}, 6),
    "episodic": ({"episodic": True}, 6),
    "one-action": ({}, 1),
    "19-actions": ({}, 19),
    "20-actions": ({}, 20),
    "38-actions": ({}, 38),
    "denominator-1": ({"discount_denom": 1}, 6),
    "other-settings": (OTHER, 6),
    "true-size": (TRUE_SIZE, 6),
    "mt30": ({"task": "mt30"}, 6),
    "mt30-no-mpc": ({"task": "mt30", "mpc": False}, 6),
    "pixels": (PIXELS, 6),
}
# Overrides, dimensions of the action, spread of the weights, size of the rewards, and the running scale
UPDATES = {
    "state": ({}, 6, 0.1, 1.0, None),
    "above-clipping": (LOUD, 6, 1.2, 1e4, None),
    "low-clipping": ({"grad_clip_norm": 0.01}, 6, 0.1, 1.0, None),
    "beyond-the-bins": ({}, 6, 0.3, 1e6, None),
    "scale-3": ({}, 6, 0.5, 10.0, 3.0),
    "scale-half": ({"tau": 0.5}, 6, 0.5, 10.0, 1.0),
    "denominator-1": ({"discount_denom": 1}, 6, 0.3, 1.0, None),
    "episodic": ({"episodic": True}, 6, 0.3, 1.0, None),
    "one-action": ({}, 1, 0.1, 1.0, None),
    "21-actions": ({}, 21, 0.1, 1.0, None),
    "other-settings": (OTHER, 6, 0.3, 3.0, 2.0),
    "true-size": (TRUE_SIZE, 6, 0.02, 1.0, None),
    "mt30": ({"task": "mt30"}, 6, 0.1, 1.0, None),
    "pixels": (PIXELS, 6, 0.1, 1.0, None),
}
LATE = ("mt30", "pixels")  # after all others: the official encoder remembers the observations of earlier agents


def table(code_dir: Path) -> dict:
    """The cases of this module."""
    found = {"td-targets": lambda case: td_targets(case, code_dir), "saving": lambda case: saving(case, code_dir)}
    found["old-checkpoint"] = lambda case: old_checkpoint(case, code_dir)
    for name, (overrides, action_dim) in PLANS.items():
        found[f"plan-{name}"] = lambda case, o=overrides, a=action_dim: plans(case, code_dir, o, a)
    for name, arguments in UPDATES.items():
        found[f"update-{name}"] = lambda case, given=arguments: updates(case, code_dir, *given)
    return dict(sorted(found.items(), key=lambda pair: any(late in pair[0] for late in LATE)))


def plans(case: Case, code_dir: Path, overrides: dict, action_dim: int) -> None:
    """Values of trajectories; plans that begin an episode and go on, with and without exploration."""
    import torch

    is_large = overrides is TRUE_SIZE
    agent = make_agent(code_dir, known_of(case, overrides, code_dir), action_dim, spread=0.03 if is_large else 0.3)
    cfg, few = agent.cfg, overrides is TRUE_SIZE
    task = torch.tensor([3]) if cfg.multitask else None
    case.record("planner", iterations=cfg.iterations, discount=agent.discount)
    for number in range(1 if few else 3):
        z = agent.model.encode(observations(agent, 1), task).repeat(cfg.num_samples, 1)
        actions = torch.rand(cfg.horizon, cfg.num_samples, cfg.action_dim) * 2 - 1
        case.record(f"value of trajectories {number}", value=agent._estimate_value(z, actions, task))
        case.random_states()
    for eval_mode in (False, True):
        for step in range(1 if few else 5):
            t0, index = step in (0, 3) and not (few and eval_mode), (step if cfg.multitask else None)
            action = agent.act(observations(agent, 1)[0], t0=t0, eval_mode=eval_mode, task=index)
            case.record(f"step {step}, eval {eval_mode}", action=action, warm_start=names_tdmpc2.warm_start(agent))
            case.random_states()
    if few or cfg.multitask:
        return
    if names_tdmpc2.warm_start(agent) is None:
        return
    case.record("arguments left out", action=agent.act(observations(agent, 1)[0]))
    estimate = agent._estimate_value

    def partly_no_number(*arguments, **named):
        value = estimate(*arguments, **named).tanh()
        value[::3] = float("nan")
        return value

    agent._estimate_value = partly_no_number  # as when a model diverges
    action = agent.act(observations(agent, 1)[0], t0=True)
    case.record("with values that are no numbers", action=action, warm_start=names_tdmpc2.warm_start(agent))


def known_of(case: Case, overrides: dict, code_dir: Path) -> dict:
    """Of `OTHER` those settings that the checkout has; the case is told of the others. All else as it is."""
    if overrides is not OTHER:
        return overrides
    known = read_config(code_dir)
    for name in [name for name in overrides if name not in known]:
        case.lack(f"the setting `{name}`")
    return {name: value for name, value in overrides.items() if name in known}


def td_targets(case: Case, code_dir: Path) -> None:
    """Targets with and without terminations, for discounts at both clamps and between."""
    import torch

    for overrides in ({}, {"discount_denom": 1}, {"discount_denom": 100}, {"episodic": True}, {"task": "mt30"}):
        if "episodic" in overrides and "episodic" not in read_config(code_dir):
            case.lack("terminations")
            continue
        if overrides == {"task": "mt30"}:
            import common

            if "mt30" not in common.TASK_SET:
                continue
        agent = make_agent(code_dir, overrides, spread=0.4)
        task = tasks_of(agent, 8)
        next_z = agent.model.encode(observations(agent, 3, 8), task)
        reward = torch.randn(3, 8, 1) * torch.logspace(-2, 5, 8).unsqueeze(-1)
        for terminated in (torch.zeros(3, 8, 1), (torch.rand(3, 8, 1) < 0.4).float(), torch.ones(3, 8, 1)):
            named = {"next_z": next_z, "reward": reward, "terminated": terminated, "task": task}
            asked = inspect.signature(agent._td_target).parameters
            found = agent._td_target(**{name: value for name, value in named.items() if name in asked})
            case.record(f"targets with {overrides}, {int(terminated.sum())} ends", targets=found)
        case.random_states()


class Batches:
    """Stands for a replay buffer: the batches it is given, in order."""

    def __init__(self, batches):
        self.batches = iter(batches)

    def sample(self):
        return next(self.batches)


def batch_for(agent, size: float):
    """obs (H+1, B, …), action (H, B, A), reward (H, B, 1) of about `size`, terminated (H, B, 1), task (B,) or None."""
    import torch

    horizon, rows = agent.cfg.horizon, agent.cfg.batch_size
    action = torch.rand(horizon, rows, agent.cfg.action_dim) * 2 - 1
    reward = size * torch.randn(horizon, rows, 1)
    terminated = (torch.rand(horizon, rows, 1) < 0.3).float() * float(names_tdmpc2.is_episodic(agent.cfg))
    obs = observations(agent, horizon + 1, rows)
    if "episodic" not in names_tdmpc2.settings_of(agent.cfg):  # nor does its buffer give terminations
        return obs, action, reward, tasks_of(agent, rows)
    return obs, action, reward, terminated, tasks_of(agent, rows)


def updates(
    case: Case, code_dir: Path, overrides: dict, action_dim: int, spread: float, size: float, scale: float | None
) -> None:
    """Some updates, with the gradients that each optimiser is given and all state after each."""
    from tdmpc2_lean.validation.gates.trace_tdmpc2 import optimiser_state

    agent = make_agent(code_dir, known_of(case, overrides, code_dir), action_dim, spread)
    if scale is not None:
        names_tdmpc2.set_scale(agent, scale)
    watch_gradients(case, agent)
    count = 1 if overrides in (TRUE_SIZE, PIXELS) else 3
    seeded(1)
    buffer = Batches([batch_for(agent, size) for _ in range(count)])
    for number in range(count):
        info = agent.update(buffer)
        case.record(f"losses {number}", {name: info[name] for name in sorted(info.keys())})
        record_learned(case, agent, f"parameters {number}")
        case.record(f"optimisers {number}", optimiser_state(agent))
        case.record(f"running scale {number}", agent.scale.state_dict())
        case.random_states()
    case.record("modules in training", {name: module.training for name, module in agent.model.named_modules()})
    case.record("left over", {name: p.grad is None for name, p in agent.model.named_parameters()})


def watch_gradients(case: Case, agent) -> None:
    """Records all gradients whenever an optimiser makes a step."""
    for name in ("optim", "pi_optim"):
        optimiser = getattr(agent, name)

        def step(*args, name=name, make=optimiser.step, **kwargs):
            named = [(k, p.grad) for k, p in agent.model.named_parameters()]
            case.record(f"gradients at {name}", {k: "none" if g is None else g for k, g in named})
            return make(*args, **kwargs)

        optimiser.step = step


def contents(thing, name: str = "") -> dict:
    """Every entry of what a file holds, by its path in it: tensors as they are, all else as text."""
    if isinstance(thing, dict):
        found = {}
        for key, value in thing.items():
            found |= contents(value, f"{name}/{key}")
        return found
    return {name: thing}


def saving(case: Case, code_dir: Path) -> None:
    """What a saved agent holds, and what an agent does that loaded it, from a path or from its content."""
    import torch

    for overrides in ({}, {"episodic": True}):
        if overrides and "episodic" not in read_config(code_dir):
            case.lack("terminations")
            continue
        agent = make_agent(code_dir, overrides, spread=0.3)
        agent.save("agent.pt")
        content = torch.load("agent.pt", weights_only=False)
        case.record("saved", contents(content))
        # The paths in a zip file name what torch wrote; the bytes of both sides are judged by the entries above.
        for name, source in (("path", "agent.pt"), ("content", content), ("model alone", content["model"])):
            another = make_agent(code_dir, overrides, spread=0.1, seed=5)
            try:
                another.load(source)
            except KeyError as error:  # early commits take no model alone
                case.record(f"refused: {name}", error=str(error))
                continue
            record_learned(case, another, f"loaded from {name}")
            seeded(2)
            obs = observations(another, 4)
            case.record(f"does, loaded from {name}", {str(i): another.act(o, t0=i == 0) for i, o in enumerate(obs)})
            another.update(Batches([batch_for(another, 1.0)]))
            record_learned(case, another, f"learns, loaded from {name}")


def old_checkpoint(case: Case, code_dir: Path) -> None:
    """A checkpoint of upstream's older kind, in which the ensemble's parameters are numbered, is converted."""
    from common import layers

    (convert,) = case.find(layers, "api_model_conversion")
    if convert is None:
        raise Lacking("a conversion of older checkpoints")
    state = {k: v for k, v in make_agent(code_dir, spread=0.3).model.state_dict().items() if hasattr(v, "dtype")}
    # Newer releases of tensordict leave these out, and upstream's conversion asks for them.
    prefixes = ("_Qs.params.", "_detach_Qs_params.", "_target_Qs_params.")
    target = {f"{prefix}{name}": None for prefix in prefixes for name in ("__batch_size", "__device")} | state
    places, old = ("weight", "bias", "ln.weight", "ln.bias"), {}
    for name, value in state.items():
        for new, before in (("_Qs.params.", "_Qs.params."), ("_target_Qs_params.", "_target_Qs.params.")):
            layer, _, place = name.removeprefix(new).partition(".")
            if name.startswith(new) and place in places:
                old[f"{before}{4 * int(layer) + places.index(place)}"] = value + 1
        if "Qs" not in name and not name.startswith("log_std"):
            old[name] = value + 1
    converted = convert(target, dict(old))
    case.record("converted", contents(converted))
    case.record("a checkpoint of the present kind", same=convert(target, state) is state)
    try:
        convert({k: v for k, v in target.items() if k != "_target_Qs_params.2.bias"}, dict(old))
    except (AssertionError, KeyError) as error:
        case.record("an unknown entry", error=type(error).__name__)
