"""Whether what an environment needs can be imported, found out in a process of its own, before a run's folder is made.

The official TD-MPC2 hides why an environment's package cannot be imported; here it is told with its own error. What
could be imported is remembered, for this interpreter and what is installed in it, so that the next start asks nobody;
what failed is tried anew each time.
"""

import hashlib
import json
import os
import site
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from tdmpc2_lean import places
from tdmpc2_lean.environments.names import TaskName
from tdmpc2_lean.environments.source import EnvironmentSource
from tdmpc2_lean.environments.sources import all_sources
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.files import atomic_write

SCRIPT = Path(__file__).with_name("importing.py")
TIMEOUT = 300  # seconds; a cold import from a network disk takes a minute
VERSION = 1  # of the answers that are kept

_known: dict[str, dict[str, Any]] = {}


def probe(
    source: EnvironmentSource | None,
    variables: Mapping[str, str],
    *,
    modules: Sequence[str] = (),
    code_dir: Path | None = None,
) -> UserError | None:
    """Why an environment cannot be made here, in the words of the import that fails; None if all can be imported.

    source: whose modules to import, and whose advice to give; None for a suite that only the official code knows.
    variables: what the run's process gets besides this one's environment, such as MUJOCO_GL.
    modules: instead of the source's own.     code_dir: the official code's folder, for modules of its.
    """
    modules = tuple(modules or (source.modules if source else ()))
    if source is not None and set(source.modules) <= set(modules):
        # What depends on the backend is asked apart, so that the rest, which imports torch, is asked once.
        answer = asked(source.modules, variables, None, source.lists)
        if "tasks" not in answer:
            return told(answer, source, variables)
        modules = tuple(name for name in modules if name not in source.modules)
        variables = off(source)
    if not modules:
        return None
    answer = asked(modules, variables, code_dir, None)
    return None if "tasks" in answer else told(answer, source, variables)


def off(source: EnvironmentSource) -> dict[str, str]:
    """Variables with which a source draws nothing."""
    return {source.renderer.variable: source.renderer.off} if source.renderer else {}


def tasks_of(source: EnvironmentSource) -> frozenset[TaskName]:
    """A source's tasks. UserError if it cannot be imported."""
    answer = asked(source.modules, off(source), None, source.lists)
    if "tasks" not in answer:
        raise told(answer, source, off(source))
    return frozenset(TaskName(domain, task) for domain, task in answer["tasks"])


def asked(
    modules: Sequence[str], variables: Mapping[str, str], code_dir: Path | None, lists: str | None
) -> dict[str, Any]:
    """What `importing` says of the modules; of an earlier process, if nothing was installed or edited since."""
    key = fingerprint(modules, variables, code_dir, lists)
    kept = places.cache_dir() / "environments" / f"{key[:32]}.json"
    if key not in _known:
        try:
            _known[key] = json.loads(kept.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            answer = tried(modules, variables, code_dir, lists)
            if "tasks" not in answer:
                return answer
            _known[key] = answer
            remember(kept, answer)
    return _known[key]


def remember(path: Path, answer: Mapping[str, Any]) -> None:
    """Keep an answer. A cache that cannot be written costs a second at the next start, and nothing else."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, json.dumps(answer) + "\n")
    except OSError:
        pass


def tried(
    modules: Sequence[str], variables: Mapping[str, str], code_dir: Path | None, lists: str | None
) -> dict[str, Any]:
    """What `importing` says now."""
    request = {"code": str(code_dir) if code_dir else None, "modules": list(modules), "lists": lists}
    failed = {"module": modules[-1], "missing": None, "file": None, "line": None}
    try:
        ended = subprocess.run(
            [sys.executable, "-P", str(SCRIPT), json.dumps(request)],
            env=os.environ | dict(variables),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return failed | {"why": f"the import did not end within {TIMEOUT} s"}
    try:
        return json.loads(ended.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        last = ended.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        signalled = f"signal {-ended.returncode}" if ended.returncode < 0 else f"exit code {ended.returncode}"
        return failed | {"why": f"the process that imported it ended with {signalled}: {last[0]}"}


def told(answer: Mapping[str, Any], source: EnvironmentSource | None, variables: Mapping[str, str]) -> UserError:
    """The user's version of a failed import."""
    from tdmpc2_lean.environments import rendering

    missing = (answer["missing"] or "").partition(".")[0]
    if source and source.renderer and not missing and answer["module"] in source.modules:
        backend = variables.get(source.renderer.variable) or os.environ.get(source.renderer.variable)
        if backend != source.renderer.off and "tasks" in asked(
            source.modules, off(source), None, source.lists
        ):
            return rendering.explained(answer["module"], answer["why"], False, source)
    message = f"{answer['module']} cannot be imported:\n    {answer['why']}"
    if answer["file"]:
        message += f"\n    ({answer['file']}, line {answer['line']})"
    if source and missing in source.packages:
        return UserError(message, source.install)
    if source is None:
        return UserError(
            message, "install what the task's suite needs; the official docker/environment.yaml or Dockerfile lists it"
        )
    if missing:
        return UserError(message, f"install the package that brings {missing} beside {sys.executable}")
    return UserError(message, f"mend that file, or the installation: {source.install} --force-reinstall")


def fingerprint(
    modules: Sequence[str], variables: Mapping[str, str], code_dir: Path | None, lists: str | None
) -> str:
    """What an answer holds for: the question, the interpreter, what is installed, and the official environments' code.

    An installation changes its folder's time, an edit of one of the modules that module's.
    """
    search = os.environ.get("PYTHONPATH", "")
    folders = [*site.getsitepackages(), site.getusersitepackages(), *filter(None, search.split(os.pathsep))]
    code = []
    if code_dir:
        for path in sorted((code_dir / "envs").rglob("*.py")):
            code.append((path.relative_to(code_dir).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()))
    renderers = [source.renderer.variable for source in all_sources().values() if source.renderer]
    process = os.environ | dict(variables)
    facts = [
        VERSION,
        list(modules),
        lists,
        [(name, process.get(name)) for name in sorted({*renderers, *variables, "LD_LIBRARY_PATH"})],
        sys.executable,
        sys.version,
        search,
        [(folder, time_of(folder)) for folder in folders],
        [(file, time_of(file)) for name in modules for file in files_of(name)],
        code,
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def files_of(name: str) -> list[str]:
    """The files that a module and the top of its package would be loaded from, without importing them."""
    top, _, rest = name.partition(".")
    folders = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *sys.path]
    spec = PathFinder.find_spec(top, folders)
    if spec is None or spec.origin is None:
        return []
    inside = os.path.join(os.path.dirname(spec.origin), *rest.split("."))
    return [spec.origin, f"{inside}.py", os.path.join(inside, "__init__.py")]


def time_of(path: str) -> int | None:
    """When a file or folder was last changed, in nanoseconds; None if it is not there."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None
