"""The gate `promises` of TD-MPC2: what each of our patches says that it brings, item by item.

Official code cannot be asked what is right here: it has none of it. Each case states what must be found, in the words
and numbers of the patch's own description; nothing is compared with another run of the code under test unless the
promise is that two runs agree. Updates per step, planning for many environments and whole resumed runs have gates of
their own; here is what those do not reach: refusals, files, films, devices, clocks, what is saved and from where.
"""

import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from tdmpc2_lean.validation.gates import process, stand_ins
from tdmpc2_lean.validation.gates.cases import Case, number
from tdmpc2_lean.validation.gates.results import FAIL, NOT_JUDGED, PASS, Result, failed_to_run
from tdmpc2_lean.validation.gates.subjects import GateSubject
from tdmpc2_lean.validation.gates.traced_runs import TDMPC2

FUNCTION = "tdmpc2_lean.validation.gates.promises_tdmpc2:answers"
# A setting or function by which each case's patch is known to be there.
NEEDS = {
    "device": "device",
    "loading": "match_metadata",
    "own-config": "device",
    "seeding": "separate_eval",
    "evaluation-apart": "separate_eval",
    "seed-steps": "separate_eval",
    "utd": "utd",
    "artifacts": "save_video_files",
    "safe-load": "match_metadata",
    "plan-vec": "plan_vec",
    "checkpoint": "checkpoint_minutes",
    "checkpoint-clock": "checkpoint_minutes",
    "checkpoint-refused": "checkpoint_minutes",
    "replay": "checkpoint_minutes",
}


def promises(subject: GateSubject) -> Iterator[Result]:
    """One result per case."""
    started = time.time()
    there = {name for name, need in NEEDS.items() if need in subject.config or need in subject.functions}
    names = [name for name in NEEDS if name in there]
    for name in NEEDS:
        if name not in there:
            missing = frozenset({NEEDS[name]})
            yield Result(f"promises/{name}", NOT_JUDGED, f"the checkout has no `{NEEDS[name]}`", missing=missing)
    if not names:
        return
    try:
        shim = TDMPC2.shim_for(subject.code_dir)
        found = process.call(FUNCTION, subject.code_dir, shim, TDMPC2.stack, names=names)
    except process.ChildFailed as failure:
        yield failed_to_run("promises", failure, started)
        return
    for name in names:
        yield verdict(f"promises/{name}", found[name])


def verdict(gate: str, found: dict) -> Result:
    """The result of one case: every promise of it was kept."""
    if found["lacks"] is not None:
        return Result(gate, NOT_JUDGED, f"the checkout lacks {found['lacks']}", {}, found["seconds"])
    for event in found["events"]:
        if not number(event["values"]["kept"][3][0]):
            said = {key: value[1] for key, value in event["values"].items() if key != "kept"}
            detail = f"{event['what']}: {said['expected']} was promised, {said['found']} found"
            return Result(gate, FAIL, detail, {"broken": event["what"]}, found["seconds"])
    if found["raised"] is not None:
        last = found["events"][-1]["what"] if found["events"] else "the beginning"
        return Result(gate, FAIL, f"after {last}: raised {found['raised']}", {}, found["seconds"])
    count = len(found["events"])
    return Result(gate, PASS, f"{count} promises kept", {"promises": count}, found["seconds"])


# What follows runs in a process of its own, on the checkout's code.


def answers(code_dir: Path, names: list[str] | None = None) -> dict:
    """What `cases.recorded` returns of this gate's cases."""
    from tdmpc2_lean.validation.gates import cases, promises_checkpoint_tdmpc2

    table = {
        "device": device,
        "loading": loading,
        "own-config": own_config,
        "seeding": seeding,
        "evaluation-apart": evaluation_apart,
        "seed-steps": seed_steps,
        "utd": utd,
        "artifacts": artifacts,
        "safe-load": safe_load,
        "plan-vec": plan_vec,
    } | promises_checkpoint_tdmpc2.TABLE
    made = {name: lambda case, function=function: function(case, code_dir) for name, function in table.items()}
    return cases.recorded(stand_ins.each_alone(made), names)


def promise(case: Case, what: str, found, expected=True) -> None:
    """Records whether what was promised was found; both only where it was not."""
    if found == expected:
        case.record(what, kept=True)
    else:
        case.record(what, kept=False, found=repr(found)[:200], expected=repr(expected)[:200])


