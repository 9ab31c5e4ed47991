"""The child process of a run: the official main.py as it is, watched from outside.

    python -P -m dreamer_bridge.child REQUEST.json

Nothing in the official code's behaviour is changed. It is looked at where it hands things over: `embodied.run.train`
and `embodied.run.eval_only` get the functions that make agent and logger, and `elements.checkpoint` saves and loads.
Events go to the parent as `tdmpc2_lean.runs.channel` says, and besides

    {"event": "compiling"}, {"event": "compiled", "seconds": …}
    {"event": "saved", "step": …}
    {"event": "chunk", …}: a line of curve.jsonl
    {"event": "episode", "return": …, "of": …}: an episode of an evaluation, and how many it is to have

A checkpoint is signed when it is written and verified before anything in it is unpickled, see `trust`.
"""

import inspect
import json
import math
import os
import sys
import threading
import time
from pathlib import Path

from dreamer_bridge import trust
from dreamer_bridge.checkpoints import STATE
from dreamer_bridge.curve import ChunkRecorder
from tdmpc2_lean.runs.channel import EVERY, read_request, run_script


class ScriptWatch:
    """Looks at an official script. request: see `adapter.DreamerAdapter.child`.

    script: the function in `embodied.run`.
    """

    script: str

    def __init__(self, channel, request):
        self.channel, self.request = channel, request
        self.agent = self.logger = None
        self.since = time.monotonic()

    def install(self, elements, embodied):
        """Stand between the official code and what it calls."""
        official = getattr(embodied.run, self.script)
        load = elements.checkpoint.load

        def watched(*given, **named):
            bound = inspect.signature(official).bind(*given, **named)
            make_agent, make_logger = bound.arguments["make_agent"], bound.arguments["make_logger"]
            bound.arguments["make_agent"] = lambda: self.made_agent(make_agent)
            bound.arguments["make_logger"] = lambda: self.made_logger(make_logger, bound.arguments["args"])
            return self.run(lambda: official(*bound.args, **bound.kwargs))

        def verified_load(path, loadfns):
            folder = Path(str(path))
            if not self.request["trust"]:
                trust.check(folder)
            result = load(path, loadfns)
            self.loaded(folder)
            return result

        setattr(embodied.run, self.script, watched)
        elements.checkpoint.load = verified_load

    def run(self, official):
        """Run the official function, and give what it returns."""
        result = official()
        self.look()
        return result

    def loaded(self, folder):
        """The official code has loaded a checkpoint."""

    def made_agent(self, make_agent):
        self.channel.send("compiling")
        start = time.monotonic()
        self.agent = make_agent()
        self.channel.send("compiled", seconds=round(time.monotonic() - start, 1))
        return self.agent

    def made_logger(self, make_logger, args):
        self.logger = logger = make_logger()
        add = logger.add

        def watched_add(mapping, prefix=None):
            result = add(mapping, prefix)
            if prefix == "episode" and "score" in mapping:
                self.episode(float(mapping["score"]))
            return result

        logger.add = watched_add
        self.begin(self.budget(args))
        return logger

    def episode(self, score):
        """An episode of that return has ended."""

    def budget(self, args):
        """Agent steps at whose end the script ends; None where something else ends it."""

    def begin(self, steps):
        import jax

        device = jax.devices()[0]
        self.channel.send(
            "start",
            device=device.platform,
            device_name=device.device_kind,
            threads=len(self.request["cores"]) or None,
            steps=steps,
            seed_steps=None,
        )
        self.since = time.monotonic()
        threading.Thread(target=self.keep_looking, daemon=True).start()

    def step(self):
        """Agent steps so far."""
        return int(self.logger.step) if self.logger else 0

    def updates(self):
        """Gradient updates so far; None of an agent that does not count them."""
        counter = getattr(self.agent, "n_updates", None)
        return None if counter is None else int(counter)

    def keep_looking(self):
        while True:
            time.sleep(EVERY)
            self.look()

    def look(self):
        self.channel.send(
            "step",
            step=self.step(),
            seconds=time.monotonic() - self.since,
            evaluation_seconds=0.0,
            evaluating=False,
            cpu_seconds=time.process_time(),
            updates=self.updates(),
        )


