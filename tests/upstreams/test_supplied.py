"""What the bridge supplies where the release leaves something out: proved against the official files."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tdmpc2_lean import patched
from tdmpc2_lean.patching import read_series
from tdmpc2_lean.upstreams import UPSTREAMS, describe
from tdmpc2_lean.upstreams.registry import is_left_out

pytest.importorskip("jax")
pytest.importorskip("elements")

RELEASE = UPSTREAMS["dreamerv3"].release
SUPPLIED = Path(__file__).parents[2] / "dreamer_bridge/supplied"
SERIES = [patch.name for patch in read_series("dreamerv3").patches]

# Prints the digest of every step of one environment, and its spaces. The official one renders whatever it is told:
# its picture is replaced, so that no OpenGL is needed, and left out of what is compared.
STEPS = """
import hashlib, importlib.util, json, sys
import numpy as np
root, ours, domain, task, seed, repeat, steps = sys.argv[1:]
sys.path[:0] = [root]
from dm_control import suite
if ours:
    spec = importlib.util.spec_from_file_location("supplied_dmc", ours)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    env = module.DMC(f"{domain}_{task}", repeat=int(repeat), image=False, log_image=False, seed=int(seed))
else:
    from embodied.envs.dmc import DMC
    long = {"cup": "ball_in_cup"}.get(domain, domain)
    inner = suite.load(long, task, task_kwargs={"random": int(seed)})
    inner.physics.render = lambda *size, **_: np.zeros((*size, 3), np.uint8)
    env = DMC(inner, repeat=int(repeat), image=False)
named = lambda spaces: [[key, repr(space)] for key, space in spaces.items() if key != "log/image"]
print(json.dumps([named(env.obs_space), named(env.act_space)]))
draw = np.random.RandomState(0)
last, ends = True, 0
for step in range(int(steps)):
    # The driver asks for a reset after an episode's end; after the second end nobody does.
    reset = bool(last) and ends < 2
    action = {"reset": reset, "action": draw.uniform(-1, 1, env.act_space["action"].shape)}
    obs = env.step(action)
    obs.pop("log/image", None)
    last = obs["is_last"]
    ends += bool(last)
    rows = [[key, str(np.asarray(v).dtype), hashlib.md5(np.asarray(v).tobytes()).hexdigest()] for key, v in obs.items()]
    print(json.dumps(rows))
print(ends)
"""


def steps_of(root, ours, *words):
    """The lines that STEPS prints, run in a process of its own."""
    environment = os.environ | {"MUJOCO_GL": "disable", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "ignore", "-c", STEPS, str(root), str(ours or ""), *map(str, words)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=root)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.parametrize(
    ("domain", "task", "repeat", "steps"),
    [("walker", "walk", 1, 2500), ("cartpole", "balance", 1, 2500), ("cartpole", "balance", 2, 1250)],
)
def test_our_environment_gives_the_official_ones_bits_over_two_ends_of_episodes(
    official_dreamerv3, domain, task, repeat, steps
):
    words = (domain, task, 7, repeat, steps)
    theirs = steps_of(official_dreamerv3.root, None, *words)
    ours = steps_of(official_dreamerv3.root, SUPPLIED / "embodied/envs/dmc.py", *words)
    assert int(theirs[-1]) >= 2 and len(theirs) == steps + 2
    assert ours == theirs
    other = steps_of(official_dreamerv3.root, SUPPLIED / "embodied/envs/dmc.py", domain, task, 8, repeat, 3)
    assert other[1] != theirs[1]


def resolved(file, *names):
    """{key: value} of a configs.yaml's defaults with the named configurations over them, as the official code does."""
    import elements
    import ruamel.yaml

    configs = ruamel.yaml.YAML(typ="safe").load(file)
    config = elements.Config(configs["defaults"])
    for name in names:
        config = config.update(configs[name])
    return config.flat


def names_in(content):
    """The configurations of a configs.yaml beside its defaults."""
    return [name for name in re.findall(r"^(\w+):", content.decode(), re.M) if name != "defaults"]


def assert_same_settings(ours, theirs, *names):
    """Every key of ours is theirs, of the same type and value; what they have beside these is of other suites."""
    one, other = resolved(ours, *names), resolved(theirs, *names)
    assert {key: (type(value), value) for key, value in one.items()} == {
        key: (type(value), value) for key, value in other.items() if key in one
    }
    missing = other.keys() - one.keys()
    assert all(key.startswith("env.") and not key.startswith("env.dmc.") for key in missing)


def test_our_configuration_resolves_to_the_official_values(official_dreamerv3):
    theirs = (official_dreamerv3.root / "dreamerv3/configs.yaml").read_bytes()
    ours = patched.supplied_files(RELEASE, [])["dreamerv3/configs.yaml"]
    names = names_in(ours)
    assert set(names) >= {"dmc_proprio", "debug", "size1m", "size12m", "size400m"}
    for chosen in ((), *((name,) for name in names), ("dmc_proprio", "size12m"), ("dmc_proprio", "debug")):
        assert_same_settings(ours, theirs, *chosen)


def test_with_patches_it_is_the_patched_official_configuration(official_dreamerv3, own_cache):
    for names in ([], *([name] for name in SERIES), SERIES):
        copy = patched.materialise(official_dreamerv3, names)
        applied = [name for name, _ in copy.patches]
        ours = patched.supplied_files(RELEASE, applied)["dreamerv3/configs.yaml"]
        assert_same_settings(ours, (copy.root / "dreamerv3/configs.yaml").read_bytes(), "dmc_proprio")


def test_we_supply_only_what_the_release_leaves_out_and_settings_of_patches_that_exist():
    files = patched.supplied_files(RELEASE, SERIES)
    assert set(files) >= {"dreamerv3/configs.yaml", "embodied/envs/dmc.py"}
    assert all(is_left_out(path, RELEASE.left_out) for path in files)
    lines = (SUPPLIED / "dreamerv3/configs.yaml").read_bytes().splitlines()
    marked = {found[1].decode() for line in lines if (found := patched.WITH_PATCH.search(line))}
    assert marked and marked <= set(SERIES)


def test_a_patched_copy_of_the_release_records_what_is_ours_and_what_was_not_edited(
    official_release, own_cache, capsys
):
    copy = patched.materialise(official_release)
    recorded = copy.provenance()
    assert recorded["release"] == "3.3.1" and recorded["source"] == "release" and recorded["verified"]
    assert {entry["path"] for entry in recorded["supplied"]} == set(patched.supplied_files(RELEASE, SERIES))
    assert {"patch": "seeding", "path": "dreamerv3/configs.yaml"} in recorded["skipped"]
    assert {entry["path"] for entry in recorded["skipped"]} <= {"dreamerv3/configs.yaml", "embodied/envs/dmc.py"}
    assert "leaves out" in capsys.readouterr().err
    for entry in recorded["supplied"]:
        assert (copy.root / entry["path"]).read_bytes() == patched.supplied_files(RELEASE, SERIES)[entry["path"]]
    assert json.loads(json.dumps(recorded)) == recorded
    found = describe(copy.root)
    assert found.release == "3.3.1" and [name for name, _ in found.patches] == SERIES
    bare = patched.materialise(official_release, [])
    assert bare.provenance()["supplied"] and b"prefetch" not in (bare.root / "dreamerv3/configs.yaml").read_bytes()
    assert bare.root != copy.root
