"""Cases of the gate `functions` of DreamerV3 on clocks, training loops and what main makes."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from tdmpc2_lean.validation.gates import stand_ins
from tdmpc2_lean.validation.gates.cases import Case
from tdmpc2_lean.validation.gates.functions_dreamerv3 import raised
from tdmpc2_lean.validation.gates.functions_env_dreamerv3 import Clockwork, ScriptSteps, described, policy_of, steps_of


def table(code_dir: Path) -> dict[str, Callable[[Case], None]]:
    from tdmpc2_lean.validation.gates import functions_env_dreamerv3, functions_replay_dreamerv3

    return {
        **functions_replay_dreamerv3.table(code_dir),
        **functions_env_dreamerv3.table(code_dir),
        "clocks": clocks,
        "made-by-main": lambda case: made_by_main(case, code_dir),
        "train": lambda case: loop(case, "train"),
        "train-otherwise": lambda case: loop(
            case, "train", {"log_every": 3, "report_every": 4, "save_every": 5, "replay": 0, "from_checkpoint": ""}
        ),
        "eval-only": lambda case: loop(case, "eval_only", {"from_checkpoint": "given", "steps": 50}),
        "train-eval": lambda case: loop(case, "train_eval"),
    }


def clocks(case: Case) -> None:
    """When clocks are due: off, always, every few seconds; skipped, first, and those that several processes share."""
    from embodied.core import clock as official

    original, official.time = official.time, Clockwork()
    try:
        for every in (0, -1, 1, 3, 2.5):
            for first in (False, True):
                made = official.LocalClock(every, first), official.GlobalClock(every, first)
                due = [[one(step, skip=step in (4, 5)) for step in range(12)] for one in made]
                case.record(f"every {every}, first {first}", due=due, last=repr(made[0].prev))
        case.record("by default", due=[official.LocalClock(2)() for _ in range(2)])
        official.setup(True, 0, 1, 0, "")
        case.record("alone", client=repr(official.CLIENT), replica=repr(official.REPLICA))
        shared(case, official)
    finally:
        official.time = original
        official.CLIENT = official.REPLICA = None


def shared(case: Case, official) -> None:
    """The clocks of several processes, with stand-ins for the connection: threads that call the server's functions."""
    from concurrent.futures import ThreadPoolExecutor

    bound, told = {}, []

    class Server:
        def __init__(self, port, name):
            told.append((port, name))

        def bind(self, name, function, workers):
            bound[name] = function
            told.append((name, workers))

        def start(self, block):
            told.append(block)

    class Client:
        def __init__(self, addr, name):
            told.append((addr, name))

        def connect(self):
            told.append("connects")

        def __getattr__(self, name):
            def call(*args):
                told.append((name, args))
                return SimpleNamespace(result=lambda: (name, args))

            return call

    original, official.portal = official.portal, SimpleNamespace(Server=Server, Client=Client)
    try:
        official.setup(True, 1, 2, 99, "address")
        case.record(
            "set up", told=list(told), replica=official.REPLICA, twice=raised(lambda: official.setup(True, 0, 2, 1, ""))
        )
        told.clear()
        for first in (False, True):
            made = official.GlobalClock(5, first)
            case.record("asked", answers=repr([made(1), made(2, skip=True), made(3)]), told=list(told))
        with ThreadPoolExecutor(2) as pool:
            for every in (0, -1, 3, 2):
                numbers = list(pool.map(lambda r, e=every: bound["create"](r, e), range(2)))
                due = []
                for turn in range(8):
                    due.append(
                        list(
                            pool.map(lambda r, t=turn, n=numbers[0]: bound["should"](r, n, t == 5 and r == 1), range(2))
                        )
                    )
                case.record(f"shared, every {every}", numbers=numbers, due=due)
    finally:
        official.portal = original


