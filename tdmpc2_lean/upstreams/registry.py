"""The upstreams: which official repositories there are, and which commits of theirs are known by hash.

What is said of an upstream here needs none of its packages; what needs them stands in its adapter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tdmpc2_lean.errors import UserError

MINIATURE = "miniature"
MINIATURE_OF = "tdmpc2"  # the upstream for which the miniature stands, and whose gates judge it
DEFAULT = "tdmpc2"  # the upstream that is meant where none is named


@dataclass(frozen=True)
class Release:
    """Official code as its author put it on package indexes: a second way to it, without git hosting.

    project, version: what a package index calls it.
    sha256: of its source distribution, whose files have the git tree id `tree`.
    commit: the full hash of the commit whose files it holds, beside metadata for packaging.
    left_out: what it lacks of that commit; a path that ends in '/' stands for all below it.
    supplied: the package of ours whose folder `supplied` holds files of our own to stand in left-out places.
    """

    project: str
    version: str
    sha256: str = field(repr=False)
    tree: str = field(repr=False)
    commit: str
    left_out: tuple[str, ...] = field(repr=False)
    supplied: str


@dataclass(frozen=True)
class KnownIssue:
    """A fault in some commits of an upstream that it has mended since.

    text: what is other than it should be, in one line. patch: the optional patch that mends it here.
    commits: those of the tried commits that have it. since, mended: the commits that brought it and mended it.
    """

    text: str
    patch: str
    commits: tuple[str, ...] = field(repr=False)
    since: str = field(repr=False)
    mended: str = field(repr=False)


@dataclass(frozen=True)
class Upstream:
    """An official repository and the commit of it that is meant when none is named.

    title: its agent's name for people. command: the command line that is about it.
    reference: the name of the published curves of its agent, on the tasks of dm_control.
    averaged: whether a point of its agent's curves is the mean over the training episodes of a chunk, weighted by
        their number, and not an evaluation.
    pin: the commit's full hash; its tree is `trees[pin]`.
    trees: the commits this project was tried on, each with the hash of its tree.
    code: the folder of a checkout from which the official code is run ('' for the checkout itself).
    environment_variable: names a checkout or a ref to use instead of the pin.
    modules: the top-level names under which the official code imports itself.
    scripts: the files of the code folder that are run, and from which everything else is imported.
    release: the author's release of it on package indexes, where there is one.
    issues: known faults of older commits.
    """

    name: str
    title: str
    command: str
    reference: str
    averaged: bool
    url: str
    pin: str
    trees: Mapping[str, str] = field(repr=False)
    code: str
    environment_variable: str
    modules: tuple[str, ...]
    licence: str
    copyright: str
    release: Release | None = None
    issues: tuple[KnownIssue, ...] = ()
    scripts: tuple[str, ...] = ()

    @property
    def has_miniature(self) -> bool:
        """Whether the miniature stands for it."""
        return self.name == MINIATURE_OF

    @property
    def pin_tree(self) -> str:
        """The hash of the pin's tree."""
        return self.trees[self.pin]

    @property
    def url_variable(self) -> str:
        """The environment variable that names another address of the same repository, such as a mirror."""
        return f"{self.environment_variable}_URL"


