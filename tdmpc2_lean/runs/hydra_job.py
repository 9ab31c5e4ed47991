"""One run as a job of Hydra's, so that many are a sweep with whatever launcher the user has.

    python -m tdmpc2_lean.runs.hydra_job protocol=tdmpc2-walker-walk seed=1
    python -m tdmpc2_lean.runs.hydra_job --multirun protocol=tdmpc2-walker-walk,tdmpc2-cheetah-run seed=1,2,3 \\
        hydra/launcher=joblib hydra.launcher.n_jobs=2

Launchers: basic (in turn), joblib (one machine; hydra-joblib-launcher), submitit_local and submitit_slurm
(hydra-submitit-launcher), ray (hydra-ray-launcher). A job whose run is finished or held by another process is done.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.singleton import Singleton
from hydra.errors import CompactHydraException
from omegaconf import MISSING


@dataclass
class JobConfig:
    """The words of a job; lean: presets' names joined by '+'."""

    protocol: str = MISSING
    seed: int = 1
    out: str = "runs"
    lean: str = ""
    device: str | None = None
    compile: bool | None = None
    threads: int | None = None
    upstream: str | None = None
    checkpoint_minutes: float | None = None
    # No folders of Hydra's own beside the runs', but for what launchers log of a sweep.
    hydra: Any = field(
        default_factory=lambda: {
            "output_subdir": None,
            "run": {"dir": "."},
            "sweep": {"dir": "${out}/.sweeps/${now:%Y-%m-%d_%H-%M-%S}", "subdir": "${hydra.job.num}"},
            "job_logging": {"root": {"handlers": []}},
        }
    )


@contextlib.contextmanager
def another_hydra() -> Iterator[None]:
    """Within a job of Hydra's, room for the official configuration to be composed by Hydra."""
    state = Singleton.get_state()
    GlobalHydra.instance().clear()
    try:
        yield
    finally:
        Singleton.set_state(state)


ConfigStore.instance().store(name="job", node=JobConfig)


@hydra.main(config_name="job", config_path=None, version_base=None)
def main(config) -> str:
    """Make the run; returns what became of it."""
    from tdmpc2_lean.errors import UserError
    from tdmpc2_lean.runs import Held, Surroundings, jobs, make

    presets = tuple(part for part in config.lean.split("+") if part)
    surroundings = Surroundings(
        config.device, config.compile, config.threads, config.upstream, False, config.checkpoint_minutes
    )
    try:
        (job,) = jobs.jobs([config.protocol], [config.seed])
        out = Path(hydra.utils.to_absolute_path(config.out))
        with another_hydra():
            made = make(job.protocol, job.seed, out, presets, surroundings, True)
        became = jobs.MADE if made else jobs.SKIPPED
    except Held as held:
        became = held.message
    except UserError as error:
        # Not SystemExit: that would end a worker of Ray's, which then tries the same job again.
        raise CompactHydraException(f"{config.protocol}, seed {config.seed}: {error}") from None
    print(f"{config.protocol}, seed {config.seed}: {became}")
    return became


if __name__ == "__main__":
    main()
