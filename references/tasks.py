"""What each reference calls a task, and where that task is: in dm_control, and in MuJoCo Playground.

The maps are explicit and total: every task of every reference stands here, and an unknown name raises.
Playground's names are those of its registry at version 0.2.0 (the tag v0.2.0 and main of August 2026 agree).
"""

from dataclasses import dataclass

from tdmpc2_lean.errors import UserError

PLAYGROUND_VERSION = "0.2.0"

NO_DOG = "Playground has no dog"
NO_QUADRUPED = "Playground's control suite has no quadruped"
CUSTOM = "a task of TD-MPC2's own"


@dataclass(frozen=True)
class Task:
    """A task under a reference's name.

    name: what the reference calls it.
    domain, task: dm_control's names.
    custom: True if the task is defined by TD-MPC2's code and absent from dm_control's own suite.
    playground: the id in MuJoCo Playground's registry, or None.
    why_not: why Playground has none; empty if it has.
    """

    name: str
    domain: str
    task: str
    playground: str | None = None
    why_not: str = ""

    @property
    def custom(self) -> bool:
        return self.why_not == CUSTOM


def _table(*tasks: Task) -> dict[str, Task]:
    return {task.name: task for task in tasks}


TDMPC2 = _table(
    Task("acrobot-swingup", "acrobot", "swingup", "AcrobotSwingup"),
    Task("cartpole-balance", "cartpole", "balance", "CartpoleBalance"),
    Task("cartpole-balance-sparse", "cartpole", "balance_sparse", "CartpoleBalanceSparse"),
    Task("cartpole-swingup", "cartpole", "swingup", "CartpoleSwingup"),
    Task("cartpole-swingup-sparse", "cartpole", "swingup_sparse", "CartpoleSwingupSparse"),
    Task("cheetah-jump", "cheetah", "jump", None, CUSTOM),
    Task("cheetah-run", "cheetah", "run", "CheetahRun"),
    Task("cheetah-run-back", "cheetah", "run_back", None, CUSTOM),
    Task("cheetah-run-backwards", "cheetah", "run_backwards", None, CUSTOM),
    Task("cheetah-run-front", "cheetah", "run_front", None, CUSTOM),
    Task("cup-catch", "ball_in_cup", "catch", "BallInCup"),
    Task("cup-spin", "ball_in_cup", "spin", None, CUSTOM),
    Task("dog-run", "dog", "run", None, NO_DOG),
    Task("dog-stand", "dog", "stand", None, NO_DOG),
    Task("dog-trot", "dog", "trot", None, NO_DOG),
    Task("dog-walk", "dog", "walk", None, NO_DOG),
    Task("finger-spin", "finger", "spin", "FingerSpin"),
    Task("finger-turn-easy", "finger", "turn_easy", "FingerTurnEasy"),
    Task("finger-turn-hard", "finger", "turn_hard", "FingerTurnHard"),
    Task("fish-swim", "fish", "swim", "FishSwim"),
    Task("hopper-hop", "hopper", "hop", "HopperHop"),
    Task("hopper-hop-backwards", "hopper", "hop_backwards", None, CUSTOM),
    Task("hopper-stand", "hopper", "stand", "HopperStand"),
    Task("humanoid-run", "humanoid", "run", "HumanoidRun"),
    Task("humanoid-stand", "humanoid", "stand", "HumanoidStand"),
    Task("humanoid-walk", "humanoid", "walk", "HumanoidWalk"),
    Task("pendulum-spin", "pendulum", "spin", None, CUSTOM),
    Task("pendulum-swingup", "pendulum", "swingup", "PendulumSwingup"),
    Task("quadruped-run", "quadruped", "run", None, NO_QUADRUPED),
    Task("quadruped-walk", "quadruped", "walk", None, NO_QUADRUPED),
    Task("reacher-easy", "reacher", "easy", "ReacherEasy"),
    Task("reacher-hard", "reacher", "hard", "ReacherHard"),
    Task("reacher-three-easy", "reacher", "three_easy", None, CUSTOM),
    Task("reacher-three-hard", "reacher", "three_hard", None, CUSTOM),
    Task("walker-run", "walker", "run", "WalkerRun"),
    Task("walker-run-backwards", "walker", "run_backwards", None, CUSTOM),
    Task("walker-stand", "walker", "stand", "WalkerStand"),
    Task("walker-walk", "walker", "walk", "WalkerWalk"),
    Task("walker-walk-backwards", "walker", "walk_backwards", None, CUSTOM),
)

