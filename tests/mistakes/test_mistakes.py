"""A hundred and more mistakes that users make, each with the first line of what they are told. None gives a traceback.

A line here is a command as it would be typed. What is expected is how the first line of the answer begins, after
`error: `. Nothing is started, and nothing is written: that is looked at after each.
"""

import pytest

from tdmpc2_lean.runs import folder

# ruff: noqa: E501 (a line of the tables is a command and its answer)

# Words of `tdmpc2-lean train`, beside those of a right command.
TRAIN = [
    ("utd=0", "utd=0 is not allowed: utd is a rational number above 0 (updates per agent step)."),
    ("utd=nan", "utd=nan is not allowed: utd is a rational number above 0 (updates per agent step)."),
    ("batch_size=0", "batch_size=0 is not allowed: batch_size is an integer from 1 on (slices)."),
    ("horizon=-1", "horizon=-1 is not allowed: horizon is an integer from 1 on (agent steps)."),
    ("num_elites=1000", "num_elites=1000 is not allowed: num_elites is at most num_samples, of which the elites are chosen; here num_samples is 512."),
    ("seed=1.5", "seed=1.5 is not allowed: seed is an integer from 0 to 4294967295."),
    ("device=gpu", "device=gpu is not allowed: device is cpu, cuda, cuda:N, mps, xpu or xpu:N."),
    ("eval_freq=0", "eval_freq=0 is not allowed: eval_freq is a whole number above 0 (agent steps)."),
    ("compile=maybe", "compile=maybe is not allowed: compile is true or false."),
    ("checkpoint_minutes=abc", "checkpoint_minutes=abc is not allowed: checkpoint_minutes is a number from 0 on, or inf, or null (minutes)."),
    ("pretrain_updates=-1", "pretrain_updates=-1 is not allowed: pretrain_updates is an integer from 0 on, or null (updates)."),
    ("model_size=7", "model_size=7 is not allowed: model_size is one of 1, 5, 19, 48, 317, or null (million parameters)."),
    ("buffer_size=10", "buffer_size=10 is not allowed: buffer_size exceeds an episode of 500 agent steps, whose first observation is stored too."),
    ("lr=-1", "lr=-1 is not allowed: lr is a number from 0 on."),
    ("lr=abc", "lr=abc is not allowed: lr is a number from 0 on."),
    ("exp_name=/abs", "exp_name=/abs is not allowed: exp_name is a folder's name, below logs/TASK/SEED and no sum (1-2), which the code would compute."),
    ("exp_name=..", "exp_name=.. is not allowed: exp_name is a folder's name, below logs/TASK/SEED and no sum (1-2), which the code would compute."),
    ("exp_name=", "exp_name= is not allowed: exp_name is a folder's name, below logs/TASK/SEED and no sum (1-2), which the code would compute."),
    ("threads=0", "threads=0 is no positive whole number."),
    ("threads=x", "threads=x is no positive whole number."),
    ("lean=fst", "there is no preset 'fst'. Did you mean 'fast'?"),
    ("lean=./none.yaml", "there is no preset file none.yaml."),
    ("patches=utdd", "The miniature series has no patch 'utdd'. Did you mean 'utd'?"),
    ("stps=100", "there is no setting 'stps'. Did you mean 'steps'?"),
    ("steps=abc", "steps=abc is not allowed: steps is a whole number above 0 (agent steps)."),
    ("steps=-1", "steps=-1 is not allowed: steps is a whole number above 0 (agent steps)."),
    ("overwrite=perhaps", "overwrite=perhaps is neither true nor false."),
    ("checkpoint=x.pt", "checkpoint= is for evaluation: the official train.py does not load it, whatever it names."),
    ("seed_steps=10", "seed_steps=10 is not allowed: seed_steps is at least an episode of 500 agent steps, since the buffer samples from whole ones."),
    ("num_q=0", "num_q=0 is not allowed: num_q is an integer from 2 on (networks)."),
    ("tau=2", "tau=2 is not allowed: tau is a number from 0 to 1."),
    ("iterations=0", "iterations=0 is not allowed: iterations is at least 1 where an action has fewer than 20 dimensions and mpc is true."),
    ("enable_wandb=true", "enable_wandb=true needs wandb_project and wandb_entity."),
    ("save_video_files=maybe", "save_video_files=maybe is not allowed: save_video_files is true or false."),
    ("discount_max=0.5", "discount_max=0.5 is not allowed: discount_min is at most discount_max; here discount_min is 0.95."),
    ("latent_dim=15", "latent_dim=15 is not allowed: latent_dim is a multiple of simnorm_dim, the size of its simplices; here simnorm_dim is 8."),
    ("latent_dim=7", "latent_dim=7 is not allowed: latent_dim is a multiple of simnorm_dim, the size of its simplices; here simnorm_dim is 8."),
    ("obs=pixels", "obs=pixels is not allowed: obs is one of state, rgb."),
    ("task=cartpole-balanse", "there is no task 'cartpole-balanse'. Did you mean 'cartpole-balance'?"),
    ("foo", "expected words of the form key=value, found 'foo'."),
    ("=5", "the word '=5' names no setting."),
    ("lr=1e-3,1e-4", "Hydra: Ambiguous value for argument 'lr=1e-3,1e-4' 1. To use it as a list, use key=[value1,value2] 2. To use it as string, quote the value: key='value1,value2' 3. To sweep over it, add --multir"),
    ("steps=1e400", "steps=1e400 is not allowed: steps is a whole number above 0 (agent steps)."),
    ("temperature=inf", "temperature=inf is not allowed: temperature is a number from 0 on."),
    ("upstream={tmp}/none", "there is no folder {tmp}/none."),
    ("upstream={tmp}/plain", "{tmp}/plain is no checkout of tdmpc2."),
]

