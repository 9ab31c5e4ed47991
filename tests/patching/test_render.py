"""What edits make of files: anchors, snippets, styles. Pure, on small sources."""

import shlex
import textwrap

import pytest

from tdmpc2_lean.patching import LostAnchors, RenderError, render, render_series
from tests.patching.conftest import AGENT, COUNT, FILES, write_series


def rendered(tmp_path, edits: str, source: str | bytes, code: str = "", file="f.py", **more):
    """The text of `file` after one patch with these edits (TOML, `file` filled in)."""
    edits = textwrap.dedent(edits).replace("[[edit]]", f'[[edit]]\nfile = "{file}"')
    files = {"patch.toml": f'title = "t"\nwhy = "w"\n{edits}', "code.py": textwrap.dedent(code), **more}
    series = write_series(tmp_path / "one", {"p": files})
    data = source if isinstance(source, bytes) else source.encode()
    return render(series["p"], {file: data}).get(file, data).decode()


def replaced(tmp_path, find: str, source: str, text: str = "NEW", count=1) -> str:
    edits = f"[[edit]]\nfind = {find!r}\ndo = 'replace'\ntext = {text!r}\ncount = {count}\n"
    return rendered(tmp_path, edits.replace("'\\'", "'"), source)


@pytest.mark.parametrize(
    ("find", "hit"),
    [
        ("self.place = $X", "self.place = pick('here')"),
        ("'here'", "'here'"),
        ("count = 1", "count = 1"),
        ("assert torch.ready()", "assert torch.ready()"),
        ("import torch", "import torch"),
        ("from tools import make_tool", "from tools import make_tool"),
        ("self.cfg.n += $N", "self.cfg.n += 2"),
        ("log.set_level($N)", "log.set_level(40)"),
        ("size, _ = torch.size_of()", "size, _ = torch.size_of()"),
        ("fast=True", "fast=True"),
        ("mode=False", "mode=False"),
        ("k: int=3", "k: int = 3"),
        ("f($A, $$$REST)", "f(1, *a, b=2)"),
        ("return $X", "return 'é😀'"),
    ],
)
def test_a_pattern_finds_its_statement_or_expression_and_nothing_else_changes(tmp_path, find, hit):
    source = (
        "# é日本😀\nimport torch\nfrom tools import make_tool\n\n\n"
        "class A:\n\tdef g(self, mode=False, k: int = 3):\n\t\tself.place = pick('here')\n"
        "\t\tassert torch.ready()\n\t\tself.cfg.n += 2\n\t\tlog.set_level(40)\n"
        "\t\tsize, _ = torch.size_of()\n\t\tcount = 1\n\t\tfast = True\n\t\tuse(fast=True, count=1)\n"
        "\t\tf(1, *a, b=2)\n\t\treturn 'é😀'\n"
    )
    assert source.count(hit) == 1
    toml = f"[[edit]]\nfind = '''{find}'''\ndo = 'replace'\ntext = 'NEW'\n"
    if find in ("mode=False", "k: int=3"):
        toml = toml.replace("NEW", "new=None")
    if find == "fast=True":
        toml = toml.replace("NEW", "new=None")
    new = "new=None" if "new=None" in toml else "NEW"
    assert rendered(tmp_path, toml, source) == source.replace(hit, new)


def test_spaces_around_the_equals_sign_tell_an_assignment_from_an_argument(tmp_path):
    source = "fast = True\nf(fast=True)\n"
    toml = "[[edit]]\nfind = '{}'\ndo = 'replace'\ntext = '{}'\n"
    assert rendered(tmp_path, toml.format("fast = True", "a = 1"), source) == "a = 1\nf(fast=True)\n"
    assert rendered(tmp_path, toml.format("fast=True", "a=1"), source) == "fast = True\nf(a=1)\n"
    with pytest.raises(LostAnchors, match="spaces around"):
        rendered(tmp_path, toml.format("fast=True", "a=1"), "fast = True\n")


