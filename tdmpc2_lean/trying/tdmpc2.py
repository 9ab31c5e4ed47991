"""The child process of `patch try` for TD-MPC2: a checkout's own train.py, run twice, with what happens counted.

    python -P -m tdmpc2_lean.trying.tdmpc2 REQUEST.json

Where the patch `device` is not applied the code is read for the CPU, as the gates do. What is counted: environment
steps, actions planned and drawn at random, updates, environments made, files written.
"""

import contextlib
import errno
import importlib
import json
import sys
import traceback
from collections import Counter
from pathlib import Path

EPISODE, SEED_STEPS, STEPS = 12, 15, 40
SMALL = {
    "task": "cartpole-balance", "seed": 1, "steps": STEPS, "eval_freq": 20, "eval_episodes": 1, "batch_size": 4,
    "num_samples": 8, "num_elites": 2, "num_pi_trajs": 2, "iterations": 1, "horizon": 2, "enc_dim": 8, "mlp_dim": 8,
    "latent_dim": 8, "num_q": 2, "buffer_size": 100, "compile": False, "save_video": False, "save_agent": True,
    "enable_wandb": False, "disable_wandb": True,
}  # fmt: skip
# What the second run is given, of the settings that are tried.
OTHERS = {
    "utd": 0.5, "pretrain_updates": 3, "separate_eval": True, "save_agent_every_eval": True, "save_video_files": True,
    "checkpoint_minutes": 0, "checkpoint_mid_episode": True,
}  # fmt: skip
ALWAYS = {"device": "cpu", "seed_steps": SEED_STEPS}  # in both runs
OF_ALL = ("agent made", "one plan", "one update", "save and load")


def no_room(error: BaseException) -> bool:
    """Whether an error says that the disk is full, and so nothing about the code. torch.save says it its own way."""
    by_torch = isinstance(error, RuntimeError) and "unexpected pos" in str(error)
    return by_torch or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Run:
    """One run of the script, and what was counted in it. error: how it ended, where that was by an error."""

    def __init__(self, code_dir: Path, folder: Path, applied: list[str], given: dict):
        self.code_dir, self.folder, self.applied, self.given = code_dir, folder, applied, given
        self.counts: Counter = Counter()
        self.agent = self.agent_class = self.obs = self.first_plan = self.error = None

    def carry_out(self) -> "Run":
        import hydra
        from omegaconf import OmegaConf, open_dict

        self.folder.mkdir(exist_ok=True)
        hydra.utils.get_original_cwd = lambda: str(self.folder)
        config = OmegaConf.load(self.code_dir / "config.yaml")
        with open_dict(config):
            config.pop("defaults", None)
        known = set(config.keys())  # also those without a value, which `in` leaves out
        small = {key: value for key, value in SMALL.items() if key in known}
        given = {key: value for key, value in self.given.items() if key in known}
        with self.watched():
            try:
                script = importlib.import_module("train").train
                getattr(script, "__wrapped__", script)(OmegaConf.merge(config, small, given))
            except Exception as error:
                if no_room(error):
                    raise
                at = traceback.extract_tb(error.__traceback__)[-1]
                self.error = f"{type(error).__name__}: {error} ({Path(at.filename).name}, line {at.lineno})"
                traceback.print_exc()
        return self

    @contextlib.contextmanager
    def watched(self):
        """Counts calls on the checkout's classes while it runs, and shortens the episodes."""
        import envs
        import numpy as np
        import tdmpc2

        self.agent_class = agent_class = tdmpc2.TDMPC2
        kept = {name: agent_class.__dict__[name] for name in ("__init__", "act", "update")}

        def made(agent, *args, **kwargs):
            kept["__init__"](agent, *args, **kwargs)
            self.agent = agent
            self.counts["agents"] += 1

        def act(agent, obs, *args, **kwargs):
            self.counts["plans"] += 1
            if self.first_plan is None and not kwargs.get("eval_mode"):
                self.first_plan = self.counts["random actions"]
            self.obs = obs
            return kept["act"](agent, obs, *args, **kwargs)

        def update(agent, *args, **kwargs):
            self.counts["updates"] += 1
            return kept["update"](agent, *args, **kwargs)

        def env_made(cfg, *args, **kwargs):
            env = self.official_make_env(cfg, *args, **kwargs)
            layer = env
            while "_max_episode_steps" not in vars(layer):
                layer = layer.env
            layer._max_episode_steps = cfg.episode_length = EPISODE
            if "seed-steps" not in self.applied:
                cfg.seed_steps = SEED_STEPS
            self.counts["environments"] += 1
            self.count(env, "step", "steps")
            self.count(env, "rand_act", "random actions")
            env.render = lambda *_, **__: np.zeros((16, 16, 3), np.uint8)
            return env

        self.official_make_env = envs.make_env
        for name, function in (("__init__", made), ("act", act), ("update", update)):
            setattr(agent_class, name, function)
        places = [envs, *(m for n, m in sys.modules.items() if n == "train" or n.startswith("trainer"))]
        places = [place for place in places if getattr(place, "make_env", None) is self.official_make_env]
        for place in places:
            place.make_env = env_made
        films = self.watched_films()
        saves = self.watched_saves()
        try:
            with films, saves:
                yield
        finally:
            for name, function in kept.items():
                setattr(agent_class, name, function)
            for module in list(sys.modules.values()):
                if getattr(module, "make_env", None) is env_made:
                    module.make_env = self.official_make_env

    def count(self, owner, name: str, what: str) -> None:
        function = getattr(owner, name)

        def counted(*args, **kwargs):
            self.counts[what] += 1
            return function(*args, **kwargs)

        setattr(owner, name, counted)

    @contextlib.contextmanager
    def watched_films(self):
        """Films are not written, which would need a codec, but counted."""
        import types

        had = sys.modules.get("imageio")

        def mimsave(*_, **__):
            self.counts["films"] += 1

        sys.modules["imageio"] = types.SimpleNamespace(mimsave=mimsave)
        try:
            yield
        finally:
            sys.modules.pop("imageio")
            if had is not None:
                sys.modules["imageio"] = had

    @contextlib.contextmanager
    def watched_saves(self):
        """Counts the checkpoints that are saved."""
        try:
            checkpoint = importlib.import_module("common.checkpoint").Checkpoint
        except (ImportError, AttributeError):
            yield
            return
        save = checkpoint.save

        def counted(*args, **kwargs):
            self.counts["checkpoints"] += 1
            return save(*args, **kwargs)

        checkpoint.save = counted
        try:
            yield
        finally:
            checkpoint.save = save

    def files(self, pattern: str) -> list[str]:
        return sorted(path.name for path in self.folder.rglob(pattern))


