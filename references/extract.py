"""Turns the authors' result files into the JSON files of `references/`; `tdmpc2-lean references extract`.

Read, plan, act: `find` reads the files of a folder, `document` and `render` compute the JSON text from
their bytes alone, `extract` writes it. The same files give the same bytes, whatever folder they lie in.
"""

import csv
import gzip
import hashlib
import io
import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.files import atomic_write
from tdmpc2_lean.references import tasks
from tdmpc2_lean.references.published import ENV_STEPS, PUBLICATIONS, RETURNS, Publication


@dataclass(frozen=True)
class ListedRun:
    """One training run as a source lists it: points (env step, return) in the source's order."""

    seed: int
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Written:
    """What `extract` did with one reference's file."""

    path: Path
    changed: bool


def extract(folder: Path, to: Path, commit: str | None = None) -> list[Written]:
    """Write the JSON of every reference whose files lie in `folder`; one that is right stays untouched.

    folder: laid out as the official repository of an upstream (results/ or scores/), or a folder of result
        files with one folder an upstream (tdmpc2/, dreamerv3/).
    to: the folder to write to; made if missing.
    commit: what to record as the source of files that are not the known ones.
    Raises UserError if no reference's files, or only some of a reference's files, are there; if a file cannot
    be read as what it should be; if files are not those of the known commit and no `commit` is given.
    """
    found = find(folder)
    texts = {}
    for source, files in found:
        recorded = source.commit
        if digest_of(files) != source.digest:
            if commit is None:
                raise _other_files(source, files)
            recorded = commit
        texts[source.name] = render(document(source, files, recorded))
    to.mkdir(parents=True, exist_ok=True)
    return [_write(to / f"{name}.json", text) for name, text in texts.items()]


def find(folder: Path) -> list[tuple[Publication, dict[str, bytes]]]:
    """The sources whose files lie in `folder`, each with them: path in the official repository -> bytes."""
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}.", "name a folder of result files or an official checkout")
    found = []
    for source in PUBLICATIONS:
        place = next((p for p in (folder / source.folder, folder / source.beside) if _holds(p, source)), None)
        if place is None:
            continue
        missing = [name for name in source.files if not (place / name).is_file()]
        if missing:
            raise UserError(
                f"{place} lacks {len(missing)} of the {len(source.files)} files of {source.name}: "
                + ", ".join(missing[:5])
                + (", ..." if len(missing) > 5 else ""),
                f"take the folder {source.folder} of {source.repository} as a whole",
            )
        files = {f"{source.folder}/{name}": (place / name).read_bytes() for name in source.files}
        found.append((source, files))
    if not found:
        raise UserError(
            f"{folder} holds no result files of an upstream: expected results/ or scores/ of an official "
            "checkout, or folders tdmpc2/ and dreamerv3/ of such files.",
            "tdmpc2-lean references extract CHECKOUT --to DIR",
        )
    return found


def _holds(place: Path, source: Publication) -> bool:
    return any((place / name).is_file() for name in source.files)


def document(source: Publication, files: Mapping[str, bytes], commit: str) -> dict[str, Any]:
    """The JSON document of one reference, from its source files' bytes."""
    runs = read_csv_files(files) if source.files[0].endswith(".csv") else read_records(files)
    expected = tasks.TDMPC2 if source.repository.endswith("tdmpc2") else tasks.DREAMERV3
    if set(runs) != set(expected):
        raise UserError(
            f"{source.name}: the tasks in the files are not the known ones; "
            f"missing {sorted(set(expected) - set(runs))}, unknown {sorted(set(runs) - set(expected))}."
        )
    curves, oddities = {}, []
    for task in sorted(runs):
        curves[task], found = curve_of(task, runs[task], source.decimals)
        oddities += found
    return {
        "agent": source.agent,
        "binning": source.binning,
        "commit": commit,
        "copyright": source.copyright,
        "curves": curves,
        "files": {path: blob_id(content) for path, content in sorted(files.items())},
        "licence": source.licence,
        "name": source.name,
        "notes": [*source.notes, *_summary(oddities)],
        "protocol": source.protocol,
        "repository": source.repository,
        "task_sets": {name: list(listed) for name, listed in source.task_sets.items()},
        "title": source.title,
        "units": {"returns": RETURNS, "steps": ENV_STEPS},
        "versions": source.versions,
    }


