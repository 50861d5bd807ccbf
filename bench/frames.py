"""`python -m bench.frames`: how many Python functions one request starts, and where.

Seconds need a quiet machine, numbers of functions do not. The application runs in this process, on
a real database. What is counted is every start of a Python function on its event loop, tasks of the
request included and those of the background left out; a coroutine that continues has started
before. Of nine requests after the warm-up the one with the fewest counts: on a busy machine a
request also waits for connections and for the work of others. Threads are not counted, and no
function of C.

    python -m bench.frames                           # all rungs and callers, in this lane
    python -m bench.frames --only W1 --functions 40  # the functions that start most often
    python -m bench.frames --beside ../earlier       # two versions
    python -m bench.frames --lanes                   # also without the native lane
    python -m bench.frames --lanes --write           # lower the budgets to what was measured

`frames.yml` has the budgets, by minor version of Python, lane, caller and rung. They may only fall.
"""

from __future__ import annotations

import argparse
import asyncio
import dis
import json
import os
import queue
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import orjson
import uvloop
import yaml
from pymongo import MongoClient

from bench import data, load, logins, row_filters
from bench.workloads import WORKLOADS, Workload
from docgraph.config import ConfigSources
from docgraph.observe import prometheus
from docgraph.observe.log import open_log
from docgraph.observe.sections import Logging
from docgraph.runtime import Instance, create_instance
from docgraph.runtime.native import name_lane
from docgraph.server.app import Docgraph
from docgraph.server.http.protocol import HttpProtocol
from docgraph.server.http.state import build_state
from docgraph.server.prepare import load_tree, prepare
from docgraph.server.settings import ServerSettings

BUDGETS: Final = Path(__file__).with_name("frames.yml")
VERSION: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
_WARM_UP, _TIMES = 20, 9

Starts = Counter[tuple[str, CodeType]]  # by module and code
Counts = dict[str, dict[str, dict[str, int]]]  # by caller, rung and function

_IDS = ("W0", "W1", "W2-20", "W3", "W4", "W5", "W6", "R1", "R2")
RUNGS: Final = (
    *(one for one in WORKLOADS if one.id in _IDS),
    Workload("ping", "GET /ping", path="/ping"),
)
_ROWS = {"authorId": {"$gte": "@user.team"}}
_RULES = [
    {
        "role": row_filters.ROLE,
        "predicate": "path-prefix('/graphql')",
        "mongo": {"readFilters": {f"{data.DB}.posts": _ROWS}},
    },
    {
        "role": row_filters.ROLE,
        "predicate": "path-prefix('/data')",
        "mongo": {"readFilter": _ROWS, "projectResponse": {"body": 0}},
    },
]
_OPEN = {
    "/fullAuthorizer/enabled": "true",
    "/fullAuthorizer/authentication-required": "false",
}
CALLERS: Final[dict[str, Mapping[str, str]]] = {
    "anonymous": _OPEN,
    "jwt": {**_OPEN, **logins.CONFIG},
    "filtered": {**row_filters.CONFIG, "/fileAclAuthorizer/permissions": json.dumps(_RULES)},
}
"""Configurations: no authentication, a token with a role, and a role with a row filter and a
hidden field."""


@dataclass(frozen=True)
class Request:
    """One request of a caller: the rung as it is sent."""

    caller: str
    rung: Workload

    def render(self) -> bytes:
        """Return its bytes."""
        headers = logins.build_headers("" if self.caller == "anonymous" else "jwt")
        return load.build_request(80, self.path, self.rung.body(), headers)

    @property
    def path(self) -> str:
        """The app with the hidden field for the caller who does not see it."""
        is_hidden = self.caller == "filtered" and self.rung.query
        return "/graphql/hidden" if is_hidden else self.rung.path


def load_data(uri: str, definitions: Sequence[Mapping[str, Any]]) -> None:
    """Store the data of the ladder, as few of them as the rungs need, and the apps."""
    data.load(uri, posts=5_000, comments=2_000)
    with MongoClient[dict[str, Any]](uri) as client:
        client[data.DB]["gql-apps"].insert_many([dict(one) for one in definitions])


def count_starts(
    uri: str, callers: Sequence[str] = tuple(CALLERS), rungs: Sequence[Workload] = RUNGS
) -> Counts:
    """Return how often each function starts, by caller, rung and name of the function."""
    return {caller: _count_rungs(uri, caller, rungs) for caller in callers}


