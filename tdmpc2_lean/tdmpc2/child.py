"""The child process of a run: runs an official script as it is, and tells the parent how far it got.

    python -P launch.py '{"script": …, "words": […], "channel": FD, "config": PATH, "probe": MODULE or null}'

It is started by `run` and imports nothing of this package, so that the official code has the process to
itself. It changes nothing in the official code's behaviour: it looks on, from a thread of its own, and writes
one JSON object a line to the channel:

    {"event": "start", "device": …, "device_name": …, "threads": …, "steps": …, "seed_steps": …}
    {"event": "step", "step": …, "seconds": …, "evaluation_seconds": …, "evaluating": …,
     "cpu_seconds": …}
    {"event": "evaluation", "step": …, "episode_reward": …, "episodes": …}
    {"event": "broken", "module": …, "why": …}
    {"event": "end"}, when the script came to its own end
"""

import importlib.abc
import importlib.util
import json
import os
import runpy
import signal
import sys
import threading
import time

EVERY = 0.5  # seconds between two looks


class Channel:
    """Writes events to the parent. If the parent is gone, the run is asked to stop."""

    def __init__(self, number):
        self.file = os.fdopen(number, "w", encoding="utf-8")
        self.lock = threading.Lock()

    def send(self, event, **values):
        try:
            with self.lock:
                self.file.write(json.dumps({"event": event} | values, default=str) + "\n")
                self.file.flush()
        except (BrokenPipeError, ValueError):
            os.kill(os.getpid(), signal.SIGINT)


class Watch:
    """Looks at a trainer from outside, while it trains."""

    def __init__(self, channel, config):
        self.channel = channel
        self.config = config
        self.trainer = None
        self.evaluation_seconds = 0.0
        self.evaluating_since = None
        self.lock = threading.Lock()

    def watched(self, trainer_class):
        """Makes the class announce when it starts to train and when it evaluates. Computes nothing else."""
        train, evaluate = trainer_class.train, trainer_class.eval

        def announced_train(trainer, *args, **kwargs):
            self.begin(trainer)
            result = train(trainer, *args, **kwargs)
            self.look()
            return result

        def announced_eval(trainer, *args, **kwargs):
            with self.lock:
                self.evaluating_since = time.monotonic()
            try:
                metrics = evaluate(trainer, *args, **kwargs)
            finally:
                with self.lock:
                    self.evaluation_seconds += time.monotonic() - self.evaluating_since
                    self.evaluating_since = None
            if "episode_reward" in metrics:
                self.channel.send(
                    "evaluation",
                    step=getattr(trainer, "_step", None),
                    episode_reward=float(metrics["episode_reward"]),
                    episodes=trainer.cfg.eval_episodes,
                )
            return metrics

        trainer_class.train, trainer_class.eval = announced_train, announced_eval

    def begin(self, trainer):
        import torch

        cfg = trainer.cfg
        write_config(self.config, cfg)
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

    def keep_looking(self):
        while True:
            time.sleep(EVERY)
            self.look()

    def look(self):
        with self.lock:
            now = time.monotonic()
            evaluating = self.evaluating_since is not None
            spent = self.evaluation_seconds + (now - self.evaluating_since if evaluating else 0.0)
        step = getattr(self.trainer, "_step", None)
        self.channel.send(
            "step",
            step=step,
            seconds=now - self.since,
            evaluation_seconds=spent,
            evaluating=evaluating,
            cpu_seconds=time.process_time(),
        )


class Announcer(importlib.abc.MetaPathFinder):
    """Hands the trainer classes to the watch as soon as the official code has imported them."""

    CLASSES = {"trainer.online_trainer": "OnlineTrainer", "trainer.offline_trainer": "OfflineTrainer"}

    def __init__(self, watch):
        self.watch = watch

    def find_spec(self, name, path=None, target=None):
        if name not in self.CLASSES:
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
            self.watch.watched(getattr(module, self.CLASSES[name]))

        spec.loader.exec_module = exec_module
        return spec


def write_config(path, cfg):
    """The configuration as the code resolved it, in place of the one that Hydra composed."""
    import yaml

    values = cfg if isinstance(cfg, dict) else vars(cfg)
    beside = f"{path}.{os.getpid()}"
    with open(beside, "w", encoding="utf-8") as file:
        yaml.safe_dump(plain(dict(values)), file, sort_keys=False)
    os.replace(beside, path)


def plain(value):
    """What YAML can hold of a configuration's values."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def hear_the_parent():
    """Be interrupted when the parent says so, also where a shell started it in the background, SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def run_script(channel, request, watch):
    """Run the requested script to its end as if from a shell, watched; exits with 130 if it is interrupted."""
    hear_the_parent()
    if request["probe"]:
        # The official code hides why an environment's package cannot be imported; here it is still to be had.
        try:
            importlib.import_module(request["probe"])
        except Exception as error:
            channel.send("broken", module=request["probe"], why=f"{type(error).__name__}: {error}")
            raise
    sys.meta_path.insert(0, Announcer(watch))
    sys.path.insert(0, os.path.dirname(request["script"]))
    to_its_end(channel, [request["script"], *request["words"]])


def to_its_end(channel, arguments):
    """Run a script as `python SCRIPT ARGUMENT…` would, and tell of its end; exit with 130 if it is interrupted."""
    sys.argv = list(arguments)
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr, flush=True)
        sys.exit(130)
    channel.send("end")


def main():
    request = json.loads(sys.argv[1])
    channel = Channel(request["channel"])
    run_script(channel, request, Watch(channel, request["config"]))


if __name__ == "__main__":
    main()
