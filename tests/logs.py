"""The log of a server that goes on writing it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_events(log: Path) -> list[dict[str, Any]]:
    """The events so far; who reads while a server writes may see half of its last line."""
    complete = log.read_bytes().rpartition(b"\n")[0]
    return [json.loads(line) for line in complete.splitlines() if line.startswith(b"{")]
