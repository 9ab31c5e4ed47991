"""TD-MPC2's settings: the official ones (tdmpc2.toml), those of patches, and what they must be to one another."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from tdmpc2_lean.patching.series import Patch
from tdmpc2_lean.settings import checking
from tdmpc2_lean.settings.checking import Given, SettingFault
from tdmpc2_lean.settings.schema import MISSING, Rule, Schema, Setting, read_setting

DATA = Path(__file__).with_name("tdmpc2.toml")
MULTITASK = ("mt30", "mt80")
# Domains and suites with tasks whose actions have 20 or more dimensions, where the code adds 2 iterations.
LARGE_ACTION_SPACES = ("dog", "humanoid", "myo")
# Pictures of 64 x 64 leave the official convolutions as 4 x 4.
PIXELS_OF_ENCODED_PICTURE = 16
# The patch `utd` rounds to fractions of no greater denominator.
LARGEST_DENOMINATOR = 10**6
# What the official parser takes for a sum to compute, wherever a text begins like that.
SUM = re.compile(r"(\d+)([-+*/])(\d+)")


def schema(patches: Iterable[Patch] = (), kind: str = "train") -> Schema:
    """The settings of the official code with patches applied. kind: of run, train or evaluate."""
    settings = dict(official())
    for patch in patches:
        settings |= patch.settings
    return Schema(settings, (*RULES, *(OF_TRAINING if kind == "train" else OF_EVALUATION)))


@cache
def official() -> Mapping[str, Setting]:
    """The settings of the official config.yaml, by name."""
    return {name: read_setting(name, table) for name, table in _document()["settings"].items()}


@cache
def _document() -> dict[str, Any]:
    return tomllib.loads(DATA.read_text(encoding="utf-8"))


def model_sizes() -> dict[int, dict[str, int]]:
    """{model_size: {setting: value}}: what a model size sets."""
    return {int(size): values for size, values in _document()["model_size"].items()}


def check(
    patches: Iterable[Patch],
    config: Mapping[str, Any],
    *,
    given: Mapping[str, Given],
    kind: str = "train",
    episode: int | None = None,
) -> None:
    """UserError that lists all that is wrong with the given ones among resolved settings.

    patches: those applied. config: as Hydra composes it. kind: of run, train or evaluate.
    episode: length of the task's episodes in agent steps, if it is known.
    """
    settings = effective(config) | ({} if episode is None else {"episode_length": episode})
    if settings.get("data_dir") == MISSING:
        settings["data_dir"] = None
    checking.check(schema(patches, kind), settings, given=given, more=_overruled(config, given))


def effective(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as the official parser leaves them: sums such as 1/2 or 10*1000 computed, model_size carried out."""
    settings = {key: _read(key, value) for key, value in config.items()}
    size = settings.get("model_size")
    return settings | (model_sizes().get(size, {}) if isinstance(size, int | float) else {})


def _read(name: str, value: Any) -> Any:
    """A value as the official parser leaves it, but that a number's text that only begins like a sum stays a text."""
    if not isinstance(value, str):
        return value
    is_text = name in official() and official()[name].type == "text"
    found = SUM.match(value) if is_text else SUM.fullmatch(value)
    return value if found is None else _sum(found, value)


def _sum(found: re.Match, text: str) -> int | float | str:
    """What Python makes of the two numbers; the text itself where it refuses: a leading zero, a division by zero."""
    if any(part[0] == "0" and part.strip("0") for part in (found[1], found[3])):
        return text
    left, sign, right = int(found[1]), found[2], int(found[3])
    if sign == "/":
        quotient = left / right if right else text
        return int(quotient) if isinstance(quotient, float) and quotient.is_integer() else quotient
    return left + right if sign == "+" else left - right if sign == "-" else left * right


def quoted(word: str) -> str:
    """A word for Hydra whose text Hydra would read as a number, quoted: exp_name='1' for exp_name=1."""
    name, equals, value = word.partition("=")
    setting = official().get(name.lstrip("+"))
    is_text = setting is not None and setting.type == "text"
    return f"{name}='{value}'" if equals and is_text and re.fullmatch(READ_AS_OTHER, value, re.IGNORECASE) else word


