"""Cases of the gate `functions` of DreamerV3 on the replay, its chunks and selectors, its limiter, and streams."""

import itertools
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

from tdmpc2_lean.validation.gates.cases import Case
from tdmpc2_lean.validation.gates.functions_dreamerv3 import raised


def table(code_dir: Path) -> dict[str, Callable[[Case], None]]:
    return {
        "limiters": limiters,
        "selectors": selectors,
        "sample-tree": sample_tree,
        "chunks": chunks,
        "replay": replay,
        "replay-online": replay_online,
        "replay-saved": replay_saved,
        "streams": streams,
    }


@contextmanager
def numbered():
    """Within it, chunks have numbers for names and times, in the order in which they are made."""
    import elements

    times, original = itertools.count(), elements.timestamp
    elements.UUID.reset(debug=True)
    elements.timestamp = lambda *_, **__: f"20260101T{next(times):06}F000"
    try:
        yield
    finally:
        elements.timestamp = original
        elements.UUID.reset(debug=False)


def limiters(case: Case) -> None:
    """Whether samples and inserts are wanted, below and above the smallest size, at both limits; waiting."""
    from embodied.core import limiters as official

    for ratio, tolerance, least in ((4, 8, 3), (0.5, 2, 1), (0, 1, 2), (-1, 5, 1), (1, 1, 5)):
        made = official.SamplesPerInsert(ratio, tolerance, least)
        for number, call in enumerate("iisiiiiissssssssssssssssssssssssiiiiiiiiiiiiiissii"):
            case.record(f"{ratio}, step {number}", insert=made.want_insert(), sample=made.want_sample(), **made.save())
            made.insert() if call == "i" else made.sample()
        other = official.SamplesPerInsert(ratio, tolerance, least)
        other.load(made.save())
        case.record("loaded", **other.save(), limits=[other.min_avail, other.max_avail])
    case.record("refused", error=raised(lambda: official.SamplesPerInsert(1, 1, 0)))
    clock, told, original = [0.0], [], official.time
    official.time = SimpleNamespace(
        time=lambda: clock[0],
        sleep=lambda seconds: (told.append(seconds), clock.__setitem__(0, clock[0] + 20)),
    )
    printed, official.print = [], lambda *words: printed.append(words)
    try:
        for length in (0, 1, 9):
            turns = iter([False] * length + [True] * 3)
            waited = official.wait(lambda turns=turns: next(turns), "waits", info=length)
            again = iter([False] * length + [True] * 3)
            case.record(
                f"{length} turns", waited=waited, other=official.wait(lambda a=again: next(a), "w", sleep=3, notify=30)
            )
        case.record("told", sleeps=told, printed=printed)
    finally:
        official.time = original
        del official.print


def used(case: Case, name: str, selector, prioritised: bool = False) -> None:
    """Fills a selector, draws, removes, changes priorities, and draws again."""
    import numpy as np

    step = lambda key: [np.array([key, part], np.uint8) for part in range(3)]  # noqa: E731
    for key in range(40):
        selector[key] = step(key) if key % 2 else [x.tobytes() for x in step(key)]
        if prioritised and key % 3 == 0:
            selector.prioritize(step(key), [0.5 * key, 3.0, 0.0])
        if key % 5 == 0:
            case.record(f"{name} at {key}", drawn=[selector() for _ in range(4)], size=size_of(selector))
    for key in (0, 17, 39, 38, 1):
        del selector[key]
        case.record(f"{name} without {key}", drawn=[selector() for _ in range(6)], size=size_of(selector))
    case.record(name, drawn=[selector() for _ in range(60)])


def recency(case: Case, name: str, selector) -> None:
    """Its tree, its items while it grows and shrinks, and what a draw gives or raises, as the official one's do."""
    for key in range(30):
        selector[key] = []
    for key in (0, 17, 29):
        del selector[key]
    case.record(name, {f"level {i}": level for i, level in enumerate(selector.tree)}, size=len(selector))
    case.record(name, items=selector.items, steps=selector.steps, step=selector.step, number=selector.rng.integers(99))
    case.record(name, error=raised(selector), by_tree=raised(lambda: selector._sample(selector.tree, selector.rng)))


def size_of(selector):
    return len(selector) if hasattr(selector, "__len__") else None


