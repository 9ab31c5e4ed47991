"""apply, revert, status and check on small checkouts, with and without git: what they do and refuse."""

import os
import shutil
import stat

import pytest

from tdmpc2_lean.errors import CheckFailed, UserError
from tdmpc2_lean.patching import LostAnchors, apply, check, recorded, render_series, revert, status
from tests.patching.conftest import COUNT, FILES, SERIES, git, snapshot, write_files, write_series


def expected_files(series, names):
    """What the checkout's files should be with exactly these patches."""
    files = {name: text.encode() for name, text in FILES.items()}
    return files | render_series(series.closure(names) if names else (), files)


def files_of(root):
    return {name: data for name, (data, _) in snapshot(root).items() if data is not None}


def test_apply_gives_what_render_says_and_revert_gives_every_byte_and_mode_back(checkout, series):
    os.chmod(checkout / "code" / "loop.py", 0o755)
    os.chmod(checkout / "code" / "agent.py", 0o600)
    before = snapshot(checkout)
    done = apply(checkout, series=series, allow_local_changes=True)
    assert done.added == ("place", "count", "many")
    assert files_of(checkout) == expected_files(series, series.names)
    assert stat.S_IMODE((checkout / "code" / "loop.py").stat().st_mode) == 0o755
    assert stat.S_IMODE((checkout / "code" / "agent.py").stat().st_mode) == 0o600
    assert revert(checkout).removed == ("place", "count", "many")
    assert snapshot(checkout) == before
    assert not status(checkout, series).applied


def test_applying_twice_changes_nothing(checkout, series):
    apply(checkout, series=series)
    before = snapshot(checkout), (checkout / "code" / "agent.py").stat().st_mtime_ns
    again = apply(checkout, series=series)
    assert not again.added and not again.changes
    assert (snapshot(checkout), (checkout / "code" / "agent.py").stat().st_mtime_ns) == before


def test_apply_brings_what_a_patch_needs(checkout, series):
    assert apply(checkout, ["many"], series).applied == ("place", "many")


def test_the_result_does_not_depend_on_the_order_of_the_calls(tmp_path, series):
    results = []
    for order in (["place", "count", "many"], ["count", "many"], ["many", "count"]):
        root = write_files(tmp_path / "-".join(order), FILES)
        for name in order:
            apply(root, [name], series)
        results.append((files_of(root), status(root, series).applied))
    assert results[0] == results[1] == results[2]


def test_revert_of_one_patch_leaves_the_others_as_if_it_never_was(checkout, series):
    apply(checkout, series=series)
    assert revert(checkout, ["count"], series).removed == ("count",)
    assert files_of(checkout) == expected_files(series, ["place", "many"])
    revert(checkout, ["many"], series)
    assert files_of(checkout) == expected_files(series, ["place"])
    assert not (checkout / "code" / "new").exists()


def test_revert_refuses_to_take_away_what_another_patch_needs(checkout, series):
    apply(checkout, series=series)
    before = snapshot(checkout)
    with pytest.raises(UserError, match="many needs place") as caught:
        revert(checkout, ["place"], series)
    assert f"patch revert {checkout} place many`" in str(caught.value)
    assert snapshot(checkout) == before
    assert revert(checkout, ["place", "many"], series).applied == ("count",)


def test_revert_without_patches_on_it_does_nothing(checkout, series):
    before = snapshot(checkout)
    assert not revert(checkout).removed
    assert not revert(checkout, ["place"], series).removed
    with pytest.raises(UserError, match="Did you mean 'place'"):
        revert(checkout, ["palce"], series)
    assert snapshot(checkout) == before


def test_a_dry_run_says_all_and_does_nothing(checkout, series):
    before = snapshot(checkout)
    done = apply(checkout, series=series, dry_run=True)
    assert done.added == series.names
    assert done.changes["code/new/many.py"] == (None, b"def many(n):\n\tif n:\n\t\treturn n\n")
    assert snapshot(checkout) == before and not status(checkout, series).applied
    apply(checkout, series=series)
    patched = snapshot(checkout)
    assert revert(checkout, dry_run=True).removed == series.names
    assert snapshot(checkout) == patched and status(checkout, series).applied


@pytest.mark.parametrize("change", ["edit", "delete"])
@pytest.mark.parametrize("verb", [apply, revert])
def test_a_patched_file_that_the_user_changed_is_refused_by_name(checkout, series, change, verb):
    apply(checkout, ["place"], series)
    agent = checkout / "code" / "agent.py"
    agent.write_text(agent.read_text() + "mine = 1\n") if change == "edit" else agent.unlink()
    before = snapshot(checkout)
    with pytest.raises(UserError, match="code/agent.py .(changed since|missing)"):
        verb(checkout, series=series)
    assert snapshot(checkout) == before
    assert status(checkout, series).files["code/agent.py"] in ("changed since", "missing")


