"""The embedded MongoDB: a real `mongod` as a child process, a single-node replica set on loopback."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from pymongo import MongoClient

from docgraph.exchange.errors import StartupError

__all__ = ["EmbeddedMongo"]


def _find_binary() -> str:
    if chosen := os.environ.get("DOCGRAPH_MONGOD"):
        return chosen
    spec = importlib.util.find_spec("fiftyone")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        candidate = Path(root, "db", "bin", "mongod")
        if candidate.exists():
            return str(candidate)
    if found := shutil.which("mongod"):
        return found
    raise StartupError("no mongod found", hint="pip install 'docgraph[embedded]'")


class EmbeddedMongo:
    """A `mongod` in a directory, from `start` to `stop`."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory).resolve()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Start, wait until primary, and give the connection string."""
        data = self.directory / "db"
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [_find_binary(), "--dbpath", str(data), "--port", str(port)]
        command += ["--bind_ip", "127.0.0.1", "--nounixsocket", "--replSet", "docgraph"]
        command += ["--wiredTigerCacheSizeGB", "0.25", "--quiet"]
        command += ["--logpath", str(self.directory / "mongod.log")]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
        uri = f"mongodb://127.0.0.1:{port}/?directConnection=true"
        with MongoClient[dict[str, Any]](uri) as client:
            member = {"_id": 0, "host": f"127.0.0.1:{port}"}
            client.admin.command("replSetInitiate", {"_id": "docgraph", "members": [member]})
            while not client.admin.command("hello")["isWritablePrimary"]:
                time.sleep(0.02)
        return uri

    def stop(self) -> None:
        """Stop cleanly."""
        if self._process:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def __enter__(self) -> str:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
