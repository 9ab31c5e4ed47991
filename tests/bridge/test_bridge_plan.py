"""What the user writes becomes a plan: words, presets, arms, official flags, and who wins."""

import dataclasses
import json

import pytest

from dreamer_bridge import arms, checkpoints, config, curve, plan, settings, trust
from dreamer_bridge.adapter import ADAPTER, FULL_DISK, what_brings
from dreamer_bridge.progress import DreamerProgress
from tdmpc2_lean.environments import Environment, rendering
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import curve as curves
from tdmpc2_lean.runs.watching import Log


def nested(plan):
    """The plan's settings, by their first parts."""
    found = {}
    for key, value in plan.configured.items():
        at, *parts = found, *key.split(".")
        for part in parts[:-1]:
            at = at.setdefault(part, {})
        at[parts[-1]] = value
    return found


def test_the_bridges_own_settings_hold_where_nobody_says_otherwise(planned):
    plan = planned("task=cheetah-run", "jax.platform=cpu")
    found = nested(plan)
    assert plan.specification.task == found["task"] == "dmc_cheetah_run"
    assert found["jax"] == {
        "platform": "cpu", "compute_dtype": "float32", "prealloc": False, "profiler": False, "prefetch": False,
    }  # fmt: skip
    assert found["env"]["dmc"] == {"repeat": 1, "image": False, "log_image": False, "use_seed": True}
    assert found["run"]["clock"] == "steps" and found["run"]["log_every"] == 1000
    assert found["run"]["resume_exact"] and found["replay"]["separate_report"]
    # The official config of states, and nothing else of ours.
    assert found["run"]["train_ratio"] == 1024 and found["run"]["steps"] == 1_100_000
    assert plan.environment["MUJOCO_GL"] == "disable"
    assert plan.environment["JAX_COMPILATION_CACHE_DIR"].endswith("cache/jax")
    plan = planned("task=cheetah-run")
    assert plan.folder.parts[-4:] == ("logs", "dmc_cheetah_run", "0", "default")
    assert plan.configured["logdir"] == str(plan.folder) == str(plan.code_folder)
    # Where there is an accelerator, the official settings of JAX hold.
    assert nested(plan)["jax"] == {
        "platform": "cuda", "compute_dtype": "bfloat16", "prealloc": True, "profiler": False, "prefetch": False,
    }  # fmt: skip
    assert plan.device.kind == "cuda" and plan.threads.cores == ()


def test_without_an_accelerator_no_run_is_started_unless_a_cpu_is_asked_for(planned, monkeypatch, tmp_path):
    """A million steps were started on a CPU, which takes weeks; TD-MPC2's command refuses that."""
    monkeypatch.setattr(settings, "has_accelerator", lambda: False)
    with pytest.raises(UserError, match="no plugin of JAX for an accelerator") as told:
        planned("task=cheetah-run")
    assert "jax.platform=cpu" in told.value.next_step and "lean=smoke" in told.value.next_step
    mine = tmp_path / "mine.yaml"
    mine.write_text("title: t\noverrides: {jax.platform: cpu}\n")
    for words, flags in (
        (["jax.platform=cpu"], []), ([f"lean={mine}"], []), ([], ["--jax.platform", "cpu"]),
        ([], ["--jax.platform=cpu"]),
    ):  # fmt: skip
        plan = planned("task=cheetah-run", *words, flags=flags)
        assert plan.device.kind == "cpu" and plan.configured["jax.compute_dtype"] == "float32"
    assert ADAPTER.shelf.find("smoke").overrides["jax.platform"] == "cpu"
    # Where JAX has it built in, without a plugin, the user can say so.
    assert planned("task=cheetah-run", "jax.platform=cuda").device.kind == "cuda"


