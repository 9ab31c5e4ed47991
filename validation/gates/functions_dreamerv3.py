"""The gate `functions` of DreamerV3: function by function, and for whole updates, on inputs that bite.

Runs that are short enough for a gate never meet a return in the outermost bin, a gradient above the clipping norm of
its parameter, a normaliser above its limit, a termination, or an item that the replay has evicted twice. Here such
inputs are made. Compared are outputs, gradients, all state and what random generators give next.

This module holds the gate and its cases on outputs, layers and optimisation; `functions_model_dreamerv3` those on the
world model, losses and updates, `functions_agent_dreamerv3` those on the agent around a model, its checkpoints and
streams, `functions_loop_dreamerv3` those on replay, driver, environments, clocks and the training loops.

Graphs are compiled without XLA's optimisations: they are small, and made anew for each mutant.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from tdmpc2_lean.validation.gates import cases
from tdmpc2_lean.validation.gates.cases import Case
from tdmpc2_lean.validation.gates.results import Result
from tdmpc2_lean.validation.gates.subjects import GateSubject
from tdmpc2_lean.validation.gates.traced_runs import DREAMERV3

FUNCTION = "tdmpc2_lean.validation.gates.functions_dreamerv3:answers"
# Read when XLA starts, which the code under test does not hinder: it sets its own flags later.
UNOPTIMISED = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


def functions(subject: GateSubject) -> Iterator[Result]:
    """One result per case."""
    yield from cases.judged("functions", FUNCTION, subject, DREAMERV3)


# What follows runs in a process of its own, on the checkout's code.


def answers(code_dir: Path, names: list[str] | None = None) -> dict:
    """What `cases.recorded` returns of this gate's cases."""
    from tdmpc2_lean.validation.gates import (
        functions_agent_dreamerv3,
        functions_loop_dreamerv3,
        functions_model_dreamerv3,
    )

    os.environ["XLA_FLAGS"] = UNOPTIMISED
    # What compiles nothing comes first: a mutant of it is judged without the rest.
    table = functions_loop_dreamerv3.table(code_dir)
    table |= {
        "two-hot": two_hot,
        "outputs": outputs,
        "heads": heads,
        "scalars": scalars,
        "initialisers": initialisers,
        "layers": layers,
        "convolutions": convolutions,
        "sequences": sequences,
        "normalisers": normalisers,
        "slow-model": slow_model,
        "optimiser": optimiser,
        "optimiser-scaled": optimiser_scaled,
    }
    table |= functions_model_dreamerv3.table(code_dir)
    table |= functions_agent_dreamerv3.table(code_dir)
    return cases.recorded({name: prepared(case) for name, case in table.items()}, names)


def prepared(function: Callable[[Case], None]) -> Callable[[Case], None]:
    """A case that begins with JAX as it is before the code under test has set anything up, in single precision."""

    def case_of(case: Case) -> None:
        import jax

        jax.devices()
        jax.config.update("jax_transfer_guard", "allow")
        jax.config.update("jax_disable_jit", False)
        jax.config.update("jax_disable_most_optimizations", False)
        single_precision()
        function(case)

    return case_of


def single_precision() -> None:
    import jax.numpy as jnp
    from embodied.jax import nets

    nets.COMPUTE_DTYPE = jnp.float32


def normal(seed: int, *shape: int, scale: float = 1.0):
    """Random numbers of a seed, in single precision."""
    import numpy as np

    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def leaves(tree, prefix: str = "") -> dict:
    """The arrays of a tree by their path, those of half precision widened."""
    import jax
    import numpy as np

    found = {}
    for path, x in jax.tree_util.tree_leaves_with_path(tree):
        x = np.asarray(x)
        found[prefix + jax.tree_util.keystr(path)] = x.astype(np.float32) if x.dtype.kind == "V" else x
    return found


def computed(case: Case, what: str, function, *inputs):
    """Records what a function of arrays returns, compiled; returns it too."""
    import jax

    out = jax.jit(function)(*inputs)
    case.record(what, leaves(out))
    return out


def weighted(tree):
    """A sum over all numbers of a tree in which no two have the same weight."""
    import jax
    import jax.numpy as jnp

    total = jnp.float32(0)
    for x in jax.tree.leaves(tree):
        if jnp.issubdtype(x.dtype, jnp.floating):
            weights = jnp.linspace(0.5, 2, x.size).reshape(x.shape)
            total += (jnp.where(jnp.isfinite(x), x, 0).astype(jnp.float32) * weights).sum()
    return total


