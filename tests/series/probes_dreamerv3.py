"""What tests of the DreamerV3 series do in a process of their own (see validation/gates/process.py)."""

import os
import pickle
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np


def _steps(worker: int, start: int, stop: int) -> list[dict]:
    """Steps of an agent whose observation counts, with a latent that the replay updates."""
    rows = []
    for i in range(start, stop):
        obs = np.float32([worker, i])
        rows.append({"is_first": i % 50 == 0, "is_last": i % 50 == 49, "obs": obs, "latent": np.zeros(3, np.float32)})
    return rows


def _drive(replay, start: int, stop: int) -> list:
    """Adds steps of two workers and samples, as training does; returns the batches and what reports drew."""
    seen = []
    for i in range(start, stop):
        for worker in (0, 1):
            replay.add(_steps(worker, i, i + 1)[0], worker)
        if len(replay) >= 8:
            batch = replay.sample(4)
            stepid = batch.pop("stepid")
            seen.append(batch)
            replay.update({"stepid": stepid, "latent": batch["latent"] + 1})
        if i % 7 == 0 and len(replay):
            report = replay.sample(2, "report")
            report.pop("stepid")
            seen.append(report)
    return seen


def _same(xs: list, ys: list) -> bool:
    return len(xs) == len(ys) and all(
        x.keys() == y.keys() and all(np.array_equal(x[k], y[k]) for k in x) for x, y in zip(xs, ys, strict=True)
    )


def replay_resumes(code_dir: Path) -> dict:
    """Whether a replay that was saved and loaded goes on as the one that was not, and one lacking a part does."""
    from embodied.core.replay import Replay

    def make():
        return Replay(length=10, capacity=120, chunksize=16, online=True, seed=3, report_seed=[3, 1])

    def load(change=lambda index: None):
        shards = pickle.loads(saved)
        change(shards[0])
        replay = make()
        replay.load_all(shards)
        return replay

    original = make()
    _drive(original, 0, 93)
    saved = pickle.dumps(list(original.save_all()))
    loaded = load()
    half = load(lambda index: index.update(sampler={**index["sampler"], "rng": np.random.PCG64(9).state}))
    silent = load(lambda index: index.update(online=({}, [])))
    expected = _drive(original, 93, 200)
    return {
        "batches": len(expected),
        "latents were updated": bool(max(x["latent"].max() for x in expected) > 1),
        "equal": _same(expected, _drive(loaded, 93, 200)),
        "other sampler state": _same(expected, _drive(half, 93, 200)),
        "without the online queue": _same(expected, _drive(silent, 93, 200)),
    }


