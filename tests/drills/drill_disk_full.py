"""The disk of the embedded `mongod` fills up under load, and has space again later.

    make drill-disk-full          (root: a small file system is mounted for it)

It is said once that the disk is full, in the log and in `/health/db`; requests are answered at
once;
and the database is back within ten seconds of the space.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.drills.server import DrillServer, serving, wait_until
from tests.logs import read_events
from tests.programs import require

pytestmark = pytest.mark.timeout(300)

SIZE = "160m"
FULL_SECONDS = 15
LONGEST_UNTIL_BACK = 10.0
LONGEST_ANSWER = 15.0


def fill(path: Path) -> None:
    """Leave not one byte."""
    with suppress(OSError), path.open("ab", buffering=0) as filler:
        while filler.write(b"\0" * 65_536) == 65_536:
            pass
    with suppress(OSError), path.open("ab", buffering=0) as filler:
        while filler.write(b"\0") == 1:
            pass


def write(server: DrillServer, seen: list[tuple[int, float]], is_over: threading.Event) -> None:
    document = {"text": "x" * 100_000}
    while not is_over.is_set():
        status, _, took = server.ask("POST", "/drill/things", document)
        seen.append((status, took))
        time.sleep(0.02)


def test_a_full_disk_is_named_and_left_soon(tmp_path: Path) -> None:
    require("unshare", "mount")
    data = tmp_path / "data"
    data.mkdir()
    mount = f'mount -t tmpfs -o size={SIZE} tmpfs {data} && exec "$@"'
    options = {"mongo__mongo_mounts": json.dumps([{"what": "/drill", "where": "/drill"}])}
    before = ("unshare", "-m", "sh", "-c", mount, "sh")
    with serving(tmp_path, before=before, **options) as server:
        inside = Path(f"/proc/{server.process.pid}/root{data}/filler")
        wait_until(lambda: server.ask("PUT", "/drill/things")[0] in (200, 201))
        seen: list[tuple[int, float]] = []
        is_over = threading.Event()
        thread = threading.Thread(target=write, args=(server, seen, is_over))
        thread.start()
        try:
            time.sleep(1)
            begun = time.monotonic()
            fill(inside)
            wait_until(lambda: _health(server)[1] == "disk full")
            noticed = time.monotonic() - begun
            until = time.monotonic() + FULL_SECONDS
            while time.monotonic() < until:
                fill(inside)
                time.sleep(0.2)
            inside.unlink()
            back = wait_until(lambda: server.ask("POST", "/drill/things", {"n": 1})[0] == 201)
            healthy = _health(server)
        finally:
            is_over.set()
            thread.join()
        events = read_events(server.log)
    named = [one for one in events if one["event"] == "disk-full"]
    failed = [one for one in events if one["event"] == "background-failed"]
    longest = max(took for _, took in seen)
    print(f"\nfull: named after {noticed:.1f} s; back {back:.1f} s after the space; ", end="")
    print(f"longest answer {longest:.2f} s; said {len(named)} times; other failures {len(failed)}")
    assert healthy == (200, "ping successful")
    assert len(named) == 1
    assert back < LONGEST_UNTIL_BACK
    assert longest < LONGEST_ANSWER


def _health(server: DrillServer) -> tuple[int, Any]:
    status, content, _ = server.ask("GET", "/health/db")
    return status, content["description"]
