"""The process that makes a run: the official train.py as it is, watched, with one line written after each chunk.

    python -P -m tdmpc2_lean.tdmpc2.protocol_child REQUEST.json

It is `training.launch`, the process of every training run, with what a protocol's run needs besides: each evaluation
becomes a line of curve.jsonl, written to the disk before training goes on; a loss that is not finite ends the run;
and a request to stop is met at the end of an episode, once the state is saved.
"""

import ctypes
import json
import math
import os
import signal
import sys
from datetime import UTC, datetime

from tdmpc2_lean.tdmpc2 import child

DEATH_OF_PARENT = 1  # prctl's PR_SET_PDEATHSIG


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


class Watch(child.Watch):
    """Looks at a trainer as child.Watch does, and keeps the run's curve."""

    def __init__(self, channel, request):
        super().__init__(channel, request["config"])
        self.request = request
        self.stopping = False

    def watched(self, trainer_class):
        evaluate = trainer_class.eval

        def recorded_eval(trainer):
            env, returns = trainer.env, []
            trainer.env = Episodes(env, returns)
            try:
                metrics = evaluate(trainer)
            finally:
                trainer.env = env
            self.end_of_chunk(trainer, float(metrics["episode_reward"]), returns)
            return metrics

        trainer_class.eval = recorded_eval
        super().watched(trainer_class)

    def begin(self, trainer):
        log = trainer.logger.log
        checkpoint = trainer.checkpoint
        is_due, save = checkpoint.is_due, checkpoint.save

        def checked_log(metrics, category="train"):
            for name, value in metrics.items():
                if name.endswith(("_loss", "grad_norm")) and not math.isfinite(float(value)):
                    raise FloatingPointError(f"{name} is {float(value)} at agent step {trainer._step}")
            return log(metrics, category)

        def is_due_or_last(done):
            return is_due(done) or (self.stopping and done)

        def save_and_stop(*args):
            save(*args)
            if self.stopping:
                raise KeyboardInterrupt

        trainer.logger.log = checked_log
        checkpoint.is_due, checkpoint.save = is_due_or_last, save_and_stop
        signal.signal(signal.SIGINT, self.stop)
        super().begin(trainer)

    def stop(self, *_):
        """At the first request, stop once the episode has ended and its state is saved; at the second, at once."""
        if self.stopping:
            raise KeyboardInterrupt
        self.stopping = True

    def end_of_chunk(self, trainer, value, returns):
        """Append the line of the chunk that ends here. There is none before the first agent step."""
        step, chunk = trainer._step, self.request["chunk"]
        if step == 0:
            return
        if not math.isfinite(value):
            raise FloatingPointError(f"the evaluation's return is {value} at agent step {step}")
        line = {
            "chunk": step // chunk,
            "agent_steps": step,
            "env_steps": step * self.request["action_repeat"],
            "value": value,
            "episodes": len(returns),
            "returns": [float(total) for total in returns],
            "updates": updates_made(trainer.agent),
            "replay_bytes": replay_bytes(trainer.buffer),
            "seconds": round(float(trainer.common_metrics()["elapsed_time"]), 3),
            "provenance": self.request["provenance"],
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        with open(self.request["curve"], "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())


def updates_made(agent):
    """Gradient updates so far, by the optimiser's own count."""
    return max((int(slots["step"]) for slots in agent.pi_optim.state.values()), default=0)


def replay_bytes(buffer):
    """Bytes of the steps that the buffer holds."""
    if buffer.num_eps == 0:
        return 0
    rows = buffer._buffer._storage[:]
    return sum(x.numel() * x.element_size() for x in rows.values(True, True))


def die_with(parent):
    """Where the system can do it, end when the parent is killed: nobody would take the run's events."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DEATH_OF_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    die_with(request["parent"])
    channel = child.Channel(request["channel"])
    child.run_script(channel, request, Watch(channel, request))


if __name__ == "__main__":
    main()
