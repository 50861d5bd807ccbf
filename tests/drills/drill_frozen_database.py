"""SIGTERM while the embedded `mongod` is frozen: the server ends within its grace and two seconds.

    make drill-frozen-database

Callers read and write without a pause; `mongod` gets SIGSTOP, and later the server SIGTERM.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from tests.drills.server import DrillServer, serving, wait_until

pytestmark = pytest.mark.timeout(300)

GRACE = 3.0  # seconds
CALLERS = 8


def call(server: DrillServer, number: int) -> None:
    method, body = ("GET", None) if number % 2 else ("POST", {"n": number})
    while True:
        try:
            server.ask(method, "/drill/things", body)
        except OSError:
            return  # it is over
        except Exception:
            return


@pytest.mark.parametrize("frozen", [0.3, 5.0])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_frozen_database_does_not_keep_the_server(
    tmp_path: Path, workers: int, frozen: float
) -> None:
    options = {
        "core__workers": str(workers),
        "connection_options__shutdown_timeout_ms": str(int(GRACE * 1000)),
        "mongo__mongo_mounts": json.dumps([{"what": "/drill", "where": "/drill"}]),
    }
    with serving(tmp_path, **options) as server:
        wait_until(lambda: server.ask("PUT", "/drill/things")[0] in (200, 201))
        threads = [
            threading.Thread(target=call, args=(server, number), daemon=True)
            for number in range(CALLERS)
        ]
        for thread in threads:
            thread.start()
        time.sleep(1)
        children = psutil.Process(server.process.pid).children(recursive=True)
        (mongod,) = [one for one in children if one.name() == "mongod"]
        mongod.send_signal(signal.SIGSTOP)
        time.sleep(frozen)
        begun = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        code = server.process.wait(120)
        took = time.monotonic() - begun
    print(f"\n{workers} workers, frozen for {frozen} s: ended after {took:.2f} s with {code}")
    assert code == 0
    assert took < GRACE + 2
    assert not mongod.is_running() or mongod.status() == psutil.STATUS_ZOMBIE
