"""Whole runs of the official code through the command, small enough that compiling is most of them."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time

import acting
import pytest

from dreamer_bridge import checkpoints, curve, returns, trust
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import folder as folders
from tdmpc2_lean.runs import record

# Agents so small that what takes long is to compile them, twice: cold, and for each start again from the cache.
TINY = (
    "jax.platform=cpu run.envs=1 env.dmc.repeat=4 batch_size=2 batch_length=8 run.train_ratio=4 report_length=8 "
    "agent.report=False run.report_every=0 run.log_every=100 agent.imag_length=3 replay.size=1e4"
).split()
TINY_FLAGS = [
    r"--agent..*\.layers", "1", r"--agent..*\.units", "16", r"--agent..*\.deter", "16", r"--agent..*\.hidden", "16",
    r"--agent..*\.stoch", "4", r"--agent..*\.classes", "4", r"--agent..*\.blocks", "4", r"--agent..*\.bins", "15",
]  # fmt: skip

WORDS = ["run.steps=600", "chunk=400", "seed=3", "arm=dyn=0.25"]

pytestmark = [pytest.mark.official("dreamerv3"), pytest.mark.slow]


@pytest.fixture(scope="module")
def command(official_dreamerv3, tmp_path_factory):
    """A function that starts the command in one place, with one cache: what is compiled once is there again."""
    place = tmp_path_factory.mktemp("place")
    environment = os.environ | {
        "TDMPC2_LEAN_CACHE": str(tmp_path_factory.mktemp("cache")),
        "XDG_CONFIG_HOME": str(tmp_path_factory.mktemp("config")),
        "JAX_COMPILATION_CACHE_DIR": os.environ.get("TDMPC2_LEAN_TEST_JAX_CACHE", str(tmp_path_factory.mktemp("jax"))),
    }
    environment.pop("MUJOCO_GL", None)

    def run(*arguments):
        return subprocess.Popen(
            [sys.executable, "-m", "dreamer_bridge", *arguments],
            cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def start(*words, flags=(), options=()):
        words = [*options, "task=cartpole-balance", f"upstream={official_dreamerv3.root}", *TINY, *words]
        return run("train", *words, "--", *TINY_FLAGS, *flags)

    start.place, start.environment, start.run = place, environment, run
    return start


def ended(process, code=0):
    said, _ = process.communicate(timeout=900)
    assert process.returncode == code, said
    return said


@pytest.fixture(scope="module")
def finished(command):
    """A run's folder after its end."""
    said = ended(command("exp_name=whole", *WORDS))
    folder = command.place / "logs/dmc_cartpole_balance/3/whole"
    assert str(folder) in said and "finished in" in said and "Traceback" not in said
    return folder


