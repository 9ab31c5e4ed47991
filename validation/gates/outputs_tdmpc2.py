"""The gate `outputs` of TD-MPC2: what a user of the scripts reads, watches and keeps is part of the comparison.

train.py and evaluate.py themselves are run as users run them, with small networks and short episodes, on dm_control
physics. Compared are what they print, every file with its content (the rows of eval.csv, the entries of every saved
agent), what W&B is given, the frames of films, and what a saved agent does when it is loaded; times are left out.
A stand-in takes W&B's place, another the renderer's (see `stand_ins`).
"""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tdmpc2_lean.validation.gates import cases, stand_ins
from tdmpc2_lean.validation.gates.cases import Case
from tdmpc2_lean.validation.gates.defaults_tdmpc2 import (
    CHANGED_BY_AGENT,
    configured,
    on_this_machine,
    own_settings,
    without,
)
from tdmpc2_lean.validation.gates.functions_agent_tdmpc2 import contents
from tdmpc2_lean.validation.gates.results import Result
from tdmpc2_lean.validation.gates.subjects import GateSubject

FUNCTION = "tdmpc2_lean.validation.gates.outputs_tdmpc2:answers"
EPISODE, SEED_STEPS = 20, 30  # agent steps; the scripts take no settings for them
SMALL = {
    "task": "cheetah-run", "seed": 5, "compile": "false", "steps": 80, "eval_freq": 35, "eval_episodes": 3,
    "batch_size": 8, "mlp_dim": 24, "enc_dim": 24, "latent_dim": 16, "num_samples": 24, "num_elites": 6,
    "num_pi_trajs": 4, "iterations": 2, "buffer_size": 55,
}  # fmt: skip
WITH_WANDB = {"wandb_project": "gate", "wandb_entity": "gate", "exp_name": "with-wandb"}
TRAININGS = {
    "train": WITH_WANDB,
    "train-quietly": {"enable_wandb": "false", "exp_name": "quiet", "steps": 45, "save_agent": "true", "seed": 6},
    "train-no-files": {"save_agent": "false", "save_csv": "false", "save_video": "false", "steps": 25} | WITH_WANDB,
}


def outputs(subject: GateSubject) -> Iterator[Result]:
    """One result per script and kind of run."""
    yield from cases.judged("outputs", FUNCTION, subject, own_settings=own_settings(subject))


# What follows runs in a process of its own, on the checkout's code.


def answers(code_dir: Path, names: list[str] | None = None) -> dict:
    """What `cases.recorded` returns of this gate's cases."""
    told = stand_ins.Told()
    stand_ins.wandb_stand_in(told)
    stand_ins.draw_from_physics()
    stand_ins.keep_films(told)
    marked = stand_ins.MarkedSteps()
    shorten_episodes()
    table = {name: training(given, code_dir, told, marked) for name, given in TRAININGS.items()}
    table["loaded"] = lambda case: loaded(case, code_dir)
    table["evaluate"] = lambda case: evaluate(case, code_dir, told)
    table["evaluate-scripted"] = lambda case: evaluate_scripted(case, code_dir, told)
    table["logger"] = lambda case: logger(case, code_dir, told)
    table["logger-without-wandb"] = lambda case: logger_without_wandb(case, code_dir, told)
    table["logger-films"] = lambda case: films(case, code_dir, told)
    return cases.recorded(stand_ins.each_alone(table), names)


def shorten_episodes() -> None:
    """From now on the checkout's environments have episodes and a seeding phase that are short enough for a gate.

    Their spaces of actions are seeded where the checkout leaves them to chance.
    """
    import envs

    official = envs.make_env

    def make_env(cfg):
        env = official(cfg)
        layer = env
        while "_max_episode_steps" not in vars(layer):
            layer = layer.env
        layer._max_episode_steps = cfg.episode_length = EPISODE
        cfg.seed_steps = SEED_STEPS
        stand_ins.seed_where_unseeded(env, cfg.seed)
        return env

    envs.make_env = make_env


