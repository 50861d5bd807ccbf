"""Tables of the command line: whole in a pipe, and never more than text. What to type next."""

from __future__ import annotations

from pathlib import Path

import pytest

from docgraph.cli.terminal import own_command, print_table


def test_a_piped_table_neither_cuts_nor_folds(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"name": "basicAuthMechanism", "description": "x" * 200}], as_json=False)

    assert capsys.readouterr().out.splitlines()[1].split() == ["basicAuthMechanism", "x" * 200]


def test_stored_texts_are_no_markup_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"app": "a", "description": "[/b] [red]alert[/red]"}], as_json=False)

    assert "[/b] [red]alert[/red]" in capsys.readouterr().out


def test_stored_texts_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"app": "a\x1b]0;owned\x07", "description": "\x1b[2J\r\x08"}], as_json=False)

    assert not set(capsys.readouterr().out) & set("\x1b\x07\x08\r")


@pytest.mark.parametrize("is_found", [True, False])
def test_hints_name_the_command_as_it_can_be_typed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_found: bool
) -> None:
    """After `make run` the shell knows no `docgraph`: it is in the virtual environment."""
    command = tmp_path / "docgraph"
    command.touch(mode=0o700)
    monkeypatch.setattr("sys.argv", [str(command), "demo"])
    monkeypatch.setenv("PATH", str(tmp_path) if is_found else "")

    assert own_command() == ("docgraph" if is_found else str(command))