def with_gradients(case: Case, what: str, function, inputs, *fixed) -> None:
    """Records what a function returns, and the gradients of a weighted sum of it by `inputs`."""
    import jax

    def total(inputs):
        out = function(inputs, *fixed)
        return weighted(out), out

    (_, out), gradients = jax.jit(jax.value_and_grad(total, has_aux=True))(inputs)
    case.record(what, leaves(out, "out") | leaves(gradients, "gradient"))


def module(case: Case, what: str, function, *inputs, seed: int = 0, spread: float = 0.1) -> dict:
    """Records the initial values of a module, then outputs and gradients with every parameter moved.

    function: makes the module and calls it, in ninjax's context. spread: by which parameters are moved. Returns them.
    """
    import jax
    import ninjax as nj
    import numpy as np

    key = np.array([seed, 7], np.uint32)
    state, out = jax.jit(lambda key, *xs: nj.pure(function)({}, *xs, seed=key, create=True))(key, *inputs)
    case.record(f"{what}, at first", leaves(state, "value") | leaves(out, "out"))
    state = {k: v + normal(i, *v.shape, scale=spread) for i, (k, v) in enumerate(sorted(state.items()))}
    floats = [i for i, x in enumerate(inputs) if hasattr(x, "dtype") and x.dtype == np.float32]
    given = (state, [inputs[i] for i in floats])

    def called(given):
        state, some = given
        xs = list(inputs)
        for i, x in zip(floats, some, strict=True):
            xs[i] = x
        return nj.pure(function)(state, *xs, seed=key)[1]

    with_gradients(case, what, called, given)
    return state


def two_hot(case: Case) -> None:
    """Targets in, at and beyond every bin; predictions of few, many, odd and even bins; losses with gradients."""
    import jax.numpy as jnp
    import numpy as np
    from embodied.jax import nets, outs

    for count in (5, 6, 41):
        bins = np.asarray(nets.symexp(jnp.linspace(-4, 4, count)), np.float32)
        middles = np.concatenate([bins[:-1] + share * np.diff(bins) for share in (0.01, 0.3, 0.5, 0.99)])
        beyond = np.array([bins[0] - 1e-3, 3 * bins[0], 99 * bins[0], bins[-1] + 1e-3, 99 * bins[-1], 0, -0.0, 1e30])
        targets = np.concatenate([bins, middles, beyond]).astype(np.float32)
        logits = normal(count, len(targets), count, scale=2)

        def judged(logits, targets=targets, bins=bins):
            plain = outs.TwoHot(logits, jnp.array(bins))
            squashed = outs.TwoHot(logits, jnp.array(bins), nets.symlog, nets.symexp)
            return {
                "loss": plain.loss(targets),
                "pred": plain.pred(),
                "squashed": squashed.loss(targets),
                "unsquashed": squashed.pred(),
            }

        with_gradients(case, f"{count} bins", judged, logits)
        even = outs.TwoHot(jnp.zeros((2, count)), jnp.array(bins))
        case.record(f"{count} equal bins", pred=even.pred())


