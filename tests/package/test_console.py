"""Ctrl-C is answered in words from the first moment on, whatever a command is importing just then."""

import os
import subprocess
import sys

import pytest

# A finder that is asked for a module as Ctrl-C is pressed.
INTERRUPTED_WHILE_IMPORTING = """
import runpy, signal, sys

class Presses:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Presses())
sys.argv = {words!r}
runpy.run_module({package!r}, run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("package", "module", "words"),
    [
        ("tdmpc2_lean", "tdmpc2_lean.cli", ["--help"]),
        ("tdmpc2_lean", "click", ["--help"]),
        ("tdmpc2_lean", "tdmpc2_lean.commands.train", ["train", "--list-presets"]),
        ("tdmpc2_lean", "tdmpc2_lean.tdmpc2.adapter", ["train", "--list-presets"]),
        ("tdmpc2_lean", "pydantic", ["train", "--list-presets"]),
        ("tdmpc2_lean", "tdmpc2_lean.runs.status", ["validate", "status"]),
        ("tdmpc2_lean.campaigns.hydra_job", "tdmpc2_lean.campaigns.protocol_runs", ["protocol=tdmpc2-smoke"]),
        ("dreamer_bridge", "click", ["--help"]),
        ("dreamer_bridge", "dreamer_bridge.commands.train", ["train", "--list-presets"]),
    ],
)
def test_ctrl_c_while_a_command_is_imported_ends_it_in_words(tmp_path, package, module, words):
    code = INTERRUPTED_WHILE_IMPORTING.format(module=module, package=package, words=[package, *words])
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr.strip(), ran.stdout) == (130, "interrupted", "")


@pytest.mark.parametrize("package", ["tdmpc2_lean", "dreamer_bridge"])
def test_where_the_commands_begin_nothing_slow_is_imported(tmp_path, package):
    """Until then, Ctrl-C has Python's own answer, a traceback."""
    code = (
        "import sys; before = set(sys.modules)\n"
        f"import {package}, {package}.__main__, tdmpc2_lean.console\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    imported = {name for name in ran.stdout.split() if not name.startswith(("tdmpc2_lean", "dreamer_bridge"))}
    assert imported <= {"shlex", "importlib", "importlib._bootstrap", "importlib._bootstrap_external", "warnings"}
