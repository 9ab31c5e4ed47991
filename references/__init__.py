"""Published curves as JSON, each with its source, licence and units, and the loader that reads them.

Criteria, reports and `tdmpc2-lean references` read here; `extract` writes the files, `published` says what they are of.

    from tdmpc2_lean import references
    steps, returns, seeds = references.curve("tdmpc2_dmc", "cheetah-run")

Importing this package reads nothing and imports neither numpy nor a simulator.
"""

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tdmpc2_lean.errors import UserError

if TYPE_CHECKING:
    import numpy


class Curve(NamedTuple):
    """One task's curve, seed by seed; unpacks as `steps, returns, seeds`.

    steps: (T,) int64, env steps, rising.
    returns: (S, T) float64, episode returns; NaN where the source has no point of that seed.
    seeds: the S seeds, rising, one a row of `returns`.
    """

    steps: "numpy.ndarray"
    returns: "numpy.ndarray"
    seeds: tuple[int, ...]

    def of_seed(self, seed: int) -> "tuple[numpy.ndarray, numpy.ndarray]":
        """(steps (n,), returns (n,)) of one seed, without the points that the source lacks."""
        import numpy

        if seed not in self.seeds:
            raise UserError(f"The curve has no seed {seed}; it has {', '.join(map(str, self.seeds))}.")
        row = self.returns[self.seeds.index(seed)]
        present = ~numpy.isnan(row)
        return self.steps[present], row[present]


class FurtherRun(NamedTuple):
    """Another run that the source lists under a seed of its curve; steps (n,), returns (n,)."""

    seed: int
    steps: "numpy.ndarray"
    returns: "numpy.ndarray"


@dataclass(frozen=True)
class Reference:
    """One published set of curves.

    name: the file's name without `.json`.     title: whose curves, on what.     agent: who learned.
    repository, commit: where the figures stand.
    files: path in the repository -> git blob id, of every file that was read.
    licence, copyright: the source's.
    units: of `steps` and `returns`.            protocol: what the runs were, as far as it is published.
    binning: how single returns became points, or that the source does not say.
    notes: what is odd in the data; true of the files as published.
    versions: {"packages": {name: version, or None where the source names none}, "source": where that stands}.
    task_sets: named lists of tasks, in the source's order.
    tasks: the tasks, sorted.
    """

    name: str
    title: str
    agent: str
    repository: str
    commit: str
    files: dict[str, str]
    licence: str
    copyright: str
    units: dict[str, str]
    protocol: dict[str, Any]
    binning: str
    notes: tuple[str, ...]
    versions: dict[str, Any]
    task_sets: dict[str, tuple[str, ...]]
    _curves: dict[str, dict[str, Any]]

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self._curves)

    @property
    def made_with(self) -> str:
        """The versions as they are read: 'mujoco 2.3.1, python 3.9.0; no version known of dm_control'."""
        packages = self.versions["packages"]
        named = [f"{name} {version}" for name, version in packages.items() if version is not None]
        unnamed = [name for name, version in packages.items() if version is None]
        parts = [", ".join(named), f"no version known of {', '.join(unnamed)}" if unnamed else ""]
        return "; ".join(filter(None, parts)) or "not known"

    def curve(self, task: str) -> Curve:
        """The curve of a task of `tasks`; any other is a UserError that suggests the nearest."""
        import numpy

        entry = self._entry(task)
        returns = [[numpy.nan if value is None else value for value in row] for row in entry["returns"]]
        return Curve(_grid(entry["steps"]), numpy.array(returns, dtype=numpy.float64), tuple(entry["seeds"]))

    def further_runs(self, task: str) -> list[FurtherRun]:
        """The runs that the source lists under a seed of the curve a second time. Mostly none."""
        import numpy

        return [
            FurtherRun(run["seed"], _grid(run["steps"]), numpy.array(run["returns"], dtype=numpy.float64))
            for run in self._entry(task).get("further_runs", [])
        ]

    def _entry(self, task: str) -> dict[str, Any]:
        if task not in self._curves:
            from tdmpc2_lean.nearest import did_you_mean

            raise UserError(
                f"The reference {self.name} has no task {task!r}.{did_you_mean(task, self._curves)}",
                f"tdmpc2-lean references list {self.name}",
            )
        return self._curves[task]


def names() -> tuple[str, ...]:
    """The names of the committed references, sorted."""
    return tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.json")))


def load(name: str) -> Reference:
    """The reference of that name; an unknown name is a UserError that suggests the nearest."""
    if name not in names():
        from tdmpc2_lean.nearest import did_you_mean

        raise UserError(
            f"There is no reference {name!r}.{did_you_mean(name, names())}", "tdmpc2-lean references list"
        )
    return read(Path(__file__).parent / f"{name}.json")


def curve(name: str, task: str) -> Curve:
    """`load(name).curve(task)`."""
    return load(name).curve(task)


@functools.lru_cache(maxsize=32)
def read(path: Path) -> Reference:
    """The reference in a JSON file that `extract` wrote."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return Reference(
        name=document["name"],
        title=document["title"],
        agent=document["agent"],
        repository=document["repository"],
        commit=document["commit"],
        files=document["files"],
        licence=document["licence"],
        copyright=document["copyright"],
        units=document["units"],
        protocol=document["protocol"],
        binning=document["binning"],
        notes=tuple(document["notes"]),
        versions=document["versions"],
        task_sets={name: tuple(tasks) for name, tasks in document["task_sets"].items()},
        _curves=document["curves"],
    )


def _grid(steps: dict[str, int]) -> "numpy.ndarray":
    """The env steps that `{"first", "last", "every"}` stands for, both ends included."""
    import numpy

    return numpy.arange(steps["first"], steps["last"] + 1, steps["every"], dtype=numpy.int64)