def settings_of(given: Mapping, code_dir: Path) -> dict:
    return {**SMALL, **given, **on_this_machine(code_dir)}


def folder_of(settings: Mapping) -> Path:
    """Where a script leaves the files of a run."""
    return Path("logs") / settings["task"] / str(settings["seed"]) / settings["exp_name"]


def training(given: Mapping, code_dir: Path, told: stand_ins.Told, marked: stand_ins.MarkedSteps):
    """The case of train.py with some settings."""

    def case_of(case: Case) -> None:
        settings, before = settings_of(given, code_dir), marked.count
        lines = stand_ins.run_script("train", settings)
        case.record("printed", {f"line {i}": line for i, line in enumerate(lines)})
        without(told, CHANGED_BY_AGENT)
        told.into(case)
        record_files(case, folder_of(settings))
        case.record("steps marked for CUDA graphs", count=marked.count - before)
        case.random_states()

    return case_of


def record_files(case: Case, folder: Path) -> None:
    """Every file of a run: its name, and its content, of a saved agent entry by entry."""
    import torch

    files = sorted(path for path in folder.rglob("*") if path.is_file())
    case.record("files", {path.relative_to(folder).as_posix(): "there" for path in files})
    case.record("folders", {p.relative_to(folder).as_posix(): "there" for p in sorted(folder.rglob("*")) if p.is_dir()})
    for path in files:
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".pt":
            case.record(name, contents(torch.load(path, weights_only=False)))
        else:
            lines = path.read_text(encoding="utf-8").splitlines()
            case.record(name, {f"line {i}": stand_ins.masked(line) for i, line in enumerate(lines)})


def saved_agent(code_dir: Path, settings: Mapping, obs: int, actions: int, path: Path, shapes: Mapping = {}) -> Path:
    """An agent with random weights everywhere, saved as the checkout saves one.

    obs, actions: how many numbers. shapes: what else of environments the configuration is to say.
    """
    import torch
    from tdmpc2 import TDMPC2

    cfg = configured(code_dir, {**SMALL, "compile": False, **settings})
    cfg.obs_shape, cfg.action_dim, cfg.episode_length = {"state": (obs,)}, actions, EPISODE
    for name, value in shapes.items():
        setattr(cfg, name, value)
    agent = TDMPC2(cfg)
    with torch.no_grad():
        for parameter in agent.model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.2 * torch.randn_like(parameter))
    path.parent.mkdir(parents=True, exist_ok=True)
    agent.save(path)
    return path.resolve()


def loaded(case: Case, code_dir: Path) -> None:
    """What a saved agent does when another one has loaded it."""
    import torch
    from tdmpc2 import TDMPC2

    path = saved_agent(code_dir, {}, 17, 6, Path("saved/agent.pt"))
    cfg = configured(code_dir, {**SMALL, "compile": False})
    cfg.obs_shape, cfg.action_dim, cfg.episode_length = {"state": (17,)}, 6, EPISODE
    agent = TDMPC2(cfg)
    agent.load(path)
    cases.seeded(3)
    obs = torch.randn(4, 17)
    for eval_mode in (False, True):
        acts = {str(i): agent.act(o, t0=i == 0, eval_mode=eval_mode) for i, o in enumerate(obs)}
        case.record(f"does, eval {eval_mode}", acts)
    z = agent.model.encode(obs, None)
    action, _ = agent.model.pi(z, None)
    for target in (False, True):
        case.record(f"values, target {target}", q=agent.model.Q(z, action, None, return_type="all", target=target))


def evaluated(case: Case, what: str, given: Mapping, code_dir: Path, told: stand_ins.Told) -> None:
    """Runs evaluate.py with some settings, and records what it printed, wrote and filmed, or which error it raised."""
    settings = settings_of(given, code_dir)
    try:
        lines = stand_ins.run_script("evaluate", settings, {"HYDRA_FULL_ERROR": "1"})
    except Exception as error:
        case.record(f"refused {what}", error=type(error).__name__)
        return
    case.record(f"printed {what}", {f"line {i}": line for i, line in enumerate(lines)})
    told.into(case)
    record_files(case, folder_of(settings))
    case.random_states()


