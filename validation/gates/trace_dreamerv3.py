"""Traced training runs of DreamerV3: the official loop on a real dm_control task, recorded from outside.

Runs in a process of its own (see `process`), whose import path holds one checkout's code. Nothing of the checkout is
changed: its own `main` reads the configuration and makes agent, replay, environments and logger, its own training loop
runs, and the calls that matter are wrapped on the instances. Only the function that `main` hands these to is replaced,
by one that wraps them and hands them on.

What threads, wall clocks and unseeded generators decide in official code is decided from outside instead, in the same
way on both sides (`dreamerv3_determinism`): dm_control's random state, the step at which something is logged, reported
and saved, when a batch is drawn, and the names of steps in the replay. Pictures are made by a stand-in that counts
(`Pictures`), so that no OpenGL is needed; asked for, they are rendered.
"""

import dataclasses
import os
from pathlib import Path

from tdmpc2_lean.validation.gates.dreamerv3_determinism import Pictures, deterministic, limit_episodes
from tdmpc2_lean.validation.gates.trace import Dumped, SwitchedRecorder
from tdmpc2_lean.versions import DREAMERV3, versions


@dataclasses.dataclass(frozen=True)
class DreamerV3Budget:
    """How much of a run a gate looks at; what is not named here is `dmc_proprio` of the official configuration.

    seed: the official default, with which patched samplers draw as the official do, which are always seeded with 0.
    steps, episode_length, replay_size, report_every, log_every and save_every count env steps, of all environments
    together but for episode_length. The defaults see the replay fill (to step 96), 38 updates, ends of episodes in
    each of two environments, three reports, four times logging, chunks of the replay that are completed, and items
    that are evicted. The official profiler, which starts at update 100, does not.
    """

    task: str = "dmc_walker_walk"
    seed: int = 0
    steps: int = 170
    envs: int = 2
    episode_length: int = 40
    batch_size: int = 4
    batch_length: int = 16
    report_length: int = 8
    train_ratio: int = 32
    replay_size: int = 100
    chunksize: int = 24
    log_every: int = 40
    report_every: int = 50
    save_every: int = 0

    def flags(self) -> dict:
        """As keys of the official configuration."""
        return {
            "task": self.task,
            "seed": self.seed,
            "batch_size": self.batch_size,
            "batch_length": self.batch_length,
            "report_length": self.report_length,
            "replay.size": self.replay_size,
            "replay.chunksize": self.chunksize,
            "run.steps": self.steps,
            "run.envs": self.envs,
            "run.train_ratio": self.train_ratio,
            "run.log_every": self.log_every,
            "run.report_every": self.report_every,
            "run.save_every": self.save_every,
        }

    @property
    def end(self) -> int:
        """The env step at which the official loop ends: it makes DRIVE of them at a time."""
        return -(-self.steps // DRIVE) * DRIVE

    @property
    def first_update(self) -> int:
        """The env step at which as many sequences as a batch has steps have been in the replay for the first time.

        An environment's first sequence is there after `batch_length` steps and one of context, then one more per step.
        """
        return self.batch_size * self.batch_length + self.envs * self.batch_length

    @property
    def full(self) -> int:
        """The env step after which each further one evicts the oldest sequence from the replay."""
        return self.replay_size + self.envs * self.batch_length

    def lacks(self) -> list[str]:
        """What of all that the gates on training promise to compare a run of so few steps does not reach."""
        reached = {
            "an end of an episode": self.end > self.envs * self.episode_length,
            "a report": self.end >= self.report_every,
            "an update from a replay that evicts": self.end > max(self.full, self.first_update),
        }
        return [what for what, is_reached in reached.items() if not is_reached]


DRIVE = 10  # env steps that the official loop makes before it looks at its clocks again

# Small enough for a CPU, in single precision, environments in this process, nothing sent anywhere.
ON_CPU = {
    "env.dmc.image": False,
    "jax.platform": "cpu",
    "jax.prealloc": False,
    "jax.compute_dtype": "float32",
    "run.debug": True,
    "logger.outputs": "jsonl",
}
TIMED = ("fps/", "usage/", "timer")  # logged quantities that hold wall-clock times or the machine's load


def train(
    code_dir: Path,
    trace: str,
    budget: dict,
    overrides: dict | None = None,
    from_outside: bool = True,
    record_reports: bool = True,
    without_pictures: bool = False,
    rendering: str | None = None,
    logdir: str | None = None,
    stop: dict | None = None,
    dump_at: int | None = None,
) -> dict:
    """Trains within a budget and writes the trace.

    overrides: further keys of the official configuration.
    from_outside: determine from outside what official code leaves undetermined; False: the code's own settings do.
    record_reports: False leaves out what reports compute, for comparing runs that report differently.
    without_pictures: leave `log/image` out of what is recorded.
    rendering: the MUJOCO_GL with which to render pictures, instead of standing in for them.
    logdir: the run's folder, which may hold a checkpoint; default: one below the working folder.
    stop: {"step", "signal"}: the process sends itself this signal when an environment makes this step.

    Returns {"events", "updates", "reports", "pictures", "moved", "versions"}: pictures asked for, and for each
    parameter of the networks whether training moved it.
    """
    budget = DreamerV3Budget(**budget)
    if rendering:
        os.environ["MUJOCO_GL"] = rendering
    pictures = Pictures(bool(rendering))
    random_state = budget.seed if from_outside else None
    index = limit_episodes(budget.episode_length, random_state)

    import elements
    import embodied

    if from_outside:
        deterministic(elements, embodied)
    recorder = SwitchedRecorder(Path(trace), {"versions": versions(DREAMERV3)}, dump_at, on=False)
    run = RecordedRun(recorder, from_outside, record_reports, without_pictures, index, stop)
    official_train = embodied.run.train
    flags = budget.flags() | {"logdir": logdir or str(Path.cwd() / "logdir")} | (overrides or {})
    try:
        with_main(lambda *made: run.train(official_train, *made), flags)
        run.record_end()
    except Dumped:
        pass
    recorder.close()
    if not run.updates and dump_at is None:
        raise RuntimeError(f"no update was made in {budget.steps} env steps: there is nothing to compare")
    return {
        "events": recorder.events,
        "updates": run.updates,
        "reports": run.reports,
        "pictures": pictures.count,
        "moved": run.moved(),
        "versions": versions(DREAMERV3),
    }


def with_main(train, flags: dict):
    """What `train` returns, called by the official `main` in place of the training loop with what it has made.

    flags: keys of the official configuration, on top of `dmc_proprio` and ON_CPU.
    """
    import embodied
    from dreamerv3 import main as official

    returned = []
    embodied.run.train = lambda *made: returned.append(train(*made))
    argv = ["--configs", "dmc_proprio"]
    for name, value in (ON_CPU | flags).items():
        argv += [f"--{name}", str(value)]
    official.main(argv)
    return returned[0]


class RecordedRun:
    """What the official `main` made for one run, wrapped so that each result is recorded."""

    def __init__(self, recorder, named_steps, record_reports, without_pictures, index, stop):
        self.recorder = recorder
        self.named_steps = named_steps
        self.record_reports = record_reports
        self.without_pictures = without_pictures
        self.index = index
        self.stop = stop
        self.stopped = False
        self.updates = self.reports = 0
        self.step = self.agent = self.replay = self.before = None

    def train(self, official_train, make_agent, make_replay, make_env, make_stream, make_logger, args):
        """The official training loop with what it is given wrapped."""
        from embodied import Driver

        def agent():
            self.agent = make_agent()
            self.before = dict(self.network())
            self.watch_agent(self.agent)
            return self.agent

        def replay():
            self.replay = make_replay()
            return self.replay

        def env(index):
            self.index["index"] = index
            return self.watched_env(make_env(index), index)

        def logger():
            made = make_logger()
            self.step = made.step
            made.outputs[:] = [self.record_logged]
            close = made.close

            def closed():
                # What a stopped run has gathered for the log is logged early; the resumed run logs it when it is due.
                self.recorder.on = self.recorder.on and not self.stopped
                close()

            made.close = closed
            return made

        drive = Driver.__call__

        def recorded_drive(driver, *args, **kwargs):
            self.recorder.on = True
            self.recorder.record(int(self.step), "drive", {})
            if int(self.step) == 0:
                self.record_parameters()
            return drive(driver, *args, **kwargs)

        Driver.__call__ = recorded_drive
        return official_train(agent, replay, env, make_stream, logger, args)

    def record(self, what: str, tensors: dict) -> None:
        """Record named arrays; pictures and the names of steps only where these are compared."""
        kept = {}
        for name, value in tensors.items():
            if name.rpartition("/")[2] == "stepid" and not self.named_steps:
                continue
            if self.without_pictures and "log/image" in name:
                continue
            kept[name] = value
        self.recorder.record(int(self.step), what, kept)

    def watched_env(self, env, index: int):
        step = env.step

        def recorded_step(action):
            if self.stop and not self.stopped and self.recorder.on and int(self.step) >= self.stop["step"]:
                self.recorder.file.flush()
                self.stopped = True
                os.kill(os.getpid(), self.stop["signal"])
            obs = step(action)
            self.record(f"environment {index}", {f"action/{k}": v for k, v in ordered(action)} | dict(ordered(obs)))
            return obs

        env.step = recorded_step
        return env

    def watch_agent(self, agent) -> None:
        train, report, policy = agent.train, agent.report, agent.policy

        def recorded_policy(carry, obs, *args, **kwargs):
            carry, acts, outs = policy(carry, obs, *args, **kwargs)
            self.record("policy", dict(ordered(acts)) | dict(ordered(outs)))
            return carry, acts, outs

        def recorded_train(carry, data):
            self.record("batch", dict(ordered(data)))
            carry, outs, mets = train(carry, data)
            self.updates += 1
            # Official code returns what the update before computed.
            self.record("losses", dict(ordered(mets)))
            self.record("latents for the replay", dict(ordered(outs.get("replay", {}))))
            self.record("carry", leaves(carry))
            self.record_parameters()
            return carry, outs, mets

        def recorded_report(carry, data):
            self.reports += 1
            if self.record_reports:
                self.record("batch of a report", dict(ordered(data)))
            carry, mets = report(carry, data)
            if self.record_reports:
                self.record("report", dict(ordered(mets)))
            return carry, mets

        agent.train, agent.report, agent.policy = recorded_train, recorded_report, recorded_policy

    def record_logged(self, metrics) -> None:
        """An output of the official logger; metrics are (env step, name, value)."""
        left_out = TIMED if self.record_reports else (*TIMED, "report/")
        kept = {}
        for step, name, value in metrics:
            if not name.startswith(left_out) and not isinstance(value, str):
                times = sum(key.startswith(f"{name} at {step} ") for key in kept)
                kept[f"{name} at {step} ({times})"] = value
        self.record("logged", kept)

    def network(self):
        """(name, copy on the host) of each parameter that is no state of the optimiser."""
        return [(name, value) for name, value in ordered(self.agent.params) if not name.startswith("opt/")]

    def record_parameters(self) -> None:
        params = ordered(self.agent.params)
        self.record("parameters", {name: value for name, value in params if not name.startswith("opt/")})
        self.record("optimiser", {name: value for name, value in params if name.startswith("opt/")})

    def record_end(self) -> None:
        """What lies in the replay at the end, latents of later updates included."""
        stored = {}
        for number, chunk in enumerate(self.replay.chunks.values()):
            for name, value in sorted((chunk.data or {}).items()):
                stored[f"{number}/{name}"] = value[: chunk.length]
        self.record("replay at the end", stored)

    def moved(self) -> dict[str, bool]:
        import numpy as np

        return {name: not np.array_equal(self.before[name], value) for name, value in self.network()}


def ordered(arrays):
    """(name, array on the host), by name."""
    import jax

    return sorted(jax.device_get(dict(arrays)).items())


def leaves(tree) -> dict:
    """The leaves of a tree of arrays by their path."""
    import jax

    return {jax.tree_util.keystr(path): x for path, x in jax.tree_util.tree_leaves_with_path(jax.device_get(tree))}
