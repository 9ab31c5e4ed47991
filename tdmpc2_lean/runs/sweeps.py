"""A sweep such as `seed=1,2,3 lr=1e-3,3e-4`: one request for each combination, each with a folder of its own."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.runs.plan import Plan, Request

AS_WRITTEN = ("arm",)  # words whose values Hydra's grammar does not know: arm=full,dyn=0.25
NOT_VARIED = ("task", "seed", "exp_name")  # they name the folder already


def requests(request: Request, ours: Iterable[str]) -> list[Request]:
    """The requests that one with swept words stands for, in the words' order; the last word varies first.

    ours: words whose commas are no sweep, such as lean=. Swept words other than task and seed become part of the run's
    name.
    """
    ours = set(ours) - {"seed", "task", "size", "arm"}
    choices = [[word] if word.partition("=")[0] in ours else swept(word) for word in request.words]
    found = []
    for combination in itertools.product(*choices):
        varied = [
            word for word, options in zip(combination, choices, strict=True)
            if len(options) > 1 and word.partition("=")[0] not in NOT_VARIED
        ]  # fmt: skip
        suffix = "".join(f",{word.replace('/', '_')}" for word in varied)
        found.append(replace(request, words=tuple(combination), name_suffix=suffix))
    return found


def swept(word: str) -> list[str]:
    """The words that a word with a sweep stands for; the word itself if it sweeps over nothing."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    if "," not in word and "(" not in word:
        return [word]
    key, _, values = word.partition("=")
    if key in AS_WRITTEN:
        return list(dict.fromkeys(f"{key}={value.strip()}" for value in values.split(",") if value.strip()))
    try:
        override = OverridesParser.create().parse_override(word)
        if not override.is_sweep_override():
            return [word]
        values = list(override.sweep_string_iterator())
    except HydraException as error:
        raise UserError(f"Hydra: {' '.join(str(error).split())}", "write a sweep as key=1,2,3") from None
    return list(dict.fromkeys(f"{key}={value}" for value in values))


def check_folders(plans: Sequence[Plan]) -> None:
    """UserError if two runs of a sweep would have the same folder."""
    folders = [plan.folder for plan in plans]
    for folder in folders:
        if folders.count(folder) > 1:
            raise UserError(
                f"several runs of the sweep would have the same folder, {folder}.", "leave exp_name= away"
            )
