"""Which tasks the code of TD-MPC2 that will run knows: read from its files, not imported, and asked of the source."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tdmpc2_lean.environments import names
from tdmpc2_lean.environments.names import TaskName
from tdmpc2_lean.environments.source import EnvironmentSource
from tdmpc2_lean.parsing import parse
from tdmpc2_lean.references import tasks as references

EXAMPLE = "write task=DOMAIN-TASK with a task of dm_control's suite, such as task=cheetah-run"
OWN_SOURCE = "dm_control"  # to which the code adds tasks, and beside which it has suites and sets
SETS = "TASK_SET"  # in common/__init__.py: {name of a multi-task set: its tasks}


@dataclass(frozen=True)
class TDMPC2Suite:
    """A suite of the official code besides its dm_control; what is said here was read in the code at e9f5932.

    prefix: of its tasks' names; where there is one, tasks are left to the suite, of which other versions have others.
    action_repeat: env steps of an agent step.       agent_steps: of an episode; None where tasks differ.
    modules: what it imports to make an environment.
    """

    prefix: str | None
    action_repeat: int
    agent_steps: int | None
    modules: tuple[str, ...]


# By the name of their file in envs/.
SUITES = {
    "metaworld": TDMPC2Suite("mw-", 2, 100, ("envs.metaworld",)),
    "maniskill": TDMPC2Suite(None, 2, 100, ("envs.maniskill",)),
    "myosuite": TDMPC2Suite("myo-", 1, 100, ("envs.myosuite", "myosuite")),
    "mujoco": TDMPC2Suite("mujoco-", 1, None, ("envs.mujoco",)),
}


def spelled(written: str) -> str:
    """The official spelling of a name that the official code would read: 'cheetah_run' becomes 'cheetah-run'."""
    return written.replace("_", "-")


def of_source(written: str, code_dir: Path, source: EnvironmentSource) -> TaskName | None:
    """The task of the source that is written in any spelling; None if the source has none that the code can reach.

    Of dm_control, tasks that the code adds are among them. The source's packages are asked only for tasks that no
    reference names: UserError if they cannot be imported then.
    """
    if source.name == OWN_SOURCE:
        known = {TaskName(task.domain, task.task) for task in references.TDMPC2.values() if not task.custom}
        if name := names.found(written, known | custom(code_dir)):
            return name
    name = names.found(written, source.tasks())
    return name if name and name.spelled("tdmpc2") else None


def offered(code_dir: Path, source: EnvironmentSource) -> list[str | TaskName]:
    """All that may be asked of the code with this source, for the nearest to a misspelt name."""
    own = source.name == OWN_SOURCE
    known = source.tasks() | (custom(code_dir) if own else set())
    return [*(task for task in known if task.spelled("tdmpc2")), *(named_in_code(code_dir) if own else ())]


def suite_of(written: str, code_dir: Path) -> str | None:
    """The other suite whose task this is, by the code's own tables or its prefix; None if it is none's."""
    name = spelled(written)
    for suite, known in SUITES.items():
        if known.prefix and name.startswith(known.prefix):
            return suite
    for suite in SUITES:
        if name in named_in(code_dir / "envs" / f"{suite}.py"):
            return suite
    return None


def sets(code_dir: Path) -> dict[str, tuple[str, ...]]:
    """{multi-task set: its tasks} of the code."""
    for name, value in tables(code_dir / "common" / "__init__.py"):
        if name == SETS:
            return {key: members for key, members in value.items()}
    return {}


def custom(code_dir: Path) -> set[TaskName]:
    """The tasks that envs/tasks/*.py add to dm_control's suite, by the functions that they register."""
    found = set()
    for path in sorted((code_dir / "envs" / "tasks").glob("*.py")):
        for node in parsed(path):
            if isinstance(node, ast.FunctionDef) and any(
                isinstance(decorator, ast.Call)
                and isinstance(decorator.func, ast.Attribute)
                and decorator.func.attr == "add"
                for decorator in node.decorator_list
            ):
                found.add(TaskName(path.stem, node.name))
    return found


def named_in(path: Path) -> set[str]:
    """The tasks in the tables of a suite's file."""
    return {task for name, value in tables(path) if name.endswith("_TASKS") for task in value}


def named_in_code(code_dir: Path) -> set[str]:
    """Names in the code's own tables: multi-task sets, their members, and the suites besides dm_control."""
    found = {member for members in sets(code_dir).values() for member in members} | set(sets(code_dir))
    for path in sorted((code_dir / "envs").glob("*.py")):
        found |= named_in(path)
    return found


def tables(path: Path) -> Iterator[tuple[str, dict[str, tuple[str, ...]]]]:
    """(name, {key: the strings of its list, if it is one}) of each dictionary that a file assigns."""
    for node in parsed(path):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Dict):
            continue
        value = {
            str(key.value): tuple(
                str(item.value) for item in getattr(listed, "elts", ()) if isinstance(item, ast.Constant)
            )
            for key, listed in zip(node.value.keys, node.value.values, strict=True)
            if isinstance(key, ast.Constant)
        }
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, value


def parsed(path: Path) -> list[ast.stmt]:
    """A file's statements; none if it is absent or no Python, which the run itself will tell."""
    try:
        return parse(path.read_text(encoding="utf-8")).body
    except (OSError, SyntaxError, ValueError):
        return []
