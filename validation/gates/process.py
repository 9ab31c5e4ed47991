"""Runs a function on a checkout's code in a process of its own.

The official code imports its modules by top-level names and registers dm_control tasks globally, so subject and
reference of a gate get a fresh process each: `call` starts it, `main` is what it runs. The process has one thread, so
that sums are taken in one order, and no OpenGL. What compiles with XLA is pinned to one core as well (`JAX`): XLA
divides its sums by the number of cores that it sees, and gives other bits with another number.

No process outlives the one that started it (`die_with`), and signals end both in order (`ended_by_signals`).
"""

import ctypes
import errno
import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tdmpc2_lean import places
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.validation.gates import executed

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
# Beginnings of the names of variables by which libraries and scripts are told what to do. Those of whoever runs a gate
# are not its process's: torch writes some into its own, and a reference that is kept would have had others.
OTHERS = (
    *("CUDA", "EGL_", "HYDRA_", "JAX_", "LAZY_", "MUJOCO_", "PYOPENGL_", "PYTORCH", "TENSORDICT_", "TF_", "TORCH"),
    *("TRITON_", "WANDB_", "XLA_"),
)


@dataclass(frozen=True)
class Stack:
    """What a process sets up before it imports the code under test.

    torch: import torch and give it one thread. one_core: pin the process to one core of its own, where the system
    can. environment: variables beside ENVIRONMENT. compiled: a folder of the package's cache for compiled code.
    """

    torch: bool = True
    one_core: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    compiled: str | None = None

    def variables(self) -> dict[str, str]:
        """The process's environment."""
        found = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
        found |= {**ENVIRONMENT, **self.environment}
        if self.compiled:
            found["JAX_COMPILATION_CACHE_DIR"] = str(places.cache_dir() / self.compiled)
        return found


TORCH = Stack()
# The folder is for processes with one core: compiled code remembers for how many it was made, its key does not.
JAX = Stack(
    torch=False,
    one_core=True,
    environment={
        "JAX_PLATFORMS": "cpu",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    },
    compiled="jax-one-core",
)

running: set[subprocess.Popen] = set()
free_cores: queue.SimpleQueue = queue.SimpleQueue()
for _core in sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else ():
    free_cores.put(_core)


class Raised:
    """What threading.Event is, but for waiting: without its lock, on which a handler of signals that is entered again
    while it sets one would wait for itself."""

    def __init__(self):
        self._up = False

    def set(self) -> None:
        self._up = True

    def clear(self) -> None:
        self._up = False

    def is_set(self) -> bool:
        return self._up


slots: threading.Semaphore | None = None  # see `at_once`
interrupted = Raised()  # `interrupt` was called; cleared by `ended_by_signals`

DEATH_OF_PARENT = 1  # Linux's PR_SET_PDEATHSIG
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class ChildFailed(UserError):
    """The code under test raised; `output` is what it printed, its traceback last, and `code` its exit code."""

    def __init__(self, function: str, code_dir: Path, output: str, code: int | None = None):
        lines = [line for line in output.strip().splitlines() if line.strip()]
        self.reason = lines[-1] if lines else "no output"
        super().__init__(f"{function} failed on {code_dir}: {self.reason}")
        self.output, self.code = output, code


def call(
    function: str,
    code_dir: Path,
    shim: str | None = None,
    stack: Stack = TORCH,
    expected: Path | None = None,
    **arguments,
) -> dict:
    """The JSON result of `module:function` called with `arguments` where `code_dir` is importable.

    shim: a module whose `install(code_dir)` makes code run in the process that does not run here as it is written,
    such as `tdmpc2_lean.validation.gates.cpu_shim`. expected: a trace; the process ends, with an answer, once the one
    that it is to write at `trace` parts from it. Raises ChildFailed with what the process printed.
    """
    with (
        slots or nullcontext(),
        tempfile.TemporaryDirectory(prefix="tdmpc2-lean-gate-") as folder,
        core_for(stack) as core,
        executed.request(code_dir) as watched,
    ):
        request, answer = Path(folder) / "request.json", Path(folder) / "answer.json"
        request.write_text(
            json.dumps(
                {
                    "function": function,
                    "code_dir": str(Path(code_dir).resolve()),
                    "shim": shim,
                    "parent": os.getpid(),
                    "torch": stack.torch,
                    "core": core,
                    "watched": watched,
                    "expected": str(expected) if expected else None,
                    "arguments": arguments,
                    "answer": str(answer),
                }
            ),
            encoding="utf-8",
        )
        output, code = start(request, folder, stack)
        if os.strerror(errno.ENOSPC) in output[-2000:]:
            # The machine failed, not the code under test: no gate may say that it did.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), tempfile.gettempdir())
        if code != 0 or not answer.exists():
            raise ChildFailed(function, code_dir, output, code)
        return json.loads(answer.read_text(encoding="utf-8"))