def selectors(case: Case) -> None:
    """Every selector while it grows and shrinks; priorities; what is refused."""
    import numpy as np
    from embodied.core import selectors as official

    uniform, recent, prioritised = official.Uniform, official.Recency, official.Prioritized
    case.record("first in, first out", **first_out(official.Fifo()))
    for seed in (0, 3):
        used(case, f"uniform {seed}", uniform(seed))
        for name, probs in (
            ("many", 1.0 / np.arange(1, 301)),
            ("few", 1.0 / np.arange(1, 41) ** 2),
            ("alike", np.ones(50)),
        ):
            recency(case, f"recency of {name} {seed}", recent(probs, seed))
    recency(case, "recency", recent(np.ones(20)))
    used(case, "uniform", uniform())
    for given in (
        {},
        {"exponent": 0.8, "initial": float("inf"), "zero_on_sample": True, "maxfrac": 0.5},
        {"branching": 3, "seed": 4, "initial": 0.0},
    ):
        used(case, f"prioritised {given}", prioritised(**given), True)
    mixed = official.Mixture(
        {"a": uniform(1), "b": prioritised(seed=2), "c": recent(np.ones(50))}, {"a": 0.5, "b": 0.5, "c": 0.0}, 5
    )
    used(case, "mixture", mixed, True)
    used(case, "mixture, unseeded", official.Mixture({"a": uniform(1), "b": official.Fifo()}, {"b": 0.75, "a": 0.25}))
    one = uniform()
    one["only"] = []
    gone = recent(np.ones(5))
    gone[1] = []
    case.record(
        "refused",
        last=raised(lambda: one.__delitem__("only")),
        rising=raised(lambda: recent(np.array([1.0, 2.0]))),
        endless=raised(lambda: recent(np.array([np.inf, 2.0]))),
        negative=raised(lambda: recent(np.array([1.0, -2.0]))),
        share=raised(lambda: prioritised(maxfrac=1.5)),
        fractions=raised(lambda: official.Mixture({"a": one}, {"a": 0.4})),
        names=raised(lambda: official.Mixture({"a": one}, {"b": 1.0})),
        branching=raised(lambda: official.SampleTree(1)),
    )


def first_out(queue) -> dict:
    found = {}
    for key in range(6):
        queue[key] = []
    for key in (0, 3, 1):
        del queue[key]
        found[f"without {key}"] = [queue(), len(queue)]
    return found


def sample_tree(case: Case) -> None:
    """A tree of priorities while it grows, shrinks and changes; equal, zero and infinite ones."""
    from embodied.core.selectors import SampleTree

    def shape(node):
        return [shape(x) for x in node.children] if hasattr(node, "children") else (node.key, node.uprob)

    for branching in (2, 3, 16):
        tree = SampleTree(branching, seed=branching)
        for key in range(20):
            tree.insert(key, float(key % 4))
            if key in (0, 1, 5, 19):
                case.record(
                    f"{branching}, {key}",
                    tree=shape(tree.root),
                    text=repr(tree.root),
                    size=len(tree),
                    sum=tree.root.uprob,
                )
        case.record("drawn", keys=[tree.sample() for _ in range(40)])
        for key in (19, 3, 0, 18, 7, *range(8, 18)):
            tree.remove(key)
            case.record(f"{branching} without {key}", tree=shape(tree.root), last=tree.last.key)
        for key, prob in ((1, 0.0), (2, float("inf")), (4, float("inf")), (2, 0.0), (4, 0.0), (5, 0.0), (6, 0.0)):
            tree.update(key, prob)
            case.record(f"{branching}, {key} at {prob}", tree=shape(tree.root), keys=[tree.sample() for _ in range(9)])
        for key in (1, 2, 4, 5, 6):
            tree.remove(key)
        case.record("empty", last=repr(tree.last), tree=shape(tree.root))
        tree.insert("again", 2.0)
        case.record("again", key=tree.sample(), tree=shape(tree.root))


def step_of(worker: int, number: int, length: int = 7) -> dict:
    """A step of an environment, with episodes of `length` steps."""
    import numpy as np

    return {
        "vec": np.float32([worker, number, 0.5]),
        "reward": np.float32(number / 8),
        "is_first": np.bool_(number % length == 0),
        "is_last": np.bool_(number % length == length - 1 and number % 3 != 0),
        "is_terminal": np.bool_(number % 14 == 13),
        "log/seen": np.float32(1),
    }


