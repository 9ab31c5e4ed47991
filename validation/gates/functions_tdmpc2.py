"""The gate `functions` of TD-MPC2: function by function, and for whole updates and plans, on inputs that bite.

Runs that are short enough for a gate never meet a gradient above the clipping norm, a value in the outermost bin or a
running scale above 1. Here such inputs are made: values in, at and beyond the edges of the bins, gradients above and
below the norm, scales at and above their clamp, terminations, no MPC, many tasks, pixels, few and many actions,
buffers of one episode, at capacity and past it. Compared are outputs, gradients, all state and the random states.

This module holds the gate and its cases on formulas and networks; `functions_agent_tdmpc2` those on planning, updates
and saving, `functions_loop_tdmpc2` those on the replay buffer and the trainers.
"""

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

from tdmpc2_lean.validation.gates import cases, names_tdmpc2, stand_ins
from tdmpc2_lean.validation.gates.cases import Case, Lacking
from tdmpc2_lean.validation.gates.results import Result
from tdmpc2_lean.validation.gates.subjects import GateSubject

FUNCTION = "tdmpc2_lean.validation.gates.functions_tdmpc2:answers"
SMALL = {"mlp_dim": 24, "enc_dim": 24, "latent_dim": 16, "num_samples": 40, "num_elites": 8, "num_pi_trajs": 6}
SMALL |= {"batch_size": 12, "task": "cheetah-run"}
OBS_DIM, ACTION_DIM = 11, 6


def functions(subject: GateSubject) -> Iterator[Result]:
    """One result per case."""
    yield from cases.judged("functions", FUNCTION, subject)


# What follows runs in a process of its own, on the checkout's code.


def answers(code_dir: Path, names: list[str] | None = None) -> dict:
    """What `cases.recorded` returns of this gate's cases."""
    from tdmpc2_lean.validation.gates import (
        functions_agent_tdmpc2,
        functions_env_tdmpc2,
        functions_loop_tdmpc2,
        functions_scripts_tdmpc2,
    )

    marked = stand_ins.MarkedSteps()
    table = {
        "bins": bins,
        "formulas": formulas,
        "double-precision": lambda case: double_precision(case, code_dir),
        "running-scale": lambda case: running_scale(case, code_dir),
        "percentiles": lambda case: percentiles(case, code_dir),
        "layers": layers_,
        "encoders": encoders,
        "networks": lambda case: networks(case, make_agent(code_dir)),
        "networks-episodic": lambda case: networks(case, make_agent(code_dir, {"episodic": True})),
        "networks-one-action": lambda case: networks(case, make_agent(code_dir, action_dim=1)),
        "seed": seed,
    }
    table |= functions_agent_tdmpc2.table(code_dir) | functions_loop_tdmpc2.table(code_dir)
    table |= functions_env_tdmpc2.table(code_dir) | functions_scripts_tdmpc2.table(code_dir)
    table["networks-mt30"] = lambda case: networks(case, make_agent(code_dir, {"task": "mt30"}))
    table["networks-pixels"] = lambda case: networks(case, make_agent(code_dir, PIXELS))
    marked_table = {name: with_marks(case, marked) for name, case in table.items()}
    return cases.recorded(stand_ins.each_alone(marked_table), names)


def with_marks(function, marked: stand_ins.MarkedSteps):
    """A case that also records how often it marked a step for CUDA graphs."""

    def case_of(case: Case) -> None:
        before = marked.count
        function(case)
        case.record("steps marked for CUDA graphs", count=marked.count - before)

    return case_of


PIXELS = {"obs": "rgb", "latent_dim": 512, "batch_size": 3}


