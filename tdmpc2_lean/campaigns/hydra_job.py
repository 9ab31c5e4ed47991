"""One run as a job of Hydra's, so that many are a sweep with whatever launcher the user has.

    python -m tdmpc2_lean.campaigns.hydra_job protocol=tdmpc2-walker-walk seed=1
    python -m tdmpc2_lean.campaigns.hydra_job --multirun protocol=tdmpc2-walker-walk,tdmpc2-cheetah-run seed=1,2,3 \\
        hydra/launcher=joblib hydra.launcher.n_jobs=2

Launchers: basic (in turn), joblib (one machine; hydra-joblib-launcher), submitit_local and submitit_slurm
(hydra-submitit-launcher), ray (hydra-ray-launcher). A job whose run is finished or held by another process is done.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.errors import CompactHydraException
from omegaconf import MISSING, OmegaConf


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


ConfigStore.instance().store(name="job", node=JobConfig)


@hydra.main(config_name="job", config_path=None, version_base=None)
def main(config) -> str:
    """Make the run; returns what became of it."""
    from tdmpc2_lean.campaigns import protocol_runs
    from tdmpc2_lean.errors import UserError
    from tdmpc2_lean.runs import jobs
    from tdmpc2_lean.runs.folder import Held
    from tdmpc2_lean.runs.plan import Conditions

    if OmegaConf.is_missing(config, "protocol"):
        raise CompactHydraException("which protocol? Write protocol=NAME; the names: tdmpc2-lean validate list")
    presets = tuple(part for part in config.lean.split("+") if part)
    conditions = Conditions(
        config.device, config.compile, config.threads, config.upstream, False, config.checkpoint_minutes
    )
    out = Path(hydra.utils.to_absolute_path(config.out))
    try:
        (job,) = protocol_runs.jobs(
            [config.protocol], out, seeds=[config.seed], presets=presets, conditions=conditions
        )
        (result,) = jobs.run_all([job], quiet=True, tell=lambda text: None)
        became = result.became
    except Held as held:
        became = held.message
    except UserError as error:
        # Not SystemExit: that would end a worker of Ray's, which then tries the same job again.
        raise CompactHydraException(f"{config.protocol}, seed {config.seed}: {error}") from None
    print(f"{config.protocol}, seed {config.seed}: {became}")
    return became


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
