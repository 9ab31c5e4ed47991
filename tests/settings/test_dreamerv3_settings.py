"""What a setting of DreamerV3 may not be is told before anything starts, on the official code's own configuration."""

import math

import pytest

pytest.importorskip("elements", reason="needs the extra [dreamer]")

from dreamer_bridge import config, schema
from dreamer_bridge.adapter import KEYS, DreamerAdapter
from tdmpc2_lean import patching
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.patched import materialise
from tdmpc2_lean.runs import presets
from tdmpc2_lean.settings import deciding

SHELF = DreamerAdapter().shelf

# A word, and what is said about it after "WORD is not allowed: ".
REFUSED = [
    ("run.steps=-5", "run.steps is a number above 0 (agent steps)."),
    ("run.steps=0", "run.steps is a number above 0 (agent steps)."),
    ("run.steps=nan", "run.steps is a number above 0 (agent steps)."),
    ("run.steps=inf", "run.steps is a number above 0 (agent steps)."),
    ("run.steps=many", "run.steps is a number above 0 (agent steps)."),
    ("run.train_ratio=-1", "run.train_ratio is a number from 0 on (replayed steps per agent step)."),
    ("run.train_ratio=nan", "run.train_ratio is a number from 0 on (replayed steps per agent step)."),
    ("run.envs=0", "run.envs is a whole number from 1 on (environments)."),
    ("run.envs=-2", "run.envs is a whole number from 1 on (environments)."),
    ("run.envs=1.5", "run.envs is a whole number from 1 on (environments)."),
    ("run.envs=inf", "run.envs is a whole number from 1 on (environments)."),
    ("run.report_batches=-1", "run.report_batches is a whole number from 0 on (batches)."),
    ("run.log_every=often", "run.log_every is a whole number (seconds, or agent steps by run.clock=steps)."),
    ("run.clock=minutes", "run.clock is one of seconds, steps."),
    ("run.resume_exact=maybe", "run.resume_exact is True or False."),
    ("run.debug=0", "run.debug is True or False."),
    ("batch_size=0", "batch_size is a whole number from 1 on (sequences)."),
    ("batch_size=1.5", "batch_size is a whole number from 1 on (sequences)."),
    ("batch_size=inf", "batch_size is a whole number from 1 on (sequences)."),
    ("batch_size=abc", "batch_size is a whole number from 1 on (sequences)."),
    ("batch_length=0", "batch_length is a whole number from 1 on (agent steps)."),
    ("report_length=0", "report_length is a whole number from 1 on (agent steps)."),
    ("consec_train=0", "consec_train is a whole number from 1 on (batches)."),
    ("replay_context=-1", "replay_context is a whole number from 0 on (agent steps)."),
    ("seed=-1", "seed is a whole number from 0 to 4294967295."),
    ("seed=4294967296", "seed is a whole number from 0 to 4294967295."),
    ("seed=x", "seed is a whole number from 0 to 4294967295."),
    (
        "script=learn",
        "script is one of train, train_eval, eval_only, parallel, parallel_env, parallel_envs, parallel_replay.",
    ),
    ("env.dmc.repeat=0", "env.dmc.repeat is a whole number from 1 on (env steps per agent step)."),
    ("env.dmc.repeat=-1", "env.dmc.repeat is a whole number from 1 on (env steps per agent step)."),
    ("env.dmc.repeat=2.5", "env.dmc.repeat is a whole number from 1 on (env steps per agent step)."),
    ("env.dmc.camera=-2", "env.dmc.camera is a whole number from -1 on."),
    ("env.dmc.size=0", "env.dmc.size is a list, each entry a whole number from 1 on (pixels)."),
    ("env.dmc.image=yes", "env.dmc.image is True or False."),
    ("replay.size=0", "replay.size is a number above 0 (agent steps)."),
    (
        "replay.size=10",
        "a batch of batch_size x (consec_train x batch_length + replay_context) steps fits into replay.size; "
        "here batch_size is 16, batch_length is 64.",
    ),
    ("replay.size=-1", "replay.size is a number above 0 (agent steps)."),
    ("replay.chunksize=0", "replay.chunksize is a whole number from 1 on (agent steps)."),
    ("replay.fracs.uniform=2", "replay.fracs.uniform is a number from 0 to 1."),
    (
        "replay.fracs.uniform=0.5",
        "where uniform is below 1 the three shares add up to 1; here replay.fracs.priority is 0, "
        "replay.fracs.recency is 0.",
    ),
    ("jax.platform=nvidia", "jax.platform is cpu, cuda, rocm, gpu, tpu, METAL, mps or xpu, or several with commas."),
    ("jax.platform=cuda:0", "jax.platform is cpu, cuda, rocm, gpu, tpu, METAL, mps or xpu, or several with commas."),
    ("jax.compute_dtype=float64", "jax.compute_dtype is one of bfloat16, float16, float32. Did you mean 'float16'?"),
    ("jax.compute_dtype=fp16", "jax.compute_dtype is one of bfloat16, float16, float32."),
    ("jax.prefetch=true", "jax.prefetch is True or False."),
    ("jax.prealloc=maybe", "jax.prealloc is True or False."),
    ("jax.policy_devices=-1", "jax.policy_devices is a list, each entry a whole number from 0 on."),
    ("logger.outputs=csv", "logger.outputs is a list, each entry one of jsonl, tensorboard, expa, wandb, scope."),
    ("agent.loss_scales.dyn=nan", "agent.loss_scales.dyn is a number."),
    ("agent.loss_scales.dyn=off", "agent.loss_scales.dyn is a number."),
    ("agent.opt.lr=-1", "agent.opt.lr is a number from 0 on."),
    ("agent.opt.lr=nan", "agent.opt.lr is a number from 0 on."),
    ("agent.opt.lr=inf", "agent.opt.lr is a number from 0 on."),
    ("agent.opt.beta2=1", "agent.opt.beta2 is a number from 0 on and below 1."),
    ("agent.opt.warmup=-1", "agent.opt.warmup is a whole number from 0 on (updates)."),
    ("agent.opt.schedule=cosin", "agent.opt.schedule is one of const, linear, cosine. Did you mean 'cosine'?"),
    (
        "agent.opt.schedule=cosine",
        "a learning rate that falls does so after the warmup, until anneal, which is later; here "
        "agent.opt.anneal is 0, agent.opt.warmup is 1000.",
    ),
    ("agent.policy.units=0", "agent.policy.units is a whole number from 1 on."),
    ("agent.value.bins=1", "agent.value.bins is a whole number from 2 on."),
    ("agent.horizon=0", "agent.horizon is a whole number from 1 on (agent steps)."),
    ("agent.imag_length=0", "agent.imag_length is a whole number from 1 on (agent steps)."),
    ("agent.imag_loss.lam=1.1", "agent.imag_loss.lam is a number from 0 to 1."),
    ("agent.slowvalue.rate=-0.1", "agent.slowvalue.rate is a number from 0 to 1."),
    ("agent.retnorm.impl=max", "agent.retnorm.impl is one of none, meanstd, perc."),
    ("agent.dyn.rssm.blocks=7", "deter is a multiple of blocks; here agent.dyn.rssm.deter is 512."),
    ("agent.dyn.rssm.deter=100", "deter is a multiple of blocks; here agent.dyn.rssm.blocks is 8."),
    ("agent.dyn.rssm.unimix=2", "agent.dyn.rssm.unimix is a number from 0 to 1."),
    (
        "report_length=100",
        "a report's sequence of consec_report x report_length steps is cut from one of consec_train x "
        "batch_length (report_length=64 is right, or run.report_every=0 for no reports); here batch_length is "
        "64.",
    ),
    (
        "batch_length=16",
        "a report's sequence of consec_report x report_length steps is cut from one of consec_train x "
        "batch_length (report_length=16 is right, or run.report_every=0 for no reports); here report_length "
        "is 32.",
    ),
]
# Values with which the official code computes what they say.
ALLOWED = """
run.train_ratio=0
run.log_every=-1
run.save_every=0
run.steps=1e6
run.envs=1e1
batch_length=16 run.report_every=0
batch_length=16 run.clock=steps run.report_every=20000 run.steps=1000
batch_length=16 report_length=16
agent.loss_scales.dyn=0
agent.loss_scales.dyn=-1
agent.opt.lr=0
agent.opt.agc=0
agent.opt.schedule=cosine agent.opt.anneal=5000
agent.horizon=1
jax.platform=cpu
jax.platform=cuda,cpu
jax.platform=
jax.compute_dtype=float16
env.dmc.size=64,64
logger.outputs=jsonl,tensorboard
replay.prio.initial=inf
replay.fracs.uniform=0.5 replay.fracs.recency=0.5
agent.imag_last=0
""".strip().splitlines()