def make_agent(
    code_dir: Path, overrides: dict | None = None, action_dim: int = ACTION_DIM, spread: float = 0.1, seed=0
):
    """A small agent with random weights also where the official initialisation is zero.

    spread: standard deviation of what is added to every parameter. Raises Lacking where the checkout knows no pixels
    or no such set of tasks.
    """
    import common
    import torch
    from tdmpc2 import TDMPC2

    from tdmpc2_lean.validation.gates.subjects import read_config
    from tdmpc2_lean.validation.gates.trace_tdmpc2 import configuration

    overrides, known = SMALL | (overrides or {}), read_config(code_dir)
    if overrides.get("obs") == "rgb" and "num_channels" not in known:
        raise Lacking("an encoder for pixels")
    if overrides.get("episodic") and "episodic" not in known:
        raise Lacking("terminations")
    if overrides["task"] == "mt30" and "mt30" not in common.TASK_SET:
        raise Lacking("the task set mt30")
    cfg = configuration(code_dir, Path.cwd(), overrides)
    cfg.obs_shape = {"rgb": (9, 64, 64)} if cfg.get("obs") == "rgb" else {"state": (OBS_DIM,)}
    cfg.action_dim, cfg.episode_length = action_dim, 500
    if cfg.multitask:
        count = len(cfg.tasks)
        cfg.action_dims = [1 + i % action_dim for i in range(count)]
        cfg.obs_shapes = [OBS_DIM] * count
        cfg.episode_lengths = [500 if i % 3 else 30 * (i + 1) for i in range(count)]
    torch.manual_seed(seed)
    agent = TDMPC2(cfg)
    with torch.no_grad():
        for parameter in agent.model.parameters():
            if parameter.requires_grad:
                parameter.add_(spread * torch.randn_like(parameter))
        # Targets that are not the networks themselves
        for target in names_tdmpc2.target_tensors(agent.model):
            target.add_(0.03 * torch.randn_like(target))
        if names_tdmpc2.is_episodic(cfg):
            agent.model._termination[-1].weight.mul_(20)  # terminations in some states, not in all or none
    agent.model.eval()
    return agent


def observations(agent, *batch: int):
    """Random observations of the agent's kind, with `batch` dimensions in front."""
    import torch

    if agent.cfg.get("obs") == "rgb":
        return torch.randint(0, 256, (*batch, 9, 64, 64), dtype=torch.uint8)
    return torch.randn(*batch, OBS_DIM)


def tasks_of(agent, count: int):
    """Task of each of `count` rows; None for an agent with one task."""
    import torch

    return torch.randint(0, len(agent.cfg.tasks), (count,)) if agent.cfg.multitask else None


def bins(case: Case) -> None:
    """Two-hot encoding in, at and beyond every edge of the bins, its inverse and its loss with gradients."""
    import torch
    from common import math

    symlog, symexp, two_hot, inverse, soft_ce = case.find(math, "symlog", "symexp", "two_hot", "two_hot_inv", "soft_ce")
    for low, high, count in ((-10, 10, 101), (-3, 5, 7), (-1, 1, 2), (0, 1, 0), (0, 1, 1)):
        cfg = SimpleNamespace(vmin=low, vmax=high, num_bins=count, bin_size=(high - low) / max(count - 1, 1))
        if hasattr(math, "DREG_BINS"):
            math.DREG_BINS = None  # kept by early commits for the first bins that they meet
        edges = torch.linspace(low, high, max(count, 2))
        middles = edges[:-1] + cfg.bin_size * torch.tensor([0.01, 0.3, 0.5, 0.99]).unsqueeze(1)
        beyond = torch.tensor([low - 1e-6, low - 3, low - 60, high + 1e-6, high + 3, high + 60, -0.0, 0.0])
        symlogs = torch.cat([edges, middles.flatten(), beyond])
        values = torch.cat([symexp(symlogs), torch.tensor([1e-8, -1e-8, 0.5, -0.5, 1, 1e4, float("inf"), -1e30])])
        case.record(f"symlog, {count} bins", x=values, symlog=symlog(values), symexp=symexp(symlogs))
        try:
            case.record(f"two-hot, {count} bins", two_hot=two_hot(values.unsqueeze(-1), cfg))
        except Exception as error:
            case.record(f"two-hot, {count} bins", error=type(error).__name__)
            continue
        logits = (3 * torch.randn(len(values), max(count, 1))).requires_grad_()
        decoded = inverse(logits, cfg)
        (gradient,) = torch.autograd.grad(decoded.sum(), logits)
        case.record(f"inverse, {count} bins", decoded=decoded, gradient=gradient)
        loss = soft_ce(logits, values.clamp(-1e20, 1e20).unsqueeze(-1), cfg)
        (gradient,) = torch.autograd.grad((loss * torch.randn_like(loss)).sum(), logits)
        case.record(f"loss, {count} bins", loss=loss, gradient=gradient)
        stacked = inverse(torch.randn(3, 4, max(count, 1)), cfg)
        case.record(f"inverse of an ensemble, {count} bins", decoded=stacked)


