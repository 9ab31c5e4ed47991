"""Cases of the gate `functions` on what scripts do beside training: what they refuse, which trainer they take, times
that are told, scores of several episodes, arithmetic in settings (see `functions_tdmpc2`).

A guard that is gone changes nothing where everything is right, a median is a mean of two, and a masked time may be any:
here settings and checkpoints are wrong, evaluations have three episodes, and a clock stands still between steps.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tdmpc2_lean.validation.gates import functions_loop_tdmpc2 as loops
from tdmpc2_lean.validation.gates import stand_ins
from tdmpc2_lean.validation.gates.cases import Case, Lacking
from tdmpc2_lean.validation.gates.defaults_tdmpc2 import on_this_machine
from tdmpc2_lean.validation.gates.functions_tdmpc2 import make_agent

BEGAN, OF_STEP, OF_UPDATE = 1_000_000.0, 2.0, 5.0  # seconds: when the clock is started, and what it is put on by
FOLLOWING = ("steps", "batch_size", "num_bins", "bin_size", "vmin", "seed", "task_title", "task_dim", "tasks")
TINY = {"task": "cartpole-balance", "compile": "false", "enable_wandb": "false", "seed": 4, "exp_name": "scripts"}


def table(code_dir: Path) -> dict:
    """The cases of this module."""
    return {
        "refusals": lambda case: refusals(case, code_dir),
        "trainers": lambda case: trainers(case, code_dir),
        "clock": lambda case: clock(case, code_dir),
        "clock-offline": lambda case: clock_offline(case, code_dir),
        "scores": lambda case: scores(case, code_dir),
        "evaluate-one-task": lambda case: evaluate(case, code_dir, {}),
        "evaluate-many-tasks": lambda case: evaluate(case, code_dir, {"task": "mt30"}),
        "arithmetic": lambda case: arithmetic(case, code_dir),
    }


def needs_sets() -> None:
    import common

    if "mt30" not in common.TASK_SET:
        raise Lacking("the task set mt30")


@contextmanager
def replaced(owner, **names) -> Iterator[None]:
    """While the body runs, attributes of a module are others."""
    before = {name: getattr(owner, name) for name in names}
    try:
        for name, value in names.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


# ------------------------------------------------------------------------------------------------- what is refused


def refused(case: Case, what: str, make: Callable) -> None:
    """Records which kind of error `make` raises, if any; Hydra makes SystemExit of those of scripts."""
    try:
        make()
    except (Exception, SystemExit) as error:
        case.record(what, error=type(error).__name__)
    else:
        case.record(what, error="none")


class Accepted(Exception):
    """A script went on to make its environment."""


def refusals(case: Case, code_dir: Path) -> None:
    """Checkpoints that do not fit, and settings with which scripts end before anything is made."""
    import envs
    import torch

    agent = make_agent(code_dir)
    whole = {k: v.clone() if hasattr(v, "clone") else v for k, v in agent.model.state_dict().items()}
    name = next(name for name, value in whole.items() if name.startswith("_dynamics") and value.ndim == 2)
    lacking = {k: v for k, v in whole.items() if k != name}
    refused(case, "a checkpoint that lacks a matrix", lambda: agent.load({"model": lacking}))
    other = {**whole, name: torch.zeros(3, 3)}
    refused(case, "a checkpoint with a matrix of another size", lambda: agent.load({"model": other}))
    refused(case, "a checkpoint with a matrix more", lambda: agent.load({"model": {**whole, "more": torch.ones(2)}}))
    for wrong in ({"model_size": 2}, {"model_size": 5}):
        refused(case, f"settings {wrong}", lambda wrong=wrong: loops.configured(code_dir, wrong))

    went_on = []

    def make_env(cfg):
        went_on.append(cfg)
        raise Accepted

    folder = Path("checkpoints")
    folder.mkdir(exist_ok=True)
    (folder / "agent.pt").write_bytes(b"")
    scripts = {
        "train": [{"steps": 0}, {"steps": -3}, {"steps": 1}],
        "evaluate": [
            {"checkpoint": folder / "agent.pt", "eval_episodes": 0},
            {"checkpoint": folder / "agent.pt", "eval_episodes": 1},
        ],
    }
    with replaced(envs, make_env=make_env):
        for script, tried in scripts.items():
            for wrong in tried:
                given = {**TINY, **{k: v.resolve() if isinstance(v, Path) else v for k, v in wrong.items()}}
                given |= on_this_machine(code_dir)
                said = {k: str(v) for k, v in wrong.items() if k != "checkpoint"}
                refused(case, f"{script}.py with {said}", lambda s=script, g=given: stand_ins.run_script(s, g))
                case.record("goes on", environments=len(went_on))


# ------------------------------------------------------------------------------------------------------ which trainer


def trainers(case: Case, code_dir: Path) -> None:
    """What train.py hands to which trainer, for one task and for many."""
    import envs
    from trainer import offline_trainer, online_trainer

    needs_sets()

    def make_env(cfg):
        cfg.obs_shape, cfg.action_dim, cfg.episode_length, cfg.seed_steps = {"state": (5,)}, 2, 500, 2500
        count = len(cfg.tasks)
        cfg.obs_shapes, cfg.action_dims, cfg.episode_lengths = [5] * count, [2] * count, [500] * count
        return loops.ScriptedEnv(case, False)

    def looks(name: str):
        class LooksOn:
            def __init__(self, **given):
                case.record(f"{name} is given", {what: type(thing).__name__ for what, thing in given.items()})

            def train(self):
                case.record(f"{name} trains")

        return LooksOn

    with (
        replaced(envs, make_env=make_env),
        replaced(online_trainer, OnlineTrainer=looks("the online trainer")),
        replaced(offline_trainer, OfflineTrainer=looks("the offline trainer")),
    ):
        for task in ("mt30", "cartpole-balance"):
            given = {**TINY, "task": task, "model_size": 1, "steps": 10, **on_this_machine(code_dir)}
            lines = stand_ins.run_script("train", given)
            case.record(f"printed for {task}", {f"line {i}": line for i, line in enumerate(lines)})
            case.random_states()


# ------------------------------------------------------------------------------------------------------------- times


class StoppedClock:
    """A clock that only steps and updates put on; it takes the place of time.time in the trainers' modules."""

    def __init__(self):
        self.now = BEGAN

    def __call__(self) -> float:
        return self.now

    @contextmanager
    def instead(self, *modules) -> Iterator[None]:
        real = time.time
        found = [(module, name) for module in modules for name, value in vars(module).items() if value is real]
        time.time = self
        for module, name in found:
            setattr(module, name, self)
        try:
            yield
        finally:
            time.time = real
            for module, name in found:
                setattr(module, name, real)

    def put_on_by(self, stand_in, name: str, seconds: float) -> None:
        """Each call of a stand-in's method takes so long."""
        method = getattr(stand_in, name)

        def timed(*args, **kwargs):
            self.now += seconds
            return method(*args, **kwargs)

        setattr(stand_in, name, timed)


