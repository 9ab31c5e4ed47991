"""Cases of the gate `functions` of DreamerV3 on the world model, returns and losses, and whole updates of the agent."""

from collections.abc import Callable, Mapping
from pathlib import Path

from tdmpc2_lean.validation.gates.cases import Case
from tdmpc2_lean.validation.gates.functions_dreamerv3 import (
    by_default,
    computed,
    leaves,
    module,
    normal,
    raised,
    with_gradients,
)

SMALL = {
    r".*\.bins": 7, r".*\.layers": 1, r".*\.units": 6, r".*\.stoch": 2, r".*\.classes": 3, r".*\.deter": 8,
    r".*\.hidden": 4, r".*\.blocks": 2, r".*\.depth": 2, r".*\.mults": [1, 2], r".*\.bspace": 4, "imag_length": 3,
}  # fmt: skip
B, T, CONTEXT = 2, 4, 1


def table(code_dir: Path) -> dict[str, Callable[[Case], None]]:
    found = {"returns": returns, "imagined-loss": imagined_loss, "replayed-loss": replayed_loss, "rssm": rssm}
    found["encoder-decoder"] = encoder_decoder
    found["agent"] = lambda case: agent(case, code_dir)
    return found


def booleans(seed: int, *shape: int, share: float = 0.3):
    import numpy as np

    return np.random.default_rng(seed).random(shape) < share


def returns(case: Case) -> None:
    """Lambda returns with ends and terminations in some steps, in all and in none."""
    from dreamerv3 import agent

    rew, val, boot = normal(1, 3, 6), normal(2, 3, 6), normal(3, 3, 6)
    for share in (0.0, 0.3, 1.0):
        last, term = booleans(4, 3, 6, share=share), booleans(5, 3, 6, share=share)
        for disc, lam in ((0.9, 0.7), (1, 0.95), (0.5, 0.0), (0.5, 1.0)):
            computed(
                case,
                f"{share}, {disc}, {lam}",
                lambda *x, d=disc, m=lam: agent.lambda_return(*x, d, m),
                last,
                term,
                rew,
                val,
                boot,
            )
    case.record("refused", error=raised(lambda: agent.lambda_return(last, term, rew, val[:, :3], boot, 1, 1)))


class Norms:
    """Normalisers with numbers that show where each is used; what they are told is kept."""

    def __init__(self, offset: float, scale: float):
        self.values, self.told = (offset, scale), []

    def stats(self):
        return self.values

    def __call__(self, x, update):
        self.told.append((x, update))
        return self.values[0] + 0.25, self.values[1] * 1.5


def imagined_loss(case: Case) -> None:
    """The losses of actor and critic with terminations, with and without a slow target, and all that is measured."""
    import numpy as np
    from dreamerv3 import agent
    from embodied.jax import outs

    n, h = 3, 5
    arrays = {
        "mean": normal(1, n, h, 2),
        "logits": normal(2, n, h, 4),
        "value": normal(3, n, h),
        "slow": normal(4, n, h),
    }
    arrays |= {"rew": normal(5, n, h), "con": np.where(booleans(6, n, h), 0.0, 0.97).astype(np.float32)}
    act = {"a": normal(7, n, h, 2), "b": np.random.default_rng(8).integers(0, 4, (n, h))}
    for number, given in enumerate(
        (
            {},
            {"contdisc": False, "slowtar": False, "horizon": 4, "lam": 0.5, "actent": 0.3, "slowreg": 0.2},
            {"slowtar": False, "actent": 0.0},
        )
    ):

        def loss(arrays, given=given, update=bool(number % 2)):
            norms = [Norms(0.3, 2.0), Norms(-0.2, 3.0), Norms(0.1, 0.7)]
            one = outs.Agg(outs.Normal(arrays["mean"], 0.5), 1)
            one.minent, one.maxent = np.array([-1.0, -2.0]), np.array([3.0, 4.0])
            policy = {"a": one, "b": outs.Categorical(arrays["logits"])}
            value, slow = outs.MSE(arrays["value"]), outs.MSE(arrays["slow"])
            found = agent.imag_loss(
                act, arrays["rew"], arrays["con"], policy, value, slow, *norms, update=update, **given
            )
            told = [[x for x, _ in norm.told] for norm in norms]
            case.record("updates", updates=[[u for _, u in norm.told] for norm in norms])
            return found, told

        with_gradients(case, f"loss {number}", loss, arrays)


