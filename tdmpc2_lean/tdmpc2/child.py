"""The child process of a run: an official script as it is, watched, with one line of the curve after each evaluation.

    python -P -m tdmpc2_lean.tdmpc2.child REQUEST.json

The official code's behaviour is not changed. It is looked on from a thread of its own, and where the trainer evaluates,
logs and saves: each evaluation becomes a line of curve.jsonl, on the disk before training goes on; a loss that is not
finite ends the run; and a request to stop is met once the state is saved. Events: see `runs.channel`.
"""

import importlib.abc
import importlib.util
import json
import math
import os
import pickle
import signal
import sys
import threading
import time
from datetime import UTC, datetime

from tdmpc2_lean.runs.channel import EVERY, read_request, run_script
from tdmpc2_lean.tdmpc2 import memory


class Episodes:
    """An evaluation's environment that notes the return of every episode, summed as the trainer sums it."""

    def __init__(self, env, returns):
        self._env, self._returns = env, returns

    def __getattr__(self, name):
        return getattr(self._env, name)

    def reset(self, *args, **kwargs):
        self._returns.append(0)
        return self._env.reset(*args, **kwargs)

    def step(self, action):
        obs, reward, done, info = self._env.step(action)
        self._returns[-1] = self._returns[-1] + reward
        return obs, reward, done, info


