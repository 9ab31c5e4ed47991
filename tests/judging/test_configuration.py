"""The configuration that a protocol expects is the official one, and what adapters plan and the code resolves."""

import official_settings
import pytest

from tdmpc2_lean.references import tasks
from tdmpc2_lean.settings import deciding
from tdmpc2_lean.validation.judging import configuration, criteria, protocols
from tdmpc2_lean.validation.judging.agents import agent_named
from tdmpc2_lean.validation.judging.agents.dreamerv3 import DREAMERV3, official_task
from tdmpc2_lean.validation.judging.agents.tdmpc2 import OF_ENVIRONMENT

TDMPC2 = protocols.protocol("tdmpc2-walker-walk")
DREAMERS = [name for name, entry in protocols.registry().items() if entry.agent == "dreamerv3" and not entry.missing]


def test_what_is_stated_of_tdmpc2_is_what_the_pinned_code_says(official):
    stated = configuration.stated("tdmpc2")
    assert official_settings.tdmpc2(official, stated["shapes"]) == stated


@pytest.mark.parametrize("some", [("walker-walk", "humanoid-run", "cup-spin", "reacher-three-hard")])
def test_the_shapes_of_environments_are_those_that_the_pinned_code_makes(official, some):
    stated = configuration.stated("tdmpc2")["shapes"]
    assert official_settings.shapes_of(official, list(some)) == {task: stated[task] for task in some}
    assert list(stated) == list(tasks.TDMPC2)


def test_what_is_stated_of_dreamerv3_is_what_the_pinned_code_says(official_dreamerv3):
    pytest.importorskip("elements")
    assert official_settings.dreamerv3(official_dreamerv3) == configuration.stated("dreamerv3")


@pytest.mark.parametrize("agent", ["tdmpc2", "dreamerv3"])
def test_every_setting_of_the_pinned_code_is_fixed_or_said_not_to_decide(agent):
    stated = configuration.stated(agent)
    known = {**stated["defaults"], **stated["patches"]}
    for name, entry in protocols.registry().items():
        if entry.agent == agent and not entry.missing:
            fixed = protocols.expected_settings(entry, entry.seeds[0])
            open_ = [key for key in known if key not in fixed and agent_named(agent).decides(key)]
            assert not open_, f"{name} does not fix {open_}"


@pytest.mark.parametrize("agent", ["tdmpc2", "dreamerv3"])
def test_what_is_said_not_to_decide_is_a_setting_of_the_code(agent):
    stated = configuration.stated(agent)
    known = {*stated["defaults"], *stated["patches"]}
    # Without a default in the official code, and set by it.
    known |= {"checkpoint", "data_dir", "task_title", "wandb_entity", "wandb_project", "work_dir"} - known
    for name in (*agent_named(agent).where_and_how, *agent_named(agent).not_read):
        assert name in known or any(key.startswith(name) for key in known if name.endswith(".")), name


@pytest.fixture(scope="module")
def document(official_dreamerv3):
    """The official configs.yaml, patched."""
    pytest.importorskip("elements")
    from dreamer_bridge import config
    from tdmpc2_lean.patched import materialise

    return config.read(materialise(official_dreamerv3).code_dir)


# All other protocols of DreamerV3 differ from the first in their task alone.
@pytest.mark.parametrize(
    ("name", "cpu"),
    [("dreamerv3-dmc_ball_in_cup_catch", True), ("dreamerv3-dmc_walker_walk", False), ("dreamerv3-smoke", True)],
)
def test_dreamerv3s_configuration_is_what_its_bridge_plans(document, name, cpu):
    from dreamer_bridge import config, settings

    entry = protocols.protocol(name)
    words = {DREAMERV3.words.get(key, key): value for key, value in entry.settings.items() if key != "size"}
    bridges, lacking = settings.own(config.keys(document), 3, cpu)
    flags = config.as_flags(bridges | words | {"run.steps": entry.agent_steps})
    task = official_task(entry.environment)
    found = config.flat(
        config.resolved(document, ["dmc_proprio", entry.settings["size"]], ["--task", task, *flags])
    )
    due = protocols.expected_settings(entry, 3, on_cpu=cpu)
    assert not lacking
    assert not protocols.differing(due, {key: found[key] for key in found if key in due})
    left = [key for key in found if key not in due and DREAMERV3.decides(key)]
    assert not left, f"decides, and is not compared: {left}"


def test_dreamerv3s_names_of_tasks_are_its_bridges():
    tasks_of_bridge = pytest.importorskip("dreamer_bridge.tasks")
    for name in DREAMERS:
        entry = protocols.protocol(name)
        if entry.judged:
            assert tasks_of_bridge.of_reference(official_task(entry.environment)) == entry.task


def test_a_model_size_sets_what_the_official_code_lets_it_set():
    given = {**TDMPC2.settings, "model_size": 1}
    found = agent_named("tdmpc2").resolved("walker-walk", "dm_control", given)
    assert (found["num_q"], found["latent_dim"], found["bin_size"]) == (2, 128, 0.2)


def schema_of(agent):
    """What is known of an agent's settings, with those of the default patches."""
    from tdmpc2_lean import patching

    patches = patching.read_series(agent).closure()
    if agent == "tdmpc2":
        from tdmpc2_lean.settings import tdmpc2

        return tdmpc2.schema(patches)
    from dreamer_bridge import schema

    stated = configuration.stated(agent)
    return schema.schema({"defaults": {**stated["defaults"], **stated["patches"]}}, patches)


@pytest.mark.parametrize("agent", ["tdmpc2", "dreamerv3"])
def test_a_setting_that_decides_by_its_schema_is_compared_unless_no_protocols_run_reads_it(agent):
    schema = schema_of(agent)
    not_read = agent_named(agent).not_read
    passed_over = [name for name in sorted(deciding(schema)) if not agent_named(agent).decides(name)]
    assert all(any(name == of or of.endswith(".") and name.startswith(of) for of in not_read) for name in passed_over)
    defaults = {setting.name: setting.default for setting in schema if setting.default != configuration.MISSING}
    stated = configuration.stated(agent)
    assert not protocols.differing({**stated["defaults"], **stated["patches"]}, defaults)


def test_playgrounds_shapes_are_not_claimed_to_be_dm_controls():
    entry = protocols.protocol("tdmpc2-playground-walker-walk")
    assert not set(OF_ENVIRONMENT) & set(entry.defaults)
    assert criteria.criterion("tdmpc2-playground").physics == entry.physics


def test_a_setting_without_a_value_is_as_one_that_is_absent():
    assert configuration.flat({"a": {"b": 1}, "c": configuration.MISSING}) == {"a.b": 1}


@pytest.mark.slow
def test_all_shapes_of_environments_are_those_that_the_pinned_code_makes(official):
    stated = configuration.stated("tdmpc2")["shapes"]
    assert official_settings.shapes_of(official, list(stated)) == stated
