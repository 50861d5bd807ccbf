"""`make bench`: docgraph beside the twin, rung by rung, on the same mongod in one run.

Every answer is compared with the twin's before anything is timed. What travels between machines
is the ratio docgraph / twin; a run with an error or a different answer does not count.
"""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, ExitStack

from bench import logins, streams
from bench.contest import (
    Contestant,
    compare,
    parse_arguments,
    running_database,
    running_docgraph,
    running_twin,
    time_rung,
    wanted,
)
from bench.twin import HANDLERS
from bench.workloads import LOGINS, WORKLOADS

LOGIN_BAR = 0.15  # milliseconds of CPU


def main() -> None:
    """Run the ladder and print the table."""
    args = parse_arguments(__doc__)
    with ExitStack() as stack:
        uri = stack.enter_context(running_database())
        if wanted(WORKLOADS, args):
            docgraph = stack.enter_context(running_docgraph(uri))
            print_table([docgraph, stack.enter_context(running_rival(uri, args))], args)
        if wanted(LOGINS, args):
            logins.store_user(uri)
            with running_docgraph(uri, logins.CONFIG) as docgraph:
                print_logins(docgraph, args)
        if not args.only or "W10" in args.only:
            with running_docgraph(uri, streams.CONFIG) as docgraph:
                streams.print_outcome(streams.measure(docgraph, uri, args.stream_seconds))


def running_rival(uri: str, args: argparse.Namespace) -> AbstractContextManager[Contestant]:
    """What docgraph is measured beside: another version of itself, or the twin."""
    return running_docgraph(uri, checkout=args.beside) if args.beside else running_twin(uri)


def print_table(contestants: list[Contestant], args: argparse.Namespace) -> None:
    """One line per rung."""
    other = contestants[1].name
    print(
        f"{'':8} {'docgraph/s':>10} {other + '/s':>8} {'ratio':>6} {'bar':>5}   p50/p99 ms   cpu ms"
    )
    for workload in wanted(WORKLOADS, args):
        rivals = contestants if args.beside or workload.id in HANDLERS else contestants[:1]
        compare(workload, rivals)
        result = time_rung(workload, rivals, args)
        own, rival = result["docgraph"], result.get(other)
        ratio = f"{own.rate / rival.rate:.2f}" if rival else ""
        print(
            f"{workload.id:8} {own.rate:10.0f} {rival.rate if rival else 0:8.0f} {ratio:>6} "
            f"{workload.bar or '':>5}   {own.p50:.1f}/{own.p99:.1f}   {own.cpu_ms:.3f}"
            + (f" ({other} {rival.cpu_ms:.3f})" if rival else ""),
            flush=True,
        )


def print_logins(docgraph: Contestant, args: argparse.Namespace) -> None:
    """W9: what it costs to know the caller, beside the same request of nobody."""
    print(f"{'':8} {'docgraph/s':>10}   p50/p99 ms   cpu ms   more than anonymous, bar {LOGIN_BAR}")
    anonymous = 0.0
    for workload in LOGINS:  # all of them: the first one is the measure of the others
        own = time_rung(workload, [docgraph], args)["docgraph"]
        anonymous = anonymous or own.cpu_ms
        print(
            f"{workload.id:8} {own.rate:10.0f}   {own.p50:.1f}/{own.p99:.1f}"
            f"   {own.cpu_ms:.3f}   {own.cpu_ms - anonymous:+.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