# Whole commands.
COMMANDS = [
    ("train", "nothing to train."),
    ("evaluate", "which checkpoint?"),
    ("evaluate checkpoint={tmp}/none.pt", "there is no checkpoint {tmp}/none.pt."),
    ("patch show plan-vek", "The tdmpc2 series has no patch 'plan-vek'. Did you mean 'plan-vec'?"),
    ("patch check {tmp}/none", "{tmp}/none is not a folder."),
    ("patch apply {tmp}/none device", "{tmp}/none is not a folder."),
    ("patch export {tmp}/none --to {tmp}/out", "{tmp}/none is not a folder."),
    ("patch audit {tmp}/none", "{tmp}/none is not a folder."),
    ("patch revert {tmp}/none", "{tmp}/none is not a folder."),
    ("patch diff {tmp}/none", "{tmp}/none is not a folder."),
    ("gate run defalt", "There is no gate 'defalt'."),
    ("gate run --steps 3", "3 steps are too few: default-identity, per-patch-identity, seed would not see planned actions after seeding, an evaluation while it trains, an update from a full replay buffer"),
    ("gate run resume --steps 60", "60 steps are too few: resume would not see a stop within an episode, an evaluation due, a stop between episodes, an evaluation due, a stop within the last episode, the buffer full."),
    ("gate run --checkout {tmp}/none", "there is no folder {tmp}/none."),
    ("gate run --json {tmp}/plain", "--json {tmp}/plain is a folder, a file was expected."),
    ("gate run --checkout miniature --task cartpole-balanse", "there is no task 'cartpole-balanse'. Did you mean 'cartpole-balance'?"),
    ("references show cheeta-run", "No reference has a task 'cheeta-run'. Did you mean 'cheetah-run'?"),
    ("validate run", "nothing to run."),
    ("validate run tdmpc2-walker", "There is no protocol 'tdmpc2-walker'. Did you mean 'tdmpc2-walker-run'?"),
    ("validate run --smoke x", "--smoke goes without names."),
    ("validate run tdmpc2-walker-walk --seeds 9", "the seeds of tdmpc2-walker-walk are 1, 2, 3, not 9."),
    ("validate run tdmpc2-walker-walk --seeds a", "--seeds a is no list of whole numbers."),
    ("validate run tdmpc2-walker-walk --lean smoke --device cpu", "the preset 'smoke' sets device, compile, steps, eval_freq, eval_episodes, which the protocol fixes."),
    ("validate run tdmpc2-playground-walker-walk", "tdmpc2-playground-walker-walk cannot be run: the adapter for MuJoCo Playground is not built yet."),
    ("validate status {tmp}/none", "there are no runs in {tmp}/none."),
    ("validate list zzz", "no protocol's name holds zzz."),
    ("upstream verify {tmp}/none", "there is no folder {tmp}/none."),
    ("upstream verify {tmp}/plain", "{tmp}/plain is no checkout of tdmpc2."),
    ("upstream add {tmp}/none", "there is no folder {tmp}/none."),
    ("settings zzz", "there is no setting 'zzz'."),
    ("dreamer-bridge train", "nothing to train."),
    ("dreamer-bridge ratio", "give a train ratio or --updates, one of both."),
    ("dreamer-bridge ratio 512 --batch-size 0", "batch_size is 0."),
    ("dreamer-bridge evaluate", "which checkpoint?"),
    ("dreamer-bridge evaluate checkpoint={tmp}/none", "there is no checkpoint {tmp}/none."),
    ("dreamer-bridge evaluate checkpoint={tmp}/plain", "{tmp}/plain is no whole checkpoint."),
]