@pytest.mark.parametrize("above", ["", "\n", "\n\n  \n", "\ufeff\n", "# a\n\n"])
def test_what_is_captured_is_what_stands_there_whatever_white_space_a_file_begins_with(tmp_path, above):
    toml = "[[edit]]\nfind = 'f($$$ALL)'\ndo = 'replace'\ntext = 'g($$$ALL)'\n"
    assert rendered(tmp_path, toml, f"{above}x = f(one, two=[3])\n") == f"{above}x = g(one, two=[3])\n"
    toml = "[[edit]]\nfind = '$LEFT = f($ONE)'\ndo = 'replace'\ntext = '$LEFT = $ONE'\n"
    assert rendered(tmp_path, toml, f"{above}_left = f(one)\n") == f"{above}_left = one\n"


def test_an_expression_statement_and_its_expression_are_one_match(tmp_path):
    assert rendered(tmp_path, "[[edit]]\nfind = 'f($X)'\ndo = 'delete'\n", "f(1)\ng()\n") == "g()\n"


def test_code_is_brought_into_the_style_of_the_file(tmp_path):
    code = '''
        def new(self):
            """For the reader."""
            # why
            if self.x:
                call(1,
                    2)

                def inner():
                    """Doc.

                    more
                    """
            text = """kept
                  as it is
            """
            # end
    '''
    source = "class A:\n\tdef f(self):\n\t\tx = 1\n\t\ty = 2\n"
    toml = "[[edit]]\nfind = 'x = 1'\ndo = 'after'\ncode = 'new'\n"
    expected = (
        "class A:\n\tdef f(self):\n\t\tx = 1\n"
        "\t\t# why\n\t\tif self.x:\n\t\t\tcall(1,\n\t\t\t\t2)\n\n"
        '\t\t\tdef inner():\n\t\t\t\t"""Doc.\n\n\t\t\t\tmore\n\t\t\t\t"""\n'
        '\t\ttext = """kept\n          as it is\n    """\n\t\t# end\n'
        "\t\ty = 2\n"
    )
    assert rendered(tmp_path, toml, source, code) == expected
    two = source.replace("\t", "  ")
    assert rendered(tmp_path, toml, two, code) == expected.replace("\t", "  ")


def test_before_after_and_delete_mean_the_statement_that_holds_the_match(tmp_path):
    source = "def f():\n    if a(key):\n        b()\n        # of b\n    # of c\n    c()  # why c\n"
    code = "def new():\n    new()\n"
    before = "[[edit]]\nfind = 'key'\ndo = 'before'\ncode = 'new'\n"
    assert rendered(tmp_path, before, source, code) == source.replace("    if", "    new()\n    if")
    after = "[[edit]]\nfind = 'key'\ndo = 'after'\ncode = 'new'\n"
    assert rendered(tmp_path, after, source, code) == source.replace("    # of c", "    new()\n    # of c")
    delete = "[[edit]]\nfind = 'c()'\ndo = 'delete'\n"
    assert rendered(tmp_path, delete, source) == source.replace("    c()  # why c\n", "")


def test_deleting_the_only_statement_of_a_block_leaves_a_pass(tmp_path):
    assert (
        rendered(tmp_path, "[[edit]]\nfind = 'a()'\ndo = 'delete'\n", "if x:\n\ta()\n") == "if x:\n\tpass\n"
    )


@pytest.mark.parametrize("source", ["if x: a()\n", "a(); b()\n"])
def test_a_statement_that_shares_its_line_is_not_taken_apart(tmp_path, source):
    with pytest.raises(LostAnchors, match="shares line 1"):
        rendered(tmp_path, "[[edit]]\nfind = 'a()'\ndo = 'delete'\n", source)


def test_captures_are_put_in_as_structure_not_as_text(tmp_path):
    code = "def new(X, Y):\n    use(X * 2, X=X, other=Y.X, text='X')\n"
    toml = "[[edit]]\nfind = 'old($X, $Y)'\ndo = 'replace'\ncode = 'new'\n"
    new = rendered(tmp_path, toml, "old(a + b, c)\n", code)
    assert new == "use((a + b) * 2, X=a + b, other=c.X, text='X')\n"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_captured_lines_stay_as_they_are(tmp_path, newline):
    source = "# first\ndef f():\n\ty = old(\n\t\t[1,\n\t\t 2])\n"
    source = source.replace("\n", newline).replace("# first" + newline, "# first\n")  # mixed, if CRLF
    toml = "[[edit]]\nfind = 'y = old($X)'\ndo = 'replace'\ncode = 'new'\n"
    code = "def new(X):\n    if a:\n        y = g(X)\n"
    new = rendered(tmp_path, toml, source.encode(), code)
    expected = "def f():\n\tif a:\n\t\ty = g([1,\n\t\t 2])\n".replace("\n", newline)
    assert new == "# first\n" + expected