def made_by_main(case: Case, code_dir: Path) -> None:
    """Replay, stream, environment and logger as main makes them for many settings."""
    import elements
    import numpy as np
    from dreamerv3 import main

    from tdmpc2_lean.validation.gates.defaults_dreamerv3 import configured

    for given in (
        {"replay.size": 3000.0}, {"batch_length": 9, "consec_train": 2, "replay_context": 3, "replay.online": False,
         "replay.size": 4000.0},
        {"replay.fracs": {"uniform": 0.5, "priority": 0.25, "recency": 0.25}, "replay.size": 2000.0, "replicas": 3,
         "replica": 2},
    ):  # fmt: skip
        config = configured(code_dir, ["dmc_proprio"], {"logdir": "logdir", **given})
        for mode in ("train", "eval", "report"):
            small = config.update({"replay.size": config.replay.size * (1 if mode == "train" else 10)})
            held = main.make_replay(small, f"{mode}-folder", mode)
            facts = {k: repr(getattr(held, k)) for k in ("length", "capacity", "online", "chunksize")}
            parts = getattr(held.sampler, "selectors", [held.sampler])
            facts |= {"directory": str(held.directory), "sampler": [type(x).__name__ for x in parts]}
            facts |= {
                f"part {i}": sorted(
                    (k, repr(v)[:60])
                    for k, v in vars(x).items()
                    if k in ("exponent", "initial", "zero_on_sample", "maxfrac")
                )
                for i, x in enumerate(parts)
            }
            fractions = np.asarray(getattr(held.sampler, "fractions", np.zeros(1)))
            probs = [x.uprobs for x in parts if hasattr(x, "uprobs")]
            case.record(f"replay {mode} {given}", facts, fractions=fractions, probs=probs[0][:50] if probs else 0)
            stream = main.make_stream(config, held, mode)
            wanted = ("length", "consec", "prefix", "strict", "contiguous")
            case.record("stream", {k: repr(getattr(stream, k)) for k in wanted},
                        batch=stream.source.nextfn.args)  # fmt: skip
    case.record("refused", error=raised(lambda: main.make_replay(configured(code_dir, [], {"replay.size": 10.0}), "x")))
    half = {
        "replay.fracs": {"uniform": 0.5, "priority": 0.25, "recency": 0.25},
        "replay.size": 2000.0,
        "jax.compute_dtype": "float16",
    }
    case.record("refused", error=raised(lambda: main.make_replay(configured(code_dir, [], half), "x")))
    wrapped = main.wrap_env(ScriptSteps(case), None)
    steps_of(
        case,
        "wrapped",
        wrapped,
        [{"reset": np.bool_(i == 0), "action": np.float32([3 * i - 3, i]), "choice": np.int32(i)} for i in range(3)],
    )
    case.record("spaces", described(wrapped.obs_space) | described(wrapped.act_space))
    layers, env = [], wrapped
    while hasattr(env, "env"):
        layers.append(type(env).__name__)
        env = env.env
    case.record("layers", layers=layers)
    for outputs, task in ((["jsonl"], "dmc_walker_walk"), (["jsonl", "scope"], "atari_pong"), (["scope"], "bsuite_x")):
        config = configured(code_dir, [], {"logdir": "logdir", "task": task, "logger.outputs": outputs})
        logger = main.make_logger(config)
        told = [
            sorted(
                (k, str(v))
                for k, v in vars(x).items()
                if isinstance(v, (str, int, float)) or "pattern" in k or "path" in k.lower()
            )
            for x in logger.outputs
        ]
        case.record(
            "logger",
            kinds=[type(x).__name__ for x in logger.outputs],
            told=[stand_ins.masked(repr(x)) for x in told],
            multiplier=logger.multiplier,
            step=int(logger.step),
        )
    case.record(
        "refused",
        error=raised(
            lambda: main.make_logger(configured(code_dir, [], {"logdir": "logdir", "logger.outputs": ["nothing"]}))
        ),
    )
    for task, given in (("dummy_disc", {}), ("dummy_cont", {})):
        config = configured(code_dir, [], {"task": task, **given})
        try:
            env = main.make_env(config, 1)
        except ImportError as error:
            case.record("cannot be made", task=task, error=str(error))
            continue
        case.record(f"spaces of {task}", described(env.obs_space) | described(env.act_space))
    seen = []
    import sys
    import types

    module = types.ModuleType("embodied.envs.dmlab")
    module.DMLab = lambda task, **more: seen.append((task, {k: str(v) for k, v in more.items()})) or ScriptSteps()
    sys.modules["embodied.envs.dmlab"] = module
    main.make_env(configured(code_dir, ["dmlab"], {"seed": 5}), 3, repeat=9)
    case.record("given to an environment", seen=seen, index=elements.Path("x").name)
    del sys.modules["embodied.envs.dmlab"]


class Asked:
    """Stands in for agent, replay, logger and clocks of a training loop: tells what it is asked."""

    def __init__(self, case: Case, name: str, **answers):
        self.case, self.name, self.answers = case, name, answers

    def __getattr__(self, attribute):
        if attribute.startswith("__"):
            raise AttributeError(attribute)

        def call(*args, **more):
            self.case.record(f"{self.name}.{attribute}", args=shown(args), more=shown(more))
            answer = self.answers.get(attribute)
            return answer(*args, **more) if callable(answer) else answer

        return call


def shown(value):
    """A text of what a stand-in is given, without addresses."""
    import numpy as np

    if isinstance(value, dict):
        return {k: shown(v) for k, v in sorted(value.items()) if not k.startswith(("usage/", "fps/", "timer"))}
    if isinstance(value, (tuple, list)):
        return [shown(v) for v in value]
    if isinstance(value, np.ndarray) or isinstance(value, np.generic):
        return (str(value.dtype), value.tolist())
    if isinstance(value, (int, float, str, bool, type(None))):
        return value
    return type(value).__name__


