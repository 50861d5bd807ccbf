"""What somebody at a terminal sees of the server and of the commands."""

from __future__ import annotations

import os

from tests.process.commands import start_at_terminal
from tests.process.harness import serve_options


def read_until(terminal: int, end: str) -> str:
    seen = b""
    while end.encode() not in seen:
        seen += os.read(terminal, 4096)
    return seen.decode()


def test_the_password_of_the_administrator_is_framed_below_all_lines_of_the_start(
    mongo_uri: str, database: str
) -> None:
    """One of two workers tells it, when their parent has said that they are ready."""
    settings = {
        "core": {"plugins-directory": "/nonexistent", "workers": 2},
        "http-listener": {"port": 0},
        "mclient": {"connection-string": mongo_uri},
        "graphql": {"db": database},
        "logging": {"level": "info", "format": "json"},
        "dbRealmAuthenticator": {"users-db": database, "bcrypt-complexity": 4},
    }
    with start_at_terminal(*serve_options(settings), environment={"TERM": "xterm"}) as (
        terminal,
        _,
    ):
        seen = read_until(terminal, "┘")

    before, _, frame = seen.partition("┌")
    assert "docgraph ready http://" in before
    assert '"event":"server-started"' in before
    assert before.endswith("\r\n")
    lines = frame.partition("└")[0].split("\r\n")[1:-1]
    assert len({len(line) for line in lines}) == 1
    assert all(line.startswith("│") and line.endswith("│") for line in lines)
    assert seen.count("password  ") == 1