class Unmasked(loops.ScriptedLogger):
    """A logger that tells all that it is given, times included."""

    def log(self, metrics, category="train"):
        self.case.record(f"logger.log {category}", dict(metrics))

    def pprint_multitask(self, metrics, cfg):
        self.case.record("logger.pprint_multitask", dict(metrics))


def clock(case: Case, code_dir: Path) -> None:
    """The times that the online trainer tells of, where steps and updates take a known time."""
    from trainer import online_trainer

    cfg = loops.configured(code_dir, {"steps": 45, "eval_freq": 20, "eval_episodes": 3})
    cfg.seed_steps, cfg.episode_length = 18, 8
    counts, watch = loops.Quiet(case), StoppedClock()
    with watch.instead(online_trainer):
        env, agent = loops.ScriptedEnv(counts, False), loops.ScriptedAgent(counts)
        watch.put_on_by(env, "step", OF_STEP)
        watch.put_on_by(agent, "update", OF_UPDATE)
        watch.now += 3.0
        given = {"env": env, "agent": agent, "buffer": loops.ScriptedBuffer(counts)}
        trainer = online_trainer.OnlineTrainer(cfg=cfg, logger=Unmasked(case, False), **given)
        watch.now += 7.0
        trainer.train()


def clock_offline(case: Case, code_dir: Path) -> None:
    """The same of the offline trainer, whose data is there already."""
    from trainer import offline_trainer

    needs_sets()
    cfg = loops.configured(code_dir, {"task": "mt30", "steps": 13, "eval_freq": 6, "eval_episodes": 1})
    cfg.seed_steps, cfg.episode_length = 18, 8
    counts, watch = loops.Quiet(case), StoppedClock()
    with watch.instead(offline_trainer):
        env, agent = loops.ScriptedEnv(counts, False), loops.ScriptedAgent(counts)
        watch.put_on_by(agent, "update", OF_UPDATE)
        given = {"env": env, "agent": agent, "buffer": loops.ScriptedBuffer(counts)}
        trainer = offline_trainer.OfflineTrainer(cfg=cfg, logger=Unmasked(case, False), **given)
        watch.now += 7.0
        with replaced(trainer, _load_dataset=lambda: None):
            trainer.train()


# ------------------------------------------------------------------------------------------------------------ scores


class UnevenEnv(loops.ScriptedEnv):
    """Episodes of which no two have the same return, so that a mean is neither a median nor a bound."""

    def step(self, action):
        obs, reward, done, info = super().step(action)
        return obs, reward + self.episodes**2, done, info


