"""`make bench`: docgraph beside the twin, rung by rung, on the same mongod in one run.

Every answer is compared with the twin's before anything is timed. What travels between machines
is the ratio docgraph / twin; a run with an error or a different answer does not count.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from statistics import median

from bench import (
    agents,
    asgi,
    cached,
    lists,
    load,
    logins,
    people,
    questions,
    related,
    row_filters,
    streams,
)
from bench.beside import compare_pairs
from bench.contest import (
    Contestant,
    Result,
    compare,
    find_database,
    parse_arguments,
    running_database,
    running_docgraph,
    running_twin,
    time_rung,
    wanted,
)
from bench.twin import HANDLERS
from bench.workloads import LOGINS, ROW_FILTERS, WORKLOADS, Workload

LOGIN_BAR = 0.15  # milliseconds of CPU
HIT_BAR = 0.6
MISS_BAR = 1.05


def main() -> None:
    """Run the ladder and print the table."""
    args = parse_arguments(__doc__)
    if not args.only or "questions" in args.only:
        questions.print_outcome()
    with running_database() as uri:
        ladder = (*WORKLOADS, *lists.WORKLOADS)
        for workloads, config in ((ladder, {}), (ROW_FILTERS, row_filters.CONFIG)):
            if wanted(workloads, args):
                with (
                    running_docgraph(uri, config) as docgraph,
                    running_rival(uri, args, config) as rival,
                    running_lane(uri, args, config) as lane,
                ):
                    contestants = [docgraph, rival] + ([lane] if lane else [])
                    print_rungs(wanted(workloads, args), contestants, uri, args)
        if wanted(cached.IDS, args):
            print_cached(uri, args)
        if wanted(related.WORKLOADS, args):
            related.load(uri)
            with running_docgraph(uri) as docgraph, running_twin(uri) as twin:
                print_related(docgraph, twin, uri, args)
        if wanted(agents.WORKLOADS, args):
            logins.store_user(uri)
            with (
                running_docgraph(uri, agents.CONFIG) as docgraph,
                running_rival(uri, args, agents.CONFIG) as rival,
            ):
                print_rungs(wanted(agents.WORKLOADS, args), [docgraph, rival], uri, args)
        if wanted(LOGINS, args):
            logins.store_user(uri)
            with running_docgraph(uri, logins.CONFIG) as docgraph:
                print_logins(docgraph, args)
        if not args.only or "W18" in args.only:
            asgi.print_outcome(uri, args)
        print_streams(uri, args)


def print_streams(uri: str, args: argparse.Namespace) -> None:
    """W10 and W13: change streams with many clients."""
    if not args.only or "W10" in args.only:
        with running_docgraph(uri, streams.CONFIG) as docgraph:
            streams.print_outcome(streams.measure(docgraph, uri, args.stream_seconds))
    for crowd in people.CROWDS:
        if not args.only or crowd.id in args.only:
            with running_docgraph(uri, people.build_config(crowd)) as docgraph:
                outcome = people.measure(docgraph, uri, crowd, args.stream_seconds)
                people.print_outcome(crowd, outcome)


def running_rival(
    uri: str, args: argparse.Namespace, config: Mapping[str, str]
) -> AbstractContextManager[Contestant]:
    """What docgraph is measured beside: another version of itself, or the twin."""
    if args.beside:
        return running_docgraph(uri, config, checkout=args.beside)
    return running_twin(uri)


def running_lane(
    uri: str, args: argparse.Namespace, config: Mapping[str, str]
) -> AbstractContextManager[Contestant | None]:
    """docgraph without the native lane, if both are compared."""
    return running_docgraph(uri, config, native=False) if args.lanes else nullcontext()


def print_rungs(
    workloads: Sequence[Workload],
    contestants: list[Contestant],
    uri: str,
    args: argparse.Namespace,
) -> None:
    """One line per rung."""
    other = contestants[1].name
    if args.beside:
        print(f"{'':16} {'cpu ms':>8} {other[:8]:>8}   quotient, verdict   database ms, quotient")
    else:
        print(
            f"{'':16} {'docgraph/s':>10} {other + '/s':>8} {'ratio':>6} {'bar':>5}"
            "   p50/p99 ms   cpu ms"
        )
    database = find_database(uri)
    for workload in workloads:
        is_shared = args.beside or workload.id in HANDLERS
        rivals = [one for one in contestants if is_shared or one.name != "twin"]
        compare(workload, rivals)
        result = time_rung(workload, rivals, args, database)
        own, rival = result["docgraph"], result.get(other)
        line = (
            format_pair(own, rival) if args.beside and rival else format_rates(own, rival, workload)
        )
        lane = result.get("python lane")
        print(f"{workload.id:16} {line}{format_lane(own, lane) if lane else ''}", flush=True)


def format_lane(own: Result, lane: Result) -> str:
    """CPU per request with the native lane divided by that without it, in pairs."""
    pairs = compare_pairs([one.cpu_ms for one in own.rounds], [one.cpu_ms for one in lane.rounds])
    return f"   python lane {lane.cpu_ms:.3f}, {pairs.render()}"


def format_rates(own: Result, rival: Result | None, workload: Workload) -> str:
    """Requests per second, also of the twin where it knows the rung."""
    ratio = f"{own.rate / rival.rate:.2f}" if rival else ""
    beside = f" ({rival.cpu_ms:.3f}, {own.cpu_ms / rival.cpu_ms:.2f})" if rival else ""
    return (
        f"{own.rate:10.0f} {rival.rate if rival else 0:8.0f} {ratio:>6} {workload.bar or '':>5}"
        f"   {own.p50:.1f}/{own.p99:.1f}   {own.cpu_ms:.3f}{beside}"
    )


def format_pair(own: Result, rival: Result) -> str:
    """CPU per request of two versions, in pairs, and whether this one is slower."""
    pairs = compare_pairs([one.cpu_ms for one in own.rounds], [one.cpu_ms for one in rival.rounds])
    database = [one.database_ms for one in own.rounds]
    database_pairs = compare_pairs(database, [one.database_ms for one in rival.rounds])
    return (
        f"{own.cpu_ms:8.3f} {rival.cpu_ms:8.3f}   {pairs.render()} {pairs.verdict}"
        f"   {median(database):.3f}, {database_pairs.render()}"
    )


def print_related(
    docgraph: Contestant, twin: Contestant, uri: str, args: argparse.Namespace
) -> None:
    """W19: CPU of the server and of the database together, beside that of the twin."""
    print(f"{'':16} {'cpu ms':>8} {'twin':>8}   quotient, bar")
    database = find_database(uri)
    for workload in wanted(related.WORKLOADS, args):
        compare(workload, [docgraph, twin])
        result = time_rung(workload, [docgraph, twin], args, database)
        own, rival = (
            [one.cpu_ms + one.database_ms for one in result[name].rounds]
            for name in (docgraph.name, twin.name)
        )
        pairs = compare_pairs(own, rival).render()
        bar = related.BARS[workload.id]
        line = f"{workload.id:16} {median(own):8.3f} {median(rival):8.3f}   {pairs}, {bar}"
        print(line, flush=True)


def print_cached(uri: str, args: argparse.Namespace) -> None:
    """W17: hits beside a request without data, misses beside the same app without a cache."""
    if wanted(cached.HITS, args):
        print_hits(uri, args)
    print(f"{'':16} {'cpu ms':>10}   without a cache, quotient, bar {MISS_BAR}")
    turns = max(cached.LEAST_TURNS, int(args.seconds * args.rounds / cached.TURN_SECONDS))
    with running_docgraph(uri, cached.FEW_FIT) as docgraph:
        for plain, missed in wanted_misses(args):
            before, after = time_misses(plain, missed, docgraph, turns, args.connections)
            pairs = compare_pairs(after, before).render()
            print(
                f"{missed.id:16} {median(after):10.3f}   {median(before):.3f}, {pairs}", flush=True
            )


def print_hits(uri: str, args: argparse.Namespace) -> None:
    """Hits beside a request without data."""
    print(f"{'':16} {'docgraph/s':>10}   cpu ms   of the rate of W0, bar {HIT_BAR}")
    with running_docgraph(uri) as docgraph:
        first = 0.0
        for workload in cached.HITS:  # all of them: the first one is the measure of the others
            own = time_rung(workload, [docgraph], args)["docgraph"]
            first = first or own.rate
            ratio = f"{own.rate / first:.2f}"
            print(f"{workload.id:16} {own.rate:10.0f}   {own.cpu_ms:.3f}   {ratio}", flush=True)


def wanted_misses(args: argparse.Namespace) -> list[tuple[Workload, Workload]]:
    """Those that were asked for, by name or with all others."""
    ids = {one.id for one in wanted(cached.IDS, args)}
    return [pair for pair in cached.MISSES if pair[1].id in ids]


def time_misses(
    plain: Workload, missed: Workload, docgraph: Contestant, turns: int, connections: int
) -> tuple[list[float], list[float]]:
    """CPU per request of both, in turns; another one begins each time, two turns warm up."""
    found: dict[str, list[float]] = {plain.id: [], missed.id: []}
    for number in range(turns + 2):
        for one in (plain, missed) if number % 2 else (missed, plain):
            bodies, before = one.bodies(), docgraph.cpu()
            measured = load.measure(
                docgraph.port,
                one.path,
                bodies,
                seconds=cached.TURN_SECONDS,
                connections=connections,
            )
            if measured.errors:
                raise SystemExit(f"{one.id}: docgraph answered with errors")
            if measured.requests > len(bodies):
                raise SystemExit(f"{one.id}: requests were sent again")
            if number > 1:
                found[one.id].append((docgraph.cpu() - before) / measured.requests * 1000)
    return found[plain.id], found[missed.id]


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
