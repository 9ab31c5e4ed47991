"""The tree ids computed from files are git's own."""

import hypothesis
import hypothesis.strategies as st

from tdmpc2_lean.upstreams import tree_id

NAMES = st.sampled_from(["a", "a.b", "a-b", "A", "ab", "z", "é", "with space"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(
    files=st.dictionaries(
        PATHS, st.tuples(st.binary(max_size=20), st.sampled_from(["file", "program", "link"]))
    )
)
def test_tree_id_is_what_git_write_tree_says(tmp_path_factory, git, files):
    root = tmp_path_factory.mktemp("tree")
    git(root, "init", "--quiet")
    for path, (content, kind) in files.items():
        if any(part.is_file() or part.is_symlink() for part in (root / path).parents if part != root):
            continue
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if (root / path).is_dir():
            continue
        if kind == "link":
            (root / path).symlink_to("nowhere/" + content.hex())
        else:
            (root / path).write_bytes(content)
            (root / path).chmod(0o755 if kind == "program" else 0o644)
    (root / ".git/info/attributes").write_text("* -text\n")
    git(root, "add", "--all", "--force")
    assert tree_id(root) == git(root, "write-tree")


def test_tree_id_leaves_out_what_is_no_part_of_a_commit(tmp_path):
    (tmp_path / "a.py").write_text("1\n")
    before = tree_id(tmp_path)
    for name in (".git", ".tdmpc2-lean", "__pycache__", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "__pycache__/a.pyc").write_text("")
    (tmp_path / ".tdmpc2-lean/origin.json").write_text("")
    assert tree_id(tmp_path) == before
    (tmp_path / "a.py").chmod(0o755)
    assert tree_id(tmp_path) != before
