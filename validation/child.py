"""Runs a function on a checkout's code in a process of its own.

The official code imports its modules by top-level names and registers dm_control tasks globally, so every arm of a
gate gets a fresh process: `call` starts it, `main` is what it runs. The process has one thread, so that sums are taken
in one order, and no OpenGL.
"""

import errno
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from tdmpc2_lean.errors import UserError

# A process of a gate: one thread, no rendering, no bytecode beside official files.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MUJOCO_GL": "disable",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONWARNINGS": "ignore",
    "TQDM_DISABLE": "1",
}


running: set[subprocess.Popen] = set()
interrupted = threading.Event()  # cleared by whoever begins anew


class ChildFailed(UserError):
    """The code under test raised; `output` is what it printed, its traceback last."""

    def __init__(self, function: str, code_dir: Path, output: str):
        lines = [line for line in output.strip().splitlines() if line.strip()]
        self.reason = lines[-1] if lines else "no output"
        super().__init__(f"{function} failed on {code_dir}: {self.reason}")
        self.output = output


def call(function: str, code_dir: Path, read_for_cpu: bool = False, **arguments) -> dict:
    """The JSON result of `module:function` called with `arguments` where `code_dir` is importable.

    read_for_cpu: read the code as `on_cpu` does. Raises ChildFailed with what the process printed.
    """
    with tempfile.TemporaryDirectory(prefix="tdmpc2-lean-gate-") as folder:
        request, answer = Path(folder) / "request.json", Path(folder) / "answer.json"
        request.write_text(
            json.dumps(
                {
                    "function": function,
                    "code_dir": str(Path(code_dir).resolve()),
                    "read_for_cpu": read_for_cpu,
                    "arguments": arguments,
                    "answer": str(answer),
                }
            ),
            encoding="utf-8",
        )
        command = [sys.executable, "-m", "tdmpc2_lean.validation.child", str(request)]
        output, code = output_of(command, folder)
        if os.strerror(errno.ENOSPC) in output[-2000:]:
            # The machine failed, not the code under test: no gate may say that it did.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), tempfile.gettempdir())
        if code != 0 or not answer.exists():
            raise ChildFailed(function, code_dir, output)
        return json.loads(answer.read_text(encoding="utf-8"))


def output_of(command: list[str], folder: str) -> tuple[str, int]:
    """What a process prints, and its exit code.

    The process is in a session of its own, so that Ctrl-C reaches this process alone and is never taken for a failure
    of the code under test. Ends the process and raises KeyboardInterrupt where this one is interrupted.
    """
    if interrupted.is_set():
        raise KeyboardInterrupt
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    running.add(process)
    try:
        output, _ = process.communicate()
    finally:
        running.discard(process)
        process.kill()
        process.wait()
    if interrupted.is_set():
        raise KeyboardInterrupt
    return output, process.returncode


def interrupt() -> None:
    """Ends every process of this module, also those that other threads wait for; these raise KeyboardInterrupt."""
    interrupted.set()
    for process in list(running):
        process.kill()


def main(request_path: str) -> None:
    """What the process does: make the code importable, call the function, write its result."""
    request = json.loads(Path(request_path).read_text(encoding="utf-8"))
    code_dir = Path(request["code_dir"])
    import torch

    torch.set_num_threads(1)
    # `-m` puts the working folder first; only the code under test may be found by the upstream's names.
    sys.path[0] = str(code_dir)
    if request["read_for_cpu"]:
        from tdmpc2_lean.validation import on_cpu

        on_cpu.install(code_dir)
    module, name = request["function"].split(":")
    result = getattr(importlib.import_module(module), name)(code_dir=code_dir, **request["arguments"])
    Path(request["answer"]).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
