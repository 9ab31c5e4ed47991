"""Cases of the gate `functions` of DreamerV3 on the driver, environments and what is wrapped around them."""

import inspect
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from tdmpc2_lean.validation.gates import stand_ins
from tdmpc2_lean.validation.gates.cases import Case, Lacking
from tdmpc2_lean.validation.gates.functions_dreamerv3 import raised


def table(code_dir: Path) -> dict[str, Callable[[Case], None]]:
    return {
        "wrappers": wrappers,
        "driver": driver,
        "driver-processes": driver_processes,
        "random-agent": random_agent,
        "dm-interface": dm_interface,
        "dmc": dmc,
    }


class Clockwork:
    """Stands in for the module `time` in one of the checkout's: a second passes at each look."""

    def __init__(self, seconds: float = 1.0):
        self.now, self.seconds = 1000.0, seconds

    def time(self):
        self.now += self.seconds
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class ScriptSteps:
    """An environment whose episodes are written down; tells what it is given."""

    def __init__(
        self, case: Case | None = None, number: int = 0, picture: bool = False, lengths=(4, 3, 6), fails: int = -1
    ):
        self.case, self.number, self.picture, self.lengths, self.fails = case, number, picture, lengths, fails
        self.episode, self.t, self.total, self.done, self.closed = -1, 0, 0, True, False

    @property
    def obs_space(self):
        import elements
        import numpy as np

        space = elements.Space
        found = {"vec": space(np.float64, (2,)), "count": space(np.int64, (), 0, 99), "reward": space(np.float32)}
        found |= {k: space(bool) for k in ("is_first", "is_last", "is_terminal")} | {"log/seen": space(np.float32)}
        return found | ({"image": space(np.uint8, (4, 6, 3))} if self.picture else {})

    @property
    def act_space(self):
        import elements
        import numpy as np

        space = elements.Space
        bounds = np.array([-2, -np.inf], np.float32), np.array([6, np.inf], np.float32)
        return {"reset": space(bool), "action": space(np.float32, (2,), *bounds), "choice": space(np.int32, (), 0, 4)}

    def step(self, action):
        import numpy as np

        if self.case is not None:
            self.case.record(f"env {self.number} is given", {k: np.asarray(v) for k, v in action.items()})
        self.total += 1
        if self.total == self.fails:
            raise RuntimeError("it fails")
        first = bool(self.done or action["reset"])
        self.episode, self.t = (self.episode + 1, 0) if first else (self.episode, self.t + 1)
        length = self.lengths[(self.episode + self.number) % len(self.lengths)]
        self.done = self.t >= length
        found = {
            "vec": np.array([self.number, self.t / 3], np.float64),
            "count": np.int64(self.total % 99),
            "reward": np.float32(0.004 * self.t * self.t - 0.1 * self.number),
            "is_first": first, "is_last": self.done, "is_terminal": self.done and self.episode % 2 == 0,
            "log/seen": np.float32(self.total),
        }  # fmt: skip
        return found | ({"image": np.full((4, 6, 3), self.total, np.uint8)} if self.picture else {})

    def close(self):
        self.closed = True
        if self.case is not None:
            self.case.record(f"env {self.number} is closed")


def steps_of(case: Case, name: str, env, actions) -> None:
    """What an environment answers to actions."""
    import numpy as np

    for number, action in enumerate(actions):
        obs = env.step(dict(action))
        case.record(
            f"{name}, step {number}",
            {k: np.asarray(v) for k, v in obs.items()},
            given={k: repr(v) for k, v in action.items()},
        )


def described(spaces) -> dict[str, str]:
    return {k: f"{v.shape} {v.dtype} {v.low} {v.high} {v.discrete}" for k, v in spaces.items()}


