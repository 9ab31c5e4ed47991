"""The gate `defaults` of TD-MPC2: what a run starts with where nobody asks for anything else.

The checkout's train.py itself is run, as its users run it, up to the point where the trainer would begin: a stand-in
takes the trainer's place and looks at what the script hands over. Compared are the configuration that the script
ends with, key by key, the discount, the seeding phase, the planner's iterations, masks, the replay buffer's capacity,
the optimisers' groups, every parameter's shape and initial value, the random states, how `torch.compile` is called,
what W&B is told; and the environments themselves: spaces, lengths, transitions, pictures.
"""

import importlib
import importlib.util
import os
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path

from tdmpc2_lean.patching import read_series
from tdmpc2_lean.validation.gates import cases, stand_ins
from tdmpc2_lean.validation.gates.cases import Case, Lacking
from tdmpc2_lean.validation.gates.results import Result
from tdmpc2_lean.validation.gates.subjects import GateSubject

FUNCTION = "tdmpc2_lean.validation.gates.defaults_tdmpc2:resolved"
LENGTHS = (1, 2, 25, 99, 100, 101, 150, 250, 499, 500, 501, 999, 1000, 1005, 5000)  # of episodes, in agent steps
# Settings of a run, as on the command line of train.py, of which each case looks at the result. All else is default.
RUNS = {
    "nothing-given": {},
    "model-size-1": {"task": "cheetah-run", "model_size": 1, "seed": 7},
    "model-size-5": {"task": "walker-walk", "model_size": 5},
    "one-action": {"task": "acrobot-swingup", "model_size": 1, "steps": 4000, "buffer_size": 9000},
    "21-actions": {"task": "humanoid-walk", "model_size": 1, "steps": 9000, "buffer_size": 4000},
    "pixels": {"task": "cup-catch", "obs": "rgb", "model_size": 1},
    "episodic": {"task": "cheetah-run", "episodic": "true", "model_size": 1},
    "no-compile": {"task": "cheetah-run", "model_size": 1, "compile": "false", "enable_wandb": "false"},
}
# Settings with which train.py must not begin; one step is enough to train for.
REFUSED = ({"steps": 0}, {"steps": -3}, {"steps": 1}, {"model_size": 7}, {"task": "nothing-known"}, {"obs": "sound"})
FEW_TASKS = ["walker-walk", "pendulum-spin", "cup-catch"]  # of a set, in the place of all, where only the script counts
VARIABLES = ("TORCH", "LAZY_", "MUJOCO_", "CUDA", "WANDB_")  # beginnings of the names of those that scripts set
BY_TORCH = {"TORCHINDUCTOR_CACHE_DIR"}  # written by torch itself, when it first wants the folder
# What the agent's constructor and the logger change of a configuration that all share. With our patch `own-config`
# the agent has one of its own: there the numbers are compared that count, in the agent's and in the caller's.
CHANGED_BY_AGENT, CHANGED_BY_LOGGER = ("iterations",), ("save_agent", "save_video")
LARGE = (19, 48, 317)  # model sizes of which only shapes are looked at
SETS = {"mt30": (1, 5), "mt80": ()}  # sets of tasks, and the model sizes with which agents for them are made
COVERS = {
    "config.yaml": frozenset({"config.yaml:*"}),
    "tables": frozenset({"common/__init__.py:MODEL_SIZE", "common/__init__.py:TASK_SET"}),
}
ENVIRONMENTS = (
    "cheetah-run", "cup-catch", "cartpole-swingup-sparse", "quadruped-walk", "reacher-three-hard",
    "hopper-hop-backwards", "walker-run-backwards", "cup-spin", "pendulum-spin", "cheetah-jump", "fish-swim", "dog-run",
)  # fmt: skip


def defaults(subject: GateSubject) -> Iterator[Result]:
    """One result per kind of run, per table, and for the environments."""
    yield from cases.judged("defaults", FUNCTION, subject, own_settings=own_settings(subject), covers=COVERS)


