"""The console is built of what its lock file says, and `make run` goes on where it cannot be."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from tools import console

EXACT = re.compile(r"\d+\.\d+\.\d+")


def test_the_lock_file_names_no_registry_and_every_version_is_pinned() -> None:
    lock = (console.SOURCES / "package-lock.json").read_text()
    packages = json.loads((console.SOURCES / "package.json").read_text())

    assert "resolved" not in lock
    assert not re.search(
        r"registry|https?://(?!(opencollective|github|www\.patreon|tidelift|eslint\.org))", lock
    )
    for kind in ("dependencies", "devDependencies"):
        assert all(EXACT.fullmatch(version) for version in packages[kind].values())


@pytest.mark.parametrize(
    ("options", "error", "code"),
    [
        ([], console.CannotBuildError("no Node"), 1),
        (["--optional"], console.CannotBuildError("no Node"), 0),
        (["--optional"], console.BadSourcesError("a mistake"), 0),
        (["--optional", "--check"], console.CannotBuildError("no Node"), 0),
        (["--optional", "--check"], console.BadSourcesError("a mistake"), 1),
    ],
)
def test_what_the_machine_lacks_is_forgiven_where_the_console_is_optional(
    options: list[str],
    error: console.CannotBuildError,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr("sys.argv", ["console.py", *options])
    monkeypatch.setattr(console, "build_console", fail)

    assert console.main() == code
    assert f"the console is not built: {error}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "is_found"), [("v20.18.9", False), ("v20.19.0", True), ("v24.1.0", True), ("", False)]
)
def test_a_node_that_is_too_old_is_not_taken(
    said: str, is_found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("node", "npm"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho {said}\n")
        program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")

    assert (console.find_node() is not None) == is_found


def test_a_console_that_is_older_than_its_sources_is_not_current(tmp_path: Path) -> None:
    built, source = tmp_path / "manifest.json", tmp_path / "sources/src/page.ts"
    foreign = tmp_path / "sources/node_modules/package/index.js"
    for file in (source, foreign):
        file.parent.mkdir(parents=True)
        file.write_text("")
    assert not console.is_current(tmp_path / "sources", built)

    built.write_text("{}")
    for file, time in ((source, 1000), (built, 1000), (foreign, 2000)):
        os.utime(file, (time, time))
    assert console.is_current(tmp_path / "sources", built)

    os.utime(source, (2000, 2000))
    assert not console.is_current(tmp_path / "sources", built)
