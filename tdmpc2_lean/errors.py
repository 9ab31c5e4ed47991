"""What a user is told when something they can mend went wrong; printed by `cli.main`.

Exit codes of every command: 0 done, and every check passed; 1 a check said no (a gate failed, a patch
does not apply, a verification failed); 2 bad input or surroundings (this module's errors); 130 interrupted.
`validate report` alone answers with a verdict: 0 PASS, 1 FAIL, 2 INCOMPLETE, and 3 where nothing could be judged.
`gate run` also has 3: no gate failed, but something is unproved.
"""

import shlex
from pathlib import Path


def quoted(word: str | Path) -> str:
    """A path or another word as a shell takes it, for commands that a message gives to be copied."""
    return shlex.quote(str(word))


class UserError(Exception):
    """A mistake or a missing thing that its message names and `next_step` mends.

    message: what was expected and what was found.
    next_step: the next command to type, or what to change.
    """

    exit_code = 2

    def __init__(self, message: str, next_step: str = ""):
        super().__init__(message)
        self.message = message
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.message}\n  next: {self.next_step}" if self.next_step else self.message


class CheckFailed(UserError):
    """A check ran to its end and said no."""

    exit_code = 1