def chunks(case: Case) -> None:
    """A chunk while it fills; parts of it, changes, files; what is refused."""
    import elements
    import numpy as np
    from embodied.core.chunk import Chunk

    with numbered():
        one, other = Chunk(4), Chunk()
        case.record(
            "new", name=one.filename, size=other.size, bytes=one.nbytes, text=repr(one), less=[one < other, other < one]
        )
        for number in range(4):
            step = {k: np.asarray(v) for k, v in step_of(0, number).items()}
            one.append(step)
            case.record(
                f"{number} steps",
                {k: v[: one.length] for k, v in one.data.items()},
                length=one.length,
                bytes=one.nbytes,
            )
        one.update(1, 2, {"reward": np.float32([7, 8])})
        one.succ = other.uuid
        case.record("changed", one.slice(1, 3), name=one.filename)
        case.record("whole", one.slice(0, 4))
        short = Chunk(6)
        short.append(step)
        folder = Path("chunks")
        folder.mkdir(exist_ok=True)
        for chunk in (one, short):
            chunk.save(str(folder), log=chunk is one)
            found = Chunk.load(elements.Path(str(folder)) / chunk.filename)
            facts = {k: repr(getattr(found, k)) for k in ("time", "uuid", "succ", "length", "size", "saved")}
            case.record("loaded", found.data, **facts, files=sorted(p.name for p in folder.iterdir()))
        (folder / "a-2-3-4.npz").write_bytes(b"nothing")
        broken = elements.Path(str(folder)) / "a-2-3-4.npz"
        case.record("broken", raised=raised(lambda: Chunk.load(broken)), none=repr(Chunk.load(broken, error="none")))
        for name, call in {
            "full": lambda: one.append(step), "before": lambda: one.slice(-1, 2), "after": lambda: one.slice(2, 3),
            "changed before": lambda: one.update(-1, 1, {}), "changed after": lambda: one.update(3, 2, {}),
            "saved twice": lambda: one.save(str(folder)), "another error": lambda: Chunk.load(broken, "x"),
            "far after": lambda: one.update(5, 0, {}), "backwards": lambda: one.update(1, -2, {}),
        }.items():  # fmt: skip
            case.record(f"refused: {name}", error=raised(call))


def inside(held) -> dict:
    """What a replay holds."""
    name = str
    found = {
        "items": [(k, name(u), i) for k, (u, i) in held.items.items()],
        "fifo": list(held.fifo),
        "refs": {name(k): v for k, v in held.refs.items()},
        "current": {w: (name(u), i) for w, (u, i) in held.current.items()},
        "streams": {w: [(name(u), i) for u, i in v] for w, v in held.streams.items()},
        "chunks": [(name(u), c.length, name(c.succ)) for u, c in held.chunks.items()],
        "metrics": dict(held.metrics),
        "size": len(held),
        "ready": held._notempty(),
        "reason": held._notempty(True),
    }
    if held.online:
        found["online"] = [dict(held.lengths), [(name(u), i) for u, i in held.queue]]
    return found


def filled(case: Case, held, steps: int, workers: int, every: int, begin: int = 0) -> None:
    for number in range(begin, begin + steps):
        for worker in range(workers):
            if worker == 0 or number % 2:
                held.add(step_of(worker, number), worker)
        if number % every == every - 1:
            case.record(f"after {number} steps", inside(held))
            if len(held):
                for mode in ("train", "report", "eval"):
                    case.record(f"{mode} batch after {number} steps", held.sample(3, mode))


def changed(case: Case, held, seed: int) -> None:
    """Writes latents of a batch back and looks at them; also for steps that are there no more."""
    import numpy as np

    batch = held.sample(3)
    values = np.random.default_rng(seed).standard_normal(batch["vec"].shape).astype(np.float32)
    stepid = batch["stepid"].copy()
    stepid[0] = 99
    held.update({"stepid": stepid, "vec": values})
    last = batch["stepid"][:, -2:]
    held.update(
        {"stepid": last, "reward": np.arange(last.shape[0] * last.shape[1], dtype=np.float32).reshape(last.shape[:2])}
    )
    held.update({"stepid": batch["stepid"]})
    stored = {f"{i}/{k}": v[: c.length] for i, c in enumerate(held.chunks.values()) for k, v in (c.data or {}).items()}
    case.record("after latents", stored, **held.metrics)