def evaluate(case: Case, code_dir: Path, told: stand_ins.Told) -> None:
    """evaluate.py on a saved agent, with films and without, with an agent that is not there, with no episodes."""
    path = saved_agent(code_dir, {}, 17, 6, Path("saved/agent.pt"))
    given = {"checkpoint": path, "eval_episodes": 2, "exp_name": "evaluated", "seed": 9}
    evaluated(case, "with films", given, code_dir, told)
    evaluated(case, "without", {**given, "save_video": "false", "eval_episodes": 1}, code_dir, told)
    evaluated(case, "no episodes", {**given, "eval_episodes": 0}, code_dir, told)
    evaluated(case, "no agent", {**given, "checkpoint": path.with_name("nothing.pt")}, code_dir, told)


class ScriptedTasks:
    """An environment of one task or several: rewards, successes and lengths are written down."""

    lengths, rewards = (3, 5, 4, 2), (0.5, 7.0, -2.0, 30.0)

    def __init__(self, case: Case, sizes: list[int]):
        self.case, self.sizes = case, sizes
        self.episodes = self.t = self.task = 0

    def obs(self):
        import torch

        return torch.arange(max(self.sizes), dtype=torch.float32) / 5 + self.t + self.task

    def reset(self, task_idx=None):
        self.case.record("reset", task=repr(task_idx))
        self.task, self.t, self.episodes = task_idx or 0, 0, self.episodes + 1
        return self.obs()

    def step(self, action):
        import torch

        self.case.record("step", action=action)
        self.t += 1
        done = self.t >= self.lengths[self.episodes % 4]
        success = float(done and self.episodes % 3 != 0)
        return self.obs(), torch.tensor(self.rewards[self.episodes % 4] + self.t), done, {"success": success}

    def render(self):
        import numpy as np

        return np.full((4, 4, 3), 10 * self.episodes + self.t, dtype=np.uint8)


def evaluate_scripted(case: Case, code_dir: Path, told: stand_ins.Told) -> None:
    """evaluate.py on environments with successes, for one task and for several, among them one of Meta-World."""
    import common
    import envs

    several = ["walker-walk", "mw-reach", "cup-catch"]
    sizes, actions = [4, 6, 5], [2, 3, 1]
    shapes = {"obs_shapes": sizes, "action_dims": actions, "episode_lengths": [40, 60, 50]}
    before, whole = envs.make_env, {name: list(tasks) for name, tasks in common.TASK_SET.items()}

    def scripted(cfg):
        cfg.obs_shape, cfg.action_dim, cfg.episode_length, cfg.seed_steps = {"state": (6,)}, 3, EPISODE, SEED_STEPS
        for name, value in shapes.items() if cfg.multitask else ():
            setattr(cfg, name, value)
        return ScriptedTasks(case, sizes)

    envs.make_env = scripted
    try:
        for task in ("cheetah-run", *(name for name in whole if name in ("mt30", "mt80"))):
            if task in whole:
                common.TASK_SET[task][:] = several
            path = saved_agent(code_dir, {"task": task}, 6, 3, Path(f"saved/{task}.pt"), shapes)
            given = {"checkpoint": path, "eval_episodes": 4, "exp_name": "scripted", "seed": 2, "task": task}
            evaluated(case, f"{task} with films", given, code_dir, told)
            evaluated(case, task, {**given, "save_video": "false", "eval_episodes": 3}, code_dir, told)
        for name in ("an-mt80-agent.pt", "an-mt30-agent.pt"):
            path = saved_agent(code_dir, {}, 6, 3, Path("saved") / name)
            given = {"checkpoint": path, "eval_episodes": 1, "exp_name": "other", "model_size": "null", "seed": 3}
            evaluated(case, f"{name} on one task", given, code_dir, told)
    finally:
        envs.make_env = before
        for name, tasks in whole.items():
            common.TASK_SET[name][:] = tasks