def scores(case: Case, code_dir: Path) -> None:
    """Averages over three episodes, and over tasks of which some have no score."""
    import io
    from contextlib import redirect_stdout

    from common import TASK_SET
    from common.logger import Logger
    from trainer import offline_trainer, online_trainer

    needs_sets()
    quiet = loops.Quiet(case)
    for module, name, task in (
        (online_trainer, "OnlineTrainer", "cheetah-run"),
        (offline_trainer, "OfflineTrainer", "mt30"),
    ):
        cfg = loops.configured(code_dir, {"task": task, "eval_episodes": 3, "eval_freq": 10, "steps": 30})
        cfg.seed_steps, cfg.episode_length = 18, 8
        given = {"agent": loops.ScriptedAgent(quiet), "buffer": loops.ScriptedBuffer(quiet)}
        logger = loops.ScriptedLogger(quiet, False)
        trainer = getattr(module, name)(cfg=cfg, env=UnevenEnv(quiet, False), logger=logger, **given)
        case.record(f"evaluation by {name}", trainer.eval())
    cfg.obs_shape, cfg.action_dim = {"state": (5,)}, 2
    printed = io.StringIO()
    with redirect_stdout(printed):
        logger = Logger(cfg)
        for task in ("mt30", "mt80"):
            cfg.task, cfg.tasks = task, TASK_SET[task]
            found = {f"episode_reward+{name}": 2.0 * i for i, name in enumerate(TASK_SET[task])}
            found |= {f"episode_success+{name}": i % 7 / 7 for i, name in enumerate(TASK_SET[task])}
            for name in (TASK_SET["mt30"][3], TASK_SET[task][-2]):
                found[f"episode_reward+{name}"] = found[f"episode_success+{name}"] = float("nan")
            logger.pprint_multitask(found, cfg)
            case.record(f"averages of {task} with scores missing", {k: v for k, v in found.items() if "avg" in k})
    lines = [stand_ins.masked(stand_ins.COLOUR.sub("", line)) for line in printed.getvalue().splitlines()]
    case.record("printed", {f"line {i}": line for i, line in enumerate(lines)})


def evaluate(case: Case, code_dir: Path, more: dict) -> None:
    """evaluate.py with stand-ins for environment and agent: what it asks of them, and the scores that it prints."""
    import envs
    import tdmpc2

    if more:
        needs_sets()
    asked = loops.Quiet(case)

    class LoadedAgent(loops.ScriptedAgent):
        def __init__(self, cfg):
            super().__init__(asked)

        def load(self, path):
            asked.record("agent.load", name=Path(path).name)

        def act(self, obs, t0=False, eval_mode=False, task=None):
            case.record("agent.act", t0=t0, eval_mode=eval_mode, task=task)
            return super().act(obs, t0, eval_mode, task)

    def make_env(cfg):
        case.record("environment for", task=cfg.task, tasks=cfg.tasks)
        return UnevenEnv(asked, False)

    Path("agent.pt").write_bytes(b"")
    given = {**TINY, "checkpoint": Path("agent.pt").resolve(), "eval_episodes": 3, "save_video": "false"}
    with replaced(envs, make_env=make_env), replaced(tdmpc2, TDMPC2=LoadedAgent):
        lines = stand_ins.run_script("evaluate", given | more | on_this_machine(code_dir))
    case.record("printed", {f"line {i}": line for i, line in enumerate(lines)})
    case.record("asked for", dict(asked.counts))


# --------------------------------------------------------------------------------------------------------- arithmetic


def arithmetic(case: Case, code_dir: Path) -> None:
    """Settings that are written as a sum, a product or a quotient, and what follows from them."""
    for text in ("4*500", "1000/8", "6/4", "6/3", "7-9", "12+30", "2**3", "3*", "abc", "1e3", "10_000"):
        cfg = loops.configured(code_dir, {"data_dir": text, "steps": 100})
        case.record(f"{text} is", value=repr(cfg.data_dir))
    for name, value in (("steps", "4*500"), ("batch_size", "64/2"), ("num_bins", 3), ("vmin", -2), ("seed", 11)):
        cfg = loops.configured(code_dir, {name: value})
        case.record(f"settings with {name}", {key: repr(getattr(cfg, key)) for key in FOLLOWING})
    for size in (None, 1, 19):
        for task in ("mt30", "mt80", "dog-run"):
            cfg = loops.configured(code_dir, {"task": task, "model_size": size} if size else {"task": task})
            told = {name: getattr(cfg, name) for name in ("task_dim", "multitask", "task_title", "latent_dim")}
            case.record(f"{task} at {size}", {name: repr(value) for name, value in told.items()}, tasks=len(cfg.tasks))
