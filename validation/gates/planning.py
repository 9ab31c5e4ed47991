"""Gates on planning: does planning for N environments at once compute what the official planner computes for one?

`plan-vec-one`: with N=1 the bits of `_plan`, its warm start and the random state it leaves.
`plan-vec-many`: with N=16 and the same noise for each environment, what 16 single planners compute. Batches of
different sizes are multiplied in different orders, so equality holds up to rounding: it is judged in double
precision, where a different elite cannot be chosen by rounding alone, and the difference in single precision is shown.

Networks have random weights, also where the official initialisation is zero, so that values differ between plans.
"""

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tdmpc2_lean.validation.gates import names_tdmpc2, process
from tdmpc2_lean.validation.gates.results import FAIL, NOT_JUDGED, PASS, Result, failed_to_run
from tdmpc2_lean.validation.gates.subjects import GateSubject

OBS_DIM, ACTION_DIM, NUM_ENVS = 17, 6, 16
SMALL = {"mlp_dim": 64, "enc_dim": 64, "latent_dim": 64}
FEW = SMALL | {"num_samples": 64, "num_elites": 16, "num_pi_trajs": 8}
# Name, overrides and number of plans of each case of `plan-vec-one`. Pixels last: the official encoder keeps what it
# made for an earlier agent's kind of observation in a mutable default argument.
CASES = [
    ("state", SMALL, 20),
    ("no-policy-trajectories", SMALL | {"num_pi_trajs": 0}, 10),
    ("episodic", SMALL | {"episodic": True}, 10),
    ("no-mpc", SMALL | {"mpc": False}, 10),
    ("model-size-5", {"model_size": 5}, 4),
    ("pixels", SMALL | {"obs": "rgb", "latent_dim": 512}, 4),
]
BOUND = 1e-9  # of actions in [-1, 1], double precision
MODULE = "tdmpc2_lean.validation.gates.planning"


def without_plan_vec(gate: str) -> Result:
    """The result of a gate on a checkout that plans for one environment only."""
    return Result(gate, NOT_JUDGED, "the checkout has no method `plan_vec`", missing=frozenset({"plan_vec"}))


def lacking(config, overrides: dict) -> str:
    """What of a case's settings a checkout has nothing for, as a sentence; empty where it has all."""
    if "obs" in overrides and "num_channels" not in config:
        return "the checkout has no encoder for pixels"
    if "episodic" in overrides and "episodic" not in config:
        return "the checkout has no terminations"
    return ""


def plan_vec_one(subject: GateSubject) -> Iterator[Result]:
    """N=1 against `_plan`, over settings, and at the official sizes of model_size 5."""
    if not subject.can_plan_vec:
        yield without_plan_vec("plan-vec-one")
        return
    # Two processes: most of what can be wrong shows in the first case already.
    for cases in (CASES[:1], CASES[1:]):
        started = time.time()
        cases = list(cases)
        for case in cases[:]:
            if why := lacking(subject.config, case[1]):
                yield Result(f"plan-vec-one/{case[0]}", NOT_JUDGED, why)
                cases.remove(case)
        try:
            answers = process.call(f"{MODULE}:planned_in_cases", subject.code_dir, cases=cases)
        except process.ChildFailed as failure:
            names = "+".join(name for name, *_ in cases)
            yield failed_to_run(f"plan-vec-one/{names}", failure, started)
            continue
        for name, seen in answers.items():
            gate, seconds = f"plan-vec-one/{name}", time.time() - started
            if seen["divergence"]:
                yield Result(gate, FAIL, f"first divergence at {seen['divergence']}", seen, seconds)
            else:
                same = f"{seen['plans']} plans equal `{seen['against']}` bit for bit, with warm start and random state"
                yield Result(gate, PASS, same, seen, seconds)
            started = time.time()


def plan_vec_many(subject: GateSubject) -> Iterator[Result]:
    """N=16 against 16 single planners, independence, spread, unaligned resets."""
    if not subject.can_plan_vec:
        yield without_plan_vec("plan-vec-many")
        return
    for name, overrides in (("state", FEW), ("episodic", FEW | {"episodic": True})):
        started = time.time()
        if why := lacking(subject.config, overrides):
            yield Result(f"plan-vec-many/{name}", NOT_JUDGED, why)
            continue
        # Until September 2024 the ensemble's dropout is never off; its draws cannot be divided among environments.
        before = "" if "_plan" in subject.functions else "without dropout: "
        overrides |= {"dropout": 0.0} if before else {}
        try:
            seen = process.call(f"{MODULE}:planned_for_many", subject.code_dir, overrides=overrides, steps=8)
        except process.ChildFailed as failure:
            yield failed_to_run(f"plan-vec-many/{name}", failure, started)
            continue
        for part, (ok, detail, figures) in seen.items():
            gate = f"plan-vec-many/{name}/{part}"
            yield Result(gate, PASS if ok else FAIL, before + detail, figures, time.time() - started)
            started = time.time()