def outputs(case: Case) -> None:
    """Every distribution: predictions, losses, densities, samples, entropies, divergences, with gradients."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from embodied.jax import nets, outs

    x, y, key = normal(1, 3, 4, 5, scale=2), normal(2, 3, 4, 5), np.array([3, 4], np.uint32)
    index = np.random.default_rng(0).integers(0, 5, (3, 4))
    flags = (index > 2).astype(np.float32)

    with_gradients(case, "MSE", lambda x: (outs.MSE(x).loss(y), outs.MSE(x).pred()), x)
    with_gradients(case, "MSE, squashed", lambda x: outs.MSE(x, nets.symlog).loss(30 * y), x)
    with_gradients(
        case, "Huber", lambda x: (outs.Huber(x).loss(y), outs.Huber(x, 0.3).loss(y), outs.Huber(x).pred()), x
    )

    def of_normal(both):
        one, other = outs.Normal(both[0], jnp.exp(both[1])), outs.Normal(both[1], 0.7)
        found = [one.pred(), one.logp(y), one.prob(y), one.loss(y), one.entropy(), one.kl(other), other.kl(one)]
        return [*found, one.sample(key), one.sample(key, (2,)), other.entropy()]

    with_gradients(case, "Normal", of_normal, (x, y))

    def of_binary(x):
        one = outs.Binary(x[..., 0])
        return one.pred(), one.logp(flags), one.loss(flags), one.prob(1)

    with_gradients(case, "Binary", of_binary, x)

    def of_categorical(both, unimix):
        one, other = outs.Categorical(both[0], unimix), outs.Categorical(both[1], unimix)
        found = [one.pred(), one.logp(index), one.prob(index), one.loss(index), one.entropy(), one.kl(other)]
        return [*found, one.sample(key), one.sample(key, (2,)), one.logits]

    def of_one_hot(both, unimix):
        one, other = outs.OneHot(both[0], unimix), outs.OneHot(both[1], unimix)
        event = jax.nn.one_hot(index, 5)
        found = [one.pred(), one.logp(event), one.loss(event), one.entropy(), one.kl(other), other.kl(one)]
        return [*found, one.sample(key), one.sample(key, (2,))]

    for unimix in (0.0, 0.01, 0.5):
        with_gradients(case, f"Categorical, {unimix}", of_categorical, (x, y), unimix)
        with_gradients(case, f"OneHot, {unimix}", of_one_hot, (x, y), unimix)

    def of_sums(both):
        one, other = outs.Agg(outs.OneHot(both[0], 0.1), 1), outs.Agg(outs.OneHot(both[1]), 1, jnp.mean)
        event = jax.nn.one_hot(index, 5)
        plain = outs.Agg(outs.MSE(both[0]), 2, jnp.sum)
        found = [one.pred(), one.logp(event), one.prob(event), one.entropy(), one.kl(other), other.entropy()]
        return [*found, one.sample(key), one.sample(key, (2,)), plain.loss(y), plain.pred()]

    with_gradients(case, "Agg", of_sums, (x, y))

    def of_frozen(x):
        return outs.Frozen(outs.MSE(x)).loss(y), outs.Frozen(outs.Categorical(x)).entropy()

    with_gradients(case, "Frozen", of_frozen, x)

    def of_parts(x):
        parts = outs.Concat([outs.MSE(x[:, :1]), outs.Huber(x[:, 1:])], [1], 1)
        return parts.loss(y), parts.pred()

    with_gradients(case, "Concat", of_parts, x)
    for one in (outs.MSE(jnp.zeros(3)), outs.Agg(outs.Normal(jnp.zeros((2, 3))), 1)):
        case.record("text", text=repr(one))
    for name, refused in {
        "another kind": lambda: outs.Agg(outs.MSE(x), 1).kl(outs.MSE(x)),
        "another shape": lambda: outs.MSE(jnp.zeros((2, 3))).loss(jnp.zeros((3,))),
        "integers": lambda: outs.MSE(jnp.zeros(3)).loss(jnp.zeros(3, int)),
        "bins": lambda: outs.TwoHot(jnp.zeros((2, 3)), jnp.zeros(4)),
        "no such method": lambda: outs.Frozen(outs.MSE(jnp.zeros(3))).nothing,
    }.items():
        case.record(f"refused: {name}", error=raised(refused))


def raised(function) -> str:
    """The kind of what a call raises; `nothing` where it returns."""
    try:
        function()
    except Exception as error:
        return type(error).__name__
    return "nothing"


def heads(case: Case) -> None:
    """Each head on its kind of space: initial values, predictions, losses, entropies and their bounds."""
    import elements
    import jax.numpy as jnp
    import numpy as np
    from embodied.jax import DictHead, Head, MLPHead

    space, x, key = elements.Space, normal(1, 2, 3, 6), np.array([3, 4], np.uint32)
    plain, binary = space(np.float32, ()), space(bool, (), 0, 2)
    vector, several = space(np.float32, (2,)), space(np.int32, (2,), 0, 4)
    of = {
        "binary": binary, "categorical": several, "onehot": space(np.int32, (), 0, 4), "mse": vector, "huber": vector,
        "symlog_mse": vector, "symexp_twohot": plain, "bounded_normal": vector, "normal_logstd": vector,
    }  # fmt: skip

    def looked_at(out):
        found = {"pred": out.pred()}
        for name in ("minent", "maxent"):
            inner = getattr(out, "output", out)
            if hasattr(inner, name):
                found[name] = jnp.asarray(getattr(inner, name))
        pred = found["pred"]
        try:
            target = jnp.zeros(pred.shape, pred.dtype) if pred.dtype != bool else jnp.ones(pred.shape)
            found["loss"] = out.loss(target)
        except NotImplementedError:
            pass
        for name in ("entropy", "sample"):
            try:
                found[name] = out.sample(key) if name == "sample" else out.entropy()
            except (NotImplementedError, AttributeError, TypeError, ValueError):
                continue
        return found

    for name, kind in of.items():
        module(case, name, lambda x, kind=kind, name=name: looked_at(Head(kind, name, name="head")(x)), x)
    for more in ({"bins": 6}, {"bins": 7}, {"outscale": 0.0}):
        module(
            case, f"two-hot, {more}", lambda x, m=more: looked_at(Head(vector, "symexp_twohot", **m, name="h")(x)), x
        )
    given = {"minstd": 0.1, "maxstd": 1.5, "outscale": 0.5}
    module(case, "bounded", lambda x: looked_at(Head((3,), "bounded_normal", **given, name="h")(x)), x)
    module(case, "mixed", lambda x: looked_at(Head(of["onehot"], "onehot", unimix=0.3, name="h")(x)), x)
    spaces, kinds = {"a": vector, "b": several}, {"a": "mse", "b": "categorical"}

    def of_dict(x):
        return {k: looked_at(v) for k, v in DictHead(spaces, kinds, name="d")(x).items()}

    def of_mlp(x, wanted=vector, kind="mse"):
        made = MLPHead(wanted, kind, units=5, layers=2, act="relu", norm="layer", name="m")(x, 2)
        return {k: looked_at(v) for k, v in made.items()} if isinstance(made, dict) else looked_at(made)

    module(case, "DictHead", of_dict, x)
    module(case, "DictHead of one", lambda x: looked_at(DictHead(vector, "mse", name="d")(x)["output"]), x)
    module(case, "MLPHead", of_mlp, x)
    module(case, "MLPHead of many", lambda x: of_mlp(x, spaces, kinds), x)
    module(case, "MLPHead as it is", lambda x: looked_at(MLPHead(vector, "mse", units=8, name="m")(x, 1)), x)
    case.record("MLPHead by default", by_default(lambda: MLPHead(vector, "mse", name="m")))
    case.record("Head by default", by_default(lambda: Head(vector, "mse", name="h")))
    case.record("refused", error=raised(lambda: module(Case(), "", lambda x: Head(plain, "none", name="h")(x), x)))


def scalars(case: Case) -> None:
    """Activations, squashing, masks, what counts as missing, positions, root mean squares, dropout."""
    import jax.numpy as jnp
    import ninjax as nj
    import numpy as np
    from embodied.jax import nets

    x = np.concatenate([normal(1, 60, scale=3), [0, -0.0, 1e-7, -1e-7, 30, -30]]).astype(np.float32)
    for name in ("none", "mish", "relu2", "swiglu", "silu", "gelu", "relu", "tanh"):
        with_gradients(case, name, lambda x, name=name: nets.act(name)(x), x)
    with_gradients(case, "squashing", lambda x: (nets.symlog(x), nets.symexp(nets.symlog(x)), nets.rms([x, x[:3]])), x)
    flags = x > 0.3
    trees = {"a": x, "b": np.arange(66 * 2).reshape(66, 2)}
    case.record("where", leaves(nets.where(flags, trees, {"a": -x, "b": 0 * trees["b"]})))
    case.record("mask", leaves(nets.mask(trees, flags)))
    missing = {
        "floats": np.where(x[:8] > 0, x[:8], -np.inf).reshape(4, 2), "ints": np.array([[0, -1], [-1, -1], [3, 4]]),
        "bytes": np.zeros((3, 2), np.uint8), "flags": np.zeros((3, 2), bool),
    }  # fmt: skip
    for name, value in missing.items():
        case.record(f"available {name}", all=nets.available(value), rows=nets.available(value, bdims=1))
    case.record(
        "available in both", nets=nets.available(missing["ints"], missing["ints"].T[:2].repeat(2, 0)[:3], bdims=1)
    )
    queries = normal(4, 2, 5, 3, 4)
    steps = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]], np.int32)
    with_gradients(
        case,
        "rope",
        lambda q: (nets.rope(q), nets.rope(q, steps), nets.rope(q, steps, True), nets.rope(q, maxlen=8)),
        queries,
    )
    seed = np.array([1, 2], np.uint32)
    for training in (True, False):
        for share in (0.0, 0.4):
            out = nj.pure(lambda x, s=share, t=training: nets.dropout(x, s, t))({}, x, seed=seed)[1]
            case.record(f"dropout {share}, training {training}", out=out)
    nets.COMPUTE_DTYPE = jnp.bfloat16
    cast = nets.cast({"a": x, "b": np.arange(3)}), nets.cast({"b": np.arange(300)}, force=True)
    case.record("cast", {k: str(v.dtype) for k, v in {**cast[0], "forced": cast[1]["b"]}.items()})
    case.record(
        "checked", error=raised(lambda: nets.ensure_dtypes(x)), none=raised(lambda: nets.ensure_dtypes(cast[0]["a"]))
    )


def initialisers(case: Case) -> None:
    """Every distribution and fan on vectors, matrices and kernels; names; equality; what is refused."""
    import jax
    import ninjax as nj
    import numpy as np
    from embodied.jax import nets

    seed = np.array([5, 6], np.uint32)

    def drawn():
        found = {}
        for dist in ("zeros", "uniform", "normal", "trunc_normal", "normed"):
            for fan in ("avg", "in", "out", "none"):
                one = nets.Initializer(dist, fan, 0.7)
                shapes = ((6, 4),) if fan != "out" else ((6, 4), (7,), (3, 2, 4, 5))
                found |= {f"{dist} {fan} {shape}": one(shape) for shape in shapes}
        found["number"] = nets.Initializer()(9)
        found["other fans"] = nets.Initializer()((6, 4), fshape=(60, 40))
        return found

    case.record("drawn", leaves(jax.jit(lambda seed: nj.pure(drawn)({}, seed=seed)[1])(seed)))
    for name in ("trunc_normal_in", "normal_out", "uniform_avg", "zeros", "normed"):
        case.record(f"init {name}", text=repr(nets.init(name)))
    case.record(
        "fans",
        {
            str(shape): repr(nets.Initializer.compute_fans(shape))
            for shape in ((), (3,), (3, 4), (5, 3, 4), (2, 2, 3, 4))
        },
    )
    same = nets.Initializer() == nets.Initializer("trunc_normal", "in", 1.0)
    case.record(
        "equal",
        same=same,
        other=[
            nets.Initializer() == nets.Initializer(*x)
            for x in (("normal",), ("normal", "out"), ("trunc_normal", "in", 2))
        ],
    )
    for given in (("nothing", "in"), ("normal", "nothing")):
        case.record(
            "refused", error=raised(lambda given=given: nj.pure(nets.Initializer(*given))({}, (2, 3), seed=seed))
        )
    case.record("refused", zero=raised(lambda: nj.pure(nets.Initializer())({}, (0, 3), seed=seed)))


def layers(case: Case) -> None:
    """Linear layers, norms, embeddings, what concatenates observations, MLPs; in double use, with and without bias."""
    import elements
    import numpy as np
    from embodied.jax import nets

    x, space = normal(1, 3, 8, scale=2), elements.Space
    for name, function in {
        "Linear": lambda x: nets.Linear(5, name="l")(x),
        "Linear to two dimensions": lambda x: nets.Linear((3, 2), outscale=0.3, winit="normal_out", name="l")(x),
        "Linear without bias": lambda x: nets.Linear(5, bias=False, name="l")(x),
        "Linear, biased": lambda x: nets.Linear(5, binit=nets.Initializer("normal"), name="l")(x),
        "BlockLinear": lambda x: nets.BlockLinear(6, 2, outscale=0.3, name="l")(x),
        "BlockLinear without bias": lambda x: nets.BlockLinear(8, 4, bias=False, name="l")(x[None]),
        "Norm none": lambda x: nets.Norm("none", name="l")(x),
        "Norm rms": lambda x: nets.Norm("rms", name="l")(x),
        "Norm layer": lambda x: nets.Norm("layer", name="l")(x),
        "Norm layer, other eps": lambda x: nets.Norm("layer1em1", name="l")(x),
        "Norm without scale": lambda x: (
            nets.Norm("layer", scale=False, shift=False, name="l")(x),
            nets.Linear(2, name="k")(x),
        ),
        "Norm over two axes": lambda x: nets.Norm("layer", axis=(-2, -1), name="l")(x[None]),
        "MLP": lambda x: nets.MLP(2, 5, name="l")(x),
        "MLP, otherwise": lambda x: nets.MLP(1, 5, act="tanh", norm="layer", bias=False, name="l")(x[None]),
    }.items():
        module(case, name, function, x)
    for make in (nets.MLP, nets.Attention, nets.Transformer, nets.GRU):
        case.record(f"{make.__name__} by default", by_default(lambda make=make: make(name="l")))
    mlp = nj_made(lambda: nets.MLP(name="l"))
    case.record("MLP by default", layers=mlp.layers, units=mlp.units)
    index = np.array([[0, 3], [2, 1], [4, 4]])
    module(case, "Embed", lambda index: nets.Embed(5, 4, (2,), name="e")(index), index)
    module(case, "Embed, combined", lambda index: nets.Embed(5, 4, (2,), combine=True, name="e")(index), index)
    spaces = {
        "z": space(np.float32, (2, 3)),
        "a": space(np.int32, (2,), 0, 4),
        "m": space(np.float32, ()),
        "b": space(bool, ()),
    }
    many = {
        "z": normal(2, 3, 2, 3),
        "a": np.array([[0, 3], [-1, -1], [2, 1]], np.int32),
        "m": np.array([0.5, -np.inf, 3], np.float32),
        "b": np.array([True, False, True]),
    }
    for squish in (nets.symlog, lambda x: x):
        computed(case, "DictConcat", lambda many, s=squish: nets.DictConcat(spaces, 1, squish=s)(many), many)
    two = {k: spaces[k] for k in ("z", "a")}
    computed(case, "DictConcat, two dimensions", lambda m: nets.DictConcat({"z": two["z"]}, 2)(m), many)
    image = {"i": space(np.uint8, (4, 4, 3))}
    case.record("refused", image=raised(lambda: nets.DictConcat(image, 1)({"i": np.zeros((3, 4, 4, 3), np.uint8)})))
    case.record("refused", missing=raised(lambda: nets.DictConcat(two, 1)({"z": many["z"]})))
    for impl in ("onehot", "lookup"):
        module(
            case,
            f"DictEmbed {impl}",
            lambda a, z, i=impl: nets.DictEmbed(two, 5, impl=i, name="d")({"a": a, "z": z}, (3,)),
            many["a"],
            many["z"],
        )


def by_default(make) -> dict[str, str]:
    """The settings that a module has where nobody gives any."""
    made = nj_made(make)
    return {name: repr(getattr(made, name)) for name in type(made).__annotations__}


def nj_made(make):
    """What `make` makes in ninjax's context."""
    import ninjax as nj

    made = []
    nj.pure(lambda: made.append(make()))({}, seed=0, create=True)
    return made[0]