def _count_rungs(uri: str, caller: str, rungs: Sequence[Workload]) -> dict[str, dict[str, int]]:
    everything = {
        "/graphql/db": data.DB,
        "/mongo/mongo-mounts": '[{"what": "/bench", "where": "/data"}]',
        "/mclient/connection-string": uri,
        "/dbRealmAuthenticator/bcrypt-complexity": "4",
        **CALLERS[caller],
    }
    options = tuple(f"{path}={value}" for path, value in everything.items())

    async def count(instance: Instance) -> dict[str, dict[str, int]]:
        async with _serving(Docgraph(prepared, instance, uri), settings) as port:
            return {
                rung.id: _name_functions(await _count_request(port, Request(caller, rung).render()))
                for rung in rungs
            }

    with tempfile.TemporaryDirectory() as directory:
        sources = ConfigSources(settings=options, environ={}, directory=Path(directory))
        prepared = prepare(load_tree(sources))
        settings = ServerSettings.from_sections(prepared.config.sections)
        with create_instance(Path(directory)) as instance, _observing():
            return uvloop.run(count(instance))


def sum_packages(starts: Mapping[str, int]) -> Counter[str]:
    """Return the starts by package of docgraph; functions of libraries by library."""
    packages: Counter[str] = Counter()
    for name, number in starts.items():
        packages[_find_package(name)] += number
    return packages


def count_own(starts: Mapping[str, int]) -> int:
    """Return how many functions of docgraph start."""
    return sum(number for name, number in starts.items() if name.startswith("docgraph."))


@asynccontextmanager
async def _serving(app: Docgraph, settings: ServerSettings) -> AsyncIterator[int]:
    """Serve in this event loop; gives the port."""
    await app.startup()
    try:
        await app.contact_database()
        state, loop = build_state(app, settings), asyncio.get_running_loop()
        server = await loop.create_server(partial(HttpProtocol, state, loop), "127.0.0.1")
        yield server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
    finally:
        await app.shutdown()


@contextmanager
def _observing() -> Iterator[None]:
    """Count and log all events; the lines are read by no one."""
    with Path(os.devnull).open("w") as nowhere:
        prometheus.open_metrics("bench", name_lane())
        log = open_log(Logging(), fd=nowhere.fileno())
        try:
            yield
        finally:
            log.close()
            prometheus.close_metrics()


