"""The gate `defaults` of DreamerV3: what a run starts with where nobody asks for anything else.

The checkout's `main` is called with the flags of its users up to the point where its script would begin: a stand-in
takes the script's place and looks at what it is handed. Compared are the configuration that `main` ends with, key by
key, for every preset and task suite, which script is chosen, what agent, replay, streams, environments and logger are
made of it, every parameter's shape, and the initial values and optimiser's state of a seed.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tdmpc2_lean.patching import read_series
from tdmpc2_lean.validation.gates import cases, stand_ins
from tdmpc2_lean.validation.gates.cases import Case
from tdmpc2_lean.validation.gates.functions_dreamerv3 import UNOPTIMISED, leaves, prepared, raised
from tdmpc2_lean.validation.gates.results import Result
from tdmpc2_lean.validation.gates.subjects import GateSubject
from tdmpc2_lean.validation.gates.traced_runs import DREAMERV3

FUNCTION = "tdmpc2_lean.validation.gates.defaults_dreamerv3:resolved"
# What the command line of a user says, of which each case looks at the result.
RUNS = {
    "nothing-given": [],
    "dmc-proprio": ["--configs", "dmc_proprio"],
    "dmc-vision": ["--configs", "dmc_vision", "size12m", "--seed", "3"],
    "debug": ["--configs", "dmc_proprio", "debug"],
    "train-eval": ["--configs", "dmc_proprio", "--script", "train_eval"],
    "eval-only": ["--configs", "dmc_proprio", "--script", "eval_only", "--run.from_checkpoint", "given"],
    "parallel": ["--script", "parallel"],
    "parallel-env": ["--script", "parallel_env", "--replica", "3"],
    "parallel-envs": ["--script", "parallel_envs", "--replica", "30"],
    "parallel-replay": ["--script", "parallel_replay"],
    "no-such-script": ["--script", "nothing"],
}
SCRIPTS = ("train", "train_eval", "eval_only")
PARALLEL = ("combined", "parallel_env", "parallel_envs", "parallel_replay")
COVERS = {"configs.yaml": frozenset({"dreamerv3/configs.yaml:*"})}


def defaults(subject: GateSubject) -> Iterator[Result]:
    """One result per kind of run, for the presets, and for the networks."""
    own = own_settings(subject)
    yield from cases.judged("defaults", FUNCTION, subject, DREAMERV3, own_settings=own, covers=COVERS)


def own_settings(subject: GateSubject) -> dict[str, list[str]]:
    """The keys that our patches add, each with the values, written as `repr` does, that it may have by default."""
    found = {}
    for patch in (subject.series or read_series(subject.reference.upstream)).patches:
        for name, setting in patch.settings.items():
            found[name] = [repr(setting.default)]
    return found


# What follows runs in a process of its own, on the checkout's code.


def resolved(code_dir: Path, names: list[str] | None = None) -> dict:
    """What `cases.recorded` returns of this gate's cases."""
    os.environ["XLA_FLAGS"] = UNOPTIMISED
    table = {"configs.yaml": lambda case: presets(case, code_dir)}
    table |= {name: lambda case, argv=argv: started_with(case, argv) for name, argv in RUNS.items()}
    table["sizes"] = lambda case: sizes(case, code_dir)
    table["networks"] = lambda case: networks(case, code_dir)
    return cases.recorded({name: prepared(case) for name, case in table.items()}, names)


def configured(code_dir: Path, names: Sequence[str], given: dict | None = None):
    """The official configuration with presets and further keys."""
    import elements
    import ruamel.yaml

    known = ruamel.yaml.YAML(typ="safe").load((code_dir / "dreamerv3/configs.yaml").read_text())
    config = elements.Config(known["defaults"])
    for name in names:
        config = config.update(known[name])
    return config.update(given or {})


def presets(case: Case, code_dir: Path) -> None:
    """Every key of every preset on top of the defaults, as it is in the end."""
    import ruamel.yaml

    known = ruamel.yaml.YAML(typ="safe").load((code_dir / "dreamerv3/configs.yaml").read_text())
    case.record("presets", {name: "there" for name in known})
    for name in known:
        config = configured(code_dir, [] if name == "defaults" else [name])
        case.record(f"configuration {name}", {k: repr(v) for k, v in config.flat.items()})


