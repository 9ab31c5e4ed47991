"""What the authors published: where the files of each reference stand, and what is known about them.

`extract` reads the files and writes the references from them and from what is said here.
"""

from dataclasses import dataclass, field
from typing import Any

from tdmpc2_lean.references import tasks

ENV_STEPS = "env steps (simulator steps; agent steps x action repeat 2)"
RETURNS = "return of an episode of 1000 env steps (rewards of 0 to 1 a step, so 0 to 1000)"
EPISODES_UNKNOWN = "The source says neither how episodes were binned nor how many a point holds."
HOW_POINTS_WERE_MADE_UNKNOWN = "The source does not say how these points were computed."


@dataclass(frozen=True)
class Publication:
    """Where the figures of one reference stand, and what is known about them.

    folder: in the official repository.      beside: in a folder of result files laid out by upstream.
    files: the files' names.                 decimals: of the returns, as kept.
    digest: of these files at `commit` (see `extract.digest_of`).
    versions: {"packages": {name: version, or None where no version is named}, "source": where that stands}.
    """

    name: str
    title: str
    agent: str
    repository: str
    commit: str
    folder: str
    beside: str
    files: tuple[str, ...]
    licence: str
    copyright: str
    protocol: dict[str, Any]
    binning: str
    decimals: int
    digest: str
    versions: dict[str, Any]
    notes: tuple[str, ...] = ()
    task_sets: dict[str, tuple[str, ...]] = field(default_factory=dict)


def _of_tdmpc2(folder: str, **known: Any) -> Publication:
    return Publication(
        repository="https://github.com/nicklashansen/tdmpc2",
        commit="e9f59321933cbc8e11a002b842adc7d4ffae8ff1",
        folder=f"results/{folder}",
        beside=f"tdmpc2/{folder}",
        files=tuple(f"{task}.csv" for task in tasks.TDMPC2),
        licence="MIT",
        copyright="Copyright (c) Nicklas Hansen (2023).",
        decimals=1,
        **known,
    )


def _of_dreamerv3(file: str, **known: Any) -> Publication:
    return Publication(
        repository="https://github.com/danijar/dreamerv3",
        commit="e3f02248693a79dc8b0ebd62c93683888ddaccfe",
        folder="scores",
        beside="dreamerv3",
        files=(file,),
        licence="MIT",
        copyright="Copyright (c) 2024 Danijar Hafner",
        decimals=2,
        **known,
    )


BUDGETS = {"default": 4_000_000, "dog": 14_000_000, "humanoid": 14_000_000}
BESIDE_TDMPC2 = {"action_repeat": 2, "budget_env_steps": BUDGETS, "observations": "state", "seeds": [1, 2, 3]}
BASELINE = "A baseline: the files do not say which code, settings or evaluation made it."
VERSIONS_UNKNOWN = {
    "packages": {},
    "source": "Not known: the source does not say which code made these curves, nor with what.",
}
VERSIONS_OF_TDMPC2 = {
    "packages": {
        "dm_control": None,
        "gym": "0.21.0",
        "mujoco": "2.3.1",
        "python": "3.9.0",
        "tensordict": None,
        "torch": None,
        "torchrl": None,
    },
    "source": "What docker/environment.yaml asks for at b67b21c, the commit that added these curves; the curves' files "
    "themselves do not say.",
}
VERSIONS_OF_DREAMERV3 = {
    "packages": {"dm_control": None, "jax": None, "mujoco": None, "numpy": None, "python": "3.11"},
    "source": "What dreamerv3/Dockerfile and the two requirements.txt ask for at 2411f7d, the commit that added these "
    "curves, of which none names a version of a package; the curves' file itself does not say.",
}
DOGS = "The four dog tasks reach 14M env steps, as the three humanoid tasks do; all others reach 4M."

