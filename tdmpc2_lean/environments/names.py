"""One name for a task, and how each upstream spells it: `cheetah-run`, `dmc_cheetah_run`; `cup-catch`, `ball_in_cup`.

A task is a domain and a task in dm_control's own words. Sources list such names, users may write any spelling of
them, and an upstream is handed its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean

DMC = "dmc"  # how DreamerV3 begins the names of dm_control's tasks
# Short forms of domains, by upstream. Both upstreams split a name at its first underscore or dash, so that no other
# domain with an underscore can be reached.
SHORT = {
    "tdmpc2": {"ball_in_cup": "cup", "point_mass": "pointmass"},
    "dreamerv3": {"ball_in_cup": "cup"},
}


@dataclass(frozen=True, order=True)
class TaskName:
    """A task, in dm_control's words: TaskName("ball_in_cup", "catch"); as text `ball_in_cup-catch`."""

    domain: str
    task: str

    def __str__(self) -> str:
        return f"{self.domain}-{self.task}"

    def spelled(self, upstream: str) -> str | None:
        """What the upstream's official code calls it; None if its way of splitting names cannot reach the domain."""
        domain = SHORT[upstream].get(self.domain, self.domain)
        if "_" in domain:
            return None
        if upstream == "dreamerv3":
            return f"{DMC}_{domain}_{self.task}"
        return f"{domain}-{self.task}".replace("_", "-")

    def spellings(self) -> set[str]:
        """The text and every upstream's spelling."""
        return {str(self), *filter(None, (self.spelled(upstream) for upstream in SHORT))}


def plain(written: str) -> str:
    """A spelling without what upstreams spell differently: 'dmc_cup_catch' and 'ball_in_cup-catch' become one."""
    name = written.replace("_", "-").removeprefix(f"{DMC}-")
    for domain, short in SHORT["tdmpc2"].items():
        if name.startswith(f"{short}-"):
            return domain.replace("_", "-") + name.removeprefix(short)
    return name


def found(written: str, known: Iterable[TaskName]) -> TaskName | None:
    """The known task that is written in any spelling, or None."""
    wanted = plain(written)
    return next((name for name in known if plain(str(name)) == wanted), None)


def unknown(written: str, known: Iterable[str | TaskName], example: str) -> UserError:
    """What to tell of a task that there is not, with the nearest spelling of one that there is."""
    offered: set[str] = set()
    for name in known:
        offered |= name.spellings() if isinstance(name, TaskName) else {name}
    return UserError(f"there is no task {written!r}.{did_you_mean(written, sorted(offered))}", example)