def in_a_new_process(request: Path, folder: str, stack: Stack) -> tuple[str, int]:
    """What a process that serves a request printed, and its exit code."""
    return output_of([sys.executable, "-m", "tdmpc2_lean.validation.gates.process", str(request)], folder, stack)


start = in_a_new_process  # while gates run, `strength.forks` puts another function of this kind here


@contextmanager
def at_once(count: int) -> Iterator[None]:
    """While the body runs, no more than so many processes that `call` starts run at a time; others wait for them."""
    global slots
    earlier, slots = slots, threading.BoundedSemaphore(count)
    try:
        yield
    finally:
        slots = earlier


@contextmanager
def core_for(stack: Stack) -> Iterator[int | None]:
    """A core that no other process of this module has, waited for if need be; None where processes are not pinned."""
    if not stack.one_core or not hasattr(os, "sched_setaffinity"):
        yield None
        return
    core = free_cores.get()
    try:
        yield core
    finally:
        free_cores.put(core)


def output_of(command: list[str], folder: str, stack: Stack = TORCH) -> tuple[str, int]:
    """What a process prints, and its exit code.

    The process is in a session of its own, so that Ctrl-C reaches this process alone and is never taken for a failure
    of the code under test. Ends the process and raises KeyboardInterrupt where this one is interrupted.
    """
    if interrupted.is_set():
        raise KeyboardInterrupt
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=stack.variables(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    running.add(process)
    try:
        if interrupted.is_set():  # since it was looked at above, when `interrupt` did not know of this process
            process.kill()
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


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP end the processes of this module, and then the body, which was waiting for them.

    Nothing is raised at the place where a signal happens to find this process, so that temporary folders are removed,
    however often it comes. At the end KeyboardInterrupt is raised for SIGINT, and for the others SystemExit with 128 +
    their number, as a shell has it. A signal that is ignored, as under nohup, stays ignored. Only a main thread can
    hear of signals: in others this does nothing.
    """
    interrupted.clear()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def obey(number, _):
        received.append(number)
        if len(received) == 1:  # signals may come faster than they are obeyed, and each is handled within the last
            interrupt()

    handled = [number for number in SIGNALS if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    earlier = {number: signal.signal(number, obey) for number in handled}
    try:
        yield
    except BaseException:
        if not received:
            raise
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
        interrupted.clear()
    if not received:
        return
    if received[0] == signal.SIGINT:
        raise KeyboardInterrupt
    with suppress(OSError):  # the terminal may be gone
        print(f"ended by {signal.Signals(received[0]).name}", file=sys.stderr, flush=True)
    raise SystemExit(128 + received[0])


def die_with(parent: int) -> None:
    """From now on the kernel kills this process when `parent` ends, however that ends; ends it now if that is gone.

    Only Linux can; elsewhere a process outlives a parent that was killed by SIGKILL. What counts there is the thread
    that started this process: it waits in `output_of`.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DEATH_OF_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def main(request_path: str) -> None:
    """What the process does."""
    request = json.loads(Path(request_path).read_text(encoding="utf-8"))
    die_with(request["parent"])
    serve(request)


def serve(request: dict) -> None:
    """Make the code importable, call the function, write its result."""
    code_dir = Path(request["code_dir"])
    if request["core"] is not None:
        os.sched_setaffinity(0, {request["core"]})
    if request["torch"]:
        import torch

        torch.set_num_threads(1)
    # `-m` puts the working folder first; only the code under test may be found by the upstream's names.
    sys.path[0] = str(code_dir)
    reads = {}
    if request["shim"]:
        shim = importlib.import_module(request["shim"])
        shim.install(code_dir)
        reads = {"read": shim.read} if hasattr(shim, "read") else {}
    if request["watched"]:
        executed.install(code_dir, request["watched"], **reads)
    if request["expected"]:
        importlib.import_module("tdmpc2_lean.validation.gates.strength.watching").end_at_first_difference(
            request, Path(request["expected"])
        )
    module, name = request["function"].split(":")
    result = getattr(importlib.import_module(module), name)(code_dir=code_dir, **request["arguments"])
    Path(request["answer"]).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
