"""Several instances behind HAProxy, each of which can be replaced by one of another version.

What is documented is what runs: `deploy/haproxy/haproxy.cfg` with other addresses, and
`deploy/haproxy/docgraph.yml` for every instance.
"""

from __future__ import annotations

import csv
import http.client
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.drills.server import DrillServer, serving, wait_until

__all__ = ["SOURCES", "Fleet", "Instance", "copy_as_next_version", "has_delay", "read_version"]

_ROOT = Path(__file__).parent.parent.parent
_DEPLOY = _ROOT / "deploy/haproxy"
_STARTED = re.compile(r'"event":"server-started".*"version":"([^"]+)"')
# Versions before the documented configuration took no WebSockets from a proxy that they trusted.
_BEHIND_US = {"core__trusted_proxies": '["127.0.0.1"]'}
SOURCES = _ROOT / "src"


def find_free_port() -> int:
    """One that nobody listens at; the next moment somebody might."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def read_version(sources: Path) -> str:
    """The version that these sources say they are."""
    command = [sys.executable, "-c", "import docgraph; print(docgraph.__version__)"]
    environment = {"PYTHONPATH": str(sources)}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def copy_as_next_version(directory: Path) -> Path:
    """These sources once more, under the number of the version that comes next."""
    copy = directory / "next" / "src"
    shutil.copytree(_DEPLOY, copy.parent / "deploy/haproxy")
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("static*"))
    module = copy / "docgraph/__init__.py"
    text, count = re.subn(
        r'__version__ = "(\d+)\.(\d+)\.\d+"',
        lambda found: f'__version__ = "{found[1]}.{int(found[2]) + 1}.0"',
        module.read_text(),
    )
    assert count == 1
    module.write_text(text)
    return copy


def has_delay(sources: Path) -> bool:
    """Whether that version can say that it stops before it does."""
    return (sources.parent / "deploy/haproxy/docgraph.yml").is_file()


def _find_config(sources: Path, directory: Path) -> Path:
    """The documented configuration of that version; of one that has none, what it has in common."""
    if has_delay(sources):
        return sources.parent / "deploy/haproxy/docgraph.yml"
    config = directory / "earlier.yml"
    config.write_text("rndTokenManager: {enabled: false}\njwtTokenManager: {enabled: true}\n")
    return config


class Instance:
    """One place of the fleet: an address, and the server that is there at the moment."""

    def __init__(self, number: int, directory: Path, options: dict[str, str]) -> None:
        self.name = f"docgraph{number}"
        self.port = find_free_port()
        self.server: DrillServer | None = None
        self.version = ""
        self.started = 0.0  # when it was ready
        self.is_leaving = False
        self._directory = directory
        self._options = {**options, "http_listener__port": str(self.port)}
        self._stack = ExitStack()
        self._starts = 0

    def start(self, sources: Path) -> None:
        """Start the version of these sources; returns when it says that it is ready."""
        self._starts += 1
        place = self._directory / f"{self.name}-{self._starts}"
        place.mkdir()
        self.server = self._stack.enter_context(
            serving(
                place,
                _find_config(sources, self._directory),
                before=("env", f"PYTHONPATH={sources}"),
                **self._options,
                **(_BEHIND_US if has_delay(sources) else {}),
            )
        )
        log = self.server.log
        wait_until(lambda: _STARTED.search(log.read_text()) is not None)  # a thread writes it
        (self.version,) = _STARTED.findall(log.read_text())
        self.started, self.is_leaving = time.monotonic(), False

    def stop(self) -> None:
        """SIGTERM, and its end."""
        self.is_leaving = True
        self._stack.close()
        self.server = None

    def kill(self) -> None:
        """SIGKILL: as a machine that is lost."""
        self.is_leaving = True
        server, self.server = self.server, None
        assert server is not None
        server.process.kill()
        self._stack.close()


class Fleet:
    """Three instances, and the proxy in front of them."""

    def __init__(self, directory: Path, options: dict[str, str], count: int = 3) -> None:
        self.instances = [Instance(number + 1, directory, options) for number in range(count)]
        self.port = find_free_port()
        self._state_port = find_free_port()
        self._directory = directory

    @property
    def up(self) -> Sequence[Instance]:
        """Those that run."""
        return [one for one in self.instances if one.server is not None]

    @contextmanager
    def running(self, sources: Path) -> Iterator[None]:
        """All of them, as long as the block lasts."""
        try:
            for one in self.instances:
                one.start(sources)
            with self._proxying():
                for one in self.instances:
                    self.await_up(one)
                yield
        finally:
            for one in self.up:
                one.stop()

    def await_up(self, instance: Instance) -> float:
        """How long it takes until the proxy sends requests to this one."""
        return wait_until(lambda: self._read_states().get(instance.name) == "UP")

    def _read_states(self) -> dict[str, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self._state_port, timeout=10)
        try:
            connection.request("GET", "/;csv")
            rows = csv.DictReader(connection.getresponse().read().decode().splitlines())
            return {row["svname"]: row["status"] for row in rows if row["# pxname"] == "docgraph"}
        except ConnectionRefusedError:  # it has not started yet
            return {}
        finally:
            connection.close()

    @contextmanager
    def _proxying(self) -> Iterator[None]:
        file = self._directory / "haproxy.cfg"
        file.write_text(self._configure())
        command = ["haproxy", "-db", "-f", str(file)]
        with (
            (self._directory / "haproxy.log").open("w") as log,
            subprocess.Popen(command, stdout=log, stderr=log) as proxy,
        ):
            try:
                yield
            finally:
                proxy.terminate()

    def _configure(self) -> str:
        """The documented file with our addresses."""
        text = (_DEPLOY / "haproxy.cfg").read_text()
        addresses = {
            "bind :8080": f"bind 127.0.0.1:{self.port}",
            "127.0.0.1:8404\n": f"127.0.0.1:{self._state_port}\n",
            **{
                f"10.0.0.{10 + number}:8080": f"127.0.0.1:{one.port}"
                for number, one in enumerate(self.instances, 1)
            },
        }
        for documented, ours in addresses.items():
            assert text.count(documented) == 1, documented
            text = text.replace(documented, ours)
        return text