def wrappers(case: Case) -> None:
    """Each wrapper within an environment that tells what it is given: spaces, bounds, ends, repeats, failures."""
    import elements
    import numpy as np
    from embodied.core import wrappers as of

    def acts(count, scale=3.0, reset=()):
        draw = np.random.default_rng(count)
        made = (scale * draw.standard_normal(2).astype(np.float32) for _ in range(count))
        return [{"reset": i in reset or i == 0, "action": a, "choice": np.int32(i % 4)} for i, a in enumerate(made)]

    def inner(**given):
        return ScriptSteps(case, **given)

    for name, env in {
        "clipped": of.ClipAction(inner()),
        "clipped otherwise": of.ClipAction(inner(), "action", -0.5, 2),
        "normalised": of.NormalizeAction(inner()),
        "unified": of.UnifyDtypes(inner(picture=True)),
        "limited": of.TimeLimit(inner(), 3),
        "limited softly": of.TimeLimit(inner(), 2, reset=False),
        "not limited": of.TimeLimit(inner(), 0),
        "backward": of.BackwardReturn(inner(), 5),
        "added": of.AddObs(inner(), "more", 5, elements.Space(np.int32)),
        "repeated": of.ActionRepeat(inner(), 3),
        "repeated once": of.ActionRepeat(inner(), 1),
    }.items():
        case.record(f"spaces, {name}", described(env.obs_space) | described(env.act_space))
        steps_of(case, name, env, acts(11, reset=(7,)))
    discrete = of.DiscretizeAction(inner(), bins=4)
    case.record("spaces, discrete", described(discrete.act_space), choices=discrete._values)
    steps_of(case, "discrete", discrete, [{"reset": False, "action": np.array([1, 3]), "choice": 0}])
    case.record("by default", bins=len(of.DiscretizeAction(inner())._values))
    resized = of.ResizeImage(inner(picture=True), (3, 2))
    case.record("spaces, resized", described(resized.obs_space))
    steps_of(case, "resized", resized, acts(2))
    case.record("sizes", size=of.ResizeImage(inner())._size)
    checked = of.CheckSpaces(of.UnifyDtypes(inner()))
    fine = {"reset": np.bool_(True), "action": np.zeros(2, np.float32), "choice": np.int32(1)}
    steps_of(case, "checked", checked, [fine])
    for name, wrong in {
        "too large": {**fine, "action": np.float32([7, 0])}, "kind": {**fine, "action": "text"},
        "number": {**fine, "choice": np.int32(4)}, "shape": {**fine, "action": np.zeros(3, np.float32)},
    }.items():  # fmt: skip
        case.record(f"refused: {name}", error=raised(lambda wrong=wrong: checked.step(wrong)))
    lying = of.CheckSpaces(
        SimpleNamespace(
            obs_space={"x": elements.Space(np.float32, (2,))}, act_space={}, step=lambda a: {"x": np.zeros(3)}
        )
    )
    case.record("refused: an observation", error=raised(lambda: lying.step({})))
    both = SimpleNamespace(obs_space={"x": 1}, act_space={"x": 1})
    case.record("refused: a name twice", error=raised(lambda: of.CheckSpaces(both)))
    wrapped = of.Wrapper(inner(number=3))
    case.record(
        "wrapped",
        number=wrapped.number,
        missing=raised(lambda: wrapped.nothing),
        hidden=raised(lambda: wrapped.__nothing__),
    )
    case.record("counted", size=len(of.Wrapper([1, 2])), true=bool(of.Wrapper([])))
    original, of.time = of.time, Clockwork(40.0)
    try:
        made = []

        def make():
            made.append(1)
            return ScriptSteps(None, fails=3)

        for given in (
            {},
            {"window": 10, "wait": 1},
            {"maxfails": 0},
            {"exceptions": KeyError},
            {"exceptions": [RuntimeError], "maxfails": 1},
        ):
            env = of.RestartOnException(make, **given)
            for number in range(9):
                error = raised(
                    lambda e=env, n=f"{given} {number}": steps_of(case, n, e, [{"reset": np.bool_(False), "action": 0}])
                )
                case.record(f"restarted {given}", error=error, made=len(made), clock=of.time.now)
    finally:
        of.time = original


def policy_of(case: Case, seed: int = 0):
    """A policy that tells what it is given and acts at random."""
    import numpy as np

    draw = np.random.default_rng(seed)

    def policy(carry, obs, **given):
        case.record("policy is given", {k: np.asarray(v) for k, v in obs.items()}, carry=carry, more=given)
        count = len(obs["is_first"])
        acts = {
            "action": draw.uniform(-1, 1, (count, 2)).astype(np.float32),
            "choice": draw.integers(1, 4, count).astype(np.int32),
        }
        return (carry or 0) + 1, acts, {"latent": draw.standard_normal((count, 1, 3)).astype(np.float32)}

    return policy


