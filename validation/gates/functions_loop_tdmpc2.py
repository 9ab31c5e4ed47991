"""Cases of the gate `functions` on the replay buffer and on the trainers' loops (see `functions_tdmpc2`)."""

from pathlib import Path

from tdmpc2_lean.validation.gates import names_tdmpc2
from tdmpc2_lean.validation.gates.cases import Case, Lacking
from tdmpc2_lean.validation.gates.functions_tdmpc2 import SMALL, refused
from tdmpc2_lean.validation.gates.stand_ins import Clock, StandInModel
from tdmpc2_lean.validation.gates.subjects import read_config

# Settings, whether episodes end early, and whether there are films
LOOPS = {
    "loop": ({"eval_freq": 13, "eval_episodes": 3}, False, False),
    "loop-films": ({"eval_freq": 20, "eval_episodes": 2, "save_video": True}, False, True),
    "loop-episodic": ({"eval_freq": 17, "eval_episodes": 4, "episodic": True}, True, False),
    "loop-termination": ({"eval_freq": 50, "eval_episodes": 1}, True, False),
    "loop-every-step": ({"eval_freq": 1, "eval_episodes": 1, "steps": 23}, False, False),
}


def table(code_dir: Path) -> dict:
    """The cases of this module."""
    found = {"buffer": lambda case: buffer(case, code_dir, False)}
    found["buffer-tasks"] = lambda case: buffer(case, code_dir, True)
    found["buffer-short-episodes"] = lambda case: short_episodes(case, code_dir)
    found["buffer-storage"] = lambda case: storage(case, code_dir)
    found["trainer"] = lambda case: trainer_itself(case, code_dir)
    found["buffer-no-terminations"] = lambda case: no_terminations(case, code_dir)
    for name, given in LOOPS.items():
        found[name] = lambda case, given=given: loop(case, code_dir, *given)
    found["loop-offline"] = lambda case: offline(case, code_dir)
    return found


def configured(code_dir: Path, overrides: dict):
    from tdmpc2_lean.validation.gates.trace_tdmpc2 import configuration

    return configuration(code_dir, Path.cwd(), SMALL | overrides)


def episode(length: int, task: int | None = None, kind: str = "state"):
    """A random episode as the trainer stores it: one row more than it has steps, the first without action."""
    import torch
    from tensordict import TensorDict

    rows = length + 1
    obs = torch.randn(rows, 5) if kind == "state" else torch.randint(0, 256, (rows, 3, 4, 4), dtype=torch.uint8)
    action, reward = torch.rand(rows, 2), torch.randn(rows)
    action[0], reward[0] = float("nan"), float("nan")
    terminated = torch.zeros(rows)
    terminated[-1], terminated[0] = float(length % 2), float("nan")
    values = {"obs": obs, "action": action, "reward": reward, "terminated": terminated}
    if task is not None:
        values["task"] = torch.full((rows,), task, dtype=torch.int64)
    return TensorDict(values, batch_size=(rows,))


def record_samples(case: Case, buffer, what: str, count: int = 3) -> None:
    """Records some samples, all rows as they lie, and the random states."""
    for number in range(count):
        batch = names_tdmpc2.batch(tuple(buffer.sample()))
        layout = {f"{k} lies": f"{v.is_contiguous()} {v.device}" for k, v in batch.items() if hasattr(v, "dtype")}
        case.record(f"sample {number} {what}", batch | layout)
    rows = buffer._buffer[:]
    case.record(f"rows {what}", {key: rows[key] for key in sorted(rows.keys()) if hasattr(rows[key], "dtype")})
    case.record(f"count {what}", episodes=buffer.num_eps, capacity=buffer.capacity, rows=len(buffer._buffer))
    case.random_states()


