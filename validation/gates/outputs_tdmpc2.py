"""The gate `outputs` of TD-MPC2: what a user of the scripts reads, watches and keeps is part of the comparison.

train.py and evaluate.py themselves are run as users run them, with small networks and short episodes, on dm_control
physics. Compared are what they print, every file with its content (the rows of eval.csv, the entries of every saved
agent), what W&B is given, the frames of films, and what a saved agent does when it is loaded; times are left out.
A stand-in takes W&B's place, another the renderer's (see `stand_ins`).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from tdmpc2_lean.validation.gates import cases, stand_ins
from tdmpc2_lean.validation.gates.cases import Case, Lacking
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
    """What `cases.recorded` returns of this gate's cases; `evaluate` needs the agent that `train` saves."""
    told = stand_ins.Told()
    stand_ins.wandb_stand_in(told)
    stand_ins.draw_from_physics()
    stand_ins.keep_films(told)
    marked = stand_ins.MarkedSteps()
    shorten_episodes()
    table = {name: training(given, code_dir, told, marked) for name, given in TRAININGS.items()}
    table["loaded"] = lambda case: loaded(case, code_dir)
    table["evaluate"] = lambda case: evaluate(case, code_dir, told)
    table["logger"] = lambda case: logger(case, code_dir, told)
    return cases.recorded(table, names)


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
        settings = settings_of(given, code_dir)
        lines = stand_ins.run_script("train", settings)
        case.record("printed", {f"line {i}": line for i, line in enumerate(lines)})
        without(told, CHANGED_BY_AGENT)
        told.into(case)
        record_files(case, folder_of(settings))
        case.record("steps marked for CUDA graphs", count=marked.count)
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


def saved_agent() -> Path:
    folder = folder_of(SMALL | WITH_WANDB) / "models"
    path = folder / "final.pt"
    if not path.exists():
        raise Lacking("a saved agent, models/final.pt, of the run before")
    return path


def loaded(case: Case, code_dir: Path) -> None:
    """What the saved agent does when another process's agent has loaded it."""
    import torch
    from tdmpc2 import TDMPC2

    cfg = configured(code_dir, {**SMALL, "compile": False})
    cfg.obs_shape, cfg.action_dim, cfg.episode_length = {"state": (17,)}, 6, EPISODE
    agent = TDMPC2(cfg)
    agent.load(saved_agent())
    cases.seeded(3)
    obs = torch.randn(4, 17)
    for eval_mode in (False, True):
        acts = {str(i): agent.act(o, t0=i == 0, eval_mode=eval_mode) for i, o in enumerate(obs)}
        case.record(f"does, eval {eval_mode}", acts)
    z = agent.model.encode(obs, None)
    action, _ = agent.model.pi(z, None)
    for target in (False, True):
        case.record(f"values, target {target}", q=agent.model.Q(z, action, None, return_type="all", target=target))


def evaluate(case: Case, code_dir: Path, told: stand_ins.Told) -> None:
    """evaluate.py on the saved agent, with films, without, and without an agent to load."""
    path = saved_agent().resolve()
    given = {"checkpoint": path, "eval_episodes": 2, "exp_name": "evaluated", "seed": 9}
    for name, more in (("with films", {}), ("without", {"save_video": "false", "eval_episodes": 1})):
        settings = settings_of({**given, **more}, code_dir)
        lines = stand_ins.run_script("evaluate", settings)
        case.record(f"printed {name}", {f"line {i}": line for i, line in enumerate(lines)})
        told.into(case)
        record_files(case, folder_of(settings))
        case.random_states()


def logger(case: Case, code_dir: Path, told: stand_ins.Told) -> None:
    """The logger by itself: every category, metrics of many tasks, agents under several names."""
    import io
    from contextlib import redirect_stdout

    from common import TASK_SET
    from common.logger import Logger

    class LoggedAgent:
        def save(self, path):
            Path(path).write_text("saved\n", encoding="utf-8")

    cfg = configured(code_dir, {**SMALL, **WITH_WANDB, "compile": False, "exp_name": "by itself"})
    cfg.enable_wandb = cfg.save_agent = cfg.save_video = True
    cfg.obs_shape, cfg.action_dim = {"state": (17,)}, 6
    printed = io.StringIO()
    with redirect_stdout(printed):
        kept = Logger(cfg)
        metrics = {"step": 12_000, "episode": 24, "episode_reward": 123.456, "episode_success": 0.5}
        metrics |= {"elapsed_time": 3.0, "total_loss": 1.25}
        kept.log(dict(metrics), "train")
        for step, reward in ((0, 1.5), (12_000, float("nan")), (24_000, 1000 / 3)):
            kept.log(metrics | {"step": step, "episode_reward": reward}, "eval")
            kept.save_agent(LoggedAgent(), identifier=step)
        kept.log(metrics | {"iteration": 7000}, "pretrain")
        kept.save_agent(None, identifier="no agent")
        if "mt30" in TASK_SET and "mt80" in TASK_SET:
            for name in ("mt30", "mt80"):
                cfg.task, cfg.tasks = name, TASK_SET[name]
                scores = {f"episode_reward+{task}": 3.0 * i for i, task in enumerate(TASK_SET[name])}
                scores |= {f"episode_success+{task}": i / 80 for i, task in enumerate(TASK_SET[name])}
                scores["iteration"] = 5
                kept.pprint_multitask(scores, cfg)
                case.record(f"averages of {name}", {k: v for k, v in scores.items() if "avg" in k})
        try:
            kept.log(metrics, "no such category")
        except Exception as error:
            case.record("refused", error=type(error).__name__)
        kept.finish(LoggedAgent())
    lines = [stand_ins.masked(stand_ins.COLOUR.sub("", line)) for line in printed.getvalue().splitlines()]
    case.record("printed", {f"line {i}": line for i, line in enumerate(lines)})
    without(told, CHANGED_BY_AGENT)
    told.into(case)
    folder = Path(cfg.work_dir)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    case.record("files", {p.relative_to(folder).as_posix(): stand_ins.masked(p.read_text()) for p in files})