@pytest.fixture(scope="session")
def patches():
    return patching.read_series("dreamerv3").patches


@pytest.fixture(scope="session")
def document(official_dreamerv3, tmp_path_factory):
    """configs.yaml of the official code with all patches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TDMPC2_LEAN_CACHE", str(tmp_path_factory.mktemp("cache")))
        return config.read(materialise(official_dreamerv3, None).code_dir)


@pytest.fixture
def checked(document, patches):
    """A function that checks words, and presets under them, as the bridge's planner does."""

    def check(*words, configs=("dmc_proprio",), lean=()):
        given = dict(word.partition("=")[::2] for word in words)
        values = presets.compose(lean, config.flat(document["defaults"]))
        values.pop("chunk", None)
        configs = [*configs, *([values.pop("size")] if "size" in values else [])]
        schema.check_written(document, patches, values | given)
        found = config.resolved(document, configs, config.as_flags(values | given))
        schema.check(document, patches, found, words=given, preset_values=values, presets=lean)
        return found

    return check


@pytest.mark.official("dreamerv3")
@pytest.mark.parametrize(("word", "told"), REFUSED)
def test_a_value_out_of_its_type_or_range_is_told_with_what_is_allowed(checked, word, told):
    with pytest.raises(UserError) as refused:
        checked(word)
    assert str(refused.value).splitlines()[0] == f"{word} is not allowed: {told}"
    assert f"tdmpc2-lean settings --upstream dreamerv3 {word.partition('=')[0]}" in refused.value.next_step