# What follows runs in a process of its own, on the checkout's code.


def make_agent(code_dir: Path, overrides: dict, seed: int = 0):
    """An agent with random weights everywhere, on the CPU; observations have OBS_DIM or 9x64x64 numbers."""
    import torch
    from tdmpc2 import TDMPC2

    from tdmpc2_lean.validation.gates.trace_tdmpc2 import configuration

    cfg = configuration(code_dir, Path.cwd(), {"task": "cheetah-run"} | overrides)
    cfg.obs_shape = {"rgb": (9, 64, 64)} if cfg.get("obs") == "rgb" else {"state": (OBS_DIM,)}
    cfg.action_dim, cfg.episode_length = ACTION_DIM, 500
    torch.manual_seed(seed)
    agent = TDMPC2(cfg)
    with torch.no_grad():
        for parameter in agent.model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn_like(parameter))
        if names_tdmpc2.is_episodic(cfg):
            # Terminations in some of the plans, not in all or none of them
            agent.model._termination[-1].weight.mul_(20)
    agent.model.eval()
    return agent


def observations(agent, *batch: int):
    """Random observations of the agent's kind, with `batch` dimensions in front."""
    import torch

    if agent.cfg.get("obs") == "rgb":
        return torch.randint(0, 256, (*batch, 9, 64, 64), dtype=torch.uint8)
    return torch.randn(*batch, OBS_DIM, dtype=torch.get_default_dtype())


def planned_in_cases(code_dir: Path, cases: list) -> dict:
    """What `planned_as_one` sees in each case: name -> {"plans", "against", "divergence"}."""
    return {name: planned_as_one(make_agent(code_dir, overrides), steps) for name, overrides, steps in cases}


def planned_as_one(agent, steps: int) -> dict:
    """Plans `steps` times with and without evaluation mode; an episode begins at the first and at a middle step."""
    import numpy as np
    import torch

    planner, plan = names_tdmpc2.planner_of(agent)
    against = planner if agent.cfg.mpc else "act"
    plans, values = 0, set()
    for eval_mode in (False, True):
        torch.manual_seed(int(eval_mode))
        np.random.seed(int(eval_mode))
        for step, obs in enumerate(observations(agent, steps)):
            t0 = step == 0 or step == steps // 2
            # The first half passes a flag, the second a mask: both are in the interface.
            mask = t0 if step < steps // 2 else torch.tensor([t0])
            before = torch.get_rng_state(), np.random.get_state()
            if agent.cfg.mpc:
                expected = plan(obs.unsqueeze(0), t0=t0, eval_mode=eval_mode)
                warm_start = agent._prev_mean.clone()
            else:
                expected, warm_start = agent.act(obs, t0=t0, eval_mode=eval_mode), None
            after = random_states()
            torch.set_rng_state(before[0])
            np.random.set_state(before[1])
            found = agent.act_vec(obs.unsqueeze(0), t0=mask, eval_mode=eval_mode)
            where = f"step {step}, eval_mode {eval_mode}, t0 {t0}"
            checks = [("action", expected, found[0])]
            if warm_start is not None:
                checks.append(("warm start", warm_start, agent._prev_mean_vec[:, 0]))
            checks += [(f"random state of {name}", after[name], now) for name, now in random_states().items()]
            for what, was, now in checks:
                if was.shape != now.shape or not torch.equal(was, now):
                    gap = largest(was, now)
                    return {"plans": plans, "against": against, "divergence": f"{where}: {what}{gap}"}
            plans += 1
            values.add(tuple(found[0].tolist()))
    if len(values) < plans // 2:
        return {"plans": plans, "against": against, "divergence": f"only {len(values)} different actions in all"}
    return {"plans": plans, "against": against, "divergence": None}


def random_states() -> dict:
    """States of the streams from which plans draw, as tensors: Torch's, and NumPy's with its position."""
    import numpy as np
    import torch

    _, words, position, *_ = np.random.get_state()
    return {"Torch": torch.get_rng_state(), "NumPy": torch.from_numpy(np.append(words, position).astype(np.int64))}


