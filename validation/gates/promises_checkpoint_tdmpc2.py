"""Cases of the gate `promises` on our patch `checkpoint`: what is saved, when, what comes back, what is refused.

Runs of training that are resumed have a gate of their own, `resume`.
"""

import json
import random
from pathlib import Path
from types import SimpleNamespace

from tdmpc2_lean.validation.gates.cases import Case

# Settings that say where and how a run is made, with another value than its default: they may differ.
WHERE_AND_HOW = {
    "checkpoint": "elsewhere", "checkpoint_mid_episode": "other", "checkpoint_minutes": 7, "compile": "other",
    "data_dir": "elsewhere", "device": "other", "enable_wandb": "other", "exp_name": "other", "save_agent": "other",
    "save_agent_every_eval": "other", "save_csv": "other", "save_video": "other", "save_video_files": "other",
    "wandb_entity": "other", "wandb_project": "other", "wandb_silent": "other", "work_dir": "elsewhere",
}  # fmt: skip
DECIDING = ("task", "seed", "lr", "utd", "pretrain_updates", "separate_eval", "buffer_size", "horizon", "seed_steps",
            "episode_length", "obs_shape", "mpc", "eval_freq", "batch_size", "episodic")  # fmt: skip


class Simulated:
    """Stands for an environment of dm_control: where an episode begins is drawn, what follows is not."""

    def __init__(self, seed: int = 0, drawn: int = 1):
        import gymnasium as gym
        import numpy as np

        self.task = SimpleNamespace(random=np.random.RandomState(seed))
        self.unwrapped, self.drawn = self, drawn
        self.action_space = gym.spaces.Box(-1, 1, (6,), seed=seed)
        self.noise, self.resets, self.steps = 0.0, 0, 0

    def reset(self):
        import torch

        self.resets += 1
        self.task.random.normal(size=3)  # as where the draw of a Gaussian is left over
        self.x = torch.tensor(self.task.random.normal(size=11)[:11], dtype=torch.float32)
        return self.x.clone()

    def step(self, action):
        self.steps += 1
        self.x = self.x * 0.9 + float(action.sum()) + self.noise
        return self.x.clone(), None, False, {}

    def rand_act(self):
        import torch

        return torch.from_numpy(self.action_space.sample())


def run_of(code_dir: Path, overrides: dict | None = None, seed: int = 0, env=None, **fields) -> SimpleNamespace:
    """What a trainer holds, small: configuration, environment, agent, buffer, logger, and its checkpoint."""
    from common.buffer import Buffer
    from common.checkpoint import Checkpoint

    from tdmpc2_lean.validation.gates.promises_tdmpc2 import agent_for, configured

    given = {"checkpoint_minutes": 0, "buffer_size": 40, "exp_name": "resumed"} | (overrides or {})
    cfg = configured(code_dir, given)
    cfg.seed_steps, cfg.episode_length, cfg.obs_shape = 18, 8, {"state": (11,)}
    for name, value in fields.items():
        setattr(cfg, name, value)
    Path(cfg.work_dir).mkdir(parents=True, exist_ok=True)
    made = SimpleNamespace(cfg=cfg, env=env or Simulated(seed), agent=agent_for(code_dir, seed=seed), _start_time=500.0)
    made.buffer, made.logger = Buffer(cfg), SimpleNamespace(_eval=[])
    made._step = made._ep_idx = 0
    made.checkpoint = Checkpoint(cfg, made.env)
    return made


def trained(run, episodes: int = 3, open_steps: int = 3) -> tuple:
    """Gives a run a past: updates, episodes, evaluations, an episode that goes on; (done, info, metrics, eval_next)."""
    import numpy as np
    import torch
    from tensordict import TensorDict

    from tdmpc2_lean.validation.gates.functions_agent_tdmpc2 import Batches, batch_for

    run.agent.update(Batches([batch_for(run.agent, 1.0)]))
    run.agent._prev_mean.fill_(0.25)
    run.agent.scale.value.fill_(2.5)
    run.logger._eval = [(0.0, 1.5), (20.0, np.float64(1 / 3))]

    def row(obs, action=None):
        nothing = torch.tensor(float("nan"))
        values = {
            "obs": obs.unsqueeze(0),
            "action": torch.full((1, 6), float("nan")) if action is None else action[None],
        }
        reward = nothing if action is None else action.sum()
        return TensorDict({**values, "reward": reward[None], "terminated": nothing[None]}, batch_size=(1,))

    for number in range(episodes + 1):
        run.checkpoint.episode_begins()
        run._tds = [row(run.env.reset())]
        for _ in range(open_steps if number == episodes else 14):
            action = run.env.rand_act()
            run._tds.append(row(run.env.step(action)[0], action))
            run._step += 1
        if number < episodes:
            run._ep_idx = run.buffer.add(torch.cat(run._tds))
    for draw in (random.random, np.random.normal, lambda: torch.randn(3)):
        draw()
    metrics = {"total_loss": torch.tensor(0.75, requires_grad=True), "episode_success": 0.5, "n": 3}
    return False, {"success": np.float32(0.5), "terminated": torch.tensor(1.0)}, metrics, True