def formulas(case: Case) -> None:
    """The policy's formulas, the draw of an elite, and what is told of terminations."""
    import torch
    from common import math

    log_std, logprob, squash = case.find(math, "log_std", "gaussian_logprob", "squash")
    gumbel, one_hot, statistics = case.find(math, "gumbel_softmax_sample", "int_to_one_hot", "termination_statistics")
    x = torch.cat([torch.linspace(-12, 12, 49), torch.tensor([-100.0, 100.0, 1e-7])]).view(13, 4).requires_grad_()
    for low, dif in ((-10.0, 12.0), (-2.0, 3.0)):
        found = log_std(x, torch.tensor(low), torch.tensor(dif))
        case.record("log_std", log_std=found, gradient=torch.autograd.grad(found.sum(), x)[0])
    eps = torch.randn_like(x)
    found = logprob(eps, x)
    case.record("log-density", found=found, gradient=torch.autograd.grad(found.sum(), x)[0])
    mean, sample, density = squash(x, x + eps, found.detach())
    (gradient,) = torch.autograd.grad((mean + 2 * sample + 3 * density).sum(), x)
    case.record("squash", mean=mean, sample=sample, density=density, gradient=gradient)
    for size in (1, 2, 64) if gumbel else ():
        p = torch.rand(size).softmax(0)
        case.record(f"one of {size}", {str(i): gumbel(p) for i in range(20)}, warm=gumbel(p, temperature=3.0))
    rows = torch.rand(7, 5).softmax(1)
    case.record("one of each row", {str(dim): gumbel(rows, dim=dim) for dim in (0, 1)}, either=gumbel(rows))
    case.random_states()
    if one_hot:
        case.record("one-hot", one=one_hot(torch.tensor([2, 0, 4]), 5), two=one_hot(torch.tensor([[1], [0]]), 3))
    if statistics:
        target = torch.tensor([[0.0], [1.0], [1.0], [0.0], [1.0], [0.0]])
        for number, guess in enumerate(([0.1, 0.9, 0.5, 0.6, 0.51, 0.49], [0.9] * 6, [0.0] * 6, [0.5] * 6)):
            case.record(f"terminations {number}", statistics(torch.tensor(guess).unsqueeze(-1), target))
        case.record("no terminations", statistics(torch.tensor([[0.7], [0.2]]), torch.zeros(2, 1)))


def double_precision(case: Case, code_dir: Path) -> None:
    """Formulas, and planning, where tensors are of another kind than torch makes by default: kinds that are named."""
    import torch
    from common import math

    cfg = SimpleNamespace(vmin=-3, vmax=5, num_bins=7, bin_size=8 / 6)  # edges that single precision has to round
    values, logits = torch.linspace(-200, 200, 41, dtype=torch.float64).unsqueeze(1), torch.randn(41, 7)
    found = {"two-hot": math.two_hot(values, cfg), "inverse": math.two_hot_inv(logits.double(), cfg)}
    found |= {"loss": math.soft_ce(logits.double(), values, cfg)}
    case.record("formulas", found)
    if hasattr(math, "termination_statistics"):
        guess, ends = torch.rand(30, 1, dtype=torch.float64), (torch.rand(30, 1) < 0.4).double()
        case.record("terminations", math.termination_statistics(guess, ends))
    torch.set_default_dtype(torch.float64)
    try:
        for overrides in ({}, {"episodic": True}):
            agent = make_agent(code_dir, overrides, spread=0.3)
            kinds = {name: str(x.dtype) for name, x in [*agent.named_parameters(), *agent.named_buffers()]}
            case.record("kinds of an agent's tensors", kinds)
            obs = observations(agent, 3)
            z = agent.model.encode(obs[:1], None).repeat(agent.cfg.num_samples, 1)
            actions = torch.rand(agent.cfg.horizon, len(z), agent.cfg.action_dim)
            refused(case, "an agent of two kinds plans", lambda agent=agent, obs=obs: agent.act(obs[0], t0=True))
            agent.double()
            for name, make in {
                "value": lambda agent=agent, z=z, a=actions: agent._estimate_value(z, a, None),
                "first plan": lambda agent=agent, o=obs[0]: agent.act(o, t0=True),
                "next plan": lambda agent=agent, o=obs[1]: agent.act(o),
                "policy": lambda agent=agent, z=z: agent.model.pi(z, None)[0],
                "entropy": lambda agent=agent, z=z: agent.model.pi(z, None)[1]["scaled_entropy"],
                "number of values": lambda agent=agent, z=z, a=actions[0]: agent.model.Q(z, a, None),
            }.items():
                try:
                    case.record(name, found=make().detach())
                except Exception as error:
                    case.record(name, error=type(error).__name__)
    finally:
        torch.set_default_dtype(torch.float32)