def convolutions(case: Case) -> None:
    """Convolutions with strides, groups, transposed, in two and three dimensions."""
    from embodied.jax import nets

    x, deep = normal(1, 2, 6, 8, 4), normal(2, 1, 3, 4, 4, 2)
    for name, function in {
        "Conv2D": lambda x: nets.Conv2D(3, 3, name="c")(x),
        "Conv2D, strided": lambda x: nets.Conv2D(3, (3, 5), 2, outscale=0.5, name="c")(x),
        "Conv2D, transposed": lambda x: nets.Conv2D(3, 5, 2, transp=True, name="c")(x),
        "Conv2D, grouped": lambda x: nets.Conv2D(4, 3, groups=2, bias=False, pad="valid", name="c")(x),
    }.items():
        module(case, name, function, x)
    module(case, "Conv3D", lambda x: nets.Conv3D(3, 3, name="c")(x), deep)
    module(
        case, "Conv3D, strided", lambda x: nets.Conv3D(2, (1, 3, 3), (1, 2, 2), groups=2, bias=False, name="c")(x), deep
    )
    module(case, "Conv3D, transposed", lambda x: nets.Conv3D(2, 2, 2, transp=True, name="c")(x), deep)


def sequences(case: Case) -> None:
    """Attention, transformers and recurrent layers, and a layer repeated by a scan."""
    import ninjax as nj
    import numpy as np
    from embodied.jax import LayerScan, nets

    x = normal(1, 2, 4, 8)
    mask = np.tril(np.ones((4, 4), bool))[None].repeat(2, 0)
    steps = np.arange(8, dtype=np.int32).reshape(2, 4)
    for name, function in {
        "Attention": lambda x: nets.Attention(heads=2, name="a")(x),
        "Attention, otherwise": lambda x: nets.Attention(
            heads=4, kv_heads=2, qknorm="rms", rope=False, dropout=0.3, outscale=0.5, name="a"
        )(x, mask),
        "Attention at steps": lambda x: nets.Attention(heads=2, dropout=0.3, name="a")(x, mask, steps, training=False),
        "Transformer": lambda x: nets.Transformer(units=8, layers=2, heads=2, name="t")(x, mask),
        "Transformer, gated": lambda x: nets.Transformer(
            units=8, layers=1, heads=2, glu=True, ffup=2, act="relu", outscale=0.5, name="t"
        )(x),
    }.items():
        module(case, name, function, x)
    resets = np.array([[False, False, True, False], [True, False, False, False]])

    def recurrent(x):
        gru = nets.GRU(units=5, name="g")
        carry, out = gru(gru.initial(2) + 0.3, x, resets)
        return carry, out, gru(carry, x[:, 0], resets[:, 0], single=True)

    module(case, "GRU", recurrent, x)

    class Layer(nj.Module):
        def __call__(self, x, more):
            if "calls" in nj.context() or nj.creating():
                calls = nj.Variable(np.zeros, (), np.float32, name="calls")
                calls.write(calls.read() + 1)
            return self.sub("linear", nets.Linear, 8)(x) + more, x.mean()

    module(case, "LayerScan", lambda x, more: LayerScan(Layer(name="layer"), 3)(x, more), x, normal(3, 3, 8))


