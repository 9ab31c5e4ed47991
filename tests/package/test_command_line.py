"""What holds for every command: a reader that leaves is no failure, a system that is not supported is told."""

import os
import subprocess
import sys

import pytest

from tdmpc2_lean import cli

SHOW = [sys.executable, "-m", "tdmpc2_lean", "references", "show", "cheetah-run"]


def until_the_first_line(command, streams="stdout", **options) -> tuple[bytes, int, bytes]:
    """(the first line, the exit code, what stands on stderr) of a command whose reader leaves after a line."""
    reading, writing = os.pipe()
    with subprocess.Popen(
        command,
        stdout=writing,
        stderr=writing if streams == "both" else subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        **options,
    ) as ran:
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            line = pipe.readline()
        errors = ran.stderr.read() if ran.stderr else b""
        return line, ran.wait(timeout=60), errors


@pytest.mark.parametrize("module", ["tdmpc2_lean", "dreamer_bridge"])
def test_a_reader_that_leaves_is_no_failure(module):
    if module == "dreamer_bridge":
        pytest.importorskip("jax", reason="the extra [dreamer] is not installed")
        command = [sys.executable, "-m", module, "--help"]
    else:
        command = SHOW
    line, code, errors = until_the_first_line(command)
    assert line and (code, errors) == (0, b"")


LONG = """
import click, sys
from tdmpc2_lean import cli
from tdmpc2_lean.errors import CheckFailed
@click.command()
def gate():
    for number in range(20000):
        click.echo(f"line {number}")
    print("on the other stream", file=sys.stderr)
    raise CheckFailed("the check said no")
cli.run(gate, "gate", [])
"""


@pytest.mark.parametrize("streams", ["stdout", "both"])
def test_a_check_whose_reader_leaves_exits_with_its_own_verdict(streams):
    line, code, errors = until_the_first_line([sys.executable, "-c", LONG], streams)
    assert (line, code) == (b"line 0\n", 1)
    assert streams == "both" or b"the check said no" in errors


def test_what_is_read_to_its_end_is_whole():
    ran = subprocess.run([sys.executable, "-c", LONG], capture_output=True, text=True)
    assert ran.stdout.splitlines() == [f"line {number}" for number in range(20000)]
    assert "the check said no" in ran.stderr and ran.returncode == 1


@pytest.mark.parametrize("arguments", [["references", "list"], ["train", "task=cheetah-run"], []])
def test_windows_is_told_without_a_traceback(monkeypatch, capsys, arguments):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    error = capsys.readouterr().err
    assert ended.value.code == 2 and "this is Windows" in error and "WSL" in error


def test_the_command_line_is_reached_without_what_windows_lacks():
    code = (
        "import sys, click; sys.modules['fcntl'] = None; sys.platform = 'win32'\n"
        "from tdmpc2_lean import cli; cli.main(['train'])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 2 and ran.stderr.startswith("error: tdmpc2_lean runs on Linux"), ran.stderr