def own_settings(subject: GateSubject) -> dict[str, list[str]]:
    """The keys that our patches add, each with the values, written as `repr` does, that it may have by default."""
    found = {}
    for patch in (subject.series or read_series(subject.reference.upstream)).patches:
        for name, setting in patch.settings.items():
            found[name] = [repr(setting.default), repr(str(setting.default))]
    if "device" in found:
        found["device"].append(repr("cpu"))  # on which gates run
    return found


# What follows runs in a process of its own, on the checkout's code.


def resolved(code_dir: Path, names: list[str] | None = None) -> dict:
    """What `cases.recorded` returns of this gate's cases."""
    told = stand_ins.Told()
    stand_ins.wandb_stand_in(told)
    stand_ins.compile_nothing(told)
    stand_ins.draw_from_physics()
    table = {"tables": tables, "config.yaml": lambda case: config_file(case, code_dir)}
    table |= {name: run_of(settings, code_dir, told) for name, settings in RUNS.items()}
    table["few-tasks"] = lambda case: few_tasks(case, code_dir, told)
    table["refused"] = lambda case: refused_runs(case, code_dir, told)
    table |= {f"model-size-{size}": large(size, code_dir) for size in LARGE}
    table["discount"] = lambda case: discounts(case, code_dir)
    for name, sizes in SETS.items():
        table[name] = task_set(name, sizes, code_dir)
    table["environments"] = lambda case: environments(case, code_dir)
    return cases.recorded(stand_ins.each_alone(table), names)


def tables(case: Case) -> None:
    """The tables of model sizes and of sets of tasks, entry by entry."""
    import common

    sizes = {f"{size}.{key}": value for size, row in common.MODEL_SIZE.items() for key, value in row.items()}
    case.record("table of model sizes", sizes)
    sets = {f"{name}.{i}": task for name, tasks in common.TASK_SET.items() for i, task in enumerate(tasks)}
    case.record("table of task sets", sets)


def config_file(case: Case, code_dir: Path) -> None:
    """Every key of config.yaml as Hydra composes it, before the script looks at it."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(str(code_dir.resolve()), version_base="1.1"):
        composed = compose("config")
        case.record("configuration", {k: repr(v) for k, v in OmegaConf.to_container(composed).items()})
        hydra_itself = compose("config", return_hydra_config=True).hydra
        case.record("Hydra's launcher", launcher=str(OmegaConf.to_container(hydra_itself.launcher).get("_target_")))


class Looked(Exception):
    """The trainer's stand-in has seen what it is given; the script need not go on."""


def run_of(settings: Mapping, code_dir: Path, told: stand_ins.Told):
    """The case of train.py with some settings."""

    def case_of(case: Case) -> None:
        started_with(case, settings, code_dir, told)

    return case_of


def started_with(
    case: Case, settings: Mapping, code_dir: Path, told: stand_ins.Told, environment: Mapping | None = None
) -> None:
    """Runs train.py up to its trainer and records what that is given. environment: variables that the script finds."""
    import torch

    if "obs" in settings and "num_channels" not in raw_keys(code_dir):
        raise Lacking("an encoder for pixels")
    flags = torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark
    lines, seen = looked_at(case, {**settings, **on_this_machine(code_dir)}, environment)
    case.record("flags", matmul=torch.get_float32_matmul_precision(), cudnn=torch.backends.cudnn.benchmark)
    torch.set_float32_matmul_precision(flags[0])
    torch.backends.cudnn.benchmark = flags[1]
    case.record("printed", {f"line {i}": line for i, line in enumerate(lines)})
    without(told, CHANGED_BY_AGENT)
    told.into(case)
    (given,) = seen
    case.record("the trainer is given", {name: type(thing).__name__ for name, thing in given.items()})
    record_agent(case, given["agent"])
    buffer = given["buffer"]
    case.record("replay buffer", capacity=buffer.capacity, episodes=buffer.num_eps)
    case.record("configuration", configuration_of(given["cfg"], CHANGED_BY_AGENT))
    env, cfg = given["env"], given["cfg"]
    stand_ins.seed_where_unseeded(env, cfg.seed)
    case.record("random actions", {str(i): env.rand_act() for i in range(3)})
    case.record("first observation", obs=env.reset(0) if cfg.multitask else env.reset())
    case.record("a plan's compilation", plan=getattr(given["agent"].plan, "__name__", ""))
    told.into(case)