class LoggedAgent:
    """An agent that can be saved."""

    def save(self, path):
        Path(path).write_text("saved\n", encoding="utf-8")


class FailingAgent:
    """An agent that cannot be saved."""

    def save(self, path):
        raise OSError("the disk is full")


def logger_without_wandb(case: Case, code_dir: Path, told: stand_ins.Told) -> None:
    """The logger where W&B is off, or lacks a project or an entity, with every combination of files."""
    from common.logger import Logger, make_dir

    off = [{"enable_wandb": False}, {"wandb_project": "none"}, {"wandb_entity": "none"}, {"wandb_silent": True}]
    for number, given in enumerate([*off, {"save_video": False}]):
        for files in (True, False):
            overrides = {**SMALL, **WITH_WANDB, "compile": False, "exp_name": f"off-{number}-{files}"}
            overrides |= {"enable_wandb": True, "save_video": True, "save_agent": files, "save_csv": files}
            cfg = configured(code_dir, overrides | given)
            cfg.obs_shape, cfg.action_dim = {"state": (17,)}, 6
            os.environ.pop("WANDB_SILENT", None)
            kept, made = quietly(Logger, cfg)
            case.record(f"printed with {given}", {f"line {i}": line for i, line in enumerate(made)})
            without(told, CHANGED_BY_AGENT)
            told.into(case)
            said = {"video": type(kept.video).__name__, "films": cfg.save_video, "agents": cfg.save_agent}
            case.record("kept", said, silent=os.environ.get("WANDB_SILENT"))
            for step in (0, 50):
                metrics = {"step": step, "episode_reward": 2.5 * step, "episode": 1}
                _, printed = quietly(kept.log, metrics, "eval")
                case.record("printed", {f"line {i}": line for i, line in enumerate(printed)})
                kept.save_agent(LoggedAgent(), identifier=step)
            quietly(kept.finish, LoggedAgent())
            told.into(case)
            files_of(case, Path(cfg.work_dir))
    os.environ.pop("WANDB_SILENT", None)
    Path("a file").write_text("", encoding="utf-8")
    for path in ("new/folder", "new/folder", "a file", "a file/below"):
        case.record(f"folder {path}", made=str(make_dir(path)), there=Path(path).is_dir())


def films(case: Case, code_dir: Path, told: stand_ins.Told) -> None:
    """The film recorder by itself: enabled and not, with no frames, several films after each other."""
    import numpy as np
    from common.logger import VideoRecorder

    class Filmed:
        def __init__(self):
            self.pictures = 0

        def render(self):
            self.pictures += 1
            return np.full((4, 6, 3), self.pictures, dtype=np.uint8)

    cfg = configured(code_dir, {**SMALL, "compile": False, "exp_name": "films"})
    module = sys.modules["wandb"]
    for wandb, rate in ((module, None), (module, 30), (None, None)):
        env = Filmed()
        kept = VideoRecorder(cfg, wandb) if rate is None else VideoRecorder(cfg, wandb, fps=rate)
        case.record("new recorder", enabled=bool(kept.enabled), frames=len(kept.frames), fps=kept.fps)
        kept.save(3)
        kept.record(env)
        for enabled in (None, True, False, True):
            kept.init(env) if enabled is None else kept.init(env, enabled=enabled)
            for _ in range(2):
                kept.record(env)
            state = {"enabled": bool(kept.enabled), "pictures": env.pictures, "frames": len(kept.frames)}
            case.record(f"filmed, {enabled}", state)
            kept.save(7) if enabled is None else kept.save(8, key="videos/another")
            told.into(case)
        kept.frames = []
        kept.save(9)
        told.into(case)
    files_of(case, Path(cfg.work_dir))


