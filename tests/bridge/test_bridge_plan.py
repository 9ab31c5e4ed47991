"""What the user writes becomes a plan: words, presets, arms, official flags, and who wins."""

import dataclasses
import json

import pytest

from dreamer_bridge import arms, child, config, curve, plan, run, trust
from dreamer_bridge.plan import latest_checkpoint, specification
from tdmpc2_lean.environments import rendering
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import presets, record


def test_the_bridges_own_settings_hold_where_nobody_says_otherwise(planned):
    plan = planned("task=cheetah-run")
    assert plan.task == plan.config["task"] == "dmc_cheetah_run"
    assert plan.config["jax"] == {
        "platform": "cpu", "compute_dtype": "float32", "prealloc": False, "profiler": False, "prefetch": False,
    }  # fmt: skip
    assert plan.config["env"]["dmc"] == {"repeat": 1, "image": False, "log_image": False, "use_seed": True}
    assert plan.config["run"]["clock"] == "steps" and plan.config["run"]["log_every"] == 1000
    assert plan.config["run"]["resume_exact"] and plan.config["replay"]["separate_report"]
    # The official config of states, and nothing else of ours.
    assert plan.config["run"]["train_ratio"] == 1024 and plan.config["run"]["steps"] == 1_100_000
    assert plan.environment["MUJOCO_GL"] == "disable"
    assert plan.environment["JAX_COMPILATION_CACHE_DIR"].endswith("cache/jax")
    assert plan.folder.parts[-4:] == ("logs", "dmc_cheetah_run", "0", "default")
    assert plan.config["logdir"] == str(plan.folder)


