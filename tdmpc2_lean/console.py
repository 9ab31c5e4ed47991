"""Where the console commands begin, so that Ctrl-C is answered in words from the start: nothing slow is imported here.

A command line of ours is a module with a `main`.
"""

import importlib
import sys

INTERRUPTED = 130


def enter(module: str) -> None:
    """Import a command line's module and run its `main`."""
    try:
        importlib.import_module(module).main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


def tdmpc2_lean() -> None:
    """The console command `tdmpc2-lean`."""
    enter("tdmpc2_lean.cli")


def dreamer_bridge() -> None:
    """The console command `dreamer-bridge`."""
    enter("tdmpc2_lean.bridge")
