"""What `pip install` of a wheel gives: all data that commands need, and no generic name in site-packages."""

import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
BESIDE = ("patches", "references", "validation")  # parts of the package that lie beside it


def files_below(folder, pattern="*"):
    """The project's own files below one of its folders, as posix paths from the project."""
    found = (path for path in (PROJECT / folder).rglob(pattern) if path.is_file())
    return {path.relative_to(PROJECT).as_posix() for path in found if "__pycache__" not in path.parts
            and ".ruff_cache" not in path.parts and ".tdmpc2-lean" not in path.parts}  # fmt: skip


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder that an unpacked wheel of this tree makes, as in site-packages."""
    # Not imported: it insists on being there before distutils, which another test may have brought in.
    if find_spec("setuptools") is None:
        pytest.skip("setuptools is not installed")
    source = tmp_path_factory.mktemp("source")
    # Built from a copy: a build leaves folders behind in the tree it builds.
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        if (PROJECT / name).exists():
            (source / name).write_bytes((PROJECT / name).read_bytes())
    for folder in ("tdmpc2_lean", "dreamer_bridge", "patches", "references", "validation", "tests"):
        for path in files_below(folder):
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_bytes((PROJECT / path).read_bytes())
    for name in BESIDE:
        os.symlink(os.readlink(PROJECT / "tdmpc2_lean" / name), source / "tdmpc2_lean" / name)
    wheels = tmp_path_factory.mktemp("wheels")
    words = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    built = subprocess.run(
        [sys.executable, *words, "--wheel-dir", str(wheels), str(source)], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = wheels.glob("*.whl")
    site = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def test_a_wheel_puts_only_our_two_packages_at_the_top(installed):
    names = {path.name for path in installed.iterdir()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"tdmpc2_lean", "dreamer_bridge"}
    assert len(names) == 3


@pytest.mark.parametrize("folder", ["tdmpc2_lean", "dreamer_bridge", "patches", "references", "validation"])
def test_a_wheel_carries_every_module_and_every_file_of_data(installed, folder):
    within = installed if folder in ("tdmpc2_lean", "dreamer_bridge") else installed / "tdmpc2_lean"
    missing = [path for path in files_below(folder) if not (within / path).is_file()]
    assert files_below(folder) and not missing


def test_a_wheel_carries_the_licence_and_the_notice(installed):
    (information,) = installed.glob("*.dist-info")
    names = {path.name for path in information.rglob("*")}
    assert "LICENSE" in names and ("NOTICE" in names or not (PROJECT / "NOTICE").exists())


def test_without_the_extra_importing_the_bridge_says_which_one_to_install(installed, tmp_path):
    # A module that is None in sys.modules is one that is not there.
    absent = "import sys; sys.modules.update(jax=None, portal=None); "
    environment = os.environ | {"PYTHONPATH": str(installed)}
    for code, exit_code in (
        ("try: import dreamer_bridge\nexcept ImportError as error: sys.exit(str(error))", 1),
        ("from tdmpc2_lean.bridge import main; main()", 2),
    ):
        ran = subprocess.run(
            [sys.executable, "-c", f"{absent}\n{code}"], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert ran.returncode == exit_code, ran.stderr
        assert "jax, portal" in ran.stderr and "pip install 'tdmpc2_lean[dreamer]'" in ran.stderr
        assert "Traceback" not in ran.stderr


def test_what_the_bridge_supplies_is_found_without_its_extra(installed, tmp_path):
    code = (
        "import sys; sys.modules.update(jax=None)\n"
        "from tdmpc2_lean import patched\n"
        "from tdmpc2_lean.upstreams import UPSTREAMS\n"
        "print(*patched.supplied_files(UPSTREAMS['dreamerv3'].release, []))\n"
    )
    environment = os.environ | {"PYTHONPATH": str(installed)}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    supplied = PROJECT / "dreamer_bridge/supplied"
    assert set(ran.stdout.split()) == {
        path.relative_to(supplied).as_posix()
        for path in supplied.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_console_commands_are_ours(installed):
    (information,) = installed.glob("*.dist-info")
    words = (information / "entry_points.txt").read_text()
    assert "tdmpc2-lean = tdmpc2_lean.console:tdmpc2_lean" in words
    assert "dreamer-bridge = tdmpc2_lean.console:dreamer_bridge" in words


def test_the_installed_package_finds_its_data_away_from_the_checkout(installed, tmp_path):
    code = (
        "from tdmpc2_lean import places\n"
        "from tdmpc2_lean.upstreams import find_checkout\n"
        "print(places.patches_dir(), places.references_dir(), places.presets_dir())\n"
        "print(find_checkout('miniature').code_dir)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(installed), "TDMPC2_LEAN_CACHE": str(tmp_path / "cache")}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    folders = ran.stdout.split()
    assert len(folders) == 4
    assert all(Path(folder).is_dir() and installed in Path(folder).parents for folder in folders)


def test_a_bare_checkout_works_from_its_root_without_being_installed(tmp_path):
    """An isolated interpreter knows no installation of this project but that of its dependencies."""
    code = (
        "import sys; sys.meta_path = [f for f in sys.meta_path if 'editable' not in str(f)]\n"
        f"sys.path.insert(0, {str(PROJECT)!r})\n"
        "import tdmpc2_lean.validation, tdmpc2_lean.references, tdmpc2_lean.patches\n"
        "from tdmpc2_lean import places\n"
        "print(places.patches_dir(), places.references_dir(), places.validation_dir())\n"
    )
    ran = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found = [Path(folder).resolve() for folder in ran.stdout.split()]
    assert found == [PROJECT / name for name in BESIDE]
