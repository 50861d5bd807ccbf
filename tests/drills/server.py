"""A server of a drill: a process of its own with all its defaults, open to everybody."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

__all__ = ["DrillServer", "describe_load", "serving", "wait_until"]

_OPEN = {
    "/http-listener/port": "0",
    "/fullAuthorizer/enabled": "true",
    "/fullAuthorizer/authentication-required": "false",
    "/dbAclAuthorizer/enabled": "false",
    "/dbRealmAuthenticator/enabled": "false",
    "/basicAuthMechanism/enabled": "false",
}


@dataclass
class DrillServer:
    """Where it listens, and its log."""

    process: subprocess.Popen[str]
    port: int
    log: Path

    def read_cpu(self) -> float:
        """Seconds of processor time that it has used."""
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        seconds: float = 60.0,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any, float]:
        """Status, content and how many seconds it took; each on a connection of its own."""
        begun = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        try:
            content = None if body is None else json.dumps(body)
            sent = {"Content-Type": "application/json", **(headers or {})}
            connection.request(method, path, content, sent)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        is_json = (response.getheader("content-type") or "").startswith("application/json")
        answer = json.loads(text) if is_json and text else text
        return response.status, answer, time.monotonic() - begun


@contextmanager
def serving(
    directory: Path, config: Path | None = None, /, *, before: Sequence[str] = (), **options: str
) -> Iterator[DrillServer]:
    """A server; `mclient__connection_string` names the option of a section.

    `before` is a command that runs what follows it; with a `config` it is not open to everybody.
    """
    chosen = dict(_OPEN) if config is None else {}
    for name, value in options.items():
        chosen["/" + name.replace("__", "/").replace("_", "-")] = value
    log = directory / "server.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [
                *before,
                *(sys.executable, "-m", "docgraph", "serve"),
                *(() if config is None else ("--config", str(config))),
                *(f"--set={path}={value}" for path, value in chosen.items()),
            ],
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("docgraph ready "), (line, log.read_text())
        try:
            address = line.split()[2]  # what follows is about the database
            yield DrillServer(process, int(address.rsplit(":", 1)[1]), log)
        finally:
            process.terminate()
            try:
                process.wait(60)
            finally:
                process.kill()


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> float:
    """How many seconds it took until the condition held."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < seconds, "it did not happen in time"
        time.sleep(0.02)
    return time.monotonic() - begun


def describe_load() -> str:
    """How busy the machine is, for what else may have made a figure worse."""
    return f"load of {os.getloadavg()[0]:.0f}"
