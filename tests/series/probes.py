"""What tests of the series do in a process of their own, on a patched checkout (see validation/gates/process.py)."""

from pathlib import Path

from tdmpc2_lean.validation.gates.planning import make_agent, observations
from tdmpc2_lean.validation.gates.trace_tdmpc2 import configuration

TINY = {"mlp_dim": 32, "enc_dim": 32, "latent_dim": 32, "num_samples": 16, "num_elites": 4, "num_pi_trajs": 4}


def two_agents(code_dir: Path) -> dict:
    """Iterations in the caller's configuration before and after two agents with 20 action dimensions, and in each."""
    from tdmpc2 import TDMPC2

    cfg = configuration(code_dir, Path.cwd(), {"task": "humanoid-run"} | TINY)
    cfg.obs_shape, cfg.action_dim, cfg.episode_length = {"state": (7,)}, 21, 500
    before = cfg.iterations
    agents = [TDMPC2(cfg), TDMPC2(cfg)]
    return {"before": before, "after": cfg.iterations, "agents": [agent.cfg.iterations for agent in agents]}


def load(code_dir: Path, checkpoint: str) -> dict:
    """What loading a file into an agent raises, if anything."""
    agent = make_agent(code_dir, TINY)
    try:
        agent.load(checkpoint)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"error": None}


def checkpoint_formats(code_dir: Path) -> dict:
    """For a checkpoint with and without tensordict's metadata: whether loading it restores every tensor."""
    import torch

    source = make_agent(code_dir, TINY, seed=1)
    plain = {k: v for k, v in source.model.state_dict().items() if not k.endswith(("__batch_size", "__device"))}
    prefixes = ("_Qs.params.", "_detach_Qs_params.", "_target_Qs_params.")
    metadata = {p + "__batch_size": torch.Size([5]) for p in prefixes} | {p + "__device": None for p in prefixes}
    answers = {}
    for name, state in (("without metadata", plain), ("with metadata", plain | metadata)):
        path = Path.cwd() / "checkpoint.pt"
        torch.save({"model": state}, path)
        target = make_agent(code_dir, TINY, seed=2)
        target.load(path)
        found = target.model.state_dict()
        answers[name] = all(torch.equal(plain[k], found[k]) for k in plain)
    return answers


def single_task_checkpoints(code_dir: Path) -> dict:
    """Whether checkpoints of a single task's agent give their weights to another agent.

    Of the format from before the compiled agent (old) and of today's (new), and with a termination head or without, as
    only some versions have one for tasks that are not episodic. {name: {"equal", "keys": how its entries begin}}.
    """
    import torch

    source = make_agent(code_dir, TINY, seed=1)
    was = source.model.state_dict()
    head = {key: value for key, value in was.items() if key.startswith("_termination.")}
    made = {"_termination.0.weight": torch.zeros(32, 32), "_termination.0.bias": torch.zeros(32)}
    answers = {}
    for layout, state in (("old", _old_format(was)), ("new", dict(was))):
        bare = {key: value for key, value in state.items() if key not in head}
        for name, state in ((f"{layout}, without head", bare), (f"{layout}, with head", bare | (head or made))):
            path = Path.cwd() / "made.pt"
            torch.save({"model": dict(state)}, path)
            target = make_agent(code_dir, TINY, seed=2)
            own = {key: target.model.state_dict()[key].clone() for key in head}
            target.load(path)
            now = target.model.state_dict()
            expected = was | (own if "without" in name else {})
            tensors = [k for k in was if hasattr(was[k], "shape") and not k.endswith("__batch_size")]
            answers[name] = {
                "equal": [k for k in tensors if torch.equal(expected[k], now[k])] == tensors,
                "keys": sorted({key.partition(".")[0] for key in state}),
            }
    return answers


def _old_format(state: dict) -> dict:
    """A state dict as the agent had it before it could be compiled."""
    names = ("weight", "bias", "ln.weight", "ln.bias")
    old = {}
    for key, value in state.items():
        if key.endswith(("__batch_size", "__device")) or key in ("log_std_min", "log_std_dif"):
            continue
        if "Qs" not in key:
            old[key] = value
            continue
        owner, _, rest = key.partition("params.")
        if owner == "_detach_Qs_":
            continue
        layer, _, name = rest.partition(".")
        old[f"{owner.rstrip('_.')}.params.{4 * int(layer) + names.index(name)}"] = value
    return old


def episodic_without_termination(code_dir: Path) -> dict:
    """What an agent for an episodic task says of a checkpoint that lacks the termination head it uses."""
    import torch

    overrides = TINY | {"episodic": True}
    state = make_agent(code_dir, overrides, seed=1).model.state_dict()
    path = Path.cwd() / "made.pt"
    torch.save({"model": {key: value for key, value in state.items() if not key.startswith("_termination.")}}, path)
    try:
        make_agent(code_dir, overrides, seed=2).load(path)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"error": ""}