def normalisers(case: Case) -> None:
    """Normalisers of every kind on small, large and constant batches: statistics, state, rates, their limits."""
    import jax
    import ninjax as nj
    from embodied.jax import Normalize

    batches = [
        normal(1, 40, scale=0.05),
        normal(2, 40, scale=9) + 3,
        normal(3, 8, 5, scale=2),
        0 * normal(4, 40),
        normal(5, 3),
    ]
    settings = (
        {},
        {"debias": False},
        {"debias": False, "rate": 0.3, "limit": 1.0, "perclo": 20.0, "perchi": 60.0},
        {"limit": 2.0, "rate": 0.5},
    )
    for impl in ("none", "meanstd", "perc"):
        for given in settings:
            norm = Normalize(impl, **given, name="n")

            def step(state, x, norm=norm):
                before = nj.pure(norm.stats)(state, create=True)
                state, stats = nj.pure(norm)(before[0], x, True, create=True)
                return state, (before[1], stats, nj.pure(norm)(state, 5 * x, False, create=True)[1])

            state = {}
            for number, x in enumerate(batches):
                state, stats = (step if number % 2 else jax.jit(step))(state, x)
                case.record(f"{impl} {given}, batch {number}", leaves(stats, "stats") | leaves(state, "state"))
    for what in ("update", "stats"):
        broken = Normalize("none", name="n")
        broken.impl = "nothing"
        call = getattr(broken, what)
        given = (batches[0],) if what == "update" else ()
        case.record(f"refused, {what}", error=raised(lambda c=call, g=given: nj.pure(c)({}, *g)))
    case.record("refused", error=raised(lambda: Normalize("nothing", name="n")))


