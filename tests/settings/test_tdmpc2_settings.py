"""What a setting of TD-MPC2 may not be is told before anything starts; what the official code computes with is not."""

import pytest

from tdmpc2_lean import patching
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import presets
from tdmpc2_lean.runs.plan import Request
from tdmpc2_lean.settings import Given, deciding, tdmpc2
from tdmpc2_lean.settings.schema import MISSING
from tdmpc2_lean.tdmpc2.adapter import Tdmpc2Adapter
from tdmpc2_lean.tdmpc2.configuration import composed

SHELF = Tdmpc2Adapter().shelf

# A word, and what is said about it after "WORD is not allowed: ".
REFUSED = [
    ("utd=0", "utd is a rational number above 0 (updates per agent step)."),
    ("utd=-1", "utd is a rational number above 0 (updates per agent step)."),
    ("utd=nan", "utd is a rational number above 0 (updates per agent step)."),
    ("utd=inf", "utd is a rational number above 0 (updates per agent step)."),
    ("utd=abc", "utd is a rational number above 0 (updates per agent step)."),
    ("utd=1/0", "utd is a rational number above 0 (updates per agent step)."),
    ("utd=true", "utd is a rational number above 0 (updates per agent step)."),
    ("utd=null", "utd is a rational number above 0 (updates per agent step)."),
    ("utd=1e-9", "utd is at least one update in 1,000,000 agent steps."),
    ("utd=[1]", "utd is a rational number above 0 (updates per agent step)."),
    ("pretrain_updates=-1", "pretrain_updates is an integer from 0 on, or null (updates)."),
    ("pretrain_updates=1.5", "pretrain_updates is an integer from 0 on, or null (updates)."),
    ("pretrain_updates=many", "pretrain_updates is an integer from 0 on, or null (updates)."),
    ("batch_size=0", "batch_size is an integer from 1 on (slices)."),
    ("batch_size=-4", "batch_size is an integer from 1 on (slices)."),
    ("batch_size=16.0", "batch_size is an integer from 1 on (slices)."),
    ("batch_size=513/2", "batch_size is an integer from 1 on (slices)."),
    ("batch_size=\"'256'\"", "batch_size is an integer from 1 on (slices)."),
    ("batch_size=null", "batch_size is an integer from 1 on (slices)."),
    ("horizon=-1", "horizon is an integer from 1 on (agent steps)."),
    ("horizon=0", "horizon is an integer from 1 on (agent steps)."),
    ("horizon=501", "horizon is at most an episode of 500 agent steps, out of which the slices are cut."),
    ("horizon=2.5", "horizon is an integer from 1 on (agent steps)."),
    ("num_elites=1000", "num_elites is at most num_samples, of which the elites are chosen; here num_samples is 512."),
    ("num_elites=0", "num_elites is an integer from 1 on (plans)."),
    ("num_samples=32", "num_elites is at most num_samples, of which the elites are chosen; here num_elites is 64."),
    ("num_pi_trajs=513", "num_pi_trajs is at most num_samples, of which it is a part; here num_samples is 512."),
    ("num_pi_trajs=-1", "num_pi_trajs is an integer from 0 on (plans)."),
    ("num_samples=0", "num_samples is an integer from 1 on (plans)."),
    ("iterations=0", "iterations is at least 1 where an action has fewer than 20 dimensions and mpc is true."),
    ("iterations=-1", "iterations is an integer from 0 on."),
    ("iterations=1.5", "iterations is an integer from 0 on."),
    ("min_std=3", "min_std is at most max_std; here max_std is 2."),
    ("max_std=-1", "max_std is a number from 0 on."),
    ("max_std=nan", "max_std is a number from 0 on."),
    ("temperature=-1", "temperature is a number from 0 on."),
    ("vmin=10", "vmin is below vmax; here vmax is 10."),
    ("vmax=-10", "vmin is below vmax; here vmin is -10."),
    ("vmin=nan", "vmin is a number."),
    ("discount_min=0.999", "discount_min is at most discount_max; here discount_max is 0.995."),
    ("discount_max=1.5", "discount_max is a number from 0 to 1."),
    ("discount_denom=0", "discount_denom is a number above 0."),
    ("discount_denom=-5", "discount_denom is a number above 0."),
    ("tau=2", "tau is a number from 0 to 1."),
    ("tau=-0.1", "tau is a number from 0 to 1."),
    ("lr=-1", "lr is a number from 0 on."),
    ("lr=nan", "lr is a number from 0 on."),
    ("lr=1e999", "lr is a number from 0 on."),
    ("lr=fast", "lr is a number from 0 on."),
    ("lr=[1e-3]", "lr is a number from 0 on."),
    ("enc_lr_scale=-1", "enc_lr_scale is a number from 0 on."),
    ("rho=-1", "rho is a number from 0 on."),
    ("rho=inf", "rho is a number from 0 on."),
    ("grad_clip_norm=-1", "grad_clip_norm is a number from 0 on, or inf."),
    ("reward_coef=nan", "reward_coef is a number."),
    ("entropy_coef=high", "entropy_coef is a number."),
    ("seed=1.5", "seed is an integer from 0 to 4294967295."),
    ("seed=-1", "seed is an integer from 0 to 4294967295."),
    ("seed=4294967296", "seed is an integer from 0 to 4294967295."),
    ("seed=abc", "seed is an integer from 0 to 4294967295."),
    ("seed=true", "seed is an integer from 0 to 4294967295."),
    ("seed=null", "seed is an integer from 0 to 4294967295."),
    ("device=gpu", "device is cpu, cuda, cuda:N, mps, xpu or xpu:N."),
    ("device=cuda:x", "device is cpu, cuda, cuda:N, mps, xpu or xpu:N."),
    ("device=1", "device is cpu, cuda, cuda:N, mps, xpu or xpu:N."),
    ("device=CPU", "device is cpu, cuda, cuda:N, mps, xpu or xpu:N."),
    ("eval_freq=0", "eval_freq is a whole number above 0 (agent steps)."),
    ("eval_freq=-1", "eval_freq is a whole number above 0 (agent steps)."),
    ("eval_freq=2.5", "eval_freq is a whole number above 0 (agent steps)."),
    ("eval_episodes=-1", "eval_episodes is an integer from 0 on (episodes)."),
    ("compile=maybe", "compile is true or false."),
    ("compile=yes", "compile is true or false."),
    ("compile=2", "compile is true or false."),
    ("compile=null", "compile is true or false."),
    ("mpc=no", "mpc is true or false."),
    ("episodic=maybe", "episodic is true or false."),
    ("steps=0", "steps is a whole number above 0 (agent steps)."),
    ("steps=-5", "steps is a whole number above 0 (agent steps)."),
    ("steps=nan", "steps is a whole number above 0 (agent steps)."),
    ("steps=1.5", "steps is a whole number above 0 (agent steps)."),
    ("buffer_size=10", "buffer_size exceeds an episode of 500 agent steps, whose first observation is stored too."),
    ("buffer_size=500", "buffer_size exceeds an episode of 500 agent steps, whose first observation is stored too."),
    ("buffer_size=0", "buffer_size is a whole number from 1 on (agent steps)."),
    ("buffer_size=1.5e3+1", "buffer_size is a whole number from 1 on (agent steps)."),
    ("checkpoint_minutes=abc", "checkpoint_minutes is a number from 0 on, or inf, or null (minutes)."),
    ("checkpoint_minutes=-1", "checkpoint_minutes is a number from 0 on, or inf, or null (minutes)."),
    ("checkpoint_minutes=true", "checkpoint_minutes is a number from 0 on, or inf, or null (minutes)."),
    ("checkpoint_mid_episode=often", "checkpoint_mid_episode is true or false."),
    ("model_size=7", "model_size is one of 1, 5, 19, 48, 317, or null (million parameters)."),
    ("model_size=large", "model_size is one of 1, 5, 19, 48, 317, or null (million parameters)."),
    ("latent_dim=100", "latent_dim is a multiple of simnorm_dim, the size of its simplices; here simnorm_dim is 8."),
    ("simnorm_dim=0", "simnorm_dim is an integer from 1 on."),
    ("simnorm_dim=7", "latent_dim is a multiple of simnorm_dim, the size of its simplices; here latent_dim is 512."),
    ("enc_dim=0", "enc_dim is an integer from 1 on (units)."),
    ("mlp_dim=64.0", "mlp_dim is an integer from 1 on (units)."),
    ("num_q=1", "num_q is an integer from 2 on (networks)."),
    ("num_bins=1", "num_bins is an integer from 2 on (bins)."),
    ("num_bins=0", "num_bins is an integer from 2 on (bins)."),
    ("dropout=1.5", "dropout is a number from 0 to 1."),
    ("dropout=-0.1", "dropout is a number from 0 to 1."),
    ("num_enc_layers=0", "num_enc_layers is an integer from 1 on (layers)."),
    ("obs=pixels", "obs is one of state, rgb."),
    ("obs=RGB", "obs is one of state, rgb."),
    ("log_std_min=3", "log_std_min is at most log_std_max; here log_std_max is 2."),
    (
        "seed_steps=499",
        "seed_steps is at least an episode of 500 agent steps, since the buffer samples from whole ones.",
    ),
    ("seed_steps=0", "seed_steps is an integer from 1 on, or null (agent steps)."),
    ("seed_steps=1.5", "seed_steps is an integer from 1 on, or null (agent steps)."),
    (
        "exp_name=../up",
        "exp_name is a folder's name, below logs/TASK/SEED and no sum (1-2), which the code would compute.",
    ),
    (
        "exp_name=/abs/x",
        "exp_name is a folder's name, below logs/TASK/SEED and no sum (1-2), which the code would compute.",
    ),
    (
        "exp_name=2024-11-05",
        "exp_name is a folder's name, below logs/TASK/SEED and no sum (1-2), which the code would compute.",
    ),
    (
        "exp_name=[a]",
        "exp_name is a folder's name, below logs/TASK/SEED and no sum (1-2), which the code would compute.",
    ),
    (
        "exp_name=null",
        "exp_name is a folder's name, below logs/TASK/SEED and no sum (1-2), which the code would compute.",
    ),
    ("exp_name=", "exp_name is a folder's name, below logs/TASK/SEED and no sum (1-2), which the code would compute."),
    ("work_dir=elsewhere", "work_dir is set by the official code itself (its name is exp_name)."),
    ("episode_length=100", "episode_length is set by the official code itself (by task)."),
    ("multitask=true", "multitask is set by the official code itself (whether task is a set of tasks)."),
    ("action_dim=3", "action_dim is set by the official code itself (by task)."),
    ("save_video=maybe", "save_video is true or false."),
    ("save_csv=2", "save_csv is true or false."),
    ("separate_eval=sometimes", "separate_eval is true or false."),
    ("wandb_project=[a]", "wandb_project is a text, or null."),
]
# Words together, and the first line.
REFUSED_TOGETHER = [
    (
        "task=mt30 episodic=true data_dir=d",
        "episodic=true and task=mt30 are not allowed: the official code predicts no terminations for sets of tasks.",
    ),
    (
        "task=mt30",
        "task=mt30 is not allowed: a set of tasks is learned from data: data_dir names the folder of their *.pt.",
    ),
    (
        "task=mt30 data_dir=d steps=1e4",
        "steps=1e4 is not allowed: for a set of tasks steps is an integer, written without point and exponent.",
    ),
    ("model_size=5 latent_dim=64", "latent_dim=64 has no effect: model_size=5 makes it 512."),
    (
        "num_elites=9 num_samples=8 num_pi_trajs=8",
        "num_elites=9 and num_samples=8 are not allowed: num_elites is at most num_samples, of which the elites are "
        "chosen.",
    ),
]
# Borderline values with which the official code computes what they say.
ALLOWED = """
exp_name=1
exp_name=true
exp_name=007
exp_name=2024-01-05
exp_name=a/b
iterations=0 mpc=false
num_elites=1000 mpc=false
task=dog-run iterations=0
steps=1e6
steps=10*1000
steps=1
eval_freq=5e4
eval_episodes=0
batch_size=1
batch_size=512/2
utd=1/3
utd=1e-6
utd='0.5'
pretrain_updates=0
pretrain_updates=null
grad_clip_norm=inf
grad_clip_norm=0
checkpoint_minutes=inf
checkpoint_minutes=0
num_pi_trajs=512
num_pi_trajs=0
num_elites=512
num_elites=1
horizon=1
horizon=500
buffer_size=501
buffer_size=1e6
seed=0
seed=4294967295
device=cpu
device=cuda
device=cuda:1
device=mps
num_bins=2
vmin=9.9
simnorm_dim=1
num_q=2
dropout=0
dropout=1
tau=0
tau=1
lr=0
rho=0
discount_min=0 discount_max=1
discount_denom=0.5
temperature=0
min_std=0 max_std=0
consistency_coef=-1
entropy_coef=-1e-4
log_std_min=-1.5
model_size=5.0
model_size=null
model_size=5 latent_dim=512
compile=1
compile=True
seed_steps=500
seed_steps=null
wandb_project=null
task=mt30 data_dir=d
task=mw-reach horizon=600 buffer_size=10 seed_steps=1
+new=3
""".strip().splitlines()


