"""SIGHUP reloads, and ends a server only together with its terminal; nobody is disconnected."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

import pytest
import trustme

from tests.logs import read_events
from tests.process.commands import Process, start
from tests.process.harness import (
    Server,
    connect_socket,
    eventually,
    request,
    run_server,
    serve_options,
)
from tests.programs import HANGS_SECONDS, open_terminal

BOTH = pytest.mark.parametrize("workers", [1, 2], ids=["one-worker", "two-workers"])
INFO = {"logging": {"level": "info", "format": "json"}}
PATIENT = {"connection-options": {"shutdown-timeout-ms": 600_000}}


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


class Pair:
    """A certificate and its key in two files."""

    def __init__(self, authority: trustme.CA, directory: Path) -> None:
        self._authority = authority
        self.certificate, self.key = directory / "server.pem", directory / "server.key"

    def issue(self, **validity: datetime) -> tuple[bytes, bytes]:
        """A new certificate with its chain, and its key."""
        issued = self._authority.issue_cert("localhost", **validity)  # type: ignore[arg-type]
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        return chain, issued.private_key_pem.bytes()

    def renew(self) -> bytes:
        """Write a new pair; the certificate as a client sees it."""
        chain, key = self.issue()
        self.key.write_bytes(key)
        self.certificate.write_bytes(chain)
        return decode(chain)

    def sections(self, **options: Any) -> dict[str, Any]:
        files = {"certificate": str(self.certificate), "key": str(self.key)}
        # Without a check of its own, what happens is due to the signal.
        https = {"enabled": True, "port": 0, "check-interval-ms": 0, **files, **options}
        return {**INFO, "https-listener": https}


def decode(chain: bytes) -> bytes:
    end = "-----END CERTIFICATE-----"
    return ssl.PEM_cert_to_DER_cert(chain.decode().partition(end)[0] + end)


def logged(server: Server, name: str) -> list[dict[str, Any]]:
    """The lines of the log; the sample plugin writes the events of each process besides."""
    return [one for one in server.named(name) if "level" in one]


@pytest.fixture
def pair(authority: trustme.CA, tmp_path: Path) -> Pair:
    return Pair(authority, tmp_path)


@pytest.fixture
def see(authority: trustme.CA) -> Callable[[Server], set[bytes]]:
    """The certificates that several new connections get, which any worker may answer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)

    def look(server: Server) -> set[bytes]:
        seen = set()
        for _ in range(8):
            with server.connect_tls(context) as wire:
                assert wire.get("/ping").status == 200
                seen.add(wire.socket.getpeercert(binary_form=True))  # type: ignore[attr-defined]
        return seen

    return look


@BOTH
def test_a_hangup_loads_the_new_certificate_and_keeps_all_connections(
    pair: Pair, see: Callable[[Server], set[bytes]], workers: int, authority: trustme.CA
) -> None:
    old = pair.renew()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    with run_server(pair.sections(), workers=workers) as server, ExitStack() as all:
        kept = [all.enter_context(server.connect_tls(context)) for _ in range(6)]
        kept += [all.enter_context(server.connect()) for _ in range(6)]
        assert [wire.get("/ping").status for wire in kept] == [200] * 12
        events = all.enter_context(server.connect())
        events.send(b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b"200 OK" in events.socket.recv(1000)
        assert see(server) == {old}

        new = pair.renew()
        server.process.send_signal(signal.SIGHUP)

        eventually(lambda: see(server) == {new})
        assert [wire.get("/ping").status for wire in kept] == [200] * 12
        (loaded,) = eventually(lambda: logged(server, "certificate-loaded"))
        assert loaded["certificate"] == str(pair.certificate)
        (done,) = eventually(lambda: logged(server, "server-reloaded"))
        assert "needs_restart" not in done
        if workers > 1:  # clients of https that do not close hold the end up for seconds
            for wire in kept:
                wire.socket.close()
        assert server.stop() == 0
    assert len(logged(server, "certificate-loaded")) == 1
    assert not logged(server, "worker-lost")


def test_a_hangup_before_the_server_is_ready_is_no_reason_to_end(tmp_path: Path) -> None:
    never_ready = tmp_path / "mongod"
    never_ready.write_text("#!/bin/sh\nexec sleep 600\n")
    never_ready.chmod(0o755)
    environment = {"DOCGRAPH_MONGOD": str(never_ready)}
    with start("serve", "--port=0", cwd=tmp_path, environment=environment) as process:
        assert process.stderr.readline() == "starting MongoDB\n"
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANGS_SECONDS) == 0  # and not -1, for the first signal


HANGUP_DURING_IMPORTS = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path, target=None):
        if name == "docgraph.server.prepare":
            os.kill(os.getpid(), signal.SIGHUP)