def error_of(make) -> str:
    """The kind of error that `make` raises; "none" where it raises none."""
    try:
        make()
    except Exception as error:
        return type(error).__name__
    return "none"


def same_bits(one, other) -> bool:
    """Whether two tables of tensors hold the same names and bits."""
    import torch

    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def configured(code_dir: Path, overrides: dict):
    from tdmpc2_lean.validation.gates.functions_loop_tdmpc2 import configured as of_loops

    return of_loops(code_dir, overrides)


def device(case: Case, code_dir: Path) -> None:
    """Everything lies on the device that is named; where there is none such, the scripts say so before they begin."""
    import common
    import torch
    from common.buffer import Buffer
    from common.world_model import WorldModel
    from tdmpc2 import TDMPC2

    from tdmpc2_lean.validation.gates.functions_loop_tdmpc2 import episode

    moved, to = [], WorldModel.to  # tensordict cannot take parameters to the device without memory that is named here
    WorldModel.to = lambda model, *where: (moved.append([str(w) for w in where]), model)[1]
    for task in ("cheetah-run", *(["mt30"] if "mt30" in common.TASK_SET else [])):
        cfg = configured(code_dir, {"device": "meta", "task": task, "episodic": task != "mt30"})
        cfg.obs_shape, cfg.action_dim, cfg.episode_length = {"state": (5,)}, 2, 100
        if cfg.multitask:
            count = len(cfg.tasks)
            cfg.obs_shapes, cfg.action_dims, cfg.episode_lengths = [5] * count, [2] * count, [100] * count
        agent = TDMPC2(cfg)
        promise(case, f"the model goes to the device, {task}", moved.pop(), ["meta"])
        tensors = {"warm start": agent._prev_mean, **dict(agent.scale.named_buffers())}
        elsewhere = sorted(name for name, x in tensors.items() if x.device.type != "meta")
        promise(case, "so does all else of the agent", elsewhere, [])
        promise(case, "the agent says so", str(agent.device), "meta")
        if cfg.multitask:
            promise(case, "so are the discounts", str(agent.discount.device), "meta")
        flags = [group["capturable"] for o in (agent.optim, agent.pi_optim) for group in o.param_groups]
        promise(case, "optimisers are not captured in graphs there", any(flags), False)
    WorldModel.to = to
    held = Buffer(configured(code_dir, {"device": "meta", "buffer_size": 20}))
    held.add(episode(9))
    promise(case, "the replay buffer lies in main memory", str(getattr(held, "_storage_device", "cpu")), "cpu")
    obs, action, *_ = held.sample()
    promise(case, "samples go to the device", (obs.device.type, action.device.type), ("meta", "meta"))
    cuda, asked = torch.cuda.is_available, []
    try:
        for there in (False, True):
            torch.cuda.is_available = lambda there=there: there
            for script in ("train", "evaluate"):
                for name in ("cuda:0", "cuda", "cpu"):
                    error = started(script, {"device": name, "steps": 0, "eval_episodes": 0, "task": "cheetah-run"})
                    asked.append((script, name, there, f"device={name}" in str(error)))
    finally:
        torch.cuda.is_available = cuda
    expected = [(script, name, there, name != "cpu" and not there) for script, name, there, _ in asked]
    promise(case, "a device that is not there is named, others are not", asked, expected)


def started(script: str, settings: dict) -> Exception | None:
    """The error with which a script ends that is given what none of them accepts."""
    try:
        stand_ins.run_script(script, settings, {"HYDRA_FULL_ERROR": "1"})
    except Exception as error:
        return error
    return None


def agent_for(code_dir: Path, overrides: dict | None = None, spread: float = 0.3, seed: int = 0, **more):
    from tdmpc2_lean.validation.gates.functions_tdmpc2 import make_agent

    return make_agent(code_dir, overrides, spread=spread, seed=seed, **more)


def learned(agent) -> dict:
    from tdmpc2_lean.validation.gates.trace_tdmpc2 import learned_state

    return {name: value.detach().clone() for name, value in learned_state(agent).items()}


