"""Tables of the command line: whole in a pipe, and never more than text."""

from __future__ import annotations

import pytest

from docgraph.cli.terminal import print_table


def test_a_piped_table_neither_cuts_nor_folds(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"name": "basicAuthMechanism", "description": "x" * 200}], as_json=False)

    assert capsys.readouterr().out.splitlines()[1].split() == ["basicAuthMechanism", "x" * 200]


def test_stored_texts_are_no_markup_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"app": "a", "description": "[/b] [red]alert[/red]"}], as_json=False)

    assert "[/b] [red]alert[/red]" in capsys.readouterr().out


def test_stored_texts_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"app": "a\x1b]0;owned\x07", "description": "\x1b[2J\r\x08"}], as_json=False)

    assert not set(capsys.readouterr().out) & set("\x1b\x07\x08\r")