def looked_at(case: Case, settings: Mapping, environment: Mapping | None = None) -> tuple[list[str], list[dict]]:
    """What train.py prints up to its trainer, of whichever kind, and what that trainer is given."""
    modules = {f"trainer.{kind}_trainer": f"{kind.title()}Trainer" for kind in ("online", "offline")}
    kinds = [(importlib.import_module(module), name) for module, name in modules.items() if is_there(module)]
    seen = []

    def stand_in(kind):
        class StartLook:
            def __init__(self, **given):
                seen.append(given)
                case.record("trainer", kind=kind)
                case.random_states()

            def train(self):
                found = {k: v for k, v in os.environ.items() if k.startswith(VARIABLES) and k not in BY_TORCH}
                case.record("environment variables", found)

        return StartLook

    before = [getattr(module, name) for module, name in kinds]
    for module, name in kinds:
        setattr(module, name, stand_in(name))
    try:
        lines = stand_ins.run_script("train", settings, {"HYDRA_FULL_ERROR": "1", **(environment or {})})
    finally:
        for (module, name), official in zip(kinds, before, strict=True):
            setattr(module, name, official)
    return lines, seen


def is_there(module: str) -> bool:
    """Whether the checkout has a module; others of its modules may be imported, not this one."""
    return importlib.util.find_spec(module) is not None


def few_tasks(case: Case, code_dir: Path, told: stand_ins.Told) -> None:
    """train.py for a set of tasks that has few of them, with a renderer that its user has chosen."""
    import common

    if "mt30" not in common.TASK_SET:
        raise Lacking("the task set mt30")
    whole = list(common.TASK_SET["mt30"])
    common.TASK_SET["mt30"][:] = FEW_TASKS
    try:
        settings = {"task": "mt30", "model_size": 1, "seed": 3, "steps": 5000}
        started_with(case, settings, code_dir, told, {"MUJOCO_GL": "glfw"})
    finally:
        common.TASK_SET["mt30"][:] = whole


def refused_runs(case: Case, code_dir: Path, told: stand_ins.Told) -> None:
    """Which settings train.py refuses, and by which kind of error."""
    for settings in REFUSED:
        small = {"task": "cheetah-run", "model_size": 1, "compile": "false", "enable_wandb": "false"}
        try:
            _, seen = looked_at(case, {**small, **settings, **on_this_machine(code_dir)})
        except Exception as error:
            case.record(f"refused {settings}", error=type(error).__name__)
        else:
            case.record(f"begun with {settings}", trainers=len(seen))
        told.clear()


def without(told: stand_ins.Told, names) -> None:
    """Takes keys out of the configuration that W&B was given."""
    for what, values in told:
        if "configuration" in what:
            for name in names:
                values.pop(name, None)


def raw_keys(code_dir: Path) -> set[str]:
    from omegaconf import OmegaConf

    return set(OmegaConf.load(code_dir / "config.yaml"))


def on_this_machine(code_dir: Path) -> dict:
    """The settings without which the checkout's scripts do not run on a CPU."""
    return {"device": "cpu"} if "device" in raw_keys(code_dir) else {}


def configuration_of(cfg, but=()) -> dict[str, str]:
    """Each key of a parsed configuration with its value as text, free of the folder that this process runs in."""
    return {name: stand_ins.masked(repr(value)) for name, value in vars(cfg).items() if name not in but}


