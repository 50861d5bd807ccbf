"""`make bench`: docgraph beside the twin, rung by rung, on the same mongod in one run.

Every answer is compared with the twin's before anything is timed. What travels between machines
is the ratio docgraph / twin; a run with an error or a different answer does not count.
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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import psutil
from pymongo import MongoClient

from bench import data, load, logins
from bench.twin import HANDLERS
from bench.workloads import LOGINS, WORKLOADS, Workload
from docgraph.store.embedded import EmbeddedMongo

HERE = Path(__file__).parent
LOGIN_BAR = 0.15  # milliseconds of CPU
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
            {"Content-Type": "application/json", **logins.build_headers(workload.caller)},
            method=workload.method,
        )
        with urllib.request.urlopen(request) as response:
            return orjson.loads(response.read())

    def cpu(self) -> float:
        """CPU seconds used so far."""
        times = self.process.cpu_times()
        return times.user + times.system


@contextmanager
def running_docgraph(uri: str, extra: Mapping[str, str] | None = None) -> Iterator[Contestant]:
    """docgraph as a user runs it."""
    settings = {**CONFIG, "/mclient/connection-string": uri, **(extra or {})}
    options = [f"--set={path}={value}" for path, value in settings.items()]
    with (
        tempfile.TemporaryDirectory() as directory,
        subprocess.Popen(
            [sys.executable, "-m", "docgraph", "serve", *options],
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("docgraph ready "):
            raise SystemExit("docgraph did not start")
        port = int(line.rsplit(":", 1)[1].strip().rstrip("/"))
        try:
            yield Contestant("docgraph", port, psutil.Process(process.pid))
        finally:
            process.terminate()


@contextmanager
def running_twin(uri: str, port: int) -> Iterator[Contestant]:
    """The hand-written handler on the same server."""
    command = [sys.executable, "-m", "uvicorn", "bench.twin:app", "--port", str(port)]
    command += ["--no-access-log", "--log-level", "warning", "--lifespan", "off"]
    with subprocess.Popen(command, env={**os.environ, "MONGO_URI": uri}) as process:
        contestant = Contestant("twin", port, psutil.Process(process.pid))
        try:
            _wait_for(contestant)
            yield contestant
        finally:
            process.terminate()


def _wait_for(contestant: Contestant) -> None:
    for _ in range(100):
        try:
            contestant.ask(WORKLOADS[0])
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"{contestant.name} did not start")


def compare(workload: Workload, contestants: list[Contestant]) -> None:
    """Refuse to time what does not answer alike."""
    answers = [contestant.ask(workload) for contestant in contestants]
    if any(answer != answers[0] for answer in answers):
        raise SystemExit(f"{workload.id}: the answers differ")


def time_rung(
    workload: Workload, contestants: list[Contestant], args: argparse.Namespace
) -> dict[str, dict[str, float]]:
    """Median of the rounds for each contestant, taken in turns."""
    runs: dict[str, list[tuple[load.Measured, float]]] = {one.name: [] for one in contestants}
    for round_number in range(args.rounds + 1):
        for contestant in contestants:
            seconds = 1.0 if round_number == 0 else args.seconds  # the first one warms up
            before = contestant.cpu()
            measured = load.measure(
                contestant.port,
                workload.path,
                workload.body(),
                seconds=seconds,
                connections=args.connections,
                headers=logins.build_headers(workload.caller),
            )
            if measured.errors:
                raise SystemExit(f"{workload.id}: {contestant.name} answered with errors")
            if round_number:
                runs[contestant.name].append((measured, contestant.cpu() - before))
    return {name: _summarise(results) for name, results in runs.items()}


def _summarise(results: list[tuple[load.Measured, float]]) -> dict[str, float]:
    return {
        "rate": statistics.median(run.rate for run, _ in results),
        "p50": statistics.median(run.percentile(0.50) for run, _ in results),
        "p99": statistics.median(run.percentile(0.99) for run, _ in results),
        "cpu_ms": statistics.median(cpu / run.requests * 1000 for run, cpu in results),
    }


def main() -> None:
    """Run the ladder and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--only", nargs="*", help="ids of workloads")
    args = parser.parse_args()
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        uri = stack.enter_context(EmbeddedMongo(Path(directory)))
        data.load(uri)
        with MongoClient(uri) as client:
            client["docgraph"]["gql-apps"].insert_many(load_definitions())
        if wanted(WORKLOADS, args):
            docgraph = stack.enter_context(running_docgraph(uri))
            twin = stack.enter_context(running_twin(uri, 18_391))
            print_table([docgraph, twin], args)
        if wanted(LOGINS, args):
            logins.store_user(uri)
            with running_docgraph(uri, logins.CONFIG) as docgraph:
                print_logins(docgraph, args)


def load_definitions() -> list[dict[str, Any]]:
    """The app of the ladder, and the same with a field that only administrators see."""
    app: dict[str, Any] = orjson.loads((HERE / "app.json").read_bytes())
    field = "email: String"
    hidden = app["schema"].replace(field, f'{field} @visible(roles: ["admin"])')
    return [app, {**app, "_id": "hidden", "schema": hidden}]


def wanted(workloads: Iterable[Workload], args: argparse.Namespace) -> list[Workload]:
    """Those that were asked for: a name stands for all that begin with it and a dash."""
    if not args.only:
        return list(workloads)
    names = {one: one.partition("-")[0] for one in (workload.id for workload in workloads)}
    return [one for one in workloads if one.id in args.only or names[one.id] in args.only]


def print_table(contestants: list[Contestant], args: argparse.Namespace) -> None:
    """One line per rung."""
    print(f"{'':8} {'docgraph/s':>10} {'twin/s':>8} {'ratio':>6} {'bar':>5}   p50/p99 ms   cpu ms")
    for workload in wanted(WORKLOADS, args):
        rivals = contestants if workload.id in HANDLERS else contestants[:1]
        compare(workload, rivals)
        result = time_rung(workload, rivals, args)
        own, twin = result["docgraph"], result.get("twin")
        ratio = f"{own['rate'] / twin['rate']:.2f}" if twin else ""
        print(
            f"{workload.id:8} {own['rate']:10.0f} {twin['rate'] if twin else 0:8.0f} {ratio:>6} "
            f"{workload.bar or '':>5}   {own['p50']:.1f}/{own['p99']:.1f}   {own['cpu_ms']:.3f}"
            + (f" (twin {twin['cpu_ms']:.3f})" if twin else ""),
            flush=True,
        )


def print_logins(docgraph: Contestant, args: argparse.Namespace) -> None:
    """W9: what it costs to know the caller, beside the same request of nobody."""
    print(f"{'':8} {'docgraph/s':>10}   p50/p99 ms   cpu ms   more than anonymous, bar {LOGIN_BAR}")
    anonymous = 0.0
    for workload in LOGINS:  # all of them: the first one is the measure of the others
        own = time_rung(workload, [docgraph], args)["docgraph"]
        anonymous = anonymous or own["cpu_ms"]
        print(
            f"{workload.id:8} {own['rate']:10.0f}   {own['p50']:.1f}/{own['p99']:.1f}"
            f"   {own['cpu_ms']:.3f}   {own['cpu_ms'] - anonymous:+.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