def old_format(agent) -> dict:
    """The agent's state as upstream's older releases saved it: the ensemble's parameters numbered."""
    places, old = ("weight", "bias", "ln.weight", "ln.bias"), {}
    for name, value in agent.model.state_dict().items():
        if not hasattr(value, "dtype"):
            continue
        for prefix, before in (("_Qs.params.", "_Qs.params."), ("_target_Qs_params.", "_target_Qs.params.")):
            layer, _, place = name.removeprefix(prefix).partition(".")
            if name.startswith(prefix) and place in places:
                old[f"{before}{4 * int(layer) + places.index(place)}"] = value.clone()
        if "Qs" not in name:
            old[name] = value.clone()
    return old


def loading(case: Case, code_dir: Path) -> None:
    """Checkpoints load whichever versions wrote them: with and without entries that some keep, in the old format."""
    import common
    import torch
    from common import layers

    plain, episodic = agent_for(code_dir), agent_for(code_dir, {"episodic": True})
    prefixes = ("_Qs.params.", "_detach_Qs_params.", "_target_Qs_params.")
    extra = {f"{p}__batch_size": torch.Size([5]) for p in prefixes} | {f"{p}__device": None for p in prefixes}
    head = {k: v for k, v in episodic.model.state_dict().items() if k.startswith("_termination.")}
    state = dict(plain.model.state_dict())
    bare = {k: v for k, v in state.items() if not k.endswith(("__batch_size", "__device"))}
    sources = {
        "as it was saved": state,
        "with sizes and devices": bare | extra,
        "without": bare,
        "with entries that have no value": bare | {"_nothing": None},
        "with a termination head that nothing uses": state | head,
        "in the old format": old_format(plain),
        "in the old format, with masks of several tasks": old_format(plain) | {"_action_masks": torch.ones(3, 6)},
        "in the old format, with a termination head": old_format(plain) | head,
    }
    for name, source in sources.items():
        if "old format" in name and not hasattr(layers, "api_model_conversion"):
            continue
        another = agent_for(code_dir, spread=0.1, seed=5)
        error = error_of(lambda another=another, source=source: another.load({"model": dict(source)}))
        promise(case, f"loads {name}", error, "none")
        promise(case, f"has every bit, {name}", same_bits(learned(another), learned(plain)))
    another = agent_for(code_dir, {"episodic": True}, seed=5)
    another.load({"model": dict(episodic.model.state_dict())})
    promise(case, "an episodic agent's head comes with it", same_bits(learned(another), learned(episodic)))
    another = agent_for(code_dir, {"episodic": True}, seed=5)
    refused = error_of(lambda: another.load({"model": dict(state)}))
    promise(case, "an episodic agent needs a head", refused, "RuntimeError")
    refused = error_of(lambda: plain.load({"model": state | {"_unknown.weight": torch.ones(2)}}))
    promise(case, "what nobody knows is refused", refused, "RuntimeError")
    fewer = {k: v for k, v in state.items() if k != "_pi.0.weight"}
    promise(case, "so is what lacks a layer", error_of(lambda: plain.load({"model": fewer})), "RuntimeError")
    if "mt30" not in common.TASK_SET:
        return
    many = agent_for(code_dir, {"task": "mt30"})
    for name, source in {"": many.model.state_dict(), " in the old format": old_format(many)}.items():
        another = agent_for(code_dir, {"task": "mt30"}, seed=5)
        masks = {k: v for k, v in source.items() if "old" not in name or k != "_action_masks"}
        another.load({"model": dict(masks)})
        promise(case, f"an agent of several tasks loads{name}", same_bits(learned(another), learned(many)))


def own_config(case: Case, code_dir: Path) -> None:
    """A second agent made from one configuration plans like the first; the caller's stays as it was."""
    from tdmpc2 import TDMPC2

    for actions, iterations in ((21, 8), (20, 8), (19, 6)):
        cfg = configured(code_dir, {"iterations": 6})
        cfg.obs_shape, cfg.action_dim, cfg.episode_length = {"state": (5,)}, actions, 100
        agents = [TDMPC2(cfg) for _ in range(3)]
        found = [agent.cfg.iterations for agent in agents]
        promise(case, f"iterations with {actions} actions", found, [iterations] * 3)
        promise(case, "the caller's iterations", cfg.iterations, 6)
        cfg.temperature = 123.0
        promise(case, "nothing of the caller's is shared", agents[0].cfg.temperature != 123.0)