def test_a_runs_folder_tells_and_holds_everything(finished, official_dreamerv3):
    kept = record.read(finished)
    what = kept.specification
    assert (kept.state, kept.start.exit_code, what.seed, what.task) == ("finished", 0, 3, "dmc_cartpole_balance")
    assert kept.code["commit"] == official_dreamerv3.commit and kept.code["patches"]
    assert kept.packages["jax"] and kept.provenance.versions["elements"] and kept.provenance.device.kind == "cpu"
    assert kept.details["compile_cache"]["entries_after"] > 0 and kept.provenance.threads.cores
    assert kept.timing.steps >= 600 and kept.timing.updates > 100
    assert kept.details["updates_per_agent_step"] == 0.25 and what.action_repeat == 4
    assert kept.details["loss_scales"]["dyn"] == 0.25 and what.arm == "dyn=0.25"
    for name in ("config.yaml", "metrics.jsonl", "scores.jsonl", "curve.jsonl", "train.log", "ckpt/latest"):
        assert (finished / name).is_file(), name
    assert (finished / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert not list(finished.rglob("*.xplane.pb")), "the profiler wrote its trace"


def test_the_configuration_recorded_is_the_one_that_the_official_code_resolved(finished):
    from ruamel.yaml import YAML

    from dreamer_bridge import config

    theirs = config.flat(YAML(typ="safe").load((finished / "config.yaml").read_text()))
    kept = record.read(finished)
    assert kept.configured == json.loads(json.dumps(theirs))
    assert {key: kept.settings[key] for key in theirs} == kept.configured


def test_curve_and_reader_agree_with_the_official_scores_in_env_steps(finished):
    scores = [(line["step"], line["episode/score"]) for line in curve.read_lines(finished / "scores.jsonl")]
    # 250 agent steps and the first observation make an episode; the official logger counts 4 env steps for each.
    assert [step for step, _ in scores] == [251 * 4, 502 * 4]
    lines = curve.read_lines(finished / "curve.jsonl")
    assert [line["env_steps"] for line in lines] == [400 * n for n in range(1, 7)]
    found = returns.read(finished, 400)
    assert found.steps == tuple(line["env_steps"] for line in lines if line["episodes"])
    assert found.values == pytest.approx([line["value"] for line in lines if line["episodes"]], rel=1e-5)
    assert {"dyn", "rep", "rew", "con", "policy", "value"} <= set(lines[-1]["losses"])
    assert lines[-1]["scales"]["dyn"] == 0.25 and lines[-1]["updates"] == record.read(finished).timing.updates


def test_an_interrupted_run_goes_on_by_the_same_command_and_ends_as_the_uninterrupted_one(command, finished):
    words = ["exp_name=stopped", *WORDS]
    process = command(*words)
    folder = command.place / "logs/dmc_cartpole_balance/3/stopped"
    while not (folder / "curve.jsonl").is_file():
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    said = ended(process, 130)
    assert "Traceback" not in said
    kept = record.read(folder)
    assert kept.state == "interrupted" and kept.start.resumed_at is None
    checkpoint = checkpoints.latest(folder)
    assert checkpoint is not None and (checkpoint / trust.SIGNATURE).is_file()

    # A change to it is refused before anything runs, and nothing is lost.
    agent = checkpoint / "agent.pkl"
    content = agent.read_bytes()
    agent.write_bytes(content + b"x")
    assert "agent.pkl" in ended(command(*words), 2)
    agent.write_bytes(content)

    said = ended(command(*words))
    kept = record.read(folder)
    assert kept.state == "finished" and len(kept.starts) == 2 and kept.start.resumed_at > 0
    assert f"going on at agent step {kept.start.resumed_at}" in said and "in 2 starts" in said
    assert_same_runs(folder, finished)


def test_a_killed_run_goes_on_by_the_same_command_and_ends_as_the_uninterrupted_one(command, finished):
    """Checkpoints are a matter of run.save_every: two are made before it is killed."""
    words = ["exp_name=killed", *WORDS, "run.save_every=100"]
    folder = command.place / "logs/dmc_cartpole_balance/3/killed"
    process = command(*words)
    while saved_step(folder) < 200:
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.1)
    process.kill()
    process.communicate()
    said = ended(command(*words))  # at once
    kept = record.read(folder)
    assert kept.state == "finished" and kept.start.resumed_at >= 200, said
    made = 600 - kept.start.resumed_at  # the killed start has told nothing of its time
    assert kept.timing.steps_per_second == pytest.approx(made / kept.timing.train_seconds, rel=0.01)
    assert_same_runs(folder, finished)


def test_a_finished_run_whose_budget_is_raised_ends_as_one_that_had_it_from_the_start(command, finished):
    folder = command.place / "logs/dmc_cartpole_balance/3/extended"
    words = ["exp_name=extended", *[word for word in WORDS if not word.startswith("run.steps")]]
    ended(command(*words, "run.steps=330"))
    assert record.read(folder).state == "finished"
    ended(command(*words, "run.steps=600"))
    assert [start.budget for start in record.read(folder).starts] == [330, 600]
    assert_same_runs(folder, finished)
    # The same command again has nothing to do, and is no error.
    assert "finished already" in ended(command(*words, "run.steps=600"))


def assert_same_runs(one, other):
    """Two runs' returns, curves, and the bits of all parameters are the same."""
    assert (one / "scores.jsonl").read_bytes() == (other / "scores.jsonl").read_bytes()
    assert timeless(one) == timeless(other)
    assert parameters(one) == parameters(other)
    kept = record.read(other).evaluations
    assert record.read(one).evaluations == kept and len(kept) == 6


def saved_step(folder):
    """The agent step of the last whole checkpoint in an official log folder; 0 while there is none."""
    checkpoint = checkpoints.latest(folder)
    try:
        return checkpoints.state_of(checkpoint).get("agent_steps", 0) if checkpoint else 0
    except UserError:  # it has just been replaced by the next
        return 0


def timeless(folder):
    """The curve without what is of the clock."""
    lines = curve.read_lines(folder / "curve.jsonl")
    passing = ("seconds", "time", "provenance")
    return [{key: value for key, value in line.items() if key not in passing} for line in lines]


def parameters(folder):
    """The bytes of every parameter, optimiser state included, at the end of a run of ours."""
    saved = pickle.loads((checkpoints.latest(folder) / "agent.pkl").read_bytes())
    return {name: value.tobytes() for name, value in saved["params"].items()} | saved["counters"]