def buffer(case: Case, code_dir: Path, with_tasks: bool) -> None:
    """Slices of one episode, of a buffer at its capacity, and of one that has begun to overwrite."""
    import common
    import torch

    if with_tasks and "mt30" not in common.TASK_SET:
        raise Lacking("the task set mt30")
    from common.buffer import Buffer

    task_of = {True: 4, False: None}[with_tasks]
    for horizon, capacity in ((3, 60), (1, 45), (5, 60)):
        given = {"horizon": horizon, "buffer_size": capacity, "steps": 1000, "batch_size": 32}
        cfg = configured(code_dir, given | ({"task": "mt30"} if with_tasks else {}))
        held = Buffer(cfg)
        case.record("new buffer", capacity=held.capacity, episodes=held.num_eps)
        whole = episode(horizon + 6, task_of)
        case.record("add returns", count=held.add(whole), names=sorted(whole.keys()))
        record_samples(case, held, "of one episode")
        while held.num_eps * 15 < capacity - 15:
            held.add(episode(14, task_of))
        record_samples(case, held, "of some episodes")
        for length in (capacity - len(held._buffer) - 1, 9, 20, horizon):
            if length > horizon:
                held.add(episode(length, task_of))
                record_samples(case, held, f"after {length} steps more")
    many = Buffer(configured(code_dir, {"buffer_size": 80, "steps": 70, "batch_size": 16}))
    if hasattr(many, "load"):
        loaded = torch.stack([episode(9, task_of) for _ in range(3)])
        case.record("load returns", count=many.load(loaded))
        record_samples(case, many, "that was loaded", 2)
        case.record("load returns", count=many.load(torch.stack([episode(9, task_of) for _ in range(5)])))
        record_samples(case, many, "that was loaded twice", 2)
    else:
        case.lack("Buffer.load")
    frames = Buffer(configured(code_dir, {"buffer_size": 40, "batch_size": 8}))
    frames.add(episode(12, task_of, "frames"))
    record_samples(case, frames, "of frames")


def no_terminations(case: Case, code_dir: Path) -> None:
    """Episodes that say nothing of terminations, as in upstream's published data sets."""
    from common.buffer import Buffer

    if "episodic" not in read_config(code_dir):
        raise Lacking("terminations")
    held = Buffer(configured(code_dir, {"buffer_size": 60}))
    held.add(episode(20).exclude("terminated"))
    for number in range(2):
        obs, action, reward, terminated, _ = held.sample()
        case.record(f"sample {number}", obs=obs, action=action, reward=reward, terminated=terminated)


def short_episodes(case: Case, code_dir: Path) -> None:
    """Episodes too short for a slice lie between others, for one task and for many; rows are added between samples."""
    from common.buffer import Buffer

    for task in ("cheetah-run", "mt30"):
        cfg = configured(code_dir, {"buffer_size": 70, "batch_size": 24, "horizon": 4})
        cfg.multitask = task == "mt30"
        held = Buffer(cfg)
        for length in (9, 2, 12, 1, 4, 3, 5):
            held.add(episode(length, 3 if cfg.multitask else None))
            record_samples(case, held, f"after an episode of {length}", 2)
    only_short = Buffer(configured(code_dir, {"buffer_size": 70, "batch_size": 4, "horizon": 4}))
    only_short.add(episode(2))
    refused(case, "a sample of episodes that are too short", only_short.sample)


def storage(case: Case, code_dir: Path) -> None:
    """What a buffer says of its size, and where it lies; for rows of one tensor and of several."""
    import io
    from contextlib import redirect_stdout

    from common.buffer import Buffer
    from tensordict import TensorDict

    rows = episode(11)
    several = rows.clone()
    several["obs"] = TensorDict({"a": rows["obs"], "b": rows["obs"].double()[:, :2]}, batch_size=(12,))
    for name, td in (("one tensor", rows), ("several", several)):
        for size in (123_456_789, 2_000_000_000):
            held, printed = Buffer(configured(code_dir, {"buffer_size": size, "steps": 10**9})), io.StringIO()
            with redirect_stdout(printed):
                made = held._init(td)
            lines = printed.getvalue().splitlines()
            case.record(f"storage for {name}", {f"line {i}": line for i, line in enumerate(lines)})
            sizes = {"rows": made._storage.max_size, "kind": type(made._storage).__name__, "batch": made._batch_size}
            case.record(f"where {name} lies", sizes, device=str(made._storage.device), told=str(held._storage_device))


