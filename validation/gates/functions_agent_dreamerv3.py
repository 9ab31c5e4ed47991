"""Cases of the gate `functions` of DreamerV3 on the agent around a model: its streams, locks, copies, checkpoints.

The model is a small one of our own, so that what is compiled is compiled in a second.
"""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from tdmpc2_lean.validation.gates.cases import Case
from tdmpc2_lean.validation.gates.functions_dreamerv3 import leaves, raised
from tdmpc2_lean.validation.gates.functions_model_dreamerv3 import B, T, batch_of
from tdmpc2_lean.validation.gates.functions_replay_dreamerv3 import settle

JAX = {
    "platform": "cpu", "compute_dtype": "float32", "prealloc": False, "policy_devices": [0], "train_devices": [0],
    "mock_devices": 0, "jit": True, "debug": False, "expect_devices": 0, "enable_policy": True, "profiler": True,
}  # fmt: skip
SETUPS = (
    {},
    {"platform": "cpu", "compute_dtype": "float16", "debug": True, "prealloc": True, "deterministic": False},
    {"compute_dtype": "float32", "transfer_guard": False, "mock_devices": 3, "autotune": 2, "xladump": "dump"},
    {"platform": "cpu", "debug_nans": True, "compilation_cache": False, "tpuflags": True},
    {"platform": "gpu"}, {"platform": "cpu", "jit": False}, {"num_processes": 2}, {"num_processes": 2, "process_id": 1},
    {"platform": "cpu", "num_processes": 2, "process_id": 0, "coordinator_address": "here"},
)  # fmt: skip


def table(code_dir: Path) -> dict[str, Callable[[Case], None]]:
    return {
        "set-up": set_up,
        "meshes": meshes,
        "agent-around": around,
        "agent-without-policy": without_policy,
        "profiler": profiler,
    }


def set_up(case: Case) -> None:
    """What JAX is told and what stands in the environment for each way of being configured."""
    from embodied.jax import internal, nets

    told, environment = [], dict(os.environ)

    class ToldJax:
        """Stands in for JAX in the module that sets it up."""

        config = SimpleNamespace(update=lambda name, value: told.append((name, value)))
        distributed = SimpleNamespace(initialize=lambda *given: told.append(("initialize", given)))
        process_index, process_count = staticmethod(lambda: 0), staticmethod(lambda: 1)

    original, internal.jax = internal.jax, ToldJax
    try:
        for given in SETUPS:
            for name in ("XLA_FLAGS", "TF_CUDNN_DETERMINISTIC", "XLA_PYTHON_CLIENT_PREALLOCATE"):
                os.environ.pop(name, None)
            error = raised(lambda given=given: internal.setup(**given))
            found = {k: v for k, v in os.environ.items() if k.startswith(("XLA", "TF_CUDNN"))}
            case.record(f"set up {given}", found, error=error, told=list(told), dtype=str(nets.COMPUTE_DTYPE))
            told.clear()
    finally:
        internal.jax = original
        os.environ.clear()
        os.environ.update(environment)


def meshes(case: Case) -> None:
    """Meshes, rules by which parameters are placed, groups of a checkpoint."""
    import jax
    import numpy as np
    from embodied.jax import internal, transform

    spec = jax.sharding.PartitionSpec
    for shape in ("-1,1,1", "1,1,1", "1,-1,1"):
        made = internal.mesh(jax.devices()[:1], shape, ("d", "f", "t"))
        case.record(f"mesh {shape}", shape=dict(made.shape), names=made.axis_names)
    for devices, shape in ((1, "-1,-1,1"), (1, "2,1,1"), (1, "-1,2,1")):
        case.record(
            "refused", error=raised(lambda d=devices, s=shape: internal.mesh(jax.devices()[:d], s, ("d", "f", "t")))
        )
    params = {name: np.zeros(size, np.float32) for name, size in (("a/x", 3), ("b/x", 2), ("b/y", 5), ("c", 1))}
    for rules in ((), [("a/", spec("d")), (".*", spec())], [("x$", spec()), ("y|c", spec("f"))]):
        placed, groups = transform.resolve_rules(params, rules, made)
        case.record("placed", {k: str(v.spec) for k, v in placed.items()}, groups=groups)
    case.record("refused", error=raised(lambda: transform.resolve_rules(params, [("a", spec())], made)))
    params = {k: jax.device_put(v, jax.sharding.NamedSharding(made, spec())) for k, v in params.items()}
    for size in (-1, 12, 20, 1000):
        groups = internal.grouped_ckpt_fns(params, size)
        case.record(f"groups of {size}", groups=[keys for keys, _, _ in groups])
        for keys, gather, shard in groups:
            group = {k: params[k] for k in keys}
            case.record("gathered", leaves((gather(group), shard(group))))
    case.record("axes", named=internal.get_named_axes(), data=internal.get_data_axes(), hosts=internal.is_multihost())
    case.record("moved", leaves(internal.move(params, jax.sharding.NamedSharding(made, spec()))))