def record_agent(case: Case, agent, values: bool = True) -> None:
    """Configuration, discount, planner, optimisers and every tensor of an agent; `values` False: shapes only."""
    from tdmpc2_lean.validation.gates.trace_tdmpc2 import learned_state

    case.record("the agent's configuration", configuration_of(agent.cfg, CHANGED_BY_LOGGER))
    case.record("discount", discount=agent.discount)
    case.record("planner", iterations=agent.cfg.iterations, warm_start=agent._prev_mean, training=agent.model.training)
    for name in ("optim", "pi_optim"):
        optimiser = getattr(agent, name)
        for number, group in enumerate(optimiser.param_groups):
            told = {k: repr(v) for k, v in group.items() if k not in {"params", "capturable"}}
            shapes = [tuple(p.shape) for p in group["params"]]
            told |= {"parameters": len(shapes), "shapes": repr(shapes), "kind": type(optimiser).__name__}
            case.record(f"{name}, group {number}", told)
    state = learned_state(agent)
    shapes = {k: f"{tuple(v.shape)} {v.dtype}" for k, v in state.items()}
    needs = {f"{k} learns": p.requires_grad for k, p in agent.model.named_parameters()}
    case.record("shapes", shapes | needs)
    case.record("model", text=stand_ins.masked(repr(agent.model)), learnable=agent.model.total_params)
    case.record("running scale", {k: v for k, v in agent.scale.state_dict().items()})
    if values:
        case.record("initial values", {k: v for k, v in state.items() if v.device.type != "meta"})


def large(size: int, code_dir: Path):
    """The case of a model size too large to be filled with numbers: its shapes."""

    def case_of(case: Case) -> None:
        import common

        if size not in common.MODEL_SIZE:
            raise Lacking(f"model size {size}")
        cfg = configured(code_dir, {"task": "cheetah-run", "model_size": size})
        case.record("configuration", configuration_of(cfg))
        cfg.obs_shape, cfg.action_dim, cfg.episode_length = {"state": (17,)}, 6, 500
        case.record("shapes", shapes_only(cfg))

    return case_of


def shapes_only(cfg) -> dict[str, str]:
    """Parameter -> shape of a world model whose tensors are never filled."""
    import torch
    from common.world_model import WorldModel

    with torch.device("meta"):
        model = WorldModel(cfg)
        return {name: str(tuple(p.shape)) for name, p in model.named_parameters()}


def configured(code_dir: Path, overrides: Mapping):
    from tdmpc2_lean.validation.gates.trace_tdmpc2 import configuration

    return configuration(code_dir, Path.cwd(), dict(overrides))


def discounts(case: Case, code_dir: Path) -> None:
    """The discount of agents for episodes of many lengths, and with other settings of the heuristic."""
    from tdmpc2 import TDMPC2

    tiny = {"task": "cheetah-run", "mlp_dim": 8, "enc_dim": 8, "latent_dim": 8, "num_q": 2, "num_bins": 5}
    others = [{}, {"discount_denom": 1}, {"discount_min": 0.5}, {"discount_max": 0.9999}]
    for other in others:
        found = {}
        base = configured(code_dir, tiny | other)
        for length in LENGTHS if not other else LENGTHS[1::5]:
            cfg = deepcopy(base)
            cfg.obs_shape, cfg.action_dim, cfg.episode_length = {"state": (3,)}, 2, length
            found[f"{length} steps"] = TDMPC2(cfg).discount
        case.record(f"discount with {other or 'the default heuristic'}", found)