def trainer_itself(case: Case, code_dir: Path) -> None:
    """What a trainer is made of, rows of several kinds, and what the base class leaves to others."""
    import torch
    from trainer.base import Trainer
    from trainer.online_trainer import OnlineTrainer

    cfg = configured(code_dir, {})
    cfg.seed_steps, cfg.episode_length = 18, 8
    parts = {"env": ScriptedEnv(case, False), "agent": ScriptedAgent(case), "buffer": ScriptedBuffer(case)}
    parts["logger"] = ScriptedLogger(case, False)
    base = Trainer(cfg, *parts.values())
    case.record("parts", {name: getattr(base, name) is part for name, part in parts.items()}, cfg=base.cfg is cfg)
    refused(case, "evaluation by nobody", base.eval)
    refused(case, "training by nobody", base.train)
    made = OnlineTrainer(cfg=cfg, **parts)
    case.record("counts", step=made._step, episode=made._ep_idx)
    obs, action = torch.tensor([1.0, 2.0]), torch.tensor([0.5, -0.5])
    given = {
        "an observation alone": (obs,),
        "with an action": (obs, action),
        "a whole row": (obs, action, torch.tensor(3.0), torch.tensor(1.0)),
        "a table of observations": ({"a": obs, "b": obs.double()}, action, torch.tensor(3.0), torch.tensor(1.0)),
        "a table of rows": ({"a": obs.unsqueeze(0)}, action, torch.tensor(3.0), torch.tensor(1.0)),
    }
    for name, arguments in given.items():
        try:
            td = made.to_td(*arguments)
        except Exception as error:
            case.record(name, error=type(error).__name__)
            continue
        flat = td.flatten_keys(".")
        kinds = {f"{key} is": f"{flat[key].dtype} {flat[key].device}" for key in sorted(flat.keys())}
        case.record(name, {key: flat[key] for key in sorted(flat.keys())} | kinds, size=repr(td.batch_size))


class ScriptedEnv:
    """An environment whose episodes are written down: lengths, terminations and successes."""

    lengths = (7, 5, 9, 6, 8)

    def __init__(self, case: Case, ends_early: bool):
        self.case, self.ends_early = case, ends_early
        self.episodes = self.t = self.drawn = 0

    def reset(self, *args, **kwargs):
        import torch

        self.case.record("env.reset", args=args, kwargs=sorted(kwargs.items()))
        self.episodes, self.t = self.episodes + 1, 0
        return torch.tensor([self.episodes, 0.0, 1.5])

    def rand_act(self):
        import torch

        self.drawn += 1
        return torch.tensor([self.drawn / 1000, -0.5])

    def step(self, action):
        import torch

        self.case.record("env.step", action=action)
        self.t += 1
        done = self.t >= self.lengths[self.episodes % len(self.lengths)]
        ended = float(done and self.ends_early and self.episodes % 2 == 1)
        info = {"success": float(self.episodes % 3 == 0), "terminated": torch.tensor(ended)}
        obs = torch.tensor([self.episodes, self.t, 1.5])
        return obs, torch.tensor(0.1 * self.t + self.episodes), done, info

    def render(self):
        return (self.episodes, self.t)


class ScriptedAgent:
    """An agent that tells how it is asked."""

    model = StandInModel("stand-in")

    def __init__(self, case: Case):
        self.case, self.acts, self.updates = case, 0, 0

    def act(self, obs, t0=False, eval_mode=False, task=None):
        import torch

        self.case.record("agent.act", obs=obs, t0=t0, eval_mode=eval_mode, task=task)
        self.acts += 1
        return torch.tensor([0.25, -self.acts / 1000])

    def update(self, _):
        import torch

        self.case.record("agent.update")
        self.updates += 1
        return {"total_loss": torch.tensor(1.0 / self.updates), "grad_norm": torch.tensor(2.0)}


class ScriptedBuffer:
    """A buffer that tells what it is given."""

    def __init__(self, case: Case):
        self.case, self.num_eps = case, 0

    def add(self, td):
        self.case.record("buffer.add", {key: td[key] for key in sorted(td.keys())}, size=repr(td.batch_size))
        self.num_eps += 1
        return self.num_eps


