"""A run is a job of Hydra's: a sweep over protocols and seeds goes through any launcher."""

import importlib.util
import os
import subprocess
import sys

import pytest
from hydra.errors import CompactHydraException
from omegaconf import OmegaConf
from test_protocol_runs import finished

from tdmpc2_lean.campaigns import hydra_job
from tdmpc2_lean.runs import curve
from tdmpc2_lean.runs import folder as folders
from tdmpc2_lean.runs.folder import folder_of
from tdmpc2_lean.validation.judging import protocols

JOB = [sys.executable, "-m", "tdmpc2_lean.campaigns.hydra_job"]
LAUNCHERS = {"basic": None, "joblib": "hydra_plugins.hydra_joblib_launcher", "submitit_local": "submitit"}


def swept(tmp_path, *words):
    done = subprocess.run(
        [*JOB, *words],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    return done.returncode, done.stdout


def importable(module):
    try:
        return module is None or importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_sweep_reaches_every_run(tmp_path, launcher):
    if not importable(LAUNCHERS[launcher]):
        pytest.skip(f"the launcher {launcher} is not installed")
    names = ("tdmpc2-walker-walk", "tdmpc2-cheetah-run")
    for name in names:
        finished(tmp_path / "runs", protocol=protocols.protocol(name))
    with folders.held(folder_of(tmp_path / "runs", names[1], (), 1)):
        words = ["--multirun", f"protocol={','.join(names)}", "seed=1", f"hydra/launcher={launcher}"]
        words += ["device=cpu", "compile=false", "threads=1", "upstream=miniature"]
        code, output = swept(tmp_path, *words)
    assert code == 0, output
    if launcher == "submitit_local":  # each job has a log of its own
        output = "".join(path.read_text() for path in (tmp_path / "runs" / ".sweeps").rglob("*_log.out"))
    assert "tdmpc2-walker-walk, seed 1: was finished" in output
    assert f"is being made by process {os.getpid()}" in output


def test_a_mistake_in_a_job_is_told(tmp_path):
    code, output = swept(tmp_path, "protocol=tdmpc2-walker-wlak")
    assert code != 0 and "tdmpc2-walker-walk" in output and "Traceback" not in output


@pytest.mark.parametrize("words", [(), ("seed=2",), ("--multirun", "seed=1,2")])
def test_a_job_without_a_protocol_asks_for_one(tmp_path, words):
    code, output = swept(tmp_path, *words)
    assert code != 0 and "which protocol? Write protocol=NAME" in output and "Traceback" not in output


def test_a_job_that_is_refused_raises_and_does_not_end_the_worker_it_is_in():
    """Ray tries a job again whose worker has ended."""
    with pytest.raises(CompactHydraException, match="tdmpc2-walker-walk"):
        hydra_job.main(OmegaConf.structured(hydra_job.JobConfig(protocol="tdmpc2-walker-wlak")))


@pytest.mark.slow
def test_a_job_makes_its_run(miniature, tmp_path):
    words = ["--multirun", "protocol=tdmpc2-smoke", "upstream=miniature", "threads=1", "seed=1"]
    code, output = swept(tmp_path, *words)
    assert code == 0 and "tdmpc2-smoke, seed 1: finished" in output, output
    assert len(curve.lines_of(folder_of(tmp_path / "runs", "tdmpc2-smoke", (), 1) / curve.FILE)) == 3