def observed(request: dict) -> dict:
    """{"observations": rows of `Observation`, "untried": settings}."""
    code_dir, folder = Path(request["code_dir"]), Path(request["folder"])
    applied, settings = request["applied"], request["settings"]
    if "device" not in applied:
        from tdmpc2_lean.validation.gates import cpu_shim

        cpu_shim.install(code_dir)
    sys.path.insert(0, str(code_dir))
    rows: list[dict] = []

    def row(what, patch, seen, expected, found):
        rows.append({"what": what, "patch": patch, "seen": bool(seen), "expected": expected, "found": str(found)})

    always = {key: value for key, value in ALWAYS.items() if key in settings}
    first = Run(code_dir, folder / "first", applied, always).carry_out()
    ended = f"; the script ended with {first.error}" if first.error else ""
    expected, found = "the script makes the agent of tdmpc2.py", f"{first.counts['agents']}{ended}"
    row("agent made", "", first.agent is not None, expected, found)
    row("one plan", "", first.counts["plans"], "an action of the planner", f"{first.counts['plans']}{ended}")
    row("one update", "", first.counts["updates"], "an update", f"{first.counts['updates']}{ended}")
    if first.agent is not None:
        row("save and load", "", *_saved_and_loaded(first, folder))
    if first.agent is not None and "plan-vec" in applied:
        row("act_vec", "plan-vec", *_acts_for_many(first))
    changed = {key: value for key, value in OTHERS.items() if key in settings}
    second = Run(code_dir, folder / "second", applied, always | changed).carry_out() if changed else first
    ended = f"; the script ended with {second.error}" if second.error else ended
    for setting, patch in settings.items():
        if setting in LOOKS:
            seen, expected, found = LOOKS[setting](first, second)
            value = (always | OTHERS)[setting]
            row(f"{setting}={str(value).lower()}", patch, seen, expected, f"{found}{ended}")
    return {"observations": rows, "untried": sorted(set(settings) - set(LOOKS))}


