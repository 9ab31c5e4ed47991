"""The import graph of the project: which part may know of which, from the bottom to the top.

Every module of the four packages belongs to one layer, by the longest prefix of its name in LAYERS. It may import what
lies in its own layer or below. An import within a function counts like one at the top of a file: a circle is no less
one for being tied late. The layers, from the bottom:

 0  what everybody may use: errors, files, places, parsing, nearest, tables, versions, platforms
 1  upstreams, official code: found, fetched, verified; references, published curves; what a setting is
 2  patching: patches read, applied, reverted, audited
 3  patched: patched copies of official code
 4  settings, environments: what may be set, and where tasks come from
 5  runs: one way to make a run; knows upstreams by their adapters alone, which `runs.adapter` names
 6  tdmpc2, dreamer_bridge: the adapters
 7  validation.judging: protocols, criteria, verdicts
 8  campaigns: runs that answer a question
 9  validation.gates, .report, .benchmarks, training, trying, demo
10  commands, and above them the console

What differs between upstreams is decided in their adapters and where they are registered: elsewhere no upstream's name
is compared with, and no table has an entry for each. REGISTRIES lists where they may, and why.
"""

import ast
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).parents[2]
# Top folders; those beside the package are parts of it, see tdmpc2_lean/__init__.py.
TOPS = {"tdmpc2_lean": "tdmpc2_lean", "dreamer_bridge": "dreamer_bridge"} | {
    name: f"tdmpc2_lean.{name}" for name in ("validation", "references")
}
# Code that is no part of the package's modules: it runs in processes and folders of its own.
NOT_OURS = {"miniature", "controls", "supplied"}

LAYERS = {
    "tdmpc2_lean": 0,  # its own __init__
    "tdmpc2_lean.errors": 0,
    "tdmpc2_lean.files": 0,
    "tdmpc2_lean.places": 0,
    "tdmpc2_lean.parsing": 0,
    "tdmpc2_lean.presets": 0,
    "tdmpc2_lean.platforms": 0,
    "tdmpc2_lean.nearest": 0,
    "tdmpc2_lean.tables": 0,
    "tdmpc2_lean.versions": 0,
    "tdmpc2_lean.upstreams": 1,
    "tdmpc2_lean.references": 1,
    "tdmpc2_lean.settings.schema": 1,
    "tdmpc2_lean.patching": 2,
    "tdmpc2_lean.patched": 3,
    "tdmpc2_lean.settings": 4,
    "tdmpc2_lean.environments": 4,
    "tdmpc2_lean.runs": 5,
    "tdmpc2_lean.tdmpc2": 6,
    "dreamer_bridge": 6,
    "tdmpc2_lean.validation.judging": 7,
    "tdmpc2_lean.campaigns": 8,
    "tdmpc2_lean.validation": 9,
    "tdmpc2_lean.training": 9,
    "tdmpc2_lean.trying": 9,
    "tdmpc2_lean.demo": 9,
    "tdmpc2_lean.commands": 10,
    "tdmpc2_lean.cli": 10,
    "dreamer_bridge.commands": 10,
    "dreamer_bridge.cli": 10,
    "tdmpc2_lean.bridge": 11,
    "tdmpc2_lean.console": 11,
    "tdmpc2_lean.__main__": 11,
    "dreamer_bridge.__main__": 11,
}
NAMES = {"tdmpc2", "dreamerv3"}
# Where an upstream's name may decide.
REGISTRIES = {
    "tdmpc2_lean.tdmpc2": "its adapter",
    "dreamer_bridge": "its adapter",
    "tdmpc2_lean.upstreams.registry": "says which upstreams there are",
    "tdmpc2_lean.runs.adapter": "leads from a name to the adapter",
    "tdmpc2_lean.environments": "says how each upstream spells tasks and uses a source",
    "tdmpc2_lean.references.tasks": "lists the tasks of each upstream's published curves",
    "tdmpc2_lean.trying": "says which upstream's code stands for the miniature's, and tries it",
    "tdmpc2_lean.validation.gates.suites": "lists the gates of each upstream",
    "tdmpc2_lean.validation.gates.strength.scope": "lists the files of each upstream of which mutants are made",
    "tdmpc2_lean.validation.judging.agents": "says of each agent what its protocols are and what its runs compute",
}


