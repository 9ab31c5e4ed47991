"""Which files of an upstream are mutated, and which mutants cannot be judged on this machine, each with its reason."""

import fnmatch
import re
from dataclasses import dataclass

from tdmpc2_lean.validation.gates.strength.operators import Mutation

# Every file that training, planning, evaluation and saving use, below the folder from which the code is run.
FILES = {
    "tdmpc2": (
        "tdmpc2.py",
        "train.py",
        "evaluate.py",
        "config.yaml",
        "common/*.py",
        "envs/__init__.py",
        "envs/dmcontrol.py",
        "envs/wrappers/*.py",
        "trainer/base.py",
        "trainer/online_trainer.py",
    ),
    "dreamerv3": (
        "dreamerv3/agent.py",
        "dreamerv3/rssm.py",
        "dreamerv3/main.py",
        "dreamerv3/configs.yaml",
        "embodied/core/base.py",
        "embodied/core/chunk.py",
        "embodied/core/clock.py",
        "embodied/core/driver.py",
        "embodied/core/limiters.py",
        "embodied/core/random.py",
        "embodied/core/replay.py",
        "embodied/core/resume.py",
        "embodied/core/selectors.py",
        "embodied/core/stop.py",
        "embodied/core/streams.py",
        "embodied/core/wrappers.py",
        "embodied/envs/dmc.py",
        "embodied/envs/from_dm.py",
        "embodied/jax/*.py",
        "embodied/run/train.py",
        "embodied/run/resume.py",
        "embodied/run/stop.py",
    ),
}

# Of a configuration with presets, those that runs on dm_control are made with.
SECTIONS = {"dreamerv3/configs.yaml": ("defaults", "dmc_proprio", "dmc_vision", "size1m", "size12m", "debug")}

# Functions and tables that make text for a terminal and nothing else.
SHOWN_ONLY = {
    "common/logger.py": ("CONSOLE_FORMAT", "CAT_TO_COLOR", "print_run", "Logger._format", "Logger._print"),
}


# Edits that leave the course of the code to the same tests: others are seen on a CPU also where they are about CUDA.
OF_VALUES = {"argument", "boolean", "choice", "number", "setting", "statement", "string"}


@dataclass(frozen=True)
class Unreachable:
    """Mutants that this machine cannot tell from the code without them.

    pattern: found in the part of the statement that is edited (`Mutation.part`), or (`within`) in the test of an `if`
    around it. executed: also where the statement is executed, because what it says is without meaning on a CPU.
    """

    reason: str
    pattern: str
    within: bool = False
    executed: bool = True


UNREACHABLE = (
    Unreachable("CUDA: read as the CPU, or never asked for on one", r"torch\.cuda\b|cuda:0|'cuda'|\"cuda\"|\bxpu\b"),
    Unreachable("CUDA: transfers and graphs, without effect on a CPU", r"non_blocking|pin_memory|capturable|cudagraph"),
    Unreachable("CUDA: settings of its libraries", r"backends\.cudnn|matmul_precision|mem_get_info"),
    Unreachable("devices: tensors go where others are, here always the CPU", r"^device=(?!cfg)[\w.]+\.device$"),
    Unreachable("compiled graphs: other bits, gates run eager", r"torch\.compile\b|TORCHDYNAMO|TORCH_LOGS"),
    Unreachable("compiled graphs: other bits, gates run eager", r"\.compile\b", within=True, executed=False),
    Unreachable("needs CUDA", r"cuda|mem_free", within=True, executed=False),
    Unreachable("needs an account of W&B", r"_wandb\b|enable_wandb", within=True, executed=False),
    Unreachable("several processes or machines", r"distributed|coordinator|process_count", within=True, executed=False),
    Unreachable("accelerators other than the CPU", r"== ?'(gpu|tpu|cuda)'", within=True, executed=False),
)


# A tensor left where it lies, and not taken to the device or to main memory: on a CPU that is the same place.
TRANSFER = re.compile(r"\.(cpu\(\)|to\((self\.|cfg\.)?_?device\b.*\)|to\('cpu'\)): without \.(cpu|to)\(\)$")


def is_mutated(upstream: str, file: str) -> bool:
    return any(fnmatch.fnmatch(file, pattern) for pattern in FILES[upstream])


def is_shown_only(file: str, edit: Mutation) -> bool:
    """Whether an edit changes only what a terminal shows."""
    names = SHOWN_ONLY.get(file, ())
    if not edit.function:
        return any(f"id='{name}'" in edit.statement.partition("value=")[0] for name in names)
    return any(edit.function == name or edit.function.startswith(f"{name}.") for name in names)


def why_unreachable(edit: Mutation, executed: bool) -> str:
    """The reason for which a mutant cannot be judged here; empty where it can.

    executed: whether any gate executes the statement.
    """
    if edit.operator == "call" and TRANSFER.search(edit.what):
        return "devices: tensors go where others are, here always the CPU"
    for rule in UNREACHABLE:
        if executed and not rule.executed or not rule.within and edit.operator not in OF_VALUES:
            continue
        if any(re.search(rule.pattern, text) for text in (edit.inside if rule.within else (edit.part,))):
            return rule.reason
    return ""