def test_a_text_with_captures_can_be_put_before_and_after(tmp_path):
    toml = "[[edit]]\nfind = 'y = old($X)'\ndo = 'before'\ntext = 'x = $X * 2'\n"
    assert rendered(tmp_path, toml, "y = old(a + 1)\n") == "x = (a + 1) * 2\ny = old(a + 1)\n"


def test_a_captured_list_of_values_stays_one_argument(tmp_path):
    toml = "[[edit]]\nfind = 'y = $X'\ndo = 'replace'\ntext = 'y = f($X)'\n"
    assert rendered(tmp_path, toml, "y = a, b\n") == "y = f((a, b))\n"


def test_captures_fill_a_text_and_a_list_of_arguments(tmp_path):
    toml = "[[edit]]\nfind = 'old($X, $$$REST)'\ndo = 'replace'\ntext = 'min($X, 2)($$$REST)'\n"
    assert rendered(tmp_path, toml, "y = old(a, *b, c=1)\n") == "y = min(a, 2)(*b, c=1)\n"


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("y = old * 2\n", "a + b", "y = (a + b) * 2\n"),
        ("y = f(old)\n", "a + b", "y = f(a + b)\n"),
        ("y = old.z\n", "a or b", "y = (a or b).z\n"),
        ("y = f(old)\n", "a, b", "y = f(a, b)\n"),
        ("y = old[0]\n", "a, b", "y = (a, b)[0]\n"),
        ("y = old\n", "a if b else c", "y = a if b else c\n"),
        ("y = not old\n", "a.b[c](d)", "y = not a.b[c](d)\n"),
    ],
)
def test_an_expression_gets_parentheses_where_its_new_place_needs_them(tmp_path, source, text, expected):
    assert (
        rendered(tmp_path, f"[[edit]]\nfind = 'old'\ndo = 'replace'\ntext = '{text}'\n", source) == expected
    )


def test_a_returned_expression_replaces_an_expression_over_several_lines(tmp_path):
    code = "def new(X):\n    return call(\n        X,\n    )\n"
    toml = "[[edit]]\nfind = 'old($X)'\ndo = 'replace'\ncode = 'new'\n"
    source = "def f():\n\tif a:\n\t\ty = old(3) + 1\n"
    assert rendered(tmp_path, toml, source, code) == "def f():\n\tif a:\n\t\ty = call(\n\t\t\t3,\n\t\t) + 1\n"


def test_a_returned_expression_replaces_a_return_statement_as_a_statement(tmp_path):
    toml = "[[edit]]\nfind = 'return $X'\ndo = 'replace'\ncode = 'new'\n"
    new = rendered(tmp_path, toml, "def f():\n  return 1\n", "def new(X):\n    return X + 1\n")
    assert new == "def f():\n  return 1 + 1\n"


def test_a_whole_definition_is_appended_with_decorators_docstring_and_comments(tmp_path):
    code = """
        class A:
            # about g
            @wrap
            def g(self):
                \"\"\"Doc.\"\"\"
                # inside
                return 1
    """
    toml = "[[edit]]\ninside = 'A'\ndo = 'append'\ncode = 'A.g'\n"
    source = "class A:\n\tdef f(self):\n\t\tpass\n\n\nclass B:\n\tpass\n"
    added = '\n\t# about g\n\t@wrap\n\tdef g(self):\n\t\t"""Doc."""\n\t\t# inside\n\t\treturn 1\n'
    assert rendered(tmp_path, toml, source, code) == source.replace("\t\tpass\n", "\t\tpass\n" + added, 1)


