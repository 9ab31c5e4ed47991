"""What all tests share: the official code where this machine has it, the miniature, a cache of a test's own.

Tests on the official code ask for `official` or `any_checkout` (TD-MPC2), `official_dreamerv3` or `official_release`,
or are marked `official`, with the upstream's name or a parameter `upstream`; where there is no such code they are
skipped, and the summary says so.
Nothing is ever fetched.
"""

import functools
import os
import signal
import threading

# Before torch is imported by anybody: many small tests on few cores are slower with many threads.
os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMEXPR_NUM_THREADS="1")

# Started in the background or under nohup, a shell's children ignore these signals, and theirs in turn: a command that
# is interrupted by a test would rightly not stop. Tests say what they want to find.
if threading.current_thread() is threading.main_thread():
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

import pytest

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.upstreams import UPSTREAMS, Checkout, find_checkout

TDMPC2, DREAMERV3 = UPSTREAMS["tdmpc2"], UPSTREAMS["dreamerv3"]
TITLES = {"tdmpc2": "TD-MPC2", "dreamerv3": "DreamerV3"}
NOT_FOUND = "no official {} code on this machine"
# The cache and the checkouts of whoever runs the tests, before any test sets some of its own.
USERS = {
    name: os.environ.get(name)
    for name in ("TDMPC2_LEAN_CACHE", TDMPC2.environment_variable, DREAMERV3.environment_variable)
}


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also run the tests that take minutes")


def pytest_collection_modifyitems(config, items):
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if "official" in names or parameters.get("any_checkout") == "official":
            item.add_marker(pytest.mark.official("tdmpc2"))
        if names & {"official_dreamerv3", "official_release"}:
            item.add_marker(pytest.mark.official("dreamerv3"))
        for marker in item.iter_markers("official"):
            upstream = (*marker.args, parameters.get("upstream", "tdmpc2"))[0]
            item.user_properties.append(("official", TITLES[upstream]))
        # Where the official code is, it says more; the miniature then takes its turn with the slow tests.
        if parameters.get("any_checkout") == "miniature" and users_checkout("tdmpc2", TDMPC2.pin) is not None:
            item.add_marker(pytest.mark.slow)
        if "slow" in item.keywords and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="takes minutes; run with --slow"))


def pytest_terminal_summary(terminalreporter):
    for upstream, title in TITLES.items():

        def count(*outcomes, reason="", title=title):
            reports = [report for outcome in outcomes for report in terminalreporter.stats.get(outcome, [])]
            return sum(
                ("official", title) in map(tuple, report.user_properties) and reason in str(report.longrepr or "")
                for report in reports
                if hasattr(report, "user_properties")
            )

        if ran := count("passed", "failed"):
            terminalreporter.write_line(f"official {title} code: {ran} tests ran on it")
        if skipped := count("skipped", reason=NOT_FOUND.format(title)):
            named = "" if upstream == "tdmpc2" else f" --upstream {upstream}"
            terminalreporter.write_line(
                f"official {title} code: not found, {skipped} tests skipped; "
                f"add it with `tdmpc2-lean upstream add PATH{named}` or `tdmpc2-lean upstream fetch{named}`"
            )


def users_checkout(upstream: str, where: str) -> Checkout | None:
    """The official code at a commit (or `release`), as whoever runs the tests has it; None if they do not."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in USERS.items():
            if value is None:
                patch.delenv(name, raising=False)
            else:
                patch.setenv(name, value)
        try:
            return find_checkout(upstream, where, may_clone=False)
        except UserError:
            return None


def official_checkout(upstream: str, where: str, which: str = "") -> Checkout:
    """As users_checkout; the test that asks for it is skipped where there is none."""
    found = users_checkout(upstream, where)
    if found is None:
        pytest.skip(NOT_FOUND.format(TITLES[upstream]) + which)
    return found


@pytest.fixture(scope="session")
def official() -> Checkout:
    """The official code at the pin, as plain files that no test may change."""
    return official_checkout("tdmpc2", TDMPC2.pin)


@pytest.fixture(scope="session")
def tried_commits():
    """A function from an upstream to {commit: checkout} of the commits it was tried on, those that are here."""

    @functools.cache
    def of(upstream: str) -> dict[str, Checkout]:
        found = {commit: users_checkout(upstream, commit) for commit in UPSTREAMS[upstream].trees}
        found = {commit: checkout for commit, checkout in found.items() if checkout is not None}
        if not found:
            pytest.skip(NOT_FOUND.format(TITLES[upstream]))
        return found

    return of


@pytest.fixture(scope="session")
def official_dreamerv3() -> Checkout:
    """The official DreamerV3 at the pin, as plain files that no test may change."""
    return official_checkout("dreamerv3", DREAMERV3.pin)


@pytest.fixture(scope="session")
def official_release() -> Checkout:
    """The official DreamerV3's release on package indexes, as plain files that no test may change."""
    return official_checkout("dreamerv3", "release", ": its release")


@pytest.fixture(scope="session")
def miniature() -> Checkout:
    """The small checkout that the package carries."""
    return find_checkout("miniature")


@pytest.fixture(scope="session", params=["official", "miniature"])
def any_checkout(request) -> Checkout:
    """The official code where it is here, and the miniature, with --slow, or alone where there is no official code."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def official_or_miniature(request) -> Checkout:
    """The official code where it is here, else the miniature: for what takes too long to be run on both."""
    found = users_checkout("tdmpc2", TDMPC2.pin)
    if found is not None:
        request.node.user_properties.append(("official", TITLES["tdmpc2"]))
    return found or find_checkout("miniature")


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """An empty cache for one test, and no checkout named in the environment. Gives the cache's folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TDMPC2_LEAN_CACHE", str(folder))
    for upstream in UPSTREAMS.values():
        monkeypatch.delenv(upstream.environment_variable, raising=False)
        monkeypatch.delenv(upstream.url_variable, raising=False)
    return folder


# Budgets so small that a real run of real code fits in a test.
# Two episodes: one of seeding, a few dozen updates, one of acting by the planner, an evaluation at each end.
TINY = (
    "device=cpu compile=false steps=1000 seed_steps=500 pretrain_updates=20 utd=0.05 eval_freq=1000 "
    "eval_episodes=1 batch_size=16 num_samples=16 num_elites=4 num_pi_trajs=4 iterations=1 horizon=2 "
    "enc_dim=16 mlp_dim=16 latent_dim=16 num_q=2"
).split()


@pytest.fixture(scope="session")
def tiny() -> list[str]:
    """Words for a run of seconds."""
    return ["task=cartpole-balance", *TINY]


@pytest.fixture(scope="session")
def shared_folders(tmp_path_factory):
    """A cache for all runs of the session, so that patched copies are made once, and no presets."""
    return {
        "TDMPC2_LEAN_CACHE": str(tmp_path_factory.mktemp("cache")),
        "XDG_CONFIG_HOME": str(tmp_path_factory.mktemp("config")),
    }


@pytest.fixture
def workplace(shared_folders, tmp_path, monkeypatch):
    """An empty current folder, and nobody's cache or presets."""
    for name, folder in shared_folders.items():
        monkeypatch.setenv(name, folder)
    monkeypatch.delenv("TDMPC2_LEAN_TDMPC2", raising=False)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path
