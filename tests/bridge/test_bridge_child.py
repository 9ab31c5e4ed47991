"""The child stands between the official code and its checkpoints, agent and logger, and changes no result of theirs."""

import json
import os
import pickle
import subprocess
import sys
from types import SimpleNamespace

import pytest

from dreamer_bridge import checkpoints, child, curve, trust
from tdmpc2_lean.runs import curve as curves


class Channel(list):
    """Keeps what is told to the parent."""

    def send(self, event, **values):
        self.append({"event": event} | values)


class Evil:
    """Unpickling it leaves a mark."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return (open, (self.mark, "w"))


@pytest.fixture
def watch(tmp_path, monkeypatch):
    """A function that installs a watch on a training loop of three episodes, with the real elements.checkpoint."""
    import elements

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("save", "load"):  # put back after the test
        monkeypatch.setattr(elements.checkpoint, name, getattr(elements.checkpoint, name))

    def install(loop=lambda **given: None, trusting=False):
        request = {
            "curve": str(tmp_path / curves.FILE), "chunk": 100, "action_repeat": 2, "scales": {"dyn": 1.0},
            "provenance": "abc", "logdir": str(tmp_path), "trust": trusting, "cores": [], "capacity": 1e4,
        }  # fmt: skip

        def train(make_agent, make_replay, make_env, make_stream, make_logger, args):
            return loop(make_agent=make_agent, make_logger=make_logger, args=args)

        embodied = SimpleNamespace(run=SimpleNamespace(train=train))
        made = child.LoopWatch(Channel(), request)
        made.install(elements, embodied)
        return made, embodied.run.train, elements.checkpoint

    return install


def test_what_is_saved_is_signed_and_loaded_again_and_a_changed_one_is_not_unpickled(watch, tmp_path):
    made, _, checkpoint = watch()
    folder = tmp_path / "ckpt" / "one"
    checkpoint.save(folder, {"agent": lambda: {"params": 1}})
    trust.check(folder)
    assert json.loads((folder / checkpoints.STATE).read_text())["agent_steps"] == 0
    found = {}
    checkpoint.load(folder, {"agent": found.update})
    assert found == {"params": 1}
    mark = tmp_path / "mark"
    (folder / "agent.pkl").write_bytes(pickle.dumps(Evil(mark)))
    with pytest.raises(trust.Untrusted):
        checkpoint.load(folder, {"agent": lambda data: None})
    assert not mark.exists()


def test_a_checkpoint_is_loaded_unverified_if_the_user_says_so(watch, tmp_path):
    _, _, checkpoint = watch(trusting=True)
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "done").touch()
    mark = tmp_path / "mark"
    (folder / "agent.pkl").write_bytes(pickle.dumps(Evil(mark)))
    checkpoint.load(folder, {"agent": lambda data: None})
    assert mark.exists()


class Agent:
    """Counts its updates as the official one does."""

    def __init__(self):
        self.n_updates = 0
        self.spaces = {"reward": SimpleNamespace(shape=(3,), dtype=SimpleNamespace(itemsize=4))}

    def train(self, carry, data):
        self.n_updates += 1
        return carry + 1, "outs", {"loss/dyn": float(data), "opt/lr": 1.0}


class Logger:
    def __init__(self):
        self.step, self.added = 0, []

    def add(self, mapping, prefix=None):
        self.added.append((mapping, prefix))


def test_the_loop_runs_as_it_would_and_what_it_does_is_told(watch, tmp_path):
    seen = {}

    def loop(make_agent, make_logger, args):
        agent, logger = make_agent(), make_logger()
        carry = 0
        for step in range(1, args.steps + 1):
            logger.step = step
            carry, outs, mets = agent.train(carry, step)
            assert outs == "outs" and mets["loss/dyn"] == step
            if step % 40 == 0:
                logger.add({"score": float(step), "length": 40}, prefix="episode")
        seen.update(agent=agent, logger=logger, carry=carry)
        return "the end"

    made, train, _ = watch(loop)
    assert train(Agent, None, None, None, Logger, SimpleNamespace(steps=120)) == "the end"
    assert seen["carry"] == 120 and seen["agent"].n_updates == 120
    assert seen["logger"].added == [({"score": float(s), "length": 40}, "episode") for s in (40, 80, 120)]
    told = [event["event"] for event in made.channel]
    assert told[:3] == ["compiling", "compiled", "start"] and told[-1] == "step"
    assert made.channel[-1]["step"] == 120 and made.channel[-1]["updates"] == 120
    lines = curve.read_lines(tmp_path / curves.FILE)
    assert [line["env_steps"] for line in lines] == [100, 200, 240]
    assert {line["provenance"] for line in lines} == {"abc"}
    assert [line["returns"] for line in lines] == [[40.0], [80.0], [120.0]]
    assert lines[0]["losses"] == {"dyn": pytest.approx(sum(range(1, 51)) / 50)}
    assert lines[1]["replay_bytes"] == 12 * 101


def test_a_run_that_goes_on_writes_the_rest_of_the_chunk_it_was_stopped_in(watch, tmp_path):
    """What the curve holds of a chunk before the checkpoint is not forgotten after it."""

    def part(first, last, folder, goes_on):
        def loop(make_agent, make_logger, args):
            agent, logger = make_agent(), make_logger()
            if goes_on:
                # The official code loads the step before the rest, see embodied/run/train.py.
                checkpoint.load(folder, {"step": lambda step: setattr(logger, "step", step)})
            for step in range(first, last + 1):
                logger.step = step
                agent.train(0, step)
                if step % 20 == 0:
                    logger.add({"score": float(step), "length": 20}, prefix="episode")
            if not goes_on:
                checkpoint.save(folder, {"step": lambda: logger.step})

        made, train, checkpoint = watch(loop)
        if not goes_on:
            made.recorder.end = lambda env_step: None  # a run that is stopped does not come to its end
        train(Agent, None, None, None, Logger, SimpleNamespace(steps=100))
        return made

    part(1, 30, tmp_path / "ckpt" / "first", False)  # stopped in the first chunk, 100 env steps being 50 agent steps
    made = part(31, 50, tmp_path / "ckpt" / "first", True)
    assert {"event": "resumed", "step": 30, "checkpoint": "first"} in made.channel
    (line,) = curve.read_lines(tmp_path / curves.FILE)
    assert line["returns"] == [20.0, 40.0]
    assert line["losses"] == {"dyn": pytest.approx(sum(range(1, 51)) / 50)}


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to cores")
def test_the_script_runs_as_from_a_shell_bound_to_the_cores_that_were_chosen(tmp_path):
    core = min(os.sched_getaffinity(0))
    for folder, content in (
        ("embodied", "from . import run\n"),
        ("embodied/run", "def train(make_agent, make_replay, make_env, make_stream, make_logger, args): pass\n"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text(content)
    script = tmp_path / "dreamerv3" / "main.py"
    script.parent.mkdir()
    script.write_text(
        "import os, sys, json\n"
        "if __name__ == '__main__':\n"
        "  print(json.dumps([sys.argv[1:], sorted(os.sched_getaffinity(0))]))\n"
    )
    reading, writing = os.pipe()
    request = {
        "script": str(script), "flags": ["--seed", "1"], "channel": writing, "cores": [core], "kind": "train",
        "curve": str(tmp_path / curves.FILE), "chunk": 100, "action_repeat": 2, "scales": {}, "logdir": str(tmp_path),
        "trust": False, "capacity": 1e4, "provenance": "abc", "parent": os.getpid(),
    }  # fmt: skip
    (tmp_path / "request.json").write_text(json.dumps(request))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "dreamer_bridge.child", str(tmp_path / "request.json")],
        pass_fds=[writing], capture_output=True, text=True, check=True,
    )  # fmt: skip
    os.close(writing)
    with os.fdopen(reading) as channel:
        assert [json.loads(line) for line in channel] == [{"event": "end"}]
    assert json.loads(done.stdout) == [["--seed", "1"], [core]]


def test_an_evaluation_ends_after_its_last_episode_and_what_it_logged_is_written(tmp_path):
    """The official script would go on until its steps are over."""

    def loop(make_agent, make_env, make_logger, args):
        make_agent()
        logger = make_logger()
        for step in range(1, args.steps + 1):
            logger.step = step
            if step % 10 == 0:
                logger.add({"score": float(step), "length": 10}, prefix="episode")

    class ClosedLogger(Logger):
        closed = False

        def close(self):
            self.closed = True

    def evaluated(episodes):
        embodied = SimpleNamespace(run=SimpleNamespace(eval_only=loop))
        made = child.EvaluationWatch(Channel(), {"trust": False, "cores": [], "episodes": episodes})
        made.install(SimpleNamespace(checkpoint=SimpleNamespace(load=None)), embodied)
        embodied.run.eval_only(Agent, None, ClosedLogger, SimpleNamespace(steps=100))
        return made

    made = evaluated(3)
    assert made.logger.closed and made.logger.step == 30 and len(made.logger.added) == 3
    told = [(event["return"], event["of"]) for event in made.channel if event["event"] == "episode"]
    assert told == [(10.0, 3), (20.0, 3), (30.0, 3)]
    with pytest.raises(child.TooFewEpisodes, match="10 of 11 episodes ended within 100 agent steps"):
        evaluated(11)
