"""Which tasks the bridge to the official DreamerV3 trains on, and what it says of the others that the code knows."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tdmpc2_lean.environments import names
from tdmpc2_lean.environments.names import TaskName
from tdmpc2_lean.environments.source import EnvironmentSource
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.references import tasks as references

EXAMPLE = "write task=DOMAIN-TASK or task=dmc_DOMAIN_TASK, such as task=cheetah-run"


@dataclass(frozen=True)
class DreamerV3Suite:
    """Another suite of the official code. file: its module in embodied/envs. needs: what that imports, by module."""

    file: str
    needs: tuple[str, ...] = ()


# By the first word of their tasks' names; from make_env in dreamerv3/main.py at e3f0224 and the imports of its modules.
SUITES = {
    "atari": DreamerV3Suite("atari", ("ale_py", "PIL")),
    "atari100k": DreamerV3Suite("atari", ("ale_py", "PIL")),
    "bsuite": DreamerV3Suite("bsuite", ("bsuite",)),
    "crafter": DreamerV3Suite("crafter", ("crafter",)),
    "dm": DreamerV3Suite("from_dm"),
    "dmlab": DreamerV3Suite("dmlab", ("deepmind_lab",)),
    "dummy": DreamerV3Suite("dummy"),
    "gym": DreamerV3Suite("from_gym", ("gym",)),
    "langroom": DreamerV3Suite("langroom"),
    "loconav": DreamerV3Suite("loconav", ("dm_control", "labmaze", "matplotlib")),
    "memmaze": DreamerV3Suite("from_gym", ("memory_maze", "gym")),
    "minecraft": DreamerV3Suite("minecraft", ("minerl",)),
    "pinpad": DreamerV3Suite("pinpad"),
    "procgen": DreamerV3Suite("procgen", ("procgen", "PIL")),
}


def suite_of(written: str) -> str | None:
    """The other suite whose task this is, by its first word; None if it is none's."""
    first, separator, _ = written.partition("_")
    return first if separator and first in SUITES else None


def check_suite(written: str, suite: str, code_dir: Path | None) -> None:
    """UserError for a task of another suite that cannot be run here. code_dir: the code's, or None if it is not known.

    One that can is let through as it is written.
    """
    known = SUITES[suite]
    absent = [name for name in known.needs if find_spec(name) is None]
    why = f"which needs {', '.join(absent)}, not installed here" if absent else ""
    if code_dir is not None and not (code_dir / "embodied" / "envs" / f"{known.file}.py").is_file():
        why = f"which this checkout lacks (embodied/envs/{known.file}.py)"
    if why:
        raise UserError(
            f"this bridge trains on state observations of dm_control. {written} is a task of the official code's "
            f"suite {suite}, {why}.",
            "name a task of dm_control's suite, such as task=cheetah-run; for others use the official code itself",
        )


def of_source(written: str, source: EnvironmentSource) -> TaskName:
    """The task of the source that is written in any spelling. UserError, with the nearest, if there is none.

    The source's packages are asked only for tasks that no reference names: UserError if they cannot be imported then.
    """
    known: set[TaskName] = set()
    own: set[TaskName] = set()
    if source.name == "dm_control":
        every = [*references.DREAMERV3.values(), *references.TDMPC2.values()]
        own = {TaskName(task.domain, task.task) for task in every if task.custom}
        known = {TaskName(task.domain, task.task) for task in every if not task.custom}
    if name := names.found(written, known):
        return name
    if names.found(written, own):
        raise UserError(
            f"{written} is a task of TD-MPC2's own code; the official DreamerV3 does not have it.",
            "tdmpc2-lean train has it; for DreamerV3 name a task of dm_control's suite",
        )
    known |= source.tasks()
    name = names.found(written, known)
    if name is None or name.spelled("dreamerv3") is None:
        raise names.unknown(written, [task for task in known if task.spelled("dreamerv3")], EXAMPLE)
    return name
