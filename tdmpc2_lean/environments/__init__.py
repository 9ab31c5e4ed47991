"""Environments: sources of tasks, their names in either upstream's spelling, action repeat, rendering, physics.

    from tdmpc2_lean import environments
    environment = environments.find("tdmpc2", "ball_in_cup-catch", code_dir)   # task 'cup-catch', of dm_control
    drawn = environments.backend(environment.source, needed=False, environment=os.environ)
    error = environment.probe(drawn.variables)                                # None, or why it cannot be made here

A new source is one new module in `sources/`. Importing this package imports no simulator.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tdmpc2_lean.environments import dreamerv3_tasks, names, probing, tdmpc2_tasks
from tdmpc2_lean.environments.names import TaskName
from tdmpc2_lean.environments.physics import drift, versions_that_matter
from tdmpc2_lean.environments.probing import probe
from tdmpc2_lean.environments.rendering import Backend, backend
from tdmpc2_lean.environments.source import EnvironmentSource
from tdmpc2_lean.environments.sources import all_sources, source_named
from tdmpc2_lean.errors import UserError

__all__ = [
    "Backend", "Environment", "EnvironmentSource", "TaskName", "all_sources", "backend", "drift", "find", "probe",
    "source_named", "versions_that_matter",
]  # fmt: skip

DEFAULT = "dm_control"
SET = "multi-task"  # the suite of a set of tasks of several suites


@dataclass(frozen=True)
class Environment:
    """What an upstream's official code will be asked to make.

    upstream: whose code.
    task: as that code spells it; what it is to be handed.
    members: the tasks of a multi-task set; of a single task itself.
    suite: what run.json calls the source: a source's name, or that of another of the official code's own suites.
    source: the source of the task, or of most of a set's tasks; None for a suite that only the official code knows.
    name: the task in the neutral words; None for a set and for tasks of other suites.
    action_repeat: env steps of an agent step, where the run's settings do not say otherwise; None: not known here.
    agent_steps: of an episode; None: not known here, or not one number.
    modules: what must be importable to make it.
    code_dir: where the official code's own modules lie; None if none of `modules` is.
    """

    upstream: str
    task: str
    members: tuple[str, ...]
    suite: str
    source: EnvironmentSource | None = None
    name: TaskName | None = None
    action_repeat: int | None = None
    agent_steps: int | None = None
    modules: tuple[str, ...] = ()
    code_dir: Path | None = None

    def probe(self, variables: Mapping[str, str]) -> UserError | None:
        """Why it cannot be made here; None if all that it needs can be imported. variables: as for `probing.probe`."""
        return probing.probe(self.source, variables, modules=self.modules, code_dir=self.code_dir)


def find(upstream: str, written: str, code_dir: Path | None, source_name: str = DEFAULT) -> Environment:
    """The environment that a user means by a task, in any upstream's spelling. UserError, with the nearest, for none.

    code_dir: the folder of the code that will run, which may know tasks and suites of its own; for DreamerV3 None
        where it is not known yet.
    source_name: where the task comes from.
    """
    return FINDERS[upstream](written, code_dir, source_named(source_name))


def of_tdmpc2(written: str, code_dir: Path, wanted: EnvironmentSource) -> Environment:
    """`find` for TD-MPC2: the code's own sets and suites, then the source's tasks."""
    if wanted.name == tdmpc2_tasks.OWN_SOURCE:
        listed = tdmpc2_tasks.sets(code_dir)
        if written in listed:
            return of_set(written, listed[written], code_dir, wanted)
        if suite := tdmpc2_tasks.suite_of(written, code_dir):
            task, known = tdmpc2_tasks.spelled(written), tdmpc2_tasks.SUITES[suite]
            return Environment(
                "tdmpc2", task, (task,), suite, None, None, known.action_repeat, known.agent_steps,
                present(known.modules, code_dir), code_dir,
            )  # fmt: skip
    name = tdmpc2_tasks.of_source(written, code_dir, wanted)
    if name is None:
        raise names.unknown(written, tdmpc2_tasks.offered(code_dir, wanted), tdmpc2_tasks.EXAMPLE)
    return of_name("tdmpc2", name, wanted, code_dir)


def of_set(name: str, members: tuple[str, ...], code_dir: Path, wanted: EnvironmentSource) -> Environment:
    """A multi-task set of TD-MPC2's code: of the source alone if all of its tasks are, else of several suites."""
    others = dict.fromkeys(filter(None, (tdmpc2_tasks.suite_of(task, code_dir) for task in members)))
    use = wanted.uses["tdmpc2"]
    modules = (*use.modules, *(module for suite in others for module in tdmpc2_tasks.SUITES[suite].modules))
    return Environment(
        upstream="tdmpc2",
        task=name,
        members=members,
        suite=SET if others else wanted.name,
        source=wanted,
        action_repeat=use.action_repeat,
        agent_steps=None if others else wanted.agent_steps("tdmpc2"),
        modules=present(modules, code_dir),
        code_dir=code_dir,
    )


def of_dreamerv3(written: str, code_dir: Path | None, wanted: EnvironmentSource) -> Environment:
    """`find` for DreamerV3: another suite of the official code if it can be run here, then the source's tasks."""
    suite = dreamerv3_tasks.suite_of(written)
    if suite and wanted.name == DEFAULT:
        dreamerv3_tasks.check_suite(written, suite, code_dir)
        return Environment("dreamerv3", written, (written,), suite, modules=dreamerv3_tasks.SUITES[suite].needs)
    return of_name("dreamerv3", dreamerv3_tasks.of_source(written, wanted), wanted, None)


def of_name(upstream: str, name: TaskName, wanted: EnvironmentSource, code_dir: Path | None) -> Environment:
    task, use = name.spelled(upstream), wanted.uses[upstream]
    return Environment(
        upstream=upstream,
        task=task,
        members=(task,),
        suite=wanted.name,
        source=wanted,
        name=name,
        action_repeat=use.action_repeat,
        agent_steps=wanted.agent_steps(upstream),
        modules=present(use.modules, code_dir),
        code_dir=code_dir,
    )


def present(modules: tuple[str, ...], code_dir: Path | None) -> tuple[str, ...]:
    """Modules without those of the official code that this checkout does not have."""
    return tuple(
        name
        for name in modules
        if not name.startswith("envs.") or (code_dir and (code_dir / f"{name.replace('.', '/')}.py").is_file())
    )


FINDERS = {"tdmpc2": of_tdmpc2, "dreamerv3": of_dreamerv3}