def task_set(name: str, sizes: tuple, code_dir: Path):
    """The case of a set of tasks: its configuration, and agents for its environments."""

    def case_of(case: Case) -> None:
        import common
        from tdmpc2 import TDMPC2

        if name not in common.TASK_SET:
            raise Lacking(f"the task set {name}")
        for size in (*common.MODEL_SIZE, None):
            cfg = configured(code_dir, {"task": name} | ({"model_size": size} if size else {}))
            case.record("configuration", configuration_of(cfg))
        if not sizes:
            return
        from envs import make_env

        cfg = configured(code_dir, {"task": name})
        cases.seeded(cfg.seed)
        env = make_env(cfg)
        case.record("configuration with environments", configuration_of(cfg))
        record_environment(case, env, range(len(cfg.tasks)), steps=4)
        for size in sizes:
            small = configured(code_dir, {"task": name, "model_size": size})
            given = ("obs_shape", "action_dim", "episode_length", "obs_shapes", "action_dims", "episode_lengths")
            for key in given:
                setattr(small, key, getattr(cfg, key))
            cases.seeded(size)
            record_agent(case, TDMPC2(small))

    return case_of


def record_environment(case: Case, env, tasks, steps: int, seed: int = 1) -> None:
    """Spaces and some steps of an environment; tasks: those that it is set to, [None] where it has one."""
    import numpy as np
    import torch

    for label, space in (("observations", env.observation_space), ("actions", env.action_space)):
        bounds = {"low": np.asarray(space.low), "high": np.asarray(space.high)}
        case.record(label, {"shape": repr(space.shape), "dtype": str(space.dtype)} | bounds)
    stand_ins.seed_where_unseeded(env, seed)
    for task in tasks:
        obs = env.reset() if task is None else env.reset(task_idx=task)
        seen = {"reset": obs}
        for step in range(steps):
            action = env.rand_act() if step else torch.full_like(env.rand_act(), 0.7)
            obs, reward, done, info = env.step(action)
            seen |= {f"{step}.action": action, f"{step}.obs": obs, f"{step}.reward": reward, f"{step}.done": done}
            seen |= {f"{step}.success": info["success"], f"{step}.terminated": info["terminated"]}
        case.record("steps" if task is None else f"steps of task {task}", seen)


def environments(case: Case, code_dir: Path) -> None:
    """Single environments: two seeds, spaces, steps, the end of an episode, a picture; and what has no such task."""
    import gymnasium as gym
    from envs import make_env

    for number, task in enumerate(ENVIRONMENTS):
        gym.logger.min_level = 30
        cfg = configured(code_dir, {"task": task, "seed": number})
        cases.seeded(number)
        try:
            env = make_env(cfg)
        except ValueError:
            case.record("there is no task", task=task)
            continue
        told = {key: value for key, value in configuration_of(cfg).items() if key != "device"}
        case.record("configuration", told)
        simulated = getattr(env.unwrapped, "task", None)
        case.record("shown", reward=getattr(simulated, "visualize_reward", None), messages=gym.logger.min_level)
        record_environment(case, env, [None], steps=5, seed=number)
        if hasattr(env, "render"):
            case.record("picture", frame=env.render())
    whole_episode(case, configured(code_dir, {"task": "pendulum-swingup"}))
    if "num_channels" in raw_keys(code_dir):
        cfg = configured(code_dir, {"task": "quadruped-walk", "obs": "rgb"})
        record_environment(case, make_env(cfg), [None], steps=4)
        case.record("configuration", configuration_of(cfg))
    for task in ("cheetah-fly", "nothing"):
        try:
            make_env(configured(code_dir, {"task": task}))
        except Exception as error:  # which kind, is the question
            case.record("no such task", task=task, error=type(error).__name__)
        else:
            case.record("no such task", task=task, error="none")


def whole_episode(case: Case, cfg) -> None:
    """An episode by one action up to its end."""
    import torch
    from envs import make_env

    env = make_env(cfg)
    action = torch.full((cfg.action_dim,), 0.3)
    env.reset()
    total, length, done = 0.0, 0, False
    while not done and length < 2000:
        obs, reward, done, info = env.step(action)
        total, length = total + reward, length + 1
    case.record("end of an episode", length=length, total=total, obs=obs, terminated=info["terminated"])