def test_a_patched_file_that_the_user_put_back_is_no_obstacle(checkout, series):
    original = snapshot(checkout)
    apply(checkout, series=series)
    write_files(checkout, {"code/agent.py": FILES["code/agent.py"]})
    assert status(checkout, series).files["code/agent.py"] == "as upstream"
    assert list(apply(checkout, series=series).changes) == ["code/agent.py"]
    write_files(checkout, {"code/agent.py": FILES["code/agent.py"]})
    revert(checkout)
    assert snapshot(checkout) == original


@pytest.mark.parametrize("change", ["edit", "stage", "delete", "elsewhere"])
def test_local_changes_of_a_git_checkout_are_refused_unless_allowed(clone, series, change):
    loop = clone / "code" / "loop.py"
    if change == "delete":
        (clone / "README.md").unlink()
    elif change == "elsewhere":
        (clone / "README.md").write_text("mine\n")
    else:
        loop.write_text("# mine\n" + loop.read_text())
    if change == "stage":
        git(clone, "add", "--all")
    before = snapshot(clone)
    with pytest.raises(UserError, match="local changes") as caught:
        apply(clone, series=series)
    assert "code/loop.py" in str(caught.value) or "README.md" in str(caught.value)
    assert snapshot(clone) == before
    assert status(clone, series).local_changes
    apply(clone, series=series, allow_local_changes=True)
    revert(clone)
    assert snapshot(clone) == before


def test_our_own_patches_and_untracked_files_are_no_local_changes(clone, series):
    (clone / "notes.txt").write_text("mine\n")
    apply(clone, ["place"], series)
    git(clone, "add", "code")
    apply(clone, ["many"], series)
    assert not status(clone, series).local_changes


def test_an_untracked_file_where_an_edit_would_create_one_is_refused(clone, series):
    write_files(clone, {"code/new/many.py": "mine = 1\n"})
    before = snapshot(clone)
    with pytest.raises(LostAnchors, match="code/new/many.py: already exists"):
        apply(clone, series=series)
    assert snapshot(clone) == before


def test_a_folder_that_was_there_before_stays_after_revert(plain, series):
    (plain / "code" / "new").mkdir()
    apply(plain, series=series)
    revert(plain)
    assert (plain / "code" / "new").is_dir()


def test_a_made_folder_stays_if_the_user_put_something_into_it(plain, series):
    apply(plain, series=series)
    (plain / "code" / "new" / "mine.txt").write_text("x")
    revert(plain)
    assert (plain / "code" / "new" / "mine.txt").exists()
    assert not (plain / "code" / "new" / "many.py").exists()


def test_a_patch_that_changed_since_it_was_applied_must_be_reverted_first(checkout, tmp_path, series):
    original = snapshot(checkout)
    apply(checkout, ["place", "count"], series)
    newer = dict(COUNT, **{"patch.toml": COUNT["patch.toml"].replace("count = 2", "count = 3")})
    series = write_series(tmp_path / "series", SERIES | {"count": newer})
    before = snapshot(checkout)
    for call in (lambda: apply(checkout, series=series), lambda: revert(checkout, ["place"], series)):
        with pytest.raises(UserError, match="count: applied from another version"):
            call()
    assert snapshot(checkout) == before
    assert status(checkout, series).outdated == ("count",)
    shutil.rmtree(tmp_path / "series")
    revert(checkout)
    assert snapshot(checkout) == original


def test_a_failing_last_edit_leaves_every_byte(checkout, tmp_path):
    bad = '\n[[edit]]\nfile = "code/loop.py"\nfind = "gone"\ndo = "delete"\n'
    place = dict(SERIES["place"], **{"patch.toml": SERIES["place"]["patch.toml"] + bad})
    series = write_series(tmp_path / "bad", {"count": COUNT, "place": place})
    before = snapshot(checkout)
    with pytest.raises(LostAnchors, match="place, edit 4: code/loop.py: `gone` found 0 times"):
        apply(checkout, series=series)
    assert snapshot(checkout) == before
    assert not status(checkout, series).applied


def test_check_reports_every_lost_anchor_of_every_patch_and_touches_nothing(checkout, series):
    write_files(
        checkout, {"code/agent.py": FILES["code/agent.py"].replace("fast", "slow"), "code/loop.py": "x = 1\n"}
    )
    before = sorted(checkout.rglob("*")), snapshot(checkout)
    found = check(checkout, series)
    assert (sorted(checkout.rglob("*")), snapshot(checkout)) == before
    place, count, many = found.fits
    assert [anchor.edit for anchor in place.lost] == [2]
    assert "there is no loop" in str(count.lost[0])
    assert many.blocked_by == ("place",) and not many.lost
    assert not found.ok
    assert check(checkout, series, ["count"]).fits == (count,)


def test_check_looks_at_the_original_files_where_patches_are_applied(checkout, series):
    apply(checkout, series=series)
    assert [(fit.ok, fit.applied) for fit in check(checkout, series).fits] == [(True, True)] * 3