def started_with(case: Case, argv: Sequence[str]) -> None:
    """Calls `main` up to its script and records what that is handed."""
    import embodied
    import embodied.run
    import portal
    from dreamerv3 import main

    def looking(name):
        def script(*given):
            case.record("script", name=name)
            for number, one in enumerate(given):
                if hasattr(one, "func"):
                    case.record(
                        f"given {number}",
                        function=one.func.__name__,
                        args=[a for a in one.args if isinstance(a, (str, int))],
                    )
                    held = one.args[0] if one.args else None
                    if hasattr(held, "flat"):
                        case.record("configuration", {k: masked(v) for k, v in held.flat.items()})
                elif hasattr(one, "flat"):
                    case.record("configuration of the script", own_names({k: masked(v) for k, v in one.flat.items()}))
                else:
                    case.record(f"given {number}", value=repr(one))

        return script

    def set_up(**given):
        told = {k: (len(v) if k == "initfns" else stand_ins.masked(repr(v))) for k, v in given.items()}
        [function() for function in given.get("initfns", ())]
        case.record("processes are set up", told, timer=elements.timer.global_timer.enabled)

    import elements

    owners = {(embodied.run, name): looking(name) for name in SCRIPTS}
    owners |= {
        (embodied.run.parallel, name): looking(name) for name in PARALLEL if hasattr(embodied.run.parallel, name)
    }
    owners |= {(portal, "setup"): set_up, (elements, "timestamp"): lambda *_, **__: "TIMESTAMP"}
    before = {place: getattr(*place) for place in owners}
    for (owner, name), value in owners.items():
        setattr(owner, name, value)
    try:
        for extra, environment in (
            ([], {}),
            (["--logger.timer", "False", "--logdir", "a/{timestamp}"], {"JOB_COMPLETION_INDEX": "7"}),
        ):
            os.environ.update(environment)
            words = [*argv, *extra]
            logdir = [] if extra else ["--logdir", "logdir/{timestamp}"]
            case.record("ended", error=raised(lambda w=words, d=logdir: main.main([*w, *d])))
            os.environ.pop("JOB_COMPLETION_INDEX", None)
    finally:
        elements.timer.global_timer.enabled = True
        for (owner, name), value in before.items():
            setattr(owner, name, value)
    saved = sorted(str(path) for folder in ("logdir", "a") for path in Path(folder).rglob("*.yaml"))
    case.record("saved", files=saved)


def masked(value) -> str:
    return stand_ins.masked(repr(value))


def own_names(found: dict) -> dict:
    """The keys of a script's arguments by the names that they have in the configuration."""
    kept = ("replica", "logdir", "batch_", "report_length", "consec_", "replay_context")
    return {k if k.startswith(kept) else f"run.{k}": v for k, v in found.items()}


def sizes(case: Case, code_dir: Path) -> None:
    """Every parameter's shape for numbers and for pictures; what other sizes set, `presets` compares."""
    import embodied.jax.nets as nets
    import jax
    import jax.numpy as jnp

    nets.COMPUTE_DTYPE = jnp.bfloat16
    for name, kinds in {"size1m": ("dmc_proprio", "dmc_vision"), "size12m": ("dmc_vision",)}.items():
        for kind in kinds:
            made, data = agent_of(code_dir, [kind, name])
            shapes = jax.eval_shape(
                lambda key, data, made=made: initialised(made, key, data), jax.ShapeDtypeStruct((2,), jnp.uint32), data
            )
            case.record(f"{name} {kind}", {k: f"{v.shape} {v.dtype}" for k, v in shapes.items()})


def agent_of(code_dir: Path, names: Sequence[str], given: dict | None = None):
    """(agent, shapes of a batch) of official spaces: those of dm_control's walker."""
    import elements
    import jax
    import numpy as np
    from dreamerv3.agent import Agent

    config = configured(code_dir, names, given)
    rest = {
        k: config[k]
        for k in ("seed", "jax", "batch_size", "batch_length", "replay_context", "report_length", "replica", "replicas")
    }
    space = elements.Space
    obs = {"image": space(np.uint8, (64, 64, 3))} if "dmc_vision" in names else {}
    if "dmc_proprio" in names:
        obs = {
            "height": space(np.float32, ()),
            "orientations": space(np.float32, (14,)),
            "velocity": space(np.float32, (9,)),
        }
    obs |= {"reward": space(np.float32), **{k: space(bool) for k in ("is_first", "is_last", "is_terminal")}}
    made = object.__new__(Agent)
    made.__init__(
        obs, {"action": space(np.float32, (6,), -1, 1)}, elements.Config(**config.agent, logdir="logdir", **rest)
    )
    spaces = {**obs, **made.act_space, **made.ext_space}
    data = {k: jax.ShapeDtypeStruct((1, 3, *v.shape), v.dtype) for k, v in spaces.items()}
    return made, data


def initialised(made, key, data):
    import ninjax as nj

    return nj.pure(lambda: made.train(made.init_train(1), data))({}, seed=key, create=True, ignore=True)[0]


def networks(case: Case, code_dir: Path) -> None:
    """The initial values of a small agent for two seeds, and the optimiser's state."""
    import jax
    import numpy as np

    made, data = agent_of(code_dir, ["dmc_proprio", "debug"], {"jax.compute_dtype": "float32"})
    data = {k: np.zeros(v.shape, v.dtype) for k, v in data.items()}
    run = jax.jit(lambda key: initialised(made, key, data))
    for seed in (0, 1):
        case.record(f"initial values of seed {seed}", leaves(run(np.array([seed, 0], np.uint32))))