def largest(was, now) -> str:
    """The largest difference of two tensors and both values there, as text."""
    if was.shape != now.shape:
        return f", shapes {tuple(was.shape)} and {tuple(now.shape)}"
    gap = (was.double() - now.double()).abs().flatten()
    place = int(gap.argmax())
    both = (was.flatten()[place].item(), now.flatten()[place].item())
    return f", largest difference {gap[place].item():.3g}: reference {both[0]!r}, subject {both[1]!r}"


class Tape:
    """Records every random draw of a batched plan and plays back one environment's part of it.

    The draws of torch that planning uses are `randn`, `randn_like`, `randperm` and `exponential_`. In a batch the
    environments are the first or second dimension, or blocks of rows of a matrix; a draw whose size does not grow
    with the batch, the choice of ensemble members, is shared. Until September 2024 it draws with NumPy's `choice` too:
    members without weights, which are shared, and by weights an elite for one environment after the other.
    """

    NAMES = ("randn", "randn_like", "randperm")

    def __init__(self):
        self.draws = []
        self.playing_for = None

    @contextmanager
    def recording(self):
        with self._replaced(lambda make, shape: self._keep(make())):
            yield

    @contextmanager
    def playing(self, env: int, num_envs: int):
        left = iter(self.draws)

        def draw(make, shape):
            found = next(left)
            return found if make is None else self._part(found, shape, env, num_envs)

        self.playing_for = env
        with self._replaced(draw):
            yield
        self.playing_for = None
        if next(left, None) is not None:
            raise AssertionError("the single plan drew fewer random numbers than the batched one")

    def _keep(self, draw):
        self.draws.append(draw.clone())
        return draw

    def _choosing(self, draw):
        """NumPy's `choice`, recorded or played back; choices by weights are a list, one for each environment."""
        import numpy as np

        choose = np.random.choice

        def choice(a, size=None, replace=True, p=None):
            if self.playing_for is not None:
                found = draw(None, None)
                return found[self.playing_for] if isinstance(found, list) else found.copy()
            found = choose(a, size, replace, p)
            if p is None:
                self.draws.append(found.copy())
            elif self.draws and isinstance(self.draws[-1], list):
                self.draws[-1].append(found)
            else:
                self.draws.append([found])
            return found

        return choose, choice

    @staticmethod
    def _part(draw, shape, env: int, num_envs: int):
        shape, whole = tuple(shape), tuple(draw.shape)
        if whole == shape:
            return draw.clone()
        if whole == (num_envs, *shape):
            return draw[env].clone()
        if whole == (shape[0], num_envs, *shape[1:]):
            return draw[:, env].clone()
        if whole == (num_envs * shape[0], *shape[1:]):
            return draw[env * shape[0] : (env + 1) * shape[0]].clone()
        raise AssertionError(f"a draw of {whole} for {num_envs} environments, one of {shape} for one")

    @contextmanager
    def _replaced(self, draw):
        import numpy as np
        import torch

        kept = {name: getattr(torch, name) for name in self.NAMES}
        choose, np.random.choice = self._choosing(draw)
        exponential = torch.Tensor.exponential_

        def randn(*size, **kwargs):
            size = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
            return draw(lambda: kept["randn"](*size, **kwargs), size)

        def exponential_(tensor, *args, **kwargs):
            return tensor.copy_(draw(lambda: exponential(tensor, *args, **kwargs), tensor.shape))

        torch.randn = randn
        torch.randn_like = lambda x, **kwargs: draw(lambda: kept["randn_like"](x, **kwargs), x.shape)
        torch.randperm = lambda n, **kwargs: draw(lambda: kept["randperm"](n, **kwargs), (n,))
        torch.Tensor.exponential_ = exponential_
        try:
            yield
        finally:
            for name, function in kept.items():
                setattr(torch, name, function)
            torch.Tensor.exponential_ = exponential
            np.random.choice = choose


def planned_for_many(code_dir: Path, overrides: dict, steps: int) -> dict:
    """The parts of the gate: name -> (ok, detail, figures)."""
    import torch

    answers = {}
    single = compare_with_single_planners(make_agent(code_dir, overrides), steps)
    torch.set_default_dtype(torch.float64)
    agent = make_agent(code_dir, overrides)
    in_double_precision(agent)
    double = compare_with_single_planners(agent, steps)
    figures = {"double": double["largest"], "single": single["largest"], "plans": double["plans"], "bound": BOUND}
    detail = (
        f"{double['plans']} plans of {NUM_ENVS} environments, resets unaligned: largest difference "
        f"{double['largest']:.1e} in double precision (bound {BOUND:.0e}), {single['largest']:.1e} in single"
    )
    ok = double["largest"] <= BOUND
    if not ok:
        detail = f"first divergence at {double['first']}; {detail}"
    answers["as-single-planners"] = (ok, detail, figures)
    answers["actions"] = sane(double["actions"])
    torch.set_default_dtype(torch.float32)
    answers["independence"] = independence(make_agent(code_dir, overrides))
    return answers


