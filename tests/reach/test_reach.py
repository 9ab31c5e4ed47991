"""The measured reach of the patches: resumable, and nothing but names, hashes and outcomes is kept."""

import json

from tdmpc2_lean.patching import read_series
from tdmpc2_lean.validation.reach import measuring, page
from tests.upstreams.conftest import git

SECRET = "text_of_theirs"


def made(root):
    """A repository in which the code folder has another name and no patch finds its place; its commit."""
    for name in ("common/__init__", "envs/__init__", "trainer/online_trainer", "tdmpc2", "train"):
        path = root / "agent" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{SECRET} = 1\n")
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=made")
    return git(root, "rev-parse", "HEAD")


def test_every_patch_has_an_outcome_what_is_measured_is_kept_and_no_text_of_theirs_is(tmp_path, own_cache, monkeypatch):
    commit = made(tmp_path / "there" / "some+one")
    (tmp_path / "list.txt").write_text(f"some/one {commit}  # made\nsome/other {commit}\n")
    for name, file in (("LIST", "list.txt"), ("RESULTS", "results.json")):
        monkeypatch.setattr(measuring, name, tmp_path / file)
    monkeypatch.setattr(measuring.derivatives, "__defaults__", (tmp_path / "list.txt",))
    (row,) = measuring.measure_all(tmp_path / "there")
    assert set(row["outcomes"]) == set(name.name for name in read_series("tdmpc2").patches)
    assert "lost" in row["outcomes"].values() and set(row["lost"]) <= set(row["outcomes"])
    assert any("agent/" in place for places in row["lost"].values() for place in places)
    assert json.loads((tmp_path / "results.json").read_text()) == [row]
    assert SECRET not in (tmp_path / "results.json").read_text() + page.text([row])
    monkeypatch.setattr(measuring, "measure", None)
    assert measuring.measure_all(tmp_path / "there") == [row], "measured already"
    assert "of 1 public derivatives 0 take every patch" in "\n".join(page.totals([row]))