# What Hydra's grammar reads as a number or a truth value.
READ_AS_OTHER = r"[-+]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(e[-+]?\d+)?|[-+]?(inf|nan)|true|false"


def _overruled(config: Mapping[str, Any], given: Mapping[str, Given]) -> list[SettingFault]:
    """The settings to which one hand gave another value than the model_size that it gave too, and that prevails."""
    size = _read("model_size", config.get("model_size"))
    if "model_size" not in given or not isinstance(size, int | float):
        return []
    return [
        SettingFault(
            (name, "model_size"),
            f"{given[name].whose}{name}={given[name].written} has no effect: model_size={size} makes it {value}.",
        )
        for name, value in model_sizes().get(size, {}).items()
        if name in given and given[name].whose == given["model_size"].whose and _read(name, config.get(name)) != value
    ]


RULES = (
    Rule(
        ("num_elites", "num_samples"),
        lambda elites, samples, mpc: not mpc or elites <= samples,
        "num_elites is at most num_samples, of which the elites are chosen",
        context=("mpc",),
    ),
    Rule(
        ("num_pi_trajs", "num_samples"),
        lambda proposed, samples, mpc: not mpc or proposed <= samples,
        "num_pi_trajs is at most num_samples, of which it is a part",
        context=("mpc",),
    ),
    Rule(
        ("iterations",),
        lambda iterations, mpc, task: not mpc or iterations > 0 or str(task).startswith(LARGE_ACTION_SPACES),
        "iterations is at least 1 where an action has fewer than 20 dimensions and mpc is true",
        context=("mpc", "task"),
    ),
    Rule(("min_std", "max_std"), lambda low, high: low <= high, "min_std is at most max_std"),
    Rule(("log_std_min", "log_std_max"), lambda low, high: low <= high, "log_std_min is at most log_std_max"),
    Rule(("discount_min", "discount_max"), lambda low, high: low <= high, "discount_min is at most discount_max"),
    Rule(("vmin", "vmax"), lambda low, high: low < high, "vmin is below vmax"),
    Rule(
        ("latent_dim", "simnorm_dim"),
        lambda latent, simplex: latent % simplex == 0,
        "latent_dim is a multiple of simnorm_dim, the size of its simplices",
    ),
    Rule(
        ("latent_dim", "num_channels"),
        lambda latent, channels, obs: obs != "rgb" or latent == PIXELS_OF_ENCODED_PICTURE * channels,
        f"with obs=rgb latent_dim is {PIXELS_OF_ENCODED_PICTURE} x num_channels, what the encoder of pictures gives",
        context=("obs",),
    ),
    Rule(
        ("episodic", "task"),
        lambda episodic, task: not episodic or task not in MULTITASK,
        "the official code predicts no terminations for sets of tasks",
    ),
)
OF_TRAINING = (
    Rule(
        ("utd",),
        lambda utd: Fraction(str(utd)).limit_denominator(LARGEST_DENOMINATOR) > 0,
        f"utd is at least one update in {LARGEST_DENOMINATOR:,} agent steps",
    ),
    Rule(
        ("steps",),
        lambda steps, task: task not in MULTITASK or isinstance(steps, int),
        "for a set of tasks steps is an integer, written without point and exponent",
        context=("task",),
    ),
    Rule(
        ("horizon",),
        lambda horizon, episode: horizon <= episode,
        "horizon is at most an episode of {episode_length} agent steps, out of which the slices are cut",
        context=("episode_length",),
    ),
    Rule(
        ("buffer_size",),
        lambda size, episode: size > episode,
        "buffer_size exceeds an episode of {episode_length} agent steps, whose first observation is stored too",
        context=("episode_length",),
    ),
    Rule(
        ("seed_steps",),
        lambda seed_steps, episode: seed_steps is None or seed_steps >= episode,
        "seed_steps is at least an episode of {episode_length} agent steps, since the buffer samples from whole ones",
        context=("episode_length",),
    ),
    Rule(
        ("task",),
        lambda task, data_dir: task not in MULTITASK or data_dir is not None,
        "a set of tasks is learned from data: data_dir names the folder of their *.pt",
        context=("data_dir",),
    ),
)
OF_EVALUATION = (Rule(("eval_episodes",), lambda episodes: episodes > 0, "an evaluation has at least one episode"),)