# Words of `dreamer-bridge train`, beside those of a right command; they are checked against the official configuration.
DREAMER = [
    ("run.steps=-5", "run.steps=-5 is not allowed: run.steps is a number above 0 (agent steps)."),
    ("run.envs=0", "run.envs=0 is not allowed: run.envs is a whole number from 1 on (environments)."),
    ("env.dmc.repeat=0", "env.dmc.repeat=0 is not allowed: env.dmc.repeat is a whole number from 1 on (env steps per agent step)."),
    ("run.steps=nan", "run.steps=nan is not allowed: run.steps is a number above 0 (agent steps)."),
    ("batch_size=0", "batch_size=0 is not allowed: batch_size is a whole number from 1 on (sequences)."),
    ("size=size2m", "the official configs.yaml has no 'size2m'. Did you mean 'size12m'?"),
    ("arm=half", "arm=half is no arm."),
    ("arm=dyn=-1", "arm=dyn=-1 is no arm."),
    ("rep=maybe", "rep=maybe is neither keep nor alike."),
    ("chunk=0", "chunk=0 is no whole number from 1 on."),
    ("chunk=abc", "chunk=abc is no whole number from 1 on."),
    ("seed=-1", "seed=-1 is no whole number from 0 on."),
    ("seed=1.5", "seed=1.5 is no whole number from 0 on."),
    ("lean=smok", "there is no preset 'smok'. Did you mean 'smoke'?"),
    ("task=atari_pong", "this bridge trains on state observations of dm_control. atari_pong is a task of the official code's suite atari, which needs ale_py, not installed here."),
    ("task=cheetah-rnu", "there is no task 'cheetah-rnu'. Did you mean 'cheetah-run'?"),
    ("task=cup-spin", "cup-spin is a task of TD-MPC2's own code; the official DreamerV3 does not have it."),
    ("exp_name=/x", "exp_name='/x' is no name of a folder."),
    ("run.stps=5", "there is no setting 'run.stps'. Did you mean 'run.steps'?"),
    ("logdir=x", "logdir= is decided by the bridge."),
    ("-- --logdir x", "logdir is decided by the bridge"),
    ("-- --run.stps 5", "the official configuration has no setting 'run.stps'. Did you mean 'run.steps'?"),
    ("-- --configs nope", "the official configs.yaml has no 'nope'."),
    ("jax.platform=gpux", "jax.platform=gpux is not allowed: jax.platform is cpu, cuda, rocm, gpu, tpu, METAL, mps or xpu, or several with commas."),
    ("jax.compute_dtype=float99", "jax.compute_dtype=float99 is not allowed: jax.compute_dtype is one of bfloat16, float16, float32. Did you mean 'float16'?"),
    ("threads=0", "threads=0 is no positive whole number."),
    ("patches=seedin", "The dreamerv3 series has no patch 'seedin'. Did you mean 'seeding'?"),
    ("run.train_ratio=-1", "run.train_ratio=-1 is not allowed: run.train_ratio is a number from 0 on (replayed steps per agent step)."),
    ("run.from_checkpoint={tmp}/none", "{tmp}/none is no whole checkpoint."),
    ("overwrite=perhaps", "overwrite=perhaps is neither true nor false."),
    ("agent.opt.lr=-1", "agent.opt.lr=-1 is not allowed: agent.opt.lr is a number from 0 on."),
    ("replay.size=0", "replay.size=0 is not allowed: replay.size is a number above 0 (agent steps)."),
    ("arm=strip agent.loss_scales.dyn=0.5", "arm=strip and a setting of agent.loss_scales.dyn."),
    ("upstream=miniature", "miniature is no code of DreamerV3."),
    ("upstream={tmp}/none", "there is no folder {tmp}/none."),
]


