"""The edits that make mutants of a configuration: each of its leaves changed, all other bytes as they were."""

from collections.abc import Iterator

from tdmpc2_lean.validation.gates.strength.operators import Mutation


def edits_of_yaml(source: bytes, sections: tuple[str, ...] | None = None) -> Iterator[Mutation]:
    """The leaves of a configuration changed: numbers doubled and one more, words and truth values others.

    sections: top-level keys to look into; None for all. Keys in question marks are for others to fill in.
    """
    import yaml

    text = source.decode("utf-8")
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    for path, node in leaves(root):
        if path[0] == "defaults" and len(path) > 1 and path[1] == "0" or sections and path[0] not in sections:
            continue
        start = len(text[: node.start_mark.index].encode())
        end = len(text[: node.end_mark.index].encode())
        was = source[start:end].decode()
        line = node.start_mark.line + 1
        for other in other_values(was, node.value, node.style is not None):
            key = ".".join(path)
            edit = (start, end, other.encode(), "setting", f"{key}: {was} -> {other}", line, (line, line))
            yield Mutation(*edit, key, f"{key}|{was}|{other}", f"{key}|{was}")


def leaves(node, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    if node is None:
        return
    if node.id == "mapping":
        for key, value in node.value:
            yield from leaves(value, (*path, key.value))
    elif node.id == "sequence":
        for number, value in enumerate(node.value):
            yield from leaves(value, (*path, str(number)))
    elif path:
        yield path, node


def other_values(was: str, value: str, quoted: bool) -> list[str]:
    """What a leaf is changed to, as YAML writes it."""
    if not was or value == "???":
        return []
    if quoted:
        return [repr(value + "_")]
    if value.lower() in ("true", "false"):
        return ["false" if value.lower() == "true" else "true"]
    if value.lower() in ("null", "~"):
        return ["1"]
    plain = value.replace("_", "")
    try:
        return list(dict.fromkeys(str(other) for other in (int(plain) * 2, int(plain) + 1) if other != int(plain)))
    except ValueError:
        pass
    try:
        number = float(plain)
    except ValueError:
        return [value + "_"]
    return [repr(number * 2)] if number else ["0.5"]