def replay(case: Case) -> None:
    """Filling up to capacity and past it, in chunks shorter and longer than sequences; batches; latents; figures."""
    import numpy as np
    from embodied import Replay
    from embodied.core import selectors as of

    for length, capacity, chunksize, workers in ((4, 12, 3, 2), (5, 9, 64, 3), (6, None, 4, 1), (1, 5, 2, 2)):
        with numbered():
            held = Replay(length, capacity, chunksize=chunksize)
            case.record("made", inside(held), stats=repr(held.stats()))
            filled(case, held, 30, workers, 5)
            changed(case, held, length)
            stats = held.stats()
            case.record("figures", {k: repr(v) for k, v in stats.items()}, after=dict(held.metrics))
    with numbered():
        held = Replay(4, 20, chunksize=8, selector=of.Prioritized(seed=1), name="named")
        case.record("an empty selector", kind=type(held.sampler).__name__)
        held.sampler = of.Prioritized(seed=1)
        filled(case, held, 12, 2, 4)
        batch = held.sample(2)
        held.update({"stepid": batch["stepid"], "priority": np.arange(8.0).reshape(2, 4)})
        case.record("by priority", held.sample(6), stats=repr(held.stats()), name=held.name)
        bare = Replay(2, 9)
        for number in range(5):
            bare.add({"x": np.float32(number)})
        case.record("without flags", bare.sample(2))
        case.record(
            "refused",
            mode=raised(lambda: held._sample("other")),
            flat=raised(lambda: held.update({"stepid": batch["stepid"][0]})),
            priority=raised(lambda: held.update({"stepid": batch["stepid"], "priority": np.zeros(8)})),
        )
        case.record(
            "sizes",
            chunk=bare.chunksize,
            capacity=Replay(3).capacity,
            online=bare.online,
            directory=repr(bare.directory),
        )
        parts = [{"stepid": [np.arange(3), np.arange(3, 8), np.arange(8, 10)]}] * 2
        for span in ((0, 10), (2, 9), (3, 8), (4, 5)):
            case.record(f"part {span}", held._assemble_batch(parts, *span))
        flags = {
            "is_first": np.array([[False, True, False, True]]),
            "is_last": np.array([[False, False, False, False]]),
        }
        for first in (True, False):
            case.record("flags", held._annotate_batch(flags, [True], first))
        case.record("flags alone", held._annotate_batch({"is_first": flags["is_first"]}, [True], True))
        case.record("flags as they were", flags)


def replay_online(case: Case) -> None:
    """Each sequence once before others are drawn, for several workers, also when it has been evicted."""
    from embodied import Replay

    for length, capacity in ((4, 40), (3, 6)):
        with numbered():
            held = Replay(length, capacity, chunksize=5, online=True, seed=2)
            filled(case, held, 26, 2, 9)
            case.record("drawn", {str(i): held.sample(2)["vec"] for i in range(8)})
            case.record("at the end", inside(held))


def replay_saved(case: Case) -> None:
    """Saving twice while it grows, loading all and a part, beside what is there; files that are broken; overlaps."""
    import elements
    from embodied import Replay

    folder = Path("replay")

    def files():
        return sorted(path.name for path in folder.glob("*"))

    with numbered():
        held = Replay(4, 60, str(folder), chunksize=6, save_wait=True, online=True)
        for begin, steps in ((0, 9), (9, 12), (21, 5)):
            filled(case, held, steps, 2, 50, begin)
            told = held.save()
            case.record(f"saved {begin}", inside(held), files=files(), told=repr(told))
        for capacity, amount in ((60, None), (12, None), (60, 20), (None, None)):
            other = Replay(4, capacity, str(folder), chunksize=6, seed=1)
            other.load(amount=amount)
            case.record(
                f"loaded {capacity} {amount}", inside(other), saved=sorted(map(str, getattr(other, "saved", [])))
            )
            case.record("drawn", other.sample(3))
    with numbered():
        elements.UUID.reset(debug=False)
        again = Replay(4, 60, str(folder), chunksize=6, save_wait=True)
        again.load(None)
        case.record(
            "loaded", sizes=[len(again), len(again.chunks)], refs=sorted(again.refs.values()), saved=len(again.saved)
        )
        again.load(None)
        case.record("loaded twice", sizes=[len(again), len(again.chunks)])
        names = files()
        (folder / names[1]).write_bytes(b"broken")
        part = Replay(4, 60, str(folder), chunksize=6)
        part.load(None)
        case.record("one is broken", sizes=[len(part), len(part.chunks)], refs=sorted(part.refs.values()))
        case.record("steps", {k: v for k, v in part.sample(4).items() if k != "stepid"})
        numbers = part._numitems(names)
        case.record("numbers", numbers={str(k): int(v) for k, v in numbers.items()}, none=part._numitems([]))
        nowhere = Replay(4, 60)
        case.record("from a folder", error=raised(lambda: nowhere.load(directory=str(folder))))
        case.record("nowhere", saved=repr(nowhere.save()), loaded=repr(nowhere.load()), size=len(nowhere))