def seeding(case: Case, code_dir: Path) -> None:
    """Random actions, and gymnasium's environments, are determined by `seed`."""
    import envs
    import numpy as np
    from envs import make_env

    from tdmpc2_lean.validation.gates.functions_env_tdmpc2 import SIMULATORS, scripted_gym, simulators

    def actions(seed, task="cheetah-run"):
        env = make_env(configured(code_dir, {"seed": seed, "task": task}))
        return [env.rand_act().tolist() for _ in range(3)], env

    one, same, other = actions(4), actions(4), actions(5)
    promise(case, "one seed, the same actions", one[0], same[0])
    promise(case, "another seed, other actions", one[0] != other[0])
    if not hasattr(envs, "make_mujoco_env"):
        return  # a checkout of one simulator
    official, sink = {name: getattr(envs, f"make_{name}_env") for name in SIMULATORS}, Case()
    try:
        made = {"mujoco": {"a": lambda: scripted_gym(sink, "a", [np.zeros(3)])}}
        simulators(sink, made)
        for seed in (8, 9):
            sink.events.clear()
            found, _ = actions(seed, "a")
            resets = [event["values"]["given"][1] for event in sink.events if event["what"] == "reset of a"]
            promise(case, "gymnasium's environment is given the seed, once", resets, [repr([("seed", seed)])])
            promise(case, "and its actions have it", found, actions(seed, "a")[0])
    finally:
        for name, make in official.items():
            setattr(envs, f"make_{name}_env", make)


class DrawingAgent:
    """An agent whose actions are random, and which keeps a warm start."""

    model = "stand-in"

    def __init__(self, fails: bool = False):
        import torch

        self.device, self._prev_mean, self.fails = torch.device("cpu"), torch.ones(3, 2), fails

    def act(self, obs, **_):
        import torch

        if self.fails:
            raise ArithmeticError("stand-in")
        self._prev_mean.add_(1)
        return torch.randn(2)


def trainer_of(code_dir: Path, overrides: dict, agent=None, case: Case | None = None, films=False):
    """The checkout's trainer with stand-ins around it, whose events go to a case of their own; (trainer, that case)."""
    from trainer import online_trainer

    from tdmpc2_lean.validation.gates import functions_loop_tdmpc2 as loops

    sink = case or Case()
    cfg = configured(code_dir, {"steps": 60, "eval_freq": 20, "eval_episodes": 2} | overrides)
    cfg.seed_steps, cfg.episode_length = 18, 8
    made = online_trainer.OnlineTrainer(
        cfg=cfg,
        env=loops.ScriptedEnv(sink, False),
        agent=agent or loops.ScriptedAgent(sink),
        buffer=loops.ScriptedBuffer(sink),
        logger=loops.ScriptedLogger(sink, films),
    )
    return made, sink


