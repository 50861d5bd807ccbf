"""What every run of the bench shares: the database, the servers, the comparison and the clock.

A contestant is a running server. All of them answer on one `mongod`; answers are compared before
anything is timed, contestants take turns, and a run with an error does not count.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import psutil
from pymongo import MongoClient

from bench import agents, cached, data, lists, load, logins, related, row_filters
from bench.beside import PAIRS
from bench.workloads import WORKLOADS, Workload
from docgraph.embedded import EmbeddedMongo

HERE = Path(__file__).parent
TWIN_PORT = 18_391
UVICORN_OPTIONS = ("--no-access-log", "--log-level", "warning", "--lifespan", "off")
CONFIG = {
    "/http-listener/port": "0",
    "/fullAuthorizer/enabled": "true",
    "/fullAuthorizer/authentication-required": "false",
    "/mongo/mongo-mounts": '[{"what": "/bench", "where": "/data"}]',
}


@dataclass
class Contestant:
    """A running server."""

    name: str
    port: int
    process: psutil.Process

    def ask(self, workload: Workload) -> object:
        """One request, decoded."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{workload.path}",
            workload.body() or None,
            {"Content-Type": "application/json", **build_headers(workload)},
            method=workload.method,
        )
        with urllib.request.urlopen(request) as response:  # noqa: S310 - of loopback
            return orjson.loads(response.read())

    def cpu(self) -> float:
        """CPU seconds used so far."""
        return _read_cpu(self.process)


def build_headers(workload: Workload) -> dict[str, str]:
    """Who the caller is, and for agents what their protocol wants."""
    accepted = {"Accept": "application/json, text/event-stream"} if workload.message else {}
    return {**accepted, **logins.build_headers(workload.caller)}


@dataclass(frozen=True)
class Round:
    """One timed run of one contestant, with the CPU seconds of its process and of the database."""

    measured: load.Measured
    cpu: float
    database_cpu: float

    @property
    def cpu_ms(self) -> float:
        """Milliseconds of the server process per request."""
        return self.cpu / self.measured.requests * 1000

    @property
    def database_ms(self) -> float:
        """The same of the database, which only this contestant uses meanwhile."""
        return self.database_cpu / self.measured.requests * 1000


@dataclass(frozen=True)
class Result:
    """What one contestant reached on one rung: the medians of its rounds."""

    rate: float
    p50: float
    p99: float
    cpu_ms: float
    rounds: tuple[Round, ...] = ()


@contextmanager
def running_database() -> Iterator[str]:
    """A `mongod` with the data and the apps of the ladder; gives its address."""
    with tempfile.TemporaryDirectory() as directory, EmbeddedMongo(Path(directory)) as uri:
        data.load(uri)
        row_filters.load(uri)
        with MongoClient[dict[str, Any]](uri) as client:
            apps = [*load_definitions(), row_filters.APP, related.APP]
            client["docgraph"]["gql-apps"].insert_many(apps)
        yield uri


def load_definitions() -> list[dict[str, Any]]:
    """The app of the ladder, and the same with a field that only administrators see."""
    app: dict[str, Any] = orjson.loads((HERE / "app.json").read_bytes())
    field = "email: String"
    hidden = app["schema"].replace(field, f'{field} @visible(roles: ["admin"])')
    return [
        app,
        {**app, "_id": "hidden", "schema": hidden},
        agents.build_app(app),
        lists.build_app(app),
        cached.build_app(app),
    ]