@pytest.fixture
def said(workplace, monkeypatch, capsys):
    """A command of ours in this process: (exit code, first line of what it says)."""
    (workplace / "plain").mkdir()
    (workplace / "plain" / "notes.txt").write_text("no code")
    before = snapshot(workplace)

    def call(command: list[str]):
        program, *words = command
        if program == "dreamer-bridge":
            from dreamer_bridge.cli import main
        else:
            from tdmpc2_lean.cli import main
        with pytest.raises(SystemExit) as ended:
            main(words)
        told = capsys.readouterr()
        assert "Traceback" not in told.out + told.err
        assert snapshot(workplace) == before
        return ended.value.code, told.err.splitlines()[0], told.err

    return call


def snapshot(where):
    """Every path below a folder."""
    return sorted(str(path.relative_to(where)) for path in where.rglob("*"))


def words_of(line: str, where) -> list[str]:
    return [word.replace("{tmp}", str(where)) for word in line.split(" ")]


def check(answer, expected: str, where) -> None:
    code, first, told = answer
    assert code == 2
    assert first.startswith("error: " + expected.replace("{tmp}", str(where))), told
    assert "next: " in told


@pytest.mark.parametrize("line, expected", TRAIN, ids=[line for line, _ in TRAIN])
def test_a_wrong_word_of_train_is_told_before_anything_starts(said, workplace, line, expected):
    right = ["tdmpc2-lean", "train", "upstream=miniature", "device=cpu", "task=cartpole-balance"]
    check(said([*right, *words_of(line, workplace)]), expected, workplace)


@pytest.mark.parametrize("line, expected", COMMANDS, ids=[line for line, _ in COMMANDS])
def test_a_wrong_command_is_told_with_the_next_step(said, workplace, line, expected):
    words = words_of(line, workplace)
    command = words if words[0] == "dreamer-bridge" else ["tdmpc2-lean", *words]
    check(said(command), expected, workplace)


@pytest.mark.parametrize("line, expected", DREAMER, ids=[line for line, _ in DREAMER])
def test_a_wrong_word_of_dreamer_bridge_is_told_before_anything_starts(
    said, workplace, official_dreamerv3, line, expected
):
    right = ["dreamer-bridge", "train", f"upstream={official_dreamerv3.root}", "task=cartpole-balance"]
    check(said([*right, "jax.platform=cpu", *words_of(line, workplace)]), expected, workplace)


def test_a_second_start_beside_a_run_that_goes_on_is_told_who_makes_it(workplace, capsys):
    from tdmpc2_lean.cli import main

    with folder.held(workplace / "logs/cartpole-balance/1/default"), pytest.raises(SystemExit) as ended:
        main(["train", "upstream=miniature", "device=cpu", "task=cartpole-balance"])
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert "is being made by process" in told and "next: wait for it" in told and "Traceback" not in told