def in_double_precision(agent) -> None:
    """Turns all tensors of an agent into double precision, also of early ones, which are no modules."""
    import torch

    if isinstance(agent, torch.nn.Module):
        agent.double()
        return
    agent.model.double()
    for owner in (agent, agent.model):
        for name, value in vars(owner).items():
            if torch.is_tensor(value) and value.is_floating_point():
                setattr(owner, name, value.double())


def resets(steps: int):
    """Whether environment i begins an episode at step t: all at step 0, then each in a rhythm of its own (T, N)."""
    import torch

    rhythm = torch.arange(NUM_ENVS) % 5 + 2
    return torch.stack([(t % rhythm) == 0 for t in range(steps)])


def compare_with_single_planners(agent, steps: int) -> dict:
    """Plans `steps` times for NUM_ENVS environments and compares each with a planner of its own, by the same noise."""
    import torch

    torch.manual_seed(1)
    obs, t0 = observations(agent, steps, NUM_ENVS), resets(steps)
    if names_tdmpc2.warm_start(agent) is None:
        agent._prev_mean = torch.zeros(agent.cfg.horizon, agent.cfg.action_dim)
    warm_starts = [torch.zeros_like(agent._prev_mean) for _ in range(NUM_ENVS)]
    seen = {"largest": 0.0, "first": "", "plans": 0, "actions": []}
    for step, eval_mode in itertools.zip_longest(range(steps), [True] * 3, fillvalue=False):
        tape = Tape()
        with tape.recording():
            actions = agent.act_vec(obs[step], t0=t0[step], eval_mode=eval_mode)
        seen["actions"].append(actions)
        for env in range(NUM_ENVS):
            agent._prev_mean.copy_(warm_starts[env])
            with tape.playing(env, NUM_ENVS):
                expected = agent.act(obs[step, env], t0=bool(t0[step, env]), eval_mode=eval_mode)
            warm_starts[env] = agent._prev_mean.clone()
            for what, was, now in (
                ("action", expected, actions[env]),
                ("warm start", warm_starts[env], agent._prev_mean_vec[:, env]),
            ):
                gap = (was - now).abs().max().item()
                if not gap <= BOUND and not seen["first"]:
                    seen["first"] = f"step {step}, environment {env}: {what}{largest(was, now)}"
                seen["largest"] = max(seen["largest"], gap)
            seen["plans"] += 1
    seen["actions"] = torch.stack(seen["actions"])
    return seen


def sane(actions) -> tuple:
    """Finite, within [-1, 1], and spread over the environments. actions (T, N, action_dim)."""
    finite = bool(actions.isfinite().all())
    within = bool((actions.abs() <= 1).all())
    spread = actions.std(dim=1).mean().item()
    different = min(len({tuple(a.tolist()) for a in step}) for step in actions)
    ok = finite and within and spread > 0.05 and different == actions.shape[1]
    low, high = actions.min().item(), actions.max().item()
    detail = (
        f"finite: {finite}, in [{low:.2f}, {high:.2f}], standard deviation over environments {spread:.2f}, "
        f"at least {different} of {actions.shape[1]} different"
    )
    return ok, detail, {"spread": spread, "different": different}


def independence(agent) -> tuple:
    """Environment i's action and warm start do not depend, by a bit, on what the others observe or when they reset."""
    import numpy as np
    import torch

    torch.manual_seed(2)
    steps = 4
    obs, t0 = observations(agent, steps, NUM_ENVS), resets(steps)
    for env in (0, 7, NUM_ENVS - 1):
        other_obs, other_t0 = observations(agent, steps, NUM_ENVS), resets(steps).roll(1, dims=1)
        other_t0[0] = True
        other_obs[:, env], other_t0[:, env] = obs[:, env], t0[:, env]
        found = []
        for o, mask in ((obs, t0), (other_obs, other_t0)):
            torch.manual_seed(3)
            np.random.seed(3)
            actions = torch.stack([agent.act_vec(o[t], t0=mask[t])[env] for t in range(steps)])
            found.append((actions, agent._prev_mean_vec[:, env].clone()))
        for what, was, now in zip(("action", "warm start"), *found, strict=True):
            if not torch.equal(was, now):
                return False, f"environment {env}'s {what} depends on the others{largest(was, now)}", {}
    return True, f"unchanged bit for bit in {steps} steps while the {NUM_ENVS - 1} others see and do other things", {}