def driver(case: Case) -> None:
    """Several environments in one process: steps, episodes, resets, what callbacks get, in order."""
    import numpy as np
    from embodied import Driver

    for count, given in ((1, {}), (3, {"mode": "x"})):
        made = Driver([lambda i=i: ScriptSteps(case, i) for i in range(count)], parallel=False, **given)
        case.record("acts at first", made.acts, carry=made.carry, length=made.length)
        for name in ("one", "two"):
            made.on_step(
                lambda tran, worker, n=name, **more: case.record(
                    f"callback {n}, {worker}", {k: np.asarray(v) for k, v in tran.items()}, more=more
                )
            )
        policy = policy_of(case)
        made.reset(lambda size: size * 10)
        made(policy, steps=5)
        case.record("then", made.acts, carry=made.carry)
        made(policy, episodes=3)
        made(policy, steps=4, episodes=1)
        case.record("masked", masked=made._mask(np.ones((3, 2, 2), np.float32), np.array([True, False, True])))
        made.reset()
        case.record("reset", made.acts, carry=made.carry)
        made.close()
    clash = Driver([lambda: ScriptSteps()], parallel=False)
    case.record(
        "refused",
        none=raised(lambda: Driver([], parallel=False)),
        clash=raised(lambda: clash(lambda c, o: (c, {"a": np.zeros(1)}, {"a": 1}), steps=1)),
    )
    clash.acts = {"action": np.zeros((2, 2))}
    case.record("refused", size=raised(lambda: clash(policy_of(Case()), steps=1)))


def driver_processes(case: Case) -> None:
    """Environments in processes of their own, which threads stand in for: messages, errors, ends."""
    import threading

    import numpy as np
    from embodied.core import driver as official

    if "stop" not in inspect.signature(official.Driver._env_server).parameters:
        raise Lacking("processes of environments that begin: release 3.3.1 waits for them for ever")
    made = []

    class Process:
        """A thread that stands in for a process."""

        def __init__(self, function, *args, start=False):
            self.thread = threading.Thread(target=self.run, args=(function, args), daemon=True)
            self.error = None
            made.append(self)
            start and self.thread.start()

        def run(self, function, args):
            self.stop = args[0]
            try:
                function(*args)
            except Exception as error:
                self.error = type(error).__name__

        def kill(self):
            case.record("killed")
            self.stop.set()

    original, official.portal = official.portal, SimpleNamespace(Process=Process)
    original_time, official.time = official.time, SimpleNamespace(sleep=lambda seconds: None)
    closed = []

    class Closing(ScriptSteps):
        def close(self):
            closed.append(self.number)

    def make(number, fails=-1):
        return lambda: Closing(None, number, fails=fails)

    try:
        parallel = official.Driver([make(i) for i in range(2)])
        parallel.on_step(
            lambda tran, worker: case.record(f"callback {worker}", {k: np.asarray(v) for k, v in tran.items()})
        )
        parallel.reset(lambda size: size)
        parallel(policy_of(case), steps=9)
        parallel.pipes[0].send(("obs_space",))
        case.record("spaces", described(parallel._receive(parallel.pipes[0])))
        parallel.pipes[1].send(("nothing",))
        case.record("refused", error=raised(lambda: parallel._receive(parallel.pipes[1])))
        parallel.close()
        broken = official.Driver([make(0), make(1, fails=3)], parallel=True)
        broken.reset(lambda size: size)
        case.record("an error", error=raised(lambda: broken(policy_of(Case()), steps=20)))
        for process in made:
            process.thread.join(3)
        case.record(
            "ended", alive=[p.thread.is_alive() for p in made], errors=[p.error for p in made], closed=sorted(closed)
        )
    finally:
        official.portal, official.time = original, original_time


def random_agent(case: Case) -> None:
    """What the agent that acts at random does, and does not."""
    import numpy as np
    from embodied import RandomAgent

    env = ScriptSteps()
    agent = RandomAgent(env.obs_space, {k: v for k, v in env.act_space.items() if k != "action"})
    np.random.seed(3)
    for space in agent.act_space.values():
        space._random = np.random.RandomState(4)
    carry, acts, outs = agent.policy((), {"is_first": np.zeros(5, bool)})
    case.record(
        "acts",
        {k: v.shape for k, v in acts.items()},
        carry=carry,
        outs=outs,
        kinds=sorted(str(v.dtype) for v in acts.values()),
    )
    others = [agent.init_policy(2), agent.init_train(2), agent.init_report(2), agent.train(1, 2), agent.report(1, 2)]
    case.record("others", others=others, stream=agent.stream(7), saved=repr(agent.save()), loaded=repr(agent.load()))