def read_csv_files(files: Mapping[str, bytes]) -> dict[str, list[ListedRun]]:
    """Task -> runs, from files `<task>.csv` with the columns step, reward, seed.

    A run is a stretch of rows of one seed whose steps rise: where they fall back, another run begins.
    """
    runs = {}
    for path, content in files.items():
        rows = csv.DictReader(io.StringIO(content.decode("utf-8", "replace")))
        if rows.fieldnames != ["step", "reward", "seed"]:
            raise UserError(f"{path}: expected the columns step, reward, seed; found {rows.fieldnames}.")
        by_seed: dict[int, list[list[tuple[int, float]]]] = {}
        for line, row in enumerate(rows, 2):
            where = f"{path}, line {line}"
            seed, point = (
                _whole(row["seed"], where),
                (_whole(row["step"], where), _number(row["reward"], where)),
            )
            stretches = by_seed.setdefault(seed, [[]])
            if stretches[-1] and point[0] <= stretches[-1][-1][0]:
                stretches.append([])
            stretches[-1].append(point)
        runs[Path(path).stem] = [ListedRun(seed, tuple(s)) for seed in by_seed for s in by_seed[seed]]
    return runs


def read_records(files: Mapping[str, bytes]) -> dict[str, list[ListedRun]]:
    """Task -> runs, from gzipped JSON: a list of records with task, seed, xs (env steps) and ys (returns)."""
    runs: dict[str, list[ListedRun]] = {}
    for path, content in files.items():
        try:
            records = json.loads(gzip.decompress(content))
        except (OSError, EOFError, ValueError) as error:
            raise UserError(f"{path} is not gzipped JSON: {error}.") from error
        for number, record in enumerate(records):
            where = f"{path}, record {number}"
            if not {"task", "seed", "xs", "ys"} <= set(record) or not 0 < len(record["xs"]) == len(record["ys"]):
                raise UserError(f"{where}: expected task, seed, and xs and ys of one length.")
            xs, ys = record["xs"], record["ys"]
            points = tuple((_whole(x, where), _number(y, where)) for x, y in zip(xs, ys, strict=True))
            runs.setdefault(record["task"], []).append(ListedRun(_whole(record["seed"], where), points))
    return runs


