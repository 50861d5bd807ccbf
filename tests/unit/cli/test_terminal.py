"""Tables and colours for people, plain lines for pipes, and never more than text of others."""

from __future__ import annotations

from io import StringIO

import pytest

from docgraph.cli.terminal import paint, print_table


def test_a_piped_table_neither_cuts_nor_folds(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"name": "basicAuthMechanism", "description": "x" * 200}], as_json=False)

    assert capsys.readouterr().out.splitlines()[1].split() == ["basicAuthMechanism", "x" * 200]


ROWS = [{"name": "a b", "on": True, "of": None}, {"name": "much longer\tx", "on": False, "of": 1}]


def test_a_piped_table_has_tabs_between_its_cells(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(ROWS, as_json=False)

    assert capsys.readouterr().out == "name\ton\tof\na b\tyes\t\nmuch longer\ufffdx\tno\t1\n"


class Screen(StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def watch(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Somebody at a terminal, who has said nothing of colours; here and not in a fixture, between
    which and its test pytest puts its own streams back."""
    screen = Screen()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setattr("sys.stderr", screen)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    return screen


def test_a_table_on_a_terminal_has_columns_and_a_bold_head(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = watch(monkeypatch)
    print_table(ROWS, as_json=False)
    assert "\x1b[1m" in screen.getvalue()

    screen = watch(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    print_table(ROWS, as_json=False)
    assert "\x1b" not in screen.getvalue()
    head, first, second = screen.getvalue().splitlines()
    assert head.index("on") == first.index("yes") == second.index("no", 4)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_are_for_terminals_whose_users_want_them(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    watch(monkeypatch)
    assert paint("x", "red") == paint("x", "red", err=True) == "\x1b[31mx\x1b[0m"
    monkeypatch.setenv(name, value)
    assert paint("x", "red") == paint("x", "red", err=True) == "x"


def test_there_are_no_colours_in_a_pipe() -> None:
    assert paint("x", "red") == paint("x", "red", err=True) == "x"


def test_stored_texts_are_no_markup_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"app": "a", "description": "[/b] [red]alert[/red]"}], as_json=False)

    assert "[/b] [red]alert[/red]" in capsys.readouterr().out


def test_stored_texts_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"app": "a\x1b]0;owned\x07", "description": "\x1b[2J\r\x08"}], as_json=False)

    assert not set(capsys.readouterr().out) & set("\x1b\x07\x08\r")