def evaluation_apart(case: Case, code_dir: Path) -> None:
    """Its environment and random stream depend on seed and step alone; training goes on as if nothing had happened."""
    import numpy as np
    import torch
    from trainer import online_trainer

    from tdmpc2_lean.validation.gates.functions_loop_tdmpc2 import ScriptedEnv

    seeds, made_before = [], online_trainer.make_env

    class Rewarded(ScriptedEnv):
        def step(self, action):
            obs, reward, done, info = super().step(action)
            return obs, reward + action.sum(), done, info

    def recorded_make_env(cfg):
        seeds.append(cfg.seed)
        return Rewarded(Case(), False)

    online_trainer.make_env = recorded_make_env
    try:
        found = {}
        for seed, step in ((3, 40), (3, 40), (3, 60), (4, 40)):
            agent = DrawingAgent()
            trainer, _ = trainer_of(code_dir, {"seed": seed, "separate_eval": True}, agent)
            trainer._step, env = step, trainer.env
            torch.manual_seed(len(found))
            before = torch.get_rng_state()
            metrics = {name: float(value) for name, value in trainer.eval_apart().items()}
            promise(case, "the random stream is as it was", torch.equal(before, torch.get_rng_state()))
            promise(case, "the environment is as it was", trainer.env is env and env.episodes == 0)
            promise(case, "the warm start is as it was", agent._prev_mean.tolist(), torch.ones(3, 2).tolist())
            promise(case, "so is the seed", trainer.cfg.seed, seed)
            if (seed, step) in found:
                promise(case, "the same seed and step, the same evaluation", metrics, found[seed, step])
            found[seed, step] = metrics
            promise(
                case,
                "seeded by seed and step",
                seeds[-1],
                int(np.random.SeedSequence([seed, step]).generate_state(1)[0]),
            )
            torch.manual_seed(seeds[-1])
            trainer.env = Rewarded(Case(), False)
            alone = {name: float(value) for name, value in trainer.eval().items()}
            promise(case, "its random stream has that seed as well", metrics, alone)
        values = [values["episode_reward"] for values in found.values()]
        promise(case, "others with another seed or step", len(set(values)), len(values))
        agent = DrawingAgent(fails=True)
        trainer, _ = trainer_of(code_dir, {"seed": 1, "separate_eval": True}, agent)
        env, before = trainer.env, torch.get_rng_state()
        promise(case, "an error comes through", error_of(trainer.eval_apart), "ArithmeticError")
        promise(case, "and leaves all as it was", trainer.env is env and torch.equal(before, torch.get_rng_state()))
        trainer, sink = trainer_of(code_dir, {"seed": 1, "separate_eval": True, "steps": 30}, WarmAgent())
        made = len(seeds)
        trainer.train()
        promise(case, "a training run evaluates apart", len(seeds) - made, 2)
        trainer, sink = trainer_of(code_dir, {"seed": 1, "separate_eval": False, "steps": 30}, WarmAgent())
        trainer.train()
        promise(case, "only where it is asked for", len(seeds) - made, 2)
    finally:
        online_trainer.make_env = made_before


class WarmAgent(DrawingAgent):
    """One that also makes updates."""

    def __init__(self):
        super().__init__()
        self.updates = 0

    def update(self, _):
        import torch

        self.updates += 1
        return {"total_loss": torch.tensor(1.0 * self.updates)}


def seed_steps(case: Case, code_dir: Path) -> None:
    """A value that is given is kept; without one, five episodes, at least 1000."""
    import envs
    import numpy as np
    from envs import make_env

    from tdmpc2_lean.validation.gates.functions_env_tdmpc2 import SIMULATORS, scripted_gym, simulators

    for given, expected in ((None, 2500), (77, 77), (9000, 9000)):
        cfg = configured(code_dir, {"seed_steps": given})
        make_env(cfg)
        promise(case, f"seed_steps {given} for dm_control's episodes of 500", cfg.seed_steps, expected)
    if not hasattr(envs, "make_mujoco_env"):
        return  # a checkout of one simulator
    official, sink = {name: getattr(envs, f"make_{name}_env") for name in SIMULATORS}, Case()
    try:
        for length, otherwise in ((300, 1500), (100, 1000), (201, 1005)):
            simulators(sink, {"mujoco": {"a": lambda n=length: scripted_gym(sink, "a", [np.zeros(3)], 2, n)}})
            for given, expected in ((None, otherwise), (..., otherwise), (77, 77), (1, 1), (100_000, 100_000)):
                cfg = configured(code_dir, {"task": "a"} | ({} if given is ... else {"seed_steps": given}))
                make_env(cfg)
                promise(case, f"seed_steps {given} for episodes of {length}", cfg.seed_steps, expected)
    finally:
        for name, make in official.items():
            setattr(envs, f"make_{name}_env", make)


