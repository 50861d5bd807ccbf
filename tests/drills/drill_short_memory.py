"""Short of memory: large answers in a process that has little of it.

    make drill-short-memory

Each server has a limit: of its address space (from the start, or set while it runs), or of its
cgroup. Both lanes answer 1 and 20 callers with 8 and 14 MB: by REST (lists and single documents),
GraphQL, CSV and MCP, and take bodies of that size. No process may end, no answer may be 500, small
requests are answered meanwhile, and the memory comes back.

The cgroup is one that only the server sees (root, `unshare`): nothing kills it there, and the drill
checks the most memory that its processes ever had together.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil
import pytest
from pymongo import MongoClient

from docgraph.runtime.native import find_native
from tests.drills.blog import post
from tests.drills.clients import Seen, call, get
from tests.drills.server import DrillServer, describe_load, serving

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]

MB: Final = 1_000_000
MIB: Final = 1 << 20
DB: Final = "drill"
SIZES: Final = (8, 14)
CALLERS: Final = (1, 20)
MAX_KEPT: Final = 50  # MB beyond what the process had before
QUIET_SECONDS: Final = float(os.environ.get("QUIET_SECONDS", "20"))
SMALL: Final = get(f"/{DB}/many8?pagesize=1")
APP: Final = {
    "_id": "drill",
    "descriptor": {"uri": "drill", "enabled": True, "csv": True},
    "schema": "type Query { many8: [T] many14: [T] one8: T one14: T }"
    " type T { _id: Int words: [String] text: String }",
    "mappings": {
        "Query": {
            name: {"db": DB, "collection": name, "find": {}, "limit": 1000}
            for name in ("many8", "many14", "one8", "one14")
        }
    },
}


class Limit(NamedTuple):
    """How the memory of a server is limited; `room` is set beyond what it has after its start."""

    name: str
    space: int = 0  # MB of address space
    room: int = 0  # MB
    group: int = 0  # MB of the cgroup
    workers: int = 1


LIMITS: Final = (
    Limit("350", space=350),
    Limit("500", space=500),
    Limit("800", space=800, workers=2),
    Limit("room", room=30),
    *((Limit("cgroup", group=350),) if os.geteuid() == 0 else ()),
)
LANES: Final = ("python", "native") if find_native() is not None else ("python",)


def describe_calls(size: int) -> dict[str, bytes]:
    """One request for an answer of this size at each interface."""
    text = json.dumps({"words": [f"{n:096}" for n in range(size * MB // 100)]})

    def query(kind: str, fields: str, *headers: str) -> bytes:
        return post("/graphql/drill", {"query": f"{{{kind}{size} {{{fields}}}}}"}, *headers)

    agent = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "run_query",
            "arguments": {"app": "drill", "query": f"{{many{size} {{_id words}}}}"},
        },
    }
    accept = "Accept: application/json, text/event-stream"
    return {
        "rest list": get(f"/{DB}/many{size}?pagesize=1000"),
        "rest text": get(f"/{DB}/one{size}/1?id_type=NUMBER"),
        "rest csv": get(f"/{DB}/many{size}?pagesize=1000&format=csv"),
        "graphql": query("many", "_id words"),
        "graphql text": query("one", "_id text"),
        "graphql csv": query("many", "_id words", "Accept: text/csv"),
        "mcp": post("/mcp", agent, accept, "Host: localhost").replace(
            b"Host: localhost\r\n", b"", 1
        ),
        "body": (
            f"POST /{DB}/taken HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(text)}\r\n\r\n{text}"
        ).encode(),
    }


def fill(mongo: MongoClient[dict[str, Any]]) -> None:
    """Store documents of many words, and some of one long text each."""
    mongo.drop_database(DB)
    for size in SIZES:
        count = size * MB // 1000 // 12  # each word has 12 characters as JSON
        words = [f"{n:09}" for n in range(count)]
        mongo[DB][f"many{size}"].insert_many({"_id": n, "words": words} for n in range(1000))
        mongo[DB][f"one{size}"].insert_one({"_id": 1, "text": "a\tü." * (size * MB // 6)})
    mongo[DB].create_collection("taken")
    mongo[DB]["gql-apps"].insert_one(dict(APP))


@pytest.fixture(scope="module")
def filled(mongo_uri: str) -> str:
    with MongoClient[dict[str, Any]](mongo_uri) as mongo:
        fill(mongo)
    return mongo_uri


@pytest.fixture(params=LIMITS, ids=lambda limit: limit.name)
def limit(request: pytest.FixtureRequest) -> Limit:
    found: Limit = request.param
    return found


@pytest.fixture(params=LANES)
def server(
    filled: str,
    tmp_path: Path,
    limit: Limit,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[DrillServer]:
    monkeypatch.setenv("DOCGRAPH_NATIVE", "off" if request.param == "python" else "")
    monkeypatch.delenv("DOCGRAPH_TEST_MONGO", raising=False)  # no option of the server
    options = {
        "mclient__connection_string": filled,
        "mongo__mongo_mounts": json.dumps([{"what": f"/{DB}", "where": f"/{DB}"}]),
        "graphql__db": DB,
        "mcp__enabled": "true",
        "mcp__calls_per_second": "1000",
        "core__workers": str(limit.workers),
        "core__wait_timeout_ms": "2000",
    }
    with serving(tmp_path, before=limit_memory(limit, tmp_path), **options) as server:
        yield server


def limit_memory(limit: Limit, directory: Path) -> list[str]:
    """Return the command that limits the memory of what follows it."""
    if limit.space:
        return ["prlimit", f"--as={limit.space * MB}"]
    if not limit.group:
        return []
    group = directory / "cgroup" / "memory"
    group.mkdir(parents=True)
    (group / "memory.limit_in_bytes").write_text(str(limit.group * MB))
    (group.parent / "memory.max").write_text(str(limit.group * MB))
    script = f'mount --bind {group.parent} /sys/fs/cgroup && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", script, "sh"]


async def test_large_answers_in_a_process_with_little_memory(
    server: DrillServer, limit: Limit
) -> None:
    assert server.ask("GET", f"/{DB}/many8?pagesize=1")[0] == 200
    assert server.ask("POST", "/graphql/drill", {"query": "{__typename}"})[0] == 200
    parent = psutil.Process(server.process.pid)
    processes = [parent, *parent.children(recursive=True)]
    before = measure(processes)
    if limit.room:
        for one in processes:
            most = one.memory_info().vms + limit.room * MB
            resource.prlimit(one.pid, resource.RLIMIT_AS, (most, most))
        await asyncio.sleep(0.6)

    small = Seen()
    beside = asyncio.create_task(call(server.port, [SMALL], small, float("inf"), pause=0.05))
    seen = {}
    for size in SIZES:
        for name, packet in describe_calls(size).items():
            for callers in CALLERS:
                key = f"{name}, {size} MB, {callers}"
                answers = await asyncio.gather(*(read(server.port, packet) for _ in range(callers)))
                seen[key] = Counter(status for status, _ in answers)
                longest = max(length for _, length in answers) / MB
                told = f"{dict(seen[key])}, the longest {longest:.1f} MB"
                print(f"\n  {key}: {told}; process {measure(processes):.0f} MB", end="")
                assert is_alive(processes), server.log.read_text()[-3000:]
    beside.cancel()
    await asyncio.wait((beside,))
    peak = sum(read_peak(one) for one in processes)
    print(f"\n{limit}: small ones {small.describe()}; before {before:.0f}, ", end="")
    kept = await wait_for_memory(processes, before)
    print(f"most {peak:.0f}, after {before + kept:.0f} MB ({describe_load()})")

    assert {status for answers in seen.values() for status in answers} <= {"200", "201", "503"}
    assert set(small.answers) <= {"200", "503"}
    assert server.ask("GET", f"/{DB}/many8?pagesize=1")[0] == 200
    assert kept <= MAX_KEPT
    if limit.group:
        assert peak <= limit.group


def is_alive(processes: list[psutil.Process]) -> bool:
    """Return whether none of them has ended, and so none was replaced."""
    return all(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in processes)


def measure(processes: list[psutil.Process]) -> float:
    return sum(one.memory_info().rss for one in processes) / MB


def read_peak(process: psutil.Process) -> float:
    """Return the most resident memory that a process ever had, in MB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) * 1024 / MB


async def wait_for_memory(processes: list[psutil.Process], before: float) -> float:
    """Return how much more memory the processes have when it is quiet, in MB."""
    for _ in range(int(QUIET_SECONDS)):
        await asyncio.sleep(1)
        if measure(processes) - before <= MAX_KEPT:
            break
    return measure(processes) - before


async def read(port: int, packet: bytes) -> tuple[str, int]:
    """Ask on a new connection, read the answer, and return its status and length."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(packet)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            status = head.split(" ", 2)[1]
            length = re.search(r"content-length: (\d+)", head)
            size, tail = 0, b""
            while size < int(length[1]) if length else not tail.endswith(b"\r\n0\r\n\r\n"):
                chunk = await reader.read(1 << 18)
                if not chunk:
                    return "cut", size
                size, tail = size + len(chunk), (tail + chunk)[-7:]
            is_told = status != "503" or "retry-after:" in head
            return status if is_told else "503 without Retry-After", size
        finally:
            writer.close()
    except (OSError, asyncio.IncompleteReadError) as error:
        return type(error).__name__, 0
