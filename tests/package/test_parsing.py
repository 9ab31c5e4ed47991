"""Parsing in threads, which CPython 3.11 (seen: 3.11.2, 3.11.7) gets wrong where the collector calls Python code."""

import ast
import gc
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tdmpc2_lean.parsing import parse


def test_threads_parse_at_the_same_time():
    source = Path(ast.__file__).read_text(encoding="utf-8")
    earlier = gc.get_threshold()
    gc.callbacks.append(give_way)
    gc.set_threshold(50)
    try:
        with ThreadPoolExecutor(4) as pool:
            trees = list(pool.map(lambda _: parse(source), range(12)))
    finally:
        gc.callbacks.remove(give_way)
        gc.set_threshold(*earlier)
    assert len({ast.dump(tree) for tree in trees}) == 1


def give_way(phase, info):
    """Lets another thread go on, as any Python code may that the collector calls."""
    time.sleep(0)