def _number(value: Any, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{where}: expected a finite number, found {value!r}.")
    return number


def _whole(value: Any, where: str) -> int:
    number = _number(value, where)
    if number != int(number) or number < 0:
        raise UserError(f"{where}: expected a whole number from 0 on, found {value!r}.")
    return int(number)


def curve_of(task: str, runs: list[ListedRun], decimals: int) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """(a task's curve as JSON, what is odd about it as (kind, where)).

    All seeds share one even grid of env steps; null where a seed has no point. Of several runs of one seed
    the one that gets farthest is the curve, of equally far ones the first; others are `further_runs`.
    """
    chosen: dict[int, ListedRun] = {}
    for run in runs:
        steps = [step for step, _ in run.points]
        if any(b <= a for a, b in itertools.pairwise(steps)):
            raise UserError(f"{task}, seed {run.seed}: the steps do not rise.")
        if run.seed not in chosen or steps[-1] > chosen[run.seed].points[-1][0]:
            chosen[run.seed] = run
    seeds = sorted(chosen)
    grid = _grid([step for run in chosen.values() for step, _ in run.points])
    every = range(grid["first"], grid["last"] + 1, grid["every"])
    rows, oddities = [], []
    for seed in seeds:
        points = dict(chosen[seed].points)
        rows.append([_round(points[step], decimals) if step in points else None for step in every])
        first, last = min(points), max(points)
        if last < grid["last"]:
            oddities.append(("ends early", f"{task} seed {seed} (at {last})"))
        if first > grid["first"]:
            oddities.append(("starts late", f"{task} seed {seed} (at {first})"))
        holes = sum(1 for step in every if first < step < last and step not in points)
        if holes:
            oddities.append(("has holes", f"{task} seed {seed} ({holes})"))
    curve = {"returns": rows, "seeds": seeds, "steps": grid}
    further = sorted((run for run in runs if run is not chosen[run.seed]), key=lambda run: run.seed)
    if further:
        curve["further_runs"] = [
            {
                "returns": [_round(value, decimals) for _, value in run.points],
                "seed": run.seed,
                "steps": _grid([step for step, _ in run.points], whole=f"{task}, seed {run.seed}"),
            }
            for run in further
        ]
        oddities += [
            ("is listed twice", f"{task} seed {run.seed} (again up to {run.points[-1][0]})") for run in further
        ]
    return curve, oddities


def _grid(steps: list[int], whole: str = "") -> dict[str, int]:
    """The coarsest even grid that holds all `steps`; with `whole`, they must fill it."""
    present = sorted(set(steps))
    every = math.gcd(*(step - present[0] for step in present)) or 1
    if whole and (present[-1] - present[0]) // every + 1 != len(present):
        raise UserError(f"{whole}: the steps of a further run have holes, which is not provided for.")
    return {"every": every, "first": present[0], "last": present[-1]}


def _round(value: float, decimals: int) -> float | int:
    rounded = round(value, decimals)
    return int(rounded) if rounded == int(rounded) else rounded


def _summary(oddities: list[tuple[str, str]]) -> list[str]:
    """One note a kind of oddity; the cases are listed where they are few, and counted where they are many."""
    notes = []
    for kind in sorted({kind for kind, _ in oddities}):
        cases = [where for found, where in oddities if found == kind]
        listed = ", ".join(cases) if len(cases) <= 40 else "not listed here: see the nulls"
        notes.append(f"A seed's curve {kind} in {len(cases)} case{'s' * (len(cases) > 1)}: {listed}.")
    return notes


def render(document: Mapping[str, Any]) -> str:
    """JSON text: keys sorted, a field a line, a seed's returns a line; the same for the same document."""
    lines = []
    for key in sorted(document):
        value = document[key]
        if key == "curves":
            value = "{\n" + ",\n".join(f"{_flat(task)}:{_curve(value[task])}" for task in sorted(value)) + "}"
        elif key == "files":
            value = "{\n" + ",\n".join(f"{_flat(path)}:{_flat(value[path])}" for path in sorted(value)) + "}"
        elif key == "notes":
            value = "[\n" + ",\n".join(_flat(note) for note in value) + "]"
        else:
            value = _flat(value)
        lines.append(f"{_flat(key)}:{value}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _curve(curve: Mapping[str, Any]) -> str:
    parts = []
    if "further_runs" in curve:
        parts.append('"further_runs":[\n' + ",\n".join(_flat(run) for run in curve["further_runs"]) + "]")
    parts.append('"returns":[\n' + ",\n".join(_flat(row) for row in curve["returns"]) + "]")
    parts += [f'"seeds":{_flat(curve["seeds"])}', f'"steps":{_flat(curve["steps"])}']
    return "{" + ",\n".join(parts) + "}"


def _flat(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def blob_id(content: bytes) -> str:
    """The id that git gives to a file of that content; compare with `git ls-tree -r COMMIT`."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def digest_of(files: Mapping[str, bytes]) -> str:
    """SHA-256 over the sorted lines `<git blob id> <path>` of the files."""
    lines = sorted(f"{blob_id(content)} {path}\n" for path, content in files.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _other_files(source: Publication, files: Mapping[str, bytes]) -> UserError:
    from tdmpc2_lean import references

    known = references.load(source.name).files if source.name in references.names() else {}
    other = [path for path, content in sorted(files.items()) if known.get(path) != blob_id(content)]
    named = ", ".join(other[:5]) + (", ..." if len(other) > 5 else "")
    return UserError(
        f"{len(other)} of the {len(files)} files of {source.name} are not those of {source.repository} at "
        f"{source.commit[:7]}: {named}.",
        "take them from that commit, or say which commit these are of: --commit COMMIT",
    )


def _write(path: Path, text: str) -> Written:
    """Write the file at once or not at all, and only if it says something else already."""
    content = text.encode("ascii")
    if path.is_file() and path.read_bytes() == content:
        return Written(path, False)
    atomic_write(path, content)
    return Written(path, True)