def test_forget_deletes_the_record_and_touches_no_file(clone, series):
    apply(clone, ["place"], series)
    git(clone, "checkout", "--quiet", "--force", "HEAD")
    write_files(clone, {"code/agent.py": "moved = 1\n"})
    git(clone, "commit", "--quiet", "--all", "--message", "moved on")
    with pytest.raises(UserError, match="--forget"):
        revert(clone)
    before = snapshot(clone)
    revert(clone, forget=True)
    assert snapshot(clone) == before and not status(clone, series).applied


def test_the_record_tells_originals_and_what_is_intact(checkout, series):
    apply(checkout, series=series)
    write_files(checkout, {"code/loop.py": "mine = 1\n"})
    applied, originals, intact = recorded(checkout)
    assert [name for name, _ in applied] == ["place", "count", "many"]
    assert originals["code/agent.py"] == FILES["code/agent.py"].encode()
    assert originals["code/new/many.py"] is None
    assert [name for name, fine in intact.items() if not fine] == ["code/loop.py"]


def test_a_damaged_record_is_told_and_nothing_is_written(plain, series):
    apply(plain, series=series)
    before = snapshot(plain)
    (plain / ".tdmpc2-lean" / "state.json").write_text("{")
    for verb in (apply, revert, status):
        with pytest.raises(UserError, match="damaged"):
            verb(plain, series=series)
    assert snapshot(plain) == before


def test_a_damaged_original_is_told_before_anything_is_written(plain, series):
    apply(plain, series=series)
    before = snapshot(plain)
    for path in (plain / ".tdmpc2-lean" / "originals").iterdir():
        path.write_bytes(b"rot")
    with pytest.raises(UserError, match="missing or damaged"):
        revert(plain)
    assert snapshot(plain) == before


def test_a_worktree_of_git_keeps_its_own_record(clone, series, tmp_path):
    git(clone, "worktree", "add", "--quiet", str(tmp_path / "tree"))
    apply(tmp_path / "tree", series=series)
    assert status(tmp_path / "tree", series).applied and not status(clone, series).applied
    assert not (tmp_path / "tree" / ".tdmpc2-lean").exists()
    assert "tdmpc2-lean" not in git(clone, "status", "--porcelain")


# --------------------------------------------------------------------------------------- leaving the checkout


@pytest.mark.parametrize("what", ["file", "folder", "created", "created folder"])
def test_nothing_is_written_through_a_symbolic_link(plain, series, tmp_path, what):
    outside = tmp_path / "outside"
    name = {
        "file": "code/agent.py",
        "folder": "code",
        "created": "code/new/many.py",
        "created folder": "code/new",
    }[what]
    place = plain / name
    if place.exists():
        place.rename(outside)
    else:
        place.parent.mkdir(exist_ok=True)
        outside.mkdir() if what == "created folder" else None
    place.symlink_to(outside)
    before = snapshot(tmp_path)
    with pytest.raises(UserError, match="symbolic link"):
        apply(plain, series=series)
    after = {name: value for name, value in snapshot(tmp_path).items() if "/.tdmpc2-lean" not in name}
    assert after == before


def test_a_link_that_appears_after_applying_is_not_followed_on_revert(plain, series, tmp_path):
    apply(plain, series=series)
    (plain / "code").rename(tmp_path / "outside")
    (plain / "code").symlink_to(tmp_path / "outside")
    before = snapshot(tmp_path / "outside")
    with pytest.raises(UserError, match="symbolic link"):
        revert(plain)
    assert snapshot(tmp_path / "outside") == before


def test_a_checkout_named_by_a_link_is_the_folder_it_points_to(plain, series, tmp_path):
    (tmp_path / "link").symlink_to(plain)
    assert apply(tmp_path / "link", series=series).root == plain


def test_a_record_that_names_places_outside_is_not_believed(plain, series):
    apply(plain, series=series)
    state = plain / ".tdmpc2-lean" / "state.json"
    state.write_text(state.read_text().replace("code/agent.py", "../agent.py"))
    for verb in (apply, revert, status):
        with pytest.raises(UserError, match="do not trust"):
            verb(plain, series=series)


def test_a_record_folder_that_is_a_link_is_refused(plain, series, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (plain / ".tdmpc2-lean").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="symbolic link"):
        apply(plain, series=series)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_missing_checkout_is_told(tmp_path, series):
    for verb in (apply, revert, status, check):
        with pytest.raises(UserError, match="not a folder"):
            verb(tmp_path / "nowhere", series=series)


def test_lost_anchors_end_a_command_with_code_1():
    assert issubclass(LostAnchors, CheckFailed) and LostAnchors([]).exit_code == 1


def test_the_code_folder_of_a_checkout_stands_for_the_checkout(tmp_path, series):
    layout = {
        "tdmpc2/common/x.py": "",
        "tdmpc2/envs/x.py": "",
        "tdmpc2/trainer/x.py": "",
        "tdmpc2/tdmpc2.py": "",
    }
    root = write_files(tmp_path / "clone", FILES | layout)
    assert apply(root / "tdmpc2", series=series).root == root