@pytest.mark.parametrize(("word", "told"), REFUSED)
def test_a_value_out_of_its_type_or_range_is_told_with_what_is_allowed(checked, word, told):
    with pytest.raises(UserError) as refused:
        checked(word)
    assert str(refused.value).splitlines()[0] == f"{word} is not allowed: {told}"
    assert f"tdmpc2-lean settings {word.partition('=')[0]}" in refused.value.next_step


@pytest.mark.parametrize(("words", "told"), REFUSED_TOGETHER)
def test_what_settings_must_be_to_one_another_is_told(checked, words, told):
    with pytest.raises(UserError) as refused:
        checked(*words.split())
    assert str(refused.value).splitlines()[0] == told


@pytest.mark.parametrize("words", ALLOWED)
def test_what_the_official_code_computes_with_is_allowed(checked, words):
    checked(*words.split())


def test_an_evaluation_has_an_episode(checked):
    with pytest.raises(UserError, match="^eval_episodes=0 is not allowed: an evaluation has at least one episode"):
        checked("eval_episodes=0", kind="evaluate")
    checked("seed_steps=3", "horizon=501", kind="evaluate")


def test_all_faults_are_told_at_once(checked):
    with pytest.raises(UserError) as refused:
        checked("utd=0", "batch_size=0", "seed=1.5", "device=gpu", "num_elites=513")
    lines = refused.value.message.splitlines()
    assert [line.split()[0] for line in lines] == ["utd=0", "batch_size=0", "seed=1.5", "device=gpu", "num_elites=513"]