def standing(run) -> dict:
    """All that the rest of a run depends on, as text and tensors."""
    import numpy as np
    import torch

    from tdmpc2_lean.validation.gates.trace_tdmpc2 import learned_state, optimiser_state, random_states

    found = {f"agent {k}": v.clone() for k, v in learned_state(run.agent).items()}
    found |= {f"optimiser {k}": v.clone() for k, v in optimiser_state(run.agent).items() if torch.is_tensor(v)}
    found |= {f"scale {k}": v.clone() for k, v in run.agent.scale.state_dict().items()}
    found |= {"warm start": run.agent._prev_mean.clone()}
    if run.buffer.num_eps:
        found |= {f"rows {k}": v.clone() for k, v in run.buffer._buffer._storage[:].items()}
        found["cursor"] = torch.tensor(run.buffer._buffer._writer._cursor)
    found |= {name: torch.as_tensor(np.asarray(state).astype(np.float64)) for name, state in random_states().items()}
    said = {"step": run._step, "episode": run._ep_idx, "episodes": run.buffer.num_eps}
    said |= {"evaluations": [tuple(map(float, row)) for row in run.logger._eval], "rows": len(run._tds)}
    said |= {"actions": str(run.env.action_space.np_random.bit_generator.state)}
    said |= {"simulator": str(run.env.task.random.get_state())}
    return {"tensors": found, "said": said}


def differing(one: dict, other: dict) -> list[str]:
    """Names of what differs by a bit."""
    import torch

    def equal(a, b):
        return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.nan_to_num(7.5), b.nan_to_num(7.5))

    was, now = one["tensors"], other["tensors"]
    names = [name for name in was.keys() | now.keys() if name not in was or name not in now]
    names += [name for name in was.keys() & now.keys() if not equal(was[name], now[name])]
    said = (one["said"], other["said"])
    return sorted(names + [name for name in said[0] if said[0][name] != said[1].get(name)])


def checkpoint(case: Case, code_dir: Path) -> None:
    """Everything comes back, bit for bit, after an episode and within one, twice in one episode."""
    import torch
    from common import checkpoint as module

    from tdmpc2_lean.validation.gates.promises_tdmpc2 import error_of, promise

    module.time = lambda: 2000.0
    for done in (True, False):
        for episodes in (3, 1, 0):
            name = f"done {done}, {episodes} episodes"
            run = run_of(code_dir)
            run.checkpoint.path.unlink(missing_ok=True)
            promise(case, f"nothing to resume, {name}", run.checkpoint.load(run), None)
            _, info, metrics, eval_next = trained(run, episodes)
            before = standing(run)
            run.checkpoint.save(run, done, info, metrics, eval_next)
            promise(case, f"saving changes nothing, {name}", differing(before, standing(run)), [])
            files = sorted(path.name for path in run.checkpoint.path.parent.iterdir() if path.is_file())
            promise(case, f"one file, {name}", files, ["checkpoint.pt"])
            content = torch.load(run.checkpoint.path, weights_only=True)
            promise(case, "which holds no more than there is", content["buffer"].get("num_eps"), episodes)
            if episodes:
                held = content["buffer"]["rows"]["tensors"]["obs"]
                promise(case, "rows that were stored", held.untyped_storage().nbytes(), 4 * held.numel())
            again = [run_of(code_dir, seed=5), run_of(code_dir, seed=6)]
            for other in again:
                trained(other, 0)  # what is loaded replaces whatever there is
                obs, was_done, found, told, next_ = other.checkpoint.load(other)
                left = differing(before, standing(other))
                promise(case, f"everything comes back, {name}", left, [])
                promise(case, "where its loop was", (was_done, next_), (done, True))
                said = (found["success"], float(found["terminated"]), found["lacking"])
                promise(case, "what the last step told", said, (0.5, 1.0, 0.0))
                promise(case, "as tensors where they were", torch.is_tensor(found["terminated"]))
                kept = {key: float(value) for key, value in told.items()}
                promise(case, "metrics", kept, {"total_loss": 0.75, "episode_success": 0.5, "n": 3.0})
                promise(case, "the time that it took", other._start_time, 500.0)
                if done:
                    promise(case, "the environment is reset next", obs, None)
                    one, two = run_of(code_dir, seed=7), other
                    one.env.task.random.set_state(run.env.task.random.get_state())
                    promise(case, "to what would have been", torch.equal(one.env.reset(), two.env.reset()))
                else:
                    promise(case, "the episode goes on", torch.equal(obs, run.env.x) and torch.equal(other.env.x, obs))
                    # Once more, within the same episode: saved by the run that was resumed itself
                    other.checkpoint.save(other, done, info, metrics, eval_next)
                    third = run_of(code_dir, seed=8)
                    trained(third, 0)
                    third.checkpoint.load(third)
                    promise(case, f"a second time, {name}", differing(before, standing(third)), [])
                if episodes:
                    torch.manual_seed(3)
                    expected = run.buffer.sample()
                    torch.manual_seed(3)
                    found = other.buffer.sample()
                    same = all(torch.equal(a, b) for a, b in zip(expected[:3], found[:3], strict=True))
                    promise(case, "the buffer samples as it would", same)
    run = run_of(code_dir)
    trained(run)
    promise(
        case, "a buffer that holds episodes is not filled", error_of(lambda: run.checkpoint.load(run)), "AssertionError"
    )


