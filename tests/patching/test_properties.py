"""Properties over generated sources and edits: whatever the file's habits, nothing but the edit changes."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tdmpc2_lean.patching import Edit, Patch, Series, Snippet, apply, export, render_series, revert, status
from tests.patching.conftest import commit_all, git, snapshot, write_files

FEW = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
SOME = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
FEWEST = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))

VALUES = st.sampled_from(["1", "'é😀'", "f(a, b=2)", "[\n1,\n]", '"""long\n  text\n"""', "x if y else z"])
COMMENTS = st.sampled_from(["", "  # short", "  # länger 日本"])


@st.composite
def sources(draw):
    """A Python file in any style: a class with methods of statements `self.v<n> = …`; and how many."""
    unit = draw(st.sampled_from(["\t", "  ", "    "]))
    lines, number = [], 0
    if draw(st.booleans()):
        lines += ['"""Doc."""', ""]
    lines += [draw(st.sampled_from(["class A:", "@deco\nclass A(B):"]))]
    for method in range(draw(st.integers(1, 3))):
        lines += [""] * draw(st.integers(0, 2)) + [f"{unit}def m{method}(self):"]
        for _ in range(draw(st.integers(1, 3))):
            deep = draw(st.booleans())
            if deep:
                lines.append(f"{unit * 2}if c:")
            indent = unit * (3 if deep else 2)
            lines.append(f"{indent}self.v{number} = {draw(VALUES)}{draw(COMMENTS)}")
            number += 1
            lines += [""] * draw(st.integers(0, 1))
    text = "\n".join(lines) + "\n" * draw(st.integers(0, 2))
    data = text.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))).encode()
    return b"\xef\xbb\xbf" * draw(st.booleans()) + data, number


@st.composite
def edits(draw, file, number, statement):
    """An edit of the statement `self.v<statement> = …`."""
    find = f"self.v{statement} = $X"
    do = draw(st.sampled_from(["replace", "before", "after", "delete", "value"]))
    if do == "value":
        return Edit(number, file, "replace", find=find, text=f"self.v{statement} = g($X, 0)")
    lines = draw(st.sampled_from([
        f"self.w{statement} = 1\n", f"if d:\n    # nested\n    g({statement},\n        2)\n",
        f'text{statement} = """\nkept\n  so"""\n',
    ]))  # fmt: skip
    return Edit(number, file, do, find=find, snippet=None if do == "delete" else Snippet(lines))


@st.composite
def checkouts_and_series(draw, max_patches=4):
    """Files, and independent patches: no two touch one statement. Some create a file."""
    files, free = {}, []
    for name in ("one.py", "deep/er/two.py")[: draw(st.integers(1, 2))]:
        data, count = draw(sources())
        files[name] = data
        free += [(name, statement) for statement in range(count)]
    free = draw(st.permutations(free))
    patches = []
    for index in range(draw(st.integers(1, max_patches))):
        mine = [free.pop() for _ in range(min(len(free), draw(st.integers(1, 2))))]
        parts = [
            draw(edits(file, number, statement)) for number, (file, statement) in enumerate(mine, start=1)
        ]
        if not parts or draw(st.integers(0, 3)) == 0:
            new = draw(st.sampled_from([b"", b"x = 1", b"x = 1\r\ny = 2\r\n", b"# \xc3\xa9\n"]))
            parts.append(Edit(len(parts) + 1, f"made/{index}/new.py", "create", new_file=new))
        patches.append(
            Patch(
                f"p{index}", f"Patch {index}", "Why.", None, None, (), tuple(parts), Path("p"), f"sha{index}"
            )
        )
    return files, Series("tdmpc2", tuple(patches), Path("s"))


@st.composite
def subsets(draw, series):
    return draw(st.lists(st.sampled_from(series.names), unique=True))


class Folder:
    """A checkout of its own for one example."""

    def __init__(self, files, with_git=False):
        self.files, self.with_git = files, with_git

    def __enter__(self):
        self.top = Path(tempfile.mkdtemp())
        root = write_files(self.top / "checkout", self.files)
        return commit_all(root) if self.with_git else root

    def __exit__(self, *_):
        shutil.rmtree(self.top)


@SOME
@given(checkouts_and_series(), st.randoms(use_true_random=False))
def test_the_order_of_independent_patches_does_not_matter_to_render(case, random):
    files, series = case
    shuffled = list(series.patches)
    random.shuffle(shuffled)
    assert render_series(shuffled, files) == render_series(series, files)


@SOME
@given(checkouts_and_series())
def test_bom_line_ends_and_final_newline_survive_any_edit(case):
    files, series = case
    for name, new in render_series(series, files).items():
        if name not in files:
            continue
        old = files[name]
        assert new.startswith(b"\xef\xbb\xbf") == old.startswith(b"\xef\xbb\xbf")
        assert new.endswith(b"\n") == old.endswith(b"\n")
        if b"\r\n" in old:
            assert new.count(b"\n") == new.count(b"\r\n")
        else:
            assert b"\r" not in new


@SOME
@given(sources(), st.data())
def test_an_edit_changes_only_the_lines_of_its_statement(case, data):
    source, count = case
    statement = data.draw(st.integers(0, count - 1))
    edit = data.draw(edits("f.py", 1, statement))
    patch = Patch("p", "t", "w", None, None, (), (edit,), Path("p"), "sha")
    new = render_series([patch], {"f.py": source})["f.py"]
    mark = b"self.v%d = " % statement
    start = source.rindex(b"\n", 0, source.index(mark)) + 1
    behind = source.find(b"self.v%d = " % (statement + 1))
    if edit.do == "delete" and not source.endswith(b"\n") and new == source[:start].rstrip(b"\r\n"):
        return  # the last statement of a file without a final newline went, and it still has none
    assert new[:start] == source[:start]
    if behind >= 0:
        rest = source[source.rindex(b"\n", 0, behind) + 1 :]
        assert new.endswith(rest)


@FEW
@given(checkouts_and_series(), st.data())
def test_apply_then_revert_is_identity(case, data):
    files, series = case
    with Folder(files) as root:
        modes = data.draw(st.lists(st.sampled_from([0o644, 0o755, 0o600, 0o444]), min_size=2, max_size=2))
        for name, mode in zip(files, modes, strict=False):
            (root / name).chmod(mode)
        before = snapshot(root)
        apply(root, data.draw(subsets(series)) or None, series)
        if data.draw(st.booleans()):
            apply(root, None, series)
        kept = data.draw(subsets(series))
        if kept:
            revert(root, [name for name in kept], series)
        revert(root)
        assert snapshot(root) == before


@FEW
@given(checkouts_and_series(), st.data())
def test_the_order_of_applying_and_reverting_does_not_matter(case, data):
    files, series = case
    goal = data.draw(subsets(series))
    with Folder(files) as one, Folder(files) as other:
        for name in data.draw(st.permutations(goal)):
            apply(one, [name], series)
        apply(other, None, series)
        extra = [name for name in series.names if name not in goal]
        for name in data.draw(st.permutations(extra)):
            revert(other, [name], series)
        assert snapshot(one) == snapshot(other)
        assert status(one, series).applied == status(other, series).applied


@FEWEST
@given(checkouts_and_series(max_patches=2))
def test_export_then_git_am_equals_apply(case):
    files, series = case
    with Folder(files, with_git=True) as root:
        mails = export(root, root.parent / "mails", series=series).files
        subprocess.run(["git", "clone", "--quiet", str(root), str(root.parent / "am")], check=True)
        git(root.parent / "am", "am", "--quiet", *map(str, mails))
        apply(root, None, series)
        assert snapshot(root.parent / "am") == snapshot(root)