def name_of(path: Path) -> str:
    """The module's dotted name as it is imported."""
    relative = path.relative_to(PROJECT)
    parts = [*TOPS[relative.parts[0]].split("."), *relative.with_suffix("").parts[1:]]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, tuple[Path, ast.Module]]:
    """{name: (file, syntax)} of every module of the project, each once."""
    found = {}
    for top in TOPS:
        for path in sorted((PROJECT / top).rglob("*.py")):
            below = path.relative_to(PROJECT).parts
            linked = any((PROJECT / Path(*below[:depth])).is_symlink() for depth in range(2, len(below)))
            if not linked and not NOT_OURS & set(below):
                found[name_of(path)] = (path, ast.parse(path.read_text(encoding="utf-8")))
    return found


def imported(name: str) -> set[str]:
    """The project's modules that a module imports, wherever in it; names given by a text count too."""
    path, syntax = modules()[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(syntax):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [base])])
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    ours = {one for one in found if one in modules()}
    # `from a import b` imports the module b; that a itself is imported with it says nothing where it only holds it.
    return {one for one in ours if not any(other.startswith(f"{one}.") for other in ours)} - {name}


def layer_of(name: str) -> int:
    """By the longest prefix."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if (prefix := ".".join(parts[:length])) in LAYERS and (length == len(parts) or prefix != "tdmpc2_lean"):
            return LAYERS[prefix]
    raise AssertionError(f"{name} belongs to no layer: say in LAYERS where it stands")


def test_every_module_belongs_to_a_layer():
    assert len([layer_of(name) for name in modules()]) > 100


def test_the_layers_name_only_what_there_is():
    known = set(modules()) | {".".join(name.split(".")[:depth]) for name in modules() for depth in range(1, 9)}
    assert set(LAYERS) <= known


def test_no_import_runs_back_up():
    found = {
        (name, other)
        for name in modules()
        for other in imported(name)
        if layer_of(other) > layer_of(name)
    }
    assert {pair: f"layer {layer_of(pair[0])} imports layer {layer_of(pair[1])}" for pair in found} == {}


def test_runs_know_upstreams_by_their_adapters_alone():
    """Not even by a text, but in `runs.adapter`."""
    beyond = ("tdmpc2_lean.tdmpc2", "tdmpc2_lean.campaigns", "tdmpc2_lean.commands", "dreamer_bridge",
              "tdmpc2_lean.validation")  # fmt: skip
    for name in modules():
        if not name.startswith("tdmpc2_lean.runs") or name == "tdmpc2_lean.runs.adapter":
            continue
        assert not [other for other in imported(name) if other.startswith(beyond)], name
        texts = [
            node.value
            for node in ast.walk(modules()[name][1])
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(beyond)
        ]
        assert texts == [], name


def test_the_adapters_do_not_know_each_other():
    for name in modules():
        others = {"tdmpc2_lean.tdmpc2": "dreamer_bridge", "dreamer_bridge": "tdmpc2_lean.tdmpc2"}
        for one, other in others.items():
            if name.startswith(one):
                assert not [found for found in imported(name) if found.startswith(other)], name


def decides_by_name(syntax: ast.Module) -> list[int]:
    """Lines on which something is compared with an upstream's name, or looked up by it in a table written there."""
    lines = []
    for node in ast.walk(syntax):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for side in sides:
                inner = side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side]
                if any(isinstance(one, ast.Constant) and one.value in NAMES for one in inner):
                    lines.append(node.lineno)
        elif isinstance(node, ast.MatchValue) and isinstance(node.value, ast.Constant) and node.value.value in NAMES:
            lines.append(node.value.lineno)
        elif isinstance(node, ast.Dict) and NAMES <= {getattr(key, "value", None) for key in node.keys}:
            lines.append(node.lineno)
    return sorted(set(lines))


def test_an_upstreams_name_decides_only_in_adapters_and_registries():
    found = {
        name
        for name, (_, syntax) in modules().items()
        if not name.startswith(tuple(REGISTRIES)) and decides_by_name(syntax)
    }
    assert {name: decides_by_name(modules()[name][1]) for name in found} == {}


def test_the_registries_name_only_what_there_is():
    for prefix in REGISTRIES:
        under = [syntax for name, (_, syntax) in modules().items() if name == prefix or name.startswith(f"{prefix}.")]
        assert under, prefix


def test_decisions_by_name_are_found():
    for text in ("upstream == 'tdmpc2'", "'dreamerv3' != x", "x in ('tdmpc2', 'y')", "{'tdmpc2': f, 'dreamerv3': g}[x]",
                 "match x:\n case 'tdmpc2': pass"):  # fmt: skip
        assert decides_by_name(ast.parse(text)), text
    assert not decides_by_name(ast.parse("adapter_of('tdmpc2'); x == 'tdmpc2-smoke'; {'tdmpc2': 1}"))
