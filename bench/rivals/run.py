"""`make bench-rivals`: docgraph beside the twin and other GraphQL servers, on the same mongod.

The answers of all are compared with docgraph's, as JSON values, before anything is timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack

from bench import load
from bench.contest import (
    Contestant,
    Result,
    build_headers,
    compare,
    parse_arguments,
    running_database,
    running_docgraph,
    running_server,
    running_twin,
    time_rung,
    wanted,
)
from bench.rivals import RUNGS, Rival, set_up_all
from bench.workloads import WORKLOADS, Workload

WARM_UP = 8.0  # seconds: what V8 needs to compile a driver and a server on a busy machine


def main() -> None:
    """Set up what can be, run the rungs and print the table."""
    args = parse_arguments(__doc__, warm_up=WARM_UP)
    rivals, left_out = set_up_all()
    for reason, names in left_out.items():
        print(f"left out: {', '.join(names)}: {reason}", flush=True)
    with ExitStack() as stack:
        uri = stack.enter_context(running_database())
        running = [
            stack.enter_context(running_docgraph(uri)),
            stack.enter_context(running_twin(uri)),
        ]
        for rival in rivals:
            environment = rival.build_environment(uri)
            server = running_server(rival.name, rival.port, rival.build_command(), environment)
            running.append(stack.enter_context(server))
            warm_up(running[-1], rival)
        print_table(running, rivals, args)


def warm_up(contestant: Contestant, rival: Rival) -> None:
    """Let a server that compiles while it runs answer all rungs in turns."""
    workloads = [one for one in WORKLOADS if one.id in rival.rungs]
    for number in range(int(rival.warm_up)):  # a second each
        workload = workloads[number % len(workloads)]
        load.measure(
            contestant.port,
            workload.path,
            workload.bodies(),
            seconds=1.0,
            connections=16,
            headers=build_headers(workload),
        )


def print_table(
    running: list[Contestant], rivals: Sequence[Rival], args: argparse.Namespace
) -> None:
    """A group of lines per rung, a line per contestant."""
    print(f"{'':8} {'':12} {'req/s':>8} {'ratio':>6} {'bar':>5} {'p50/p99 ms':>13} {'cpu ms':>8}")
    for workload in wanted((one for one in WORKLOADS if one.id in RUNGS), args):
        served = [one.name for one in rivals if workload.id in one.rungs]
        contestants = [one for one in running if one.name in {"docgraph", "twin", *served}]
        compare(workload, contestants)
        results = time_rung(workload, contestants, args)
        for name, result in results.items():
            ratio = results["docgraph"].rate / result.rate
            print(format_line(workload, name, result, ratio, find_bar(workload, name, rivals)))
        print(flush=True)


def find_bar(workload: Workload, name: str, rivals: Sequence[Rival]) -> float | None:
    """The least ratio docgraph / contestant that we accept."""
    if name == "twin":
        return workload.bar
    return next((one.bars.get(workload.id) for one in rivals if one.name == name), None)


def format_line(
    workload: Workload, name: str, result: Result, ratio: float, bar: float | None
) -> str:
    """One contestant on one rung; what misses its bar is marked."""
    beside = "" if name == "docgraph" else f"{ratio:.2f}"
    latency = f"{result.p50:.1f}/{result.p99:.1f}"
    mark = "  below the bar" if bar is not None and ratio < bar else ""
    return (
        f"{workload.id:8} {name:12} {result.rate:8.0f} {beside:>6} {bar or '':>5} "
        f"{latency:>13} {result.cpu_ms:8.3f}{mark}"
    )


if __name__ == "__main__":
    main()