def small_agent(case: Case, overrides: dict | None = None, more: dict | None = None):
    """An agent around a model of few numbers; overrides of its JAX configuration; more: of the rest."""
    import elements
    import embodied.jax
    import jax
    import jax.numpy as jnp
    import ninjax as nj
    import numpy as np

    space = elements.Space

    class Part(nj.Module):
        def read(self):
            return self.value("w", lambda: jax.random.normal(nj.seed(), (3,)))

    class Model(embodied.jax.Agent):
        def __init__(self, obs_space, act_space, config):
            self.obs_space, self.act_space, self.config = obs_space, act_space, config

        policy_keys = "^pol/"

        @property
        def ext_space(self):
            return {"consec": space(np.int32), "stepid": space(np.uint8, 20)}

        def init_policy(self, size):
            return {"h": jnp.zeros((size, 3)), "n": jnp.zeros((size,), jnp.int32)}

        def init_train(self, size):
            return {"sum": jnp.ones((size,))}

        def init_report(self, size):
            return {"sum": jnp.zeros((size,))}

        def parts(self):
            return Part(name="pol"), Part(name="val")

        def policy(self, carry, obs, mode="train"):
            pol, _ = self.parts()
            noise = jax.random.normal(nj.seed(), (len(obs["is_first"]), 2)) * (mode == "train")
            h = carry["h"] * 0.5 + pol.read() + obs["vec"]
            act = {"action": jnp.tanh(h[:, :2] + noise), "choice": carry["n"] % 4}
            finite = {"act": jnp.isfinite(act["action"]).all(-1)}
            return {"h": h, "n": carry["n"] + 1}, act, {"log_h": h.astype(jnp.bfloat16), "finite": finite}

        def train(self, carry, data):
            pol, val = self.parts()
            pol.write("w", pol.read() + 0.1 * data["vec"].mean((0, 1)) + 0.01 * jax.random.normal(nj.seed(), (3,)))
            val.write("w", val.read() * 1.5 + data["reward"].mean())
            outs = {"replay": {"stepid": data["stepid"], "x": data["vec"] * 2}}
            return (
                {"sum": carry["sum"] + data["reward"].sum(-1)},
                outs,
                {"loss": val.read().sum(), "half": jnp.bfloat16(0.3)},
            )

        def report(self, carry, data):
            pol, val = self.parts()
            return {"sum": carry["sum"] + 1}, {
                "values": val.read() + data["vec"].mean() + jax.random.normal(nj.seed(), (3,))
            }

    flags = {k: space(bool) for k in ("is_first", "is_last", "is_terminal")}
    obs_space = {"vec": space(np.float32, (3,)), "reward": space(np.float32), **flags}
    act_space = {"action": space(np.float32, (2,), -1, 1), "choice": space(np.int32, (), 0, 4)}
    config = {
        "logdir": "logdir",
        "seed": 5,
        "batch_size": B,
        "batch_length": T,
        "report_length": 2,
        "replay_context": 1,
    }
    config |= {"replica": 0, "replicas": 1, "jax": {**JAX, **(overrides or {})}, **(more or {})}
    made = Model(obs_space, act_space, elements.Config(config))
    case.record("agent", kind=type(made).__name__, keys=made.policy_keys, params=sorted(made.params))
    return made


def batches(agent, length: int):
    """An endless stream of random batches that can be saved."""
    from embodied.core import streams

    count = iter(range(10**6))
    spaces = {**agent.obs_space, **agent.act_space, **agent.model.ext_space}
    return streams.Stateless(lambda: batch_of(spaces, (B, length), next(count)))


def state_of(case: Case, agent, drawn: int | None = None) -> None:
    """Records parameters, counters and what waits. drawn: batches that threads draw, waited for."""
    if drawn is not None:
        settle(lambda: int(agent.n_batches) >= drawn)
    counters = {k: int(getattr(agent, k)) for k in ("n_updates", "n_batches", "n_actions")}
    pending = {k: bool(getattr(agent, k)) for k in ("pending_outs", "pending_mets", "pending_sync")}
    acting = leaves(agent.policy_params, "acting") if hasattr(agent, "policy_params") else {}
    case.record("state", leaves(agent.params, "params") | acting, counters=counters, pending=pending)