class TrainerWatch:
    """Looks at a trainer from outside, while it trains, and keeps the run's curve."""

    def __init__(self, channel, request):
        self.channel, self.request = channel, request
        self.trainer = None
        self.stopping = False
        self.losses = {}  # name -> [sum, number of them] since the last line
        self.last_metrics, self.last_update = {}, None  # what the last update returned, and its agent step
        self.evaluation_seconds = 0.0
        self.evaluating_since = None
        self.lock = threading.Lock()

    def watched(self, trainer_class):
        """Makes the class announce when it starts to train and when it evaluates. Computes nothing else."""
        train, evaluate = trainer_class.train, trainer_class.eval

        def announced_train(trainer, *args, **kwargs):
            self.begin(trainer)
            try:
                result = train(trainer, *args, **kwargs)
            except FloatingPointError:
                raise
            except Exception:
                # What fails first is often the simulator, of an action that is not a number.
                self.check(self.last_metrics, self.last_update)
                raise
            self.look()
            return result

        def announced_eval(trainer, *args, **kwargs):
            env, returns = getattr(trainer, "env", None), []
            if env is not None:
                trainer.env = Episodes(env, returns)
            with self.lock:
                self.evaluating_since = time.monotonic()
            try:
                metrics = evaluate(trainer, *args, **kwargs)
            finally:
                if env is not None:
                    trainer.env = env
                with self.lock:
                    self.evaluation_seconds += time.monotonic() - self.evaluating_since
                    self.evaluating_since = None
            if "episode_reward" in metrics:
                self.evaluated(trainer, float(metrics["episode_reward"]), returns)
            return metrics

        trainer_class.train, trainer_class.eval = announced_train, announced_eval

    def begin(self, trainer):
        import torch

        cfg = trainer.cfg
        write_config(self.request["config"], cfg)
        if not getattr(cfg, "multitask", False):
            memory.check(cfg, getattr(trainer.agent, "device", None))
        self.watch_losses(trainer)
        self.watch_checkpoint(trainer)
        device = getattr(trainer.agent, "device", None)
        is_cuda = getattr(device, "type", "") == "cuda"
        self.channel.send(
            "start",
            device=str(device),
            device_name=torch.cuda.get_device_name(device) if is_cuda else None,
            threads=torch.get_num_threads(),
            steps=int(cfg.steps),
            seed_steps=cfg.seed_steps,
        )
        self.trainer = trainer
        self.since = time.monotonic()
        threading.Thread(target=self.keep_looking, daemon=True).start()

    def watch_losses(self, trainer):
        """Have every logged loss looked at, and the last update's if training fails: one not finite is named."""
        log, update = trainer.logger.log, trainer.agent.update

        def checked_log(metrics, category="train"):
            self.check(metrics, getattr(trainer, "_step", metrics.get("iteration", "?")))
            for name, value in metrics.items():
                if name.endswith("_loss"):
                    pair = self.losses.setdefault(name.removesuffix("_loss"), [0.0, 0])
                    pair[0], pair[1] = pair[0] + float(value), pair[1] + 1
            return log(metrics, category)

        def noted_update(*args, **kwargs):
            metrics = update(*args, **kwargs)
            self.last_metrics, self.last_update = metrics, getattr(trainer, "_step", "?")
            return metrics

        trainer.logger.log, trainer.agent.update = checked_log, noted_update

    @staticmethod
    def check(metrics, step):
        """FloatingPointError, which names it, for a loss or norm that is not finite."""
        for name, value in (metrics or {}).items():
            if name.endswith(("_loss", "grad_norm")) and not math.isfinite(float(value)):
                raise FloatingPointError(f"{name} is {float(value)} at agent step {step}")

    def watch_checkpoint(self, trainer):
        """Where the run's state is saved: tell from which step it goes on, and stop only once it is saved."""
        checkpoint = getattr(trainer, "checkpoint", None)
        if checkpoint is None or not checkpoint.enabled:
            return
        is_due, save, load = checkpoint.is_due, checkpoint.save, checkpoint.load

        def told_load(trainer):
            found = load(trainer)
            if found is not None:
                self.channel.send("resumed", step=trainer._step)
            return found

        def is_due_or_last(done):
            return is_due(done) or (self.stopping and (done or self.request["stop_within_episode"]))

        def save_and_stop(*args):
            save(*args)
            if self.stopping:
                raise KeyboardInterrupt

        checkpoint.is_due, checkpoint.save, checkpoint.load = is_due_or_last, save_and_stop, told_load
        signal.signal(signal.SIGINT, self.stop)

    def stop(self, *_):
        """At the first request, stop once the state is saved; at the second, at once."""
        if self.stopping:
            raise KeyboardInterrupt
        self.stopping = True

    def evaluated(self, trainer, value, returns):
        """Tell of an evaluation, and append the line of the chunk that ends here; none before the first agent step."""
        step = getattr(trainer, "_step", None)
        if not returns:  # eval_episodes=0: there is nothing to tell
            return
        if not math.isfinite(value):
            raise FloatingPointError(f"the evaluation's return is {value} at agent step {step}")
        self.channel.send("evaluation", step=step, episode_reward=value, episodes=trainer.cfg.eval_episodes)
        if not step:
            return
        repeat = self.request["action_repeat"]
        line = {
            "chunk": max(1, step * repeat // self.request["chunk"]),
            "agent_steps": step,
            "env_steps": step * repeat,
            "value": value,
            "episodes": len(returns),
            "returns": [float(total) for total in returns],
            "updates": updates_made(trainer.agent),
            "replay_bytes": replay_bytes(trainer.buffer),
            "losses": {name: total / number for name, (total, number) in self.losses.items()},
            "scales": scales(trainer.cfg),
            "seconds": round(float(trainer.common_metrics()["elapsed_time"]), 3),
            "provenance": self.request["provenance"],
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self.losses = {}
        append(self.request["curve"], line)

    def keep_looking(self):
        while True:
            time.sleep(EVERY)
            self.look()

    def look(self):
        with self.lock:
            now = time.monotonic()
            evaluating = self.evaluating_since is not None
            spent = self.evaluation_seconds + (now - self.evaluating_since if evaluating else 0.0)
        self.channel.send(
            "step",
            step=getattr(self.trainer, "_step", None),
            seconds=now - self.since,
            evaluation_seconds=spent,
            evaluating=evaluating,
            cpu_seconds=time.process_time(),
        )


class CheckpointMisfit(RuntimeError):
    """A checkpoint that is whole, but of another network."""


def watched_agent(agent_class):
    """Makes the class say so where a checkpoint does not fit: the libraries' own words for it fill pages."""
    load = agent_class.load

    def told_load(agent, *args, **kwargs):
        try:
            return load(agent, *args, **kwargs)
        except (pickle.UnpicklingError, EOFError, OSError):
            raise  # no whole checkpoint, or one that holds more than tensors
        except Exception as error:
            if "PytorchStreamReader" in str(error):
                raise
            raise CheckpointMisfit("the checkpoint is of another network") from error

    agent_class.load = told_load


class Announcer(importlib.abc.MetaPathFinder):
    """Hands the trainer classes to the watch, and the agent's, as soon as the official code has imported them."""

    def __init__(self, watch):
        self.classes = {
            "trainer.online_trainer": ("OnlineTrainer", watch.watched),
            "trainer.offline_trainer": ("OfflineTrainer", watch.watched),
            "tdmpc2": ("TDMPC2", watched_agent),
        }

    def find_spec(self, name, path=None, target=None):
        if name not in self.classes:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            class_name, watched = self.classes[name]
            watched(getattr(module, class_name))

        spec.loader.exec_module = exec_module
        return spec


def write_config(path, cfg):
    """The configuration as the code resolved it, in place of the one that Hydra composed."""
    import yaml

    values = cfg if isinstance(cfg, dict) else vars(cfg)
    beside = f"{path}.{os.getpid()}"
    with open(beside, "w", encoding="utf-8") as file:
        yaml.safe_dump(in_yaml(dict(values)), file, sort_keys=False)
    os.replace(beside, path)


def in_yaml(value):
    """What YAML can hold of a configuration's values."""
    if isinstance(value, dict):
        return {str(key): in_yaml(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [in_yaml(inner) for inner in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def append(path, line):
    """Add a line to the curve, on the disk when this returns."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line, allow_nan=False) + "\n")
        file.flush()
        os.fsync(file.fileno())


def scales(cfg):
    """{loss: scale} of the losses that the configuration weights."""
    names = ("consistency", "reward", "value", "termination")
    found = {name: getattr(cfg, f"{name}_coef", None) for name in names}
    return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}


def updates_made(agent):
    """Gradient updates so far, by the optimiser's own count."""
    return max((int(slots["step"]) for slots in agent.pi_optim.state.values()), default=0)


def replay_bytes(buffer):
    """Bytes of the steps that the buffer holds."""
    if buffer.num_eps == 0:
        return 0
    rows = buffer._buffer._storage[:]
    return sum(x.numel() * x.element_size() for x in rows.values(True, True))


def main():
    request, channel = read_request()
    if request["probe"]:
        # The official code hides why an environment's package cannot be imported; here it is still to be had.
        try:
            importlib.import_module(request["probe"])
        except Exception as error:
            channel.send("broken", module=request["probe"], why=f"{type(error).__name__}: {error}")
            raise
    sys.meta_path.insert(0, Announcer(TrainerWatch(channel, request)))
    sys.path.insert(0, os.path.dirname(request["script"]))
    run_script(channel, [request["script"], *request["words"]])


if __name__ == "__main__":
    main()
