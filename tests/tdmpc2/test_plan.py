"""Every mistake is told before anything starts, and nothing is ever used in place of what was asked for."""

import os
import subprocess
import sys

import pytest

from tdmpc2_lean.environments import dm_control, rendering, tdmpc2_tasks
from tdmpc2_lean.environments.sources import source_named
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs import making, sweeps, threads
from tdmpc2_lean.runs.plan import Request
from tdmpc2_lean.runs.words import OWN_WORDS
from tdmpc2_lean.tdmpc2.adapter import ADAPTER
from tdmpc2_lean.tdmpc2.configuration import composed


def planned(workplace, *words, **options):
    return ADAPTER.plan(Request(("upstream=miniature", *words), cwd=workplace, **options))


CPU = ("task=cheetah-run", "device=cpu")


def test_a_misspelt_task_is_told_with_the_nearest(workplace):
    with pytest.raises(UserError, match="no task 'cheeta-run'. Did you mean 'cheetah-run'"):
        planned(workplace, "task=cheeta-run", "device=cpu")
    assert not (workplace / "logs").exists()


def test_a_misspelt_override_is_told_with_the_nearest(workplace):
    with pytest.raises(UserError, match="Did you mean 'batch_size'"):
        planned(workplace, *CPU, "batch_sise=2")


def test_without_cuda_the_official_device_is_an_error_that_names_the_way_out(workplace, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="no CUDA device") as told:
        planned(workplace, "task=cheetah-run")
    assert "device=cpu" in told.value.next_step
    with pytest.raises(UserError, match="without the patch 'device'"):
        planned(workplace, "task=cheetah-run", "patches=none")


