"""Several worker processes as one server: they are replaced, and do not outlive their parent."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.process.harness import Server, Wire, eventually, request, run_server, start


def _pids(server: Server) -> set[int]:
    return {one.pid for one in server.workers()}


def test_one_worker_serves_in_the_process_itself() -> None:
    with run_server(workers=1) as server:
        assert server.get("/ping").json["pid"] == server.process.pid


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Server]:
    """Tests may kill a worker, but not the server."""
    with run_server(workers=2) as server:
        yield server
        assert server.stop() == 0


def test_two_workers_listen_before_the_server_says_that_it_is_ready(two_workers: Server) -> None:
    server = two_workers
    assert len(_pids(server)) == 2
    assert server.process.pid not in _pids(server)
    eventually(lambda: {event["worker"] for event in server.named("worker-started")} == {1, 2})
    started = eventually(lambda: server.named("server-started"))
    assert started[0]["workers"] == 2


def test_a_worker_that_dies_is_replaced_and_the_others_serve_on(two_workers: Server) -> None:
    server = two_workers
    before = _pids(server)
    victim = server.workers()[0]

    with _replacing_one(server):
        victim.kill()
        eventually(lambda: victim.pid in _losses(server))
        assert server.get("/ping").status == 200

    assert _losses(server)[victim.pid]["signal"] == "SIGKILL"
    assert len(_pids(server)) == 2
    assert len(_pids(server) & before) == 1


def test_a_worker_that_a_signal_asks_to_stop_is_replaced(two_workers: Server) -> None:
    victim = two_workers.workers()[0]

    with _replacing_one(two_workers):
        victim.terminate()

    assert _losses(two_workers)[victim.pid]["exit_code"] == 0


@pytest.mark.parametrize("total", [8, 13, 100])
def test_workers_share_connections_of_all_kinds(two_workers: Server, total: int) -> None:
    with ExitStack() as stack:
        wires = [stack.enter_context(two_workers.connect()) for _ in range(total)]
        for number, wire in enumerate(wires):
            if number % 3 == 0:
                wire.open_websocket("/ws")
            elif number % 3 == 1:
                wire.send(request("GET", "/events"))
        eventually(lambda: sum(_count_clients(two_workers).values()) == total)
        counts = sorted(_count_clients(two_workers).values())
    assert counts[-1] - counts[0] <= max(1, counts[0] // 4)
    eventually(lambda: not any(_count_clients(two_workers).values()))


def test_a_replacement_gets_connections_of_clients_that_stay(two_workers: Server) -> None:
    with ExitStack() as stack:

        def connect() -> Wire:
            return stack.enter_context(two_workers.connect())

        with _replacing_one(two_workers):
            two_workers.workers()[0].kill()
            wires = [connect() for _ in range(12)]
            assert {wire.get("/ping").status for wire in wires} == {200}

        def are_shared() -> bool:
            for number, wire in enumerate(wires):
                if wire.get("/ping")["connection"] == "close":
                    wires[number] = connect()
            return sorted(_count_clients(two_workers).values())[0] >= 5

        eventually(are_shared)


def _count_clients(server: Server) -> dict[int, int]:
    """Open connections of clients, by worker."""
    return {
        worker.pid: sum(
            1
            for one in worker.net_connections("tcp")
            if one.laddr.port == server.port and one.status == "ESTABLISHED"
        )
        for worker in server.workers()
    }


def test_signals_for_the_whole_group_leave_the_forker_alone(two_workers: Server) -> None:
    for one in (signal.SIGTERM, signal.SIGINT):
        two_workers.forker().send_signal(one)

    with _replacing_one(two_workers):
        two_workers.workers()[0].kill()

    assert two_workers.get("/ping").status == 200


@contextmanager
def _replacing_one(server: Server) -> Iterator[None]:
    """Wait for one more worker than there were, counting also those of tests before."""
    eventually(lambda: len(server.named("worker-started")) - len(_losses(server)) == 2)
    known = len(server.named("worker-started"))
    yield
    eventually(lambda: len(server.named("worker-started")) == known + 1)


def _losses(server: Server) -> dict[int, dict[str, Any]]:
    """What was said about workers that ended, by their process ids."""
    return {event["pid"]: event for event in server.named("worker-lost")}


def test_workers_do_not_outlive_a_parent_that_is_killed() -> None:
    with run_server(workers=2) as server:
        others = [*server.workers(), *server.forkers()]
        server.process.kill()

        _, alive = psutil.wait_procs(others, timeout=60)

        assert not alive


def test_workers_of_a_killed_parent_do_not_wait_for_requests(tmp_path: Path) -> None:
    """The grace of a stop is for a server that somebody looks after."""
    patient = {"connection-options": {"shutdown-timeout-ms": 600_000}}
    with run_server(patient, workers=2) as server, server.connect() as wire:
        wire.send(request("GET", f"/hold?until={tmp_path / 'never'}"))
        eventually(lambda: server.named("request-started"))
        workers = server.workers()

        server.process.kill()

        gone, alive = psutil.wait_procs(workers, timeout=30)
        assert (len(gone), alive) == (2, [])


def test_workers_outlive_their_forker_and_are_replaced_by_its_successor() -> None:
    with run_server(workers=2) as server:
        workers, forker, spare = server.workers(), *_sort_by_use(server)

        forker.kill()

        lost = eventually(lambda: server.named("forker-lost"))
        assert [event["pid"] for event in lost] == [forker.pid]
        assert all(one.is_running() for one in workers)
        assert server.get("/ping").json["pid"] in {one.pid for one in workers}

        with _replacing_one(server):
            workers[0].kill()
        assert set(_losses(server)) == {workers[0].pid}
        eventually(lambda: len(_children_below(spare)) == 2)  # a new forker, and the new worker
        assert server.stop() == 0
        _, alive = psutil.wait_procs([*workers, spare], timeout=60)
        assert not alive


def test_a_spare_forker_is_replaced_too() -> None:
    with run_server(workers=2) as server:
        forker, spare = _sort_by_use(server)
        spare.kill()
        eventually(lambda: len(server.named("forker-lost")) == 1)
        forker.kill()
        eventually(lambda: len(server.named("forker-lost")) == 2)

        with _replacing_one(server):
            psutil.Process(server.named("worker-started")[0]["pid"]).kill()

        assert server.get("/ping").status == 200
        assert server.stop() == 0


def test_a_worker_of_a_stopped_forker_is_replaced_by_the_spare_one() -> None:
    with run_server(workers=2) as server:
        workers, forker, _ = server.workers(), *_sort_by_use(server)
        forker.suspend()

        with _replacing_one(server):
            workers[0].kill()

        assert [event["pid"] for event in server.named("forker-lost")] == [forker.pid]
        assert workers[1].is_running()
        assert server.get("/ping").status == 200
        assert server.stop() == 0


ORDERS = """
import os, signal
from docgraph.server.process import forker
forker._FORK_SECONDS = 0.5
with forker.Forker(lambda order, descriptors: os._exit(order[0])) as forkers:
    first, spare = [line.pid for line in forkers._lines]
    os.kill(first, signal.SIGSTOP)
    process = forkers.fork((7,), ())
    assert process.forker == spare
    assert forkers.restore() == [first]
    while not process.is_over():
        process.sentinel.poll(1)
    print(process.exit_code, len(forkers._lines))
    os.kill(spare, signal.SIGSTOP)
