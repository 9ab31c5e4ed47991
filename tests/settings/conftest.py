"""A folder with a configuration to resolve words on, and a cache of the session's own."""

import functools

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from tdmpc2_lean import patching
from tdmpc2_lean.patched import materialise
from tdmpc2_lean.runs import words
from tdmpc2_lean.settings import given_by, tdmpc2
from tdmpc2_lean.tdmpc2.configuration import composed
from tdmpc2_lean.upstreams import find_checkout

EPISODE = 500  # agent steps, of dm_control


@pytest.fixture(scope="session")
def miniature_code(tmp_path_factory):
    """The folder with config.yaml of the miniature, all patches applied."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TDMPC2_LEAN_CACHE", str(tmp_path_factory.mktemp("cache")))
        return materialise(find_checkout("miniature"), None).code_dir


@pytest.fixture(scope="session")
def checked(miniature_code):
    """A function that checks words as a planner does; without `task=` they are for a task of dm_control."""
    series = patching.read_series("tdmpc2").patches
    parse = OverridesParser.create().parse_override

    @functools.cache
    def official_of(code_dir):
        return composed(code_dir, [])

    def check(*given, kind="train", presets=(), code_dir=miniature_code, patches=series):
        with_task = given if any(word.startswith("task=") for word in given) else ("task=cheetah-run", *given)
        config = dict(official_of(code_dir))
        for preset in presets:
            config |= preset.overrides
        for override in map(parse, map(tdmpc2.quoted, with_task)):
            config[override.key_or_group] = override.value()
        of_dmcontrol = config["task"].endswith("-run")
        written = words.read(with_task).settings()
        tdmpc2.check(
            patches, config, given=given_by(written, presets, config), kind=kind,
            episode=EPISODE if of_dmcontrol else None,
        )  # fmt: skip
        return config

    return check