def test_flags_win_over_words_over_presets_over_the_bridge(planned, tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text("title: t\noverrides: {run.steps: 1, run.envs: 2, batch_size: 3, jax.prefetch: true}\n")
    plan = planned(f"lean={mine}", "task=cheetah-run", "run.envs=4", "batch_size=5", flags=["--batch_size", "6"])
    assert (plan.config["run"]["steps"], plan.config["run"]["envs"], plan.config["batch_size"]) == (1, 4, 6)
    assert plan.config["jax"]["prefetch"] is True


def test_every_official_flag_is_handed_on_as_it_is(planned):
    flags = ["--run.steps", "1000", "--agent.loss_scales.rew=2.0", r"--.*\.units", "7"]
    plan = planned("task=cheetah-run", flags=flags)
    assert list(plan.flags[-len(flags) :]) == flags
    assert plan.config["run"]["steps"] == 1000 and plan.config["agent"]["enc"]["simple"]["units"] == 7
    assert plan.config["agent"]["loss_scales"]["rew"] == 2.0
    assert "-- --run.steps 1000" in plan.command


def test_configs_among_the_flags_add_to_those_for_states(planned):
    plan = planned("task=cheetah-run", flags=["--configs", "size12m", "--run.steps", "5"])
    assert plan.configs == ("dmc_proprio", "size12m") and plan.flags[:3] == ("--configs", "dmc_proprio", "size12m")
    assert plan.flags.count("--configs") == 1
    assert plan.config["agent"]["enc"]["simple"]["units"] == 256 and not plan.config["env"]["dmc"]["image"]


def test_the_official_parser_makes_of_the_flags_what_the_plan_says(planned, code):
    """main.py's own way from flags to configuration, on the flags of the plan."""
    import elements

    plan = planned("task=cheetah-run", "size=size12m", "seed=3", "arm=strip", "lean=paper")
    document = config.read(code)
    names, rest = elements.Flags(configs=["defaults"]).parse_known(list(plan.flags))
    found = elements.Config(document["defaults"])
    for name in names.configs:
        found = found.update(document[name])
    assert config.plain(elements.Flags(found).parse(rest)) == plan.config


def test_sizes_are_the_official_ones(planned):
    assert planned("task=cheetah-run", "size=size12m").config["agent"]["enc"]["simple"]["units"] == 256
    with pytest.raises(UserError, match="Did you mean 'size12m'"):
        planned("task=cheetah-run", "size=siez12m")


def test_the_paper_preset_is_the_protocol(planned):
    plan = planned("task=cheetah-run", "lean=paper")
    assert plan.configs == ("dmc_proprio", "size12m") and plan.config["run"]["envs"] == 16
    assert plan.repeat == 2 and plan.config["run"]["steps"] * plan.repeat == 500_000
    assert plan.ratio.per_agent_step == 0.5 and plan.chunk == 20_000
    from tdmpc2_lean.validation.judging import protocols

    entry = protocols.registry()["dreamerv3-dmc_cheetah_run"]
    assert entry.agent_steps == plan.config["run"]["steps"]
    assert entry.chunk * plan.repeat % plan.chunk == 0  # whole chunks of ours between two points of the criterion
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
    assert plan.scales["dyn"] == dyn and plan.scales["rep"] == pytest.approx(rep)
    caveat = any(arms.CAVEAT in note for note in plan.notes)
    assert caveat == (dyn != 1.0 and "rep=alike" not in words)
    assert plan.arm.record(plan.scales)["loss_scales"] == plan.scales


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
    assert planned("task=cheetah-run").config["run"]["resume_exact"] is True
    plan = planned("task=cheetah-run", word)
    assert plan.config["run"]["resume_exact"] is False and any(word in note for note in plan.notes)
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
    assert found.config["run"]["debug"] is False
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
    assert plan.config["run"]["log_every"] == 120  # seconds, as the official code counts them
    assert any("profiler" in note and "no-hidden-render" in note and "resume" in note for note in plan.notes)
    assert plan.environment["MUJOCO_GL"] == "egl"  # it renders


def test_runs_of_other_settings_get_folders_of_their_own(planned):
    names = {
        planned("task=cheetah-run", *words).folder.name
        for words in ([], ["arm=strip"], ["arm=strip", "rep=alike"], ["size=size12m"], ["run.envs=2"], ["lean=paper"])
    }
    assert len(names) == 6


# ---------------------------------------------------------------------------------- going on with an earlier run


def left_behind(plan, state="interrupted", checkpoint=True, **changed):
    """The folder of an earlier run of a plan."""
    plan.folder.mkdir(parents=True)
    known = dict(
        kind="train", task=plan.task, seed=plan.seed, upstream=plan.patched.provenance(), config=dict(plan.config),
        flags=list(plan.flags), chunk=plan.chunk, arm=plan.arm.record(plan.scales), presets=[],
    )  # fmt: skip
    record.write(plan.folder, record.ended(record.new(**known | changed), state, 0))
    if checkpoint:
        folder = plan.folder / "ckpt" / "0001"
        folder.mkdir(parents=True)
        (folder / "done").write_bytes(b"")
        (plan.folder / "ckpt" / "latest").write_text("0001")
        trust.sign(folder)


def test_the_same_command_goes_on_with_an_interrupted_run(planned):
    plan = planned("task=cheetah-run", "seed=2")
    assert not plan.resumes
    left_behind(plan)
    again = planned("task=cheetah-run", "seed=2")
    assert again.resumes and specification(again) == specification(plan)


def test_a_finished_run_is_not_touched(planned):
    plan = planned("task=cheetah-run")
    left_behind(plan, "finished")
    with pytest.raises(UserError, match="already holds a run"):
        planned("task=cheetah-run")
    assert not planned("task=cheetah-run", "overwrite=true").resumes


def test_a_run_of_another_specification_is_refused_and_the_keys_are_named(planned):
    left_behind(planned("task=cheetah-run", "exp_name=x"))
    with pytest.raises(UserError) as told:
        planned("task=cheetah-run", "exp_name=x", "batch_size=8", "chunk=10000")
    assert "batch_size (16, now 8)" in told.value.message and "chunk (20000, now 10000)" in told.value.message


def test_a_run_of_other_patches_is_refused(planned):
    plan = planned("task=cheetah-run")
    code = plan.patched.provenance() | {"patches": [{"name": "seeding", "sha256": "other"}]}
    left_behind(plan, upstream=code)
    with pytest.raises(UserError, match="upstream.patches"):
        planned("task=cheetah-run")


def test_files_that_are_no_runs_are_left_alone(planned):
    plan = planned("task=cheetah-run")
    plan.folder.mkdir(parents=True)
    (plan.folder / "thesis.tex").write_text("x")
    with pytest.raises(UserError, match="no run's"):
        planned("task=cheetah-run")


@pytest.mark.parametrize("checkpoint", [True, False])
@pytest.mark.parametrize("exact", [True, False])
def test_what_a_killed_run_wrote_after_its_checkpoint_is_dropped(planned, checkpoint, exact):
    plan = planned("task=cheetah-run", f"run.resume_exact={exact}", "env.dmc.repeat=2", "chunk=1000")
    left_behind(plan, checkpoint=checkpoint)
    state = {"agent_steps": 1200, "curve": {"number": 3}}
    if checkpoint:
        (latest_checkpoint(plan.folder) / child.STATE).write_text(json.dumps(state))
    lines = [{"chunk": number, "env_steps": 1000 * number} for number in (1, 2, 3, 4)]
    (plan.folder / curve.FILE).write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"chunk": 5, "env')
    scores = [{"step": step, "episode/score": 1.0} for step in (1000, 2000, 2400, 2402, 3000)]
    (plan.folder / "scores.jsonl").write_text("".join(json.dumps(line) + "\n" for line in scores))
    run.drop_what_is_computed_again(plan, plan.folder / curve.FILE)
    assert [line["chunk"] for line in curve.read_lines(plan.folder / curve.FILE)] == ([1, 2] if checkpoint else [])
    # With an exact checkpoint the official code cuts its own files.
    kept = scores if checkpoint and exact else scores[:3] if checkpoint else []
    assert curve.read_lines(plan.folder / "scores.jsonl") == kept


def test_a_resumed_checkpoint_that_was_changed_is_refused_before_anything_starts(planned):
    plan = planned("task=cheetah-run")
    left_behind(plan)
    (plan.folder / "ckpt" / "0001" / "agent.pkl").write_bytes(b"evil")
    with pytest.raises(trust.Untrusted, match="agent.pkl"):
        planned("task=cheetah-run")
    assert planned("task=cheetah-run", trust_checkpoint=True).resumes


def test_a_checkpoint_to_start_from_must_be_ones_own(planned, tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "done").write_bytes(b"")
    flags = ["--run.from_checkpoint", str(folder)]
    with pytest.raises(trust.Untrusted):
        planned("task=cheetah-run", flags=flags)
    assert planned("task=cheetah-run", flags=flags, trust_checkpoint=True).trusted
    trust.sign(folder)
    assert not planned("task=cheetah-run", flags=flags).trusted
    with pytest.raises(UserError, match="no whole checkpoint"):
        planned("task=cheetah-run", flags=["--run.from_checkpoint", str(tmp_path)])


def test_every_preset_of_the_package_states_title_evidence_and_cost():
    names = presets.available(presets.DREAMERV3)
    assert {"default", "paper", "smoke"} <= set(names)
    for name in names:
        found = presets.find(name, presets.DREAMERV3)
        assert found.title and found.evidence and found.cost
    assert json.dumps(dict(presets.find("smoke", presets.DREAMERV3).overrides))