def around(case: Case) -> None:
    """Acting, training, reporting, what is handed out late, what the policy sees when; saving and loading."""
    import jax
    import numpy as np

    agent = small_agent(case)
    state_of(case, agent)
    carry, trained, reported = agent.init_policy(3), agent.init_train(B), agent.init_report(B)
    case.record("carries", leaves((carry, trained, reported)), kind=type(carry).__name__)
    stream, report_stream = iter(agent.stream(batches(agent, T + 1))), iter(agent.stream(batches(agent, 3)))
    drawn = 2
    for step in range(5):
        obs = {k: v[:, 0] for k, v in batch_of(agent.obs_space, (3, 1), 50 + step).items() if k in agent.obs_space}
        carry, acts, outs = agent.policy(carry, obs, mode="train" if step % 2 else "eval")
        case.record(
            f"acts {step}",
            leaves((carry, acts, outs)),
            types=sorted((k, type(v).__name__) for k, v in {**acts, **outs}.items()),
        )
        for _ in range((0, 1, 2, 0, 1)[step]):
            batch, drawn = next(stream), drawn + 1
            case.record("batch", leaves({k: v for k, v in batch.items()}))
            trained, outs, mets = agent.train(trained, batch)
            case.record("trained", leaves((trained, outs, mets)))
            state_of(case, agent, drawn)
    reported, mets = agent.report(reported, next(report_stream))
    summary = mets.pop("params/summary")
    case.record("reported", leaves((reported, mets)), summary=summary)
    settle(lambda: int(agent.n_batches) >= drawn + 1)
    saved = jax.tree.map(np.array, agent.save())
    case.record("saved", leaves(saved))
    trained, _, _ = agent.train(trained, next(stream))
    settle(lambda: int(agent.n_batches) >= drawn + 2)
    agent.load(saved)
    state_of(case, agent)
    moved = {
        "params": {k: v + 1 for k, v in saved["params"].items()},
        "counters": {"updates": 70, "batches": 80, "actions": 90},
    }
    agent.load(moved, regex="val/")
    state_of(case, agent)
    agent.load({**moved, "params": {**moved["params"]}}, regex=".*pol")
    state_of(case, agent)
    case.record("seeds", {str(n): np.asarray(agent._seeds(n, agent.train_mirrored)) for n in (0, 1, 2**31)})
    case.record("zeros", leaves(agent._zeros(agent.spaces, (2, 3))))
    bad = {k: v[:, 0].copy() for k, v in batch_of(agent.obs_space, (3, 1), 1).items() if k in agent.obs_space}
    bad["vec"][0, 0] = np.nan
    fine = dict(bad, vec=np.zeros((3, 3), np.float32))
    broken = dict(batch_of(agent.spaces, (B, T + 1), 1), vec=np.full((B, T + 1, 3), np.nan, np.float32))
    for name, call in {
        "not a number": lambda: agent.policy(carry, bad),
        "something for the log": lambda: agent.policy(carry, {**fine, "log/x": fine["reward"]}),
        "something missing": lambda: agent.policy(carry, {k: v for k, v in fine.items() if k != "reward"}),
        "a batch without something": lambda: agent.train(trained, {"seed": 0}),
        "a report without something": lambda: agent.report(trained, {"seed": 0}),
        "a batch that is not a number": lambda: agent.stream(iter([broken])).transform(broken),
        "no parameters": lambda: agent.load({"params": {}}),
        "other shapes": lambda: agent.load({**moved, "params": {k: v[:2] for k, v in saved["params"].items()}}),
    }.items():
        case.record(f"refused: {name}", error=raised(call))


def without_policy(case: Case) -> None:
    """An agent that only trains, and one whose checkpoint is written in parts."""
    import jax
    import numpy as np

    agent = small_agent(case, {"enable_policy": False})
    trained, stream = agent.init_train(B), iter(agent.stream(batches(agent, T + 1)))
    for number in range(2):
        trained, outs, mets = agent.train(trained, next(stream))
        case.record("trained", leaves((trained, outs, mets)))
        state_of(case, agent, number + 2)
    agent.load(jax.tree.map(np.array, agent.save()))
    state_of(case, agent)
    for name, call in {"acting": lambda: agent.policy({}, {}), "its carry": lambda: agent.init_policy(2)}.items():
        case.record(f"refused: {name}", error=raised(call))
    for given in ({"policy_mesh": "1,1,2"}, {"train_mesh": "2,1,1"}):
        case.record(f"refused: {given}", error=raised(lambda given=given: small_agent(Case(), given)))
    parts = small_agent(case, {"ckpt_chunksize": 12, "precompile": False}, {"seed": 9, "batch_size": 1})
    case.record("saved in parts", leaves(parts.save()))


def profiler(case: Case) -> None:
    """When updates are traced, and where to."""
    import jax

    told = []
    start, stop = jax.profiler.start_trace, jax.profiler.stop_trace
    jax.profiler.start_trace, jax.profiler.stop_trace = (
        (lambda folder: told.append(("start", folder))),
        (lambda: told.append("stop")),
    )
    try:
        for given in ({}, {"profiler": False}):
            agent = small_agent(case, given)
            trained, stream = agent.init_train(B), iter(agent.stream(batches(agent, T + 1)))
            agent.n_updates.value = 97
            for _ in range(25):
                trained, _, _ = agent.train(trained, next(stream))
                told.append(int(agent.n_updates))
            case.record(f"profiled {given}", told=list(told))
            told.clear()
    finally:
        jax.profiler.start_trace, jax.profiler.stop_trace = start, stop