from docgraph.cli import main
sys.meta_path.insert(0, Finder())
sys.argv = ["docgraph", "serve", "--set", "/core/workers=none"]
main()
"""


def test_a_hangup_while_modules_are_imported_is_no_reason_to_end() -> None:
    command = [sys.executable, "-c", HANGUP_DURING_IMPORTS]
    ended = subprocess.run(command, stderr=subprocess.PIPE, start_new_session=True, check=False)

    assert ended.returncode == 2  # and not -1, for the signal
    assert b"/core/workers" in ended.stderr


def test_a_certificate_that_ends_soon_is_logged_once_and_measured(pair: Pair) -> None:
    chain, key = pair.issue(not_after=datetime.now(UTC) + timedelta(days=5))
    pair.certificate.write_bytes(chain)
    pair.key.write_bytes(key)
    settings = {**pair.sections(), "metrics": {"enabled": True, "secured": False}}
    with run_server(settings, workers=2) as server:
        (expiring,) = eventually(lambda: logged(server, "certificate-expiring"))
        assert (expiring["level"], expiring["is_over"]) == ("warning", False)
        name = 'docgraph_certificate_seconds_left{listener="https"}'
        lines = eventually(
            lambda: [
                line
                for line in server.get("/metrics").body.decode().splitlines()
                if line.startswith(name)
            ]
        )
        assert 4 * 86_400 < float(lines[0].split()[-1]) < 5 * 86_400
        assert server.stop() == 0
        assert len(logged(server, "certificate-expiring")) == 1


def test_a_certificate_behind_symbolic_links_is_noticed_without_a_signal(
    authority: trustme.CA, tmp_path: Path, see: Callable[[Server], set[bytes]]
) -> None:
    """As Kubernetes replaces the files of a Secret: all of them at once, by one link."""
    versions = [tmp_path / name for name in ("..1", "..2")]
    seen = []
    for version in versions:
        version.mkdir()
        seen.append(Pair(authority, version).renew())
    (tmp_path / "..data").symlink_to("..1")
    pair = Pair(authority, tmp_path)
    for file in (pair.certificate, pair.key):
        file.symlink_to(Path("..data") / file.name)
    with run_server(pair.sections(**{"check-interval-ms": 20}), workers=2) as server:
        assert see(server) == {seen[0]}
        (tmp_path / "..new").symlink_to("..2")
        (tmp_path / "..new").rename(tmp_path / "..data")

        eventually(lambda: see(server) == {seen[1]})
        eventually(lambda: logged(server, "certificate-loaded"))


@BOTH
def test_a_pair_that_does_not_fit_is_reported_and_the_old_one_stays(
    pair: Pair, see: Callable[[Server], set[bytes]], workers: int
) -> None:
    old = pair.renew()
    with run_server(pair.sections(**{"check-interval-ms": 20}), workers=workers) as server:
        chain, key = pair.issue()
        pair.certificate.write_bytes(chain)
        (failed,) = eventually(lambda: logged(server, "reload-failed"))
        assert failed["part"] == "certificate"
        assert failed["reason"].startswith(f"the private key {pair.key} does not belong to")
        assert see(server) == {old}

        pair.key.write_bytes(key)
        eventually(lambda: see(server) == {decode(chain)})

        pair.certificate.write_bytes(chain[: len(chain) // 3])
        eventually(lambda: len(logged(server, "reload-failed")) == 2)
        pair.certificate.unlink()
        eventually(lambda: "cannot read" in logged(server, "reload-failed")[-1]["reason"])
        assert see(server) == {decode(chain)}
        if workers > 1:  # a new worker begins with the last pair that was valid
            server.workers()[0].kill()
            eventually(lambda: len(logged(server, "worker-started")) == 3)
            assert see(server) == {decode(chain)}
        assert server.stop() == 0  # what was loaded also serves those that come last


@BOTH
def test_a_renamed_log_file_is_left_to_the_rotation(tmp_path: Path, workers: int) -> None:
    log = tmp_path / "docgraph.log"
    with log.open("wb") as file:
        serving = run_server(INFO, workers=workers, outputs=(None, file.fileno()))
        with serving as server:
            log.rename(tmp_path / "docgraph.log.1")
            server.process.send_signal(signal.SIGHUP)
            eventually(lambda: log.exists() and "server-reloaded" in log.read_text())
            reloaded = find_events(log, "server-reloaded")
            assert reloaded[0]["log_files"] == [str(log)]

            def is_logged() -> bool:
                server.get("/ping")
                return "request-finished" in log.read_text()

            eventually(is_logged)
            eventually(lambda: find_log_files(server, workers) == {str(log)})
            if workers > 1:  # the forker, whose streams a new worker inherits, has the old file
                killed = server.workers()[0]
                killed.kill()
                eventually(lambda: find_events(log, "worker-started"))
                eventually(lambda: killed not in server.workers())
            # Each worker opens the file when it hears of the signal, a new one when it starts.
            eventually(lambda: find_log_files(server, workers) == {str(log)})
            send_user_signals(server, log)
            eventually(lambda: find_log_files(server, workers) == {str(log)})
            assert server.stop() == 0
    eventually(lambda: "server-stopped" in log.read_text())
    assert log.stat().st_mode & 0o777 == (tmp_path / "docgraph.log.1").stat().st_mode & 0o777


def send_user_signals(server: Server, log: Path) -> None:
    """SIGUSR1 is for the log files alone, SIGUSR2 for nothing; no process ends by them."""
    log.rename(log.with_suffix(".2"))
    server.process.send_signal(signal.SIGUSR1)
    eventually(lambda: log.exists() and find_events(log, "server-reloaded"))
    server.process.send_signal(signal.SIGUSR2)
    ignored = eventually(lambda: find_events(log, "signal-ignored"))[0]  # also of the sample
    assert ignored["signal"] == "SIGUSR2"
    others = [*server.workers(), *server.forkers()]
    for process in others:
        process.send_signal(signal.SIGUSR1)
        process.send_signal(signal.SIGUSR2)
    assert server.get("/ping").status == 200
    assert [*server.workers(), *server.forkers()] == others


@BOTH
def test_a_log_file_that_is_emptied_is_written_from_its_start(tmp_path: Path, workers: int) -> None:
    """As `copytruncate` of logrotate does it; the file was not opened for appending."""
    log = tmp_path / "docgraph.log"
    with (
        log.open("wb") as file,
        run_server(INFO, workers=workers, outputs=(None, file.fileno())) as server,
    ):
        eventually(lambda: find_events(log, "server-started"))
        os.truncate(log, 0)

        def is_logged() -> bool:
            server.get("/ping")
            return "request-finished" in log.read_text()

        eventually(is_logged)
        assert server.stop() == 0
    assert b"\0" not in log.read_bytes()
    assert find_events(log, "server-stopped")


def find_log_files(server: Server, workers: int) -> set[str] | None:
    """Where all processes write to; None while a worker is missing."""
    serving = [one.pid for one in server.workers()]
    if len(serving) != workers:
        return None
    return {os.readlink(f"/proc/{pid}/fd/2") for pid in (server.process.pid, *serving)}


def find_events(log: Path, name: str) -> list[dict[str, Any]]:
    return [event for event in read_events(log) if event["event"] == name]


@BOTH
def test_changed_options_that_need_a_restart_are_listed_without_their_values(
    tmp_path: Path, workers: int
) -> None:
    file = tmp_path / "docgraph.yml"
    file.write_text("jwtTokenManager:\n  issuer: here\n")
    with run_server(INFO, workers=workers, DOCGRAPH_CONFIG=str(file)) as server:
        file.write_text("jwtTokenManager:\n  issuer: secretive\nping:\n  msg: hello\n")
        server.process.send_signal(signal.SIGHUP)
        (reloaded,) = eventually(lambda: logged(server, "server-reloaded"))
        assert reloaded["needs_restart"] == ["/jwtTokenManager/issuer", "/ping/msg"]

        file.write_text("ping: [")
        server.process.send_signal(signal.SIGHUP)
        (failed,) = eventually(lambda: logged(server, "reload-failed"))
        assert failed["part"] == "configuration"
        assert str(file) in failed["reason"]
        assert server.get("/ping").status == 200
        assert server.stop() == 0
    assert not any("secretive" in line for line in server.errors)


# The first process of a session gets the first terminal that it opens for its own.
WITH_TERMINAL = """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also when the tests run under nohup
os.setsid()
terminal = os.open(sys.argv.pop(1), os.O_RDWR)
for stream in (0, 1):
    os.dup2(terminal, stream)