def utd(case: Case, code_dir: Path) -> None:
    """Which numbers of updates are accepted, exact after millions of steps; what is logged where none was made."""
    for given in ("0", 0, "-1", -0.5, "0/3"):
        refused = error_of(lambda given=given: trainer_of(code_dir, {"utd": given}))
        promise(case, f"utd {given!r} is refused", refused, "AssertionError")
    for given, exact in (("1/3", Fraction(1, 3)), (0.1, Fraction(1, 10)), (1, 1), ("7/5", Fraction(7, 5)),
                         (1 / 3, Fraction(1, 3)), ("0.000001", Fraction(1, 10**6)), (2, 2)):  # fmt: skip
        trainer, _ = trainer_of(code_dir, {"utd": given})
        for steps in (0, 1, 2, 3, 5, 999_999, 1_000_000, 3_000_001):
            due = trainer.updates_until(trainer.cfg.seed_steps + steps)
            promise(case, f"utd {given!r} after {steps} steps", due, int(steps * exact))
    for pretrain, ratio in ((0, "1/7"), (3, "1/7"), (None, "1/7"), (None, 2)):
        agent = WarmAgent()
        trainer, sink = trainer_of(code_dir, {"utd": ratio, "pretrain_updates": pretrain}, agent)
        trainer.train()
        first = 18 if pretrain is None else pretrain
        promise(case, f"updates in all, {pretrain}, {ratio}", agent.updates, first + int(42 * Fraction(ratio)))
        logged = [event["values"] for event in sink.events if event["what"] == "logger.log train"]
        for values in logged:
            step = int(number(values["step"][3][0]))
            made = 0 if step <= 18 else first + int((step - 19) * Fraction(ratio))
            found = number(values["total_loss"][3][0]) if "total_loss" in values else 0
            promise(case, f"the last update's losses are logged at step {step}", found, float(made))


def artifacts(case: Case, code_dir: Path) -> None:
    """Agents at every evaluation as models/STEP.pt, and films of first episodes as eval_video/STEP.mp4."""
    import numpy as np
    from common.logger import Logger
    from trainer import online_trainer

    from tdmpc2_lean.validation.gates import functions_loop_tdmpc2 as loops
    from tdmpc2_lean.validation.gates.outputs_tdmpc2 import quietly

    for wanted in (True, False):
        trainer, sink = trainer_of(code_dir, {"save_agent_every_eval": wanted})
        trainer.train()
        steps = [int(number(e["values"]["step"][3][0])) for e in sink.events if e["what"] == "logger.log eval"]
        saved = [e["values"]["identifier"][1] for e in sink.events if e["what"] == "logger.save_agent"]
        promise(case, f"agents saved, {wanted}", saved, [str(step) for step in steps] if wanted else [])
        promise(case, "evaluations", len(steps) >= 3)

    class Pictured(loops.ScriptedEnv):
        def render(self):
            return np.full((2, 2, 3), 16 * self.episodes + self.t, dtype=np.uint8)

    told = stand_ins.Told()
    stand_ins.wandb_stand_in(told)
    stand_ins.keep_films(told)
    online = {"enable_wandb": True, "wandb_project": "p", "wandb_entity": "e"}
    for number_, (wandb, files, video) in enumerate(
        [(w, f, v) for w in (False, True) for f in (False, True) for v in (False, True)]
    ):
        name = f"W&B {wandb}, files {files}, video {video}"
        given = {"save_video_files": files, "save_video": video, "exp_name": f"films-{number_}", "eval_episodes": 3}
        cfg = configured(code_dir, given | (online if wandb else {"enable_wandb": False}))
        cfg.obs_shape, cfg.action_dim, cfg.seed_steps, cfg.episode_length = {"state": (3,)}, 2, 18, 8
        kept, _ = quietly(Logger, cfg)
        sink = Case()
        trainer = online_trainer.OnlineTrainer(
            cfg=cfg, env=Pictured(sink, False), agent=loops.ScriptedAgent(sink), buffer=None, logger=kept
        )
        for step in (40, 60):
            told.clear()
            trainer._step, trainer.env.episodes = step, 0
            trainer.eval()
            expected = [16 + t for t in range(trainer.env.lengths[1] + 1)]
            films = [v for what, v in told if what == "film"]
            paths = [v["path"].endswith(f"films-{number_}/eval_video/{step}.mp4") for v in films]
            promise(case, f"a film of the run's own, {name}", paths, [True] if files else [])
            seen = [[int(frame[0, 0, 0]) for frame in v["frames"]] for v in films]
            promise(case, f"of the first episode, {name}", seen, [expected] if files else [])
            promise(case, f"at its speed, {name}", [v["options"] for v in films], [[("fps", 15)]] if files else [])
            sent = [v["videos/eval_video"] for what, v in told if what == "W&B is given" and "videos/eval_video" in v]
            if wandb and video or not files:
                found = [[int(frame[0, 0, 0]) for frame in frames] for frames in sent]
                promise(case, f"and to W&B, {name}", found, [expected] if wandb and video else [])