async def _count_request(port: int, request: bytes) -> Starts:
    """Return the starts of the request with the fewest, after the warm-up."""
    starts: Starts = Counter()
    loop, others = asyncio.get_running_loop(), asyncio.all_tasks()

    def record(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and frame.f_lasti == _find_start(code) and find_task(loop) not in others:
            # Not its file: generated methods of a dataclass have none.
            starts[frame.f_globals.get("__name__", "?"), code] += 1

    find_task = asyncio.current_task
    work = asyncio.to_thread(_send_requests, port, request, starts, loop.call_soon_threadsafe)
    sys.setprofile(record)
    try:
        rounds = await work
    finally:
        sys.setprofile(None)
    return min(rounds, key=lambda one: one.total())


def _send_requests(
    port: int, request: bytes, starts: Starts, call_soon: Callable[..., object]
) -> list[Starts]:
    """Send one request after the other, in a thread of its own; returns the starts of each."""
    rounds = []
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for number in range(_WARM_UP + _TIMES):
            starts.clear()
            _send(connection, request)
            _settle(call_soon)
            if number >= _WARM_UP:
                rounds.append(Counter(starts))
    return rounds


def _send(connection: socket.socket, request: bytes) -> None:
    connection.sendall(request)
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += _receive(connection)
    head, _, body = answer.partition(b"\r\n\r\n")
    fields = head.lower().split(b"\r\n")
    length = next(int(one[16:]) for one in fields if one.startswith(b"content-length: "))
    while len(body) < length:
        body += _receive(connection)
    if b" 200 " not in head[:16] or b'"errors":[' in body or b":null}}" in body:
        raise SystemExit(f"the answer is wrong: {head.decode()}\n{body[:400].decode()}")


def _receive(connection: socket.socket) -> bytes:
    part = connection.recv(65_536)
    if not part:
        raise SystemExit("the server has closed the connection")
    return part


def _settle(call_soon: Callable[..., object]) -> None:
    """Wait for a few turns of the event loop: a request ends after its answer."""
    turns: queue.SimpleQueue[None] = queue.SimpleQueue()
    for _ in range(4):
        call_soon(turns.put, None)
        turns.get(timeout=60)


@cache
def _find_start(code: CodeType) -> int:
    """Return the offset of the instruction at which a function starts, and never continues."""
    resumes = (one.offset for one in dis.get_instructions(code) if one.opname == "RESUME")
    return next(resumes, -1)


def _name_functions(starts: Starts) -> dict[str, int]:
    named: Counter[str] = Counter()
    for (module, code), number in starts.items():
        named[f"{module}:{code.co_qualname}"] += number
    return dict(named)


def _find_package(name: str) -> str:
    """Return the package of docgraph, the library, or `python` for what belongs to the language."""
    first, *others = name.partition(":")[0].split(".")
    if first == "docgraph":
        return others[0] if others else first
    is_library = first.isidentifier() and not first.startswith("namedtuple_")
    return first if is_library and first not in sys.stdlib_module_names else "python"


def _ask_process(args: argparse.Namespace, tree: Path | None, lane: str) -> Counts:
    """Count in a process of its own: with the sources of another tree, or in another lane."""
    environment = dict(os.environ)
    if tree is not None:
        environment["PYTHONPATH"] = str(tree.resolve() / "src")
    if lane == "python":
        environment["DOCGRAPH_NATIVE"] = "off"
    command = [sys.executable, "-m", "bench.frames", "--json", args.uri]
    command += ["--callers", *args.callers, "--only", *(one.id for one in args.rungs)]
    output = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout
    counts: Counts = orjson.loads(output)
    return counts


def _print_counts(counts: Counts, before: Counts | None, functions: int) -> None:
    """Print a line for each rung, with the largest packages, and the functions if wanted."""
    for caller, rungs in counts.items():
        for rung, starts in rungs.items():
            earlier = before[caller][rung] if before else {}
            own = f"{count_own(starts):5}" + (f" ({count_own(earlier)})" if before else "")
            packages, old = sum_packages(starts), sum_packages(earlier)
            names = sorted({*packages, *old}, key=lambda name: -packages[name])
            shares = (
                f"{name} {packages[name]}" + (f" ({old[name]})" if before else "") for name in names
            )
            print(f"{caller:10} {rung:6} {own}   {', '.join(shares)}", flush=True)
            _print_functions(starts, earlier, functions)


def _print_functions(starts: Mapping[str, int], earlier: Mapping[str, int], most: int) -> None:
    """Print the functions that start most often, or those that differ."""
    if earlier:
        changes = {
            name: starts.get(name, 0) - earlier.get(name, 0) for name in {**starts, **earlier}
        }
        shown = {name: number for name, number in changes.items() if number}
    else:
        shown = dict(starts)
    for name, number in sorted(shown.items(), key=lambda item: -abs(item[1]))[:most]:
        print(f"{number:+9}  {name}" if earlier else f"{number:9}  {name}")


def read_budgets(lane: str) -> dict[str, dict[str, int]]:
    """Return the budgets of this version of Python by caller and rung; none for other versions."""
    budgets = yaml.safe_load(BUDGETS.read_text()) if BUDGETS.exists() else {}
    found: dict[str, dict[str, int]] = budgets.get(VERSION, {}).get(lane, {})
    return found


def _write_budgets(lane: str, counts: Counts) -> None:
    """Lower the budgets to what was measured."""
    budgets = yaml.safe_load(BUDGETS.read_text()) if BUDGETS.exists() else {}
    of_lane = budgets.setdefault(VERSION, {}).setdefault(lane, {})
    for caller, rungs in counts.items():
        of_caller = of_lane.setdefault(caller, {})
        for rung, starts in rungs.items():
            number = count_own(starts)
            of_caller[rung] = min(number, of_caller.get(rung, number))
    BUDGETS.write_text(_HEAD + yaml.safe_dump(budgets, sort_keys=False))


_HEAD = (
    "# How many functions of docgraph a request may start, see frames.py. Numbers only fall:\n"
    "# `python -m bench.frames --lanes --write` lowers them.\n"
)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__ and __doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="*", help="ids of rungs")
    parser.add_argument("--callers", nargs="*", default=list(CALLERS), choices=list(CALLERS))
    parser.add_argument("--functions", type=int, default=0, help="how many functions to print")
    parser.add_argument("--beside", type=Path, help="a checkout of another version")
    parser.add_argument("--lanes", action="store_true", help="also without the native lane")
    parser.add_argument("--write", action="store_true", help="lower the budgets")
    parser.add_argument("--json", metavar="URI", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.rungs = [one for one in RUNGS if not args.only or one.id in args.only]
    return args


def main() -> None:
    """Count, print and compare."""
    args = _parse_arguments()
    if args.json:
        counts = count_starts(args.json, args.callers, args.rungs)
        sys.stdout.buffer.write(orjson.dumps(counts))
        return
    from bench.contest import load_definitions
    from docgraph.embedded import EmbeddedMongo

    with tempfile.TemporaryDirectory() as directory, EmbeddedMongo(Path(directory)) as args.uri:
        load_data(args.uri, load_definitions()[:2])
        lanes = [name_lane(), "python"] if args.lanes else [name_lane()]
        for lane in dict.fromkeys(lanes):
            print(f"Python {VERSION}, lane {lane}", flush=True)
            counts = _ask_process(args, None, lane)
            before = _ask_process(args, args.beside, lane) if args.beside else None
            _print_counts(counts, before, args.functions)
            if args.write:
                _write_budgets(lane, counts)


if __name__ == "__main__":
    main()