def test_a_presets_value_is_told_as_the_presets(checked, tmp_path):
    (tmp_path / "mine.yaml").write_text("title: t\noverrides: {horizon: 0, num_samples: 32}\n")
    mine = SHELF.find(str(tmp_path / "mine.yaml"))
    with pytest.raises(UserError) as refused:
        checked(presets=[mine])
    assert [line.strip().split(" is ")[0] for line in refused.value.message.splitlines()] == [
        "preset 'mine': horizon=0",
        "preset 'mine': num_samples=32",
    ]
    checked("horizon=2", "num_elites=16", presets=[mine])


def test_a_model_size_of_the_users_overrules_a_presets_widths(checked, tmp_path):
    (tmp_path / "mine.yaml").write_text("title: t\noverrides: {latent_dim: 64}\n")
    checked("model_size=1", presets=[SHELF.find(str(tmp_path / "mine.yaml"))])


def test_an_unknown_setting_is_told_with_the_nearest(miniature_code):
    config = composed(miniature_code, [])
    with pytest.raises(UserError, match="^there is no setting 'batch_sise'. Did you mean 'batch_size'"):
        tdmpc2.check([], config, given={"batch_sise": Given("2")})


def test_without_its_patch_a_setting_that_the_code_overwrites_is_refused(checked):
    with pytest.raises(UserError, match="^seed_steps=1000 is not allowed: seed_steps is set by the official code"):
        checked("seed_steps=1000", patches=())