def test_appending_to_a_function_appends_statements_and_to_a_module_a_definition(tmp_path):
    code = "def g():\n    x = 1\n"
    inside = "[[edit]]\ninside = 'f'\ndo = 'append'\ncode = 'g'\n"
    assert rendered(tmp_path, inside, "def f():\n  pass\n", code) == "def f():\n  pass\n  x = 1\n"
    module = "[[edit]]\ndo = 'append'\ncode = 'g'\n"
    assert rendered(tmp_path, module, "def f():\n  pass\n", code) == (
        "def f():\n  pass\n\n\ndef g():\n  x = 1\n"
    )
    assert rendered(tmp_path, module, "", code) == code


def test_bases_of_a_class_are_set(tmp_path):
    toml = "[[edit]]\ninside = 'A'\ndo = 'bases'\ntext = 'x.B, metaclass=M'\n"
    for header in ("class A:", "class A():", "class A(C, D):"):
        assert rendered(tmp_path, toml, header + "\n\tpass\n") == "class A(x.B, metaclass=M):\n\tpass\n"


def test_inside_counts_decorators_and_knows_nested_names(tmp_path):
    source = "class A:\n\t@deco(key)\n\tdef f(self):\n\t\tdef g():\n\t\t\treturn key\n\t\treturn g\nkey\n"
    toml = "[[edit]]\ninside = '{}'\nfind = 'key'\ndo = 'replace'\ntext = 'new'\n"
    nested = rendered(tmp_path, toml.format("A.f.g"), source)
    assert nested == source.replace("return key", "return new")
    both = rendered(tmp_path, toml.format("A.f").replace("do =", "count = 2\ndo ="), source)
    assert both == source.replace("(key)", "(new)").replace("return key", "return new")


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ("find = 'gone'\n", "`gone` found 0 times, expected 1"),
        ("find = 'a'\n", "`a` found 2 times, expected 1, at line 2, 3"),
        ("find = 'a'\ncount = [3, 4]\n", "found 2 times, expected 3 to 4"),
        ("inside = 'F.g'\nfind = 'a'\n", "f.py, F.g: `a` there is no F.g"),
        ("inside = 'X.g'\nfind = 'a'\n", "there is no X"),
        ("inside = 'twice'\nfind = 'a'\n", "there are 2 definitions of twice"),
    ],
)
def test_a_lost_anchor_names_patch_edit_place_pattern_and_counts(tmp_path, edit, says):
    source = "class F:\n\ta\n\ta\ndef twice(): pass\ndef twice(): pass\n"
    with pytest.raises(LostAnchors) as caught:
        rendered(tmp_path, f"[[edit]]\n{edit}do = 'replace'\ntext = 'b'\n", source)
    assert "p, edit 1: f.py" in str(caught.value)
    assert says in str(caught.value)


def test_a_count_may_allow_none(tmp_path):
    toml = "[[edit]]\nfind = 'gone'\ncount = [0, 1]\ndo = 'delete'\n"
    assert rendered(tmp_path, toml, "a\n") == "a\n"


def test_overlapping_matches_are_refused(tmp_path):
    with pytest.raises(LostAnchors, match="overlapping"):
        rendered(
            tmp_path, "[[edit]]\nfind = 'f($X)'\ncount = 2\ndo = 'replace'\ntext = 'g'\n", "y = f(f(1))\n"
        )


def test_every_lost_anchor_of_a_patch_is_reported(tmp_path):
    toml = "".join(f"[[edit]]\nfind = 'gone_{n}'\ndo = 'delete'\n" for n in range(3))
    with pytest.raises(LostAnchors) as caught:
        rendered(tmp_path, toml, "a\n")
    assert [anchor.edit for anchor in caught.value.anchors] == [1, 2, 3]


def test_a_missing_file_and_a_created_file_that_exists_are_lost_anchors(tmp_path):
    toml = "[[edit]]\nfile = 'gone.py'\nfind = 'a'\ndo = 'delete'\n"
    create = "[[edit]]\nfile = 'here.py'\ndo = 'create'\ncode = 'code.py'\n"
    files = {"patch.toml": f'title = "t"\nwhy = "w"\n{toml}{create}', "code.py": "a = 1\n"}
    series = write_series(tmp_path / "s", {"p": files})
    with pytest.raises(LostAnchors) as caught:
        render(series["p"], {"here.py": b""})
    assert "gone.py: `a` the file is missing" in str(caught.value)
    assert "here.py: already exists" in str(caught.value)