def test_an_accelerator_that_is_not_there_is_told_with_what_to_do(command):
    said = ended(command("exp_name=elsewhere", "jax.platform=cuda", "run.steps=100", "chunk=400"), 1)
    assert "jax.platform=cpu, or install JAX's plugin" in said and "Traceback" not in said.partition("The end of")[0]


def test_ones_own_checkpoint_is_a_starting_point_and_anothers_is_refused(command, finished, tmp_path):
    import shutil

    checkpoint = checkpoints.latest(finished)
    flags = ["--run.from_checkpoint", str(checkpoint)]
    words = ["exp_name=from", "run.steps=100", "chunk=400", "seed=5"]
    said = ended(command(*words, flags=flags))
    folder = command.place / "logs/dmc_cartpole_balance/5/from"
    assert "finished in" in said and record.read(folder).checkpoint.path == str(checkpoint)
    foreign = tmp_path / "foreign"
    shutil.copytree(checkpoint, foreign)
    (foreign / trust.SIGNATURE).unlink()
    flags = ["--run.from_checkpoint", str(foreign)]
    assert "--trust-checkpoint" in ended(command(*words, "overwrite=true", flags=flags), 2)
    ended(command(*words, "overwrite=true", flags=flags, options=["--trust-checkpoint"]))
    assert record.read(folder).checkpoint.trusted


def test_a_run_is_evaluated_by_the_official_script_with_its_own_settings(command, finished, official_dreamerv3):
    words = [f"checkpoint={finished}", f"upstream={official_dreamerv3.root}"]
    said = ended(command.run("evaluate", *words, "episodes=2"))
    kept = record.read(finished.with_name("evaluation-1"))
    (found,) = kept.evaluations
    scores = curve.read_lines(finished.with_name("evaluation-1") / "scores.jsonl")
    assert found.returns == pytest.approx([line["episode/score"] for line in scores], rel=1e-5) and len(scores) == 2
    assert f"return {found.episode_reward:.1f} (mean of 2 episodes, standard deviation" in said
    assert found.step == record.read(finished).timing.steps and kept.state == "finished"
    assert kept.configured["agent.enc.simple.units"] == 16 and kept.configured["script"] == "eval_only"
    # An agent for another task's observations does not fit.
    said = ended(command.run("evaluate", *words, "episodes=1", "task=walker-walk"), 1)
    assert "of another network than the settings make" in said and "Traceback" not in said


def test_validate_makes_a_run_of_a_protocol_and_goes_on_with_it(command, official_dreamerv3, tmp_path):
    """It is killed once on the way; what it ends as, the tests above say."""
    tiny = dict(pair.split("=") for pair in TINY) | dict(
        zip((flag[2:] for flag in TINY_FLAGS[::2]), TINY_FLAGS[1::2], strict=True)
    )
    for key in ("run.envs", "env.dmc.repeat", "run.train_ratio", "jax.platform"):
        tiny.pop(key)
    settings = {"size": "size1m", "envs": 1, "action_repeat": 4, "train_ratio": 4, "run.save_every": 100} | tiny
    script = (
        "import dataclasses, json, sys\n"
        "from pathlib import Path\n"
        "import test_protocol\n"
        "from tdmpc2_lean.campaigns import protocol_runs\n"
        "from tdmpc2_lean.runs import jobs\n"
        "from tdmpc2_lean.runs.plan import Conditions\n"
        "entry = dataclasses.replace(test_protocol.TINY, settings=json.loads(sys.argv[1]))\n"
        "where = Conditions(device='cpu', threads=1, upstream=sys.argv[2])\n"
        "print(jobs.run_all([protocol_runs.job(entry, 0, Path(sys.argv[3]), (), where)], quiet=True)[0].became)\n"
    )
    arguments = [sys.executable, "-c", script, json.dumps(settings), str(official_dreamerv3.root), str(tmp_path)]
    environment = command.environment | {"PYTHONPATH": acting.search_path()}

    def start():
        return subprocess.Popen(
            arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    folder = folders.folder_of(tmp_path, "dreamerv3-tiny", (), 0)
    process = start()
    while saved_step(folder / "logs") < 100:
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.1)
    process.kill()
    process.communicate()
    assert "finished" in ended(start())
    kept = record.read(folder)
    assert kept.state == "finished" and kept.provenance.versions["jax"] and kept.start.resumed_at >= 100
    lines = curve.read_lines(folder / "curve.jsonl")
    assert [line["agent_steps"] for line in lines] == [100 * n for n in range(1, 7)]
    assert all(line["provenance"] in kept.provenances for line in lines)
    scores = returns.read(folder / "logs", 400)
    assert scores.values == pytest.approx([line["value"] for line in lines if line["episodes"]], rel=1e-5)
    assert "was finished" in ended(start())
