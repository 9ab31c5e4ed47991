"""Task names: either upstream's spelling of a dm_control task becomes the official DreamerV3's, `dmc_cheetah_run`."""

from tdmpc2_lean.environments import dm_control as suite
from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean
from tdmpc2_lean.references import tasks as references

REFERENCE = "dreamerv3_dmc_proprio"
DMC = "dmc"
# The official code's other suites (make_env in dreamerv3/main.py); a task of theirs is taken as it is written.
SUITES = (
    "atari", "atari100k", "bsuite", "crafter", "dm", "dmlab", "dummy", "gym", "langroom", "loconav", "memmaze",
    "minecraft", "pinpad", "procgen",
)  # fmt: skip


def official(name: str) -> str:
    """The task as the official DreamerV3 spells it. UserError, with the nearest, for one that it does not know."""
    if name.partition("_")[0] in SUITES and "_" in name:
        return name
    known = spellings()
    found = known.get(plain(name))
    if found is None:
        known |= {plain(task): task for task in map(of_suite, suite.suite()) if task}
        found = known.get(plain(name))
    if found is not None:
        return found
    own = references.TDMPC2.get(name.replace("_", "-"))
    if own is not None:
        raise UserError(
            f"{name} is a task of TD-MPC2's own code; the official DreamerV3 does not have it.",
            "tdmpc2-lean train has it; for DreamerV3 name a task of dm_control's suite",
        )
    offered = sorted(set(known.values()) | {task.partition("_")[2].replace("_", "-") for task in known.values()})
    raise UserError(
        f"there is no task {name!r}.{did_you_mean(name, offered)}",
        "write task=DOMAIN-TASK or task=dmc_DOMAIN_TASK, such as task=cheetah-run",
    )


def plain(name: str) -> str:
    """A spelling without what the upstreams spell differently."""
    return name.removeprefix("dmc_").replace("_", "-").replace("ball-in-cup-", "cup-")


def spelling(domain: str, task: str) -> str:
    """The official name of a dm_control task."""
    return f"{DMC}_{'cup' if domain == 'ball_in_cup' else domain}_{task}"


def spellings() -> dict[str, str]:
    """{plain spelling: official name} of all tasks of references that dm_control's own suite has."""
    every = [*references.DREAMERV3.values(), *references.TDMPC2.values()]
    return {plain(task.name): spelling(task.domain, task.task) for task in every if not task.custom}


def of_suite(name: str) -> str | None:
    """The official name of a task of dm_control's suite, of TD-MPC2's spelling; None where it cannot be named."""
    domain, _, task = name.partition("-")
    return None if domain in ("pointmass",) or not task else spelling(domain, task.replace("-", "_"))


def of_reference(name: str) -> str | None:
    """What the reference calls an official task; None if it has none."""
    found = {spelling(task.domain, task.task): task.name for task in references.DREAMERV3.values()}
    return found.get(name)