def test_a_result_that_does_not_parse_is_refused(tmp_path):
    with pytest.raises(RenderError, match="would not parse.*line 1"):
        rendered(tmp_path, "[[edit]]\nfind = 'a'\ndo = 'replace'\ntext = '1 +'\n", "x = a\n")


def test_a_file_that_is_not_utf8_is_refused_by_name(tmp_path):
    with pytest.raises(RenderError, match="f.py is not UTF-8 .byte 5"):
        rendered(tmp_path, "[[edit]]\nfind = 'a'\ndo = 'delete'\n", b"a\nb='\xff'\n")


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("final", [True, False])
def test_bom_line_ends_and_a_missing_final_newline_survive(tmp_path, bom, newline, final):
    def bytes_of(text):
        text = text if final else text.removesuffix("\n")
        return bom + text.replace("\n", newline).encode()

    source = "# é\ndef f():\n\ta = 1  # first\n\tb = 2\n"
    edits = (
        "[[edit]]\nfind = 'a = 1'\ndo = 'before'\ncode = 'new'\n"
        "[[edit]]\nfind = 'b = 2'\ndo = 'after'\ncode = 'new'\n"
    )
    files = {
        "patch.toml": 'title = "t"\nwhy = "w"\n' + edits.replace("[[edit]]", "[[edit]]\nfile = 'f.py'"),
        "code.py": "def new():\n    if x:\n        y()\n",
    }
    series = write_series(tmp_path / "s", {"p": files})
    new = render(series["p"], {"f.py": bytes_of(source)})["f.py"]
    block = "\tif x:\n\t\ty()\n"
    assert new == bytes_of("# é\ndef f():\n" + block + "\ta = 1  # first\n\tb = 2\n" + block)
    delete = {
        "patch.toml": "title = 't'\nwhy = 'w'\n[[edit]]\nfile = 'f.py'\nfind = 'b = 2'\ndo = 'delete'\n"
    }
    series = write_series(tmp_path / "s", {"p": delete})
    shorter = render(series["p"], {"f.py": bytes_of(source)})["f.py"]
    assert shorter == bytes_of("# é\ndef f():\n\ta = 1  # first\n")


def test_a_file_that_mixes_line_ends_keeps_each(tmp_path):
    source = b"a = 1\r\nb = 2\nc = 3\r\n"
    toml = "[[edit]]\nfind = 'b = 2'\ndo = 'after'\ntext = 'x = 0'\n"
    assert rendered(tmp_path, toml, source) == "a = 1\r\nb = 2\nx = 0\r\nc = 3\r\n"


def test_yaml_keys_are_top_level_and_comments_stay(tmp_path):
    source = "# all\nseed: 1 # s\nn:\n  seed: 2\n\nsteps: 3\n"
    config = {"config.yaml": "new:\n  # about it\n  new: 1\n\nother:\n  x: 1\n"}

    def edited(edit):
        return rendered(tmp_path, f"[[edit]]\n{edit}\n", source, file="any.yaml", **config)

    added = "# about it\nnew: 1\n"
    code = "code = 'config.yaml:new'"
    assert edited(f"key = 'seed'\ndo = 'after'\n{code}") == source.replace("# s\n", "# s\n" + added)
    assert edited(f"key = 'steps'\ndo = 'before'\n{code}") == source.replace("steps", added + "steps")
    assert edited(f"key = 'n'\ndo = 'after'\n{code}") == source.replace("seed: 2\n", "seed: 2\n" + added)
    assert edited("key = 'n'\ndo = 'delete'") == "# all\nseed: 1 # s\n\nsteps: 3\n"
    assert edited("find = 'steps: $X'\ndo = 'replace'\ntext = 'steps: [$X]'") == source.replace("3", "[3]")
    assert edited(f"do = 'append'\n{code}") == source + added


