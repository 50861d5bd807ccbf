"""The chat of `examples/chat`, started by its one command, on a port and data of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.process.commands import ROOT, Process, start

__all__ = ["EXAMPLE", "PASSWORDS", "run_chat"]

EXAMPLE = ROOT / "examples/chat"
PASSWORDS = {"ada": "lovelace", "bob": "babbage"}


@contextmanager
def run_chat(directory: Path, port: int = 0) -> Iterator[tuple[Process, str]]:
    """The server and its address; killed at the end if it still runs."""
    settings = (
        f"/core/data-directory={directory}",
        f"/http-listener/port={port}",
        "/logging/level=error",
    )
    options = [f"--set={one}" for one in settings]
    process = start("serve", "--config", str(EXAMPLE / "docgraph.yml"), *options)
    try:
        line = process.stdout.readline()
        assert line.startswith("docgraph ready http://127.0.0.1:"), process.communicate()
        yield process, line.split()[2]
    finally:
        process.terminate()  # lets it stop its MongoDB
        process.communicate()
