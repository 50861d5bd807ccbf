"""What the parent makes once and hands to its workers."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path

import pytest

from docgraph.exchange.errors import StartupError
from docgraph.runtime import create_instance
from docgraph.runtime.instance import PREFIX


def test_secrets_differ_by_purpose_and_instance(tmp_path: Path) -> None:
    with create_instance(tmp_path) as first, create_instance(tmp_path) as second:
        assert first.secret("tokens") == first.secret("tokens")
        assert len(first.secret("tokens")) == 32
        assert first.secret("tokens") != first.secret("nonces")
        assert first.secret("tokens") != second.secret("tokens")
        assert first.id != second.id


def test_a_worker_opens_what_the_parent_made(tmp_path: Path) -> None:
    """Decisions 33 and 44."""
    with create_instance(tmp_path) as parent:
        worker = pickle.loads(pickle.dumps(parent.for_worker(2)))  # noqa: S301 - as workers get it

        assert (parent.worker, worker.worker) == (0, 2)
        assert worker.secret("tokens") == parent.secret("tokens")
        mine, yours = parent.open_generations(), worker.open_generations()
        yours.bump("users")
        assert mine.read("users") == 1
        mine.close()
        yours.close()


def refuse_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_without_room_is_an_error_of_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", refuse_room)

    with pytest.raises(StartupError) as refused, create_instance(tmp_path):
        pass

    assert refused.value.message.startswith(f"cannot make a file in {tmp_path}")
    assert refused.value.message.endswith("no space left on device")
    assert "TMPDIR" in (refused.value.hint or "")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_not_there_is_an_error_of_the_start(tmp_path: Path) -> None:
    missing = tmp_path / "missing"

    with pytest.raises(StartupError, match="no such file or directory"), create_instance(missing):
        pass


def test_a_file_system_that_cannot_reserve_room_is_used_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fallocate", cannot)

    with create_instance(tmp_path) as instance:
        generations = instance.open_generations()
        generations.bump("users")
        assert generations.read("users") == 1
        generations.close()


def test_nothing_secret_is_printed(tmp_path: Path) -> None:
    with create_instance(tmp_path) as instance:
        for text in (repr(instance), str(instance), f"{instance}"):
            assert repr(instance.master) not in text
            assert "master" not in text


def test_the_directory_is_private_and_removed_at_the_end(tmp_path: Path) -> None:
    with create_instance(tmp_path) as instance:
        assert instance.directory.stat().st_mode & 0o777 == 0o700

    assert list(tmp_path.iterdir()) == []


def test_the_directory_is_removed_when_the_server_fails(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="x"), create_instance(tmp_path):
        raise ValueError("x")

    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_instance_left_is_removed_by_the_next(tmp_path: Path) -> None:
    left = tmp_path / f"{PREFIX}left"
    left.mkdir()
    (left / "lock").touch()
    (left / "generations").write_bytes(bytes(40))

    with create_instance(tmp_path):
        assert not left.exists()


def test_a_living_instance_is_left_alone(tmp_path: Path) -> None:
    with create_instance(tmp_path) as first, create_instance(tmp_path):
        assert first.directory.exists()


@pytest.mark.parametrize("kind", ["file", "link", "being-made"])
def test_what_is_no_complete_instance_is_left_alone(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "lock").touch()
    path = tmp_path / f"{PREFIX}other"
    if kind == "file":
        path.touch()
    elif kind == "link":
        os.symlink(target, path)
    else:
        path.mkdir()

    with create_instance(tmp_path):
        assert path.exists()
        assert (target / "lock").exists()