DREAMERV3 = _table(
    Task("dmc_acrobot_swingup", "acrobot", "swingup", "AcrobotSwingup"),
    Task("dmc_ball_in_cup_catch", "ball_in_cup", "catch", "BallInCup"),
    Task("dmc_cartpole_balance", "cartpole", "balance", "CartpoleBalance"),
    Task("dmc_cartpole_balance_sparse", "cartpole", "balance_sparse", "CartpoleBalanceSparse"),
    Task("dmc_cartpole_swingup", "cartpole", "swingup", "CartpoleSwingup"),
    Task("dmc_cartpole_swingup_sparse", "cartpole", "swingup_sparse", "CartpoleSwingupSparse"),
    Task("dmc_cheetah_run", "cheetah", "run", "CheetahRun"),
    Task("dmc_finger_spin", "finger", "spin", "FingerSpin"),
    Task("dmc_finger_turn_easy", "finger", "turn_easy", "FingerTurnEasy"),
    Task("dmc_finger_turn_hard", "finger", "turn_hard", "FingerTurnHard"),
    Task("dmc_hopper_hop", "hopper", "hop", "HopperHop"),
    Task("dmc_hopper_stand", "hopper", "stand", "HopperStand"),
    Task("dmc_pendulum_swingup", "pendulum", "swingup", "PendulumSwingup"),
    Task("dmc_reacher_easy", "reacher", "easy", "ReacherEasy"),
    Task("dmc_reacher_hard", "reacher", "hard", "ReacherHard"),
    Task("dmc_walker_run", "walker", "run", "WalkerRun"),
    Task("dmc_walker_stand", "walker", "stand", "WalkerStand"),
    Task("dmc_walker_walk", "walker", "walk", "WalkerWalk"),
)

# The 30 tasks of TD-MPC2's multi-task set mt30, in its order: a task's index is its position here.
MT30 = tuple(
    """
    walker-stand walker-walk walker-run cheetah-run reacher-easy reacher-hard acrobot-swingup
    pendulum-swingup cartpole-balance cartpole-balance-sparse cartpole-swingup cartpole-swingup-sparse
    cup-catch finger-spin finger-turn-easy finger-turn-hard fish-swim hopper-stand hopper-hop
    walker-walk-backwards walker-run-backwards cheetah-run-backwards cheetah-run-front cheetah-run-back
    cheetah-jump hopper-hop-backwards reacher-three-easy reacher-three-hard cup-spin pendulum-spin
    """.split()
)

OF_UPSTREAM = {"tdmpc2": TDMPC2, "dreamerv3": DREAMERV3}


def in_both_physics(upstream: str) -> tuple[str, ...]:
    """The tasks of an upstream's reference that dm_control and Playground both have, by the reference's names.

    22 of TD-MPC2's 39, all 18 of DreamerV3's. A task of TD-MPC2's own is dm_control's too: its code adds it there.
    """
    return tuple(name for name, known in OF_UPSTREAM[upstream].items() if known.playground)


def task(name: str) -> Task:
    """The task that a reference calls `name`; an unknown one is a UserError that suggests the nearest."""
    known = TDMPC2 | DREAMERV3
    if name not in known:
        from tdmpc2_lean.nearest import did_you_mean

        raise UserError(
            f"No reference has a task {name!r}.{did_you_mean(name, known)}",
            "tdmpc2-lean references list tdmpc2_dmc, or dreamerv3_dmc_proprio",
        )
    return known[name]