class ScriptedLogger:
    """A logger, and its film recorder, that tell what they are given."""

    def __init__(self, case: Case, films: bool):
        self.case = case
        self.video = self if films else None

    def log(self, metrics, category="train"):
        self.case.record(f"logger.log {category}", metrics)

    def pprint_multitask(self, metrics, cfg):
        self.case.record("logger.pprint_multitask", metrics)

    def save_agent(self, agent=None, identifier="final"):
        self.case.record("logger.save_agent", agent=type(agent).__name__, identifier=identifier)

    def finish(self, agent=None):
        self.case.record("logger.finish", agent=type(agent).__name__)

    def init(self, env, enabled=True):
        self.case.record("video.init", enabled=enabled, picture=env.render())

    def record(self, env):
        self.case.record("video.record", picture=env.render())

    def save(self, step, key="videos/eval_video"):
        self.case.record("video.save", step=step, key=key)


def loop(case: Case, code_dir: Path, overrides: dict, ends_early: bool, films: bool) -> None:
    """The online trainer with a stand-in for everything around it: what it asks of whom, in order."""
    from trainer import online_trainer

    if "episodic" in overrides and "episodic" not in read_config(code_dir):
        raise Lacking("terminations")
    cfg = configured(code_dir, {"steps": 60} | overrides)
    cfg.seed_steps, cfg.episode_length = 18, 8
    given = {"env": ScriptedEnv(case, ends_early), "agent": ScriptedAgent(case), "buffer": ScriptedBuffer(case)}
    online_trainer.time = Clock()
    trainer = online_trainer.OnlineTrainer(cfg=cfg, logger=ScriptedLogger(case, films), **given)
    try:
        trainer.train()
    except ValueError as error:
        case.record("refused", reason=str(error))


def offline(case: Case, code_dir: Path) -> None:
    """The offline trainer on a small data set, with stand-ins for environment, agent, buffer and logger."""
    import common
    import torch

    if "mt30" not in common.TASK_SET:
        raise Lacking("the task set mt30")
    from trainer import offline_trainer

    class LoadedBuffer(ScriptedBuffer):
        def __init__(self, cfg):
            super().__init__(case)
            sizes = {key: getattr(cfg, key) for key in ("buffer_size", "steps", "episode_length")}
            case.record("buffer for data", sizes)

        def load(self, td):
            case.record("buffer.load", reward=td["reward"])
            self.num_eps += len(td)
            return self.num_eps

    folder = Path("data")
    folder.mkdir(exist_ok=True)
    for number in range(2):
        torch.save(torch.stack([episode(500, number) for _ in range(2)]), folder / f"{number}.pt")
    cfg = configured(code_dir, {"task": "mt30", "steps": 10_003, "eval_freq": 6000, "eval_episodes": 2})
    cfg.data_dir, cfg.seed_steps, cfg.episode_length = str(folder), 18, 8
    quiet = Quiet(case)
    original, offline_trainer.Buffer = offline_trainer.Buffer, LoadedBuffer
    offline_trainer.time = Clock()
    try:
        trainer = offline_trainer.OfflineTrainer(
            cfg=cfg,
            env=ScriptedEnv(quiet, False),
            agent=ScriptedAgent(quiet),
            buffer=None,
            logger=ScriptedLogger(case, False),
        )
        trainer.train()
    finally:
        offline_trainer.Buffer = original
    case.record("asked for", dict(quiet.counts))
    (folder / "1.pt").unlink()
    (folder / "0.pt").unlink()
    try:
        trainer.train()
    except AssertionError as error:
        case.record("without data", reason=str(error))


class Quiet:
    """Counts events where there are tens of thousands, by what they are and their values."""

    def __init__(self, case: Case):
        self.case, self.counts = case, {}

    def record(self, what: str, values=None, **more) -> None:
        import zlib

        text = repr((what, sorted((k, str(v)) for k, v in {**(values or {}), **more}.items())))
        self.counts[what] = zlib.crc32(text.encode(), self.counts.get(what, 0))
        self.counts[f"{what} count"] = self.counts.get(f"{what} count", 0) + 1