def running_scale(case: Case, code_dir: Path) -> None:
    """Percentiles of batches of many sizes, below, at and above the clamp; the average's rate; its state."""
    import torch
    from common.scale import RunningScale

    from tdmpc2_lean.validation.gates.trace_tdmpc2 import configuration

    for tau in (0.01, 0.3):
        cfg = configuration(code_dir, Path.cwd(), SMALL | {"tau": tau})
        scale = RunningScale(cfg)
        case.record("new scale", scale.state_dict())
        for number, (size, width) in enumerate(((256, 0.1), (256, 7.0), (12, 300.0), (3, 2.0), (40, 1.1), (256, 0.0))):
            x = width * torch.randn(size, 1)
            scale.update(x)
            case.record(f"batch {number}", value=scale.value, scaled=scale(x), many=scale(x.repeat(4, 1, 1)))
        # A spread of exactly 1: the clamp's edge
        scale.update(torch.linspace(0, 1 / 0.9, 101).unsqueeze(1))
        case.record("at the clamp", value=scale.value)
        kept = {name: value.clone() for name, value in scale.state_dict().items()}
        another = RunningScale(cfg)
        another.load_state_dict(kept)
        another.update(5 * torch.randn(64, 1))
        case.record("restored", another.state_dict())
        case.record("device and kind", {k: f"{v.device} {v.dtype} {v.shape}" for k, v in another.state_dict().items()})


def percentiles(case: Case, code_dir: Path) -> None:
    """A scale that is updated by the call that scales; percentiles of arrays of many dimensions and kinds."""
    import torch
    from common.scale import RunningScale

    from tdmpc2_lean.validation.gates.trace_tdmpc2 import configuration

    scale = RunningScale(configuration(code_dir, Path.cwd(), SMALL | {"tau": 0.3}))
    for kind in (torch.float32, torch.float64):
        wide = torch.randn(11, 3, 2, dtype=kind)
        found = scale._percentile(wide)
        case.record("percentiles of many", found=found, kind=str(found.dtype))
    case.record("percentiles of one", found=scale._percentile(torch.tensor([[2.5]])))
    x = 4 * torch.randn(30, 1)
    updated, left = scale(x, update=True), scale(x, update=False)
    case.record("updated by the call", updated=updated, left=left, value=scale.value)


