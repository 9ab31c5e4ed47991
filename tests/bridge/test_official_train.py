"""Whole runs of the official code through the command, small enough that compiling is most of them."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time

import pytest

from dreamer_bridge import curve, returns, trust
from dreamer_bridge.plan import latest_checkpoint
from tdmpc2_lean.runs import record

# Agents so small that what takes long is to compile them, twice: cold, and for each start again from the cache.
TINY = (
    "run.envs=1 env.dmc.repeat=4 batch_size=2 batch_length=8 run.train_ratio=4 report_length=8 agent.report=False "
    "run.report_every=0 run.log_every=100 agent.imag_length=3 replay.size=1e4"
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

    def start(*words, flags=(), options=()):
        words = [*options, "task=cartpole-balance", f"upstream={official_dreamerv3.root}", *TINY, *words]
        return subprocess.Popen(
            [sys.executable, "-m", "dreamer_bridge", "train", *words, "--", *TINY_FLAGS, *flags],
            cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    start.place, start.environment = place, environment
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
    assert (kept["state"], kept["exit_code"], kept["seed"], kept["task"]) == ("finished", 0, 3, "dmc_cartpole_balance")
    assert kept["upstream"]["commit"] == official_dreamerv3.commit and kept["upstream"]["patches"]
    assert kept["packages"]["jax"] and kept["packages"]["elements"] and kept["device"]["kind"] == "cpu"
    assert kept["compile_cache"]["entries_after"] > 0 and kept["threads"]["cores"]
    assert kept["timing"]["steps"] >= 600 and kept["timing"]["updates"] > 100
    assert kept["updates_per_agent_step"] == 0.25 and kept["action_repeat"] == 4
    assert kept["arm"]["loss_scales"]["dyn"] == 0.25
    for name in ("config.yaml", "metrics.jsonl", "scores.jsonl", "curve.jsonl", "train.log", "ckpt/latest"):
        assert (finished / name).is_file(), name
    assert (finished / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert not list(finished.rglob("*.xplane.pb")), "the profiler wrote its trace"


def test_the_configuration_recorded_is_the_one_that_the_official_code_resolved(finished):
    from ruamel.yaml import YAML

    theirs = YAML(typ="safe").load((finished / "config.yaml").read_text())
    assert record.read(finished)["config"] == json.loads(json.dumps(theirs))


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
    assert lines[-1]["scales"]["dyn"] == 0.25 and lines[-1]["updates"] == record.read(finished)["timing"]["updates"]


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
    assert kept["state"] == "interrupted" and kept["resumed_at"] == []
    checkpoint = latest_checkpoint(folder)
    assert checkpoint is not None and (checkpoint / trust.SIGNATURE).is_file()

    # A change to it is refused before anything runs, and nothing is lost.
    agent = checkpoint / "agent.pkl"
    content = agent.read_bytes()
    agent.write_bytes(content + b"x")
    assert "agent.pkl" in ended(command(*words), 2)
    agent.write_bytes(content)

    said = ended(command(*words))
    kept = record.read(folder)
    assert kept["state"] == "finished" and kept["attempts"] == 2 and kept["resumed_at"][0] > 0
    assert f"going on at agent step {kept['resumed_at'][0]}" in said
    assert f"at attempt 2 (gone on at agent step {kept['resumed_at'][0]})" in said
    assert (folder / "scores.jsonl").read_bytes() == (finished / "scores.jsonl").read_bytes()
    assert timeless(folder) == timeless(finished)
    assert parameters(folder) == parameters(finished)
    kept = record.read(finished)["evaluations"]
    assert record.read(folder)["evaluations"] == kept and len(kept) == 6


def timeless(folder):
    """The curve without what is of the clock."""
    lines = curve.read_lines(folder / "curve.jsonl")
    return [{key: value for key, value in line.items() if key not in ("seconds", "time")} for line in lines]


def parameters(folder):
    """The bytes of every parameter, optimiser state included, at the end of a run of ours."""
    saved = pickle.loads((latest_checkpoint(folder) / "agent.pkl").read_bytes())
    return {name: value.tobytes() for name, value in saved["params"].items()} | saved["counters"]


def test_an_accelerator_that_is_not_there_is_told_with_what_to_do(command):
    said = ended(command("exp_name=elsewhere", "jax.platform=cuda", "run.steps=100", "chunk=400"), 1)
    assert "jax.platform=cpu, or install JAX's plugin" in said and "Traceback" not in said.partition("The end of")[0]


def test_ones_own_checkpoint_is_a_starting_point_and_anothers_is_refused(command, finished, tmp_path):
    import shutil

    checkpoint = latest_checkpoint(finished)
    flags = ["--run.from_checkpoint", str(checkpoint)]
    words = ["exp_name=from", "run.steps=100", "chunk=400", "seed=5"]
    said = ended(command(*words, flags=flags))
    folder = command.place / "logs/dmc_cartpole_balance/5/from"
    assert "finished in" in said and record.read(folder)["checkpoint"]["path"] == str(checkpoint)
    foreign = tmp_path / "foreign"
    shutil.copytree(checkpoint, foreign)
    (foreign / trust.SIGNATURE).unlink()
    flags = ["--run.from_checkpoint", str(foreign)]
    assert "--trust-checkpoint" in ended(command(*words, "overwrite=true", flags=flags), 2)
    ended(command(*words, "overwrite=true", flags=flags, options=["--trust-checkpoint"]))
    assert record.read(folder)["checkpoint"]["trusted"] is True


def test_validate_makes_a_run_of_a_protocol_and_goes_on_with_it(command, official_dreamerv3, tmp_path, monkeypatch):
    from tdmpc2_lean.runs import Surroundings, make, read_run
    from tdmpc2_lean.validation.judging.protocols import Protocol

    for name, value in command.environment.items():
        monkeypatch.setenv(name, value)
    tiny = dict(pair.split("=") for pair in TINY) | dict(
        zip((flag[2:] for flag in TINY_FLAGS[::2]), TINY_FLAGS[1::2], strict=True)
    )
    for key in ("run.envs", "env.dmc.repeat", "run.train_ratio"):
        tiny.pop(key)
    entry = Protocol(
        name="dreamerv3-tiny", agent="dreamerv3", task="tiny", physics="dm_control", environment="cartpole/balance",
        env_steps=2400, chunk=100, episodes=0, seeds=(0,), action_repeat=4, judged=False,
        settings={"size": "size1m", "envs": 1, "action_repeat": 4, "train_ratio": 4} | tiny,
    )  # fmt: skip
    where = Surroundings(device="cpu", threads=1, upstream=str(official_dreamerv3.root))
    assert make(entry, 0, tmp_path, (), where, True)
    found = read_run(tmp_path / "dreamerv3-tiny/default/seed-0")
    assert found.record["state"] == "finished" and found.record["provenance"]["packages"]["jax"]
    lines = curve.read_lines(found.path / "curve.jsonl")
    assert [line["agent_steps"] for line in lines] == [100 * n for n in range(1, 7)]
    assert all(line["provenance"] in found.record["provenances"] for line in lines)
    scores = returns.read(found.path / "logs", 400)
    assert scores.values == pytest.approx([line["value"] for line in lines if line["episodes"]], rel=1e-5)
    assert not make(entry, 0, tmp_path, (), where, True)