def checkpoint_clock(case: Case, code_dir: Path) -> None:
    """When it saves: after so many minutes, at ends of episodes unless within them is asked for, and at the end."""
    from common import checkpoint as module

    from tdmpc2_lean.validation.gates.promises_tdmpc2 import promise

    now = [1000.0]
    module.monotonic = lambda: now[0]
    for within in (False, True):
        run = run_of(code_dir, {"checkpoint_minutes": 15, "checkpoint_mid_episode": within, "exp_name": "clock"})
        _, info, metrics, eval_next = trained(run)
        for waited, due in ((0, False), (899, False), (900, True), (5000, True)):
            now[0] = 1000.0 + waited
            found = [run.checkpoint.is_due(True), run.checkpoint.is_due(False)]
            promise(case, f"after {waited} s, within {within}", [bool(x) for x in found], [due, due and within])
        run.checkpoint.save(run, True, info, metrics, eval_next)
        promise(case, "having saved it waits again", bool(run.checkpoint.is_due(True)), False)
        now[0] += 900
        promise(case, "as long as before", bool(run.checkpoint.is_due(True)), True)
        now[0] = 1000.0
    off = run_of(code_dir, {"checkpoint_minutes": None, "exp_name": "off"})
    off.checkpoint.path.write_bytes(b"not read")
    off.checkpoint.episode_begins()
    found = (off.checkpoint.enabled, bool(off.checkpoint.is_due(True)), off.checkpoint.load(off))
    promise(case, "without minutes nothing is saved or read", found, (False, False, None))
    synced, fsync = [], module.os.fsync
    module.os.fsync = lambda number: (synced.append(number), fsync(number))
    try:
        run = run_of(code_dir, {"exp_name": "synced"})
        _, info, metrics, eval_next = trained(run)
        run.checkpoint.save(run, True, info, metrics, eval_next)
    finally:
        module.os.fsync = fsync
    promise(case, "file and folder are on the disk", len(synced), 2)
    opened = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    for _ in range(3):
        run.checkpoint.save(run, True, info, metrics, eval_next)
    left = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    promise(case, "and nothing stays open", left, opened)
    in_training(case, code_dir)


def in_training(case: Case, code_dir: Path) -> None:
    """When a trainer saves, and that it tells of episodes before they begin."""
    from tdmpc2_lean.validation.gates.promises_tdmpc2 import promise, trainer_of

    class ToldOfEpisodes:
        def __init__(self, sink, due, enabled):
            self.sink, self.due, self.enabled = sink, due, enabled

        def load(self, trainer):
            return None

        def episode_begins(self):
            self.sink.record("checkpoint.episode_begins")

        def is_due(self, done):
            self.sink.record("asked", done=done)
            return self.due

        def save(self, trainer, done, info, metrics, eval_next):
            self.sink.record("saved", step=trainer._step, done=done, eval_next=eval_next)

    for due, enabled, saves in ((True, True, 62), (False, True, 1), (False, False, 0)):
        trainer, sink = trainer_of(code_dir, {"steps": 60})
        trainer.checkpoint = ToldOfEpisodes(sink, due, enabled)
        trainer.train()
        whats = [event["what"] for event in sink.events]
        promise(case, f"saved {saves} times", whats.count("saved"), saves)
        after = [whats[i + 1] for i, what in enumerate(whats) if what == "checkpoint.episode_begins"]
        promise(case, "told before an episode begins", set(after), {"env.reset"})
        promise(case, "asked after every step", whats.count("asked"), 61)
        if enabled:
            promise(case, "at the end, before all is finished", whats.index("logger.finish") - 1, _last(whats, "saved"))


