"""The child's end of a run: events to the parent, and an official script run as from a shell.

Used by both upstreams' children, in processes of their own. Imports nothing but the standard library, so that the
official code has the process to itself. Every child writes one JSON object a line:

    {"event": "start", "device": …, "device_name": …, "threads": …, "steps": …, "seed_steps": …}
    {"event": "resumed", "step": …}        when it goes on from a checkpoint
    {"event": "step", "step": …, "seconds": …, "evaluation_seconds": …, "evaluating": …, "cpu_seconds": …}
    {"event": "evaluation", "step": …, "episode_reward": …, "episodes": …}
    {"event": "broken", "module": …, "why": …}
    {"event": "end"}, when the script came to its own end
"""

import ctypes
import json
import os
import runpy
import signal
import sys
import threading

EVERY = 0.5  # seconds between two looks
DEATH_OF_PARENT = 1  # prctl's PR_SET_PDEATHSIG


class Channel:
    """Writes events to the parent. If the parent is gone, the run is asked to stop."""

    def __init__(self, number):
        self.file = os.fdopen(number, "w", encoding="utf-8")
        self.lock = threading.Lock()

    def send(self, event, **values):
        try:
            with self.lock:
                self.file.write(json.dumps({"event": event} | values, default=str) + "\n")
                self.file.flush()
        except (BrokenPipeError, ValueError):
            os.kill(os.getpid(), signal.SIGINT)


def end_with_parent(parent):
    """End when the parent is killed, where the system can do it: nobody would take the run's events.

    Even while native code runs, such as a compiler, which lets no signal handler of Python's in.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DEATH_OF_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


def allow_interruption():
    """Be interrupted when the parent says so, also where a shell started it in the background, SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def run_script(channel, arguments):
    """Run a script as `python SCRIPT ARGUMENT…` would, and tell of its end; exit with 130 if it is interrupted."""
    sys.argv = list(arguments)
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr, flush=True)
        sys.exit(130)
    channel.send("end")


def read_request():
    """What the parent wants, from the file that the command line names; the child is then bound to the parent."""
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    end_with_parent(request["parent"])
    allow_interruption()
    return request, Channel(request["channel"])