def quietly(make, *arguments) -> tuple:
    """What `make` returns of arguments, and the lines that it printed, without colours and times."""
    import io
    from contextlib import redirect_stdout

    printed = io.StringIO()
    with redirect_stdout(printed):
        made = make(*arguments)
    return made, [stand_ins.masked(stand_ins.COLOUR.sub("", line)) for line in printed.getvalue().splitlines()]


def files_of(case: Case, folder: Path) -> None:
    found = sorted(folder.rglob("*"))
    texts = {p.relative_to(folder).as_posix(): stand_ins.masked(p.read_text()) for p in found if p.is_file()}
    case.record("files", texts)
    case.record("folders", {p.relative_to(folder).as_posix(): "there" for p in found if p.is_dir()})


def logger(case: Case, code_dir: Path, told: stand_ins.Told) -> None:
    """The logger by itself: every category, metrics of many tasks, agents under several names."""
    import io
    from contextlib import redirect_stdout

    from common import TASK_SET
    from common.logger import Logger

    cfg = configured(code_dir, {**SMALL, **WITH_WANDB, "compile": False, "exp_name": "by itself, (2nd) __time-"})
    cfg.enable_wandb = cfg.save_agent = cfg.save_video = True
    cfg.obs_shape, cfg.action_dim = {"state": (17,)}, 6
    printed = io.StringIO()
    with redirect_stdout(printed):
        kept = Logger(cfg)
        metrics = {"step": 12_000, "episode": 24, "episode_reward": 123.456, "episode_success": 0.5}
        metrics |= {"elapsed_time": 3.0, "total_loss": 1.25}
        kept.log(dict(metrics), "train")
        case.record("environment variables", silent=os.environ.get("WANDB_SILENT"))
        known = {"video": type(kept.video).__name__, "model_dir": stand_ins.masked(kept.model_dir)}
        known |= {"project": kept.project, "entity": kept.entity}
        case.record("kept", known, films=cfg.save_video, agents=cfg.save_agent)
        for step, reward in ((0, 1.5), (12_000, float("nan")), (24_000, 1000 / 3)):
            kept.log(metrics | {"step": step, "episode_reward": reward}, "eval")
            kept.save_agent(LoggedAgent(), identifier=step)
        kept.log(metrics | {"iteration": 7000}, "pretrain")
        kept.save_agent(None, identifier="no agent")
        if "mt30" in TASK_SET and "mt80" in TASK_SET:
            for name in ("mt30", "mt80"):
                cfg.task, cfg.tasks = name, TASK_SET[name]
                scores = {"iteration": 5, "episode_reward+nobody's task": 77.0, "steps+walker-walk": 5.0}
                scores |= {f"episode_reward+{task}": 3.0 * i for i, task in enumerate(TASK_SET[name])}
                scores |= {f"episode_success+{task}": i / 80 for i, task in enumerate(TASK_SET[name])}
                scores |= {"episode_reward+walker-run": float("nan"), "elapsed_time": 4.0}
                scores |= {f"episode_{what}+mw-reach": float("nan") for what in ("reward", "success")}
                kept.pprint_multitask(scores, cfg)
                case.record(f"averages of {name}", {k: v for k, v in scores.items() if "avg" in k})
        try:
            kept.log(metrics, "no such category")
        except Exception as error:
            case.record("refused", error=type(error).__name__)
        kept.finish(LoggedAgent())
        kept.finish(FailingAgent())
        kept.finish()
    lines = [stand_ins.masked(stand_ins.COLOUR.sub("", line)) for line in printed.getvalue().splitlines()]
    case.record("printed", {f"line {i}": line for i, line in enumerate(lines)})
    without(told, CHANGED_BY_AGENT)
    told.into(case)
    folder = Path(cfg.work_dir)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    case.record("files", {p.relative_to(folder).as_posix(): stand_ins.masked(p.read_text()) for p in files})
