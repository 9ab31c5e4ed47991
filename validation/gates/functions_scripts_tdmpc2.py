"""Cases of the gate `functions` on what scripts do beside training: what they refuse, which trainer they take, in which
order they read data, scores of several episodes (see `functions_tdmpc2`).

A guard that is gone changes nothing where everything is right, a median of two is their mean, and a folder may list its
files in order by chance: here settings and checkpoints are wrong, evaluations have three episodes, folders any order.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

from tdmpc2_lean.validation.gates import functions_loop_tdmpc2 as loops
from tdmpc2_lean.validation.gates import stand_ins
from tdmpc2_lean.validation.gates.cases import Case, Lacking
from tdmpc2_lean.validation.gates.defaults_tdmpc2 import on_this_machine
from tdmpc2_lean.validation.gates.functions_tdmpc2 import make_agent, refused

TINY = {"task": "cartpole-balance", "compile": "false", "enable_wandb": "false", "seed": 4, "exp_name": "scripts"}


def table(code_dir: Path) -> dict:
    """The cases of this module."""
    return {
        "refusals": lambda case: refusals(case, code_dir),
        "trainers": lambda case: trainers(case, code_dir),
        "data-files": lambda case: data_files(case, code_dir),
        "scores": lambda case: scores(case, code_dir),
        "evaluate-one-task": lambda case: evaluate(case, code_dir, {}),
        "evaluate-many-tasks": lambda case: evaluate(case, code_dir, {"task": "mt30"}),
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
                with suppress(Accepted, SystemExit):  # Hydra makes the latter of the script's errors
                    stand_ins.run_script(script, given)
                case.record(f"{script}.py with {said}", accepted=len(went_on))
                went_on.clear()


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


# -------------------------------------------------------------------------------------------------------------- data


def data_files(case: Case, code_dir: Path) -> None:
    """In which order the offline trainer reads files that their folder lists in any order."""
    import torch
    from trainer import offline_trainer

    needs_sets()
    names = ["a.pt", "b.pt", "c.pt", "d.pt", "e.pt"]
    folder = Path("files")
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"")
    quiet = loops.Quiet(case)

    class Loading(loops.ScriptedBuffer):
        def __init__(self, cfg):
            super().__init__(quiet)

        def load(self, td):
            case.record("buffer.load", name=td.name)
            self.num_eps += 1

    def load(path, **_):
        return SimpleNamespace(name=Path(path).name, shape=(1, 501))

    cfg = loops.configured(code_dir, {"task": "mt30", "data_dir": str(folder)})
    cfg.seed_steps, cfg.episode_length = 18, 8
    given = {"env": loops.ScriptedEnv(quiet, False), "agent": loops.ScriptedAgent(quiet), "buffer": None}
    trainer = offline_trainer.OfflineTrainer(cfg=cfg, logger=loops.ScriptedLogger(quiet, False), **given)
    for order in ([3, 0, 4, 1, 2], [4, 3, 2, 1, 0]):
        listed = [str(folder / names[at]) for at in order]
        listing = {"glob": lambda *_, listed=listed, **__: list(listed)} if hasattr(offline_trainer, "glob") else {}
        with replaced(offline_trainer, Buffer=Loading, **listing), replaced(torch, load=load):
            trainer._load_dataset()


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