def streams_resume(code_dir: Path) -> dict:
    """Whether a stream of consecutive parts goes on, from each of its parts, as the one that was not saved."""
    from embodied.core import streams

    def make(start):
        count = iter(range(start, 1000))

        def batch():
            values = 10 * next(count) + np.arange(7)
            return {"is_first": np.zeros((1, 7), bool), "x": values[None]}

        return streams.Map(streams.Consec(streams.Stateless(batch), length=2, consec=3, prefix=1), lambda x: x)

    equal = []
    for taken in (1, 2, 3, 4):
        original = iter(make(0))
        for _ in range(taken):
            next(original)
        state = pickle.loads(pickle.dumps(original.save()))
        resumed = iter(make(-(-taken // 3)))
        resumed.load(state)
        equal.append(_same([next(original) for _ in range(7)], [next(resumed) for _ in range(7)]))
    return {"equal": equal}


def reports_apart(code_dir: Path) -> dict:
    """Whether the training batches are the same with and without reports, drawn apart and not."""
    from embodied.core.replay import Replay

    def batches(report_seed, reports):
        replay = Replay(length=5, capacity=50, seed=1, report_seed=report_seed)
        seen = []
        for i in range(100):
            replay.add(_steps(0, i, i + 1)[0])
            if len(replay) > 5:
                if reports:
                    replay.sample(3, "report")
                seen.append({"obs": replay.sample(3)["obs"]})
        return seen

    return {
        "apart": _same(batches([1, 1], True), batches([1, 1], False)),
        "shared": _same(batches(None, True), batches(None, False)),
        "without reports": _same(batches([1, 1], False), batches(None, False)),
    }


def _walk(env, steps: int, seed: int) -> list[dict]:
    rng, seen, reset = np.random.default_rng(seed), [], not getattr(env, "_actions", None)
    for _ in range(steps):
        action = rng.uniform(-1, 1, 6).astype(np.float32)
        obs = env.step({"action": action, "reset": np.bool_(reset)})
        reset = obs["is_last"]
        seen.append({k: np.array(v) for k, v in obs.items()})
    return seen


def environment_repeats(code_dir: Path) -> dict:
    """Whether an environment brought back to where another is goes on as that does, beyond the episode's end."""
    from embodied.envs.dmc import DMC
    from embodied.run.resume import Repeatable

    def make(seed):
        return Repeatable(lambda: DMC("walker_walk", image=False, log_image=False, seed=seed))

    original, other = make(3), make(4)
    _walk(original, 1100, seed=0)
    data = pickle.loads(pickle.dumps(original.save()))
    other.load(data)
    expected = _walk(original, 1100, seed=1)
    seen = _walk(other, 1100, seed=1)
    data["actions"][5]["action"] = -data["actions"][5]["action"]
    try:
        make(3).load(data)
        said = ""
    except RuntimeError as error:
        said = str(error)
    return {
        "episodes": int(sum(x["is_first"] for x in expected)),
        "equal": _same(expected, seen),
        "other actions are refused": "does not repeat" in said,
    }


def no_picture(code_dir: Path) -> dict:
    """What is in an observation without a picture, and what MUJOCO_GL is then."""
    del os.environ["MUJOCO_GL"]
    from embodied.envs.dmc import DMC

    env = DMC("walker_walk", image=False, log_image=False)
    with_space = DMC("walker_walk", image=False)
    return {
        "gl": os.environ["MUJOCO_GL"],
        "keys": sorted(env.step({"reset": True, "action": np.zeros(6, np.float32)})),
        "by default": "log/image" in with_space.obs_space,
    }


def first_observations(code_dir: Path) -> dict:
    """The first heights of environments with seeds 1, 1, 2, made as training makes them."""
    import elements
    import ruamel.yaml
    from dreamerv3 import main

    text = (code_dir / "dreamerv3" / "configs.yaml").read_text()
    config = elements.Config(ruamel.yaml.YAML(typ="safe").load(text)["defaults"])
    config = config.update({"task": "dmc_walker_walk", "env.dmc.image": False, "env.dmc.log_image": False})
    heights = []
    for seed, index in ((1, 0), (1, 0), (2, 0), (1, 1)):
        env = main.make_env(config.update(seed=seed), index)
        env.step({"reset": True, "action": np.zeros(6, np.float32)})
        heights.append(env.step({"reset": False, "action": np.zeros(6, np.float32)})["orientations"].tolist())
    return {"heights": heights}


def stops(code_dir: Path) -> dict:
    """How a process ends that was told to stop by each signal, and whether it was only asked to at first."""
    from embodied.run.stop import Stop

    seen = {}
    for name in ("SIGTERM", "SIGINT"):
        stop = Stop()
        before = stop.requested
        os.kill(os.getpid(), getattr(signal, name))
        asked = stop.requested
        try:
            stop.finish()
        except BaseException as error:
            seen[name] = [before, asked, type(error).__name__, getattr(error, "code", None)]
    quiet = Stop(enabled=False)
    seen["off"] = [signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, quiet.requested]
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Stop()
    seen["ignored"] = signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    return seen


def refusals(code_dir: Path) -> dict:
    """What exact resuming says to settings that it cannot do with, one at a time and right ones."""
    from embodied.core.replay import Replay
    from embodied.run import resume

    good = {"debug": True, "clock": "steps", "replicas": 1, "prefetch": False, "sampler": None, "agent": True}

    def said(**other):
        one = SimpleNamespace(**(good | other))
        agent = SimpleNamespace(jaxcfg=SimpleNamespace(prefetch=one.prefetch))
        if one.agent:
            agent.save_pending = None
        try:
            resume.check(one, agent, Replay(length=2, selector=one.sampler))
        except ValueError as error:
            return str(error)
        return ""

    from embodied.core.selectors import Mixture, Uniform

    return {
        "good": said(),
        "run.debug": said(debug=False),
        "run.clock": said(clock="seconds"),
        "jax.prefetch": said(prefetch=True),
        "replicas": said(replicas=2),
        "random_agent": said(agent=False),
        "replay.fracs": said(sampler=Mixture({"uniform": Uniform()}, {"uniform": 1})),
    }
