"""A service manager hears of the real process, and the unit of `deploy` is one that it takes."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.process.commands import ROOT
from tests.process.harness import eventually, run_server
from tests.programs import require

UNIT = ROOT / "deploy/systemd/docgraph.service"
QUIET = 1.0  # seconds; the watchdog of these tests speaks several times in one
EXPOSURE = 20  # of 100, as `systemd-analyze security` counts it


class Manager:
    """The manager's side of NOTIFY_SOCKET."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def hear(self, seconds: float = 60.0) -> list[str]:
        """The lines of the next message; empty when there is none in time."""
        self._channel.settimeout(seconds)
        try:
            return self._channel.recv(4096).decode().splitlines()
        except TimeoutError:
            return []

    def hear_of(self, state: str) -> list[str]:
        """The first message from now on that begins with this state."""
        return eventually(lambda: [line for line in [self.hear()] if line[:1] == [state]])[0]


@contextmanager
def listening(name: str) -> Iterator[Manager]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(f"\0{name[1:]}" if name.startswith("@") else name)
        yield Manager(channel)


def test_a_server_says_when_it_is_ready_alive_and_stopping(tmp_path: Path) -> None:
    name = str(tmp_path / "notify")
    with (
        listening(name) as manager,
        run_server(NOTIFY_SOCKET=name, WATCHDOG_USEC="200000") as server,
    ):
        told = manager.hear_of("READY=1")
        assert told[1].startswith(f"STATUS=ready at {server.urls[0]}")
        for _ in range(2):
            manager.hear_of("WATCHDOG=1")

        server.process.send_signal(signal.SIGTERM)
        manager.hear_of("STOPPING=1")
        assert server.process.wait(60) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")
def test_the_parent_speaks_for_its_workers_until_one_hangs() -> None:
    name = f"@docgraph-{uuid.uuid4().hex}"
    with (
        listening(name) as manager,
        run_server(workers=2, NOTIFY_SOCKET=name, WATCHDOG_USEC="200000") as server,
    ):
        manager.hear_of("READY=1")
        manager.hear_of("WATCHDOG=1")

        hanging = server.workers()[0]
        hanging.suspend()
        eventually(lambda: not manager.hear(QUIET))

        hanging.resume()
        manager.hear_of("WATCHDOG=1")
        assert server.stop() == 0


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    require("systemd-analyze")
    command = ["systemd-analyze", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_systemd_finds_no_mistake_in_the_unit(tmp_path: Path) -> None:
    program = tmp_path / "docgraph"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/docgraph/bin/docgraph", str(program)))

    done = analyze("verify", str(unit))

    about_ours = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, about_ours) == (0, [])


def test_systemd_finds_the_unit_well_protected() -> None:
    done = analyze("security", "--offline=true", f"--threshold={EXPOSURE}", str(UNIT))

    if "unrecognized option" in done.stderr:
        pytest.skip("needs a systemd that judges files (250 or newer)")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
