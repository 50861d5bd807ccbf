"""Broken standard streams: a server survives them, a command whose result is lost fails."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.process.commands import run, start
from tests.process.harness import connect_socket, serve_options
from tests.programs import HANGS_SECONDS

BOTH = pytest.mark.parametrize("workers", [1, 2], ids=["one-worker", "two-workers"])
CLOSING = """
import os, sys
for number in {closed}:
    setattr(sys, ("stdin", "stdout", "stderr")[number], None)
    os.close(number)
from docgraph.cli import main
main()
"""
# What stdout and stderr are; None is a pipe that the test reads.
BROKEN = [
    *[(one, None) for one in ("full", "gone", "unread", "closed")],
    *[(None, one) for one in ("full", "gone", "unread", "closed")],
    *[(one, one) for one in ("full", "gone", "unread", "closed")],
    ("full", "gone"),
    ("closed", "full"),
]


@contextmanager
def opened(kind: str | None) -> Iterator[int | None]:
    """A descriptor to write to: a full device, a pipe without a reader or with one that is full."""
    if kind is None:
        yield None
        return
    reading, writing = os.pipe()
    try:
        if kind == "full":
            full = os.open("/dev/full", os.O_WRONLY)
            os.dup2(full, writing)
            os.close(full)
        elif kind == "gone":
            os.close(reading)
        elif kind == "unread":
            fill(writing)
        yield writing
    finally:
        os.close(writing)
        if kind != "gone":
            os.close(reading)


def fill(pipe: int) -> None:
    os.set_blocking(pipe, False)
    try:
        while True:
            os.write(pipe, b"x")
    except BlockingIOError:
        os.set_blocking(pipe, True)


@BOTH
@pytest.mark.parametrize(("stdout", "stderr"), BROKEN)
def test_a_server_serves_and_ends_whatever_becomes_of_its_output(
    stdout: str | None, stderr: str | None, workers: int, tmp_path: Path
) -> None:
    path = tmp_path / "socket"
    settings = {
        # The sample plugin writes to stderr itself.
        "core": {"workers": workers, "plugins-directory": "/nonexistent"},
        "ping": {"enabled": True},
        "http-listener": {"port": None, "socket": str(path)},
        # As text where it is odd, as JSON where it is even.
        "logging": {
            "level": "debug",
            "format": ("json", "console")[BROKEN.index((stdout, stderr)) % 2],
        },
    }
    with (
        opened(stdout) as first,
        opened(stderr) as second,
        listening(tmp_path / "n") as manager,
        start(
            *serve_options(settings),
            outputs=(first, second),
            code=CLOSING.format(closed=find_closed(stdout, stderr)),
            environment={"NOTIFY_SOCKET": str(tmp_path / "n")},
        ) as process,
    ):
        # It is sent after the line `docgraph ready`.
        assert manager.recv(4096).startswith(b"READY=1")
        with connect_socket(path) as wire:
            assert [wire.get("/ping").status for _ in range(20)] == [200] * 20
        process.terminate()
        assert process.wait(HANGS_SECONDS) == 0
    assert not path.exists()


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """The socket of a service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(path))
        channel.settimeout(60)
        yield channel


def find_closed(*kinds: str | None) -> list[int]:
    return [number for number, kind in enumerate(kinds, 1) if kind == "closed"]


COMMANDS = [["config", "template"], ["version"], ["--help"], ["plugins"], ["completion", "bash"]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("full", "no space left on device"),
        ("closed", "bad file descriptor"),
        ("gone", None),  # `| head` has read what it wanted
    ],
)
def test_a_command_whose_result_is_lost_fails_with_one_line(
    command: list[str], kind: str, reason: str | None
) -> None:
    with opened(kind) as stdout:
        code = CLOSING.format(closed=find_closed(kind))
        with start(*command, outputs=(stdout, None), code=code) as process:
            _, errors = process.communicate()
            assert process.returncode == 1
    assert errors == (f"docgraph: cannot write the output: {reason}\n" if reason else "")


@pytest.mark.parametrize("kind", ["full", "gone", "closed"])
def test_an_error_that_cannot_be_written_leaves_the_exit_code(kind: str) -> None:
    with opened(kind) as stderr:
        code = CLOSING.format(closed=find_closed(None, kind))
        for arguments, expected in ((["nonsense"], 2), (["version"], 0)):
            with start(*arguments, outputs=(None, stderr), code=code) as process:
                process.communicate()
                assert process.returncode == expected


def test_a_command_waits_for_a_slow_reader_of_its_result() -> None:
    """A pipe that another program made non-blocking, too."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with (
        open(reading, "rb") as reader,
        start("config", "template", outputs=(writing, None)) as process,
    ):
        os.close(writing)
        text = reader.read()
        assert process.wait(HANGS_SECONDS) == 0
    assert text.decode() == run("config", "template").stdout
