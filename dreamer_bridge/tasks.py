"""Task names of the official DreamerV3, from `environments`, and what the references call them."""

from tdmpc2_lean import environments
from tdmpc2_lean.environments.names import DMC, TaskName
from tdmpc2_lean.references import tasks as references

__all__ = ["DMC", "REFERENCE", "of_reference", "official"]

REFERENCE = "dreamerv3_dmc_proprio"


def official(name: str) -> str:
    """The task as the official DreamerV3 spells it. UserError, with the nearest, for one that cannot be trained on."""
    return environments.find("dreamerv3", name, None).task


def of_reference(name: str) -> str | None:
    """What the reference calls an official task; None if it has none."""
    found = {TaskName(task.domain, task.task).spelled("dreamerv3"): task.name for task in references.DREAMERV3.values()}
    return found.get(name)
