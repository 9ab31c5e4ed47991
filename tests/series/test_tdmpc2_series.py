"""The TD-MPC2 series: it applies to the miniature too, and each patch does what it says."""

import os
import subprocess

import pytest

from tdmpc2_lean import patched, patching
from tdmpc2_lean.upstreams import UPSTREAMS, tree_id
from tdmpc2_lean.validation.gates import process
from tdmpc2_lean.validation.gates.subjects import find_subject

# Of the tried commits those of 2025 and later convert checkpoints of the older format.
PAPER_ERA = ("a19f91c", "5f6fade", "5715828", "b67b21c")
CONVERTING = [commit for commit in UPSTREAMS["tdmpc2"].trees if not commit.startswith(PAPER_ERA)]
# Of those before September 2024 the Q-functions are initialised as in the pin, by another layout of the ensemble.
WITH_A_LIST = PAPER_ERA[1:]


@pytest.fixture
def probes(monkeypatch, request):
    monkeypatch.setenv("PYTHONPATH", str(request.path.parent), prepend=os.pathsep)
    return lambda name, code_dir, **arguments: process.call(f"probes:{name}", code_dir, **arguments)


@pytest.fixture(scope="session")
def patched_code(any_checkout):
    """Code folder of the fully patched checkout, official and miniature."""
    return patched.materialise(any_checkout).code_dir


def test_the_series_applies_to_the_miniature(miniature, clone):
    folder = clone(miniature)
    before = tree_id(folder)
    patching.apply(folder)
    assert patching.status(folder).applied
    patching.revert(folder)
    assert tree_id(folder) == before


def test_plan_and_act_are_the_official_ones_after_the_whole_series(any_checkout, clone):
    folder = clone(any_checkout)
    patching.apply(folder)
    audit = patching.audit(folder)
    for name in ("_plan", "act", "_update", "_td_target", "update_pi"):
        assert audit.about(f"TDMPC2.{name}") == [("tdmpc2/tdmpc2.py", f"TDMPC2.{name}", "untouched")]
    assert audit.about("_plan_vec")[0][2] == "added by our patches"
    assert audit.about("TDMPC2._estimate_value")[0][2] == "changed by our patches"


def test_own_config_keeps_the_callers_configuration(patched_code, probes):
    seen = probes("two_agents", patched_code)
    assert seen == {"before": 6, "after": 6, "agents": [8, 8]}


def test_without_own_config_a_second_agent_plans_longer(any_checkout, probes):
    code = patched.materialise(any_checkout, ["device", "current-stack"]).code_dir
    assert probes("two_agents", code)["after"] == 10


def test_safe_load_refuses_a_file_that_would_run_code(patched_code, any_checkout, probes, tmp_path):
    # A pickle whose loading would create a file.
    evidence = tmp_path / "evidence"
    checkpoint = tmp_path / "evil.pt"
    script = (
        "import sys, torch\n"
        "class Evil:\n"
        "    def __reduce__(self):\n"
        "        return (open, (sys.argv[2], 'w'))\n"
        "torch.save({'model': Evil()}, sys.argv[1])\n"
    )
    subprocess.run([__import__("sys").executable, "-c", script, checkpoint, evidence], check=True)
    assert "weights_only" in probes("load", patched_code, checkpoint=str(checkpoint))["error"]
    assert not evidence.exists()
    without = patched.materialise(any_checkout, ["device", "current-stack"]).code_dir
    probes("load", without, checkpoint=str(checkpoint))
    assert evidence.exists(), "the file is harmless, so the refusal above proves nothing"


def test_checkpoints_of_either_tensordict_load(patched_code, probes):
    assert probes("checkpoint_formats", patched_code) == {"without metadata": True, "with metadata": True}


@pytest.mark.official
@pytest.mark.parametrize("commit", CONVERTING, ids=lambda commit: commit[:7])
def test_single_task_checkpoints_of_either_format_load_on_every_commit(tried_commits, probes, commit):
    checkout = tried_commits("tdmpc2").get(commit) or pytest.skip(f"no official TD-MPC2 code at {commit[:7]}")
    seen = probes("single_task_checkpoints", patched.materialise(checkout).code_dir)
    assert len(seen) == 4
    for name, found in seen.items():
        assert found["equal"], name
        assert "_action_masks" not in found["keys"], name
        assert ("_termination" in found["keys"]) == name.endswith("with head"), name
        assert ("_detach_Qs_params" in found["keys"]) == name.startswith("new"), name


def test_a_checkpoint_without_the_termination_head_that_an_episodic_task_uses_is_refused(official, probes):
    code = patched.materialise(official).code_dir
    assert "_termination" in probes("episodic_without_termination", code)["error"]


