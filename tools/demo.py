"""The demo as scripts start it that show it: in a directory of its own, on a free port."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["serve_demo"]


@contextmanager
def serve_demo(place: Path) -> Iterator[tuple[str, str]]:
    """Serve the demo with its data in a directory; yield its address and the first password."""
    command = [str(Path(sys.executable).with_name("docgraph")), "demo", "--port=0", "--data=data"]
    with (
        (place / "messages.log").open("w+") as messages,
        subprocess.Popen(
            command, cwd=place, stdout=subprocess.PIPE, stderr=messages, text=True
        ) as process,
    ):
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        try:
            line = process.stdout.readline()
            messages.seek(0)
            written = messages.read()
            password = re.search(r"password +(\S+)", written)
            if not line.startswith("docgraph ready ") or password is None:
                raise SystemExit(f"the demo is not ready: {written}")
            yield line.split()[2].rstrip("/"), password[1]
        finally:
            process.terminate()