@contextmanager
def running_docgraph(
    uri: str,
    extra: Mapping[str, str] | None = None,
    *,
    checkout: Path | None = None,
    native: bool = True,
) -> Iterator[Contestant]:
    """docgraph as a user runs it; with a checkout, the version that stands there."""
    path = {"PYTHONPATH": str(checkout.resolve() / "src")} if checkout else {}
    if not native:
        path["DOCGRAPH_NATIVE"] = "off"
    settings = {**CONFIG, "/mclient/connection-string": uri, **(extra or {})}
    options = [f"--set={path}={value}" for path, value in settings.items()]
    with (
        tempfile.TemporaryDirectory() as directory,
        subprocess.Popen(
            [sys.executable, "-m", "docgraph", "serve", *options],
            cwd=directory,
            env={**os.environ, **path},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        line = process.stdout.readline()
        if not line.startswith("docgraph ready "):
            raise SystemExit("docgraph did not start")
        port = int(line.rsplit(":", 1)[1].strip().rstrip("/"))
        try:
            name = checkout.name if checkout else "docgraph" if native else "python lane"
            yield Contestant(name, port, psutil.Process(process.pid))
        finally:
            process.terminate()


@contextmanager
def running_server(
    name: str, port: int, command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[Contestant]:
    """Another server, from its first answer until the end of the block."""
    variables = {**os.environ, **environment}
    # As for docgraph: a log that goes to a terminal or a file costs more.
    with subprocess.Popen(command, env=variables, stderr=subprocess.DEVNULL) as process:
        contestant = Contestant(name, port, psutil.Process(process.pid))
        try:
            _wait_for(contestant, process)
            yield contestant
        finally:
            process.terminate()


@contextmanager
def running_twin(uri: str) -> Iterator[Contestant]:
    """The hand-written handler on the same server."""
    command = build_uvicorn_command("bench.twin:app", TWIN_PORT)
    with running_server("twin", TWIN_PORT, command, {"MONGO_URI": uri}) as twin:
        yield twin


def build_uvicorn_command(target: str, port: int) -> list[str]:
    """How each server in Python is started."""
    return [sys.executable, "-m", "uvicorn", target, "--port", str(port), *UVICORN_OPTIONS]


def _wait_for(contestant: Contestant, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if process.poll() is not None:
            break
        try:
            contestant.ask(WORKLOADS[0])
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"{contestant.name} did not start")


def compare(workload: Workload, contestants: list[Contestant]) -> None:
    """Refuse to time what does not answer alike."""
    first, *others = contestants
    answer = first.ask(workload)
    different = [other.name for other in others if other.ask(workload) != answer]
    if different:
        names = ", ".join(different)
        raise SystemExit(f"{workload.id}: the answers differ: {first.name} and {names}")


def time_rung(
    workload: Workload,
    contestants: list[Contestant],
    args: argparse.Namespace,
    database: psutil.Process | None = None,
) -> dict[str, Result]:
    """Median of the rounds for each contestant, taken in turns; another one begins each time."""
    runs: dict[str, list[Round]] = {one.name: [] for one in contestants}
    for number in range(args.rounds + 1):
        for contestant in contestants if number % 2 else reversed(contestants):
            before, database_before = contestant.cpu(), _read_cpu(database)
            measured = load.measure(
                contestant.port,
                workload.path,
                workload.bodies(),
                seconds=args.seconds if number else args.warm_up,
                connections=args.connections,
                headers=build_headers(workload),
            )
            if measured.errors:
                raise SystemExit(f"{workload.id}: {contestant.name} answered with errors")
            cpu, database_cpu = contestant.cpu() - before, _read_cpu(database) - database_before
            if number:
                runs[contestant.name].append(Round(measured, cpu, database_cpu))
    return {name: _summarise(rounds) for name, rounds in runs.items()}


def _summarise(rounds: list[Round]) -> Result:
    return Result(
        rate=statistics.median(one.measured.rate for one in rounds),
        p50=statistics.median(one.measured.percentile(0.50) for one in rounds),
        p99=statistics.median(one.measured.percentile(0.99) for one in rounds),
        cpu_ms=statistics.median(one.cpu_ms for one in rounds),
        rounds=tuple(rounds),
    )


def _read_cpu(process: psutil.Process | None) -> float:
    if process is None:
        return 0.0
    times = process.cpu_times()
    return times.user + times.system


def find_database(uri: str) -> psutil.Process:
    """The process of the `mongod`."""
    with MongoClient[dict[str, Any]](uri) as client:
        return psutil.Process(int(client.admin.command("serverStatus")["pid"]))


def parse_arguments(description: str | None, *, warm_up: float = 1.0) -> argparse.Namespace:
    """The options that every run takes; the round that warms up is not counted."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--warm-up", type=float, default=warm_up, help="seconds, not counted")
    parser.add_argument(
        "--rounds", type=int, help=f"3 by default; {PAIRS} with --beside, which fewer do not judge"
    )
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--stream-seconds", type=float, default=20.0, help="of writes for W10, W13")
    parser.add_argument(
        "--beside", type=Path, help="a checkout of another version, in place of the twin"
    )
    parser.add_argument(
        "--lanes", action="store_true", help="also without the native lane, in the same run"
    )
    parser.add_argument("--only", nargs="*", help="ids of workloads")
    args = parser.parse_args()
    args.rounds = args.rounds or (PAIRS if args.beside else 3)
    return args


def wanted(workloads: Iterable[Workload], args: argparse.Namespace) -> list[Workload]:
    """Those that were asked for: a name stands for all that begin with it and a dash."""
    if not args.only:
        return list(workloads)
    return [
        one for one in workloads if one.id in args.only or one.id.partition("-")[0] in args.only
    ]