def layers_(case: Case) -> None:
    """Every layer, with gradients, in training and in evaluation, and how layers are initialised."""
    import torch
    from common import init, layers
    from torch import nn

    norm, linear, mlp, ensemble = case.find(layers, "SimNorm", "NormedLinear", "mlp", "Ensemble")
    augment, pixels, conv = case.find(layers, "ShiftAug", "PixelPreprocess", "conv")

    def looked_at(name, module, x):
        for training in (False, True):
            module.train(training)
            x = x.detach().clone()
            if x.is_floating_point():
                x.requires_grad_()
            y = module(x.clone())  # early commits change what they are given
            wanted = [p for p in module.parameters() if p.requires_grad] + ([x] if x.requires_grad else [])
            total = (y * torch.linspace(0.5, 2, y.numel()).view(y.shape)).sum()
            gradients = torch.autograd.grad(total, wanted, allow_unused=True) if wanted else []
            found = {f"gradient {i}": g for i, g in enumerate(gradients) if g is not None}
            case.record(f"{name}, training {training}", found, y=y, text=repr(module))
        case.record(f"parameters of {name}", {k: v for k, v in module.state_dict().items() if hasattr(v, "dtype")})

    for dim, width in ((8, 32), (4, 32), (32, 32)):
        looked_at(f"SimNorm {dim}", norm(SimpleNamespace(simnorm_dim=dim)), 3 * torch.randn(2, 5, width))
    looked_at("NormedLinear", linear(6, 10), torch.randn(4, 6))
    looked_at("NormedLinear with dropout", linear(6, 40, dropout=0.4), torch.randn(64, 6))
    looked_at("NormedLinear with another activation", linear(6, 10, act=nn.ReLU()), torch.randn(4, 6))
    for name, module in {
        "mlp": mlp(5, 12, 3),
        "mlp of many": mlp(5, [12, 9, 7], 3, dropout=0.5),
        "mlp with an activation": mlp(5, [12], 8, act=norm(SimpleNamespace(simnorm_dim=4))),
    }.items():
        looked_at(name, module.apply(init.weight_init), torch.randn(32, 5))
    members = ensemble([mlp(5, [12, 9], 3, dropout=0.5).apply(init.weight_init) for _ in range(4)])
    looked_at("Ensemble", members, torch.randn(32, 5))
    zero_, weight_init = case.find(init, "zero_", "weight_init")
    embedding, bare, plain = nn.Embedding(50, 7), nn.Linear(400, 30, bias=False), nn.LayerNorm(9)
    for module in (embedding, bare, plain):
        weight_init(module)
    case.record("initialised", embedding=embedding.weight, linear=bare.weight, norm=plain.weight)
    if zero_:
        zero_([bare.weight])
        case.record("made zero", linear=bare.weight)
    if augment and pixels and conv:
        frames = torch.randint(0, 256, (2, 9, 64, 64), dtype=torch.uint8)
        for pad in (3, 1):
            looked_at(f"ShiftAug {pad}", augment(pad), frames)
        looked_at("PixelPreprocess", pixels(), frames.float())
        looked_at("conv", conv((9, 64, 64), 4), frames)
        looked_at("conv with SimNorm", conv((9, 64, 64), 4, act=norm(SimpleNamespace(simnorm_dim=8))), frames)
        looked_at("ShiftAug by default", augment(), frames)
        refused(case, "frames that are not square", lambda: augment(3)(frames[..., :60]))
        refused(case, "frames of another size", lambda: conv((9, 84, 84), 4))
    case.random_states()


def refused(case: Case, what: str, make) -> None:
    """Records which kind of error `make` raises, or that it raises none."""
    try:
        make()
    except Exception as error:
        case.record(what, error=type(error).__name__)
    else:
        case.record(what, error="none")


def encoders(case: Case) -> None:
    """Encoders for several kinds of observation, of one layer and of more, and what is kept of earlier ones."""
    from common import layers

    sizes = {"latent_dim": 16, "enc_dim": 12, "simnorm_dim": 8, "task_dim": 3, "num_channels": 2}
    seen = [({"state": (5,)}, 1), ({"state": (5,)}, 2), ({"state": (4,)}, 3)]
    if hasattr(layers, "conv"):
        seen += [({"rgb": (9, 64, 64)}, 2), ({"state": (6,), "rgb": (3, 64, 64)}, 4)]
    for shape, depth in seen:
        made = layers.enc(SimpleNamespace(obs_shape=shape, num_enc_layers=depth, **sizes), out={})
        case.record(f"encoders of {shape}", text=repr(made), kinds=list(made))
    for shape, depth in seen:
        made = layers.enc(SimpleNamespace(obs_shape=shape, num_enc_layers=depth, **sizes))
        case.record(f"encoders of {shape}, after others", text=repr(made), kinds=list(made))
    unknown = SimpleNamespace(obs_shape={"sound": (5,)}, num_enc_layers=2, **sizes)
    refused(case, "encoder for an unknown kind", lambda: layers.enc(unknown, out={}))
    members = layers.Ensemble([layers.mlp(3, [4], 2) for _ in range(3)])
    case.record("ensemble", members=len(members), text=repr(members))
    case.record("layers", one=repr(layers.NormedLinear(3, 4, bias=False, dropout=0.1)), plain=repr(layers.mlp(3, 4, 2)))