def slow_model(case: Case) -> None:
    """A slow copy over several updates, at rates and intervals; its beginning; what is refused."""
    import jax
    import ninjax as nj
    from embodied.jax import SlowModel, nets

    x = normal(1, 2, 4)
    for given in ({"rate": 0.02}, {"rate": 0.3, "every": 3}, {"rate": 1.0, "every": 2}, {}):
        source, copy = nets.Linear(3, name="source"), nets.Linear(3, name="slow")
        slow = SlowModel(copy, source=source, **given)

        def step(x, source=source, slow=slow):
            y = source(x), slow(x)
            for name, value in source.values.items():
                source.write(name, value * 1.5 + 0.1)
            slow.update()
            return (*y, slow(x), slow.units)

        state = {}
        for number in range(5):
            run = lambda state, x, step=step: nj.pure(step)(state, x, seed=0, create=True)  # noqa: E731
            state, y = (jax.jit(run) if number else run)(state, x)
            case.record(f"{given}, update {number}", leaves(state, "state") | leaves(y, "y"))
    for rate in (0.5, 0.7, 2):
        case.record("refused", error=raised(lambda r=rate: SlowModel(nets.Linear(3, name="slow"), source=None, rate=r)))
    empty = SlowModel(nets.Linear(3, name="slow"), source=nets.Linear(3, name="source"))
    case.record("refused without parameters", error=raised(lambda: nj.pure(empty.update)({}, create=True)))