@pytest.mark.official("dreamerv3")
@pytest.mark.parametrize("words", ALLOWED)
def test_what_the_official_code_computes_with_is_allowed(checked, words):
    checked(*words.split())


@pytest.mark.official("dreamerv3")
def test_all_faults_are_told_at_once(checked):
    with pytest.raises(UserError) as refused:
        checked("batch_size=0", "run.envs=0", "run.steps=nan")
    assert [line.split()[0] for line in refused.value.message.splitlines()] == [
        "batch_size=0", "run.envs=0", "run.steps=nan",
    ]  # fmt: skip


@pytest.mark.official("dreamerv3")
def test_a_presets_value_is_told_as_the_presets_also_by_a_pattern(checked, tmp_path):
    (tmp_path / "mine.yaml").write_text("title: t\noverrides:\n  run.envs: 0\n  agent\\..*head\\.units: 0\n")
    mine = SHELF.find(str(tmp_path / "mine.yaml"))
    with pytest.raises(UserError) as refused:
        checked(lean=[mine])
    assert [line.strip().split(" is ")[0] for line in refused.value.message.splitlines()] == [
        "preset 'mine': run.envs=0",
        "preset 'mine': agent.rewhead.units=0",
        "preset 'mine': agent.conhead.units=0",
    ]
    checked("run.envs=1", r"agent\..*head\.units=4", lean=[mine])


@pytest.mark.official("dreamerv3")
def test_every_official_configuration_is_allowed(document, patches):
    for name in document:
        found = config.resolved(document, [] if name == "defaults" else [name], [])
        schema.check(document, patches, found, words={}, preset_values={}, presets=[])


@pytest.mark.official("dreamerv3")
@pytest.mark.parametrize("name", SHELF.available())
def test_the_packages_presets_are_allowed(checked, name):
    checked(lean=[SHELF.find(name)])


@pytest.mark.official("dreamerv3")
def test_the_protocols_are_allowed(checked):
    from tdmpc2_lean.validation.judging import protocols

    seen = set()
    for entry in protocols.registry().values():
        if entry.agent == "dreamerv3":
            words = {KEYS.get(key, key): value for key, value in entry.settings.items()}
            size = words.pop("size")
            words["run.steps"] = entry.agent_steps
            wanted = (size, *map(str, words.values()))
            if wanted not in seen:
                checked(*(f"{key}={value}" for key, value in words.items()), configs=("dmc_proprio", size))
            seen.add(wanted)
    assert len(seen) >= 2


@pytest.mark.official("dreamerv3")
def test_every_setting_of_a_patch_is_one_of_the_patched_code_with_its_default(document, patches):
    defaults = config.flat(document["defaults"])
    for patch in patches:
        for name, setting in patch.settings.items():
            assert defaults[name] == setting.default, name


@pytest.mark.official("dreamerv3")
def test_every_table_is_of_a_setting_and_every_default_allowed(document, patches):
    import fnmatch

    known = schema.schema(document, patches)
    assert set(known.settings) == set(config.flat(document["defaults"]))
    for pattern in schema._tables():
        assert any(fnmatch.fnmatchcase(name, pattern) for name in known.settings), pattern
    for setting in known:
        assert setting.accepts(setting.default), setting.name


@pytest.mark.official("dreamerv3")
def test_what_says_where_and_how_a_run_is_made_does_not_decide(document, patches):
    known = schema.schema(document, patches)
    decide = deciding(known)
    assert {"seed", "agent.opt.lr", "batch_size", "agent.loss_scales.dyn", "run.train_ratio", "run.report_every",
            "replay.separate_report", "jax.prefetch", "jax.compute_dtype", "env.dmc.repeat"} <= decide  # fmt: skip
    for name in set(known.settings) - decide:
        assert name.startswith(("logdir", "logger.", "run.", "jax.", "env.dmc.log_image", "replay.chunksize", "method",
                                "errfile", "ipv6", "clock_")), name  # fmt: skip
        assert not name.startswith(("run.train_ratio", "run.steps", "run.envs", "run.from", "run.report")), name


def test_an_infinite_integer_among_the_official_flags_is_told(tmp_path):
    with pytest.raises(UserError, match="the official flags"):
        config.resolved({"defaults": {"batch_size": 16}}, [], ["--batch_size", str(math.inf)])
