"""Which tasks the code that will run knows: read from its files, not imported, and from dm_control."""

import ast
import os
import subprocess
import sys
from pathlib import Path

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean
from tdmpc2_lean.parsing import parse

# How the official code abbreviates those of dm_control's domains that have an underscore.
ABBREVIATIONS = {"ball_in_cup": "cup", "point_mass": "pointmass"}
# Suites that may be installed in versions with other tasks; a name of this form is left to the suite.
OPEN_PREFIXES = ("mw-", "myo-", "mujoco-")
EPISODE_OF_DMCONTROL = 500  # agent steps
ACTION_REPEAT_OF_DMCONTROL = 2

LIST_OF_SUITE = """
import json
from dm_control import suite
print(json.dumps(suite.ALL_TASKS))
"""


def check(task: str, code_dir: Path) -> None:
    """UserError, with the nearest right name, for a task that the code in code_dir cannot know."""
    name = task.replace("_", "-")
    if name.startswith(OPEN_PREFIXES) or name in named_in_code(code_dir) or is_dmcontrol(task, code_dir):
        return
    known = named_in_code(code_dir) | dmcontrol(code_dir)
    raise UserError(
        f"there is no task {task!r}.{did_you_mean(name, known)}",
        "write task=DOMAIN-TASK with a task of dm_control's suite, such as task=cheetah-run",
    )


def is_dmcontrol(task: str, code_dir: Path) -> bool:
    """Whether the task is simulated by dm_control: one of its suite, or one that the code adds to it."""
    name = task.replace("_", "-")
    return name in custom(code_dir) or name in suite()


def dmcontrol(code_dir: Path) -> set[str]:
    """All tasks that dm_control simulates, in the official spelling: 'cheetah-run'."""
    return custom(code_dir) | suite()


def suite() -> set[str]:
    """The tasks of dm_control's own suite; empty where dm_control is broken, which the run will tell."""
    if not _suite:
        import json

        environment = os.environ | {"MUJOCO_GL": "disable"}
        listed = subprocess.run(
            [sys.executable, "-P", "-c", LIST_OF_SUITE], env=environment, capture_output=True, text=True
        )
        if listed.returncode == 0:
            pairs = json.loads(listed.stdout.splitlines()[-1])
            _suite.update(filter(None, (spelling(domain, task) for domain, task in pairs)))
    return set(_suite)


_suite: set[str] = set()


def spelling(domain: str, task: str) -> str | None:
    """The official spelling, or None for a domain that its way of splitting names cannot reach."""
    domain = ABBREVIATIONS.get(domain, domain)
    return None if "_" in domain else f"{domain}-{task}".replace("_", "-")


def custom(code_dir: Path) -> set[str]:
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
                found.add(spelling(path.stem, node.name))
    return found - {None}


def named_in_code(code_dir: Path) -> set[str]:
    """Names in the code's own tables: multi-task sets, their members, and the suites besides dm_control."""
    found: set[str] = set()
    for path in [code_dir / "common" / "__init__.py", *sorted((code_dir / "envs").glob("*.py"))]:
        for node in parsed(path):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Dict):
                continue
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if not any(name == "TASK_SET" or name.endswith("_TASKS") for name in names):
                continue
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                if isinstance(key, ast.Constant):
                    found.add(str(key.value))
                if isinstance(value, ast.List):
                    found.update(str(item.value) for item in value.elts if isinstance(item, ast.Constant))
    return found


def parsed(path: Path) -> list[ast.stmt]:
    """A file's statements; none if it is absent or no Python, which the run itself will tell."""
    try:
        return parse(path.read_text(encoding="utf-8")).body
    except (OSError, SyntaxError, ValueError):
        return []