def test_what_nobody_gave_is_the_checkouts_own(miniature_code):
    config = composed(miniature_code, []) | {"batch_size": "huge", "seed": -1}
    tdmpc2.check([], config, given={})
    with pytest.raises(UserError, match="^seed=-1 is"):
        tdmpc2.check([], config, given={"seed": Given("-1")})


def planned(folder, *words):
    with_task = ("upstream=miniature", "task=cheetah-run", "device=cpu", *words)
    return Tdmpc2Adapter().plan(Request(with_task, cwd=folder))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["utd=0", "horizon=-1"], r"utd=0 is not allowed: utd is a rational number above 0 .*\n.*horizon=-1 is"),
        (["exp_name=/abs"], "exp_name=/abs is not allowed"),
        (["seed=1.5"], "seed=1.5 is not allowed"),
        (["device=gpu"], "device=gpu is not allowed"),
    ],
)
def test_a_plan_is_refused_before_anything_starts(words, told, tmp_path, monkeypatch):
    monkeypatch.setenv("TDMPC2_LEAN_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UserError, match=f"^{told}"):
        planned(tmp_path, *words)
    assert not (tmp_path / "logs").exists()


def test_a_name_that_reads_as_a_number_is_taken_as_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("TDMPC2_LEAN_CACHE", str(tmp_path / "cache"))
    found = planned(tmp_path, "exp_name=1e3")
    assert found.configured["exp_name"] == "1e3" and found.folder == tmp_path / "logs/cheetah-run/1/1e3"


# ------------------------------------------------------------------------------------------- presets, protocols, lists


@pytest.mark.parametrize("name", [name for name in SHELF.available() if name != "default"])
def test_the_packages_presets_are_allowed(checked, name):
    preset = SHELF.find(name)
    values = presets.compose([preset], {key: s.default for key, s in tdmpc2.official().items()})
    checked(*(f"{key}={value}" for key, value in values.items()))


def test_the_protocols_are_allowed_and_give_every_setting_that_decides(checked):
    from tdmpc2_lean.validation.judging import protocols

    patches = patching.read_series("tdmpc2").patches
    known = tdmpc2.schema(patches)
    decide = deciding(known)
    seen = 0
    for entry in protocols.registry().values():
        if entry.agent != "tdmpc2":
            continue
        found = {**entry.defaults, **entry.settings}
        given = {key: Given(str(value)) for key, value in found.items()}
        sizes = [] if "model_size" in entry.settings else ["model_size"]
        assert decide - set(found) <= {"seed", "num_channels", *sizes} | ({"task"} if entry.task == "smoke" else set())
        # A protocol also fixes what the code computes of the settings; nobody gives those.
        asked = {key: value for key, value in found.items() if key in known.settings and known[key].type != "computed"}
        tdmpc2.check(patches, asked, given={key: given[key] for key in asked}, episode=500)
        seen += 1
    assert seen > 30


def test_a_run_goes_on_with_other_settings_only_where_they_do_not_decide():
    """The patch `checkpoint` cannot ask this project, so it has a list of its own of what may differ."""
    import ast

    from tdmpc2_lean import places

    path = places.patches_dir() / "tdmpc2" / "checkpoint" / "checkpoint.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (value,) = [n.value for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "MAY_DIFFER"]
    known = tdmpc2.schema(patching.read_series("tdmpc2").patches)
    at_will = {setting.name for setting in known if not setting.decides and setting.type != "computed"}
    assert at_will | {"work_dir"} == set(ast.literal_eval(value))
    configured = dict.fromkeys(known.settings)
    assert set(configured) - set(Tdmpc2Adapter().deciding(configured)) == at_will | {"work_dir", "steps"}


def test_every_official_setting_has_an_entry_with_the_official_default(official):
    from omegaconf import OmegaConf

    config = OmegaConf.to_container(OmegaConf.load(official.root / "tdmpc2" / "config.yaml"))
    config.pop("defaults")
    assert {name: setting.default for name, setting in tdmpc2.official().items()} == config


def test_every_official_default_is_allowed(official):
    config = composed(official.root / "tdmpc2", [])
    given = {key: Given(str(value)) for key, value in config.items() if tdmpc2.official()[key].type != "computed"}
    tdmpc2.check([], config, given=given, episode=500)


def test_the_model_sizes_are_the_official_ones(official):
    import ast

    tree = ast.parse((official.root / "tdmpc2" / "common" / "__init__.py").read_text(encoding="utf-8"))
    (value,) = [n.value for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "MODEL_SIZE"]
    assert tdmpc2.model_sizes() == ast.literal_eval(value)


def test_pictures_ask_for_the_latent_state_that_the_convolutions_give(official, checked):
    code_dir = official.root / "tdmpc2"
    checked("obs=rgb", "latent_dim=64", "num_channels=4", code_dir=code_dir, patches=())
    checked("obs=rgb", code_dir=code_dir, patches=())
    with pytest.raises(UserError) as refused:
        checked("obs=rgb", "model_size=1", code_dir=code_dir, patches=())
    assert str(refused.value).splitlines()[0] == (
        "obs=rgb is not allowed: with obs=rgb latent_dim is 16 x num_channels, what the encoder of pictures gives; "
        "here latent_dim is 128, num_channels is 32."
    )


def test_what_has_no_official_default_says_so():
    assert tdmpc2.official()["data_dir"].default == MISSING
