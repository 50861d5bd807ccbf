"""Starts the ASGI application on uvicorn, hypercorn and granian; they are `Server`s like ours."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import orjson

from tests.process.commands import ROOT, Process
from tests.process.harness import Server, eventually, serve_options

_TARGET = "tests.process.asgi_app:app"
_GRACE = "3"  # seconds that endless responses may take at a stop
COMMANDS = {
    "uvicorn": "uvicorn {target} --port {port} --workers {workers} --log-level warning --ws wsproto"
    " --timeout-graceful-shutdown {grace}",
    "hypercorn": "hypercorn {target} --bind 127.0.0.1:{port} --workers {workers} -k uvloop"
    " --graceful-timeout {grace}",
    "granian": "granian {target} --interface asgi --port {port} --workers {workers} --log-level"
    " warning --workers-kill-timeout {grace}",
}


@contextmanager
def run_asgi_server(
    kind: str,
    settings: dict[str, Any] | None = None,
    *,
    workers: int = 1,
    instance: Path | None = None,
) -> Iterator[Server]:
    """A server on a free port, which answers; it is killed at the end if it still runs."""
    merged = {**(settings or {})}
    merged["core"] = {"workers": workers, **merged.get("core", {})}
    pairs = [option.removeprefix("--set=").split("=", 1) for option in serve_options(merged)[1:]]
    overrides = {path: orjson.loads(value) for path, value in pairs}
    environment = {"ASGI_OVERRIDES": orjson.dumps(overrides).decode()}
    if instance is not None:
        environment["ASGI_INSTANCE"] = str(instance)
    port = _find_port()
    command = COMMANDS[kind].format(target=_TARGET, port=port, workers=workers, grace=_GRACE)
    with subprocess.Popen(
        [sys.executable, "-m", *command.split()],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        server = Server(cast("Process", process), [f"http://127.0.0.1:{port}"])
        assert process.stderr is not None
        reader = threading.Thread(target=server.errors.extend, args=(process.stderr,), daemon=True)
        reader.start()
        try:
            eventually(lambda: _answers(server))
            yield server
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 9)
            process.wait()
            reader.join()


def _find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _answers(server: Server) -> bool:
    assert server.process.poll() is None, server.errors
    try:
        return server.get("/ping").status == 200
    except OSError:
        return False