def gradients_of(case: Case, name: str, model, outputs: dict, inputs: dict) -> None:
    """Records outputs and the gradients of a weighted sum of them by every parameter and by inputs."""
    import torch

    live = [y for y in outputs.values() if hasattr(y, "requires_grad") and y.requires_grad]
    case.record(name, outputs, learns=len(live))
    if not live:
        return
    total = sum((y * torch.linspace(0.5, 1.5, y.numel()).view(y.shape)).sum() for y in live)
    learned = {k: p for k, p in model.named_parameters() if p.requires_grad}
    wanted = {**learned, **inputs}
    gradients = torch.autograd.grad(total, list(wanted.values()), allow_unused=True)
    pairs = zip(wanted, gradients, strict=True)
    case.record(f"gradients of {name}", {k: "none" if g is None else g for k, g in pairs})


def networks(case: Case, agent) -> None:
    """Every method of the world model, for batches and for sequences, in training and in evaluation."""
    import torch

    model, cfg, rows = agent.model, agent.cfg, 5
    can_detach = "detach" in inspect.signature(model.Q).parameters
    if not can_detach:
        case.lack("values detached from the networks")
    for training in (False, True):
        model.train(training)
        task, said = tasks_of(agent, rows), f"training {training}"
        obs = observations(agent, rows)
        z = model.encode(obs, task)
        gradients_of(case, f"encode, {said}", model, {"z": z}, {})
        sequence = model.encode(observations(agent, 3, rows), task)
        gradients_of(case, f"encode a sequence, {said}", model, {"z": sequence}, {})
        for shape, latent in (("batch", z), ("sequence", sequence)):
            latent = latent.detach().requires_grad_()
            action = torch.rand(*latent.shape[:-1], cfg.action_dim).mul(2).sub(1).requires_grad_()
            inputs, what = {"by z": latent, "by action": action}, f"{shape}, {said}"
            gradients_of(case, f"next of a {what}", model, {"z": model.next(latent, action, task)}, inputs)
            gradients_of(case, f"reward of a {what}", model, {"logits": model.reward(latent, action, task)}, inputs)
            drawn, info = names_tdmpc2.drawn(model, latent, task)
            told = {k: v for k, v in info.items() if hasattr(v, "dtype")}
            gradients_of(case, f"pi of a {what}", model, {"action": drawn, **told}, {"by z": latent})
            for kind in ("min", "avg", "all"):
                for target, detach in ((False, False), (True, False), (False, True), (True, True)):
                    asked = {"target": target} | ({"detach": detach} if can_detach else {})
                    if can_detach or not detach:
                        q = model.Q(latent, action, task, return_type=kind, **asked)
                        told = f"Q {kind}, target {target}, detach {detach}, {what}"
                        gradients_of(case, told, model, {"q": q}, inputs)
            gradients_of(case, f"Q of a {what}", model, {"q": model.Q(latent, action, task)}, inputs)
            if names_tdmpc2.is_episodic(cfg):
                for raw in (False, True):
                    p = model.termination(latent, task, unnormalized=raw)
                    gradients_of(case, f"termination, raw {raw}, of a {what}", model, {"p": p}, {"by z": latent})
        states = {name: module.training for name, module in model.named_modules()}
        case.record(f"modules in training, {said}", states)
        case.random_states()
    model.soft_update_target_Q()
    record_learned(case, agent, "after the targets moved")
    if cfg.multitask:
        case.record("masks", masks=model._action_masks)
        for task in (0, 7):
            case.record(f"embedding of task {task}", emb=model.task_emb(torch.zeros(4, 3), task))
        with torch.no_grad():
            model._task_emb.weight.mul_(100)
        case.record("embedding beyond its norm", emb=model.task_emb(torch.zeros(2, 3), torch.tensor([1, 2])))
    zeros = torch.zeros(rows, cfg.action_dim)
    refused(case, "no such kind of value", lambda: model.Q(z, zeros, task, return_type="max"))
    if hasattr(model, "termination"):
        refused(case, "termination without a task", lambda: model.termination(z, None))
        refused(case, "termination of a task", lambda: model.termination(z, torch.tensor([1])))


def record_learned(case: Case, agent, what: str) -> None:
    """Records every tensor of the model, its targets included."""
    from tdmpc2_lean.validation.gates.trace_tdmpc2 import learned_state

    case.record(what, learned_state(agent))


def seed(case: Case) -> None:
    """What the checkout's seeding does to the three generators."""
    from common.seed import set_seed

    for number in (0, 1, 12345):
        set_seed(number)
        case.random_states()