def q_weights(code_dir: Path) -> dict:
    """A new agent's Q-functions: of the hidden weights, how many inputs and which standard deviation; a digest of all.

    last: the largest of the last layer's weights. dynamics_std: the standard deviation in another network.
    """
    import hashlib

    import torch
    from tdmpc2 import TDMPC2

    cfg = configuration(code_dir, Path.cwd(), {"task": "cheetah-run", "model_size": 1})
    cfg.obs_shape, cfg.action_dim, cfg.episode_length = {"state": (17,)}, 6, 500
    torch.manual_seed(1)
    model = TDMPC2(cfg).model
    if hasattr(model, "_target_Qs_params"):
        weights = [model._Qs.params[layer, "weight"].detach() for layer in ("0", "1", "2")]
        targets = [model._target_Qs_params[layer, "weight"] for layer in ("0", "1", "2")]
    else:  # until September 2024 a list of all parameters
        weights = [parameter.detach() for parameter in model._Qs.params if parameter.ndim == 3]
        targets = [parameter for parameter in model._target_Qs.params if parameter.ndim == 3]
    return {
        "inputs": [weight.shape[-1] for weight in weights[:2]],
        "std": [float(weight.std()) for weight in weights[:2]],
        "last": float(weights[2].abs().max()),
        "targets alike": all(map(torch.equal, weights, targets)),
        "dynamics_std": float(model._dynamics[0].weight.std()),
        "digest": hashlib.sha256(b"".join(weight.numpy().tobytes() for weight in weights)).hexdigest(),
    }


def many_environments(code_dir: Path) -> dict:
    """What planning for several environments says when it is asked for what it cannot do."""
    agent = make_agent(code_dir, TINY)
    said = {}

    def attempt(name, call):
        try:
            call()
        except Exception as error:
            said[name] = f"{type(error).__name__}: {error}"

    attempt("no plans yet", lambda: agent.act_vec(observations(agent, 3)))
    agent.act_vec(observations(agent, 3), t0=True)
    attempt("other number", lambda: agent.act_vec(observations(agent, 4), t0=[True, True, True, False]))
    attempt("a task", lambda: agent.act_vec(observations(agent, 3), t0=True, task=0))
    said["shape"] = list(agent.act_vec(observations(agent, 3)).shape)
    agent.cfg.multitask = True
    attempt("multi-task", lambda: agent.act_vec(observations(agent, 3), t0=True))
    return said


def environments(code_dir: Path, overrides: dict) -> dict:
    """Settings that making an environment leaves in the configuration, and how a seeded action space begins."""
    from envs import make_env

    cfg = configuration(code_dir, Path.cwd(), {"task": "cheetah-run"} | overrides)
    env = make_env(cfg)
    return {"seed_steps": cfg.seed_steps, "episode_length": cfg.episode_length, "action": env.rand_act().tolist()}


def artifacts(code_dir: Path, overrides: dict) -> dict:
    """Files that a short training run with evaluations leaves in its folder."""
    from common.buffer import Buffer
    from common.logger import Logger
    from tdmpc2 import TDMPC2
    from trainer.online_trainer import OnlineTrainer

    from tdmpc2_lean.validation.gates.trace_tdmpc2 import TDMPC2Budget, make_env

    budget = TDMPC2Budget(steps=90, seed_steps=45, eval_freq=40)
    cfg = configuration(code_dir, Path.cwd(), budget.overrides() | TINY | {"save_agent": True} | overrides)
    env = make_env(cfg, budget)
    if cfg.save_video_files:
        env.render = lambda: __import__("numpy").zeros((64, 64, 3), "uint8")
    OnlineTrainer(cfg=cfg, env=env, agent=TDMPC2(cfg), buffer=Buffer(cfg), logger=Logger(cfg)).train()
    folder = Path(cfg.work_dir)
    files = [p for p in folder.rglob("*") if p.is_file()]
    return {"files": sorted(p.relative_to(folder).as_posix() for p in files if p.stat().st_size > 0)}


def compiled(code_dir: Path, overrides: dict) -> dict:
    """Actions and losses of a compiled agent, finite or not."""
    import torch

    agent = make_agent(code_dir, overrides | {"compile": True})
    obs = observations(agent, 2)
    actions = [agent.act(o, t0=i == 0) for i, o in enumerate(obs)]
    B, H = agent.cfg.batch_size, agent.cfg.horizon
    info = agent._update(
        torch.randn(H + 1, B, obs.shape[-1]), torch.rand(H, B, 6) * 2 - 1, torch.rand(H, B, 1), torch.zeros(H, B, 1)
    )
    finite = all(bool(torch.isfinite(v).all()) for v in [*actions, *(torch.as_tensor(x) for x in info.values())])
    return {"finite": finite, "within": all(bool((a.abs() <= 1).all()) for a in actions)}