def safe_load(case: Case, code_dir: Path) -> None:
    """Loading a checkpoint executes nothing that the file asks for."""
    import torch

    class Asks:
        def __reduce__(self):
            return (Path.touch, (Path("executed"),))

    agent = agent_for(code_dir)
    agent.save("agent.pt")
    torch.save({"model": agent.model.state_dict(), "more": Asks()}, "asks.pt")
    another = agent_for(code_dir, seed=5)
    promise(case, "a file that asks is refused", error_of(lambda: another.load("asks.pt")), "UnpicklingError")
    promise(case, "and nothing was executed", Path("executed").exists(), False)
    another.load("agent.pt")
    promise(case, "an agent's own file loads", same_bits(learned(another), learned(agent)))


def plan_vec(case: Case, code_dir: Path) -> None:
    """What planning for many refuses, what it keeps for each environment, and that it is compiled once where asked."""
    import common
    import torch

    agent = agent_for(code_dir)
    obs = torch.randn(3, 11)
    promise(case, "a first plan begins episodes", error_of(lambda: agent.plan_vec(obs)), "ValueError")
    some = torch.tensor([True, False, True])
    promise(case, "all of them", error_of(lambda: agent.plan_vec(obs, t0=some)), "ValueError")
    promise(case, "one action for each", tuple(agent.plan_vec(obs, t0=True).shape), (3, 6))
    promise(case, "then it goes on", error_of(lambda: agent.plan_vec(obs)), "none")
    kept = agent._prev_mean_vec.clone()
    promise(case, "another number begins anew", error_of(lambda: agent.plan_vec(obs[:2])), "ValueError")
    promise(case, "and leaves what there was", torch.equal(agent._prev_mean_vec, kept))
    promise(case, "where it may", tuple(agent.plan_vec(obs[:2], t0=True).shape), (2, 6))
    promise(case, "the single plan's warm start is apart", float(agent._prev_mean.abs().max()), 0.0)
    exploring = len({tuple(agent.act_vec(obs[:2], t0=True)[0].tolist()) for _ in range(3)})
    promise(case, "by default it explores", exploring, 3)
    eight, found = torch.randn(8, 11), []
    for eval_mode in (False, True):  # the same draws up to the last one, which only the first makes
        torch.manual_seed(5)
        found.append(agent_for(code_dir).plan_vec(eight, t0=True, eval_mode=eval_mode))
    signs = {tuple(row.sign().tolist()) for row in found[0] - found[1]}
    promise(case, "each environment explores by itself", len(signs) > 4)
    states = []
    for mask in (torch.tensor([True, True]), True, torch.tensor(True)):
        torch.manual_seed(7)
        agent.plan_vec(obs[:2], t0=False)
        states.append(agent.plan_vec(obs[:2], t0=mask, eval_mode=True).tolist())
    promise(case, "a mask, a flag and a tensor of one", states[1:], [states[0]] * 2)
    promise(case, "no task", error_of(lambda: agent.plan_vec(obs[:2], t0=True, task=1)), "NotImplementedError")
    promise(case, "not even the first", error_of(lambda: agent.act_vec(obs[:2], True, False, 0)), "NotImplementedError")
    calm = agent_for(code_dir, {"mpc": False})
    promise(case, "nor without MPC", error_of(lambda: calm.act_vec(obs, task=2)), "NotImplementedError")
    promise(case, "without MPC it is the policy", tuple(calm.act_vec(obs).shape), (3, 6))
    promise(
        case, "nothing learns from it", calm.act_vec(obs).requires_grad or agent.act_vec(obs[:2]).requires_grad, False
    )
    if "mt30" in common.TASK_SET:
        many = agent_for(code_dir, {"task": "mt30"})
        promise(case, "no agent of many", error_of(lambda: many.plan_vec(obs, t0=True)), "NotImplementedError")
    for wanted in (True, False):
        calls, compile_ = [], torch.compile

        def stand_in(function, calls=calls, **options):
            calls.append((function.__name__, sorted(options.items())))
            return function

        torch.compile = stand_in
        try:
            made = agent_for(code_dir, {"compile": wanted})
            calls.clear()
            for _ in range(2):
                made.plan_vec(obs, t0=True)
        finally:
            torch.compile = compile_
        expected = [("_plan_vec", [("mode", "reduce-overhead")])] if wanted else []
        promise(case, f"compiled once, {wanted}", calls, expected)