def replayed_loss(case: Case) -> None:
    """The critic's loss on replayed steps with ends, terminations and bootstraps."""
    from dreamerv3 import agent
    from embodied.jax import outs

    n, h = 3, 5
    arrays = {"value": normal(3, n, h), "slow": normal(4, n, h), "rew": normal(5, n, h), "boot": normal(6, n, h)}
    last, term = booleans(1, n, h), booleans(2, n, h)
    for number, given in enumerate(({}, {"slowtar": False, "horizon": 4, "lam": 0.5, "slowreg": 0.2})):

        def loss(arrays, given=given, update=bool(number % 2)):
            norm = Norms(-0.2, 3.0)
            value, slow = outs.MSE(arrays["value"]), outs.MSE(arrays["slow"])
            found = agent.repl_loss(
                last, term, arrays["rew"], arrays["boot"], value, slow, norm, update=update, **given
            )
            case.record("updates", updates=[u for _, u in norm.told])
            return found, [x for x, _ in norm.told]

        with_gradients(case, f"loss {number}", loss, arrays)


def rssm(case: Case) -> None:
    """Observing, imagining and losses with resets; divergences below and above the free nats; every option."""
    import elements
    import ninjax as nj
    import numpy as np
    from dreamerv3 import rssm as official

    space = {"a": elements.Space(np.float32, (2,), -1, 1), "b": elements.Space(np.int32, (), 0, 3)}
    sizes = {"deter": 8, "hidden": 4, "stoch": 2, "classes": 3, "blocks": 2}
    acts = {"a": normal(1, B, T, 2, scale=2), "b": np.random.default_rng(2).integers(0, 3, (B, T)).astype(np.int32)}
    tokens, reset = normal(3, B, T, 5), np.array([[True, False, False, True], [False, False, True, False]])
    entries = {"deter": normal(4, B, T, 8), "stoch": normal(5, B, T, 2, 3)}
    variants = (
        {"outscale": 4.0},
        {
            "free_nats": 0.0,
            "absolute": True,
            "unimix": 0.2,
            "act": "tanh",
            "obslayers": 2,
            "dynlayers": 2,
            "imglayers": 1,
        },
    )
    for number, given in enumerate(variants):

        def lost(tokens, given=given):
            dyn = official.RSSM(space, **{**sizes, **given}, name="dyn")
            _, _, losses, feat, metrics = dyn.loss(dyn.truncate(entries), tokens, acts, reset, True)
            return losses, metrics, feat

        state = module(case, f"loss {number}", lost, tokens, spread=0.4)

    def further(state, tokens):
        dyn = official.RSSM(space, **sizes, **given, name="dyn")
        carry = dyn.truncate(entries)
        starts = dyn.starts(entries, carry, 3)
        one = {k: v[:, 0] for k, v in acts.items()}
        policy = lambda c: {"a": c["deter"][..., :2] * 3, "b": c["stoch"][..., 0].argmax(-1) % 3}  # noqa: E731
        observed = dyn.observe(carry, tokens[:, 0], one, reset[:, 0], False, single=True)
        imagined = dyn.imagine(starts, policy, 3, False)[:2], dyn.imagine(carry, acts, T, False)
        return observed, starts, imagined, dyn.imagine(starts, policy, 1, False, single=True), dyn.initial(3)

    key = np.array([3, 5], np.uint32)
    computed(case, "imagined", lambda state, x: nj.pure(further)(state, state, x, seed=key)[1], state, tokens)
    made = official.RSSM(space, **sizes, name="dyn")
    case.record("entries", {k: f"{v.shape} {v.dtype}" for k, v in made.entry_space.items()})
    case.record("as it is", by_default(lambda: official.RSSM(space, name="dyn")))
    case.record("refused", error=raised(lambda: official.RSSM(space, deter=9, blocks=2, name="dyn")))


