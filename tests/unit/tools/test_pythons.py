"""Finding the Pythons of a machine, told apart by their exact version."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.pythons import CHOICES, Interpreter, choose, find_interpreters, list_candidates


def install(path: Path, answer: str, status: int = 0) -> str:
    """A program that answers as a Python would that is asked for its version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{answer}'\nexit {status}\n")
    path.chmod(0o755)
    return str(path)


def test_each_version_counts_once_and_the_oldest_comes_first(tmp_path: Path) -> None:
    newer = install(tmp_path / "a" / "python3", "cpython 3.13.0 3 13 0")
    older = install(tmp_path / "b" / "python3", "cpython 3.11.10 3 11 10")
    oldest = install(tmp_path / "c" / "python3", "cpython 3.11.2 3 11 2")
    again = install(tmp_path / "d" / "python3", "cpython 3.11.2 3 11 2")

    found = find_interpreters([newer, older, oldest, again])

    assert [(one.version, one.path) for one in found] == [
        ("3.11.2", oldest),
        ("3.11.10", older),
        ("3.13.0", newer),
    ]


def test_what_cannot_run_the_tests_is_left_out(tmp_path: Path) -> None:
    candidates = [
        install(tmp_path / "old" / "python3", "cpython 3.10.13 3 10 13"),
        install(tmp_path / "pypy" / "python3", "pypy 3.11.11 3 11 11"),
        install(tmp_path / "shim" / "python3.12", "not found", status=127),
        str(tmp_path / "nowhere" / "python3"),
    ]

    assert find_interpreters(candidates) == []


def test_python_without_venv_is_left_out_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "python3"
    install(path, "")
    path.write_text("#!/bin/sh\necho \"No module named 'ensurepip'\" >&2\nexit 1\n")

    assert find_interpreters([str(path)]) == []
    assert f"not used: {path}: it has no venv module" in capsys.readouterr().err


def test_versions_of_pyenv_and_names_on_the_path_are_candidates(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pyenv = install(tmp_path / "pyenv" / "versions" / "3.12.1" / "bin" / "python3", "")
    named = install(tmp_path / "bin" / "python3.14", "")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    assert {pyenv, named} <= set(list_candidates())


FOUND = [
    Interpreter(f"/p/{version}", version, tuple(map(int, version.split("."))))
    for version in ("3.11.2", "3.11.10", "3.12.1")
]


@pytest.mark.parametrize(
    ("only", "versions"),
    [
        ("all", ["3.11.2", "3.11.10", "3.12.1"]),
        ("oldest", ["3.11.2"]),
        ("newest", ["3.12.1"]),
        ("ends", ["3.11.2", "3.12.1"]),
    ],
)
def test_the_oldest_and_the_newest_can_be_chosen(only: str, versions: list[str]) -> None:
    assert [one.version for one in CHOICES[only](FOUND)] == versions


def test_one_python_is_the_oldest_and_the_newest() -> None:
    assert CHOICES["ends"](FOUND[:1]) == FOUND[:1]


@pytest.mark.parametrize(
    ("name", "version"),
    [("3.12", "3.12.1"), ("3.11.10", "3.11.10"), ("python3.12", "3.12.1"), ("3.1", None)],
)
def test_a_python_is_chosen_by_its_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, version: str | None
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    chosen = choose(name, FOUND)

    assert (chosen and chosen.version) == version