def streams(case: Case) -> None:
    """Streams with and without a thread: order, prefixes, positions saved and restored, errors."""
    import numpy as np
    from embodied.core import streams as of

    class Counting:
        """Counts; its position can be saved."""

        def __init__(self, begin=0, width=9):
            self.count, self.width = begin, width

        def __iter__(self):
            return self

        def __next__(self):
            self.count += 1
            flags = np.zeros((2, self.width), bool)
            return {"is_first": flags, "x": np.arange(2 * self.width).reshape(2, self.width) + 100 * self.count}

        def save(self):
            return self.count

        def load(self, state):
            self.count = state

    def drawn(stream, count):
        return {f"{i}/{k}": v for i in range(count) for k, v in next(stream).items()}

    for length, consec, prefix, strict, contiguous in (
        (4, 2, 1, True, True),
        (3, 3, 0, True, False),
        (2, 3, 1, False, True),
        (9, 1, 0, True, True),
    ):
        stream = iter(of.Consec(Counting(), length, consec, prefix, strict, contiguous))
        found = drawn(stream, 5)
        case.record(f"parts of {length}", found, layout=[v.flags["C_CONTIGUOUS"] for v in found.values()])
        state = {k: v for k, v in stream.save().items() if k in ("source", "index")}
        case.record("saved", state=state)
        stream.load({"source": 40, "index": consec})
        case.record("restored", drawn(stream, 2))
    for given in ((5, 2, 0, False), (4, 2, 0, True), (4, 2, 2, False)):
        case.record("refused", error=raised(lambda g=given: next(iter(of.Consec(Counting(), *g)))))
    case.record(
        "by default",
        prefix=of.Consec(None, 1, 1).prefix,
        strict=of.Consec(None, 1, 1).strict,
        contiguous=of.Consec(None, 1, 1).contiguous,
    )
    plain = of.Stateless(lambda a, b: a + b, 3, b=4)
    case.record("stateless", value=next(iter(plain)), saved=repr(plain.save()), loaded=repr(plain.load(3)))
    case.record("of an iterator", drawn=[next(of.Stateless(iter([5, 6]))) for _ in range(2)])
    zipped = of.Zip([Counting(), Counting(50)])
    stream = iter(zipped)
    case.record("zipped", drawn(stream, 2), saved=stream.save())
    stream.load([7, 8])
    case.record(
        "zipped, restored",
        drawn(stream, 1),
        twice=raised(lambda: iter(zipped)),
        one=raised(lambda: of.Zip([1])),
        count=raised(lambda: stream.load([1])),
    )
    mapped = of.Map(Counting(), lambda data, plus, times: {"x": data["x"] * times + plus}, 3, times=2)
    early = raised(lambda: next(mapped))
    stream = iter(mapped)
    case.record("mapped", drawn(stream, 2), saved=stream.save(), twice=raised(lambda: iter(mapped)), early=early)
    stream.load(90)
    case.record("mapped, restored", drawn(stream, 1))
    for amount in (1, 3):
        source = Counting()
        ahead = of.Prefetch(source, lambda data: {"x": data["x"] + 1}, amount)
        early = raised(lambda ahead=ahead: next(ahead))
        stream = iter(ahead)
        found = drawn(stream, 4)
        case.record(f"ahead {amount}", found, saved=stream.save(), early=early, twice=raised(lambda s=ahead: iter(s)))
        settle(lambda s=source, n=4 + amount: s.count == n)
        case.record("made ahead", count=source.count)
        stream.load(30)
        case.record("ahead, restored", drawn(stream, 2), saved=stream.save())
    unstarted = of.Prefetch(lambda: Counting())
    unstarted.load(5)
    case.record("ahead, restored before it began", drawn(iter(unstarted), 1))
    failing = of.Prefetch(iter([{"x": np.zeros(1)}]), amount=3)
    failing.worker.start, failing.started = (lambda: None), True
    case.record(
        "an error", error=raised(lambda: failing._worker()), told=[type(x).__name__ for x in failing.queue.queue]
    )
    failing.queue.queue.clear()
    failing.queue.put("broken")
    case.record("an error told", error=raised(lambda: next(failing)))


def settle(done, seconds: float = 5.0) -> None:
    """Waits until a thread has done what it is to do, or the time is over."""
    import time

    until = time.monotonic() + seconds
    while not done() and time.monotonic() < until:
        time.sleep(0.01)
