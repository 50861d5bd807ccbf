"""Where a server listens: a Unix socket, IPv6; and what the system may lack."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.process.harness import (
    Server,
    Wire,
    connect_socket,
    eventually,
    request,
    run_server,
    serve_options,
    start,
)
from tests.programs import HANGS_SECONDS, require

BOTH = pytest.mark.parametrize("workers", [1, 2], ids=["one-worker", "two-workers"])


def at(path: Path, **options: Any) -> dict[str, Any]:
    return {"http-listener": {"port": None, "socket": str(path), **options}}


def reject(settings: dict[str, Any]) -> list[str]:
    """The lines of a command that does not start."""
    process = start(settings)
    output, errors = process.communicate()
    assert (process.returncode, output) == (1, "")
    return errors.splitlines()


@BOTH
def test_a_unix_socket_is_served_and_removed_with_the_server(tmp_path: Path, workers: int) -> None:
    path = tmp_path / "http.sock"
    with run_server(at(path, **{"socket-mode": "600"}), workers=workers) as server:
        assert server.ready.split()[:3] == ["docgraph", "ready", f"unix:{path}"]
        found = path.stat()
        assert stat.S_ISSOCK(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o600
        with connect_socket(path) as wire, connect_socket(path) as second:
            assert wire.get("/whoami").json == {"client": ["unix", 0], "scheme": "http"}
            assert second.get("/ping").status == 200
            second.send(request("POST", "/echo", b"x" * 500_000))
            assert len(second.read().body) == 500_000
        assert server.stop() == 0
    assert not path.exists()


def test_the_socket_is_served_in_addition_to_the_port_and_has_the_default_mode(
    tmp_path: Path,
) -> None:
    path = tmp_path / "http.sock"
    with run_server(at(path, port=0)) as server:
        assert [word.split(":")[0] for word in server.ready.split()[2:4]] == ["http", "unix"]
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert server.get("/ping").status == 200
        with connect_socket(path) as wire:
            assert wire.get("/ping").status == 200


@BOTH
def test_requests_at_the_socket_are_answered_before_the_end(tmp_path: Path, workers: int) -> None:
    path, released = tmp_path / "http.sock", tmp_path / "released"
    with run_server(at(path), workers=workers) as server, ExitStack() as all:
        wires = [all.enter_context(connect_socket(path)) for _ in range(6)]
        for wire in wires:
            wire.send(request("GET", f"/hold?until={released}"))
        eventually(lambda: len(server.named("request-started")) == 6)
        server.process.terminate()
        eventually(lambda: not accepts(path))
        released.touch()
        assert [wire.read().status for wire in wires] == [200] * 6
        assert server.process.wait(HANGS_SECONDS) == 0


def accepts(path: Path) -> bool:
    try:
        connect_socket(path).socket.close()
    except OSError:
        return False
    return True


@BOTH
def test_the_file_of_a_killed_server_is_replaced(tmp_path: Path, workers: int) -> None:
    path = tmp_path / "http.sock"
    with run_server(at(path), workers=workers) as killed:
        serving = killed.workers()
        killed.process.kill()
        for one in serving:
            one.wait(HANGS_SECONDS)
    assert path.exists()
    with run_server(at(path), workers=workers) as server, connect_socket(path) as wire:
        assert wire.get("/ping").status == 200
        assert server.stop() == 0
    assert not path.exists()


def test_the_socket_of_another_server_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    with run_server(at(path)) as server:
        lines = reject(at(path))
        assert lines[0] == f"docgraph: another process listens at {path}"
        assert "/http-listener/socket" in lines[1]
        with connect_socket(path) as wire:
            assert wire.get("/ping").status == 200
        # A file that somebody else has put in its place is not ours to remove.
        path.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))
            assert server.stop() == 0
        assert path.exists()


def test_only_one_of_many_that_start_together_replaces_a_stale_socket(tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    processes = [start(at(path)) for _ in range(4)]
    try:
        eventually(lambda: sum(one.poll() is not None for one in processes) == 3)
        assert sorted(one.poll() or 0 for one in processes) == [0, 1, 1, 1]
        with connect_socket(path) as wire:
            assert wire.get("/ping").status == 200
    finally:
        for one in processes:
            one.terminate()
            one.communicate()


@pytest.mark.parametrize("kind", ["file", "no-directory", "long", "directory"])
def test_a_path_that_cannot_be_a_socket_is_named(tmp_path: Path, kind: str) -> None:
    path = {
        "file": tmp_path / "file",
        "no-directory": tmp_path / "nowhere" / "http.sock",
        "long": tmp_path / ("x" * 120),
        "directory": tmp_path,
    }[kind]
    if kind == "file":
        path.write_text("precious")
    lines = reject(at(path))
    assert len(lines) == 2
    assert str(path) in lines[0]
    assert "/http-listener/socket" in lines[1]
    assert path.exists() == (kind in ("file", "directory"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"port": None}, "neither a port nor a socket"),
        ({"socket": "/tmp/x", "socket-mode": "999"}, "three octal digits"),  # noqa: S108
        ({"socket": "/tmp/x", "socket-mode": 660}, "put it in quotes"),  # noqa: S108
    ],
)
def test_options_that_make_no_listener_are_mistakes(options: dict[str, Any], message: str) -> None:
    process = start({"http-listener": options})
    _, errors = process.communicate()
    assert process.returncode == 2
    assert message in errors


def whoami(wire: Wire, forwarded: str) -> Any:
    return wire.get("/whoami", x_forwarded_for=forwarded, x_forwarded_proto="https").json


def test_callers_at_the_socket_are_one_address_unless_their_proxy_is_trusted(
    tmp_path: Path,
) -> None:
    path = tmp_path / "http.sock"
    logging = {"logging": {"level": "info", "format": "json"}}
    with run_server({**logging, **at(path)}) as server, connect_socket(path) as wire:
        assert whoami(wire, "192.0.2.7") == {"client": ["unix", 0], "scheme": "http"}
        eventually(lambda: clients(server) == {"unix"})
    trusting = {**logging, **at(path), "core": {"trusted-proxies": ["unix"]}}
    with run_server(trusting) as server, connect_socket(path) as wire:
        assert whoami(wire, "192.0.2.7") == {"client": ["192.0.2.7", 0], "scheme": "https"}
        eventually(lambda: clients(server) == {"192.0.2.7"})
    others = {**logging, **at(path), "core": {"trusted-proxies": ["127.0.0.1"]}}
    with run_server(others) as server, connect_socket(path) as wire:
        assert whoami(wire, "192.0.2.7")["client"] == ["unix", 0]


def clients(server: Server) -> set[str]:
    lines = (one for one in server.named("request-finished") if "level" in one)
    return {one["client"] for one in lines}


def test_the_limit_of_connections_per_address_is_not_for_the_socket(tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    few = {"max-connections": 64, "max-connections-per-address": 2}
    with run_server({**at(path, port=0), "connection-options": few}) as server, ExitStack() as all:
        wires = [all.enter_context(connect_socket(path)) for _ in range(20)]
        # A path that health checks do not take: those have connections of their own.
        assert [wire.get("/whoami").status for wire in wires] == [200] * 20
        over = [all.enter_context(server.connect()) for _ in range(6)]
        assert 503 in [wire.get("/whoami").status for wire in over]


@pytest.fixture
def has_ipv6() -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError:
        pytest.skip("needs IPv6, which this machine does not have")


@BOTH
@pytest.mark.parametrize("host", ["::1", "::"])
def test_ipv6_is_served_and_printed_as_a_url(has_ipv6: None, host: str, workers: int) -> None:
    logging = {"logging": {"level": "info", "format": "json"}}
    settings = {"http-listener": {"host": host, "port": 0}, **logging}
    with run_server(settings, workers=workers) as server:
        assert server.urls == [f"http://[::1]:{server.port}"]
        with Wire(socket.create_connection(("::1", server.port), 60)) as wire:
            assert wire.get("/whoami").json["client"][0] == "::1"
        eventually(lambda: clients(server) == {"::1"})
        with pytest.raises(ConnectionRefusedError):  # only IPv6
            server.connect()
        assert server.stop() == 0


@BOTH
def test_too_few_open_files_are_reported_once_with_what_they_cost(workers: int) -> None:
    logging = {"logging": {"level": "warning", "format": "json"}}
    with run_server(logging, workers=workers, limit_files=64) as server:
        assert server.get("/ping").status == 200
        eventually(lambda: server.named("few-descriptors"))
        assert server.stop() == 0
    (told,) = [one for one in server.named("few-descriptors") if "level" in one]
    assert (told["level"], told["limit"], told["wanted"]) == ("warning", 64, 2000)
    assert 8 <= told["connections"] < 64
    assert "ulimit -n" in told["hint"]


# With memory of its own, as a container has it: that of the machine may be full or read-only.
READ_ONLY = 'mount -t tmpfs tmpfs /dev/shm && mount -o remount,ro,bind / && exec "$@"'


def test_a_server_needs_no_file_system_that_can_be_written_to() -> None:
    """Whatever is in /dev/shm of this machine, and wherever the tests were started."""
    require("unshare", "mount")
    probe = ["unshare", "-m", "sh", "-c", READ_ONLY, "sh"]
    if subprocess.run([*probe, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to remount its file system")
    options = serve_options({"http-listener": {"port": 0}, "core": {"workers": 2}})
    command = [*probe, sys.executable, "-B", "-m", "docgraph", *options]
    pipe, environ = subprocess.PIPE, {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, cwd="/", env=environ
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, process.communicate(timeout=HANGS_SECONDS)[1]
            port = int(line.split()[2].rsplit(":", 1)[1])
            with Wire(socket.create_connection(("127.0.0.1", port), 60)) as wire:
                assert wire.get("/ping").status == 200
            process.terminate()
            _, errors = process.communicate(timeout=HANGS_SECONDS)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "Traceback" not in errors