LOOP = {
    "steps": 45, "train_ratio": 2.0, "log_every": 15, "report_every": 9, "save_every": 25, "envs": 2, "eval_envs": 2,
    "eval_eps": 3, "report_batches": 2, "from_checkpoint": "", "debug": True,
    "usage": {"psutil": False, "nvsmi": False},
    "batch_size": 2, "batch_length": 3, "report_length": 2, "consec_train": 1, "consec_report": 2, "replay_context": 1,
    "logdir": "loop", "replica": 0, "replicas": 1, "from_checkpoint_regex": ".*", "replay": 1,
    "resume_exact": False, "save_on_exit": False, "clock": "seconds",
}  # fmt: skip


def loop(case: Case, script: str, given: dict | None = None) -> None:
    """A training or evaluation loop with stand-ins for everything around it: what it asks of whom, in order."""
    import elements
    import embodied
    import numpy as np
    from embodied.core import clock

    args = {**LOOP, **(given or {})}
    args = SimpleNamespace(**args)
    count = {"updates": 0}

    def train(carry, batch):
        count["updates"] += 1
        outs = {"replay": {"x": count["updates"]}} if args.replay and count["updates"] > 2 else {}
        return carry + 1, outs, {"loss": np.float32(1 / count["updates"])} if count["updates"] > 1 else {}

    policies = policy_of(Case())
    agent = Asked(
        case, "agent", train=train, report=lambda carry, batch: (carry + 1, {"value": np.float32(carry)}),
        init_train=lambda size: 10 * size, init_report=lambda size: 100 * size, init_policy=lambda size: 0,
        policy=lambda carry, obs, mode: policies(carry, obs), stream=lambda stream: stream, save=lambda: {"saved": 1},
    )  # fmt: skip

    class Replayed(Asked):
        size = 0

        def __len__(self):
            return max(0, self.size - 4) * bool(args.batch_size)

        def add(self, tran, worker):
            self.size += 1
            self.case.record(f"{self.name}.add", tran=shown(tran), worker=worker)

    def make_replay(name):
        return Replayed(case, name, stats=lambda: {"size": 3}, save=lambda: None, update=lambda data: None)

    class Output:
        def __call__(self, metrics):
            for step, name, value in metrics:
                if not name.startswith(("usage/", "fps/", "timer")):
                    case.record("logged", step=step, name=name, value=shown(np.asarray(value)))

    def make_logger():
        logger = elements.Logger(elements.Counter(), [Output()], 1)
        logger._async = False
        close = logger.close
        logger.close = lambda: (case.record("logger.close"), close())
        return logger

    class Checkpoint:
        def __init__(self, folder=None):
            case.record("checkpoint", folder=str(folder))

        def __setattr__(self, name, value):
            case.record("checkpoint has", name=name, kind=type(value).__name__)

        def __getattr__(self, attribute):
            if attribute == "latest":  # which our patch `resume` asks for, and official code does not
                return lambda: None
            return lambda *a, **k: case.record(f"checkpoint.{attribute}", args=shown(a), more=shown(k))

    class Stepwise:
        """A clock by the steps it is shown."""

        def __init__(self, every, first=False):
            case.record("clock", every=every, first=first)
            self.every, self.last = every, 0

        def __call__(self, step=None, skip=None):
            due = bool(self.every) and int(step) - self.last >= self.every
            self.last = int(step) if due else self.last
            return due

    def load(folder, parts):
        case.record("loaded", folder=folder, parts={k: getattr(v, "keywords", {}) for k, v in parts.items()})

    def make_env(name):
        return lambda index: (case.record(f"{name} made", index=index), ScriptSteps(None, index, picture=index < 2))[1]

    def stream(held, mode):
        case.record("stream", mode=mode, of=held.name)
        return iter(f"{mode} {i}" for i in range(10**6))

    replaced = {
        (elements, "Checkpoint"): Checkpoint, (elements.checkpoint, "load"): load, (embodied, "LocalClock"): Stepwise,
        (elements.when, "Clock"): Stepwise, (clock, "LocalClock"): Stepwise,
    }  # fmt: skip
    before = {place: getattr(*place) for place in replaced}
    for (owner, name), value in replaced.items():
        setattr(owner, name, value)
    made = [lambda: agent, *([lambda: make_replay("replay")] if script != "eval_only" else [])]
    if script == "train_eval":
        made += [lambda: make_replay("eval replay"), make_env("env"), make_env("eval env"), stream]
    else:
        made += [make_env("env"), *([stream] if script == "train" else [])]
    try:
        getattr(embodied.run, script)(*made, make_logger, args)
        if script == "eval_only":
            args.from_checkpoint = ""
            case.record("refused", error=raised(lambda: embodied.run.eval_only(*made, make_logger, args)))
    finally:
        for (owner, name), value in before.items():
            setattr(owner, name, value)
