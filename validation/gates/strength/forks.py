"""Processes of gates, forked from one that has the libraries imported: a second instead of ten for each.

`serving` puts `Forks.start` in the place of `process.start`; gates do not know. The process that forks imports what
official code imports, and never official code; its children do what `process` has them do, and end with it.

A child is what a new process is: it has its parent's libraries, and nothing of its random states, threads, variables or
folders. What a new process draws from chance, a child draws for itself: NumPy's global state, which a fork would share
with all others, so that a run that nobody seeds would seem to repeat itself.
"""

import hashlib
import importlib
import itertools
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.files import atomic_write
from tdmpc2_lean.validation.gates import process
from tdmpc2_lean.validation.gates.strength import watching

LIBRARIES = {
    True: (
        "numpy, pandas, torch, tensordict, tensordict.nn, torchrl.data.replay_buffers, gymnasium, termcolor, hydra, "
        "omegaconf, imageio, dm_control.suite, dm_control.suite.wrappers.action_scale, torch._dynamo, "
        "torch._inductor.cudagraph_trees"  # which the agent's first mark of a step imports, for seconds
    ),
    False: (
        "numpy, jax, jax.numpy, optax, elements, ninjax, portal, chex, einops, granular, dm_control.suite, ruamel.yaml"
    ),
}
STARTED = 180  # seconds in which the libraries must be imported
SPENT, LATE = 152, 124  # exit codes of a child that used up its processor's time, or the clock's


@dataclass
class Instructions:
    """What beside a gate's work is done in processes that run a folder's code.

    seconds: of processor time each may take; wall: of the clock; None for no end. notes: a folder into which each
    writes which lines it executed and what it took. expected: traces by `watching.asked`; a process whose trace parts
    from them ends there. cases: by the same, a file with answers by case, and the names of those that may differ; no
    others are run, see `watching.end_at_first_case_that_differs`. ended: is set to what one of them used too much of.
    """

    seconds: float | None = None
    wall: float | None = None
    notes: Path | None = None
    expected: Mapping[str, str] = field(default_factory=dict)
    cases: Mapping[str, tuple[str, list[str]]] = field(default_factory=dict)
    ended: str = ""