def encoder_decoder(case: Case) -> None:
    """Encoders and decoders of numbers and of pictures: every way of convolving, losses, one step and sequences."""
    import elements
    import numpy as np
    from dreamerv3 import rssm as official

    space = elements.Space
    numbers = {"v": space(np.float32, (3,)), "d": space(np.int32, (), 0, 4)}
    pictures = {"z": space(np.uint8, (12, 16, 3)), "i": space(np.uint8, (12, 16, 1))}
    draw = np.random.default_rng(0)
    obs = {"v": normal(1, B, 2, 3, scale=5), "d": draw.integers(0, 4, (B, 2)).astype(np.int32)}
    obs |= {k: draw.integers(0, 256, (B, 2, *v.shape)).astype(np.uint8) for k, v in pictures.items()}
    feat = {"deter": normal(2, B, 2, 8), "stoch": normal(3, B, 2, 2, 3)}
    reset = np.zeros((B, 2), bool)
    sizes = {"units": 4, "layers": 1, "depth": 2, "mults": (1, 2), "kernel": 3}
    for number, (spaces, given, more) in enumerate(
        (
            (numbers, {}, {}),
            ({"v": numbers["v"]}, {"symlog": False, "layers": 2, "act": "relu", "norm": "layer"}, {"outscale": 0.5}),
            (numbers | pictures, {}, {"bspace": 4}),
            (pictures, {"strided": True, "winit": "normal_in"}, {"bspace": 2, "outscale": 0.3}),
            (pictures, {"outer": True}, {"bspace": 4}),
        )
    ):

        def run(deter, stoch, spaces=spaces, given=given, more=more):
            enc = official.Encoder(spaces, **{**sizes, **given}, name="enc")
            dec = official.Decoder(spaces, **{**sizes, **given, **more}, name="dec")
            feat = {"deter": deter, "stoch": stoch}
            _, _, tokens = enc(enc.initial(B), obs, reset, True)
            one = {k: v[:, 0] for k, v in obs.items()}
            _, _, first = enc({}, one, reset[:, 0], False, single=True)
            _, _, recons = dec(dec.initial(B), feat, reset, True)
            losses = {}
            for key, recon in recons.items():
                target = obs[key].astype(np.float32) / 255 if key in pictures else obs[key]
                losses[key] = recon.loss(target)
            return tokens, first, {k: v.pred() for k, v in recons.items()}, losses

        module(case, f"pair {number}", run, feat["deter"], feat["stoch"], spread=0.3)
        enc, dec = official.Encoder(spaces, name="enc"), official.Decoder(spaces, name="dec")
        told = [enc.entry_space, enc.truncate({}), dec.entry_space, dec.truncate({}), enc.initial(2), dec.initial(2)]
        case.record("entries", entries=told)
    for kind in (official.Encoder, official.Decoder):
        case.record("as it is", by_default(lambda kind=kind: kind(numbers, name="k")))


def configured(code_dir: Path):
    """The official configuration of a small agent, as `main` hands it to one."""
    import elements
    import ruamel.yaml

    defaults = ruamel.yaml.YAML(typ="safe").load((code_dir / "dreamerv3/configs.yaml").read_text())["defaults"]
    config = elements.Config(defaults)
    config = elements.Config(**config.agent).update(SMALL)
    rest = {
        "logdir": "logdir",
        "seed": 0,
        "batch_size": B,
        "batch_length": T,
        "report_length": T,
        "replay_context": CONTEXT,
    }
    return elements.Config(**config, **{**rest, "replica": 0, "replicas": 1, "jax": elements.Config(defaults["jax"])})


