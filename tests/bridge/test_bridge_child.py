"""The child stands between the official code and its checkpoints, agent and logger, and changes no result of theirs."""

import json
import pickle
from types import SimpleNamespace

import pytest

from dreamer_bridge import child, curve, trust


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
            "curve": str(tmp_path / curve.FILE), "chunk": 100, "repeat": 2, "scales": {"dyn": 1.0}, "extra": {},
            "logdir": str(tmp_path), "trust": trusting, "cores": [], "capacity": 1e4,
        }  # fmt: skip

        def train(make_agent, make_replay, make_env, make_stream, make_logger, args):
            return loop(make_agent=make_agent, make_logger=make_logger, args=args)

        embodied = SimpleNamespace(run=SimpleNamespace(train=train))
        made = child.Watch(Channel(), request)
        made.install(elements, embodied)
        return made, embodied.run.train, elements.checkpoint

    return install


def test_what_is_saved_is_signed_and_loaded_again_and_a_changed_one_is_not_unpickled(watch, tmp_path):
    made, _, checkpoint = watch()
    folder = tmp_path / "ckpt" / "one"
    checkpoint.save(folder, {"agent": lambda: {"params": 1}})
    trust.check(folder)
    assert json.loads((folder / child.STATE).read_text())["agent_steps"] == 0
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
    lines = curve.read_lines(tmp_path / curve.FILE)
    assert [line["env_steps"] for line in lines] == [100, 200, 240]
    assert [line["returns"] for line in lines] == [[40.0], [80.0], [120.0]]
    assert lines[0]["losses"] == {"dyn": pytest.approx(sum(range(1, 51)) / 50)}
    assert lines[1]["replay_bytes"] == 12 * 101
