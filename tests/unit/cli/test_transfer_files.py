"""The files of an export: a new one takes the place of the former one whole, or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from docgraph.cli.transfer.files import Directory
from docgraph.exchange import StartupError

APP = {"_id": "notes", "schema": "type Query { n: Int }", "mappings": {"Query": {}}}
EVERYTHING = ("users.json", "rules.json", "schemas/db.json", "properties/db.json")


class _StoppedError(BaseException):
    """Like KeyboardInterrupt, which pytest takes for its own."""


def write(directory: Directory, value: int, names: tuple[str, ...] = EVERYTHING) -> None:
    with directory.rewrite() as writer:
        for name in names:
            writer.write_documents(name, [{"_id": value}])
        writer.write_app({**APP, "value": value})


def read(path: Path) -> dict[str, str]:
    """Every file that is there, and every directory."""
    return {
        str(one.relative_to(path)): one.read_text() if one.is_file() else ""
        for one in path.rglob("*")
    }


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path / "backups" / "export")


def test_an_export_that_fails_leaves_the_former_one(directory: Directory) -> None:
    write(directory, 1)
    former = read(directory.path)

    def fail(error: BaseException) -> None:
        with directory.rewrite() as writer:
            writer.write_documents("users.json", [{"_id": 2}])
            raise error

    with pytest.raises(StartupError, match="No space left"):
        fail(OSError(28, "No space left on device"))
    assert read(directory.path) == former
    with pytest.raises(_StoppedError):
        fail(_StoppedError())
    assert read(directory.path) == former


def test_a_first_export_that_fails_leaves_nothing(directory: Directory) -> None:
    with pytest.raises(_StoppedError), directory.rewrite():
        raise _StoppedError
    assert not directory.path.exists()


@pytest.mark.parametrize("names", [EVERYTHING, ()], ids=["all of it", "less of it"])
def test_whatever_stops_the_exchange_of_files_the_former_ones_come_back(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    write(directory, 1)
    (directory.path / ".git").mkdir()
    former = read(directory.path)
    stops = 0
    while True:
        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", _stop_at(stops, os.rename))
            try:
                write(directory, 2, names)
            except _StoppedError:
                assert read(directory.path) == former
                stops += 1
            else:
                break
    assert stops > len(names) * 2
    assert (directory.path / "users.json").exists() == bool(names)
    assert (directory.path / "apps/notes/app.yml").read_text() == "_id: notes\nvalue: 2\n"
    assert {one.name for one in directory.path.iterdir() if one.name[0] == "."} == {".git"}


def _stop_at(place: int, rename: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
    """Fails once, at this call of all that are made."""
    calls = iter(range(1_000))

    def stopping(source: Path, target: Path) -> None:
        if next(calls) == place:
            raise _StoppedError
        rename(source, target)

    return stopping


def test_an_export_is_on_the_disk_before_it_takes_its_place(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, rename = os.fsync, os.rename

    def hear_fsync(fd: int) -> None:
        status = os.fstat(fd)
        names = [one for one in directory.path.rglob("*") if os.path.samestat(one.stat(), status)]
        done.append(f"kept {names[0].name if names else '(outside)'}")
        fsync(fd)

    def hear_rename(source: Path, target: Path) -> None:
        done.append(f"renamed {Path(source).name}")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", hear_fsync)
    monkeypatch.setattr(os, "rename", hear_rename)

    write(directory, 1)

    first_rename = done.index("renamed properties")
    for name in ("users.json", "db.json", "schema.graphql", "mappings.yml", "export.json", "apps"):
        assert done.index(f"kept {name}") < first_rename
    assert done[-2:] == ["kept (outside)", "kept (outside)"]  # the directory, and the one above


@pytest.mark.parametrize("reason", [errno.EINVAL, errno.EIO])
def test_a_disk_that_cannot_keep_an_export_is_told_of_and_one_that_cannot_be_asked_is_not(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    def reject(fd: int) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(os, "fsync", reject)

    if reason == errno.EINVAL:
        write(directory, 1)
        assert directory.is_export
    else:
        with pytest.raises(StartupError, match="Input/output error"):
            write(directory, 1)
        assert not directory.path.exists()


def test_somebody_who_was_killed_while_files_were_exchanged_is_told_of(
    directory: Directory,
) -> None:
    write(directory, 1)
    (directory.path / ".export-former").mkdir()

    with pytest.raises(StartupError, match="an export was interrupted") as told:
        directory.check()
    assert str(directory.path / ".export-former") in (told.value.hint or "")


def test_what_somebody_who_was_killed_had_written_is_removed(directory: Directory) -> None:
    left = directory.path / ".export-new"
    left.mkdir(parents=True)
    (left / "users.json").write_text("secret")
    assert directory.is_free

    write(directory, 1)

    assert not left.exists()


def test_links_are_removed_and_never_followed(directory: Directory, tmp_path: Path) -> None:
    write(directory, 1)
    other = tmp_path / "other"
    (other / "notes").mkdir(parents=True)
    (other / "notes" / "app.yml").write_text("kept")
    (other / "users.json").write_text("kept")
    for name in ("apps", "users.json"):
        (directory.path / name).rename(tmp_path / f"former {name}")
    (directory.path / "apps").symlink_to(other)
    (directory.path / "users.json").symlink_to(other / "users.json")
    (directory.path / "schemas" / "inner").symlink_to(other)
    (directory.path / ".export-new").symlink_to(other)
    before = read(other)

    write(directory, 2)

    assert read(other) == before
    assert not [one for one in directory.path.rglob("*") if one.is_symlink()]