def _last(names: list[str], name: str) -> int:
    return max(i for i, one in enumerate(names) if one == name)


def checkpoint_refused(case: Case, code_dir: Path) -> None:
    """Other settings, other observations, numbers that are none, environments of another kind, files that ask."""
    import os

    import gymnasium as gym
    import torch
    from common import checkpoint as module
    from common.checkpoint import Checkpoint

    from tdmpc2_lean.validation.gates.promises_tdmpc2 import error_of, promise

    def resumed(fields: dict, overrides: dict | None = None, env=None):
        other = run_of(code_dir, overrides, seed=5, env=env)
        path = other.checkpoint.path
        for name, value in fields.items():
            setattr(other.cfg, name, value)
        other.checkpoint = Checkpoint(other.cfg, other.env)
        other.checkpoint.path = path
        other._tds = []
        try:
            other.checkpoint.load(other)
        except Exception as error:
            return type(error).__name__, str(error), other
        return "none", "", other

    run = run_of(code_dir)
    _, info, metrics, eval_next = trained(run)
    run.checkpoint.save(run, True, info, metrics, eval_next)
    kept = run.checkpoint.path.read_bytes()
    for name, value in WHERE_AND_HOW.items():
        if hasattr(run.cfg, name):
            promise(case, f"another {name} is no other run", resumed({name: value})[0], "none")
    for name in DECIDING:
        kind, message, _ = resumed({name: "another"})
        said = f"{name}={getattr(run.cfg, name)} (now another)" in message
        promise(case, f"another {name} is refused by name", (kind, said), ("ValueError", True))
    steps = int(run.cfg.steps)
    promise(case, "more steps extend the run", resumed({"steps": steps + 1})[0], "none")
    kind, message, _ = resumed({"steps": steps - 1})
    promise(case, "fewer are refused", (kind, f"steps={steps} (now {steps - 1})" in message), ("ValueError", True))
    kind, message, _ = resumed({"steps": steps + 1, "lr": 5})
    promise(case, "and more do not excuse others", (kind, "steps=" in message), ("ValueError", False))
    kind, message, _ = resumed({"of_another_release": 3})
    promise(case, "a setting that was not there", (kind, "of_another_release=None" in message), ("ValueError", True))

    run.agent.scale.value.fill_(float("inf"))
    found = error_of(lambda: run.checkpoint.save(run, True, info, metrics, eval_next))
    promise(case, "what has diverged is not saved", found, "FloatingPointError")
    run.agent.scale.value.fill_(float("nan"))
    found = error_of(lambda: run.checkpoint.save(run, True, info, metrics, eval_next))
    promise(case, "nor what is no number", found, "FloatingPointError")
    run.agent.scale.value.fill_(1.0)
    with torch.no_grad():
        bias = run.agent.model._pi[-1].bias
        bias[1], before = float("nan"), float(bias[1])
    found = error_of(lambda: run.checkpoint.save(run, True, info, metrics, eval_next))
    promise(case, "anywhere in the agent", found, "FloatingPointError")
    with torch.no_grad():
        bias[1] = before
    promise(case, "the earlier file is as it was", run.checkpoint.path.read_bytes() == kept)
    save = module.torch.save

    def full(state, file):
        file.write(b"half")
        raise OSError("no space left")

    module.torch.save = full
    found = error_of(lambda: run.checkpoint.save(run, True, info, metrics, eval_next))
    module.torch.save = save
    left = sorted(path.name for path in run.checkpoint.path.parent.iterdir() if path.is_file())
    promise(case, "a full disk is told", found, "OSError")
    promise(
        case,
        "and leaves the earlier file alone",
        (left, run.checkpoint.path.read_bytes() == kept),
        (["checkpoint.pt"], True),
    )

    run.checkpoint.save(run, False, info, metrics, eval_next)
    within = run.checkpoint.path.read_bytes()
    noisy = Simulated(5)
    noisy.noise = 1e-3
    promise(case, "another observation is refused", resumed({}, env=noisy)[0], "RuntimeError")

    class DrawsMore(Simulated):
        def step(self, action):
            self.task.random.normal()
            return super().step(action)

    promise(case, "so are other random numbers", resumed({}, env=DrawsMore(5))[0], "RuntimeError")
    kind, _, other = resumed({})
    promise(case, "the same are not", (kind, other.env.resets, other.env.steps), ("none", 1, 3))

    class AsksForMore:
        def __reduce__(self):
            return (os.mkdir, ("executed",))

    torch.save({"settings": AsksForMore()}, run.checkpoint.path)
    promise(case, "a file that asks for something is refused", resumed({})[0], "UnpicklingError")
    promise(case, "and nothing is executed", Path("executed").exists(), False)
    run.checkpoint.path.write_bytes(within)

    class Other:
        unwrapped = SimpleNamespace()

    class Oddly(Simulated):
        def __init__(self):
            super().__init__()
            self.task.random = "none"

    cartpole = gym.make("CartPole-v1")
    for name, env, expected in (("unknown", Other(), "NotImplementedError"), ("odd", Oddly(), "NotImplementedError"),
                                ("gymnasium's", cartpole, "none"), ("dm_control's", Simulated(), "none")):  # fmt: skip
        promise(case, f"{name} environment", error_of(lambda env=env: Checkpoint(run.cfg, env)), expected)
    state = module.random_state(cartpole.unwrapped.np_random)
    drawn = [cartpole.reset()[0].tolist() for _ in range(2)]
    module.set_random_state(cartpole.unwrapped.np_random, state)
    promise(case, "gymnasium's draws come back", [cartpole.reset()[0].tolist() for _ in range(2)], drawn)
    promise(case, "as text", json.loads(state)["bit_generator"], "PCG64")
    a, b, c = (
        {"x": torch.ones(2), "y": torch.zeros(1)},
        {"x": torch.ones(2), "y": torch.zeros(1)},
        {"x": torch.ones(2), "y": torch.ones(1)},
    )
    promise(case, "tables of observations", (module.same(a, b), module.same(a, c)), (True, False))