PUBLICATIONS = (
    _of_tdmpc2(
        "tdmpc2",
        name="tdmpc2_dmc",
        title="TD-MPC2 on 39 DMControl tasks",
        agent="TD-MPC2",
        protocol=BESIDE_TDMPC2
        | {
            "agent_steps_per_episode": 500,
            "evaluation": "10 episodes, acting with the planner",
            "evaluation_every_env_steps": 100_000,
            "model_size": 5,
        },
        binning="None: a point is one evaluation, the mean return of its 10 episodes.",
        digest="c60151b8256425bd07bc246dcb79151e1bfaea75df81e98484294ea7dee1ddca",
        versions=VERSIONS_OF_TDMPC2,
        notes=(
            DOGS,
            "Added in b67b21c, as results/*.csv, and the same at every commit since.",
        ),
        task_sets={"mt30": tasks.MT30},
    ),
    _of_tdmpc2(
        "tdmpc",
        name="tdmpc2_dmc_vs_tdmpc",
        title="TD-MPC on the same 39 tasks, as TD-MPC2's authors publish it",
        agent="TD-MPC",
        protocol=BESIDE_TDMPC2,
        binning=HOW_POINTS_WERE_MADE_UNKNOWN,
        digest="c74bfbf8e3fe1485e5eb2c9e6fba6fcf963e3de147c0df96bae58f47bbd750cc",
        versions=VERSIONS_UNKNOWN,
        notes=(
            BASELINE,
            "Of a seed listed twice (its steps start again at 0) the run that gets farthest is the curve; "
            "the other, a different run, is kept under further_runs.",
        ),
    ),
    _of_tdmpc2(
        "sac",
        name="tdmpc2_dmc_vs_sac",
        title="SAC on the same 39 tasks, as TD-MPC2's authors publish it",
        agent="SAC",
        protocol=BESIDE_TDMPC2,
        binning=HOW_POINTS_WERE_MADE_UNKNOWN,
        digest="7b10b5aa23d1c5bb4db66e75ddcd777fbce56178f8e3ce85c0caec63065f1b69",
        versions=VERSIONS_UNKNOWN,
        notes=(BASELINE,),
    ),
    _of_tdmpc2(
        "dreamerv3",
        name="tdmpc2_dmc_vs_dreamerv3",
        title="DreamerV3 on the same 39 tasks, as TD-MPC2's authors publish it",
        agent="DreamerV3",
        protocol=BESIDE_TDMPC2,
        binning=HOW_POINTS_WERE_MADE_UNKNOWN + " Points lie on multiples of 100000, with many missing.",
        digest="f8453c7c772c29504a0e3d8b3ae399e3f8f4ed5435ccf99c109312c0c99a60be",
        versions=VERSIONS_UNKNOWN,
        notes=(
            BASELINE,
            "Not the runs of dreamerv3_dmc_proprio: other budget, seeds and points.",
        ),
    ),
    _of_dreamerv3(
        "dmc_proprio-dreamerv3.json.gz",
        name="dreamerv3_dmc_proprio",
        title="DreamerV3 on 18 DMControl tasks from proprioceptive inputs",
        agent="DreamerV3",
        protocol={
            "action_repeat": 2,
            "budget_env_steps": {"default": 500_000},
            "metric": "return of the training episodes, by the stochastic policy",
            "observations": "state",
            "seeds": [0, 1, 2, 3, 4],
        },
        binning="One point every 10000 env steps. " + EPISODES_UNKNOWN,
        digest="b461e9ffb320f69a95ff54675d1a599fc59d3f42610af6ff7cb2c9353bde52df",
        versions=VERSIONS_OF_DREAMERV3,
        notes=(
            "Returns are rounded to 0.01; the source has up to 10 decimals.",
            "The last point is at 490000 env steps, not at the budget of 500000.",
            "dmc_cartpole_swingup_sparse is 0 at every point for seed 1.",
            "Added in 2411f7d, and the same at every commit since.",
        ),
    ),
    _of_dreamerv3(
        "dmc_proprio-ppo_fixhp.json.gz",
        name="dreamerv3_dmc_proprio_vs_ppo",
        title="PPO on the same 18 tasks, as DreamerV3's author publishes it",
        agent="PPO",
        protocol={
            "budget_env_steps": {"default": 500_000},
            "observations": "state",
            "seeds": [0, 1, 2, 3, 4],
        },
        binning="One point every 1000 env steps. " + EPISODES_UNKNOWN,
        digest="e5e155533f35fee4e8ab7a15a7992b0afb08067edc7ce3bd57beb240cf1225b1",
        versions=VERSIONS_UNKNOWN,
        notes=(
            "Returns are rounded to 0.01; the source has up to 5 decimals.",
            "dmc_cartpole_swingup_sparse is 0 at every point for seeds 1 and 2.",
        ),
    ),
)