print("over")
"""


def test_an_order_to_a_stopped_forker_is_given_to_the_spare_one() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", ORDERS], capture_output=True, text=True, timeout=60, check=True
    )

    assert (ran.stdout.split(), ran.stderr) == (["7", "2", "over"], "")


def test_a_server_stops_while_its_forkers_are_stopped() -> None:
    quickly = {"connection-options": {"shutdown-timeout-ms": 1}}
    with run_server(quickly, workers=2) as server:
        workers, forkers = server.workers(), server.forkers()
        for one in forkers:
            one.suspend()

        assert server.stop() == 0
        _, alive = psutil.wait_procs([*workers, *forkers], timeout=60)
        assert not alive


def test_a_server_without_any_forker_stops_with_a_clear_message() -> None:
    with run_server(workers=2) as server:
        workers = server.workers()
        server.process.send_signal(signal.SIGSTOP)
        for one in server.forkers():
            one.kill()
        server.process.send_signal(signal.SIGCONT)

        assert server.process.wait(60) == 1
        _, alive = psutil.wait_procs(workers, timeout=60)
        assert not alive
        eventually(lambda: "the processes that start the workers have ended" in str(server.errors))


def _sort_by_use(server: Server) -> list[psutil.Process]:
    """The forker of the workers, then the spare one."""
    return sorted(server.forkers(), key=lambda one: one.pid != server.forker().pid)


def _children_below(process: psutil.Process) -> list[psutil.Process]:
    return list(process.children(recursive=True))


def test_a_worker_that_cannot_start_ends_the_start_with_its_message_once() -> None:
    settings = {"http-listener": {"port": 0}, "core": {"workers": 2}}
    process = start(settings, SAMPLE_FAILS="1")

    output, errors = process.communicate()

    assert process.returncode == 1
    assert output == ""
    assert errors.count("the sample cannot start") == 1, errors


def test_an_application_that_cannot_start_ends_the_start() -> None:
    process = start({"http-listener": {"port": 0}}, SAMPLE_FAILS="1")

    output, errors = process.communicate()

    assert process.returncode == 1
    assert output == ""
    assert errors.count("the sample cannot start") == 1, errors