def optimised(case: Case, what: str, chain, steps: int, scales, scaling: bool = False) -> None:
    """Records updates of a small module by an optimiser: gradients of many sizes, state, metrics, parameters."""
    import jax
    import jax.numpy as jnp
    import ninjax as nj
    from embodied.jax import Optimizer, nets

    x, y = normal(1, 6, 4), normal(2, 6, 3)
    one, two = nets.Linear(5, name="one"), nets.Linear(3, winit="normal", name="two")
    opt = Optimizer([one, two], chain, summary_depth=1, name="opt")

    def loss(x, scale):
        out = two(jnp.tanh(one(nets.cast(x))))
        value = (jnp.square(out.astype(jnp.float32) - y) * scale).mean()
        return value, {"out": out}

    run = jax.jit(
        lambda state, x, scale: nj.pure(lambda: opt(loss, x, scale, has_aux=True))(state, seed=0, create=True)
    )
    state, _ = nj.pure(lambda: (one(nets.cast(x)), two(nets.cast(x[:, :4].repeat(2, 1)[:, :5]))))(
        {}, seed=3, create=True
    )
    for number, scale in zip(range(steps), scales, strict=False):
        state, (metrics, aux) = run(state, x, jnp.float32(scale))
        case.record(
            f"{what}, update {number}", leaves(metrics, "metrics") | leaves(state, "state") | leaves(aux, "aux")
        )