def replay(case: Case, code_dir: Path) -> None:
    """A buffer that is saved and filled again lies and samples alike: part full, full, past its capacity, larger."""
    import torch
    from common.buffer import Buffer

    from tdmpc2_lean.validation.gates.functions_loop_tdmpc2 import episode
    from tdmpc2_lean.validation.gates.promises_tdmpc2 import configured, error_of, promise

    def buffer(capacity):
        return Buffer(configured(code_dir, {"buffer_size": capacity, "steps": 1000, "batch_size": 24}))

    def draws(held, count=3):
        torch.manual_seed(11)
        return [part for _ in range(count) for part in held.sample()[:4]]

    def alike(one, other):
        return all(torch.equal(a, b) for a, b in zip(draws(one), draws(other), strict=True))

    empty = buffer(40)
    other = buffer(40)
    other.load_state_dict(empty.state_dict())
    promise(case, "nothing comes of nothing", other.num_eps, 0)
    for number, lengths in enumerate(
        ([11], [11, 11], [11, 11, 15], [11, 11, 15, 9], [11, 11, 15, 9, 25], [9] * 4, [9] * 8)
    ):
        held = buffer(40)
        for length in lengths:
            held.add(episode(length))
        state = held.state_dict()
        promise(case, f"rows that there are, {number}", len(state["rows"]), min(40, sum(n + 1 for n in lengths)))
        again = buffer(40)
        again.load_state_dict(state)
        promise(case, f"as many episodes, {number}", again.num_eps, len(lengths))
        same = all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in
                   zip(held._buffer._storage[:].values(), again._buffer._storage[:].values(), strict=True))  # fmt: skip
        promise(case, f"the same rows in the same places, {number}", same)
        promise(case, f"the same samples, {number}", alike(held, again))
        larger = buffer(200)
        larger.load_state_dict(state)
        promise(case, f"a larger one holds all, {number}", len(larger._buffer), len(state["rows"]))
        order = larger._buffer._storage[:]["episode"].tolist()
        promise(case, f"in the order in which they came, {number}", order, sorted(order))
        larger.add(episode(10))
        promise(case, f"and goes on after them, {number}", len(larger._buffer), len(state["rows"]) + 11)
        more = episode(10)
        held.add(more.clone())
        again.add(more.clone())
        promise(case, f"and so after another episode, {number}", alike(held, again))
        promise(
            case,
            f"a buffer that holds some is not filled, {number}",
            error_of(lambda again=again, state=state: again.load_state_dict(state)),
            "AssertionError",
        )


TABLE = {
    "checkpoint": checkpoint,
    "checkpoint-clock": checkpoint_clock,
    "checkpoint-refused": checkpoint_refused,
    "replay": replay,
}
