"""Cases of the gate `functions` on environments, their wrappers and the parser (see `functions_tdmpc2`).

Environments that are written down here take the place of simulators, so that what a wrapper is given and what it makes
of it is seen: kinds of numbers, spaces, seeds, ends of episodes, successes, tasks of different sizes.
"""

from pathlib import Path
from types import SimpleNamespace

from tdmpc2_lean.validation.gates import stand_ins
from tdmpc2_lean.validation.gates.cases import Case, Lacking
from tdmpc2_lean.validation.gates.functions_tdmpc2 import SMALL


def table(code_dir: Path) -> dict:
    """The cases of this module."""
    return {
        "dm-control-wrapper": dm_control_wrapper,
        "wrappers": wrappers,
        "tasks-wrapper": tasks_wrapper,
        "make-env": lambda case: make_env(case, code_dir),
        "make-env-dm-control": lambda case: make_env_dm_control(case, code_dir),
        "make-env-tasks": lambda case: make_env_tasks(case, code_dir),
        "parser": lambda case: parser(case, code_dir),
    }


def configured(code_dir: Path, overrides: dict):
    from tdmpc2_lean.validation.gates.trace_tdmpc2 import configuration

    return configuration(code_dir, Path.cwd(), SMALL | overrides)


def told(value) -> object:
    """A value with its kind, down to the elements of tuples and tables."""
    if isinstance(value, tuple):
        return repr([told(part) for part in value])
    if isinstance(value, dict):
        return repr((type(value).__name__, sorted((key, told(part)) for key, part in value.items())))
    return f"{type(value).__name__} {getattr(value, 'dtype', '')} {tuple(getattr(value, 'shape', ()))} {value}"


class Physics:
    """Stands for dm_control's physics: its picture says how it was asked for."""

    def __init__(self):
        self.pictures = 0

    def render(self, *sizes, **options):
        import numpy as np

        self.pictures += 1
        height, width, *_ = sizes
        picture = np.zeros((height, width, 3), dtype=np.uint8)
        picture[0, 0] = self.pictures, len(sizes), len(options)
        picture[0, 1, 0] = sizes[-1]
        picture[-1, -2, 1] = 7
        return picture


class ScriptedSuite:
    """Stands for an environment of dm_control, with observations of several shapes and kinds."""

    def __init__(self, length: int = 5, dtype="float64"):
        self.physics, self.length, self.dtype = Physics(), length, dtype
        self.task = SimpleNamespace(random=None)
        self.t, self.actions = 0, []

    def observation_spec(self):
        import numpy as np

        return {"a": np.zeros((2, 3)), "b": np.zeros(()), "c": 0.5, "d": np.zeros(4)}

    def action_spec(self):
        import numpy as np

        low, high = np.array([-1.0, -2.0, 0.5]), np.array([1.0, 3.0, 4.0])
        return SimpleNamespace(shape=(3,), minimum=low, maximum=high, dtype=np.dtype(self.dtype))

    def timestep(self, reward):
        import numpy as np

        seen = {"a": np.arange(6.0).reshape(2, 3) + 0.1 * self.t, "b": np.array(self.t + 1e-9), "d": np.full(4, 3)}
        return SimpleNamespace(observation=seen, reward=reward, last=lambda: self.t >= self.length)

    def reset(self):
        self.t = 0
        return self.timestep(None)

    def step(self, action):
        self.t += 1
        self.actions.append(told(action))
        return self.timestep(0.3 * self.t + float(action[0]))


def record_space(case: Case, what: str, space) -> None:
    import numpy as np

    bounds = {"low": np.asarray(space.low), "high": np.asarray(space.high)}
    case.record(what, {"shape": repr(space.shape), "dtype": str(space.dtype)} | bounds)


