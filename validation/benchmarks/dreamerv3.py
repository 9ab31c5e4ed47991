"""Speed of DreamerV3 as ratios: both sides measured in turn within one process, on a checkout's own code.

Functions that run in a process of their own (see `gates.process`); `tdmpc2-lean bench dreamerv3` prints what they
return.
"""

import itertools
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tdmpc2_lean.validation.benchmarks.timing import in_turn, timed
from tdmpc2_lean.validation.gates.trace_dreamerv3 import with_main

SIZES = ((4, 16), (16, 64))  # sequences in a batch, and their length
MOST_ROUNDS = 90


def render(code_dir: Path, tasks: Sequence[str], steps: int, rounds: int, backend: str) -> dict:
    """Seconds per env step with and without the hidden picture, for each task; a value per round.

    tasks: official names, such as dmc_walker_walk. steps: in each round. backend: the MUJOCO_GL that renders.
    Returns {task: {"with": [...], "without": [...]}}.
    """
    os.environ["MUJOCO_GL"] = backend
    found = {}
    for task in tasks:
        sides = {}
        for name, log_image in (("with", True), ("without", False)):
            flags = {"task": task, "env.dmc.log_image": log_image, "logdir": tempfile.mkdtemp(dir=".")}
            sides[name] = with_main(lambda agent, replay, env, *_: env(0), flags)
        calls = {name: lambda env=env: drive(env, steps) for name, env in sides.items()}
        timings = in_turn(calls, rounds, time.perf_counter)
        found[task] = {name: [s / steps for s in timing.seconds] for name, timing in timings.items()}
    return found


def drive(env, steps: int) -> None:
    """Zero actions for a number of env steps, a new episode where one ends."""
    import numpy as np

    action = {name: np.zeros(space.shape, space.dtype) for name, space in env.act_space.items()}
    last = True
    for _ in range(steps):
        last = env.step(action | {"reset": np.bool_(last)})["is_last"]


def compiling(code_dir: Path, batch_size: int, batch_length: int) -> dict:
    """Seconds of making the agent (initialisation, compiling) with an empty folder of compiled code and a full one.

    Returns {"cold", "warm"}. Between them all that the process has compiled is forgotten, the folder apart.
    """
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    seconds = {}
    with tempfile.TemporaryDirectory(dir=".") as folder:
        jax.config.update("jax_compilation_cache_dir", str(Path(folder).resolve()))
        for name in ("cold", "warm"):
            jax.clear_caches()
            compilation_cache.reset_cache()
            seconds[name] = timed(lambda: jax.block_until_ready(made_agent(batch_size, batch_length).params))
            if not any(Path(folder).iterdir()):
                raise RuntimeError("JAX has put no compiled code into its folder: there is nothing warm to measure")
    return seconds


def made_agent(batch_size: int, batch_length: int):
    """The official agent of size1m in float32."""
    flags = {"batch_size": batch_size, "batch_length": batch_length, "logdir": tempfile.mkdtemp(dir=".")}
    return with_main(lambda agent, *_: agent(), flags)


def updates(code_dir: Path, rounds: int, sizes: Sequence[Sequence[int]] = SIZES) -> dict:
    """Seconds of an update on random batches, for each size; a value per round.

    Returns {"4x16": [...], ...}. At most MOST_ROUNDS: at the hundredth update official code starts a profiler.
    """
    import embodied
    import jax
    import numpy as np

    sides = {}
    for batch, length in sizes:
        agent = made_agent(batch, length)
        shape = (batch, length + agent.config.replay_context)

        def random_batch(agent=agent, shape=shape):
            def numbers(space):
                return np.stack([space.sample() for _ in range(shape[0] * shape[1])]).reshape(*shape, *space.shape)

            return {name: numbers(space) for name, space in agent.spaces.items()}

        drawn = random_batch()
        stream = agent.stream(embodied.streams.Stateless(itertools.repeat(drawn).__next__))
        sides[f"{batch}x{length}"] = [agent, iter(stream), agent.init_train(batch)]

    def update(side):
        """One update, computed when it returns: the official `train` returns before, with the results of the last."""
        agent, stream, carry = side
        side[2], _, _ = agent.train(carry, next(stream))
        jax.block_until_ready((agent.params, agent.pending_sync, side[2]))

    calls = {name: lambda side=side: update(side) for name, side in sides.items()}
    return {name: timing.seconds for name, timing in in_turn(calls, rounds, time.perf_counter, block=0.0).items()}