os.close(terminal)
from docgraph.cli import main
main()
"""


@contextmanager
def at_terminal(log: Path, options: list[str]) -> Iterator[tuple[IO[bytes], Process]]:
    """A server with a terminal of its own, which the test can close, and its log in a file."""
    ours, theirs = open_terminal()
    with (
        open(ours, "rb", buffering=0) as terminal,
        log.open("ab") as errors,
        start(
            os.ttyname(theirs), *options, code=WITH_TERMINAL, outputs=(None, errors.fileno())
        ) as process,
    ):
        try:
            read_until(terminal, b"docgraph ready")  # it has the terminal open
        finally:
            os.close(theirs)
        yield terminal, process


def read_until(terminal: IO[bytes], end: bytes) -> None:
    seen = b""
    while end not in seen:
        seen += terminal.read(4096)


@BOTH
def test_a_server_ends_gracefully_with_its_terminal_and_reloads_while_it_is_there(
    tmp_path: Path, workers: int
) -> None:
    log, path, released = (tmp_path / name for name in ("log", "socket", "released"))
    listener = {"port": None, "socket": str(path)}
    settings = {**INFO, **PATIENT, "core": {"workers": workers}, "http-listener": listener}
    with at_terminal(log, serve_options(settings)) as (terminal, process):
        process.send_signal(signal.SIGHUP)
        eventually(lambda: find_events(log, "server-reloaded"))
        with connect_socket(path) as wire:
            wire.send(request("GET", f"/hold?until={released}"))
            eventually(lambda: find_events(log, "request-started"))

            terminal.close()

            stopping = eventually(lambda: find_events(log, "server-stopping"))[0]
            assert stopping["reason"] == "SIGHUP"
            process.send_signal(signal.SIGHUP)  # a shell sends another one
            released.touch()
            assert wire.read().status == 200
        assert process.wait(HANGS_SECONDS) == 0
    assert not find_events(log, "worker-lost")
    assert not path.exists()
