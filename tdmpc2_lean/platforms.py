"""What the command line needs of the operating system: a system it runs on, and an output that may be closed."""

import io
import os
import sys

from tdmpc2_lean.errors import UserError

# Locks (fcntl) and the way runs and their workers are stopped (process groups, signals) are those of Unix.
UNSUPPORTED = {"win32": "Windows", "cygwin": "Cygwin", "emscripten": "a browser", "wasi": "WASI"}


def check() -> None:
    """UserError on a system on which runs can be neither locked nor stopped."""
    if sys.platform in UNSUPPORTED:
        raise UserError(
            f"tdmpc2_lean runs on Linux, and this is {UNSUPPORTED[sys.platform]}: it needs locks and signals of Unix.",
            "use Linux, on Windows for instance in WSL 2 (macOS has not been tried)",
        )


class UntilClosed(io.FileIO):
    """A file descriptor whose reader may leave: what is written after that is dropped.

    `COMMAND | head -1` closes the pipe after a line. That is no failure of the command, nor a success: it goes on to
    its own end and exits with its own code.
    """

    def write(self, content) -> int:
        try:
            return super().write(content)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(content)


def outlive_readers() -> None:
    """Let the process's standard output and error be `UntilClosed`; those that a caller replaced are left alone."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or stream is not getattr(sys, f"__{name}__") or not isinstance(stream, io.TextIOWrapper):
            continue
        try:
            number = stream.fileno()
            stream.flush()
        except (OSError, ValueError):
            continue
        rewritten = io.TextIOWrapper(
            io.BufferedWriter(UntilClosed(number, "w", closefd=False)),
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=name == "stderr" or stream.line_buffering or stream.write_through,
        )
        setattr(sys, name, rewritten)
