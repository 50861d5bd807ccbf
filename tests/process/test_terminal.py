"""What somebody at a terminal sees of the server and of the commands."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

from pymongo import MongoClient

from tests.process.commands import ROOT
from tests.process.harness import serve_options

Mongo = MongoClient[dict[str, Any]]


@contextmanager
def at_terminal(*arguments: str, **environment: str) -> Iterator[int]:
    """A command whose output goes to a terminal: the other end of it."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "docgraph", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "TERM": "xterm", **environment},
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield ours
    finally:
        process.send_signal(signal.SIGTERM)
        read_all(ours)  # a terminal that nobody reads would hold the process
        process.wait(60)
        os.close(ours)


def read_until(terminal: int, end: str) -> str:
    seen = b""
    while end.encode() not in seen:
        seen += os.read(terminal, 4096)
    return seen.decode()


def read_all(terminal: int) -> str:
    seen = b""
    with suppress(OSError):  # the last process that had it is gone
        while piece := os.read(terminal, 4096):
            seen += piece
    return seen.decode()


def test_the_password_of_the_administrator_is_framed_below_all_lines_of_the_start(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    """One of two workers tells it, when their parent has said that they are ready."""
    db = f"test_{uuid4().hex[:16]}"
    settings = {
        "core": {"plugins-directory": "/nonexistent", "workers": 2},
        "http-listener": {"port": 0},
        "mclient": {"connection-string": mongo_uri},
        "graphql": {"db": db},
        "logging": {"level": "info", "format": "json"},
        "dbRealmAuthenticator": {"users-db": db, "bcrypt-complexity": 4},
    }
    try:
        with at_terminal(*serve_options(settings), PYTHONIOENCODING="utf-8") as terminal:
            seen = read_until(terminal, "┘")
    finally:
        mongo_client.drop_database(db)

    before, _, frame = seen.partition("┌")
    assert "docgraph ready http://" in before
    assert '"event":"server-started"' in before
    assert before.endswith("\r\n")
    lines = frame.partition("└")[0].split("\r\n")[1:-1]
    assert len({len(line) for line in lines}) == 1
    assert all(line.startswith("│") and line.endswith("│") for line in lines)
    assert seen.count("password  ") == 1