def _saved_and_loaded(run: Run, folder: Path) -> tuple[bool, str, str]:
    expected = "a new agent has the saved parameters"
    try:
        import torch

        run.agent.save(folder / "agent.pt")
        saved = {key: value.clone() for key, value in run.agent.model.state_dict().items() if hasattr(value, "clone")}
        with torch.no_grad():
            for parameter in run.agent.model.parameters():
                parameter.add_(1)
        run.agent.load(folder / "agent.pt")
        now = run.agent.model.state_dict()
        other = [key for key, value in saved.items() if not torch.equal(value, now[key])]
        return not other, expected, f"{len(other)} of {len(saved)} differ"
    except Exception as error:
        if no_room(error):
            raise
        traceback.print_exc()
        return False, expected, f"{type(error).__name__}: {error}"


def _acts_for_many(run: Run) -> tuple[bool, str, str]:
    expected = "an action for each of 3 environments"
    try:
        actions = run.agent.act_vec(run.obs.unsqueeze(0).repeat(3, *[1] * run.obs.dim()), t0=True)
        return len(actions) == 3 and bool(actions.isfinite().all()), expected, f"shape {tuple(actions.shape)}"
    except Exception as error:
        traceback.print_exc()
        return False, expected, f"{type(error).__name__}: {error}"


def _updates(pretraining: int, utd: float) -> int:
    return pretraining + int((STEPS - SEED_STEPS) * utd)


def _device(first: Run, second: Run):
    found = sorted({str(value.device) for value in first.agent.model.parameters()}) if first.agent else []
    return found == ["cpu"], "the agent on cpu", ", ".join(found) or "no agent"


def _seed_steps(first: Run, second: Run):
    # The trainer draws one more to know an action's shape, at each beginning of an episode.
    episodes = -(-(SEED_STEPS + 1) // EPISODE)
    expected = SEED_STEPS + 1 + episodes
    return first.first_plan == expected, f"the first plan after {SEED_STEPS + 1} random actions", (
        "no plan" if first.first_plan is None else f"after {first.first_plan - episodes}"
    )


def _utd(first: Run, second: Run):
    pretraining = OTHERS["pretrain_updates"] if "pretrain_updates" in second.given else SEED_STEPS
    expected = _updates(pretraining, OTHERS["utd"])
    return second.counts["updates"] == expected, f"{expected} updates", second.counts["updates"]


def _separate_eval(first: Run, second: Run):
    more = second.counts["environments"] - first.counts["environments"]
    return more > 0, "an environment more for each evaluation", f"{more} more"


def _save_agent(first: Run, second: Run):
    more = sorted(set(second.files("models/*.pt")) - set(first.files("models/*.pt")))
    return bool(more), "an agent saved at each evaluation", ", ".join(more) or "none"


def _video(first: Run, second: Run):
    return second.counts["films"] > first.counts["films"], "a film of each evaluation", second.counts["films"]


def _checkpoint(first: Run, second: Run):
    """Saved, and a second call of the script goes on where it is to be gone on from: at the end, with nothing to do."""
    saved = second.files("checkpoint.pt")
    expected = "a checkpoint, from which the run goes on"
    if not saved:
        return False, expected, "no checkpoint"
    again = Run(second.code_dir, second.folder, second.applied, second.given | {"steps": STEPS + 2}).carry_out()
    found = f"{again.counts['updates']} updates in the call that goes on"
    return again.error is None and again.counts["updates"] < second.counts["updates"], expected, again.error or found


def _mid_episode(first: Run, second: Run):
    saves = second.counts["checkpoints"]
    return saves > STEPS // EPISODE + 2, "checkpoints within episodes", f"{saves} checkpoints"


LOOKS = {
    "device": _device,
    "seed_steps": _seed_steps,
    "utd": _utd,
    "pretrain_updates": _utd,
    "separate_eval": _separate_eval,
    "save_agent_every_eval": _save_agent,
    "save_video_files": _video,
    "checkpoint_minutes": _checkpoint,
    "checkpoint_mid_episode": _mid_episode,
}


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        REQUEST = json.load(file)
    try:
        ANSWER = observed(REQUEST)
    except Exception as full:
        if not no_room(full):
            raise
        ANSWER = {"no_room": str(full).partition("\n")[0]}
    (Path(REQUEST["folder"]) / "answer.json").write_text(json.dumps(ANSWER))