UPSTREAMS = {
    upstream.name: upstream
    for upstream in (
        Upstream(
            name="tdmpc2",
            title="TD-MPC2",
            command="tdmpc2-lean",
            reference="tdmpc2_dmc",
            averaged=False,
            url="https://github.com/nicklashansen/tdmpc2",
            pin="e9f59321933cbc8e11a002b842adc7d4ffae8ff1",
            trees={
                "e9f59321933cbc8e11a002b842adc7d4ffae8ff1": "6c20d5b0327d939ce99561184b645d9ddfae1d9e",
                "75212c3a090115df212402ac911df446ccc2047f": "55a25bfcfc711f0a2e15d8267ce567a43f6981cf",
                "8bbc14ebabdb32ea7ada5c801dc525d0dc73bafe": "d2c2297419e37aa6f5c1adaf8bead33a3d5a58ae",
                "eece80123d0f5068f9aa4460b91833242a63ab54": "c85f58735c259e503db1874583ce675461853d97",
                "a19f91c0b5debf6a9d306d7a9fa3871e3b794749": "f36b1e8d1781f1354308bb71466fba155b19885f",
                "5f6fadec0fec78304b4b53e8171d348b58cac486": "7b5c1cde77c9efb408fcbfa97f0e55685d4d65f0",
                "57158282b46ebc5c329c5be9cfe2b0094126d1ca": "05e81f9c8140d24ea2c43672255ba0b52bae5c02",
                "b67b21c5c638b48b1351864572ee834127717e98": "931d630a758d3c2bf1cef3da5df78de6d91a349f",
            },
            code="tdmpc2",
            environment_variable="TDMPC2_LEAN_TDMPC2",
            modules=("common", "envs", "trainer", "tdmpc2"),
            scripts=("train.py", "evaluate.py"),
            licence="MIT",
            copyright="Copyright (c) Nicklas Hansen (2023)",
            issues=(
                KnownIssue(
                    text="the Q-functions start with other weights than from e9f5932 on: their hidden layers' standard "
                    "deviations are 0.05 and 0.03 instead of 0.02 with model_size=1",
                    patch="q-init",
                    commits=(
                        "75212c3a090115df212402ac911df446ccc2047f",
                        "8bbc14ebabdb32ea7ada5c801dc525d0dc73bafe",
                        "eece80123d0f5068f9aa4460b91833242a63ab54",
                        "a19f91c0b5debf6a9d306d7a9fa3871e3b794749",
                    ),
                    since="603b67ce66135b3165f97b4e57a85cb8dd05ecc7",
                    mended="e9f59321933cbc8e11a002b842adc7d4ffae8ff1",
                ),
            ),
        ),
        Upstream(
            name="dreamerv3",
            title="DreamerV3",
            command="dreamer-bridge",
            reference="dreamerv3_dmc_proprio",
            averaged=True,
            url="https://github.com/danijar/dreamerv3",
            pin="e3f02248693a79dc8b0ebd62c93683888ddaccfe",
            trees={
                "e3f02248693a79dc8b0ebd62c93683888ddaccfe": "a6611dd5cca395eebcd387ebcad2685bb2d9dbdf",
                "b65cf81a6fb13625af8722127459283f899a35d9": "106d8ef1faf61db762d58e1224347f4fcd484926",
            },
            code="",
            environment_variable="TDMPC2_LEAN_DREAMERV3",
            modules=("dreamerv3", "embodied"),
            scripts=("dreamerv3/main.py",),
            licence="MIT",
            copyright="Copyright (c) 2024 Danijar Hafner",
            release=Release(
                project="dreamer",
                version="3.3.1",
                sha256="b6dca5e1039bb632b48421ea0e2722b2d06557b2e94b24669272c69d6b983d03",
                tree="6a4048bd5d4e01674de3bb1fb87592145d828d5d",
                commit="f8817c4040cebada9bb9712554b0234c70c291d5",
                left_out=(
                    ".dockerignore",
                    ".gitignore",
                    "Dockerfile",
                    "baselines.yaml",
                    "dreamerv3/configs.yaml",
                    "embodied/envs/",
                    "embodied/perf/",
                    "embodied/tests/",
                    "entrypoint.sh",
                    "plot.py",
                    "requirements.txt",
                    "scores/",
                ),
                supplied="dreamer_bridge",
            ),
        ),
    )
}


def is_left_out(file: str, left_out: Sequence[str]) -> bool:
    """Whether a path is one of `left_out`, or in one of its folders."""
    return any(file == one or (one.endswith("/") and file.startswith(one)) for one in left_out)


def upstream_named(name: str) -> Upstream:
    """The upstream of that name; UserError names the nearest one if there is none."""
    if name not in UPSTREAMS:
        from tdmpc2_lean.nearest import did_you_mean

        raise UserError(
            f"there is no upstream {name!r}; the upstreams are {', '.join(UPSTREAMS)}."
            + did_you_mean(name, UPSTREAMS),
            "tdmpc2-lean upstream list",
        )
    return UPSTREAMS[name]