def test_a_cuda_device_that_is_not_there_is_an_error(workplace, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert planned(workplace, "task=cheetah-run", "device=cuda:1").device.kind == "cuda:1"
    assert planned(workplace, "task=cheetah-run").device.kind == "cuda:0"
    with pytest.raises(UserError, match="finds 2 CUDA"):
        planned(workplace, "task=cheetah-run", "device=cuda:2")


def test_presets_whose_patches_are_left_out_are_told(workplace):
    with pytest.raises(UserError, match="preset 'fast'.*utd") as told:
        planned(workplace, *CPU, "lean=fast", "patches=device")
    assert "utd" in told.value.next_step
    with pytest.raises(UserError, match="seed_steps .patch seed-steps"):
        planned(workplace, *CPU, "seed_steps=1000", "patches=device")


def test_the_patches_asked_for_are_applied_and_no_others(workplace):
    assert [name for name, _ in planned(workplace, *CPU, "patches=utd,device").patched.patches] == [
        "device",
        "utd",
    ]


def test_the_command_line_wins_over_presets_and_our_defaults(workplace):
    found = planned(workplace, *CPU, "lean=fast", "batch_size=64", "exp_name=mine")
    assert (found.configured["batch_size"], found.configured["iterations"], found.configured["utd"]) == (64, 3, 0.5)
    assert found.folder == workplace / "logs/cheetah-run/1/mine"


def test_the_folder_is_named_after_the_presets(workplace):
    assert planned(workplace, *CPU, "lean=depth,ratio").folder.name == "depth+ratio"
    assert planned(workplace, *CPU).folder.name == "default"


@pytest.mark.parametrize("name", ["../../elsewhere", "' '", "..", ".", "'/abs/olute'", "/abs/olute", "a/b", "''", "-x"])
def test_a_run_stays_in_its_folder(workplace, name):
    with pytest.raises(UserError) as told:
        planned(workplace, *CPU, f"exp_name={name}")
    assert "exp_name=" in told.value.message and "folder" in told.value.message and told.value.next_step


@pytest.mark.parametrize("name", ["1", "1.5", "true", "null", "1e3", "++exp_name=7"])
def test_a_name_that_hydra_would_take_for_a_number_is_a_name(workplace, name):
    word = name if "=" in name else f"exp_name={name}"
    found = planned(workplace, *CPU, word)
    assert found.folder.name == word.partition("=")[2]
    assert found.configured["exp_name"] == found.folder.name


@pytest.mark.parametrize("word", ["checkpoint=final.pt", "checkpoint=not-there.pt", "checkpoint=", "+checkpoint=x.pt"])
def test_training_takes_no_checkpoint_and_says_who_does(workplace, word):
    with pytest.raises(UserError, match="does not load it") as told:
        planned(workplace, *CPU, word)
    assert "tdmpc2-lean evaluate" in told.value.next_step and "goes on by its own command" in told.value.next_step


def test_a_multi_task_set_without_its_data_says_what_is_missing(official, workplace):
    words = (f"upstream={official.root}", "task=mt30", "device=cpu", "steps=100")
    with pytest.raises(UserError, match="data_dir= does not say where") as told:
        planned(workplace, *words)
    assert "data_dir=FOLDER" in told.value.next_step
    (workplace / "data").mkdir()
    with pytest.raises(UserError, match=r"no \*.pt files in .*data"):
        planned(workplace, *words, "data_dir=data")
    (workplace / "data" / "chunk_0.pt").write_bytes(b"x")
    planned(workplace, *words, "data_dir=data")


@pytest.mark.parametrize("word", ["seed=1.5", "seed=x", "steps=1.5", "steps=-1"])
def test_what_cannot_be_a_run_is_told_before_anything_starts(workplace, word):
    with pytest.raises(UserError, match=word.partition("=")[0]):
        planned(workplace, *CPU, word)
    assert not (workplace / "logs").exists()


def test_a_sweep_runs_every_combination_in_a_folder_of_its_own(workplace):
    words = ("upstream=miniature", *CPU, "seed=1,2", "lr=1e-3,1e-4", "lean=depth")
    found = [ADAPTER.plan(one) for one in sweeps.requests(Request(words, cwd=workplace), OWN_WORDS)]
    assert [one.folder.relative_to(workplace / "logs/cheetah-run").as_posix() for one in found] == [
        "1/depth,lr=0.001",
        "1/depth,lr=0.0001",
        "2/depth,lr=0.001",
        "2/depth,lr=0.0001",
    ]
    settings = [(one.configured["seed"], one.configured["lr"]) for one in found]
    assert settings == [(1, 1e-3), (1, 1e-4), (2, 1e-3), (2, 1e-4)]


def test_a_sweep_over_one_folder_is_refused(workplace):
    words = ("upstream=miniature", *CPU, "lr=1e-3,1e-4", "exp_name=x")
    found = [ADAPTER.plan(one) for one in sweeps.requests(Request(words, cwd=workplace), OWN_WORDS)]
    with pytest.raises(UserError, match="same folder"):
        sweeps.check_folders(found)


def test_official_defaults_stay_but_for_wandb(workplace):
    found = planned(workplace, *CPU)
    assert found.configured["enable_wandb"] is False and found.configured["compile"] is True
    assert found.configured["iterations"] == 6 and found.configured["batch_size"] == 256


def test_wandb_asked_for_by_half_is_told(workplace):
    with pytest.raises(UserError, match="wandb_entity"):
        planned(workplace, *CPU, "wandb_project=x")


def test_a_sweep_without_multirun_is_told(workplace):
    with pytest.raises(UserError) as told:
        planned(workplace, *CPU, "seed=1,2")
    assert "--multirun" in told.value.next_step


def test_seeding_shorter_than_an_episode_is_told(workplace):
    with pytest.raises(UserError, match="episode of 500"):
        planned(workplace, *CPU, "seed_steps=499")
    assert "not be trained" in planned(workplace, *CPU, "seed_steps=600", "steps=550").notes[0]


def test_a_folder_with_files_of_no_run_is_never_replaced(workplace):
    folder = workplace / "logs/cheetah-run/1/default"
    folder.mkdir(parents=True)
    assert planned(workplace, *CPU)  # empty: free to take
    (folder / "thesis.tex").write_text("x")
    with pytest.raises(UserError, match="no run's"):
        making.carry_out(planned(workplace, *CPU, "overwrite=true"))
    assert [path.name for path in folder.iterdir()] == ["thesis.tex"]


def test_hydra_gets_paths_with_odd_characters_whole(workplace):
    folder = workplace / "it's a, folder=1"
    folder.mkdir()
    found = planned(folder, *CPU)
    assert composed(found.patched.code_dir, found.launch["words"])  # Hydra reads it
    assert str(found.folder).startswith(str(folder))


def test_what_is_not_drawn_needs_no_rendering_library(workplace, monkeypatch):
    assert planned(workplace, *CPU).environment["MUJOCO_GL"] == "disable"
    monkeypatch.setattr(rendering, "why_not", lambda value, source: "")
    assert planned(workplace, *CPU, "save_video_files=false", "obs=rgb").environment["MUJOCO_GL"] == "egl"
    monkeypatch.setenv("MUJOCO_GL", "egl")
    assert "MUJOCO_GL" not in planned(workplace, *CPU).environment


def test_physics_is_the_same_without_a_rendering_library():
    play = (
        "import numpy as np\nfrom dm_control import suite\n"
        "env = suite.load('walker', 'walk', task_kwargs={'random': 3})\n"
        "random, seen = np.random.RandomState(0), [env.reset()]\n"
        "seen += [env.step(random.uniform(-1, 1, 6)) for _ in range(50)]\n"
        "print([v.tobytes().hex() for s in seen for v in map(np.asarray, s.observation.values())])"
    )
    backends = source_named("dm_control").renderer.backends
    drawing = next((backend for backend in backends if rendering.works(backend)), None)
    if drawing is None:
        pytest.skip("no rendering library here to compare with")
    traces = []
    for backend in (drawing, "disable"):
        env = os.environ | {"MUJOCO_GL": backend}
        traces.append(subprocess.run([sys.executable, "-c", play], env=env, capture_output=True, check=True))
    assert traces[0].stdout == traces[1].stdout and len(traces[0].stdout) > 1000


def test_the_official_tasks_are_known(official):
    code = official.code_dir
    names = (
        "cheetah-run cartpole-swingup-sparse cup-catch pointmass-easy cheetah-jump cup-spin mt30 mt80 "
        "hopper-hop-backwards dog-run mw-assembly pick-ycb myo-pen-twirl mujoco-walker bipedal-walker"
    )
    for name in [*names.split(), "cheetah_run", "mw-newer-than-this"]:
        dm_control.check(name, code)
    custom = {name.spelled("tdmpc2") for name in tdmpc2_tasks.custom(code)}
    assert "cheetah-jump" in custom and "cheetah-run" not in custom
    assert dm_control.is_dmcontrol("cup-spin", code)
    assert not any(dm_control.is_dmcontrol(name, code) for name in ("mw-assembly", "mt30", "mt80"))
    with pytest.raises(UserError, match="Did you mean 'walker-walk'"):
        dm_control.check("walker-wlak", code)


def test_threads_come_from_the_word_the_environment_or_the_cores(tmp_path, monkeypatch):
    assert threads.chosen("3", {"OMP_NUM_THREADS": "2"})[0] == 3
    assert threads.chosen(None, {"OMP_NUM_THREADS": "2"})[0] == 2
    monkeypatch.setattr(threads, "usable_cores", lambda: 64)
    assert threads.chosen(None, {})[0] == threads.MOST
    monkeypatch.setattr(threads, "usable_cores", lambda: 1)
    assert threads.chosen(None, {})[0] == 1
    for wrong in ("0", "-1", "many", "1.5", "²"):
        with pytest.raises(UserError):
            threads.chosen(wrong, {})


def test_a_containers_limit_bounds_the_threads(tmp_path):
    (tmp_path / "cpu.max").write_text("250000 100000\n")
    assert threads.quota(tmp_path / "cpu.max") == 2
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert threads.quota(tmp_path / "cpu.max") > 1000
    assert threads.quota(tmp_path / "absent") > 1000
