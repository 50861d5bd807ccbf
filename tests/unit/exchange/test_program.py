"""What to type for the program that is running: in hints, and in the notice of a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from docgraph.auth.authenticators.first_password import print_password
from docgraph.cli.terminal import notice, report_failure
from docgraph.exchange import ConfigError, Problem, StartupError
from docgraph.exchange.program import own_command, repeat_options


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """As after `make run`: the shell knows no `docgraph`, it is in the virtual environment."""
    command = tmp_path / "docgraph"
    command.touch(mode=0o700)
    monkeypatch.setattr("sys.argv", [str(command), "demo"])
    monkeypatch.setenv("PATH", "")
    return str(command)


def test_a_command_outside_the_path_is_named_with_its_place(hidden: str) -> None:
    assert own_command() == hidden


def test_a_command_in_the_path_is_named_alone(
    hidden: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert own_command() == "docgraph"


def test_a_module_is_named_as_it_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/somewhere/docgraph/__main__.py", "serve"])
    monkeypatch.setattr("sys.orig_argv", ["python3", "-m", "docgraph", "serve"])
    monkeypatch.setenv("PATH", "")

    assert own_command() == "python3 -m docgraph"


def test_a_program_that_is_something_else_names_docgraph(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that uses docgraph as a library, and one whose file is gone."""
    for name in ("/usr/bin/pytest", "/gone/docgraph"):
        monkeypatch.setattr("sys.argv", [name])
        assert own_command() == "docgraph"


def test_every_hint_names_the_command_as_it_can_be_typed(
    hidden: str, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = Problem("docgraph.yml:1:1", "/a", "bad", "make one with 'docgraph users hash'")
    report_failure(StartupError("no user", hint="`docgraph users list` lists them"))
    report_failure(ConfigError([problem]))
    notice("docgraph is here: `docgraph apps show blog`")

    told = capsys.readouterr().err
    assert f"`{hidden} users list` lists them" in told
    assert f"'{hidden} users hash'" in told
    assert f"docgraph is here: `{hidden} apps show blog`" in told


@pytest.mark.parametrize("is_watched", [True, False])
def test_the_notice_of_a_password_has_a_command_that_finds_the_same_database(
    hidden: str,
    is_watched: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = ["--config", "my shop.yml", "--port=0", "--set", "/mclient/connection-string=secret"]
    monkeypatch.setattr("sys.argv", [hidden, "serve", *given])
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_watched)

    print_password("admin", "the-password")

    told = capsys.readouterr().err
    assert f"{hidden} users passwd admin --config 'my shop.yml' --set …" in told
    assert "connection-string" not in told
    framed = [line for line in told.splitlines() if line]
    assert len(set(map(len, framed))) == 1 or not is_watched


@pytest.mark.parametrize(
    ("given", "repeated"),
    [
        ([], ""),
        (["--port", "80"], ""),
        (["-c", "a.yml", "-ob.yml", "--data=d"], " -c a.yml -ob.yml --data=d"),
        (["--config=a.yml", "--set=/a=1"], " --config=a.yml --set …"),
    ],
)
def test_options_that_lead_to_the_database_are_repeated(given: list[str], repeated: str) -> None:
    assert repeat_options(given) == repeated