def optimiser(case: Case) -> None:
    """The official chain with gradients above and below the clipping norm, through warmup, with decay and annealing."""
    import jax
    import optax
    from dreamerv3.agent import Agent
    from embodied.jax import opt

    make = object.__new__(Agent)._make_opt
    scales = (1e-6, 1.0, 1e4, 0.0, 1e-3, 10.0, 1e-9)
    for name, given in {
        "as it is": {},
        "short warmup": {"warmup": 3, "lr": 0.1},
        "no warmup, decay": {"warmup": 0, "lr": 0.1, "wd": 0.1, "eps": 1e-3},
        "linear": {"warmup": 2, "anneal": 6, "schedule": "linear", "lr": 0.1, "nesterov": True},
        "cosine": {"warmup": 2, "anneal": 6, "schedule": "cosine", "lr": 0.1, "agc": 0.0, "beta1": 0.5, "beta2": 0.7},
    }.items():
        optimised(case, name, make(**given), 7, scales)
    for given in ({"schedule": "linear"}, {"schedule": "nothing", "anneal": 5}, {"wd": 0.1, "wdregex": "0.1"}):
        case.record("refused", error=raised(lambda given=given: make(**given)))
    params = {"a": normal(1, 3, 4), "b": 1e-5 * normal(2, 5), "c": normal(3, 2, 2, 2)}
    grads = {"a": normal(4, 3, 4, scale=5), "b": normal(5, 5), "c": 1e-3 * normal(6, 2, 2, 2)}
    chains = {
        "agc": opt.clip_by_agc(), "agc with a floor": opt.clip_by_agc(0.1, 0.5), "rms": opt.scale_by_rms(),
        "momentum": opt.scale_by_momentum(), "nesterov": opt.scale_by_momentum(0.7, True),
        "no agc": opt.clip_by_agc(0.0),
    }  # fmt: skip
    for name, chain in chains.items():
        state = chain.init(params)
        for number in range(3):
            updates, state = jax.jit(chain.update)(jax.tree.map(lambda g, n=number: g * 4.0**n, grads), state, params)
            case.record(f"{name}, update {number}", leaves(updates, "update") | leaves(state, "state"))
    counts = {"one/kernel": 20, "one/bias": 3, "two/a/kernel": 7000}
    made = nj_made(lambda: opt.Optimizer([], optax.identity(), name="o"))
    case.record("summary", {str(depth): made._summarize_params(counts, depth) for depth in (1, 2)})


def optimiser_scaled(case: Case) -> None:
    """In half precision: losses are scaled, the scale follows overflows and long runs without any."""
    import jax.numpy as jnp
    import ninjax as nj
    import optax
    from embodied.jax import Optimizer, nets

    nets.COMPUTE_DTYPE = jnp.float16
    optimised(case, "half precision", optax.sgd(0.01), 4, (1.0, 1e9, 1.0, 1e-3), scaling=True)
    opt = Optimizer([], optax.sgd(0.01), name="opt")
    for steps in (0, 999, 1000, 1500):
        for scale in (1e-4, 1.0, 9e4):
            for finite in (True, False):
                state = {"opt/grad_scale/value": jnp.float32(scale), "opt/good_steps/value": jnp.int32(steps)}
                state, _ = nj.pure(opt._update_scale)(state, {}, jnp.array(finite))
                case.record(f"scale {scale} after {steps}, finite {finite}", leaves(state))