class Forks:
    """Forks processes of gates; one parent for each stack that is prepared, which is made when that is.

    instructions: by code folder, as text. kept: a folder for answers on other code folders, which stay as they are:
    what was answered once is answered again, unless the request names a file or a folder. None: everything is run.
    """

    def __init__(self, kept: Path | None = None):
        self.folder = tempfile.TemporaryDirectory(prefix="tdmpc2-lean-forks-")
        self.parents: dict[bool, tuple[subprocess.Popen, str]] = {}
        self.instructions: dict[str, Instructions] = {}
        self.numbers = itertools.count()
        self.lock = threading.Lock()
        self.kept = kept
        if kept is not None:
            kept.mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        for parent, _ in self.parents.values():
            parent.kill()
            parent.wait()
            process.running.discard(parent)
        self.folder.cleanup()

    def prepare(self, torch: bool) -> None:
        """Begin to make the parent of a stack; called in the thread with which it is to end."""
        with self.lock:
            if not self._has_parent(torch):
                self.parents[torch] = self._begun(process.TORCH if torch else process.JAX)

    def _has_parent(self, torch: bool) -> bool:
        """Whether there is a parent for a stack, and nobody has ended it."""
        return torch in self.parents and self.parents[torch][0].poll() is None

    def _begun(self, stack: process.Stack) -> tuple[subprocess.Popen, str]:
        place = str(Path(self.folder.name) / f"{next(self.numbers)}.socket")
        log = open(f"{place}.log", "wb")
        words = [sys.executable, "-m", "tdmpc2_lean.validation.gates.strength.forks"]
        parent = subprocess.Popen(
            [*words, place, str(os.getpid()), str(int(stack.torch))],
            cwd=self.folder.name,
            env=stack.variables(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()
        process.running.add(parent)
        return parent, place

    def _ready(self, torch: bool) -> str:
        """Where the parent of a stack listens; waits until it does."""
        if not self._has_parent(torch):
            self.prepare(torch)
        parent, place = self.parents[torch]
        until = time.monotonic() + STARTED
        while not Path(place).exists():
            if process.interrupted.is_set():
                raise KeyboardInterrupt
            if parent.poll() is not None or time.monotonic() > until:
                printed = Path(f"{place}.log").read_text(encoding="utf-8", errors="replace").strip()
                last = printed.splitlines()[-1] if printed else "it printed nothing"
                raise UserError(f"The process that imports the libraries for gates did not start: {last}", "pip check")
            time.sleep(0.05)
        return place

    def start(self, request: Path, folder: str, stack: process.Stack) -> tuple[str, int]:
        """As `process.in_a_new_process`."""
        if process.interrupted.is_set():
            raise KeyboardInterrupt
        asked = json.loads(request.read_text(encoding="utf-8"))
        if self.kept is None or asked["code_dir"] in self.instructions or names_a_place(asked["arguments"]):
            return self._made(request, asked, folder, stack)
        what = json.dumps([asked[name] for name in ("function", "code_dir", "shim", "torch", "arguments")])
        kept = self.kept / f"{hashlib.sha256(what.encode()).hexdigest()}.json"
        if kept.exists():
            Path(asked["answer"]).write_bytes(kept.read_bytes())
            return "", 0
        output, code = self._made(request, asked, folder, stack)
        if code == 0:
            atomic_write(kept, Path(asked["answer"]).read_bytes())
        return output, code

    def _made(self, request: Path, asked: dict, folder: str, stack: process.Stack) -> tuple[str, int]:
        if not self._has_parent(stack.torch) and threading.current_thread() is not threading.main_thread():
            return process.in_a_new_process(request, folder, stack)  # a parent made here would end with this thread
        place = self._ready(stack.torch)
        told = self.instructions.get(asked["code_dir"], Instructions())
        output = Path(folder) / "output.txt"
        variables = stack.variables()
        sent = {"request": str(request), "folder": folder, "output": str(output), "variables": variables, "told": {
            "seconds": told.seconds,
            "notes": str(told.notes) if told.notes else None,
            "expected": told.expected.get(watching.asked(asked)),
            "of_cases": told.cases.get(watching.asked(asked)),
        }}  # fmt: skip
        status = self._served(sent, place, told)
        if process.interrupted.is_set():
            raise KeyboardInterrupt
        printed = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
        if status == -signal.SIGXCPU:
            told.ended, status = "of the processor's time", SPENT
        if status in (SPENT, LATE):
            printed += f"\nended: it took too much {told.ended}"
        return printed, status

    def _served(self, sent: dict, place: str, told: Instructions) -> int:
        """The exit code of the child that serves a request."""
        until = time.monotonic() + told.wall if told.wall else None
        with socket.socket(socket.AF_UNIX) as line:
            with short(place) as path:
                line.connect(path)
            line.sendall(json.dumps(sent).encode() + b"\n")
            line.settimeout(0.2)
            heard, pid = b"", None
            while True:
                try:
                    more = line.recv(64)
                except TimeoutError:
                    more = None
                if more:
                    heard += more
                    if pid is None and b"\n" in heard:
                        pid = int(heard.partition(b"\n")[0])
                elif more is not None:
                    words = heard.split()
                    return int(words[1]) if len(words) > 1 else -signal.SIGKILL
                late = until is not None and time.monotonic() > until
                if pid and (late or process.interrupted.is_set()):
                    with suppress(OSError):
                        os.killpg(pid, signal.SIGKILL)
                    if late:
                        told.ended = "of the clock"
                        return LATE


@contextmanager
def short(place: str) -> Iterator[str]:
    """A short name of a socket, of whose path a kernel takes some hundred characters; temporary folders may be deep."""
    if not os.path.isdir("/proc/self/fd"):
        yield place
        return
    folder = os.open(os.path.dirname(place), os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(place)}"
    finally:
        os.close(folder)


def names_a_place(arguments) -> bool:
    """Whether there is an absolute path in what a request is about, at which something is read or written."""
    if isinstance(arguments, dict):
        return any(names_a_place(value) for value in arguments.values())
    if isinstance(arguments, list):
        return any(map(names_a_place, arguments))
    return isinstance(arguments, str) and os.path.isabs(arguments)


@contextmanager
def serving(kept: Path | None = None) -> Iterator[Forks]:
    """While the body runs, processes of gates are forked. kept: see `Forks`."""
    forks = Forks(kept)
    before = process.start
    process.start = forks.start
    try:
        yield forks
    finally:
        process.start = before
        forks.close()


@contextmanager
def sharing(stack: process.Stack) -> Iterator[None]:
    """While the body runs, processes of that stack are forked, where this system can; by whoever does so already."""
    if process.start is not process.in_a_new_process:
        owner = getattr(process.start, "__self__", None)
        if isinstance(owner, Forks):
            owner.prepare(stack.torch)
        yield
    elif sys.platform != "linux":
        yield
    else:
        with serving() as forks:
            forks.prepare(stack.torch)
            yield


# What follows runs in the process that forks, and in its children.


def main(place: str, parent: str, torch: str) -> None:
    """Imports the libraries, then forks a child for each connection until it is killed."""
    process.die_with(int(parent))
    for name in LIBRARIES[bool(int(torch))].split(", "):
        with suppress(ImportError):  # what is needed is missed, and told, by the code under test
            importlib.import_module(name)
    if int(torch):
        sys.modules["torch"].set_num_threads(1)
    ready = socket.socket(socket.AF_UNIX)
    with short(f"{place}.new") as path:
        ready.bind(path)
    ready.listen(64)
    woken, wake = socket.socketpair()
    woken.setblocking(False)
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    os.rename(f"{place}.new", place)
    waiting: dict[int, socket.socket] = {}
    choose = selectors.DefaultSelector()
    choose.register(ready, selectors.EVENT_READ)
    choose.register(woken, selectors.EVENT_READ)
    while True:
        for key, _ in choose.select():
            if key.fileobj is ready:
                line, _ = ready.accept()
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for other in (*waiting.values(), ready, woken, wake):
                        other.close()
                    child(line, os.getppid())
                waiting[pid] = line
            else:
                with suppress(BlockingIOError):
                    woken.recv(4096)
        while waiting:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            line = waiting.pop(pid)
            with suppress(OSError):
                line.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
            line.close()


def child(line: socket.socket, parent: int) -> None:
    """Serves one request and ends, with 1 where it raised."""
    code = 1
    try:
        os.setsid()
        process.die_with(parent)
        line.sendall(f"{os.getpid()}\n".encode())
        sent = json.loads(line.makefile("rb").readline())
        output = os.open(sent["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        for number in (1, 2):
            os.dup2(output, number)
        os.environ.clear()
        os.environ.update(sent["variables"])
        os.chdir(sent["folder"])
        asked = json.loads(Path(sent["request"]).read_text(encoding="utf-8"))
        sys.argv = ["process", sent["request"]]
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed()  # Python's own generator is seeded anew at every fork
        with watching.watched(asked, **sent["told"]):
            process.serve(asked)
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
