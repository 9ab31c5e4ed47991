"""The DreamerV3 series: each patch fits alone and on the release's files, and does what it says."""

import os
import shutil

import pytest

from tdmpc2_lean import patched, patching
from tdmpc2_lean.upstreams import tree_id
from tdmpc2_lean.validation.gates import process

pytestmark = pytest.mark.official("dreamerv3")

SERIES = patching.read_series("dreamerv3")
# What release 3.3.1 lacks.
LEFT_OUT = ("dreamerv3/configs.yaml", "embodied/envs/")


@pytest.fixture
def probe(monkeypatch, request, official_dreamerv3):
    """Calls a probe on the fully patched code."""
    for name in ("jax", "elements", "ninjax", "portal", "optax", "chex"):
        pytest.importorskip(name, reason="the extra [dreamer] is not installed")
    monkeypatch.setenv("PYTHONPATH", str(request.path.parent), prepend=os.pathsep)
    code = patched.materialise(official_dreamerv3).code_dir
    return lambda name: process.call(f"probes_dreamerv3:{name}", code)


def test_each_patch_applies_with_what_it_needs_and_nothing_else(official_dreamerv3, clone):
    folder = clone(official_dreamerv3)
    for patch in SERIES:
        assert patching.check(folder, names=[patch.name]).ok, patch.name


def test_new_code_is_indented_with_two_spaces(official_dreamerv3, clone):
    folder = clone(official_dreamerv3)
    patching.apply(folder)
    for name in ("embodied/run/resume.py", "embodied/run/stop.py"):
        indents = {len(line) - len(line.lstrip()) for line in (folder / name).read_text().splitlines() if line.strip()}
        assert 2 in indents and all(indent % 2 == 0 for indent in indents), name


def test_edits_of_files_that_a_release_leaves_out_are_passed_over_and_no_others(official_dreamerv3):
    files = patched.official_files(official_dreamerv3)
    release = {name: files[name] for name in files if not name.startswith(LEFT_OUT)}
    with pytest.raises(patching.LostAnchors):
        patching.render_series(SERIES, release)
    changed = patching.render_series(SERIES, release, LEFT_OUT)
    whole = patching.render_series(SERIES, files)
    assert changed == {name: data for name, data in whole.items() if not name.startswith(LEFT_OUT)}
    assert len(changed) < len(whole)
    del release["embodied/run/train.py"]
    with pytest.raises(patching.LostAnchors, match="train.py"):
        patching.render_series(SERIES, release, LEFT_OUT)


def test_an_unpacked_release_takes_the_series_as_far_as_it_has_the_files(official_release, tmp_path):
    folder = tmp_path / "release"
    shutil.copytree(official_release.root, folder, ignore=shutil.ignore_patterns(".tdmpc2-lean", "__pycache__"))
    before = tree_id(folder)
    found = patching.check(folder)
    assert found.ok and {file for fit in found.fits for file in fit.passed_over} == {
        "dreamerv3/configs.yaml",
        "embodied/envs/dmc.py",
    }
    patching.apply(folder)
    assert (folder / "embodied/run/resume.py").exists() and not (folder / "embodied/envs").exists()
    patching.revert(folder, ["profiler", "from-checkpoint"])
    patching.revert(folder)
    assert tree_id(folder) == before
    (folder / "embodied/envs").mkdir()  # no longer what a release is: nothing may be passed over
    assert not patching.check(folder).ok


def test_a_file_named_as_left_out_is_edited_where_it_is_there(official_dreamerv3):
    files = patched.official_files(official_dreamerv3)
    assert patching.render_series(SERIES, files, LEFT_OUT) == patching.render_series(SERIES, files)


def test_without_a_picture_nothing_is_rendered_and_no_opengl_asked_for(probe):
    seen = probe("no_picture")
    assert seen["gl"] == "disable"
    assert "log/image" not in seen["keys"] and "orientations" in seen["keys"]
    assert seen["by default"]


def test_the_seed_determines_the_environment(probe):
    first, same, other, neighbour = probe("first_observations")["heights"]
    assert first == same
    assert first != other and first != neighbour


def test_reports_drawn_apart_leave_the_training_batches_alone(probe):
    assert probe("reports_apart") == {"apart": True, "shared": False, "without reports": True}


def test_signals_end_a_run_cleanly_and_as_told(probe):
    assert probe("stops") == {
        "SIGTERM": [False, True, "SystemExit", 143],
        "SIGINT": [False, True, "KeyboardInterrupt", None],
        "off": [True, False],
        "ignored": True,
    }


def test_a_saved_replay_goes_on_as_the_uninterrupted_one(probe):
    seen = probe("replay_resumes")
    assert seen.pop("batches") > 100
    assert seen == {
        "latents were updated": True,
        "equal": True,
        "other sampler state": False,
        "without the online queue": False,
    }


def test_a_stream_is_brought_back_between_consecutive_parts(probe):
    assert probe("streams_resume") == {"equal": [True] * 4}


def test_an_environment_is_brought_back_within_an_episode(probe):
    seen = probe("environment_repeats")
    assert seen == {"episodes": 1, "equal": True, "other actions are refused": True}


def test_what_cannot_be_resumed_exactly_is_refused_by_name(probe):
    said = probe("refusals")
    assert said.pop("good") == ""
    for name, text in said.items():
        assert name in text and text.count(";") == 0, (name, text)