def dm_control_wrapper(case: Case) -> None:
    """Spaces, observations, repeated actions, cameras and stacks of frames of dm_control's wrapper."""
    import numpy as np
    from envs import dmcontrol

    if not hasattr(dmcontrol, "get_obs_shape"):
        raise Lacking("dm_control's wrapper as the official code has it")
    pixels = getattr(dmcontrol, "Pixels", None)
    case.record("shape of observations", shape=repr(dmcontrol.get_obs_shape(ScriptedSuite())))
    for domain, dtype in (("quadruped", "float64"), ("cheetah", "float32")):
        suite = ScriptedSuite(dtype=dtype)
        env = dmcontrol.DMControlWrapper(suite, domain)
        record_space(case, f"observations in {domain}", env.observation_space)
        record_space(case, f"actions in {domain}", env.action_space)
        case.record("unwrapped", same=env.unwrapped is suite, dtype=str(env.action_spec_dtype))
        case.record("reset", obs=told(env.reset()))
        for step in range(3):
            action = np.array([0.25 * step, -0.1, 0.7], dtype=np.float32)
            case.record(f"step {step}", result=told(env.step(action)), actions=repr(suite.actions))
        *_, info = env.step(np.zeros(3, dtype=np.float32))
        case.record("what an episode's information lacks", value=told(info["anything"]))
        for given in ({}, {"width": 7, "height": 5}, {"camera_id": 4}, {"camera_id": 0}):
            case.record(f"picture {given}", frame=env.render(**given))
        if pixels is None:
            continue
        for number in (None, 2):
            given = {} if number is None else {"num_frames": number, "size": 6}
            cfg = SimpleNamespace(obs="rgb")
            framed = pixels(dmcontrol.DMControlWrapper(ScriptedSuite(), domain), cfg, **given)
            case.record("the frames' configuration", same=framed.cfg is cfg)
            record_space(case, f"frames in {domain}", framed.observation_space)
            for again in range(2):
                obs = framed.reset()
                case.record(f"first frames {again}", obs=obs, same=obs.flatten()[: obs.numel() // 2])
                for step in range(3):
                    obs, *rest = framed.step(np.full(3, 0.5, dtype=np.float32))
                    case.record(f"frames {step}", obs=obs, rest=told(tuple(rest)))


def scripted_gym(
    case: Case, name: str, obs: list, actions: int = 2, length: int = 300, space=None, ends=None, tell=True
):
    """An environment of gymnasium that tells what it is asked and observes what is written down, in turn.

    space: of observations; default: of the first one. ends: step -> (done, information). tell: of resets as well, of
    which our patch `seeding` makes one that official code does not.
    """
    import gymnasium as gym
    import numpy as np

    class Scripted(gym.Env):
        max_episode_steps = length

        def __init__(self):
            if space is None:
                shape = np.asarray(obs[0]).shape
                self.observation_space = gym.spaces.Box(low=-1, high=1, shape=shape, dtype=np.float32)
            else:
                self.observation_space = space
            self.action_space = gym.spaces.Box(low=-1, high=1, shape=(actions,), dtype=np.float64)
            self.t = self.resets = 0

        def reset(self, **given):
            if tell:
                case.record(f"reset of {name}", given=repr(sorted(given.items())))
            self.t, self.resets = 0, self.resets + 1
            return obs[self.resets % len(obs)]

        def step(self, action):
            self.t += 1
            case.record(f"step of {name}", action=told(action))
            done, info = (ends or {}).get(self.t, (False, {}))
            return obs[self.t % len(obs)], np.float64(0.1 * self.t), done, dict(info)

        def render(self, **given):
            return f"picture of {name}, {sorted(given.items())}"

    return Scripted()


ENDS = {
    1: (False, {"success": True}),
    2: (False, {"success": 0.25, "terminated": True}),
    3: (True, {"terminated": 1, "other": "kept"}),
}


def wrappers(case: Case) -> None:
    """Kinds of numbers, tables of observations, information and time limits in the single-task wrappers."""
    import gymnasium as gym
    import numpy as np
    import torch
    from envs.wrappers.tensor import TensorWrapper
    from envs.wrappers.timeout import Timeout

    kinds = [np.arange(3.0) + 0.1, np.arange(3, dtype=np.float32), np.arange(3, dtype=np.uint8), np.arange(3)]
    kinds += [torch.arange(3), torch.arange(3.0, dtype=torch.float64)]
    env = TensorWrapper(scripted_gym(case, "numbers", kinds, ends=ENDS))
    env.action_space.seed(3)
    case.record("random actions", first=told(env.rand_act()), second=told(env.rand_act()))
    case.record("episode length", length=getattr(env.env, "max_episode_steps", None))
    for again in range(len(kinds)):
        found = env.reset() if again % 2 else env.reset(task_idx=again)
        case.record(f"reset {again}", obs=told(found))
    for step in range(7):
        action = torch.tensor([0.5, -0.25 * step])
        obs, reward, done, info = env.step(action)
        kept = {key: told(value) for key, value in info.items()}
        case.record(f"step {step}", {"obs": told(obs), "reward": told(reward), "done": told(done)} | kept)
        case.record("what the information lacks", kind=type(info).__name__, value=told(info["lacking"]))
    rows = [{"a": kinds[0], "b": kinds[2]}, {"a": kinds[1], "b": torch.ones(2)}]
    box = gym.spaces.Box(low=0, high=1, shape=(3,))
    several = TensorWrapper(scripted_gym(case, "table", rows, space=gym.spaces.Dict({"a": box, "b": box})))
    case.record("table of observations", reset=told(several.reset()), step=told(several.step(torch.ones(2))[0]))
    for limit in (1, 3, 4):
        timed = Timeout(scripted_gym(case, "timed", [np.zeros(2)], ends=ENDS), max_episode_steps=limit)
        case.record("limit", limit=timed.max_episode_steps)
        for again in range(2):
            timed.reset(**({"options": {"again": again}} if again else {}))
            ends = [told(timed.step(np.zeros(2))) for _ in range(5)]
            case.record(f"steps with the limit {limit}, {again}", {str(i): end for i, end in enumerate(ends)})


def tasks_wrapper(case: Case) -> None:
    """Tasks of different sizes in one environment: padding, actions cut to size, which task is on."""
    import numpy as np
    import torch
    from envs.wrappers.multitask import MultitaskWrapper
    from envs.wrappers.tensor import TensorWrapper
    from envs.wrappers.timeout import Timeout

    sizes = {"one": (2, 3, 40), "two": (5, 1, 70), "three": (4, 4, 55)}
    envs = []
    for name, (obs, actions, length) in sizes.items():
        values = [np.arange(obs) + 0.5 + i for i in range(2)]
        # Told of the number of the step, so that a task that was stepped by mistake is seen
        envs.append(TensorWrapper(Timeout(scripted_gym(case, name, values, actions, ends=ENDS), length)))
    cfg = SimpleNamespace(tasks=list(sizes))
    env = MultitaskWrapper(cfg, envs)
    record_space(case, "observations", env.observation_space)
    record_space(case, "actions", env.action_space)

    def on(what):
        case.record(what, task=env.task, number=env.task_idx, same=env.env is env._env is envs[env.task_idx])

    case.record("sizes", obs=env._obs_dims, actions=env._action_dims, lengths=env._episode_lengths)
    case.record("configuration", same=env.cfg is cfg)
    on("at first")
    env.action_space.seed(5)
    case.record("random actions", first=told(env.rand_act()), second=told(env.rand_act()))
    for number in (0, 1, 2, 1, None):
        obs = env.reset() if number is None else env.reset(task_idx=number)
        case.record(f"reset to {number}", obs=told(obs))
        on(f"after a reset to {number}")
        for _ in range(3):
            obs, reward, done, info = env.step(torch.linspace(-1, 1, 4))
            kept = {key: told(value) for key, value in info.items()}
            case.record("step", {"obs": told(obs), "reward": told(reward), "done": told(done)} | kept)
    frames = env._pad_obs(torch.arange(3, dtype=torch.uint8))
    case.record("padding of whole numbers", obs=told(frames), whole=told(env._pad_obs(torch.ones(5))))


SIMULATORS = ("dm_control", "maniskill", "metaworld", "myosuite", "mujoco")


def simulators(case: Case, found: dict) -> None:
    """Puts in the place of every simulator one that knows the tasks of `found`: name -> {task: environment}."""
    import envs

    for name in SIMULATORS:

        def make(cfg, name=name):
            case.record("asked", simulator=name, task=cfg.task, multitask=cfg.multitask)
            if cfg.task not in found.get(name, {}):
                raise ValueError("Unknown task:", cfg.task)
            return found[name][cfg.task]()

        setattr(envs, f"make_{name}_env", make)


def make_env(case: Case, code_dir: Path) -> None:
    """Who is asked for which task, what of the environment comes into the configuration, what is refused."""
    import envs
    import gymnasium as gym
    import numpy as np

    if not hasattr(envs, "make_mujoco_env"):
        raise Lacking("makers of environments of several simulators")
    official = {name: getattr(envs, f"make_{name}_env") for name in SIMULATORS}
    box = gym.spaces.Box(low=0, high=1, shape=(3,))

    def one(name, length=300, size=3, actions=2, **more):
        return lambda: scripted_gym(case, name, [np.arange(float(size))], actions, length, tell=False, **more)

    rows = {"state": gym.spaces.Box(0, 1, (4,)), "rgb": gym.spaces.Box(0, 255, (9, 64, 64), np.uint8)}
    found = {name: {f"{name}-only": one(name, 100 + 10 * i, 2 + i, 1 + i)} for i, name in enumerate(SIMULATORS)}
    found["maniskill"]["shared"] = one("first of two", 199)
    found["myosuite"]["shared"] = one("second of two", 201)
    found["mujoco"]["table"] = one("a table", 200, space=gym.spaces.Dict(rows))
    found["mujoco"]["frames"] = one("frames", 201, space=box)
    tasks = [*(f"{name}-only" for name in SIMULATORS), "shared", "table", "frames", "unknown"]
    try:
        simulators(case, found)
        for number, task in enumerate(tasks):
            gym.logger.min_level = 30
            kind = "rgb" if task == "frames" else "state"
            cfg = configured(code_dir, {"task": task, "seed": 11 + number, "obs": kind})
            try:
                env = envs.make_env(cfg)
            except Exception as error:
                case.record(f"refused {task}", error=type(error).__name__)
                continue
            names = ("obs_shape", "action_dim", "episode_length", "seed_steps", "obs", "task", "multitask")
            case.record(f"configuration for {task}", {name: repr(getattr(cfg, name, None)) for name in names})
            case.record("environment", kind=type(env).__name__, inner=type(env.env).__name__)
            case.record("gymnasium's messages", level=gym.logger.min_level)
    finally:
        for name, make in official.items():
            setattr(envs, f"make_{name}_env", make)
    for name in ("maniskill", "metaworld", "myosuite"):
        try:
            official[name](configured(code_dir, {"task": "nothing"}))
        except Exception as error:
            case.record(f"{name} without what it needs", error=type(error).__name__)


def make_env_dm_control(case: Case, code_dir: Path) -> None:
    """What dm_control is asked for: domains, tasks, seeds, and how it is wrapped."""
    from dm_control import suite
    from envs import dmcontrol

    case.record("tasks of dm_control", all=repr(suite.ALL_TASKS), domains=repr(sorted(suite.TASKS_BY_DOMAIN.items())))
    load, scale = suite.load, dmcontrol.action_scale.Wrapper

    def loaded(*names, **options):
        case.record("suite.load", names=repr(names), options=repr(sorted(options.items())))
        return ScriptedSuite()

    def scaled(env, **options):
        case.record("action scale", options=repr(sorted(options.items())))
        return env

    dmcontrol.suite.load, dmcontrol.action_scale.Wrapper = loaded, scaled
    try:
        for number, task in enumerate(("cup-catch", "pointmass-easy", "reacher-three-easy", "walker-walk-backwards",
                                       "quadruped-run", "nothing-at-all", "cup-nothing", "dog_run")):  # fmt: skip
            for kind in ("state", "rgb", "depth"):
                cfg = configured(code_dir, {"task": task, "seed": 20 + number, "obs": kind})
                if kind == "rgb" and not hasattr(dmcontrol, "Pixels"):
                    continue
                try:
                    env = dmcontrol.make_env(cfg)
                except Exception as error:
                    case.record(f"refused {task}, {kind}", error=type(error).__name__)
                    continue
                layers = []
                while env is not None and len(layers) < 9:
                    layers.append(type(env).__name__)
                    limit, camera = vars(env).get("_max_episode_steps"), vars(env).get("camera_id")
                    case.record(f"layer of {task}, {kind}", name=layers[-1], limit=limit, camera=camera)
                    env = vars(env).get("env")
    finally:
        suite.load, dmcontrol.action_scale.Wrapper = load, scale


def make_env_tasks(case: Case, code_dir: Path) -> None:
    """An environment of several tasks, of different sizes and lengths, and what of it comes into the configuration."""
    import common
    import envs
    import numpy as np

    if "mt30" not in common.TASK_SET:
        raise Lacking("the task set mt30")
    official = {name: getattr(envs, f"make_{name}_env") for name in SIMULATORS}
    whole = list(common.TASK_SET["mt30"])
    sizes = {"small": (2, 3, 40), "middle": (5, 1, 700), "large": (4, 4, 55)}
    found = {
        task: lambda task=task, size=size: scripted_gym(case, task, [np.arange(float(size[0]))], *size[1:], tell=False)
        for task, size in sizes.items()
    }
    try:
        for tasks in (list(sizes), ["middle", "unknown"]):
            common.TASK_SET["mt30"][:] = tasks
            simulators(case, {"dm_control": {t: found[t] for t in ("small", "large")}, "mujoco": found})
            cfg = configured(code_dir, {"task": "mt30", "seed": 4})
            try:
                env = envs.make_env(cfg)
            except Exception as error:
                case.record("refused", error=type(error).__name__)
                continue
            names = ("obs_shape", "action_dim", "episode_length", "seed_steps", "obs", "task", "multitask", "tasks",
                     "obs_shapes", "action_dims", "episode_lengths")  # fmt: skip
            case.record("configuration", {name: repr(getattr(cfg, name, None)) for name in names})
            case.record("environment", kind=type(env).__name__, inner=[type(one).__name__ for one in env.envs])
            stand_ins.seed_where_unseeded(env, 4)
            for number in range(len(sizes)):
                case.record("reset", obs=told(env.reset(task_idx=number)), cfg=env.cfg is cfg)
                case.record("step", result=told(env.step(env.rand_act())[:3]))
    finally:
        common.TASK_SET["mt30"][:] = whole
        for name, make in official.items():
            setattr(envs, f"make_{name}_env", make)


SUMS = {
    "steps": "20*35", "eval_freq": "100/8", "buffer_size": "500/4", "batch_size": "7+15",
    "rho": "1/3", "wandb_entity": "x1+1", "wandb_project": "3+4 and more", "data_dir": "5%2", "num_q": "2**3",
    "checkpoint": "1.5+2", "lr": "10-3",
}  # fmt: skip


def parser(case: Case, code_dir: Path) -> None:
    """Sums in settings, what a configuration answers to keys that it lacks, model sizes that there are none of."""
    import dataclasses

    from common.parser import cfg_to_dataclass

    cfg = configured(code_dir, SUMS | {"seed": 8})
    case.record("sums", {name: repr(getattr(cfg, name)) for name in (*SUMS, "bin_size", "task_title", "tasks")})
    case.record("work dir", path=stand_ins.masked(cfg.work_dir))
    case.record("configuration's kind", kind=type(cfg).__name__)
    found = [cfg.get("nothing"), cfg.get("nothing", 7), cfg.get("num_bins"), cfg.get("num_bins", 7), cfg.get("tasks")]
    case.record("asked for keys", {str(i): repr(value) for i, value in enumerate(found)})
    again = configured(code_dir, SUMS)
    again.tasks.append("another")
    cfg.lr = 5
    case.record("two configurations", first=repr(cfg.tasks), changed=cfg.lr, fresh=repr(type(cfg)().lr))
    for frozen in (False, True):
        one = cfg_to_dataclass(as_omegaconf({"a": 1, "b": [2]}), frozen=frozen)
        try:
            one.a = 2
        except dataclasses.FrozenInstanceError:
            case.record("frozen", a=one.a)
        case.record(f"frozen {frozen}", a=one.a, b=repr(one.b))
    for task in ("a-b-c", "mt30", "walker-run", "mt80"):
        for size in (None, 1, 19, 317):
            one = configured(code_dir, {"task": task} | ({"model_size": size} if size else {}))
            names = ("task_title", "task_dim", "latent_dim", "multitask", "num_q", "mlp_dim")
            case.record(f"{task}, size {size}", {name: repr(getattr(one, name, None)) for name in names})
    for size in (2, "5", 0):
        try:
            one = configured(code_dir, {"model_size": size})
        except Exception as error:
            case.record(f"model size {size!r}", error=type(error).__name__)
        else:
            case.record(f"model size {size!r}", mlp_dim=one.mlp_dim)


def as_omegaconf(values: dict):
    from omegaconf import OmegaConf

    return OmegaConf.create(values)