@pytest.mark.official
def test_q_init_starts_older_commits_with_the_weights_of_the_pin(tried_commits, probes):
    commits = tried_commits("tdmpc2")
    pin = UPSTREAMS["tdmpc2"].pin
    names = ["device", "current-stack", "q-init"]
    expected = probes("q_weights", patched.materialise(commits[pin], names).code_dir)
    assert expected["std"] == pytest.approx([0.02, 0.02], abs=2e-4) and expected["last"] == 0
    assert expected["dynamics_std"] == pytest.approx(0.02, abs=2e-4)
    for commit in [commit for commit in commits if commit != pin and not commit.startswith(WITH_A_LIST)]:
        without = probes("q_weights", patched.materialise(commits[commit], names[:2]).code_dir)
        # PyTorch's own for a linear layer: uniform within 1 / sqrt(inputs).
        as_made = [(3 * inputs) ** -0.5 for inputs in without["inputs"]]
        assert without["std"] == pytest.approx(as_made, rel=0.01) and min(as_made) > 0.029, commit
        made = patched.materialise(commits[commit], names)
        assert "q-init" in dict(made.patches)
        seen = probes("q_weights", made.code_dir)
        assert seen["std"] == pytest.approx([0.02, 0.02], abs=2e-4), commit
        assert seen["targets alike"] and seen["last"] == 0
        # The oldest of them makes one network more before, so that it draws other weights.
        assert (seen["digest"] == expected["digest"]) == (not commit.startswith("eece801")), commit


@pytest.mark.official
@pytest.mark.parametrize("commit", WITH_A_LIST)
def test_the_paper_eras_q_functions_start_as_the_pins_do(tried_commits, probes, commit):
    checkouts = tried_commits("tdmpc2")
    found = [name for name in checkouts if name.startswith(commit)] or pytest.skip(f"no official code at {commit}")
    code = patched.materialise(checkouts[found[0]], ["device", "current-stack", "q-init"])
    assert "q-init" in code.already
    seen = probes("q_weights", code.code_dir)
    assert seen["std"] == pytest.approx([0.02, 0.02], abs=2e-4) and seen["last"] == 0 and seen["targets alike"]


def test_q_init_is_used_only_by_name_and_is_there_already_on_the_pin(official, clone):
    series = patching.read_series("tdmpc2")
    assert [patch.name for patch in series.optional] == ["q-init"]
    assert "q-init" not in [patch.name for patch in (*series.closure(), *series.closure(["all"]), *series.patches)]
    assert "q-init" not in [patch.name for patch in find_subject(str(official.root)).series.patches]
    made = patched.materialise(official, ["all", "q-init"])
    assert made == patched.materialise(official)
    folder = clone(official)
    assert patching.check(folder, names=["q-init"]).fits[0].already
    done = patching.apply(folder, ["q-init", "device"])
    assert (done.applied, done.already) == (("device",), ("q-init",))


def test_planning_for_many_says_what_it_cannot_do(patched_code, probes):
    said = probes("many_environments", patched_code)
    assert said["no plans yet"].startswith("ValueError") and "t0=True" in said["no plans yet"]
    assert said["other number"].startswith("ValueError")
    assert said["a task"].startswith("NotImplementedError")
    assert said["multi-task"].startswith("NotImplementedError")
    assert said["shape"] == [3, 6]


def test_seed_steps_are_kept_when_given_and_computed_otherwise(patched_code, probes):
    given = probes("environments", patched_code, overrides={"seed_steps": 123})
    default = probes("environments", patched_code, overrides={})
    assert (given["seed_steps"], default["seed_steps"]) == (123, 2500)


def test_the_seed_determines_the_first_random_action(patched_code, probes):
    actions = [probes("environments", patched_code, overrides={"seed": seed})["action"] for seed in (1, 1, 2)]
    assert actions[0] == actions[1] != actions[2]


def test_artifacts_are_saved_when_asked_for_and_only_then(patched_code, probes):
    plain = probes("artifacts", patched_code, overrides={})["files"]
    assert "models/final.pt" in plain and not [f for f in plain if "eval_video" in f or f == "models/0.pt"]
    saved = probes("artifacts", patched_code, overrides={"save_agent_every_eval": True})["files"]
    assert {"models/0.pt", "models/40.pt", "models/80.pt", "models/final.pt"} <= set(saved)


def test_videos_are_written_into_the_runs_folder(patched_code, probes):
    pytest.importorskip("imageio_ffmpeg")
    files = probes("artifacts", patched_code, overrides={"save_video_files": True})["files"]
    assert {"eval_video/0.mp4", "eval_video/40.mp4", "eval_video/80.mp4"} <= set(files)


@pytest.mark.slow
@pytest.mark.parametrize("model_size", [1, 5])
def test_the_compiled_agent_acts_and_updates(patched_code, probes, model_size):
    seen = probes("compiled", patched_code, overrides={"model_size": model_size, "batch_size": 32})
    assert seen == {"finite": True, "within": True}


@pytest.mark.slow
@pytest.mark.parametrize("model_size", [19, 48, 317])
def test_the_larger_compiled_agents_act_and_update(official, probes, model_size):
    few = {"batch_size": 8, "iterations": 2, "num_samples": 32, "num_elites": 8, "num_pi_trajs": 4}
    code = patched.materialise(official).code_dir
    assert probes("compiled", code, overrides={"model_size": model_size} | few) == {"finite": True, "within": True}