def test_a_created_file_takes_the_style_of_the_file_it_is_like(tmp_path):
    toml = "title = 't'\nwhy = 'w'\n[[edit]]\nfile = 'new.py'\ndo = 'create'\ncode = 'new.py'\n"
    new = "def f():\n    return 1\n"
    verbatim = write_series(tmp_path / "s", {"p": {"patch.toml": toml, "new.py": new}})
    assert render(verbatim["p"], {}) == {"new.py": new.encode()}
    like = write_series(tmp_path / "s", {"p": {"patch.toml": toml + "like = 'old.py'\n", "new.py": new}})
    old = b"class A:\r\n\tx = 1\r\n"
    assert render(like["p"], {"old.py": old})["new.py"] == b"def f():\r\n\treturn 1\r\n"


def test_edits_apply_one_after_another_and_patches_in_series_order(tmp_path):
    first = "title = 't'\nwhy = 'w'\n"
    for old, new in (("a", "b"), ("b", "c")):
        first += f"[[edit]]\nfile = 'f.py'\nfind = '{old}'\ndo = 'replace'\ntext = '{new}'\n"
    second = "title = 't'\nwhy = 'w'\n[[edit]]\nfile = 'f.py'\nfind = 'c'\ndo = 'replace'\ntext = 'd'\n"
    series = write_series(tmp_path / "s", {"one": {"patch.toml": first}, "two": {"patch.toml": second}})
    assert render_series(series, {"f.py": b"a\n"}) == {"f.py": b"d\n"}


def test_only_files_that_differ_are_given_back(tmp_path):
    toml = "title = 't'\nwhy = 'w'\n[[edit]]\nfile = 'f.py'\nfind = 'a'\ndo = 'replace'\ntext = 'a'\n"
    series = write_series(tmp_path / "s", {"p": {"patch.toml": toml}})
    assert render(series["p"], {"f.py": b"a\n", "g.py": b""}) == {}


def test_the_example_series_gives_what_it_says(series):
    new = render_series(series, {name: text.encode() for name, text in FILES.items()})
    agent = new["code/agent.py"].decode()
    place = "\t\t# Any place will do.\n\t\tself.place = pick(cfg.place or 'here')\n"
    many = (
        '\n\t# Batched.\n\t@no_grad()\n\tdef act_many(self, obs):\n\t\t"""Actions for many observations.\n\n'
        '\t\t\tobs: (N, D)\n\t\t"""\n\t\treturn [self.act(one) for one in obs]\n'
    )
    expected = AGENT.replace("\t\tself.place = pick('here') # chosen\n", place)
    assert agent == expected.replace("fast=True", "fast=self.place.fast") + many
    assert (
        new["code/config.yaml"]
        .decode()
        .startswith("# all settings\nseed: 1 # of everything\n# where it runs\nplace: null\n\nnested")
    )
    assert new["code/new/many.py"] == b"def many(n):\n\tif n:\n\t\treturn n\n"
    assert set(new) == {"code/agent.py", "code/config.yaml", "code/loop.py", "code/new/many.py"}


def test_a_syntax_error_of_the_checkouts_own_is_told_with_its_file_and_line_and_not_blamed_on_the_patch(series):
    broken = FILES["code/loop.py"].replace("def loop(env):", "def loop(env):\n  count = = 0", 1)
    with pytest.raises(RenderError, match=r"code/loop.py of the checkout does not parse.* count: line 2") as told:
        render(series["count"], {"code/loop.py": broken.encode()})
    assert "code/loop.py" in told.value.next_step and str(series.folder) not in told.value.next_step


def test_a_syntax_error_that_a_patch_makes_is_told_with_the_patchs_folder_as_a_shell_takes_it(tmp_path):
    wrong = COUNT | {"patch.toml": COUNT["patch.toml"].replace("count = 2", "count = = 2")}
    series = write_series(tmp_path / "my series", {"count": wrong})
    with pytest.raises(RenderError, match="count: code/loop.py would not parse after its edits: line 2") as told:
        render(series["count"], {"code/loop.py": FILES["code/loop.py"].encode()})
    assert shlex.quote(str(series.folder / "count")) in told.value.next_step