def dm_interface(case: Case) -> None:
    """Environments of dm_env unlike the suite's: no dictionaries, rewards observed, empty and nested names."""
    import dm_env
    import numpy as np
    from dm_env import specs
    from embodied.envs.from_dm import FromDM

    class DMEnvironment:
        def __init__(self, plain: bool):
            self.plain, self.t = plain, 0

        def observation_spec(self):
            array = specs.Array((3,), np.float64)
            if self.plain:
                return array
            return {
                "a/b": array,
                "reward": specs.Array((), np.float32),
                "empty": specs.Array((0,), np.float32),
                "n": specs.DiscreteArray(5),
            }

        def action_spec(self):
            bounded = specs.BoundedArray((2,), np.float32, [-1, -2], [3, 4])
            return bounded if self.plain else {"x": bounded, "y": specs.DiscreteArray(3)}

        def observed(self):
            array = np.arange(3.0) + self.t
            return array if self.plain else {"a/b": array, "reward": np.float32(9), "empty": np.zeros(0), "n": 2}

        def reset(self):
            self.t = 0
            return dm_env.restart(self.observed())

        def step(self, action):
            case.record("dm_env is given", action=repr(action))
            self.t += 1
            if self.t == 3:
                return (
                    dm_env.termination(2.5, self.observed()) if self.plain else dm_env.truncation(2.5, self.observed())
                )
            return dm_env.transition(0.25, self.observed(), 0.5 if self.t == 9 else 1.0)

    for plain in (True, False):
        env = FromDM(DMEnvironment(plain))
        case.record("spaces", described(env.obs_space) | described(env.act_space))
        act = {"action": np.ones(2)} if plain else {"x": np.ones(2), "y": 1}
        steps_of(case, f"plain {plain}", env, [{"reset": i in (0, 6), **act} for i in range(9)])
        env._done, env._env.t = False, 8
        case.record("refused", error=raised(lambda env=env, act=act: env.step({"reset": False, **act})))
    named = FromDM(DMEnvironment(True), "seen", "done")
    case.record("named", described(named.obs_space) | described(named.act_space))

    class Endless(DMEnvironment):
        def action_spec(self):
            return specs.BoundedArray((1,), np.float32, [-np.inf], [np.inf])

    case.record("refused", error=raised(lambda: FromDM(Endless(True)).act_space))


def dmc(case: Case) -> None:
    """Environments of dm_control: tasks, repeats, cameras, pictures, ends; with random states from outside."""
    import os

    import numpy as np
    from embodied.envs.dmc import DMC

    from tdmpc2_lean.validation.gates.dreamerv3_determinism import limit_episodes

    stand_ins.draw_from_physics()
    index = limit_episodes(7, 3)
    for number, (task, given) in enumerate(
        {
            "walker_walk": {},
            "cup_catch": {"repeat": 2, "image": False},
            "quadruped_walk": {"proprio": False, "size": (12, 20)},
            "cartpole_balance": {"repeat": 3, "camera": 1, "proprio": False, "image": False},
            "reacher_easy": {"camera": 0, "size": (8, 8)},
        }.items()
    ):
        index["index"] = number
        env = DMC(task, **given)
        case.record(f"spaces of {task}", described(env.obs_space) | described(env.act_space), camera=env._camera)
        draw = np.random.default_rng(number)
        shape = env.act_space["action"].shape
        acts = [{"reset": i == 5, "action": draw.uniform(-1, 1, shape).astype(np.float32)} for i in range(12)]
        steps_of(case, task, env, acts)
        wrong = {"reset": False, "action": np.full(shape, np.nan)}
        case.record("refused", error=raised(lambda env=env, wrong=wrong: env.step(wrong)))
    from dm_control import suite

    given = DMC(suite.load("pendulum", "swingup", {"random": 1}), image=False)
    steps_of(case, "an environment", given, [{"reset": True, "action": np.zeros(1)}])
    before = os.environ.pop("MUJOCO_GL", None)
    DMC("walker_stand")
    case.record("OpenGL", chosen=os.environ.get("MUJOCO_GL"), cameras=DMC.DEFAULT_CAMERAS)
    os.environ["MUJOCO_GL"] = before or "disable"