def test_flags_win_over_words_over_presets_over_the_bridge(planned, tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text("title: t\noverrides: {run.steps: 1, run.envs: 2, batch_size: 3, jax.prefetch: true}\n")
    plan = planned(f"lean={mine}", "task=cheetah-run", "run.envs=4", "batch_size=5", flags=["--batch_size", "6"])
    found = plan.configured
    assert (found["run.steps"], found["run.envs"], found["batch_size"]) == (1, 4, 6)
    assert found["jax.prefetch"] is True
    assert plan.specification.overrides["run.envs"] == "4" and plan.specification.agent_steps == 1


def test_every_official_flag_is_handed_on_as_it_is(planned):
    flags = ["--run.steps", "1000", "--agent.loss_scales.rew=2.0", r"--.*\.units", "7"]
    plan = planned("task=cheetah-run", flags=flags)
    assert plan.launch["flags"][-len(flags) :] == flags
    assert plan.configured["run.steps"] == 1000 and plan.configured["agent.enc.simple.units"] == 7
    assert plan.configured["agent.loss_scales.rew"] == 2.0
    assert "-- --run.steps 1000" in plan.command


def test_configs_among_the_flags_add_to_those_for_states(planned):
    plan = planned("task=cheetah-run", flags=["--configs", "size12m", "--run.steps", "5"])
    assert plan.details["configs"] == ["dmc_proprio", "size12m"]
    assert plan.launch["flags"][:3] == ["--configs", "dmc_proprio", "size12m"]
    assert plan.launch["flags"].count("--configs") == 1
    assert plan.configured["agent.enc.simple.units"] == 256 and not plan.configured["env.dmc.image"]


def test_the_official_parser_makes_of_the_flags_what_the_plan_says(planned, code):
    """main.py's own way from flags to configuration, on the flags of the plan."""
    import elements

    plan = planned("task=cheetah-run", "size=size12m", "seed=3", "arm=strip", "lean=paper")
    document = config.read(code)
    names, rest = elements.Flags(configs=["defaults"]).parse_known(list(plan.launch["flags"]))
    found = elements.Config(document["defaults"])
    for name in names.configs:
        found = found.update(document[name])
    assert config.plain(elements.Flags(found).parse(rest)) == nested(plan)


def test_sizes_are_the_official_ones(planned):
    assert planned("task=cheetah-run", "size=size12m").configured["agent.enc.simple.units"] == 256
    with pytest.raises(UserError, match="Did you mean 'size12m'"):
        planned("task=cheetah-run", "size=siez12m")


def test_the_paper_preset_is_the_protocol(planned):
    plan = planned("task=cheetah-run", "lean=paper")
    what = plan.specification
    assert plan.details["configs"] == ["dmc_proprio", "size12m"] and plan.configured["run.envs"] == 16
    assert what.action_repeat == 2 and what.env_steps == 500_000
    assert plan.details["updates_per_agent_step"] == 0.5 and what.chunk == 20_000
    from tdmpc2_lean.validation.judging import protocols

    entry = protocols.registry()["dreamerv3-dmc_cheetah_run"]
    assert entry.agent_steps == what.agent_steps
    # Whole chunks of ours between two points of the criterion.
    assert entry.chunk * what.action_repeat % what.chunk == 0
    assert dict(entry.settings) == {"size": "size12m", "envs": 16, "action_repeat": 2, "train_ratio": 512}


@pytest.mark.parametrize(
    "words, dyn, rep",
    [
        ([], 1.0, 0.1),
        (["arm=full"], 1.0, 0.1),
        (["arm=full", "rep=alike"], 1.0, 0.1),
        (["arm=strip"], 0.0, 0.1),
        (["arm=strip", "rep=alike"], 0.0, 0.0),
        (["arm=dyn=0.25"], 0.25, 0.1),
        (["arm=dyn=0.25", "rep=alike"], 0.25, 0.025),
        (["arm=dyn=0.5", "rep=alike", "agent.loss_scales.rew=3"], 0.5, 0.05),
    ],
)
def test_an_arm_scales_the_losses(planned, words, dyn, rep):
    plan = planned("task=cheetah-run", *words)
    scales = plan.launch["scales"]
    assert scales["dyn"] == dyn and scales["rep"] == pytest.approx(rep)
    assert (plan.configured["agent.loss_scales.dyn"], plan.configured["agent.loss_scales.rep"]) == (dyn, scales["rep"])
    caveat = any(arms.CAVEAT in note for note in plan.notes)
    assert caveat == (dyn != 1.0 and "rep=alike" not in words)
    assert plan.details["loss_scales"] == scales
    arm = next((word.removeprefix("arm=") for word in words if word.startswith("arm=")), "full")
    assert plan.specification.arm == arm + (", rep=alike" if "rep=alike" in words else "")


@pytest.mark.parametrize("word", ["arm=none", "arm=dyn", "arm=dyn=x", "arm=dyn=-1", "arm=dyn=nan", "rep=both"])
def test_what_is_no_arm_is_refused(planned, word):
    with pytest.raises(UserError):
        planned("task=cheetah-run", word)


def test_an_arm_and_the_setting_it_sets_are_not_given_both(planned):
    with pytest.raises(UserError, match="loss_scales.dyn"):
        planned("task=cheetah-run", "arm=strip", flags=["--agent.loss_scales.dyn", "1"])
    with pytest.raises(UserError, match="loss_scales.dyn"):
        planned("task=cheetah-run", "arm=strip", "agent.loss_scales.dyn=1")


@pytest.mark.parametrize(
    "words, flags, told",
    [
        (["task=cheetah-run", "run.step=1"], [], "Did you mean 'run.steps'"),
        (["task=cheetah-run", "sed=1"], [], "Did you mean 'seed'"),
        (["task=cheetah-run"], ["--run.step", "1"], "Did you mean 'run.steps'"),
        (["task=cheetah-run"], ["--run.steps", "many"], "Cannot convert 'many'"),
        (["task=cheetah-run"], ["--configs", "size1"], "Did you mean 'size1m'"),
        (["task=cheetah-run", "lean=papr"], [], "Did you mean 'paper'"),
        (["task=cheetah-run", "seed=x"], [], "whole number"),
        (["task=cheetah-run", "chunk=3", "env.dmc.repeat=2"], [], "multiple"),
        (["task=cheetah-run", "exp_name=../x"], [], "no name of a folder"),
        (["task=cheetah-run", "logdir=x"], [], "exp_name="),
        (["task=cheetah-run"], ["--script", "parallel"], "does not watch"),
        (["seed=1"], [], "which task"),
        (["cheetah-run"], [], "key=value"),
    ],
)
def test_mistakes_are_told_with_what_mends_them(planned, words, flags, told):
    with pytest.raises(UserError) as error:
        planned(*words, flags=flags)
    assert told in str(error.value) and error.value.next_step


@pytest.mark.parametrize(
    "word", ["run.debug=False", "run.clock=seconds", "jax.prefetch=True", "random_agent=True", "replicas=2",
             "replay.fracs.uniform=0.5"],
)  # fmt: skip
def test_where_a_run_cannot_be_resumed_exactly_it_is_not_asked_to_and_that_is_said(planned, word):
    assert planned("task=cheetah-run").configured["run.resume_exact"] is True
    plan = planned("task=cheetah-run", word)
    assert plan.configured["run.resume_exact"] is False and any(word in note for note in plan.notes)
    with pytest.raises(UserError, match="cannot be resumed") as told:
        planned("task=cheetah-run", word, "run.resume_exact=True")
    assert word in str(told.value)
    for flags in (["--run.resume_exact", "True"], [r"--run\..*_exact", "True"]):
        with pytest.raises(UserError, match="cannot be resumed"):
            planned("task=cheetah-run", word, flags=flags)


def test_a_preset_that_asks_for_exact_resumption_is_told_too(planned, tmp_path):
    mine = tmp_path / "exact.yaml"
    mine.write_text("title: t\noverrides: {run.resume_exact: true, run.debug: false}\n")
    with pytest.raises(UserError, match="run.debug=False: such a run cannot be resumed"):
        planned("task=cheetah-run", f"lean={mine}")


def test_the_release_is_not_started_where_it_would_hang(planned, monkeypatch):
    words = ["task=cheetah-run", "run.debug=False"]
    found = planned(*words)
    assert found.configured["run.debug"] is False
    monkeypatch.setattr(plan, "find_checkout", lambda *a, **k: dataclasses.replace(found.checkout, release="3.3.1"))
    with pytest.raises(UserError, match="hangs"):
        planned(*words)
    assert planned(words[0]).checkout.release


def test_keys_of_patches_that_are_left_out_are_not_set_and_that_is_said(planned, code, monkeypatch):
    monkeypatch.setattr(rendering, "why_not", lambda value, source: "")
    path = code / "dreamerv3" / "configs.yaml"
    text = path.read_text()
    for key in (", clock: seconds, resume_exact: False", ", profiler: True, prefetch: True", ", log_image: True"):
        assert key in text
        text = text.replace(key, "")
    path.write_text(text)
    plan = planned("task=cheetah-run")
    assert plan.configured["run.log_every"] == 120  # seconds, as the official code counts them
    assert any("profiler" in note and "no-hidden-render" in note and "resume" in note for note in plan.notes)
    assert plan.environment["MUJOCO_GL"] == "egl"  # it renders


def test_runs_of_other_settings_get_folders_of_their_own(planned):
    names = {
        planned("task=cheetah-run", *words).folder.name
        for words in ([], ["arm=strip"], ["arm=strip", "rep=alike"], ["size=size12m"], ["run.envs=2"], ["lean=paper"])
    }
    assert len(names) == 6


def test_presets_words_and_flags_cannot_change_what_the_bridge_decides(planned, tmp_path):
    """A run was split over two folders, or was of another task or seed than its folder says."""
    mine = tmp_path / "mine.yaml"
    mine.write_text("title: t\noverrides: {logdir: /elsewhere}\n")
    for flags, words in (
        (["--logdir", "/elsewhere"], []), (["--logdir=/elsewhere"], []), ([r"--log.*r", "/elsewhere"], []),
        ([], [f"lean={mine}"]), (["--task", "dmc_walker_walk"], []), (["--seed", "3"], []),
    ):  # fmt: skip
        with pytest.raises(UserError, match="is decided by the bridge") as told:
            planned("task=cheetah-run", *words, flags=flags)
        assert told.value.next_step


def test_what_keeps_the_environment_from_being_made_is_told_before_the_run_has_a_folder(planned, monkeypatch, tmp_path):
    monkeypatch.setattr(Environment, "probe", lambda *_: UserError("dm_control is broken", "mend it"))
    with pytest.raises(UserError, match="dm_control is broken"):
        planned("task=cheetah-run")
    assert not (tmp_path / "logs").exists()


def test_a_task_of_another_suite_is_told_as_such(planned):
    """It was answered with the extra that is installed already."""
    with pytest.raises(UserError, match="atari_pong is a task of the official code's suite atari") as told:
        planned("task=atari_pong")
    assert "pip install" not in told.value.next_step and "task=cheetah-run" in told.value.next_step


@pytest.mark.parametrize(
    "word", ["run.steps=nan", "run.steps=inf", "run.steps=-5", "run.steps=0", "run.envs=0", "run.envs=-1",
             "env.dmc.repeat=0", "env.dmc.repeat=-2", "batch_size=0", "batch_length=0", "run.envs=inf"],
)  # fmt: skip
def test_numbers_with_which_there_is_no_run_are_refused_before_anything_starts(planned, word):
    for words, flags in (([word], []), ([], ["--" + word])):
        with pytest.raises(UserError) as told:
            planned("task=cheetah-run", *words, flags=flags)
        assert told.value.next_step


# ---------------------------------------------------------------------------------- going on with an earlier run


def checkpoint_of(plan, **state):
    """A signed checkpoint in the folder of a plan's run."""
    found = plan.folder / "ckpt" / "0001"
    found.mkdir(parents=True)
    (found / "done").write_bytes(b"")
    (plan.folder / "ckpt" / "latest").write_text("0001")
    if state:
        (found / checkpoints.STATE).write_text(json.dumps(state))
    trust.sign(found)
    return found


@pytest.mark.parametrize("checkpoint", [True, False])
@pytest.mark.parametrize("exact", [True, False])
def test_what_a_killed_run_wrote_after_its_checkpoint_is_dropped(planned, checkpoint, exact):
    plan = planned("task=cheetah-run", f"run.resume_exact={exact}", "env.dmc.repeat=2", "chunk=1000")
    plan.folder.mkdir(parents=True)
    if checkpoint:
        checkpoint_of(plan, agent_steps=1200, curve={"number": 3})
    lines = [{"chunk": number, "env_steps": 1000 * number} for number in (1, 2, 3, 4)]
    (plan.folder / curves.FILE).write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"chunk": 5, "env')
    scores = [{"step": step, "episode/score": 1.0} for step in (1000, 2000, 2400, 2402, 3000)]
    (plan.folder / "scores.jsonl").write_text("".join(json.dumps(line) + "\n" for line in scores))
    ADAPTER.drop_computed_again(plan, ADAPTER.checkpoint_step(plan))
    assert [line["chunk"] for line in curve.read_lines(plan.folder / curves.FILE)] == ([1, 2] if checkpoint else [])
    # With an exact checkpoint the official code cuts its own files.
    kept = scores if checkpoint and exact else scores[:3] if checkpoint else []
    assert curve.read_lines(plan.folder / "scores.jsonl") == kept


def test_a_checkpoint_from_before_the_first_step_is_nothing_to_go_on_with(planned):
    plan = planned("task=cheetah-run")
    checkpoint_of(plan, agent_steps=0, curve={"number": 1})
    assert ADAPTER.checkpoint_step(plan) is None


def test_the_step_to_go_on_at_is_the_checkpoints_once_it_is_verified(planned):
    plan = planned("task=cheetah-run")
    folder = checkpoint_of(plan, agent_steps=70, curve={"number": 1})
    assert ADAPTER.checkpoint_step(plan) == 70
    (folder / "agent.pkl").write_bytes(b"evil")
    with pytest.raises(trust.Untrusted, match="agent.pkl"):
        ADAPTER.checkpoint_step(plan)
    assert ADAPTER.checkpoint_step(planned("task=cheetah-run", trust_checkpoint=True)) == 70


def test_a_larger_budget_and_another_folder_decide_nothing_and_all_else_does(planned):
    def deciding(*words):
        return ADAPTER.deciding(planned("task=cheetah-run", *words).configured)

    assert deciding() == deciding("run.steps=5") == deciding("exp_name=other") == deciding("run.save_every=7")
    assert deciding() != deciding("jax.platform=cpu")  # it rounds otherwise
    assert deciding() != deciding("batch_size=8") and deciding() != deciding("agent.loss_scales.rep=0.2")


def test_a_checkpoint_to_start_from_must_be_ones_own(planned, tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "done").write_bytes(b"")
    flags = ["--run.from_checkpoint", str(folder)]
    with pytest.raises(trust.Untrusted):
        planned("task=cheetah-run", flags=flags)
    assert planned("task=cheetah-run", flags=flags, trust_checkpoint=True).checkpoint.trusted
    trust.sign(folder)
    assert not planned("task=cheetah-run", flags=flags).checkpoint.trusted
    with pytest.raises(UserError, match="no whole checkpoint"):
        planned("task=cheetah-run", flags=["--run.from_checkpoint", str(tmp_path)])


# --------------------------------------------------------------------------------- why a run failed, and how fast


@pytest.mark.parametrize(
    "said, next_step",
    [
        *((f"OSError: [Errno 28] {said}", "make room; the same command goes on") for said in FULL_DISK),
        ("ModuleNotFoundError: No module named 'ninjax'", "pip install 'tdmpc2_lean[dreamer]'"),
        ("ModuleNotFoundError: No module named 'ruamel.yaml'", "pip install 'tdmpc2_lean[dreamer]'"),
        ("ModuleNotFoundError: No module named 'dm_control'", "pip install dm_control"),
        ("ModuleNotFoundError: No module named 'ale_py'", "install what brings ale_py"),
        ("RuntimeError: Unable to initialize backend 'cuda'", "jax.platform=cpu"),
        ("RESOURCE_EXHAUSTED: 12 GiB", "a smaller size= or batch_size="),
        ("ValueError: odd", "read the log; the same command goes on"),
    ],
)
def test_a_failure_is_told_with_what_mends_it(planned, tmp_path, said, next_step):
    log = Log(tmp_path / "train.log")
    log.follow([b"Traceback (most recent call last):\n", said.encode() + b"\n"])
    failure = ADAPTER.explained(planned("task=cheetah-run"), 1, DreamerProgress(), log)
    assert failure.next_step.startswith(next_step) and str(log.path) in failure.message and failure.exit_code == 1


def test_the_extra_is_named_for_what_it_brings_and_for_nothing_else():
    """It was named for whatever was missing, such as the package of another suite."""
    import configparser
    from pathlib import Path

    parser = configparser.ConfigParser()
    parser.read(Path(plan.__file__).parent.parent / "setup.cfg")
    brought = [line.partition(">")[0] for line in parser["options.extras_require"]["dreamer"].split() if ">" in line]
    for name in brought:
        assert what_brings(name.partition(".")[0].replace("-", "_")) == "pip install 'tdmpc2_lean[dreamer]'", name
    assert "tdmpc2_lean[dreamer]" not in what_brings("ale_py")


def test_a_resumed_runs_speed_counts_its_own_steps(planned):
    """2,000 of the steps had been made by the start before: the speed was told as 4,008 steps/s."""
    progress = DreamerProgress()

    def look(step, seconds, updates):
        progress.take(
            {"event": "step", "step": step, "seconds": seconds, "evaluation_seconds": 0.0, "evaluating": False,
             "cpu_seconds": 1.0, "updates": updates}
        )  # fmt: skip

    look(0, 0.5, 0)  # before the checkpoint is loaded
    progress.take({"event": "resumed", "step": 2000, "checkpoint": "x"})
    for second in range(1, 11):
        look(2000 + 10 * second, 0.5 + second, 2000 + 10 * second)
        assert progress.speed() is None or progress.speed() < 11
    timing = progress.timing()
    assert timing["steps_per_second"] == pytest.approx(100 / 10.5, rel=1e-3)
    assert timing["learning_steps_per_second"] == pytest.approx(10.0) and timing["steps"] == 2100


def test_every_preset_of_the_package_states_title_evidence_and_cost():
    names = ADAPTER.shelf.available()
    assert {"default", "paper", "smoke"} <= set(names)
    for name in names:
        found = ADAPTER.shelf.find(name)
        assert found.title and found.evidence and found.cost
        assert json.dumps(dict(found.overrides))