class LoopWatch(ScriptWatch):
    """Looks at the official training loop: its curve, its checkpoints."""

    script = "train"

    def __init__(self, channel, request):
        super().__init__(channel, request)
        self.seconds_before = 0.0  # of wall time, by the starts before this one
        self.recorder = ChunkRecorder(
            Path(request["curve"]),
            request["chunk"],
            request["action_repeat"],
            request["scales"],
            self.updates,
            self.seconds,
            self.replay_bytes,
            lambda line: channel.send("chunk", **line),
            {"provenance": request["provenance"]},
        )

    def install(self, elements, embodied):
        super().install(elements, embodied)
        save = elements.checkpoint.save

        def signed_save(path, savefns, write=True):
            result = save(path, savefns, write)
            if write:
                state = {"agent_steps": self.step(), "curve": self.recorder.save(), "seconds": self.seconds()}
                (Path(str(path)) / STATE).write_text(json.dumps(state) + "\n", encoding="utf-8")
                trust.sign(Path(str(path)))
                self.channel.send("saved", step=self.step())
            return result

        elements.checkpoint.save = signed_save

    def run(self, official):
        result = official()
        self.recorder.end(self.env_step())
        self.look()
        return result

    def loaded(self, folder):
        """If it is the run's own checkpoint, the curve goes on where it was then."""
        if folder.parent.parent != Path(self.request["logdir"]):
            return
        path = folder / STATE
        if path.is_file():
            state = json.loads(path.read_bytes())
            self.recorder.load(state["curve"])
            self.seconds_before = state.get("seconds", 0.0)
        if self.step():
            self.channel.send("resumed", step=self.step(), checkpoint=folder.name)

    def made_agent(self, make_agent):
        agent = super().made_agent(make_agent)
        train = agent.train

        def watched_train(carry, data):
            found = train(carry, data)
            self.recorder.update(self.env_step(), found[-1])
            return found

        agent.train = watched_train
        return agent

    def episode(self, score):
        self.recorder.episode(self.env_step(), score)

    def budget(self, args):
        return int(args.steps)

    def seconds(self):
        """Wall time of the run so far, since its agent was compiled; time that a kill has cost is not in it."""
        return self.seconds_before + time.monotonic() - self.since

    def env_step(self):
        """The step as the official logger writes it."""
        return self.step() * self.request["action_repeat"]

    def replay_bytes(self):
        """Bytes that the steps in the replay take: of observations, actions and latent states."""
        spaces = getattr(self.agent, "spaces", {}).values()
        a_step = sum(math.prod(space.shape) * space.dtype.itemsize for space in spaces)
        return a_step * min(self.step(), int(self.request["capacity"]))


class EnoughEpisodes(Exception):
    """Those that the evaluation is to have have ended."""


class TooFewEpisodes(Exception):
    """The official script came to its end before."""


class EvaluationWatch(ScriptWatch):
    """Looks at the official evaluation, and ends it after the last of its episodes."""

    script = "eval_only"

    def __init__(self, channel, request):
        super().__init__(channel, request)
        self.ended = 0

    def episode(self, score):
        self.ended += 1
        self.channel.send("episode", **{"return": score, "of": self.request["episodes"]})
        if self.ended == self.request["episodes"]:
            raise EnoughEpisodes

    def run(self, official):
        try:
            official()
        except EnoughEpisodes:
            self.logger.close()
            self.look()
            return
        raise TooFewEpisodes(
            f"{self.ended} of {self.request['episodes']} episodes ended within {self.step():,} agent steps."
        )


WATCHES = {"train": LoopWatch, "evaluate": EvaluationWatch}


def main():
    request, channel = read_request()
    if request["cores"]:
        os.sched_setaffinity(0, request["cores"])  # before XLA counts them
    script = request["script"]
    sys.path.insert(0, str(Path(script).parent.parent))
    import elements
    import embodied

    WATCHES[request["kind"]](channel, request).install(elements, embodied)
    run_script(channel, [script, *request["flags"]])


if __name__ == "__main__":
    main()
