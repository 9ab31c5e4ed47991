"""What earlier callers ask of TD-MPC2's tasks on dm_control; `environments.find` says it all at once."""

from pathlib import Path

from tdmpc2_lean import environments
from tdmpc2_lean.environments import tdmpc2_tasks
from tdmpc2_lean.environments.sources.dm_control import SOURCE
from tdmpc2_lean.errors import UserError

EPISODE_OF_DMCONTROL = SOURCE.agent_steps("tdmpc2")
ACTION_REPEAT_OF_DMCONTROL = SOURCE.uses["tdmpc2"].action_repeat


def check(task: str, code_dir: Path) -> None:
    """UserError, with the nearest right name, for a task that the code in code_dir cannot know, or not so spelled."""
    found = environments.find("tdmpc2", task, code_dir)
    if found.task != tdmpc2_tasks.spelled(task):
        raise UserError(f"TD-MPC2 spells {task} otherwise.", f"write task={found.task}")


def is_dmcontrol(task: str, code_dir: Path) -> bool:
    """Whether the task is one that dm_control simulates: of its suite, or one that the code adds to it. No set is."""
    found = environments.find("tdmpc2", task, code_dir)
    return found.source is SOURCE and found.name is not None
