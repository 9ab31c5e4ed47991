"""Whose checkpoint it is, before anything in it is unpickled."""

import json
import pickle
import stat

import pytest

from dreamer_bridge import trust
from dreamer_bridge.trust import Untrusted
from tdmpc2_lean import places


@pytest.fixture
def users(tmp_path, monkeypatch):
    """Changes the user: a folder of settings of one's own each."""

    def change(name):
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / name))

    change("ada")
    return change


@pytest.fixture
def checkpoint(tmp_path, users):
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "agent.pkl").write_bytes(pickle.dumps({"params": 1}))
    (folder / "done").write_bytes(b"")
    trust.sign(folder)
    return folder


def test_ones_own_checkpoint_is_trusted_as_it_was_written(checkpoint):
    trust.check(checkpoint)
    trust.sign(checkpoint)  # signing again changes nothing
    trust.check(checkpoint)


@pytest.mark.parametrize("name", ["agent.pkl", "done", "new.pkl"])
def test_a_changed_or_added_file_is_refused_by_name(checkpoint, name):
    (checkpoint / name).write_bytes(b"x")
    with pytest.raises(Untrusted, match=name) as told:
        trust.check(checkpoint)
    assert "--trust-checkpoint" in told.value.next_step and told.value.exit_code == 2


def test_a_file_taken_away_is_refused(checkpoint):
    (checkpoint / "agent.pkl").unlink()
    with pytest.raises(Untrusted, match="agent.pkl"):
        trust.check(checkpoint)


def test_without_a_signature_it_is_refused(checkpoint):
    (checkpoint / trust.SIGNATURE).unlink()
    with pytest.raises(Untrusted, match="no signature of yours"):
        trust.check(checkpoint)


def test_another_users_signature_is_refused(checkpoint, users):
    users("eve")
    with pytest.raises(Untrusted, match="signature is not yours"):
        trust.check(checkpoint)


def test_a_list_of_files_without_the_key_is_no_signature(checkpoint):
    (checkpoint / "agent.pkl").write_bytes(b"evil")
    document = json.loads((checkpoint / trust.SIGNATURE).read_bytes())
    document["files"] = trust.digests(checkpoint)
    (checkpoint / trust.SIGNATURE).write_text(json.dumps(document))
    with pytest.raises(Untrusted, match="not yours"):
        trust.check(checkpoint)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": 1, "hmac": "x"}', "\xff"])
def test_a_broken_signature_is_refused(checkpoint, text):
    (checkpoint / trust.SIGNATURE).write_text(text)
    with pytest.raises(Untrusted):
        trust.check(checkpoint)


def test_a_link_out_of_the_folder_to_a_folder_is_refused(checkpoint, tmp_path):
    (tmp_path / "other").mkdir()
    (checkpoint / "more").symlink_to(tmp_path / "other")
    with pytest.raises(Untrusted, match="is no file"):
        trust.check(checkpoint)


def test_the_key_is_made_once_and_readable_by_the_user_alone(users):
    first = trust.key()
    path = places.config_dir() / trust.KEY
    assert len(first) == 32 and trust.key() == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == [trust.KEY]