def spaces_of():
    import elements
    import numpy as np

    space = elements.Space
    obs = {"vec": space(np.float32, (3,)), "reward": space(np.float32)}
    obs |= {k: space(bool) for k in ("is_first", "is_last", "is_terminal")}
    return obs, {"action": space(np.float32, (2,), -1, 1)}


def batch_of(spaces: Mapping, shape: tuple, seed: int, goes_on: bool = False) -> dict:
    """A batch of random steps, with beginnings, ends and terminations."""
    import numpy as np

    draw, found = np.random.default_rng(seed), {}
    for name, space in spaces.items():
        if space.dtype == bool:
            found[name] = draw.random((*shape, *space.shape)) < 0.3
        elif np.issubdtype(space.dtype, np.integer):
            high = 4 if name == "action" else 256
            found[name] = draw.integers(0, high, (*shape, *space.shape)).astype(space.dtype)
        else:
            found[name] = draw.standard_normal((*shape, *space.shape)).astype(space.dtype)
    found["consec"] = np.zeros(shape, np.int32)
    if goes_on:
        found["consec"][1:] = 1
    return found


def agent(case: Case, code_dir: Path) -> None:
    """Acting, two updates and a report of a small agent with every parameter moved; its parts and spaces."""
    import jax
    import ninjax as nj
    import numpy as np
    from dreamerv3.agent import Agent

    config = configured(code_dir)
    obs_space, act_space = spaces_of()
    made = object.__new__(Agent)
    made.__init__(obs_space, act_space, config)
    case.record("scales", {k: float(v) for k, v in made.scales.items()}, policy_keys=made.policy_keys)
    case.record("spaces", {k: f"{v.shape} {v.dtype}" for k, v in made.ext_space.items()})
    spaces = {**obs_space, **act_space, **made.ext_space}
    data = batch_of(spaces, (B, T + CONTEXT), 1)
    key = np.array([1, 2], np.uint32)

    def run(state, data, key):
        return nj.pure(lambda: made.train(made.init_train(B), data))(state, seed=key, create=True)

    state, _ = jax.jit(
        lambda data, key: nj.pure(lambda: made.train(made.init_train(B), data))({}, seed=key, create=True, ignore=True)
    )(data, key)
    case.record("at first", leaves(state))
    floats = (k for k, v in sorted(state.items()) if v.dtype == np.float32 and not k.startswith("opt/"))
    state |= {k: state[k] + normal(i, *state[k].shape, scale=0.2) for i, k in enumerate(floats)}
    trained = jax.jit(run)
    for number in range(2):
        state, (carry, outs, metrics) = trained(
            state, batch_of(spaces, (B, T + CONTEXT), 2 + number, goes_on=bool(number)), key + number
        )
        case.record(f"update {number}", leaves(metrics, "metrics") | leaves(carry, "carry") | leaves(outs, "outs"))
        case.record(f"state after update {number}", leaves(state))
    obs = {k: data[k][:, 0] for k in obs_space}
    act = jax.jit(
        lambda state, obs, key, carry: nj.pure(lambda: made.policy(carry or made.init_policy(B), obs))(state, seed=key)[
            1
        ]
    )
    computed_first = act(state, obs, key, None)
    case.record("acts", leaves(computed_first))
    case.record("acts again", leaves(act(state, {k: data[k][:, 1] for k in obs_space}, key, computed_first[0])))
    report = jax.jit(lambda s, d, k: nj.pure(lambda: made.report(made.init_report(B), d))(s, seed=k)[1])
    case.record("report", leaves(report(state, data, key)))
    quiet = object.__new__(Agent)
    quiet.__init__(obs_space, act_space, config.update({"report": False, "replay_context": 0}))
    case.record("no report", report=quiet.report((1,), data), spaces=sorted(quiet.ext_space))
    plain = quiet._apply_replay_context((*[{}] * 3, {"action": data["action"][:, 0]}), data)
    case.record("no context", leaves(plain))
